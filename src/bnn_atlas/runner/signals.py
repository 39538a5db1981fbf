"""Signals that request a block to stop."""

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

log = logging.getLogger(__name__)


class Interrupted(SystemExit):
    """Raised if a signal stopped sampling, after the last checkpoint; the process ends with the signal's exit code."""


class Stop:
    """Whether a block was requested to stop, and by which signal."""

    requested = 0
    """Number of the signal, or 0 without a request."""
    computing = False
    """Whether the first segment has begun."""

    def obey(self) -> None:
        """End the process if a signal requested a stop."""
        if self.requested:
            log.info("stopped by %s; the next attempt continues from here", signal.Signals(self.requested).name)
            raise Interrupted(128 + self.requested)


_listening: list[Stop] = []
"""The `Stop` of the outermost `stop_signal` that is active."""


def obey() -> None:
    """End the process if a noted signal requested a stop."""
    for stop in _listening:
        stop.obey()


@contextmanager
def stop_signal() -> Iterator[Stop]:
    """Note SIGTERM and SIGINT instead of dying; a second SIGINT acts at once. Only the main thread can listen.

    A nested `stop_signal` yields the `Stop` of the outer context, so a signal that arrived before the block also
    counts.
    """
    if _listening:
        yield _listening[0]
        return
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def note(number: int, frame: FrameType | None) -> None:
        stop.requested = number
        if number == signal.SIGINT:
            signal.signal(number, before[number])
        name = signal.Signals(number).name
        if stop.computing:
            log.info("%s: finishing the current segment", name)
        else:
            log.warning(
                "%s before the first segment, which will be computed and saved if there is time. If a cluster's time "
                "limit ends this job, raise the rule's `runtime`, for example under set-resources in slurm/config.yaml",
                name,
            )

    before = {int(number): signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    _listening.append(stop)
    try:
        yield stop
    finally:
        _listening.clear()
        for number, handler in before.items():
            signal.signal(number, handler)
