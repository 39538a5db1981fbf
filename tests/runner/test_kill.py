"""`kill -9` and SIGTERM at random moments never change a bit; cores neither."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from bnn_atlas.traces.store import Trace, open_trace

from ..methods.running import assert_same

ROOT = Path(__file__).parents[2]
STEPS = 6000


def start(
    destination: Path, cache: Path, steps: int = STEPS, threads: int = 2, cpus: str | None = None, **pipes: Any
) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.runner.child", str(destination), str(threads), str(steps)]
    if cpus is not None:
        command = ["taskset", "-c", cpus, *command]
    environment = {**os.environ, "BNN_ATLAS_CACHE": str(cache)}
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE} | pipes
    return subprocess.Popen(command, cwd=ROOT, env=environment, text=True, **pipes)


def finish(process: subprocess.Popen[str]) -> int:
    """Exit code of the child, its pipes closed."""
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    return process.wait()


def wait_for(process: subprocess.Popen[str], word: str) -> bool:
    """Whether the child said `word`; False when it ended without."""
    assert process.stdout is not None
    return any(word in line for line in process.stdout)


def complete(process: subprocess.Popen[str], destination: Path) -> Trace:
    """The trace of a child that ends by itself."""
    assert wait_for(process, "complete")
    assert finish(process) == 0
    return open_trace(destination)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def quiet(tmp_path_factory, cache):
    """The trace of a run that nobody disturbs."""
    destination = tmp_path_factory.mktemp("quiet") / "trace.zarr"
    return complete(start(destination, cache), destination)


@pytest.mark.slow
def test_ten_kills_at_random_moments(tmp_path, cache):
    """Two of them at any time from the start on, the others in a phase."""
    rng, steps = random.Random(20), 60_000
    quiet = complete(start(tmp_path / "quiet" / "trace.zarr", cache, steps), tmp_path / "quiet" / "trace.zarr")
    destination = tmp_path / "trace.zarr"
    for kill in range(10):
        process = start(destination, cache, steps)
        if kill % 5:
            assert wait_for(process, "phase"), "the run ended before it was killed ten times: make it longer"
            time.sleep(rng.uniform(0.0, 0.5))
        else:
            time.sleep(rng.uniform(0.1, 2.0))
        process.send_signal(signal.SIGKILL)
        assert finish(process) == -signal.SIGKILL, "the run ended before it was killed ten times: make it longer"
        assert not destination.exists()
    assert_same(complete(start(destination, cache, steps), destination), quiet)
    assert not destination.with_name("trace.zarr.partial").exists()


@pytest.mark.slow
def test_sigterm_writes_the_segment_and_resumes(tmp_path, cache, quiet):
    destination = tmp_path / "trace.zarr"
    process = start(destination, cache, stdin=subprocess.PIPE)
    process.stdin.write("\n" * 3)
    process.stdin.flush()
    assert wait_for(process, "phase 3")
    process.terminate()
    assert finish(process) == 128 + signal.SIGTERM
    assert (tmp_path / "trace.zarr.partial" / "checkpoint.npz").exists()
    process = start(destination, cache)
    assert process.stdout.readline() == "phase 3\n", "tuning was repeated although its end had been checkpointed"
    assert_same(complete(process, destination), quiet)


@pytest.mark.slow
def test_one_core_and_one_device_give_the_same_bits(tmp_path, cache, quiet):
    destination = tmp_path / "trace.zarr"
    assert_same(complete(start(destination, cache, threads=1, cpus="0"), destination), quiet)


def test_a_second_process_waits_and_changes_nothing(tmp_path, cache, quiet):
    """As when an orphaned cluster job and its restarted copy meet."""
    destination = tmp_path / "trace.zarr"
    first = start(destination, cache, stdin=subprocess.PIPE)
    assert wait_for(first, "phase")
    second = start(destination, cache, stderr=subprocess.PIPE)
    assert any("waiting to make" in line for line in second.stderr)
    first.stdin.close()
    assert_same(complete(first, destination), quiet)
    assert_same(complete(second, destination), quiet)
