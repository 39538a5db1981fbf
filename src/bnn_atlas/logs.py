"""Log files of jobs."""

import logging
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

STARTED = " INFO started"
"""End of the first line of each attempt in a log."""
FAILED = " ERROR failed"
"""End of the line before an error that would occur again in another attempt."""
SAID_ONCE = ("bnn_atlas.posterior.compiled",)
"""Loggers whose warnings hold for all jobs of a run; they are printed once, at the end of the run
(`pipeline.farewell`)."""


@contextmanager
def logged(path: str | Path) -> Iterator[None]:
    """Append log records, and the traceback of a failure, to the file at `path`.

    For an error of this package, which says what to do, only the message is logged, without a traceback. Warnings also
    go to the terminal, after the name of the job, unless all jobs would repeat them (`SAID_ONCE`).
    SIGTERM, such as at a cluster's time limit, ends the job with a line that says so.
    A failure ends the process with status 1 and no further output: Snakemake prints the log of a failed job.

    Raises:
        SystemExit: the job has failed.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    file = logging.FileHandler(target, mode="a", encoding="utf-8")
    file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", datefmt="%H:%M:%S"))
    terminal = logging.StreamHandler(sys.stderr)
    terminal.setLevel(logging.WARNING)
    name = target.with_suffix("").as_posix().rpartition("/logs/")[2]
    terminal.setFormatter(logging.Formatter(f"{name}: %(message)s"))
    terminal.addFilter(lambda record: record.name not in SAID_ONCE)
    root = logging.getLogger()
    atlas = logging.getLogger("bnn_atlas")
    root.addHandler(file)
    root.addHandler(terminal)
    atlas.setLevel(logging.INFO)
    atlas.info("started")
    try:
        with _told_of_sigterm(atlas):
            yield
    except Exception as error:
        root.removeHandler(terminal)
        is_told = type(error).__module__.startswith("bnn_atlas.")
        may_pass = isinstance(error, OSError | MemoryError)
        root.error("failed; a retry may succeed" if may_pass else "failed", exc_info=not is_told)
        if is_told:
            root.error("%s: %s", type(error).__name__, error)
        raise SystemExit(1) from None
    finally:
        root.removeHandler(file)
        root.removeHandler(terminal)
        file.close()


@contextmanager
def _told_of_sigterm(log: logging.Logger) -> Iterator[None]:
    """End the process on SIGTERM with a line in the log; only the main thread can handle signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    begun = time.monotonic()

    def end(number: int, frame: FrameType | None) -> None:
        log.error(
            "ended by SIGTERM after %.0f s, with nothing saved. If a cluster's time limit ended this job, raise the "
            "`runtime` of its rule, for example under set-resources in slurm/config.yaml",
            time.monotonic() - begun,
        )
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
