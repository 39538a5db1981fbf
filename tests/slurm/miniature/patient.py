"""Waits; on SIGTERM, saves its state and fails; with a saved state, finishes."""

# ruff: noqa: F821 (Snakemake defines `snakemake`)

import signal
import sys
import time
from pathlib import Path
from types import FrameType

state = Path(snakemake.params.state)


def save(number: int, frame: FrameType | None) -> None:
    """Take a while, as the last segment of a sampler does."""
    time.sleep(2)
    state.write_text(signal.Signals(number).name, encoding="utf-8")
    sys.exit(128 + number)


signal.signal(signal.SIGTERM, save)
if not state.exists():
    time.sleep(300)
Path(snakemake.output[0]).write_text(state.read_text(encoding="utf-8"), encoding="utf-8")
