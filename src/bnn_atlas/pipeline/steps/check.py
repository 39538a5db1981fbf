"""Check that all results match their records."""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from bnn_atlas import records
from bnn_atlas.files import is_temporary, remove
from bnn_atlas.locks import lock

log = logging.getLogger(__name__)
ASIDE = ("logs", "benchmarks", "records", "so_far", "site")
"""Folders below the results that hold no results."""
SHOWN = 12
"""Paths of a kind that are printed; the log lists all."""


class Found(NamedTuple):
    """Paths below the results that do not match their records; `whole` counts the matching ones."""

    whole: int
    damaged: dict[Path, Path]
    """Damaged file -> its record, which may be what is damaged."""
    missing: list[Path]
    stale: list[Path]
    """Made from results that have been made again since, with other contents."""
    unrecorded: list[Path]
    """Results without a record; the ones from which others were made come first."""
    left_over: list[Path]

    def text(self, results: Path, mend: bool, shown: int | None = None) -> str:
        """A line for each kind, with its paths, at most `shown` of them."""
        kinds = {
            "damaged": [*self.damaged],
            "missing, though recorded (made when something needs it)": self.missing,
            "stale: what they were made from has changed (the next call that needs them makes them again)": self.stale,
            "without a record (made by an earlier version, or not by this pipeline)": self.unrecorded,
            "left over by jobs that were killed, or from results that are gone": self.left_over,
        }
        lines = [f"{self.whole:,} results in {results} are as recorded."]
        for kind, paths in kinds.items():
            if paths:
                lines += [f"{len(paths):,} {kind}:", *(f"  {path}" for path in paths[:shown])]
                more = len(paths) - len(paths[:shown])
                lines += [f"  and {more:,} more, listed in {results / 'logs' / 'check.log'}"] if more else []
        if self.damaged or self.left_over:
            removed = "is removed" if mend else "is removed by `--config mend=true`"
            lines.append(f"What is damaged or left over {removed}; a call that needs it makes it again.")
        return "\n".join(lines)


def check(*, results: str | Path, mend: bool) -> None:
    """Read every result and compare it with its record; with `mend`, remove what is damaged or left over.

    Raises:
        SystemExit: something is damaged, and was not removed.
    """
    found = look_at(Path(results))
    if mend:
        for path, record in found.damaged.items():
            _remove_damaged(path, record, Path(results))
        _remove_lists_of(found.damaged, Path(results))
        for path in found.left_over:
            if path.exists() and not any(map(records.is_busy, path.parent.glob(".*.record"))):
                remove(path)
    log.info("%s", found.text(Path(results), mend))
    if found.damaged and not mend:
        raise SystemExit(1)  # Snakemake prints the log of a job that fails
    print(found.text(Path(results), mend, SHOWN))


def _remove_damaged(path: Path, record: Path, results: Path) -> None:
    """Remove a result that is still damaged when no job makes it, and its record with its last output."""
    with lock(record, f"to look at {path} again") as (file, _):
        outputs = records.parsed_text(file.read()).get("outputs", {})
        if path != record and path.exists() and records.digest(path) != outputs.get(records.name_of(path, results)):
            remove(path)
        if not any((results / name).exists() for name in outputs):
            remove(record)


def _remove_lists_of(damaged: Iterable[Path], results: Path) -> None:
    """Remove the lists of traces that have lost one: what needs the list then makes the trace again."""
    gone = {records.name_of(path, results) for path in damaged if path.suffix == ".zarr" and not path.exists()}
    for record in sorted(results.rglob(".*.record")) if gone else ():
        content = records.read(record)
        if content.get("rule") == "pool" and gone & {*content["inputs"]}:
            for path in [*(results / name for name in content["outputs"]), record]:
                remove(path)


def look_at(results: Path) -> Found:
    """Compare all files with their records; files of a job that is running count neither way."""
    found = Found(0, {}, [], [], [], [])
    known: dict[Path, str] = {}
    used: dict[Path, Mapping[str, str]] = {}
    busy, whole = set(), 0
    for record in sorted(results.rglob(".*.record")):
        if records.is_busy(record):
            busy.add(record.parent)
        elif records.is_unreadable(record):
            found.damaged[record] = record
        content = records.read(record)
        outputs = {results / name: digest for name, digest in content.get("outputs", {}).items()}
        # Files elsewhere are not to be removed, whatever a record says.
        outputs = {path: digest for path, digest in outputs.items() if results.resolve() in path.resolve().parents}
        known.update(outputs)
        if outputs and not any(path.exists() for path in outputs):
            found.left_over.append(record)
            continue
        for path, digest in outputs.items():
            if not path.exists():
                found.missing.append(path)
            elif records.digest(path) != digest:
                found.damaged[path] = record
            else:
                whole += 1
                used[path] = content.get("inputs", {})
    inputs = {results / name for names in used.values() for name in names}
    for path, names in used.items():
        if any(known.get(results / name, digest) != digest for name, digest in names.items()):
            found.stale.append(path)
    for path in _files(results, known):
        if path.parent in busy or path in found.damaged or path.relative_to(results).parts[0] in ASIDE:
            continue
        if _is_left_over(path):
            found.left_over.append(path)
        elif path not in known and not path.name.startswith(".") and not path.name.endswith(".partial"):
            found.unrecorded.append(path)
    found.unrecorded.sort(key=lambda path: path not in inputs)
    return found._replace(whole=whole)


def _files(folder: Path, known: Collection[Path]) -> Iterator[Path]:
    """All files in a folder and its folders, except in those that are one result, unfinished or left over."""
    for path in sorted(folder.iterdir()):
        if path.is_dir() and path not in known and not _is_left_over(path) and path.suffix not in (".zarr", ".partial"):
            yield from _files(path, known)
        else:
            yield path


def _is_left_over(path: Path) -> bool:
    """Whether no job will ever use a file or folder again, unless one is running."""
    name = path.name
    if name.startswith(".") and path.suffix in (".record", ".lock"):
        result = path.with_name(name.removeprefix(".").removesuffix(path.suffix))
        needless = path.with_suffix(".record").exists() if path.suffix == ".lock" else False
        return needless or not (result.exists() or records.read(path))
    if name.endswith(".partial"):
        return path.with_name(name.removesuffix(".partial")).exists()
    before = name.startswith(".") and name.endswith(".before")
    return is_temporary(path) or (before and path.with_name(name[1:].removesuffix(".before")).exists())
