"""Passes SIGTERM from Slurm on to the script of a job.

Slurm announces the end of a job with SIGTERM (`--signal`, `scancel`, preemption). On clusters that track processes with
control groups, as most do, only the first process of the job step gets the signal. That is Snakemake 9, which keeps it
and waits for its script until Slurm kills both.
"""

import os
import signal
import threading
from collections.abc import Sequence
from pathlib import Path


def relay_sigterm(argv: Sequence[str]) -> None:
    """Pass SIGTERM on to the descendants of this process that handle it, if this is the Snakemake of a job step.

    Processes without a handler for SIGTERM are left alone: a shell would die and take its script with it, and a script
    that is already ending must not be interrupted. Snakemake keeps its own handler.

    Args:
        argv: the command line of Snakemake, `sys.argv`; the Snakemake that runs a job's script has `--mode remote`.
    """
    if "--mode remote" not in " ".join(argv) or "slurm-jobstep" in argv:
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_relay, args=(reader,), name="sigterm-relay", daemon=True).start()


def _relay(reader: int) -> None:
    """Reads the numbers of the signals that this process gets, one byte each, and acts on SIGTERM."""
    while True:
        if signal.SIGTERM in os.read(reader, 64):
            for process in descendants(os.getpid()):
                if handles_sigterm(process):
                    try:
                        os.kill(process, signal.SIGTERM)
                    except ProcessLookupError:
                        continue


def descendants(process: int) -> list[int]:
    """Numbers of all processes that a process has started, directly or not."""
    children: dict[int, list[int]] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        fields = _read(file).rpartition(") ")[2].split()  # after the program's name: state, parent, ...
        if fields:
            children.setdefault(int(fields[1]), []).append(int(file.parent.name))
    family = [process]
    for member in family:
        family += children.get(member, [])
    return family[1:]


def handles_sigterm(process: int) -> bool:
    """Whether a process has installed a handler for SIGTERM."""
    for line in _read(Path(f"/proc/{process}/status")).splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (signal.SIGTERM - 1) & 1)
    return False


def _read(file: Path) -> str:
    """Contents of a file of /proc; empty once its process has ended."""
    try:
        return file.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
