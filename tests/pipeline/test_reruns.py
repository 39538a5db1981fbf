"""What runs again in a finished small study after an edit, and which reason is given."""

import json
import os
import random
import shutil
import time

import pytest

from bnn_atlas.figures.r_setup import available

from .workspace import RESULTS, STUDY, add_to_functions, dry_run, edit, planned, small_workspace, snakemake

R_MISSING = available()
DRAWN = ("cumulative_lppd", "fireball", *(() if R_MISSING else ("marginal_densities",)))


def test_a_second_run_does_nothing(finished):
    assert planned(finished) == {}


def test_a_script_with_another_time_runs_nothing(workspace):
    for script in (workspace / "workflow" / "scripts").iterdir():
        script.touch()
    assert planned(workspace, "all", "diagnostics") == {}


@pytest.fixture(scope="module")
def copied(finished, tmp_path_factory):
    """A fresh clone with the results of another one, whose files got times in no order."""
    folder = small_workspace(tmp_path_factory.mktemp("copied"))
    shutil.copytree(finished / "results", folder / "results", copy_function=shutil.copyfile)
    files = sorted(path for path in (folder / "results").rglob("*") if path.is_file())
    for number, path in enumerate(random.Random(1).sample(files, len(files))):
        os.utime(path, (time.time() + number,) * 2)
    return folder


def test_copied_results_count_in_a_fresh_clone(copied):
    assert planned(copied, "all", "diagnostics") == {}


@pytest.mark.parametrize(
    ("file", "jobs"),
    [
        ("methods/hmc.py", {"sample": 2}),
        ("warmstart/ensemble.py", {"warmstart": 7}),
        ("metrics/gathering/streaming.py", {"predict": 6}),
        ("figures/style.py", {}),
    ],
)
def test_what_code_makes_again_also_in_copied_results(copied, file, jobs):
    """Sampling, training and predictions where their own code has changed, and nothing of them for a figure."""
    path = copied / "src/bnn_atlas" / file
    before = path.read_bytes()
    add_to_functions(path, "edited = True")
    try:
        plan = planned(copied)
    finally:
        path.write_bytes(before)
    assert plan, "something depends on each"
    expensive = ("warmstart", "sample", "predict")
    first = next((rule for rule in expensive if rule in plan), None)
    assert ({first: plan[first]} if first else {}) == jobs


def test_a_changed_setting_counts_in_copied_results(copied):
    path = copied / STUDY
    before = path.read_text(encoding="utf-8")
    edit(path, "trajectory_length: 0.05", "trajectory_length: 0.06")
    try:
        assert planned(copied)["sample"] == 1
    finally:
        path.write_text(before, encoding="utf-8")


@pytest.mark.parametrize("where", ["./results", "absolute", "renamed"])
def test_results_are_known_however_their_folder_is_called(copied, where):
    path, before = copied / STUDY, (copied / STUDY).read_text(encoding="utf-8")
    if where == "renamed":
        (copied / "results").rename(copied / where)
    option = f"results={copied / 'results' if where == 'absolute' else where}"
    try:
        assert planned(copied, "all", "diagnostics", "--config", option) == {}
        edit(path, "trajectory_length: 0.05", "trajectory_length: 0.06")
        assert planned(copied, "--config", option)["sample"] == 1
    finally:
        path.write_text(before, encoding="utf-8")
        if where == "renamed":
            (copied / where).rename(copied / "results")


def test_without_snakemakes_records_a_changed_setting_counts_all_the_same(workspace):
    shutil.rmtree(workspace / "results" / "demo" / "records")
    short = min((workspace / "results" / "demo" / "tables").glob(".*.record"))
    short.write_text(json.dumps({"outputs": json.loads(short.read_text())["outputs"]}))
    assert planned(workspace, "all", "diagnostics") == {}
    edit(workspace / STUDY, "trajectory_length: 0.05", "trajectory_length: 0.06")
    assert planned(workspace)["sample"] == 1


def test_what_jobs_have_recorded_counts_whatever_snakemake_knows(copied):
    """As if one orphan had sampled with other settings, and another one had measured other times."""
    blocks = {name: copied / RESULTS / f"sampling_perspective/{name}/split0/block0" for name in ("second", "images")}
    before = {block / ".trace.zarr.record": (block / ".trace.zarr.record").read_text() for block in blocks.values()}
    for record, text in before.items():
        content = json.loads(text)
        del content["checksum"]
        if "images" in record.parts:
            (timing,) = [name for name in content["outputs"] if name.endswith("timing.json")]
            content["outputs"][timing] = "0" * 64
        else:
            (method,) = [setting["method"] for setting in content["settings"] if "method" in setting]
            method["trajectory_length"] = 0.04
        record.write_text(json.dumps(content))
    try:
        jobs = planned(copied)
    finally:
        for record, text in before.items():
            record.write_text(text)
    assert (jobs["sample"], jobs["metrics"]) == (1, 2)


def test_data_that_are_made_again_count_in_copied_results(copied):
    jobs = planned(copied, "--forcerun", "prepare")
    assert (jobs["warmstart"], jobs["sample"], jobs["predict"], jobs["predict_sets"]) == (7, 8, 6, 1)


def test_a_forced_job_keeps_draws_that_are_up_to_date(workspace):
    block = RESULTS / "sampling_perspective/second/split0/block0"
    draws = workspace / block / "trace.zarr" / "zarr.json"
    before = draws.stat()
    run = snakemake(workspace, "--forcerun", "sample", "--", str(block / "timing.json"))
    assert run.returncode == 0, run.stdout
    after = draws.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_one_figure_needs_only_its_own_runs(tmp_path):
    folder = small_workspace(tmp_path)
    jobs = planned(folder, "fireball")
    assert jobs == {
        "prepare": 1, "split": 1, "warmstart": 2, "sample": 2, "pool": 1, "density_grid": 1, "predict": 1,
        "metrics": 1, "fireball": 1, "sampling_perspective_fireball": 1,
    }  # fmt: skip


def test_editing_r_code_reruns_its_figure(workspace):
    if R_MISSING:
        pytest.skip(str(R_MISSING))
    with (workspace / "Rcode" / "marginal_densities.R").open("a") as code:
        code.write("\n")
    assert planned(workspace) == {"sampling_perspective_marginal_densities": 1, "write_site": 1}


@pytest.mark.parametrize(
    ("figure", "module"), [("cumulative_lppd",) * 2, ("fireball",) * 2, ("marginal_densities", "by_r")]
)
def test_editing_the_module_of_a_figure_redraws_that_figure_alone(workspace, figure, module):
    if figure == "marginal_densities" and R_MISSING:
        pytest.skip(str(R_MISSING))
    add_to_functions(workspace / "src/bnn_atlas/figures/kinds" / f"{module}.py", "edited = True")
    assert planned(workspace) == {f"sampling_perspective_{figure}": 1, "write_site": 1}


def test_editing_the_style_redraws_all_figures(workspace):
    add_to_functions(workspace / "src/bnn_atlas/figures/style.py", "edited = True")
    assert planned(workspace) == {f"sampling_perspective_{name}": 1 for name in DRAWN} | {"write_site": 1}
    assert planned(workspace, "diagnostics")["diagnostics_page"] == 6


def test_editing_a_panel_of_the_diagnostics_redraws_the_pages(workspace):
    add_to_functions(workspace / "src/bnn_atlas/figures/diagnostics/courses.py", "edited = True")
    assert planned(workspace) == {}
    assert planned(workspace, "diagnostics") == {"diagnostics_page": 6, "diagnostics": 1}


def test_comments_and_docstrings_draw_nothing_again(workspace):
    for module in (workspace / "src/bnn_atlas/figures").rglob("*.py"):
        add_to_functions(module, '"""Said in other words."""')
    assert planned(workspace, "all", "diagnostics") == {}


def test_runs_share_splits_and_warm_starts(finished):
    """`first` has two seeds on one split, and a method or prior of another run changes no start."""
    assert len(list((finished / RESULTS / "splits").glob("diabetes-*/split*.npz"))) == 1
    starts = finished / RESULTS / "warmstarts"
    assert len(list(starts.glob("diabetes-*.npz"))) == 2 * 2 + 1, "two seeds in two blocks, and the second run"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("learned_noise }", "learned_noise }\n    prior: { kind: normal, scale: 2.0 }"),
        ("steps: 20, step_size: 0.01", "steps: 30, step_size: 0.02"),
    ],
)
def test_another_prior_or_method_trains_no_start_again(workspace, old, new):
    edit(workspace / STUDY, old, new)
    jobs = planned(workspace)
    assert jobs["sample"] == 1
    assert not jobs.keys() & {"split", "warmstart"}


def test_the_reason_of_a_sampling_job_names_the_setting(workspace):
    edit(workspace / STUDY, "learned_noise }", "learned_noise }\n    prior: { kind: normal, scale: 2.0 }")
    timing = RESULTS / "sampling_perspective" / "second" / "split0" / "block0" / "timing.json"
    run = dry_run(workspace, "--allowed-rules", "sample", "--", str(timing))
    (reason,) = [line for line in run.stdout.splitlines() if line.startswith("Reason: ")]
    _, _, changed = reason.rstrip().partition("Params have changed since last execution: ")
    another = {"code", "posterior.prior.kind from standard_normal to normal"}
    assert set(changed.split("; ")) == another, "another prior is other code, too"


def test_editing_one_run_reruns_what_depends_on_it(workspace):
    edit(workspace / STUDY, "trajectory_length: 0.05", "trajectory_length: 0.06")
    jobs = planned(workspace)
    assert jobs == {
        "sample": 1, "pool": 1, "predict": 1, "metrics": 1, "table": 1, "summary": 1,
        "runs_table": 1, "sampling_perspective_cumulative_lppd": 1, "write_site": 1,
    }  # fmt: skip


def test_the_reason_of_a_redrawn_figure_names_the_run_and_the_setting(workspace):
    edit(workspace / STUDY, "trajectory_length: 0.05", "trajectory_length: 0.06")
    rule = "sampling_perspective_cumulative_lppd"
    run = dry_run(workspace, "--allowed-rules", rule, "--", rule)
    (reason,) = [line for line in run.stdout.splitlines() if line.startswith("Reason: ")]
    changed = "Params have changed since last execution: second: method.trajectory_length from 0.05 to 0.06"
    assert reason.rstrip().endswith(changed)


def test_a_figure_does_not_wait_for_other_runs(workspace):
    edit(workspace / STUDY, "runs: [first, second], labels: { first: MILE, second: HMC }", "runs: [first]")
    edit(workspace / STUDY, "trajectory_length: 0.05", "trajectory_length: 0.06")
    assert planned(workspace, "cumulative_lppd") == {"sampling_perspective_cumulative_lppd": 1, "cumulative_lppd": 1}


@pytest.mark.parametrize(
    ("file", "targets", "jobs"),
    [
        ("figures/sampling_perspective/fireball.png", ["site"], {"sampling_perspective_fireball": 1, "site": 1}),
        ("tables/sampling_perspective-summary.csv", [], {"summary": 1}),
    ],
)
def test_what_was_deleted_is_made_again_though_there_is_a_site(workspace, file, targets, jobs):
    (workspace / RESULTS / file).unlink()
    assert planned(workspace, *targets) == {**jobs, "write_site": 1}


def test_a_figure_that_is_taken_out_is_not_made(workspace):
    text = (workspace / STUDY).read_text(encoding="utf-8")
    kept = [line for line in text.splitlines() if not line.startswith("  fireball:")]
    (workspace / STUDY).write_text("\n".join(kept), encoding="utf-8")
    assert planned(workspace) == {"write_site": 1}, "which shows it no more"


def test_adding_a_seed_runs_only_that_run(workspace):
    edit(workspace / STUDY, "seed: [1, 2]", "seed: [1, 2, 3]")
    jobs = planned(workspace)
    assert jobs["sample"] == jobs["warmstart"] == 2
    assert jobs["predict"] == jobs["metrics"] == 1
    assert "prepare" not in jobs
    assert "split" not in jobs, "the runs share it"
    assert "sampling_perspective_fireball" not in jobs
