"""`python -m bnn_atlas why`: what made a result, and what would run for it now."""

import csv
import hashlib
import json
import re
import shutil

import pytest

from bnn_atlas.__main__ import main
from bnn_atlas.pipeline import why
from bnn_atlas.pipeline.changes import planned
from bnn_atlas.records import PUBLISHED, read, write
from tests.copies import REPOSITORY

from .workspace import FIGURES, RESULTS, STUDY, edit

BLOCK = RESULTS / "sampling_perspective" / "second" / "split0" / "block0"


@pytest.fixture
def asked(monkeypatch, capsys):
    """Asks in a folder; gives the answer, title of each paragraph -> its text."""

    def ask(folder, what):
        monkeypatch.chdir(folder)
        assert main(["why", str(what)]) == 0
        paragraphs = re.split(r"\n(?=\S)", capsys.readouterr().out)
        return {title: " ".join(text.split()) for title, _, text in (part.partition(":") for part in paragraphs)}

    return ask


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ([], "0 jobs before took 0 s"),
        ([2.0, 3.0], "2 jobs before took 5 s"),
        ([None, None], "2 jobs before: times of 2 not recorded"),
        ([None, 3.0], "2 jobs before: times of 1 not recorded, the others 3 s"),
    ],
)
def test_times_of_an_archive_are_not_recorded(times, said):
    assert why._before(times) == said


@pytest.fixture
def unplanned(monkeypatch):
    """No dry run, for what is said about the past."""
    monkeypatch.setattr(why, "_now", lambda target, config, title: {title: [target], "Command": config})


def test_a_figure_says_what_made_it_and_that_it_is_up_to_date(finished, asked):
    before = {path: path.stat().st_mtime_ns for path in (finished / "results").rglob("*")}
    said = asked(finished, "cumulative_lppd")
    assert said["Now"] == "nothing has to run"
    assert said["Command"] == "snakemake --cores 2 --config scale=demo -- cumulative_lppd"
    assert said["Of"] == str(FIGURES / "cumulative_lppd.pdf")
    assert "second" in said["Runs that it shows"]
    data = hashlib.sha256((finished / RESULTS / "data/diabetes/prepared.npz").read_bytes()).hexdigest()
    assert f"data/diabetes/prepared.npz, SHA-256 {data}" in said["Data"]
    lock = hashlib.sha256((finished / "requirements.lock").read_bytes()).hexdigest()
    assert lock in said["Packages"]
    assert "kernel" in said["Machine"]
    assert "second/split0/metrics/metrics.parquet (by metrics from " in said["Inputs"]
    assert " in " in said["When"]
    assert "Damaged" not in said
    assert "Also kept" not in said, "this folder keeps no pages"
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


def test_an_edited_file_is_called_damaged_and_one_from_an_archive_published(workspace, asked, unplanned):
    record = workspace / FIGURES / ".cumulative_lppd.pdf.record"
    write(record, {**read(record), PUBLISHED: "abc"})
    with (workspace / FIGURES / "cumulative_lppd.csv").open("a") as file:
        file.write("\n")
    said = asked(workspace, FIGURES / "cumulative_lppd.csv")
    assert "Damaged" in said
    assert said["From a published archive"] == "SHA-256 abc"


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
    assert (said["When"], said["Now"]) == ("not recorded", "no rule makes it")


def test_a_kept_figure_says_what_is_kept_of_its_runs(asked, unplanned):
    folder = REPOSITORY / "docs/results/sampling_perspective"
    said = asked(REPOSITORY, "docs/results/sampling_perspective/calibration.png")
    assert said["To make it again"] == "sampling_perspective_calibration"
    assert said["Command"] == "scale=laptop; studies=[sampling_perspective]"
    assert json.loads((folder / "kept/kept.json").read_text())["scale"] in said["Of"]
    assert "airfoil_mile-seed1, split 0" in said["Runs"]
    assert "Changed since then" not in said
    assert "nothing has to run" in said["Now"]
    assert " in " in said["Took"]
    assert "jax" in said["Packages"]


def test_a_figure_by_its_name_says_where_it_is_kept(asked, unplanned):
    kept = "docs/results/sampling_perspective/calibration.png"
    assert f"python -m bnn_atlas why {kept}" in asked(REPOSITORY, "calibration")["Also kept"]


@pytest.mark.parametrize("name", ["airfoil_mile", "airfoil_mile-seed5", "mnist1000_sgld"])
def test_a_run_by_its_name_says_what_is_kept_of_it(asked, unplanned, name):
    said = asked(REPOSITORY, name)["Also kept"]
    assert "of scale laptop" in said
    assert ("another problem" in said) == name.startswith("mnist1000")
    assert f"{name}_" not in said


def test_a_picture_of_so_far_is_of_the_target_that_makes_it(workspace, asked, unplanned):
    page = workspace / RESULTS / "so_far" / "sampling_perspective"
    shutil.copytree(REPOSITORY / "docs/results/implicit_vi/kept", page / "kept")
    about = {"scale": "demo", "figures": {"fireball": "another"}}
    (page / "kept" / "kept.json").write_text(json.dumps(about), encoding="utf-8")
    (page / "fireball.png").touch()
    (page.parent / "index.html").touch()
    of_figure, of_site = (asked(workspace, file) for file in (page / "fireball.png", page.parent / "index.html"))
    assert (of_figure["To make it again"], of_site["Now"]) == ("sampling_perspective_fireball", "so_far")
    assert "fireball: other settings, which were not kept" in of_figure["Changed since then"]


def test_what_changed_since_a_page_was_kept_names_runs_and_values(tmp_path):
    row = {
        "split": 0,
        "settings": "old",
        "code": "a",
        "packages": "jax",
        "machine": "one",
        "reductions": "chains: 9 -> 4",
    }
    rows = [row | {"run": name} for name in ("first", "second", "third")]
    (tmp_path / "kept").mkdir()
    with (tmp_path / "kept" / "runs.csv").open("w", encoding="utf-8") as file:
        table = csv.DictWriter(file, rows[0].keys())
        table.writeheader()
        table.writerows(rows)
    (tmp_path / "kept" / "jobs.csv").write_text("job,seconds\nsmall/first/split0,3\n", encoding="utf-8")
    (tmp_path / "kept" / "settings.json").write_text('{"old": {"posterior.prior.scale": 1}}', encoding="utf-8")
    today = {"settings": "new", "set": {"posterior.prior.scale": 2}, "code": "b"}
    plan = {"runs": {"first": today, "second": today, "third": today | {"settings": "old", "code": "a"}}}
    said = why._kept(tmp_path, {"scale": "laptop", "figures": {}}, None, plan, {"third"})
    assert said["Changed since then"] == ["run first, run second: prior.scale from 1 to 2"]
    assert said["Other than the paper's"] == [
        "first, second: chains: 9 -> 4", "third: another problem; reduced from scale paper: chains: 9 -> 4",
    ]  # fmt: skip
    assert said["Code"][1] == "first, second: other code than today's"


def test_long_paragraphs_have_lines_and_say_how_many_parts_are_left_out():
    lines = why._paragraph("Runs", [f"run {number}" for number in range(why.MOST + 3)]).splitlines()
    assert (lines[:2], lines[-1]) == (["Runs:", "  run 0"], "  and 3 more")
    assert max(map(len, why._paragraph("Text", ["word " * 99]).splitlines())) <= why.LINES.width


def test_of_a_plan_only_first_causes_are_named_and_downloads_only_where_there_are_some():
    text = (
        "Job 2: Fetching\nReason: Missing output files: a\n\nJob 1: Drawing\nReason: Missing output files: b; "
        "Input files updated by another job: a\n\nAbout 3 s on 2 cores, by the recorded times of 1 of 2 jobs.\n"
    )
    times = "About 3 s on 2 cores, by the recorded times of 1 of 2 jobs"
    sampling = text.replace("Fetching", "Sampling")
    assert planned(sampling) == [f"2 jobs would run ({times})", "not there yet: Sampling"]
    fetching = text.replace("Fetching", "Fetching a file")
    assert planned(fetching)[0] == f"2 jobs would run, 1 download among them ({times})"
    assert planned("Nothing to be done") == ["nothing has to run"]
