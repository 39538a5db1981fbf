"""`snakemake check`: what is not as recorded, and what mending removes."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from bnn_atlas.pipeline.steps.check import check, look_at
from bnn_atlas.records import digests, held

WHOLE = ("tables/a.csv", "tables/b.csv", "run/trace.zarr/zarr.json", "figures/b.pdf", "figures/b.csv")
OTHERS = {
    "damaged": {"tables/damaged.csv"},
    "missing": {"tables/missing.csv"},
    "stale": {"figures/b.csv", "figures/b.pdf"},
    "unrecorded": {"tables/own.csv", "run/old.zarr"},
    "left_over": {
        "figures/.b.0123abcd.csv",
        "figures/.old.pdf.record",
        "figures/.gone.pdf.record",
        "figures/.gallery.0123abcd",
        "run/.trace.zarr.lock",
        "run/trace.zarr.partial",
    },
}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Results with something of each kind, and a block that is being sampled."""
    folder = tmp_path / "results" / "demo"
    files = [*WHOLE, *(file for files in OTHERS.values() for file in files), "run/next.zarr.partial", "logs/a.log"]
    for file in files:
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix in (".zarr", ".partial"):
            path.mkdir()
        elif not path.is_dir():
            path.write_text("" if ".record" in file else file)
    for outputs in (["tables/a.csv"], ["run/trace.zarr"]):
        record(folder, *outputs)
    inputs = {"tables/a.csv": "what it was", "tables/own.csv": "what it was", "run/trace.zarr": "what it was"}
    record(folder, "figures/b.pdf", "figures/b.csv", inputs=inputs)
    (folder / "figures" / "gone.pdf").touch()
    for outputs in (["tables/damaged.csv"], ["tables/missing.csv", "tables/b.csv"], ["figures/gone.pdf"]):
        record(folder, *outputs)
    (folder / "tables" / "damaged.csv").write_text("tables/damaged-csv")
    for file in ("tables/missing.csv", "figures/gone.pdf"):
        (folder / file).unlink()
    (folder / "run" / ".trace.zarr.lock").touch()
    return folder


def record(folder: Path, *outputs: str, inputs: Mapping[str, str] = {}) -> None:
    with held(folder / outputs[0]) as one:
        one.content = {"inputs": inputs, "outputs": digests([folder / file for file in outputs], folder)}


def names(paths: list[Path], results: Path) -> set[str]:
    return {path.relative_to(results).as_posix() for path in paths}


def test_every_file_is_of_one_kind(results: Path) -> None:
    found = look_at(results)
    assert found.whole == len(WHOLE)
    assert {kind: names(getattr(found, kind), results) for kind in OTHERS} == OTHERS
    assert found.unrecorded[0] == results / "tables" / "own.csv", "others are made from it"


def test_damage_ends_with_an_error_and_mending_removes_it(results: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = sorted(results.rglob("*"))
    caplog.set_level("INFO")
    with pytest.raises(SystemExit, match="1"):
        check(results=results, mend=False)
    assert "1 damaged:" in caplog.text
    assert "mend=true" in caplog.text
    assert sorted(results.rglob("*")) == before
    check(results=results, mend=True)
    gone = {results / file for file in (*OTHERS["damaged"], *OTHERS["left_over"], "tables/.damaged.csv.record")}
    assert {path for path in before if not path.exists()} == gone
    assert not look_at(results).left_over, "mending leaves nothing to mend"


def test_the_record_of_a_job_that_was_killed_is_not_damaged(results: Path) -> None:
    (results / "figures" / ".killed.pdf.record").write_text("\nheld by process (1 on here)\n")
    (results / "figures" / ".flipped.pdf.record").write_text("flipped")
    found = look_at(results)
    assert names([*found.damaged], results) == OTHERS["damaged"] | {"figures/.flipped.pdf.record"}
    assert names(found.left_over, results) == OTHERS["left_over"] | {"figures/.killed.pdf.record"}


@pytest.mark.parametrize("text", ['{"outputs": 3}', '{"outputs": {"tables/a.csv": 0}}', "[]", "{", "flipped"])
def test_a_damaged_record_condemns_no_result(results: Path, text: str) -> None:
    path = results / "tables" / ".a.csv.record"
    path.write_text(path.read_text().replace('"outputs"', '"outputz"') if text == "flipped" else text)
    found = look_at(results)
    assert path in found.damaged
    assert results / "tables" / "a.csv" in found.unrecorded
    check(results=results, mend=True)
    assert not path.exists()
    assert (results / "tables" / "a.csv").exists()


def test_nothing_outside_of_the_results_is_removed_whatever_a_record_says(results: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    outputs = dict.fromkeys((str(tmp_path / "notes.txt"), "../../notes.txt", "", ".", ".."), "0")
    with held(results / "tables" / "own.csv") as one:
        one.content = {"outputs": outputs}
    check(results=results, mend=True)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert (results / "tables" / "a.csv").exists()


def test_a_list_goes_with_the_trace_that_it_names(results: Path) -> None:
    (results / "pool.json").write_text("[]")
    with held(results / "pool.json") as one:
        inputs = digests([results / "run" / "trace.zarr"], results)
        one.content = {"rule": "pool", "inputs": inputs, "outputs": digests([results / "pool.json"], results)}
    (results / "run" / "trace.zarr" / "zarr.json").write_text("flipped")
    check(results=results, mend=True)
    assert not (results / "run" / "trace.zarr").exists()
    assert not (results / "pool.json").exists()
    assert not look_at(results).left_over


def test_what_a_job_has_made_again_meanwhile_is_not_removed(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = look_at(results)
    (results / "tables" / "damaged.csv").write_text("made again")
    record(results, "tables/damaged.csv")
    monkeypatch.setattr("bnn_atlas.pipeline.steps.check.look_at", lambda _: found)
    check(results=results, mend=True)
    assert (results / "tables" / "damaged.csv").read_text() == "made again"


def test_nothing_next_to_a_result_that_is_being_made_counts_as_left_over(results: Path) -> None:

    code = f"""
from bnn_atlas.records import held
with held({str(results / "figures" / "c.pdf")!r}):
    print("holds", flush=True)
    input()
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], text=True, **pipes) as process:
        assert process.stdout.readline() == "holds\n"
        assert "figures/.b.0123abcd.csv" not in names(look_at(results).left_over, results)
        process.communicate("\n")
    assert "figures/.b.0123abcd.csv" in names(look_at(results).left_over, results)


def test_the_list_is_short_and_the_log_has_all(
    results: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    for number in range(500):
        (results / "tables" / f"own{number}.csv").touch()
    (results / "tables" / "damaged.csv").unlink()
    check(results=results, mend=False)
    text = capsys.readouterr().out
    assert "502 without a record" in text
    assert len(text.splitlines()) < 40
    assert all(f"own{number}.csv" in caplog.text for number in range(500))
