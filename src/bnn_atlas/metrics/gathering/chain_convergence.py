"""Convergence: R-hat and effective sample sizes of every parameter and of function values, and their extremes."""

import numpy as np
import pandas as pd

from bnn_atlas.metrics.formulas import rhat_ess
from bnn_atlas.metrics.formulas.rhat_ess import Diagnostics, diagnose, gelman_rubin
from bnn_atlas.metrics.gathering.chain_statistics import LOG_DENSITIES, by_chains
from bnn_atlas.metrics.gathering.summary import PredictiveSummary
from bnn_atlas.metrics.tables.measurement import Measurement, joined
from bnn_atlas.traces.draws import Draws

WORKING_COPIES = 16
"""Number of float64 copies of the draws in memory while a batch is diagnosed."""
RESOLUTION = 1e-6
"""A probability whose range is smaller counts as constant: in single precision, its draws vary by rounding only."""
CHUNK = 128
"""Parameters per stored chunk; batches are multiples of it where memory allows."""

RHAT_LIMITS = (1.01, 1.05, 1.1)
"""The fraction of values above each of these limits is reported: the limits of Vehtari et al. 2021 (1.01) and Gelman et
al. 2013 (1.1), and a limit in between."""

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

PLAIN = "rhat_gelman_rubin"
"""Column of the plain R-hat (`gelman_rubin`), which is stored in addition to the fields of `Diagnostics`."""
DIAGNOSTICS = (*Diagnostics._fields, PLAIN)


def diagnose_parameters(pool: Draws, kept: np.ndarray, max_bytes: int, limit: int) -> pd.DataFrame:
    """Diagnostics of the scalar parameters that the pool has, over the chains `kept` (PARAMETER_SCHEMA).

    If there are more than `limit` parameters, every k-th parameter is diagnosed, with the smallest k that respects the
    limit. Parameters are read in batches; all draws of one parameter must fit in `max_bytes`.
    """
    layout, total = pool.layout, pool.size
    stride = -(-total // limit)
    size = max(1, max_bytes // max(1, WORKING_COPIES * 8 * pool.chains * pool.draws))
    size = size // CHUNK * CHUNK or size
    span = max(1, min(size, size * WORKING_COPIES // stride)) * stride
    parts = []
    for start in range(0, total if len(kept) else 0, span):
        draws = pool.read(slice(0, pool.chains), slice(0, pool.draws), slice(start, min(start + span, total)))
        parts.append(_diagnosed(draws[kept, :, ::stride]))
    stored = np.arange(total) if total == layout.size else _places(pool)
    chosen = stored[::stride]
    frame = pd.DataFrame(_joined(parts, len(chosen)))
    arrays = np.repeat(np.arange(len(layout.parameters)), [p.size for p in layout.parameters])[chosen]
    frame.insert(0, "name", [layout.name(index) for index in chosen.tolist()])
    frame.insert(1, "layer", pd.Series([p.layer for p in layout.parameters], dtype="Int64")[arrays].array)
    frame.insert(2, "role", np.array([p.role for p in layout.parameters], dtype=object)[arrays])
    return frame


def _places(pool: Draws) -> np.ndarray:
    """Positions in the network of the scalars that a pool has."""
    names = set(pool.parameter_names)
    return np.array([place for place, name in enumerate(pool.layout.names()) if name in names])


def diagnose_functions(summary: PredictiveSummary, max_bytes: int) -> pd.DataFrame:
    """Diagnostics of the function values that the summary keeps (FUNCTION_SCHEMA); `class` is empty for regression.

    Function values are diagnosed in batches; all draws of one function value must fit in `max_bytes`. A probability
    that stays within `RESOLUTION` counts as constant and has no diagnostics: it varies by rounding only.
    """
    kept, total = summary.kept, len(summary.function_rows)
    size = max(1, max_bytes // max(1, WORKING_COPIES * 8 * len(kept) * summary.draws))
    starts = range(0, total if len(kept) else 0, size)
    parts = [_diagnosed(_resolved(summary, kept, slice(i, i + size))) for i in starts]
    frame = pd.DataFrame(_joined(parts, total))
    frame.insert(0, "row", summary.function_rows)
    classes = pd.Series(summary.function_classes, dtype="Int64")
    frame.insert(1, "class", classes.mask(classes < 0))
    return frame


def convergence_measurements(
    space: str, frame: pd.DataFrame, chains: int, draws: int, of: int | None = None
) -> list[Measurement]:
    """Extremes and medians of the diagnostics, and fractions above limits, in one space (`weight` or `function`).

    `of` is the total number of quantities if `frame` holds only some of the quantities.
    """
    diagnosed = f"{len(frame):,} of {of:,} quantities, evenly spread" if of and of > len(frame) else ""
    measurements = []
    for column, metric, reduce in _PLAN:
        values = frame[column].to_numpy()
        defined = values[~np.isnan(values)]
        value = float(reduce(defined)) if len(defined) else float("nan")
        undefined = _undefined_note(column, len(values) - len(defined), len(values), chains, draws)
        measurements.append(Measurement(metric.format(space), value, note=joined(diagnosed, undefined)))
    values = frame["rhat"].to_numpy()
    defined = values[~np.isnan(values)]
    for limit in RHAT_LIMITS if len(defined) else ():
        share = float((defined > limit).mean())
        note = f"share of {len(defined)} quantities"
        measurements.append(Measurement(f"rhat_{space}_share_above", share, note=note, at=f"{limit:g}"))
    return measurements


def layer_measurements(frame: pd.DataFrame) -> list[Measurement]:
    """Largest and median R-hat of the scalar parameters of each layer (`diagnose_parameters`).

    Most parameters are often of one layer, so that extremes and medians over all layers say little about the others.
    Parameters outside the layers count as `noise`. Empty for a single layer, or if no R-hat is defined.
    """
    layers = frame["layer"].astype("Int64")
    names = ("layer" + layers.astype("string")).fillna("noise")
    if names.nunique() < 2 or frame["rhat"].isna().all():
        return []
    found = []
    for name, values in frame["rhat"].groupby(names, sort=False):
        defined = values.dropna().to_numpy(dtype=np.float64)
        left_out = len(values) - len(defined)
        note = f"{left_out} of {len(values)} quantities left out: constant or not finite draws" if left_out else ""
        for metric, reduce in (("max", np.max), ("median", np.median)):
            value = float(reduce(defined)) if len(defined) else float("nan")
            found.append(Measurement(f"rhat_weight_layer_{metric}", value, note=note, at=str(name)))
    return found


def noise_measurements(summary: PredictiveSummary) -> list[Measurement]:
    """R-hat and effective sample sizes of log sigma at the rows kept in the summary; empty if log sigma is constant."""
    draws = summary.log_noise_draws
    if draws is None or not len(summary.kept) or np.ptp(draws[summary.kept], axis=(0, 1)).max() == 0:
        return []
    note = f"log sigma at {draws.shape[2]} test {'row' if draws.shape[2] == 1 else 'rows'}"
    return _extremes("{}_noise_{}", draws[summary.kept], note)


def log_posterior_measurements(pool: Draws, kept: np.ndarray, max_bytes: int) -> list[Measurement]:
    """R-hat and effective sample sizes of the log posterior; empty if the trace has no log posterior."""
    if not set(LOG_DENSITIES) <= set(pool.statistics) or not len(kept):
        return []
    values = np.concatenate([part for _, part in by_chains(pool, LOG_DENSITIES, max_bytes)])
    return _extremes("{}_log_posterior", values[kept, :, None], "")


def _extremes(name: str, draws: np.ndarray, note: str) -> list[Measurement]:
    """The largest R-hat and smallest effective sample sizes of draws [C, S, q]; NaN with a note if undefined."""
    found, (chains, length, total), rows = diagnose(draws), draws.shape, []
    for column, extreme in (("rhat", "max"), ("ess_bulk", "min"), ("ess_tail", "min")):
        values = getattr(found, column)
        defined = values[~np.isnan(values)]
        reduced = (defined.max() if extreme == "max" else defined.min()) if len(defined) else np.nan
        undefined = _undefined_note(column, total - len(defined), total, chains, length)
        rows.append(Measurement(name.format(column, extreme), float(reduced), note=joined(note, undefined)))
    return rows


def _resolved(summary: PredictiveSummary, kept: np.ndarray, part: slice) -> np.ndarray:
    """Draws [c, S, q] of some function values; probabilities that hardly vary are replaced by constants."""
    draws = summary.function_draws[kept, :, part]
    still = (summary.function_classes[part] >= 0) & (np.ptp(draws, axis=(0, 1)) < RESOLUTION)
    return np.where(still, draws[:1, :1], draws) if still.any() else draws


def _diagnosed(draws: np.ndarray) -> dict[str, np.ndarray]:
    """Name -> diagnostics [q] of draws [C, S, q]."""
    return {**diagnose(draws)._asdict(), PLAIN: gelman_rubin(draws)}


def _joined(parts: list[dict[str, np.ndarray]], total: int) -> dict[str, np.ndarray]:
    """Columns of all batches; NaN throughout if there was nothing to diagnose."""
    if not parts:
        return {name: np.full(total, np.nan) for name in DIAGNOSTICS}
    return {name: np.concatenate([part[name] for part in parts]) for name in DIAGNOSTICS}


def _undefined_note(column: str, undefined: int, total: int, chains: int, draws: int) -> str:
    """Note on why some or all quantities have no diagnostic; empty if every quantity has a diagnostic."""
    if not undefined:
        return ""
    if chains == 0:
        return "undefined: no chain left"
    if column in ("rhat", "between") and chains < 2:
        return "undefined: needs at least 2 chains"
    least = {"within": 2, "between": 1, "ess_bulk": rhat_ess.SHORTEST_ESS, "ess_tail": rhat_ess.SHORTEST_ESS}
    needed = least.get(column, 2 * rhat_ess.PIECES if "chainwise" in column else 4)
    if draws < needed:
        return f"undefined: needs at least {needed} draws"
    return f"{undefined} of {total} quantities left out: constant or not finite draws"
