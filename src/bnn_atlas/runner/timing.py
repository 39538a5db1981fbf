"""Time that the phases of a block take, and the block's progress in the log and at a terminal."""

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import jax
import numpy as np
from tqdm import tqdm

from bnn_atlas.files import atomic
from bnn_atlas.methods.contract import Method
from bnn_atlas.placement import Placement
from bnn_atlas.runtime import processor


class Clock:
    """Seconds since `start`, plus seconds from earlier attempts."""

    def __init__(self, before: float) -> None:
        self._before = before
        self._begun = 0.0

    def start(self) -> None:
        """Start counting."""
        self._begun = time.monotonic()

    def read(self) -> float:
        """Seconds so far."""
        return self._before + time.monotonic() - self._begun


def write_timing(
    path: Path,
    method: Method,
    seconds: list[float],
    gradients: list[int],
    place: Placement,
    draws: int | None = None,
    courses: Mapping[str, np.ndarray] = {},
) -> None:
    """Write the time of each phase, the machine and the courses of fits, for efficiency and convergence.

    Args:
        path: a JSON file.
        method: the method with these phases.
        seconds: wall time of each phase without compilation.
        gradients: gradients of all chains in each phase; empty if they are not counted. Gradients of the last phase are
            recorded in the trace, draw by draw.
        place: placement of the chains on devices.
        draws: draws at which a stopping rule ended the last phase; its `steps` are then the steps of the trace, and
            `planned` the steps without the rule. The seconds of the last phase end when the segment with the last draw
            is written.
        courses: name of a quantity -> its values [chain, point] at evenly spread points of the fit or training.
    """
    device = jax.devices()[0]
    phases: list[dict[str, Any]] = [
        {"name": phase.name, "steps": phase.steps, "seconds": round(taken, 3)}
        for phase, taken in zip(method.phases, seconds, strict=True)
    ]
    for phase, counted in zip(phases[:-1], gradients, strict=False):
        phase["gradients"] = counted
    if draws is not None:
        last = method.phases[-1]
        phases[-1] |= {"steps": draws * last.thinning, "planned": last.steps}
    timing = {
        "phases": phases,
        "device": f"{device.platform} {device.device_kind}",
        "devices": place.devices,
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "chains": place.chains,
        "gradients_per_step": method.gradients_per_step,
        "courses": {name: [[float(f"{v:.7g}") for v in chain] for chain in course] for name, course in courses.items()},
    }
    with atomic(path) as temporary:
        temporary.write_text(json.dumps(timing) + "\n", encoding="utf-8")


log = logging.getLogger(__name__)


_WANTED: ContextVar[bool | None] = ContextVar("wanted", default=None)
"""Whether bars are shown; None for at a terminal and in a notebook."""


@contextmanager
def shown(wanted: bool | None) -> Iterator[None]:
    """Show bars in the block, or none; None shows them at a terminal and in a notebook."""
    token = _WANTED.set(wanted)
    try:
        yield
    finally:
        _WANTED.reset(token)


def bar(**settings: Any) -> "tqdm[Any]":
    """A bar of tqdm: a widget in a notebook that has widgets, else text."""
    in_notebook = "ipykernel" in sys.modules
    wanted = _WANTED.get()
    disable = not (in_notebook or sys.stderr.isatty()) if wanted is None else not wanted
    kind: Any = tqdm
    if in_notebook and not disable and find_spec("ipywidgets"):
        from tqdm.notebook import tqdm as kind
    return kind(disable=disable, leave=False, **settings)


class Elapsed:
    """How long the block has lasted, for work in one piece; nothing is counted, so it costs nothing."""

    def __init__(self, what: str, interval: float = 0.5) -> None:
        self._done = threading.Event()
        self._bar = bar(desc=what, bar_format="{desc}: {elapsed}")
        self._interval = interval
        self._thread = threading.Thread(target=self._show, daemon=True)

    def _show(self) -> None:
        while not self._done.wait(self._interval):
            self._bar.refresh()

    def __enter__(self) -> Self:
        if not self._bar.disable:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._bar.close()


class ProgressReport:
    """Rate and remaining time: a line in the log at most every `interval` seconds, and a `bar`."""

    def __init__(
        self, total: int, done: int, chains: int, gradients_per_step: float | None, interval: float = 10.0
    ) -> None:
        self._total, self._done = total, done
        self._gradients = chains * (gradients_per_step or 0)
        self._interval = interval
        self._begun = self._logged = time.monotonic()
        self._first = done
        self._bar = bar(total=total, initial=done, unit="step")

    def advance(self, phase: str, steps: int) -> None:
        """Add `steps` steps (of every chain) to the named phase."""
        self._done += steps
        self._bar.set_description(phase, refresh=False)
        self._bar.update(steps)
        now = time.monotonic()
        if now - self._logged >= self._interval or self._done == self._total:
            self._logged = now
            rate = (self._done - self._first) / max(now - self._begun, 1e-9)
            log.info(
                "%s: step %s of %s, %.4g steps/s%s, %s left",
                phase,
                f"{self._done:,}",
                f"{self._total:,}",
                rate,
                f" ({rate * self._gradients:.4g} chain-gradients/s)" if self._gradients else "",
                tqdm.format_interval((self._total - self._done) / max(rate, 1e-9)),
            )

    def close(self) -> None:
        """Remove the bar."""
        self._bar.close()
