"""Results as one archive for other clones: all results behind a figure or a study, with their records."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bnn_atlas import records
from bnn_atlas.export.archive import PIECE, Archive, ArchiveError, as_json, opened, write_archive
from bnn_atlas.export.crate import METADATA, crate
from bnn_atlas.files import atomic, remove, remove_leftovers

FORMAT = "bnn-atlas results 1"
WHAT = "an archive of results, made by `snakemake export --config what=...`"
RESULTS, PICTURES, DATA = "results", "figures", "data"
"""Folders of results that a clone adds to its own results, of pictures to look at, and of data (not included)."""
REMADE = (PICTURES, "claims", "claims.parquet", "site")
"""Results that a clone makes itself."""
_PART = r"/(?!\.\.?(?:/|$))[^/\\\0]+"
NAMES = rf"{re.escape(METADATA)}|(?:{RESULTS}|{PICTURES})(?:{_PART})+/?"
"""Pattern of the archive's file names: no name leads out of the folder into which the archive is unpacked."""


class Unpacked(NamedTuple):
    """The contents of an archive, and the files that unpacking added."""

    archive: str
    made_by: dict[str, dict[str, Any]]
    """Name of the result (or data) next to which a record lies -> the record."""
    added: list[Path]

    def take_back(self) -> None:
        """Remove the files that unpacking added."""
        for path in reversed(self.added):
            remove(path)


class _Job(NamedTuple):
    """A record in an archive, and the files of its job's outputs."""

    record: str
    """Its name below the results."""
    content: dict[str, Any]
    files: dict[str, dict[str, str]]
    """Name of each output -> name of each of its files in the archive -> its SHA-256; empty for data."""

    @property
    def own(self) -> str:
        """The output next to which the record lies."""
        path = Path(self.record)
        return path.with_name(path.name.removeprefix(".").removesuffix(".record")).as_posix()


def save_results(path: str | Path, made: Iterable[str | Path], results: str | Path, about: Mapping[str, Any]) -> None:
    """Write all results from which some files were made into an archive (atomic), which is also an RO-Crate.

    Data are not included, only the records of the jobs that fetched the data.

    Args:
        path: the archive.
        made: the files; pictures among them are included to be looked at.
        results: folder with the results of one scale.
        about: facts for the RO-Crate that are not in the records (`export.crate.crate`).

    Raises:
        ArchiveError: one of the results has no record.
        DamagedInput: a result differs from its record.
    """
    folder, files = Path(results), [records.name_of(file, results) for file in made]
    found = list(_behind(files, folder))
    kept = [record for record in found if not _is_in(next(iter(record["outputs"])), (DATA, *REMADE))]
    records.digests_of_inputs([folder / name for record in kept for name in record["outputs"]], folder)
    pictures = [name for name in files if _is_in(name, [PICTURES])]
    metadata = crate(about, folder.name, pictures, found)

    def contents() -> Iterator[tuple[str, Iterable[bytes]]]:
        yield METADATA, [as_json(metadata)]
        yield f"{RESULTS}/{folder.name}/", []
        yield from ((name, _pieces(folder / name)) for name in pictures)
        chosen = [file for record in kept for name in record["outputs"] for file in _files(folder / name)]
        chosen += [_file_of(record, folder) for record in found if not _is_in(next(iter(record["outputs"])), REMADE)]
        for file in sorted(chosen):
            yield f"{RESULTS}/{folder.name}/{file.relative_to(folder).as_posix()}", _pieces(file)

    write_archive(path, FORMAT, contents())


def unpack(path: str | Path, results: str | Path, *, only_missing: bool = False) -> Unpacked:
    """Put the results of an archive among the results of the same scale, marked by its SHA-256 in their records.

    With `only_missing`, results of jobs of which anything is here already are left as they are.

    All missing results are verified before the first file is written. Whenever the process ends, each result is either
    complete or absent; the next call continues.

    Raises:
        ArchiveError: this is not such an archive, it is damaged or of another scale, or a different result exists here.
    """
    folder = Path(results)
    if not Path(path).exists():
        raise ArchiveError(f"{path}: no such file; give the path of {WHAT}")
    with opened(path, FORMAT, WHAT, [METADATA], NAMES) as archive:
        scales = {name.split("/")[1] for name in archive.listed if name.startswith(f"{RESULTS}/")}
        if other := " and ".join(sorted(scales - {folder.name})):
            raise ArchiveError(f"{path}: it is of scale {other}, not {folder.name}: add `--config scale={other}`")
        jobs = list(_jobs(path, archive, f"{RESULTS}/{folder.name}/"))
        wanted = [job for job in jobs if not (only_missing and _is_begun(job, folder))]
        missing = [job for job in wanted if job.files and _is_missing(path, job, folder)]
        for name in (name for job in missing for files in job.files.values() for name in files):
            for _ in archive.parts(name):
                pass
        mark = {records.PUBLISHED: records.digest(Path(path))} if missing else {}
        added = [new for job in missing for new in _put(archive, job, folder, mark)]
    return Unpacked(str(path), {job.own: job.content for job in jobs}, added)


def _behind(files: Iterable[str], results: Path) -> Iterator[dict[str, Any]]:
    """The records of the jobs that made some files, and of all jobs behind these; ArchiveError if one is missing."""
    seen: set[str] = set()
    for name in (waiting := list(files)):
        if name in seen:
            continue
        if record := records.made_by(results / name, results):
            yield record
            seen.update(record["outputs"])
            waiting += record["inputs"]
        elif (results / name).exists():
            raise ArchiveError(f"{results / name}: there is no record of what made it; delete it and make it again")


def _file_of(record: Mapping[str, Any], results: Path) -> Path:
    """Path of a record."""
    files = [(results / name).with_name(f".{Path(name).name}.record") for name in record["outputs"]]
    return next(file for file in files if records.read(file) == record)


def _files(result: Path) -> list[Path]:
    return [result / name for name in records.inside(result)] if result.is_dir() else [result]


def _is_in(name: str, folders: Iterable[str]) -> bool:
    return Path(name).parts[0] in folders


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            yield piece


def _jobs(path: str | Path, archive: Archive, prefix: str) -> Iterator[_Job]:
    """The jobs whose records an archive has; ArchiveError if results and records do not match."""
    inside: dict[str, dict[str, str]] = {}
    for name in (name for name in archive.listed if name.startswith(prefix)):
        for parent in [name, *map(str, Path(name).parents)]:
            inside.setdefault(parent, {})[name] = archive.listed[name]["sha256"]
    for name in (name for name in archive.listed if re.fullmatch(r"\..+\.record", Path(name).name)):
        content = records.parsed_text(b"".join(archive.parts(name)).decode("utf-8", "replace"))
        if not {"rule", "settings", "inputs", "outputs"} <= content.keys():
            raise ArchiveError(f"{path}: {name} is not the record of a job; export the archive again")
        is_data = _is_in(name.removeprefix(prefix), [DATA])
        files = {} if is_data else {each: inside.get(prefix + each, {}) for each in content["outputs"]}
        for each, found in files.items():
            whole = prefix + each
            digest = found.get(whole) or records.digest_of_folder(
                {file.removeprefix(f"{whole}/"): digest for file, digest in found.items()}
            )
            if digest != content["outputs"][each]:
                raise ArchiveError(f"{path}: {whole} differs from its record; export the archive again")
        yield _Job(name.removeprefix(prefix), content, files)


def _is_begun(job: _Job, results: Path) -> bool:
    """Whether there is a result of a job, or its record, here."""
    return (results / job.record).exists() or any((results / name).exists() for name in job.files)


def _is_missing(path: str | Path, job: _Job, results: Path) -> bool:
    """Whether an output of a job, or its record, is missing here; ArchiveError if a different one exists."""
    record = results / job.record
    if record.exists() and records.is_busy(record):
        raise ArchiveError(f"{path}: a job is making {results / job.own}: wait until it has ended")
    there = [results / name for name in job.files if (results / name).exists()]
    for file in there:
        digest = job.content["outputs"][records.name_of(file, results)]
        if (records.stated(file, results) or records.digest(file)) != digest:
            raise ArchiveError(
                f"{path}: {file} is there already, and differs: delete it, or keep both, with the archive's in another "
                "folder: `--config results=results_published`"
            )
    return len(there) < len(job.files) or not records.made_by(there[0], results)


def _put(archive: Archive, job: _Job, results: Path, mark: Mapping[str, str]) -> Iterator[Path]:
    """Write the missing files of a job's outputs, and yield each file.

    The record is written first, so that no result is ever without the mark, and the output next to the record last: if
    this output exists, all other outputs of the job exist.
    """
    record = results / job.record
    record.parent.mkdir(parents=True, exist_ok=True)
    records.write(record, {**job.content, **mark})
    yield record
    for name in sorted(job.files, key=lambda each: each == job.own):
        target, files = results / name, job.files[name]
        if target.exists():
            continue
        remove_leftovers(target)
        with atomic(target) as temporary:
            for file in files:
                below = file.removeprefix(f"{RESULTS}/{results.name}/{name}")
                place = temporary / below[1:] if below else temporary
                place.parent.mkdir(parents=True, exist_ok=True)
                with place.open("wb") as handle:
                    handle.writelines(archive.parts(file))
        yield target
