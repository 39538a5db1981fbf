"""The advertised command in fresh copies of the repository, on a real one-node Slurm and without one."""

import filecmp
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from yte import process_yaml

from bnn_atlas.config.language.reading import read_yaml
from tests.copies import REPOSITORY, copy_repository
from tests.slurm.cluster import Snakemake, has_control_groups, jobs_of_rule, one_node, skip_without_slurm, slurm

MINIATURE = Path(__file__).parent / "miniature"
STUDY = "sampling_perspective"
RUN = f"demo/{STUDY}/airfoil_mile-seed1/split0"
CHANGES: dict[str, dict[str, Any]] = {
    "airfoil_mile": {
        "warmstart": {"max_epochs": 50},
        "method": {"warmup": 2000, "steps": 60000, "thinning": 20, "checkpoint_every": 1000},
        "chains": 4,
        "chains_per_block": 2,
    },
    "airfoil_hmc": {"warmstart": {"max_epochs": 50}, "method": {"burn_in": 10, "steps": 20}, "chains": 2},
}


def small_copy(folder: Path) -> Path:
    """A copy of the repository with two runs and figures of one study, whose scale `demo` is smaller still."""
    copy_repository(folder)
    path = folder / "config" / "studies" / f"{STUDY}.yaml"
    study = yaml.safe_load(path.read_text(encoding="utf-8"))
    study["runs"] = {name: run for name, run in study["runs"].items() if name in CHANGES}
    for name, changes in CHANGES.items():
        demo = study["runs"][name]["scales"]["demo"]
        for key, value in changes.items():
            demo[key] = {**demo[key], **value} if isinstance(value, dict) and key in demo else value
    study.pop("scales")
    shown = {name: study["figures"][name] for name in ("cumulative_lppd", "fireball")}
    study["figures"] = {name: figure | figure.pop("scales")["demo"] for name, figure in shown.items()}
    path.write_text(yaml.safe_dump(study, sort_keys=False), encoding="utf-8")
    shutil.rmtree(folder / "config" / "claims")
    settings = folder / "config" / "config.yaml"
    chosen = yaml.safe_load(settings.read_text(encoding="utf-8")) | {"studies": [STUDY]}
    settings.write_text(yaml.safe_dump(chosen, sort_keys=False), encoding="utf-8")
    return folder


def chunks(trace: Path) -> list[str]:
    """Files with the numbers of a trace, finished or not, relative to it: draws, statistics and coordinates."""
    return sorted(str(file.relative_to(trace)) for file in trace.glob("*/**/c*") if file.is_file())


def test_no_setting_of_the_profile_is_lost_however_it_is_edited(tmp_path: Path) -> None:
    """All commented settings at once: each key stands once, and the rules on GPUs are the rules that can use one."""
    profile = (REPOSITORY / "slurm" / "config.yaml").read_text(encoding="utf-8")
    edited = tmp_path / "config.yaml"
    edited.write_text(
        re.sub(r"^( *)# ( *(?:[\w-]+|<<):(?: .*)?)$", r"\1\2", profile, flags=re.MULTILINE), encoding="utf-8"
    )
    settings = read_yaml(edited)
    assert {"runtime", "slurm_partition", "mem_mb"} <= set(settings["set-resources"]["sample"])
    assert {"slurm_partition", "qos", "mem_mb"} <= set(settings["default-resources"])
    texts = [path.read_text(encoding="utf-8") for path in (REPOSITORY / "workflow" / "rules").glob("*.smk")]
    rules = [rule.split(":")[0] for text in texts for rule in text.split("\nrule ")[1:] if " gpu=RESOURCES" in rule]
    on_gpus = [name for name, resources in settings["set-resources"].items() if "slurm_partition" in resources]
    assert sorted(on_gpus) == sorted(rules)

    sample = profile.partition("#   sample:")[2].partition("#   predict:")[0].replace("#  ", "  ")
    single = f"{profile.partition('# set-resources:')[0]}\nset-resources:\n  sample:{sample}"
    chosen = process_yaml(single, require_use_yte=True)["set-resources"]
    assert chosen == {"sample": {"runtime": 240, "slurm_partition": "gpu", "mem_mb": 32000}}


@pytest.mark.slow
def test_a_cancelled_job_goes_on_and_the_run_ends_with_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_without_slurm()
    folder = small_copy(tmp_path)
    monkeypatch.setenv("BNN_ATLAS_CACHE", str(tmp_path / "cache"))
    trace = folder / "results" / RUN / "block1" / "trace.zarr"
    growing = trace.with_name(f"{trace.name}.partial") / trace.name
    with one_node("cgroup" if has_control_groups() else "linuxproc"):
        run = Snakemake(folder, "snakemake --cores 12 --profile slurm")
        run.await_that("draws", lambda: len(list(growing.glob("draws/**/c*"))) >= 3)
        (job,) = jobs_of_rule("small-samples")  # both blocks share it
        slurm("scancel", job)
        assert run.finish() == 0, run.output
        states = slurm("squeue", "--noheader", "--states=all", "--format=%i %T").splitlines()
    assert f"{job} CANCELLED" in states
    assert "Trying to restart job" in run.output, "Snakemake does not say why a group failed"
    assert "SIGTERM: finishing" in run.output, "the script was not told: does the Snakefile relay_sigterm?"
    log = folder / "results" / "demo" / "logs" / "sample" / STUDY / "airfoil_mile-seed1" / "split0" / "block1.log"
    assert "continuing from" in log.read_text(encoding="utf-8")
    for figure in ("cumulative_lppd", "fireball"):
        for kind in ("pdf", "png", "csv"):
            assert (folder / "results" / "demo" / "figures" / STUDY / f"{figure}.{kind}").stat().st_size > 0

    targets = [f"undisturbed/{RUN}/block{block}/trace.zarr" for block in (0, 1)]
    local = Snakemake(folder, f"snakemake --cores 2 --config results=undisturbed -- {' '.join(targets)}")
    assert local.finish() == 0, local.output
    for block in (0, 1):
        kept = folder / "results" / RUN / f"block{block}" / "trace.zarr"
        undisturbed = folder / "undisturbed" / RUN / f"block{block}" / "trace.zarr"
        files = chunks(undisturbed)
        assert len([file for file in files if file.startswith("draws/")]) == 60
        assert chunks(kept) == files
        assert filecmp.cmpfiles(kept, undisturbed, files, shallow=False) == (files, [], [])


@pytest.mark.slow
@pytest.mark.parametrize("proctrack", ["linuxproc", "cgroup"])
def test_jobs_are_warned_before_their_limit_and_have_one_task(tmp_path: Path, proctrack: str) -> None:
    skip_without_slurm()
    if proctrack == "cgroup" and not has_control_groups():
        pytest.skip("Slurm cannot follow processes by control groups here: /sys/fs/cgroup/freezer is not mounted")
    shutil.copytree(MINIATURE, tmp_path / "work")
    shutil.copytree(REPOSITORY / "slurm", tmp_path / "work" / "slurm")
    with one_node(proctrack):
        run = Snakemake(tmp_path / "work", "snakemake --cores 12 --profile slurm")
        assert run.finish() == 0, run.output
        states = slurm("squeue", "--noheader", "--states=all", "--format=%k %T").splitlines()
    # One attempt was told in time to save its state, and the next one that started went on from there. On a slow
    # machine the notice can come before the script is up: such an attempt fails, notes nothing, and is restarted, too.
    assert (tmp_path / "work" / "patient.txt").read_text() == "SIGTERM"
    # It may also finish so late that its limit ends it all the same, and finish again.
    first, *others = (tmp_path / "work" / "patient.history").read_text().split()
    assert (first, set(others)) == ("saved", {"finished"})
    attempts = [state for state in states if state.startswith("rule_patient")]
    assert attempts.count("rule_patient COMPLETED") == 1
    failed = attempts.count("rule_patient FAILED")
    assert len(attempts) == failed + 1 >= 2
    assert run.output.count("Trying to restart job") == failed
    # Snakemake names itself once in the log of the attempt that saved: a second time would read the whole workflow
    # again. The logs of jobs that succeed are deleted.
    logs = list((tmp_path / "work" / ".snakemake" / "slurm_logs").glob("*/**/*.log"))
    assert len(logs) == failed
    assert max(log.read_text().count("Building DAG of jobs") for log in logs) == 1
    # One line: the script ran once.
    for count in (1, 2):
        assert (tmp_path / "work" / f"gpus{count}.tasks").read_text() == f"NumTasks=1 gpus={count}\n"


def test_without_sbatch_one_line_says_so_at_once(tmp_path: Path) -> None:
    folder = small_copy(tmp_path / "copy")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "sh", "which"):
        (programs / name).symlink_to(str(shutil.which(name)))
    run = Snakemake(folder, "snakemake --cores 12 --profile slurm", PATH=str(programs))
    assert run.finish() == 1
    lines = run.output.strip().splitlines()
    assert lines[-1].startswith(
        "--profile slurm submits jobs to Slurm, but sbatch, squeue, sacct, sinfo cannot be found here"
    )
    assert len(lines) == 2, "Snakemake's own line names the profile; the other one is ours"
    plan = Snakemake(folder, "snakemake -n --profile slurm")
    assert plan.finish() == 0, "a plan needs no Slurm, and the groups of its jobs name rules"
