"""Seconds that the phases of a block take."""

import json
import os
import time
from pathlib import Path
from typing import Any

import jax

from bnn_atlas.files import atomic
from bnn_atlas.methods.contract import Method
from bnn_atlas.placement import Placement
from bnn_atlas.runtime import processor


class Clock:
    """Seconds since its start, added to those before it."""

    def __init__(self, before: float) -> None:
        self._before = before
        self._begun = 0.0

    def start(self) -> None:
        """Begin to count."""
        self._begun = time.monotonic()

    def read(self) -> float:
        """Seconds so far."""
        return self._before + time.monotonic() - self._begun


def write_timing(
    path: Path, method: Method, seconds: list[float], gradients: list[int], place: Placement, draws: int | None = None
) -> None:
    """Write what each phase took and on what machine, for effective sample sizes per second and per gradient.

    Args:
        path: a JSON file.
        method: whose phases they are.
        seconds: wall time of each phase, compilation left out.
        gradients: what all chains counted in each phase; empty where they did not. Those of the last phase are in the
            trace, draw by draw.
        place: where the chains were computed.
        draws: where a stopping rule ended the last phase; its seconds are then those until the segment with its last
            draw was written, its steps those of the trace, and `planned` the steps that it would have had.
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
    }
    with atomic(path) as temporary:
        temporary.write_text(json.dumps(timing, indent=2) + "\n", encoding="utf-8")
