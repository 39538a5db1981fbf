"""The whole workflow on a small study: what it makes, and what a person reads when something is wrong."""

import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bnn_atlas.data.splitting import load_split
from bnn_atlas.figures.metadata import read_provenance
from bnn_atlas.figures.r_setup import available
from bnn_atlas.metrics.gathering.summary import load
from bnn_atlas.metrics.judgement.rows import average
from bnn_atlas.metrics.tables.parquet import SCHEMA
from bnn_atlas.traces.pool import open_pool

from .workspace import FIGURES, RESULTS, STUDY, dry_run, edit, planned, snakemake

R_MISSING = available()
FIGURE_NAMES = ("cumulative_lppd", "fireball", *(() if R_MISSING else ("marginal_densities",)))
RUNS = ("first-seed1", "first-seed2", "second", "images", "ensemble", "compact")


def test_everything_is_made(finished):
    drawn = {path.name for path in (finished / FIGURES).glob("[!.]*") if path.is_file()}
    assert drawn == {f"{name}.{kind}" for name in FIGURE_NAMES for kind in ("pdf", "png", "csv")}
    pages = {path.name for path in (finished / FIGURES / "diagnostics").glob("[!.]*")}
    assert pages == {f"{run}-split0.{kind}" for run in RUNS for kind in ("pdf", "png", "csv")}
    table = pd.read_parquet(finished / RESULTS / "tables" / "sampling_perspective.parquet")
    assert list(table.columns) == SCHEMA.names
    assert set(table.run) == set(RUNS)
    lppd = table[table.metric == "lppd"]
    assert lppd.chains.tolist() == [4, 4, 2, 3, 3, 3]
    assert lppd.draws.tolist() == [20, 20, 20, 20, 1, 1]
    assert lppd.value.between(-3, 0).all()


def measured(folder: Path, run: str, dataset: str) -> pd.Series:
    """Values of a run on a set by metric, those that have one value."""
    table = pd.read_parquet(folder / RESULTS / "tables" / "sampling_perspective.parquet")
    chosen = table[(table.run == run) & (table.dataset == dataset)].drop_duplicates("metric", keep=False)
    return chosen.set_index("metric").value


def test_a_classification_is_scored_on_a_shift_and_against_another_run(finished):
    study = finished / RESULTS / "sampling_perspective"
    folders = {run: study / run / "split0" / "predictive" for run in ("images", "ensemble")}
    assert [path.name for path in (folders["images"] / "sets").glob("*.npz")] == ["rotated30.npz"]
    assert not (folders["ensemble"] / "sets").exists()
    (split,) = (finished / RESULTS / "splits").glob("digits_images-*/split0.npz")
    labels = load_split(finished / RESULTS / "data/digits_images/prepared.npz", split).y_test
    ours, turned = (average(load(folders["images"] / f"{name}.npz")) for name in ("test", "sets/rotated30"))
    theirs = average(load(folders["ensemble"] / "test.npz"))
    test = measured(finished, "images", "digits_images")
    assert test["agreement"] == (ours.argmax(axis=1) == theirs.argmax(axis=1)).mean()
    assert test["total_variation"] == pytest.approx(0.5 * np.abs(ours - theirs).sum(axis=1).mean())
    shifted = measured(finished, "images", "digits_images/rotated30")
    for probabilities, scores in (
        (ours, test),
        (turned, shifted),
        (theirs, measured(finished, "ensemble", "digits_images")),
    ):
        assert scores["accuracy"] == (probabilities.argmax(axis=1) == labels).mean()
        assert scores["nll"] == pytest.approx(-np.log(probabilities[np.arange(len(labels)), labels]).mean(), abs=1e-6)
    assert "agreement" not in shifted
    assert np.abs(ours - turned).max() > 0.1


@pytest.mark.slow
def test_adding_a_set_predicts_that_set_only(workspace):
    """In one job, which leaves alone what it finds; neither the test rows nor their scores are touched."""
    edit(workspace / STUDY, "shifts: [rotated30]", "shifts: [rotated30, blur2]")
    assert planned(workspace) == {"predict_sets": 1, "score_sets": 1, "table": 1, "summary": 1, "write_site": 1}
    folder = RESULTS / "sampling_perspective/images/split0"
    before = (workspace / folder / "predictive/sets/rotated30.npz").stat()
    run = snakemake(workspace, "--", str(folder / "metrics/sets.parquet"))
    assert run.returncode == 0, run.stdout
    sets = workspace / folder / "predictive/sets"
    assert {path.name for path in sets.glob("*.npz")} == {"rotated30.npz", "blur2.npz"}
    after = (sets / "rotated30.npz").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    found = pd.read_parquet(workspace / folder / "metrics/sets.parquet")
    assert set(found.dataset) == {"digits_images/rotated30", "digits_images/blur2"}


def test_sets_that_are_taken_out_leave_the_table(workspace):
    edit(workspace / STUDY, "shifts: [rotated30], ", "")
    assert planned(workspace) == {"table": 1, "summary": 1, "write_site": 1}


def test_a_new_reference_needs_no_new_predictions(workspace):
    edit(
        workspace / STUDY,
        "    method: { kind: deep_ensemble }",
        "    evaluate: { references: [images] }\n    method: { kind: deep_ensemble }",
    )
    assert planned(workspace) == {"score_against": 1, "table": 1, "summary": 1, "write_site": 1}


def test_a_changed_reference_is_compared_again(workspace):
    edit(workspace / STUDY, "max_epochs: 30", "max_epochs: 31")
    assert planned(workspace) == {
        "warmstart": 1, "sample": 1, "pool": 1, "predict": 1, "metrics": 1, "score_against": 1, "table": 1,
        "summary": 1, "runs_table": 1, "write_site": 1,
    }  # fmt: skip


def test_a_set_that_does_not_fit_is_one_readable_line(workspace):
    edit(workspace / STUDY, "shifts: [rotated30]", "shifts: [cifar10c_fog3]")
    run = dry_run(workspace)
    assert run.returncode != 0
    assert "Traceback" not in run.stdout
    assert "runs.images.evaluate.shifts: 'cifar10c_fog3' is for 'cifar10', not 'digits_images'" in run.stdout


def test_two_traces_per_layer_are_written_next_to_the_draws_of_the_runs_that_are_named(workspace):
    run = snakemake(workspace, "traces", "--config", "what=[first-seed1,second]")
    assert run.returncode == 0, run.stdout
    study = RESULTS / "sampling_perspective"
    assert {path.parts[-3] for path in (workspace / study).glob("*/*/traces.npz")} == {"first-seed1", "second"}
    assert f"  {study}/second/split0/traces.npz\n" in run.stdout.rpartition("Made in")[2]
    with np.load(workspace / study / "first-seed1/split0/traces.npz") as found:
        pool = open_pool(workspace / study / "first-seed1/split0/pool/pool.json")
        np.testing.assert_array_equal(found["layer1.weight[0,1]"], pool["layer1.weight"][:, :, 0, 1])
        assert found["layer1.weight[0,1]"].shape == (4, 20)
    assert planned(workspace, "traces", "--config", "what=first") == {"layer_traces": 1, "traces": 1}
    for given, message in (
        ((), "traces of what? Add `--config what=NAME`"),
        (("--config", "what=frist"), "what = 'frist': no run, entry or study at this scale (did you mean 'first'?)"),
    ):
        refused = dry_run(workspace, "traces", *given)
        assert refused.returncode != 0
        assert message in refused.stdout


@pytest.mark.slow
def test_making_it_again_changes_no_byte(workspace):
    kept = {
        path.relative_to(workspace): path.read_bytes()
        for folder in (FIGURES, RESULTS / "tables", RESULTS / "sampling_perspective")
        for path in (workspace / folder).rglob("*")
        if path.is_file() and path.name != ".snakemake_timestamp" and not _timed(path)
    }
    shutil.rmtree(workspace / RESULTS)
    run = snakemake(workspace)
    assert run.returncode == 0, run.stdout
    differ = [str(path) for path, content in kept.items() if (workspace / path).read_bytes() != content]
    assert differ == []


def _timed(path):
    """Whether wall time enters a file; records hold the checksums of such files."""
    return (
        path.suffix == ".record"
        or path.parent.name == "diagnostics"
        or "rates" in path.name
        or path.name == "timing.json"
    )


@pytest.mark.slow
def test_check_finds_a_changed_byte_and_mending_has_it_made_again(workspace):
    whole = snakemake(workspace, "check")
    assert (whole.returncode, "are as recorded" in whole.stdout) == (0, True), whole.stdout
    assert "without a record" not in whole.stdout
    table = workspace / RESULTS / "tables" / "sampling_perspective.parquet"
    content = bytearray(table.read_bytes())
    content[100] ^= 1
    table.write_bytes(content)
    damaged = snakemake(workspace, "check")
    assert damaged.returncode == 1
    assert damaged.stdout.count("1 damaged:") == 1
    assert re.search(r"1 damaged:\s+.*tables/sampling_perspective\.parquet", damaged.stdout), damaged.stdout
    assert snakemake(workspace, "check", "--config", "mend=true").returncode == 0
    assert planned(workspace)["table"] == 1


def test_mending_is_refused_where_nothing_mends(finished):
    run = dry_run(finished, "check", "tables", "--config", "mend=true")
    assert run.returncode != 0
    assert re.search(r"requested check, tables; .*`snakemake --cores 2 check --config mend=true`", run.stdout)


@pytest.mark.slow
def test_a_damaged_trace_is_named(workspace):
    block = workspace / RESULTS / "sampling_perspective" / "first-seed1" / "split0" / "block1" / "trace.zarr"
    shard = sorted((block / "draws").rglob("c*"))[-1]
    damaged = bytearray(shard.read_bytes())
    damaged[len(damaged) // 3] ^= 0x55
    shard.write_bytes(damaged)
    before = {path: path.read_bytes() for path in (workspace / RESULTS / "tables").iterdir()}
    target = str(RESULTS / "tables" / "sampling_perspective.parquet")
    run = snakemake(workspace, "--forcerun", "metrics", "--keep-going", "--", target)
    assert run.returncode != 0
    assert "block1/trace.zarr" in run.stdout
    assert "checksum" in run.stdout.lower()
    log = workspace / RESULTS / "logs" / "metrics" / "sampling_perspective" / "first-seed1" / "split0.log"
    assert "TraceError" in log.read_text(encoding="utf-8")
    assert all(path.suffix == ".record" for path in (workspace / RESULTS / "tables").glob(".*"))
    assert all(path.read_bytes() == content for path, content in before.items() if path.exists())


@pytest.mark.slow
def test_without_r_the_rest_is_made_and_one_line_says_what_is_missing(workspace, tmp_path):
    programs = tmp_path / "programs"
    programs.mkdir()
    for tool in ("bash", "sh", "env", "git", "uname", "which"):
        (programs / tool).symlink_to(shutil.which(tool))
    (workspace / FIGURES / "fireball.png").unlink()
    run = snakemake(workspace, path=str(programs))
    assert run.returncode == 0, run.stdout
    assert (workspace / FIGURES / "fireball.png").exists()
    lines = [line for line in run.stdout.splitlines() if "marginal_densities" in line]
    assert len(lines) == 1
    assert lines[0].startswith("Not made: marginal_densities")
    assert "apt-get install" in lines[0]
    (workspace / FIGURES / "fireball.png").unlink()
    run = snakemake(workspace, "fireball", path=str(programs))
    assert run.returncode == 0, run.stdout
    assert "Not made" not in run.stdout


def test_a_wrong_setting_is_one_readable_line(workspace):
    edit(workspace / STUDY, "step_size: 0.01", "step_size: -0.01")
    run = dry_run(workspace)
    assert run.returncode != 0
    assert "Traceback" not in run.stdout
    line = next(line for line in run.stdout.splitlines() if "step_size" in line)
    assert "sampling_perspective.yaml" in line
    assert "runs.second.method.step_size = -0.01" in line
    assert "greater than 0" in line


def test_an_unknown_scale_names_the_ones_there_are(finished):
    run = dry_run(finished, "--config", "scale=huge")
    assert run.returncode != 0
    assert "scale = 'huge'" in run.stdout
    assert "'demo', 'laptop' or 'paper'" in run.stdout


def test_no_study_at_all_is_refused(finished):
    run = dry_run(finished, "--config", "studies=[]")
    assert run.returncode != 0
    assert "studies = []: at least one study is needed; there are sampling_perspective" in run.stdout


def test_the_log_of_a_sampling_job_tells_how_far_it_is(finished):
    log = finished / RESULTS / "logs" / "sample" / "sampling_perspective" / "second" / "split0" / "block0.log"
    text = log.read_text(encoding="utf-8")
    assert "step 25 of 25" in text
    assert "chain-gradients/s" in text
    assert "left" in text


FURTHER = """\
  fit: &beside
    description: a fit in two blocks, from the draws of the second
    dataset: diabetes
    split: { test: 0.2, validation: 0.1 }
    model: { hidden: [4] }
    likelihood: { kind: learned_noise }
    start: { run: second }
    method: { kind: mean_field, epochs: 3, batch_size: null, steps: 5 }
    chains: 2
    chains_per_block: 1
  third: &still
    <<: *beside
    method: { kind: hmc, burn_in: 0, steps: 10, step_size: 1.0e-9, trajectory_length: 1.0e-9 }
    chains: 3
  fourth: { <<: *still, start: { run: second, draw: start } }
  fifth: { <<: *still, start: { run: fit, draw: mean } }
"""


@pytest.mark.slow
def test_chains_start_from_draws_starts_or_the_fit_of_another_run(workspace):
    edit(workspace / STUDY, "  images:\n", f"{FURTHER}  images:\n")
    study, folder = RESULTS / "sampling_perspective", "split0/pool/pool.json"
    run = snakemake(workspace, "--", *(str(study / name / folder) for name in ("third", "fourth", "fifth")))
    assert run.returncode == 0, run.stdout
    results = workspace / study
    source, *pools = (open_pool(results / name / folder) for name in ("second", "third", "fourth", "fifth"))
    networks = [np.load(file)["parameters"] for file in (workspace / RESULTS / "warmstarts").glob("diabetes-*.npz")]
    (starts,) = (found for found in networks if found.shape == (2, source.layout.size))
    wanted = {
        "last draws": source.read(draws=[source.draws - 1])[:, 0],
        "starts": starts,
        "means": np.concatenate([np.load(results / f"fit/split0/block{b}/fit.npz")["mean"] for b in (0, 1)]),
    }
    for pool, (name, positions) in zip(pools, wanted.items(), strict=True):
        np.testing.assert_allclose(pool.read(draws=[0])[:, 0], positions[[0, 1, 0]], atol=1e-6, err_msg=name)
    assert np.abs(wanted["means"] - wanted["last draws"]).min() > 1e-5
    assert np.abs(wanted["starts"] - wanted["last draws"]).max() > 1e-3


def test_settings_that_are_left_out_have_defaults(workspace):
    settings = workspace / "config" / "config.yaml"
    lines = settings.read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if not line.startswith(("cache:", "mirror:", "device:"))]
    assert len(kept) == len(lines) - 3
    settings.write_text("\n".join(kept), encoding="utf-8")
    target = RESULTS / "sampling_perspective" / "second" / "split0" / "metrics" / "metrics.parquet"
    run = snakemake(workspace, "--forcerun", "metrics", "--", str(target))
    assert run.returncode == 0, run.stdout


@pytest.mark.slow
def test_metadata_of_a_figure_say_what_the_scale_reduced(workspace):
    edit(workspace / STUDY, "    chains: 2\n", "    chains: 2\n    scales: { demo: { method: { steps: 10 } } }\n")
    run = snakemake(workspace, "cumulative_lppd")
    assert run.returncode == 0, run.stdout
    settings = read_provenance(workspace / FIGURES / "cumulative_lppd.png").settings
    assert settings["reductions"] == {"first": [], "second": ["method.steps: 20 -> 10"]}
