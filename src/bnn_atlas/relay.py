"""SIGTERM from Slurm, passed on to the scripts of a job.

Slurm announces the end of a job with SIGTERM (`--signal`, `scancel`, preemption). Where it follows processes by control
groups, as most clusters do, only the first process of the job's step gets the signal: that is Snakemake, which then
waits for its script, and the script is killed without a warning.
"""

import os
import signal
import threading
from collections.abc import Sequence
from pathlib import Path


def relay_sigterm(argv: Sequence[str]) -> None:
    """Pass SIGTERM on to the descendants of this process that handle it, if this is Snakemake in the step of a job.

    Processes without a handler for SIGTERM are left alone: a shell would die and take its script along, and a script
    that has begun to end is not to be hurried. Snakemake keeps its own handler.

    :param argv: the command line of Snakemake, `sys.argv`
    """
    if "--mode remote" not in " ".join(argv) or "slurm-jobstep" in argv:
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_relay, args=(reader,), name="sigterm-relay", daemon=True).start()


def _relay(reader: int) -> None:
    """Read the numbers of the signals that this process gets, one byte each, and act on SIGTERM."""
    while True:
        if signal.SIGTERM in os.read(reader, 64):
            for process in descendants(os.getpid()):
                if handles_sigterm(process):
                    try:
                        os.kill(process, signal.SIGTERM)
                    except ProcessLookupError:
                        continue


def descendants(process: int) -> list[int]:
    """Return the numbers of all processes that a process has started, directly or not."""
    children: dict[int, list[int]] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        fields = _read(file).rpartition(") ")[2].split()  # after the program's name: state, parent, ...
        if fields:
            children.setdefault(int(fields[1]), []).append(int(file.parent.name))
    found = [process]
    for parent in found:
        found += children.get(parent, [])
    return found[1:]


def handles_sigterm(process: int) -> bool:
    """Tell whether a process has a handler for SIGTERM of its own."""
    for line in _read(Path(f"/proc/{process}/status")).splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (signal.SIGTERM - 1) & 1)
    return False


def _read(file: Path) -> str:
    """Read a file of /proc; empty once its process has ended."""
    try:
        return file.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
