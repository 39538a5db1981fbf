"""Archives of results: what comes back, with which mark, what is refused, and what is left if a process is killed."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bnn_atlas import records
from bnn_atlas.export import results as module
from bnn_atlas.export.archive import ArchiveError, read_archive, write_archive
from bnn_atlas.export.crate import METADATA
from bnn_atlas.export.results import FORMAT, WHAT, save_results, unpack

ABOUT: dict[str, Any] = {
    "target": "curve",
    "version": "0.2.0",
    "papers": {"study": "Someone, A paper, 2025", "other": "Nobody, Another one, 2024"},
    "data": {
        "rows": {"title": "some rows", "licence": "CC BY 4.0", "urls": ["https://example.org/rows.csv"]},
        "unused": {"title": "other rows", "licence": "unknown", "urls": []},
    },
}
JOBS = {
    "prepare": ([], ["data/rows/prepared.npz"]),
    "sample": (["data/rows/prepared.npz"], ["study/run/trace.zarr", "study/run/fit.npz"]),
    "metrics": (["study/run/trace.zarr"], ["study/run/metrics.parquet"]),
    "study_curve": (["study/run/metrics.parquet"], ["figures/study/curve.csv", "figures/study/curve.png"]),
    "other": ([], ["study/other/metrics.parquet"]),
}
MADE = JOBS["study_curve"][1]
RESULTS = {*JOBS["sample"][1], *JOBS["metrics"][1]}
"""What a clone gets."""


def make(folder: Path, files: dict[str, str] | None = None) -> Path:
    """Results of a small study, each with its record."""
    for rule, (inputs, outputs) in JOBS.items():
        for name in outputs:
            path = folder / name
            for file in [path / "zarr.json", path / "c" / "0"] if path.suffix == ".zarr" else [path]:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text((files or {}).get(name, f"{rule} wrote {file.name}"))
        content = {"rule": rule, "settings": [{"seed": 1}], "commit": "abc", "processor": "a fast one"}
        content["inputs"] = records.digests([folder / name for name in inputs], folder)
        content["outputs"] = records.digests([folder / name for name in outputs], folder)
        records.write(records.record_of(folder / outputs[0]), content)
    return folder


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    folder = make(tmp_path / "there" / "results" / "demo")
    save_results(tmp_path / "curve.zip", [folder / name for name in MADE], folder, ABOUT)
    return tmp_path / "curve.zip"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return tmp_path / "here" / "results" / "demo"


def contents(folder: Path) -> dict[str, str]:
    """Result -> its SHA-256."""
    return {name: records.digest(folder / name) for name in RESULTS if (folder / name).exists()}


def mark(name: str, folder: Path) -> Any:
    return records.made_by(folder / name, folder).get(records.PUBLISHED)


def test_what_a_figure_was_made_from_comes_back_marked(archive: Path, here: Path) -> None:
    """All results of the jobs behind it, but data, and not the figure itself or other results."""
    unpacked = unpack(archive, here)
    there = archive.parent / "there" / "results" / "demo"
    assert contents(here) == contents(there)
    assert contents(here).keys() == RESULTS
    assert {path.name for path in here.iterdir()} == {"study"}
    assert {mark(name, here) for name in RESULTS} == {records.digest(archive)}
    assert unpacked.made_by.keys() == {JOBS[rule][1][0] for rule in ("prepare", "sample", "metrics")}
    before = {path: path.stat().st_mtime_ns for path in here.rglob("*")}
    assert unpack(archive, here).added == []
    assert {path: path.stat().st_mtime_ns for path in here.rglob("*")} == before
    unpacked.take_back()
    assert [path for path in here.rglob("*") if path.is_file()] == []


def test_equal_results_give_equal_bytes(archive: Path) -> None:
    folder, again = archive.parent / "there" / "results" / "demo", archive.with_name("again.zip")
    save_results(again, [folder / name for name in MADE], folder, ABOUT)
    assert again.read_bytes() == archive.read_bytes()


def test_what_was_made_here_stays_as_it_is(archive: Path, here: Path) -> None:
    make(here)
    (here / "study/run/metrics.parquet").unlink()
    unpack(archive, here)
    assert contents(here).keys() == RESULTS
    assert mark("study/run/trace.zarr", here) is None
    assert mark("study/run/metrics.parquet", here) == records.digest(archive)


@pytest.mark.parametrize("name", JOBS["sample"][1])
@pytest.mark.parametrize("is_recorded", [True, False])
def test_what_was_made_here_and_differs_is_not_replaced(
    archive: Path, here: Path, name: str, is_recorded: bool
) -> None:
    make(here, {name: "made here"})
    if not is_recorded:
        for record in here.rglob(".*.record"):
            record.unlink()
    (here / "study/run/metrics.parquet").unlink()
    before = contents(here)
    with pytest.raises(ArchiveError, match=r"is there already, and differs: delete it, or"):
        unpack(archive, here)
    assert contents(here) == before


@pytest.mark.parametrize("written", range(6))
def test_a_kill_leaves_no_result_without_its_mark(
    archive: Path, here: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    """However many files and records were written; and a job's own output is there only if all others are."""
    usual, left = {"atomic": module.atomic, "write": records.write}, [written]

    def killed(name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
            return usual[name](*arguments, **named)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(module, "atomic", killed("atomic"))
        patch.setattr(records, "write", killed("write"))
        if written < 5:
            with pytest.raises(KeyboardInterrupt):
                unpack(archive, here)
        else:
            unpack(archive, here)
    assert all(mark(name, here) == records.digest(archive) for name in contents(here))
    if (here / "study/run/trace.zarr").exists():
        assert (here / "study/run/fit.npz").exists()
    elif (here / "study/run").exists():
        (here / "study/run/.trace.0123abcd.zarr").mkdir()
    unpack(archive, here)
    assert not (here / "study/run/.trace.0123abcd.zarr").exists()
    assert contents(here).keys() == RESULTS


def test_another_scale_is_refused(archive: Path, here: Path) -> None:
    with pytest.raises(ArchiveError, match=r"it is of scale demo, not laptop: add `--config scale=demo`"):
        unpack(archive, here.with_name("laptop"))
    assert not here.with_name("laptop").exists()


def rewritten(path: Path, change: Callable[[dict[str, bytes]], Any]) -> None:
    """The archive with other contents and right checksums."""
    files = read_archive(path, FORMAT, WHAT)
    change(files)
    write_archive(path, FORMAT, ((name, [content]) for name, content in files.items()))


FIT, RECORD = "results/demo/study/run/fit.npz", "results/demo/study/run/.metrics.parquet.record"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda files: files.update({FIT: b"other"}), "fit.npz differs from its record"),
        (lambda files: files.pop(FIT), "fit.npz differs from its record"),
        (lambda files: files.update({RECORD: b"{}"}), "is not the record of a job"),
        (lambda files: files.update({RECORD: files[RECORD].replace(b"abc", b"abd")}), "is not the record of a job"),
        (lambda files: files.update({"results/demo/../../escaped": b""}), r"unknown: results/demo/\.\./\.\./escaped"),
        (lambda files: files.update({"/tmp/escaped": b""}), "unknown: /tmp/escaped"),
        (lambda files: files.update({"results/demo/a\\..\\b": b""}), "unknown: results"),
        (lambda files: files.update({"results/demo/./a": b""}), "unknown: results"),
        (lambda files: files.pop(METADATA), f"missing: {METADATA}"),
    ],
)
def test_whatever_is_wrong_is_named_and_nothing_is_unpacked(
    archive: Path, here: Path, change: Callable[[dict[str, bytes]], Any], message: str
) -> None:
    rewritten(archive, change)
    with pytest.raises(ArchiveError, match=rf"curve\.zip: .*{message}"):
        unpack(archive, here)
    assert not here.exists()


def test_damage_is_noticed_before_anything_is_unpacked(archive: Path, here: Path) -> None:
    with zipfile.ZipFile(archive) as file:
        place = file.getinfo("results/demo/study/run/trace.zarr/zarr.json").header_offset + 100
    content = bytearray(archive.read_bytes())
    place = content.index(b"sample wrote zarr.json")
    content[place] ^= 1
    archive.write_bytes(content)
    with pytest.raises(ArchiveError, match=r"zarr\.json"):
        unpack(archive, here)
    assert not here.exists()


@pytest.mark.parametrize(
    ("spoil", "error", "message"),
    [
        (
            lambda folder: (folder / "study/run/.metrics.parquet.record").unlink(),
            ArchiveError,
            "no record of what made it",
        ),
        (lambda folder: (folder / "study/run/fit.npz").write_text("damaged"), records.DamagedInput, "changed or dam"),
    ],
)
def test_results_that_cannot_be_trusted_are_not_packed(
    here: Path, spoil: Callable[[Path], Any], error: type[Exception], message: str
) -> None:
    make(here)
    spoil(here)
    with pytest.raises(error, match=message):
        save_results(here / "curve.zip", [here / name for name in MADE], here, ABOUT)
    assert not (here / "curve.zip").exists()


def test_the_archive_is_a_research_object_crate(archive: Path, tmp_path: Path) -> None:
    """As its library reads it: what was run on which data, what came out, and where the pictures are."""
    from rocrate.rocrate import ROCrate

    with zipfile.ZipFile(archive) as file:
        file.extractall(tmp_path / "crate")
    found = ROCrate(tmp_path / "crate")
    (action,) = [entity for entity in found.get_entities() if entity.type == "CreateAction"]
    assert action["name"] == "snakemake --cores 2 curve --config scale=demo"
    assert action["object"]["license"] == "CC BY 4.0"
    assert action["instrument"]["softwareVersion"] == "0.2.0, commit abc"
    pictures = [entity.id for entity in action["result"] if entity.type == "File"]
    assert pictures == sorted(MADE)
    assert all((tmp_path / "crate" / entity.id).exists() for entity in found.data_entities if entity.id[0] != "h")
    assert found.root_dataset["citation"]["name"] == "Someone, A paper, 2025"
    text = json.loads((tmp_path / "crate" / METADATA).read_text())
    assert "other rows" not in json.dumps(text)
