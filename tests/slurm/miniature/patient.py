"""Waits; on SIGTERM, saves its state and fails; with a saved state, finishes. Both are noted in its history."""

# ruff: noqa: F821 (Snakemake defines `snakemake`)

import signal
import sys
import time
from pathlib import Path
from types import FrameType

state = Path(snakemake.params.state)


def note(event: str) -> None:
    with Path(snakemake.params.history).open("a", encoding="utf-8") as history:
        history.write(f"{event}\n")


def save(number: int, frame: FrameType | None) -> None:
    """Take a while, as the last segment of a sampler does."""
    time.sleep(2)
    state.write_text(signal.Signals(number).name, encoding="utf-8")
    note("saved")
    sys.exit(128 + number)


if state.exists():
    # It may be told again before it ends, since its limit is as short as that of the first attempt.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path(snakemake.output[0]).write_text(state.read_text(encoding="utf-8"), encoding="utf-8")
    note("finished")
else:
    signal.signal(signal.SIGTERM, save)
    time.sleep(300)
