"""Progress of a download: a bar on a terminal, a few log lines elsewhere."""

import logging
import sys
import time
from typing import Protocol

from tqdm import tqdm

logger = logging.getLogger(__name__)


class Progress(Protocol):
    """What pooch's downloader expects of a progress display."""

    total: float | None

    def update(self, n: int) -> object:
        """Count `n` more bytes."""

    def reset(self) -> None:
        """Start counting again."""

    def close(self) -> None:
        """End the display."""


class LogProgress:
    """Log how far a transfer is, at most once in `interval` seconds."""

    def __init__(self, name: str, interval: float = 5.0) -> None:
        self.total: float | None = None
        self._name = name
        self._interval = interval
        self._done = 0
        self._last = time.monotonic()

    def update(self, n: int) -> None:
        """Count `n` more bytes."""
        self._done += n
        if time.monotonic() - self._last >= self._interval:
            self._last = time.monotonic()
            of = f" of {self.total / 1e6:.1f}" if self.total else ""
            logger.info("%s: %.1f%s MB", self._name, self._done / 1e6, of)

    def reset(self) -> None:
        """Start counting again."""
        self._done = 0

    def close(self) -> None:
        """Nothing to take down."""


def progress_display(name: str) -> Progress:
    """A bar if standard error is a terminal, log lines otherwise."""
    if sys.stderr.isatty():
        # pooch asks for the display's truth value, which tqdm has only with a total; pooch then sets the real one.
        return tqdm(desc=name, unit="B", unit_scale=True, leave=False, total=1)
    return LogProgress(name)
