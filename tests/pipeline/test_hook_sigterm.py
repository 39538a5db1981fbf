"""SIGTERM passed on from Snakemake to its scripts."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bnn_atlas.pipeline.hooks.sigterm import descendants, handles_sigterm

SCRIPT = """
import pathlib, signal, sys, time
def stop(number, frame):
    pathlib.Path(sys.argv[1]).with_suffix(".stopped").touch()
    sys.exit(3)
signal.signal(signal.SIGTERM, stop)
pathlib.Path(sys.argv[1]).touch()
time.sleep(600)
"""

# As Snakemake does: the relay while the Snakefile is read, the own handler afterwards, the script under a shell.
PARENT = """
import signal, subprocess, sys
from bnn_atlas.pipeline.hooks.sigterm import relay_sigterm
relay_sigterm(sys.argv[2:])
signal.signal(signal.SIGTERM, lambda number, frame: print("noted", flush=True))
shell = subprocess.Popen(["bash", "-c", f"'{sys.executable}' script.py '{sys.argv[1]}'; exit $?"])
print(shell.wait(), flush=True)
"""


def wait_for(path: Path) -> None:
    for _ in range(6000):
        if path.exists():
            return
        time.sleep(0.05)
    pytest.fail(f"{path.name} did not appear")


def start(folder: Path, *argv: str) -> subprocess.Popen[str]:
    (folder / "script.py").write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable, "-c", PARENT, str(folder / "started"), *argv]
    parent = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    wait_for(folder / "started")
    return parent


def test_script_of_a_job_gets_the_signal(tmp_path: Path) -> None:
    parent = start(tmp_path, "snakemake", "--cores", "all", "--mode", "remote")
    parent.send_signal(signal.SIGTERM)
    output, _ = parent.communicate(timeout=300)
    assert (tmp_path / "started.stopped").exists()
    assert sorted(output.split()) == ["3", "noted"]


@pytest.mark.parametrize("argv", ["snakemake --cores 2", "snakemake --executor slurm-jobstep --jobs 1 --mode remote"])
def test_snakemake_outside_a_step_keeps_the_signal_to_itself(tmp_path: Path, argv: str) -> None:
    parent = start(tmp_path, *argv.split())
    script = next(process for process in descendants(parent.pid) if handles_sigterm(process))
    parent.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert not (tmp_path / "started.stopped").exists()
    os.kill(script, signal.SIGTERM)
    output, _ = parent.communicate(timeout=300)
    assert sorted(output.split()) == ["3", "noted"]


def test_processes_without_a_handler_are_known() -> None:
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        assert sleeper.pid in descendants(os.getpid())
        assert not handles_sigterm(sleeper.pid)
        sleeper.kill()
    assert sleeper.pid not in descendants(os.getpid())
    assert not handles_sigterm(sleeper.pid)
