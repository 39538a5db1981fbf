"""`python -m bnn_atlas why`: what made a result, and what would run for it now."""

import hashlib
import json

import pytest

from bnn_atlas.__main__ import main
from bnn_atlas.pipeline import why
from bnn_atlas.pipeline.changes import planned
from tests.copies import REPOSITORY

from .workspace import FIGURES, RESULTS, STUDY, edit

BLOCK = RESULTS / "sampling_perspective" / "second" / "split0" / "block0"


@pytest.fixture
def asked(monkeypatch, capsys):
    """Asks in a folder; gives the answer, title of each paragraph -> its text."""

    def ask(folder, what):
        monkeypatch.chdir(folder)
        assert main(["why", str(what)]) == 0
        return dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())

    return ask


@pytest.fixture
def unplanned(monkeypatch):
    """No dry run, for what is said about the past."""
    monkeypatch.setattr(why, "_now", lambda target, config: {"Now": target, "Command": " ".join(config)})


def test_a_figure_says_what_made_it_and_that_it_is_up_to_date(finished, asked):
    before = {path: path.stat().st_mtime_ns for path in (finished / "results").rglob("*")}
    said = asked(finished, "cumulative_lppd")
    assert said["Now"] == "nothing would run"
    assert said["Command"] == "snakemake --cores 2 --config scale=demo -- cumulative_lppd"
    assert said["Of"] == str(FIGURES / "cumulative_lppd.pdf")
    assert "run second" in said["Made by"]
    data = hashlib.sha256((finished / RESULTS / "data/diabetes/prepared.npz").read_bytes()).hexdigest()
    assert f"data/diabetes/prepared.npz, SHA-256 {data}" in said["Data"]
    lock = hashlib.sha256((finished / "requirements.lock").read_bytes()).hexdigest()
    assert lock in said["Packages"]
    assert "kernel" in said["Machine"]
    assert "second/split0/metrics/metrics.parquet (by metrics from " in said["Inputs"]
    assert " in " in said["Made"]
    assert "Damaged" not in said
    assert {path: path.stat().st_mtime_ns for path in (finished / "results").rglob("*")} == before


def test_a_changed_setting_is_why_something_would_run(workspace, asked):
    edit(workspace / STUDY, "trajectory_length: 0.05", "trajectory_length: 0.06")
    said = asked(workspace, BLOCK / "trace.zarr" / "zarr.json")
    assert said["Of"] == str(BLOCK / "trace.zarr")
    assert "method.trajectory_length 0.05" in said["Settings other than defaults"]
    assert "method.burn_in 5" in said["Settings other than defaults"]
    assert "method.thinning" not in said["Settings other than defaults"]
    assert said["Now"].startswith("1 job would run")
    assert "method.trajectory_length from 0.05 to 0.06" in said["Now"]


@pytest.mark.parametrize(
    ("what", "owner"),
    [
        ("second", BLOCK / "trace.zarr"),
        (FIGURES / "fireball.png", FIGURES / "fireball.png"),
        (RESULTS / "site" / "index.html", RESULTS / "site"),
        (RESULTS / "tables" / "sampling_perspective.parquet", RESULTS / "tables" / "sampling_perspective.parquet"),
    ],
)
def test_any_file_has_the_record_of_its_job(finished, asked, unplanned, what, owner):
    said = asked(finished, what)
    assert said["Of"] == str(owner)
    assert said["Now"] == (str(owner) if "/" in str(what) else what)
    assert "SHA-256" in said["Data"]


def test_an_edited_file_is_called_damaged(workspace, asked, unplanned):
    with (workspace / FIGURES / "cumulative_lppd.csv").open("a") as file:
        file.write("\n")
    assert "Damaged" in asked(workspace, FIGURES / "cumulative_lppd.csv")


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("cumulative_lpd", "cumulative_lppd"),
        ("secnd", "second"),
        (FIGURES / "firebal.png", "fireball"),
        (BLOCK / "trac.zarr", "trace.zarr"),
    ],
)
def test_what_does_not_exist_gets_a_suggestion(finished, monkeypatch, capsys, wrong, meant):
    monkeypatch.chdir(finished)
    assert main(["why", str(wrong)]) == 1
    assert f"did you mean '{meant}'" in capsys.readouterr().err


def test_what_no_rule_makes_cannot_be_made(workspace, asked):
    said = asked(workspace, RESULTS / "logs")
    assert said["Made"] == "not recorded"
    assert said["Now"].startswith("cannot be made. MissingRuleException")


def test_a_kept_figure_says_what_is_kept_of_its_runs(asked, unplanned):
    folder = REPOSITORY / "docs/results/sampling_perspective"
    said = asked(REPOSITORY, "docs/results/sampling_perspective/calibration.png")
    assert said["Now"] == "sampling_perspective_calibration"
    assert said["Command"] == "scale=laptop studies=[sampling_perspective]"
    assert json.loads((folder / "kept/kept.json").read_text())["scale"] in said["Of"]
    assert "run airfoil_mile-seed1, split 0" in said["Made by"]
    assert " in " in said["Took"]
    assert "jax" in said["Packages"]


def test_of_a_plan_only_first_causes_are_named():
    text = (
        "Job 2: Sampling\nReason: Missing output files: a\n\nJob 1: Drawing\nReason: Missing output files: b; "
        "Input files updated by another job: a\n\nAbout 3 s on 2 cores, by the recorded times of 1 of 2 jobs.\n"
    )
    times = "About 3 s on 2 cores, by the recorded times of 1 of 2 jobs"
    assert planned(text) == f"2 jobs would run ({times}). Sampling: Missing output files: a"
    assert planned("Nothing to be done") == "nothing would run"
