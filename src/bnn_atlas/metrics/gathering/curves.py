"""Diagnostic curves, with a number of points that does not grow with chains or draws.

A curve has one line per chain for up to LINES chains; if there are more chains, it has quantiles over the chains.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from bnn_atlas.metrics.formulas.averages import lppd_over_draws
from bnn_atlas.metrics.formulas.rhat_ess import autocorrelation
from bnn_atlas.metrics.gathering.chain_statistics import LINES, Course
from bnn_atlas.metrics.gathering.summary import PredictiveSummary, with_targets

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
"""Quantiles that are drawn if there are more than LINES chains."""
RANK_BINS = 20
MOST_RANKED = 2_000_000
"""Largest number of draws that are ranked; with more draws, chains are thinned."""
MAX_LAGS = 100
"""Largest number of points of an autocorrelation curve."""
MAX_LAG = 1000


class RunningLppd(NamedTuple):
    """LPPD per row over the first k draws of each chain."""

    counts: np.ndarray
    """[g] the numbers of draws k."""
    ensemble: np.ndarray
    """[g] LPPD of all chains together, without divergent chains."""
    chains: np.ndarray
    """[C, g] LPPD of each chain on its own; NaN for a divergent chain."""


def course_rows(name: str, course: Course, kept: np.ndarray) -> pd.DataFrame:
    """A course as rows of CURVE_SCHEMA: all chains as lines, or quantiles over the chains `kept`."""
    if len(course.mean) > LINES:
        return _bands(name, "", course.centres, course.mean[kept])
    chains, bins = course.mean.shape
    return _rows(
        name,
        chain=np.repeat(np.arange(chains), bins),
        x=np.tile(course.centres, chains),
        value=course.mean.ravel(),
        low=course.low.ravel(),
        high=course.high.ravel(),
    )


def divergence_rows(course: Course) -> pd.DataFrame:
    """Divergent steps in each bin that has any, by chain, or over all chains if there are more than LINES."""
    totals = np.nan_to_num(course.totals()).round()
    if len(totals) > LINES:
        totals = totals.sum(axis=0, keepdims=True)
    chain, place = np.nonzero(totals)
    whose = chain if len(course.mean) <= LINES else None
    return _rows("divergent", chain=whose, x=course.centres[place], value=totals[chain, place])


def autocorrelation_rows(label: str, draws: np.ndarray) -> pd.DataFrame:
    """The autocorrelation of a function value's draws [C, S] up to half a chain, at up to MAX_LAGS lags."""
    last = min(draws.shape[1] // 2, MAX_LAG)
    lags = np.unique(np.linspace(0, last, min(last, MAX_LAGS - 1) + 1).round().astype(np.int64))
    return _rows("autocorrelation", label, x=lags, value=autocorrelation(draws)[lags])


def rank_rows(label: str, draws: np.ndarray, chain_ids: np.ndarray) -> pd.DataFrame:
    """Histograms of the ranks of each chain's draws [C, S] among all draws, as fractions (1 / bins if chains agree).

    Vehtari et al. 2021, Rank-normalization, folding, and localization, section 4.
    """
    draws = draws[:, :: -(-draws.size // MOST_RANKED)]
    ranks = pd.Series(draws.ravel()).rank(method="average").to_numpy().reshape(draws.shape)
    bins = min(RANK_BINS, draws.size)
    place = np.minimum((ranks - 0.5) * bins / draws.size, bins - 1).astype(np.int64)
    shares = np.stack([np.bincount(row, minlength=bins) for row in place]) / draws.shape[1]
    x = (np.arange(bins) + 0.5) / bins
    if len(shares) > LINES:
        return _bands("rank", label, x, shares)
    return _rows("rank", label, chain=np.repeat(chain_ids, bins), x=np.tile(x, len(shares)), value=shares.ravel())


def function_rows(functions: pd.DataFrame, draws: np.ndarray, kept: np.ndarray) -> list[pd.DataFrame]:
    """Autocorrelation and ranks of the most informative function values, from draws [C, S, q] of the chains `kept`.

    `functions` holds the diagnostics of the q values (`tables.parquet.FUNCTION_SCHEMA`). Autocorrelations are for the
    values with the largest and the median R-hat and the smallest ESS; ranks are for the value with the largest R-hat.
    Values with constant draws are left out.
    """
    if draws.shape[1] < 4 or not len(kept):
        return []
    parts = []
    for place, why in _telling(functions).items():
        values = draws[kept, :, place]
        parts.append(autocorrelation_rows(why, values))
        if len(kept) > 1 and why.startswith("largest R-hat"):
            parts.append(rank_rows(why, values, kept))
    return parts


def _telling(functions: pd.DataFrame) -> dict[int, str]:
    """Index of each function value to show -> label, such as `largest R-hat (row 17)`."""
    chosen: dict[int, str] = {}
    for column, what, quantile in (("rhat", "largest R-hat", 1.0), ("rhat", "median R-hat", 0.5),
                                   ("ess_bulk", "smallest ESS", 0.0)):  # fmt: skip
        values = functions[column].to_numpy(dtype=np.float64)
        order = np.argsort(values, kind="stable")[: int(np.sum(~np.isnan(values)))]
        if len(order):
            place = int(order[round(quantile * (len(order) - 1))])
            row, label = functions["row"].iloc[place], functions["class"].iloc[place]
            place_name = f"row {row}" if pd.isna(label) else f"row {row}, class {label}"
            chosen.setdefault(place, f"{what} ({place_name})")
    return chosen


def lppd_of_first_draws(summary: PredictiveSummary) -> RunningLppd:
    """LPPD of the first k draws, for the ensemble and for each chain, at the summary's numbers of draws k.

    ensemble_k = mean_i log (1/k) sum_{s<=k} (1/C) sum_c p(y_i | theta_cs). A density of 0 at a row makes the result
    -inf. NaN throughout if no chain is left. Raises PredictionError for predictions without targets.
    """
    by_draw, running, counts = (
        with_targets(summary.log_density_by_draw),
        with_targets(summary.running_lppd),
        summary.running_draws,
    )
    ensemble = lppd_over_draws(by_draw, counts).value if len(summary.kept) else np.full(len(counts), np.nan)
    return RunningLppd(counts, ensemble, running)


def joined(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """All rows in one frame (CURVE_SCHEMA)."""
    filled = [part for part in parts if len(part)]
    return pd.concat(filled, ignore_index=True) if filled else _rows("", x=np.empty(0), value=np.empty(0))


def _bands(name: str, label: str, x: np.ndarray, values: np.ndarray) -> pd.DataFrame:
    """Quantiles over chains of values [C, B]; bins without a finite value are left out."""
    defined = np.isfinite(values).any(axis=0)
    levels = np.nanquantile(values[:, defined], QUANTILES, axis=0) if defined.any() else np.empty((len(QUANTILES), 0))
    count = int(defined.sum())
    return _rows(
        name, label, quantile=np.repeat(QUANTILES, count), x=np.tile(x[defined], len(QUANTILES)), value=levels.ravel()
    )


def _rows(
    curve: str,
    label: str = "",
    *,
    x: np.ndarray,
    value: np.ndarray,
    chain: np.ndarray | None = None,
    quantile: np.ndarray | None = None,
    low: np.ndarray | None = None,
    high: np.ndarray | None = None,
) -> pd.DataFrame:
    empty = np.full(len(x), np.nan)
    return pd.DataFrame(
        {
            "curve": np.full(len(x), curve, dtype=object),
            "label": np.full(len(x), label, dtype=object),
            "chain": pd.Series(empty if chain is None else chain).astype("Int64"),
            "quantile": empty if quantile is None else quantile,
            "x": np.asarray(x, dtype=np.float64),
            "value": np.asarray(value, dtype=np.float64),
            "low": empty if low is None else low,
            "high": empty if high is None else high,
        }
    )
