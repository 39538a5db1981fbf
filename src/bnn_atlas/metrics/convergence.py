"""Rows of the metric table about convergence, from the diagnostics of every parameter and function value."""

import numpy as np
import pandas as pd

from bnn_atlas.metrics import mixing
from bnn_atlas.metrics.tables import Measurement

RHAT_LIMITS = (1.01, 1.05)
"""Values whose share above is reported; 1.01 is the limit of Vehtari et al. 2021."""

_PLAN = (
    ("rhat", "rhat_{}_max", np.max),
    ("rhat", "rhat_{}_median", np.median),
    ("rhat_chainwise_max", "rhat_chainwise_{}_max", np.max),
    ("rhat_chainwise_median", "rhat_chainwise_{}_median", np.median),
    ("ess_bulk", "ess_bulk_{}_min", np.min),
    ("ess_bulk", "ess_bulk_{}_median", np.median),
    ("ess_tail", "ess_tail_{}_min", np.min),
    ("ess_tail", "ess_tail_{}_median", np.median),
    ("within", "variance_within_{}_median", np.median),
    ("between", "variance_between_{}_median", np.median),
)


def convergence_measurements(
    space: str, frame: pd.DataFrame, chains: int, draws: int, of: int | None = None
) -> list[Measurement]:
    """Extremes, medians and shares of the diagnostics over the quantities of a space (weight, function).

    `of` says how many quantities there are, where not all are in `frame`.
    """
    some = f"{len(frame):,} of {of:,} quantities, evenly spread" if of and of > len(frame) else ""
    measurements = []
    for column, metric, reduce in _PLAN:
        values = frame[column].to_numpy()
        defined = values[~np.isnan(values)]
        value = float(reduce(defined)) if len(defined) else float("nan")
        undefined = _undefined_note(column, len(values) - len(defined), len(values), chains, draws)
        note = "; ".join(part for part in (some, undefined) if part)
        measurements.append(Measurement(metric.format(space), value, note=note))
    values = frame["rhat"].to_numpy()
    defined = values[~np.isnan(values)]
    for limit in RHAT_LIMITS if len(defined) else ():
        share = float((defined > limit).mean())
        note = f"share of {len(defined)} quantities"
        measurements.append(Measurement(f"rhat_{space}_share_above_{limit:g}", share, note=note))
    return measurements


def _undefined_note(column: str, undefined: int, total: int, chains: int, draws: int) -> str:
    """Why some or all quantities have no diagnostic."""
    if not undefined:
        return ""
    if chains == 0:
        return "undefined: no chain left"
    if column in ("rhat", "between") and chains < 2:
        return "undefined: needs at least 2 chains"
    known = {"within": 2, "between": 1, "ess_bulk": mixing.SHORTEST_ESS, "ess_tail": mixing.SHORTEST_ESS}
    needed = known.get(column, 2 * mixing.PIECES if "chainwise" in column else 4)
    if draws < needed:
        return f"undefined: needs at least {needed} draws"
    return f"{undefined} of {total} quantities left out: constant or not finite draws"
