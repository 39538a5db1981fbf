"""Effective sample size for what it cost: per gradient and per second, of the sampling phase and of everything.

Costs are those of all chains, also of excluded ones; effective sample sizes are those of the chains that are left.
"""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from bnn_atlas.metrics.cost import Cost
from bnn_atlas.metrics.tables import Measurement

RATED = tuple(
    f"ess_{kind}_{space}_{which}"
    for space in ("weight", "function")
    for kind, which in (("bulk", "min"), ("bulk", "median"), ("tail", "min"))
)
"""Effective sample sizes that are set against their cost."""


def gradient_measurements(
    convergence: Iterable[Measurement], chains: pd.DataFrame, cost: Cost | None, batch_rows: int | None
) -> list[Measurement]:
    """Gradients of all chains, and effective draws per gradient; a rerun gives the same numbers.

    Gradients that the trace counted (column `gradients` of `chains`) come first, steps times gradients per step second.
    `batch_rows` is the size of a mini-batch where gradients are not those of the full data. Nothing where neither is
    known; the rows of everything are left out where the gradients of another phase are not.
    """
    note = "of the full data" if batch_rows is None else f"of mini-batches of {batch_rows} rows"
    counted = chains["gradients"].to_numpy(dtype=np.float64)
    sampling = float(counted.sum()) if np.isfinite(counted).all() and counted.size else None
    if sampling is None and cost is not None:
        sampling = cost.gradients([cost.sampling])
    before = cost.gradients(cost.phases[:-1]) if cost is not None else None
    if cost is not None and len(cost.phases) == 1:
        before = 0.0
    measurements = []
    if sampling:
        measurements.append(
            Measurement("gradients_sampling", sampling, note=f"of all chains, {note}", chains=len(chains))
        )
        measurements += _rates(convergence, sampling, "per_gradient", f"gradients {note}")
    if sampling is not None and before is not None:
        total = sampling + before
        measurements.append(Measurement("gradients_total", total, note=f"of all chains, {note}", chains=len(chains)))
        measurements += _rates(convergence, total, "per_gradient_total", f"gradients of all phases, {note}")
    return measurements


def time_measurements(
    convergence: Iterable[Measurement], gradients: float | None, cost: Cost | None
) -> list[Measurement]:
    """Seconds by phase, gradients per second, and effective draws per second; they differ from one rerun to the next.

    `gradients` are those of the sampling phase, if known. Without a cost there are no rows.
    """
    if cost is None:
        return []
    convergence = list(convergence)
    chains, seconds = cost.chains, cost.sampling.seconds
    rows = [
        Measurement(f"seconds_phase_{phase.name.replace(' ', '_')}", phase.seconds, note=cost.note, chains=chains)
        for phase in cost.phases
    ]
    rows.append(Measurement("seconds_sampling", seconds, note=cost.note, chains=chains))
    rows.append(Measurement("seconds_total", cost.seconds, note=cost.note, chains=chains))
    if gradients and seconds > 0:
        rows.append(Measurement("gradients_per_second", gradients / seconds, note=cost.note, chains=chains))
    rows += _rates(convergence, seconds, "per_second", cost.note)
    rows += _rates(convergence, cost.seconds, "per_second_total", f"{cost.note}, all phases")
    return rows


def _rates(convergence: Iterable[Measurement], cost: float, suffix: str, note: str) -> list[Measurement]:
    """Effective sample sizes over a cost; undefined ones are left out, as is everything that cost nothing."""
    if cost <= 0:
        return []
    return [
        Measurement(f"{row.metric}_{suffix}", row.value / cost, note=note)
        for row in convergence
        if row.metric in RATED and np.isfinite(row.value)
    ]
