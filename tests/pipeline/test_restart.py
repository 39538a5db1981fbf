"""Snakemake is killed while it samples, and started again: what a job that outlived it has made is kept."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bnn_atlas.pipeline.hooks.sigterm import descendants, handles_sigterm

from .workspace import STUDY, dry_run, small_workspace

BLOCK = Path("results/demo/sampling_perspective/second/split0/block0")
TIMING = str(BLOCK / "timing.json")
LOG = Path("results/demo/logs/sample/sampling_perspective/second/split0/block0.log")


@pytest.fixture
def workspace(tmp_path):
    """A study whose second run samples for some seconds, in many segments."""
    folder = small_workspace(tmp_path / "clone")
    path = folder / STUDY
    text = path.read_text(encoding="utf-8")
    old = "steps: 20, step_size: 0.01, trajectory_length: 0.05, checkpoint_every: 10"
    assert old in text
    new = old.replace("steps: 20,", "steps: 20000,").replace("every: 10", "every: 500")
    path.write_text(text.replace(old, new), encoding="utf-8")
    return folder


def await_that(what: str, condition, seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"no {what} within {seconds:.0f} s"
        time.sleep(0.02)


def chunks(trace: Path) -> list[Path]:
    """Files with the draws of a trace, one for each segment so far."""
    return sorted((trace / "draws").glob("c*"))


def start(folder: Path) -> subprocess.Popen[str]:
    """Snakemake in a session of its own; what it prints goes into output.txt."""
    command = [sys.executable, "-m", "snakemake", "--cores", "2", "--", TIMING]
    environment = {**os.environ, "PYTHONPATH": str(folder / "src")}
    with (folder / "output.txt").open("w") as output:
        return subprocess.Popen(
            command, cwd=folder, env=environment, stdout=output, stderr=output, text=True, start_new_session=True
        )


def finish(run: subprocess.Popen[str], folder: Path) -> str:
    """What a run has printed, which ended well."""
    code = run.wait(240)
    text = (folder / "output.txt").read_text()
    assert code == 0, text
    return text


def sampling(folder: Path) -> tuple[subprocess.Popen[str], int]:
    """A Snakemake whose job has written two segments, and the inode of the first draws."""
    run = start(folder)
    trace = folder / BLOCK / "trace.zarr.partial" / "trace.zarr"
    await_that("second segment", lambda: len(chunks(trace)) > 1 or run.poll() is not None)
    assert run.poll() is None, (folder / "output.txt").read_text()
    return run, chunks(trace)[0].stat().st_ino


def assert_kept(folder: Path, output: str, begun: int) -> None:
    """The draws are those that the first job has written, and the next Snakemake has nothing to do."""
    assert output.count("Released the lock of a Snakemake that is gone") == 1
    assert chunks(folder / BLOCK / "trace.zarr")[0].stat().st_ino == begun
    assert (folder / LOG).read_text().rstrip().endswith("trace.zarr is complete already")
    assert "Nothing to be done" in dry_run(folder, "--", TIMING).stdout


@pytest.mark.slow
def test_a_job_that_still_samples_is_waited_for(workspace):
    hook = workspace / "src/bnn_atlas/pipeline/forks.py"
    hook.write_text(hook.read_text().replace("SHORTEST_PLAN = 8", "SHORTEST_PLAN = 0"))
    killed, begun = sampling(workspace)
    jobs = [process for process in descendants(killed.pid) if handles_sigterm(process)]
    for process in jobs:
        os.kill(process, signal.SIGSTOP)
    killed.kill()
    killed.wait()
    (workspace / LOG).unlink()
    run = start(workspace)
    try:
        await_that("line", lambda: (workspace / LOG).exists() and "another process" in (workspace / LOG).read_text())
    finally:
        for process in jobs:
            os.kill(process, signal.SIGCONT)
    assert_kept(workspace, finish(run, workspace), begun)


@pytest.mark.slow
def test_a_job_that_has_ended_well_is_not_repeated(workspace):
    killed, begun = sampling(workspace)
    killed.kill()
    killed.wait()
    await_that("end of the job", (workspace / BLOCK / "trace.zarr").exists)
    assert_kept(workspace, finish(start(workspace), workspace), begun)


@pytest.mark.slow
def test_without_a_job_the_next_run_goes_on_from_the_last_segment(workspace):
    killed, begun = sampling(workspace)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    output = finish(start(workspace), workspace)
    assert "Released the lock" in output
    assert chunks(workspace / BLOCK / "trace.zarr")[0].stat().st_ino == begun
    assert "continuing from" in (workspace / LOG).read_text()
