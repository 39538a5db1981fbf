"""A one-node Slurm, and Snakemake runs on it."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.copies import REPOSITORY

ONE_NODE = Path(__file__).parent / "one_node.sh"
PACKAGES = {"munged": "munge", "slurmctld": "slurmctld", "slurmd": "slurmd", "sbatch": "slurm-client"}


def skip_without_slurm() -> None:
    """Skip the test, in one line for all tests, where a Slurm cannot be brought up."""
    if os.geteuid() != 0:
        reason = "only root can bring up the one-node Slurm"
    elif missing := [package for tool, package in PACKAGES.items() if shutil.which(tool) is None]:
        reason = f"the one-node Slurm needs: apt-get install {' '.join(missing)}"
    else:
        return
    pytest.skip(reason)


def has_control_groups() -> bool:
    """Tell whether Slurm can follow processes by control groups here, without systemd."""
    return Path("/sys/fs/cgroup/freezer").is_dir()


@contextmanager
def one_node(proctrack: str = "linuxproc") -> Iterator[None]:
    """Bring up Slurm on this machine; its configuration has one place, so that only one test can have it."""
    with (Path(tempfile.gettempdir()) / "bnn-atlas-one-node-slurm.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = Path(tempfile.mkdtemp(prefix="one-node-slurm-"))
        folder.chmod(0o755)  # munged runs as its own user
        try:
            started = _one_node("start", folder, proctrack)
            if started.returncode:
                pytest.fail(f"the one-node Slurm did not start: {started.stderr}\n{_tails(folder / 'log')}")
            yield
        finally:
            _one_node("stop", folder, proctrack)
            shutil.rmtree(folder)


def _one_node(action: str, folder: Path, proctrack: str) -> subprocess.CompletedProcess[str]:
    log = folder / f"{action}.txt"
    with log.open("w") as handle:  # the daemons would keep a pipe open
        done = subprocess.run(
            [ONE_NODE, action, folder],
            env={**os.environ, "PROCTRACK": proctrack},
            stdin=subprocess.DEVNULL,
            stdout=handle,
            stderr=handle,
            check=False,
        )
    return subprocess.CompletedProcess(done.args, done.returncode, "", log.read_text(encoding="utf-8"))


class Snakemake:
    """One run of Snakemake in a folder, with its output in a file."""

    def __init__(self, folder: Path, command: str, **environment: str) -> None:
        """Start `command` with the programs of this environment and with the library in the folder if it has one."""
        programs = Path(sys.executable).parent
        source = folder / "src" if (folder / "src").is_dir() else REPOSITORY / "src"
        variables = {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(source), **environment}
        words = [str(programs / "snakemake"), *command.split()[1:]]
        self._log = folder / f"snakemake-{time.time_ns()}.txt"
        with self._log.open("w") as handle:
            self.process = subprocess.Popen(
                words,
                cwd=folder,
                env={**os.environ, **variables},
                stdin=subprocess.DEVNULL,
                stdout=handle,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        """What it has printed so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def await_that(self, what: str, condition: Callable[[], bool], seconds: float = 180) -> None:
        """Wait until something holds while the run goes on."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline or self.process.poll() is not None:
                self.stop()
                pytest.fail(f"no {what} before the end of the run or {seconds:.0f} s:\n{self.output[-5000:]}")
            time.sleep(0.1)

    def finish(self, seconds: float = 420) -> int:
        """Wait for the end of the run and give its exit status."""
        try:
            return self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"still running after {seconds:.0f} s:\n{self.output[-5000:]}")
        finally:
            self.stop()

    def stop(self) -> None:
        """End the run and everything that it started."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def slurm(*command: str) -> str:
    """Output of one of Slurm's commands."""
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout


def jobs_of_rule(rule: str) -> dict[str, str]:
    """Running jobs of a rule: number -> the comment with its wildcards that the executor gave it."""
    lines = slurm("squeue", "--noheader", "--states=running", "--format=%i|%k").splitlines()
    pairs = (line.split("|", 1) for line in lines)
    return {number: comment for number, comment in pairs if comment.startswith(f"rule_{rule}")}


def _tails(folder: Path) -> str:
    return "\n".join(f"{file}:\n{file.read_text(errors='replace')[-2000:]}" for file in folder.glob("*.log"))
