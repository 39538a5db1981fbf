"""Whether a run sampled the posterior, judged by a referee that continues the run's chains with a Metropolis test.

A referee's chains start from the last states of the run's chains. Arrays are [C, S].
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

from bnn_atlas.metrics.formulas.averages import error_of_mean, lppd_per_chain, mixture_log_density
from bnn_atlas.metrics.formulas.rhat_ess import ess_bulk, ess_mean, rhat
from bnn_atlas.metrics.gathering.chain_statistics import LOG_DENSITIES
from bnn_atlas.metrics.gathering.summary import PredictiveSummary, with_targets
from bnn_atlas.metrics.judgement.measure import NO_CHAIN
from bnn_atlas.metrics.tables.measurement import Measurement, PredictionError, joined
from bnn_atlas.metrics.tables.parquet import REFEREE_SCHEMA
from bnn_atlas.traces.draws import Draws

MIXED = "referee_mixed"
"""Metric that is 1 if a referee has mixed, else 0."""
NOT_MIXED = "the referee has not mixed"
"""Prefix of the notes of a referee that did not mix."""
LARGEST_RHAT = 1.1
"""Largest R-hat of the log posterior between the halves of a referee's chain."""
SMALLEST_ESS = 50.0
"""Smallest ESS of the log posterior in a referee's chain."""
LARGEST_TREND = 2.0
"""Largest rise or fall of the referee's log-likelihood (mean over chains), in standard errors."""
TOGETHER = 256
"""Number of chains in memory at once."""


class Refereed(NamedTuple):
    """The verdict of a referee on a run."""

    measurements: list[Measurement]
    chains: pd.DataFrame
    """One row per chain (`parquet.REFEREE_SCHEMA`); NaN for chains excluded in the run or in its referee."""


def judge(run: Draws, referee: Draws, predictions: PredictiveSummary, refereed: PredictiveSummary) -> Refereed:
    """Compare a run with its referee, chain by chain, and say whether the referee itself has mixed.

    If the referee has not mixed, the shifts do not lead to the posterior and nothing bounds the run's bias; every row
    then says so. Chains excluded in the run or in its referee are left out.

    Args:
        run: draws of the run.
        referee: draws of its referee; chain k continues chain k of the run.
        predictions: the run's predictions of its test rows.
        refereed: the referee's predictions of the same rows.

    Raises:
        PredictionError: run and referee differ in the number of chains or test rows.
    """
    before, after = (with_targets(summary.log_density_by_chain) for summary in (predictions, refereed))
    if before.shape != after.shape or run.chains != referee.chains:
        raise PredictionError(
            f"a run of {run.chains} chains with densities {list(before.shape)} and a referee of {referee.chains} with "
            f"{list(after.shape)} cannot be compared; make the referee's predictions again"
        )
    kept = np.intersect1d(predictions.kept, refereed.kept)
    columns = {name: np.full(run.chains, np.nan) for name in REFEREE_SCHEMA.names[1:]}
    for start in range(0, len(kept), TOGETHER):
        some = kept[start : start + TOGETHER]
        for name, values in _of_chains(run, referee, some).items():
            columns[name][some] = values
    columns["lppd_before"][kept] = lppd_per_chain(before[kept])
    columns["lppd_after"][kept] = lppd_per_chain(after[kept])
    frame = pd.DataFrame({"chain": np.arange(run.chains), **columns})
    return Refereed(_measurements(frame.iloc[kept], before[kept], after[kept]), frame)


def _of_chains(run: Draws, referee: Draws, chains: np.ndarray) -> dict[str, np.ndarray]:
    """Columns for some chains, except the LPPD columns."""
    columns: dict[str, np.ndarray] = {}
    densities = {}
    for name in LOG_DENSITIES:
        before, after = (np.asarray(pool.statistic(name, chains), dtype=np.float64) for pool in (run, referee))
        densities[name] = after
        columns |= {
            f"{name}_before": before.mean(axis=1),
            f"{name}_sd": before.std(axis=1, ddof=1) if before.shape[1] > 1 else np.full(len(before), np.nan),
            f"{name}_after": after.mean(axis=1),
            f"{name}_shift": shift(before, after),
        }
    log_posterior = densities["log_likelihood"] + densities["log_prior"]
    line = trend(densities["log_likelihood"])
    return columns | {
        "rhat": rhat_of_halves(log_posterior),
        "ess": ess_of_chains(log_posterior),
        "trend": line.rise,
        "trend_error": line.error,
    }


def _measurements(chains: pd.DataFrame, before: np.ndarray, after: np.ndarray) -> list[Measurement]:
    """Rows of the table, from the remaining chains and the log densities [C, n] of run and referee."""
    if chains.empty:
        return [Measurement(MIXED, float("nan"), note=NO_CHAIN)]
    rise, error = float(chains["trend"].mean()), float(np.sqrt((chains["trend_error"] ** 2).sum()) / len(chains))
    rhat, ess = float(chains["rhat"].max(skipna=False)), float(chains["ess"].min(skipna=False))
    why = _why_not_mixed(rhat, ess, rise, error)
    note = f"{NOT_MIXED} and bounds nothing: {', '.join(why)}" if why else ""
    ours, theirs = mixture_log_density(before), mixture_log_density(after)
    rows = [
        _over_chains("referee_log_likelihood_shift", chains["log_likelihood_shift"]),
        _over_chains("referee_log_prior_shift", chains["log_prior_shift"]),
        _over_chains("referee_log_likelihood_change", chains["log_likelihood_after"] - chains["log_likelihood_before"]),
        _over_chains("referee_log_prior_change", chains["log_prior_after"] - chains["log_prior_before"]),
        _over_rows("referee_lppd", theirs),
        _over_rows("referee_lppd_change", theirs - ours, "paired by row"),
        _over_chains("referee_lppd_chain_mean", chains["lppd_after"]),
        _over_chains("referee_lppd_chain_change", chains["lppd_after"] - chains["lppd_before"], "paired by chain"),
        Measurement("referee_rhat_max", rhat, note="of the log posterior between the halves of a chain"),
        Measurement("referee_ess_min", ess, note="of the log posterior in a chain"),
        Measurement("referee_trend", rise, error, "straight line through each chain, mean over chains"),
        Measurement(MIXED, float(not why), note="1: yes, 0: no"),
    ]
    return [row._replace(note=joined(row.note, note), chains=len(chains)) for row in rows]


def _why_not_mixed(rhat: float, ess: float, rise: float, error: float) -> list[str]:
    """Why a referee did not mix; empty if it did. An undefined diagnostic counts as a failure."""
    why = []
    if not rhat <= LARGEST_RHAT:
        why.append(
            f"R-hat {rhat:.2f} between its halves" if np.isfinite(rhat) else "R-hat between its halves undefined"
        )
    if not ess >= SMALLEST_ESS:
        why.append(f"{ess:.0f} effective draws in a chain" if np.isfinite(ess) else "effective draws undefined")
    if not abs(rise) <= LARGEST_TREND * error:
        direction = "rising" if rise > 0 else "falling"
        why.append(
            f"log-likelihood still {direction}, by {abs(rise):.3g} \N{PLUS-MINUS SIGN} {error:.2g} over its draws"
        )
    return why


def _over_chains(metric: str, values: "pd.Series[float]", note: str = "") -> Measurement:
    array = values.to_numpy(dtype=np.float64)
    return Measurement(metric, float(array.mean()), error_of_mean(array), joined(note, "error over chains"))


def _over_rows(metric: str, values: np.ndarray, note: str = "") -> Measurement:
    return Measurement(metric, float(values.mean()), error_of_mean(values), joined(note, "error over test rows"))


class Trend(NamedTuple):
    """The straight line through the draws of each chain [C]."""

    rise: np.ndarray
    """Rise of the line from the first to the last draw."""
    error: np.ndarray
    """Standard error of the rise; NaN for a constant chain or fewer than 4 draws."""


def shift(chains: np.ndarray, referees: np.ndarray) -> np.ndarray:
    """Shift [C] of the mean from chains [C, S] to their referees [C, T], in standard deviations of the chain's draws.

    NaN if that deviation is 0 or there is one draw.
    """
    before, after = (np.asarray(values, dtype=np.float64) for values in (chains, referees))
    change = after.mean(axis=1) - before.mean(axis=1)
    sd = before.std(axis=1, ddof=1) if before.shape[1] > 1 else np.zeros(len(before))
    return np.divide(change, sd, out=np.full(len(sd), np.nan), where=sd > 0)


def rhat_of_halves(values: np.ndarray) -> np.ndarray:
    """R-hat [C] of the two halves of each chain [C, S], taken as two chains: rank-normalised and split again.

    R-hat is near 1 if the level and spread of a chain do not change. The middle draw of an odd chain is left out. NaN
    for fewer than 8 draws.
    """
    half = values.shape[1] // 2
    return rhat(np.stack([values[:, :half].T, values[:, values.shape[1] - half :].T]))


def ess_of_chains(values: np.ndarray) -> np.ndarray:
    """Bulk effective sample size [C] of each chain [C, S] on its own."""
    return ess_bulk(values.T[None])


def trend(values: np.ndarray) -> Trend:
    """Least-squares line through each chain [C, S], with an error from the effective sample size of its residuals.

    With times t from -1/2 to 1/2, slope r = sum t (x - mean) / sum t^2 and residuals x - mean - r t of standard
    deviation s and effective sample size n, the error of r is s / sqrt(n mean(t^2)). The error is too small if
    residuals are dependent over most of the chain; the test then tends to report a trend.
    """
    x = np.asarray(values, dtype=np.float64)
    times = np.linspace(-0.5, 0.5, x.shape[1])
    centred = x - x.mean(axis=1, keepdims=True)
    rise = centred @ times / (times @ times)
    residuals = centred - rise[:, None] * times
    effective = ess_mean(residuals.T[None])
    spread = np.sqrt((residuals**2).sum(axis=1) / max(x.shape[1] - 2, 1))
    return Trend(rise, spread / np.sqrt(effective * np.mean(times**2)))
