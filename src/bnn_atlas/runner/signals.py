"""Signals that ask a block to stop."""

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

log = logging.getLogger(__name__)


class Interrupted(SystemExit):
    """Sampling stopped on SIGTERM or SIGINT after its last checkpoint; the process ends with the signal's exit code."""


class Stop:
    """Number of the signal that asked to stop, or 0."""

    requested = 0
    computing = False
    """Whether the first segment has begun."""


_listening: list[Stop] = []
"""The stop of the outermost `stop_signal`, while there is one."""


@contextmanager
def stop_signal() -> Iterator[Stop]:
    """Note SIGTERM and SIGINT instead of dying; a second SIGINT acts at once. Only the main thread can listen.

    Inside another `stop_signal` it gives that one's stop: a signal that came before the block was there counts, too.
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
            log.info("%s: finishing the segment that is being computed", name)
        else:
            log.warning(
                "%s before the first segment, which is computed and saved if there is time. If a cluster's time limit "
                "ends this job, raise the `runtime` of the rule, for example under set-resources in slurm/config.yaml",
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
