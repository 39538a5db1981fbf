"""Whether a run sampled the posterior: the run beside its referee, the same chains with a Metropolis test.

A referee's chains go on from the last states of the run's. Arrays are [C, S] each.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

from bnn_atlas.metrics.formulas.rhat_ess import ess_bulk, ess_mean, rhat
from bnn_atlas.metrics.formulas.scores import error_of_mean, lppd_per_chain, mixture_log_density
from bnn_atlas.metrics.gathering.chain_statistics import LOG_DENSITIES
from bnn_atlas.metrics.gathering.summary import PredictiveSummary
from bnn_atlas.metrics.judgement.measure import NO_CHAIN
from bnn_atlas.metrics.tables.measurement import Measurement, PredictionError
from bnn_atlas.traces.draws import Draws

MIXED = "referee_mixed"
"""Metric that is 1 where a referee has mixed."""
NOT_MIXED = "the referee has not mixed"
"""How the notes of a referee begin that has not."""
LARGEST_RHAT = 1.1
"""Of the log posterior between the halves of a referee's chain, the largest over chains."""
SMALLEST_ESS = 50.0
"""Of the log posterior in a referee's chain, the smallest over chains."""
LARGEST_TREND = 2.0
"""Rise or fall of the referee's log-likelihood, mean over chains, in its standard errors."""
TOGETHER = 256
"""Chains that are in memory at once."""

_COLUMNS = (
    *(f"{name}{what}" for name in LOG_DENSITIES for what in ("_before", "_sd", "_after", "_shift")),
    "lppd_before", "lppd_after", "rhat", "ess", "trend", "trend_error",
)  # fmt: skip


class Refereed(NamedTuple):
    """What a referee says of a run."""

    measurements: list[Measurement]
    chains: pd.DataFrame
    """One row per chain (`files.REFEREE_SCHEMA`); NaN for chains that are excluded in the run or in its referee."""


def judge(run: Draws, referee: Draws, predictions: PredictiveSummary, refereed: PredictiveSummary) -> Refereed:
    """Compare a run with its referee, chain by chain, and say whether the referee itself has mixed.

    Where it has not, the shifts are not those to the posterior, and nothing bounds the run's bias: every row says so.
    Chains that are excluded in either are left out.

    Args:
        run: draws of the run.
        referee: draws of its referee; chain k went on from chain k.
        predictions: predictions of the run for its test rows.
        refereed: those of the referee for the same rows.

    Raises:
        PredictionError: the two have not the same number of chains or test rows.
    """
    before, after = (_densities(summary) for summary in (predictions, refereed))
    if before.shape != after.shape or run.chains != referee.chains:
        raise PredictionError(
            f"a run of {run.chains} chains with densities {list(before.shape)} and a referee of {referee.chains} with "
            f"{list(after.shape)} cannot be compared; make the referee's predictions again"
        )
    kept = np.intersect1d(predictions.kept, refereed.kept)
    columns = {name: np.full(run.chains, np.nan) for name in _COLUMNS}
    for start in range(0, len(kept), TOGETHER):
        some = kept[start : start + TOGETHER]
        for name, values in _of_chains(run, referee, some).items():
            columns[name][some] = values
    columns["lppd_before"][kept] = lppd_per_chain(before[kept])
    columns["lppd_after"][kept] = lppd_per_chain(after[kept])
    frame = pd.DataFrame({"chain": np.arange(run.chains), **columns})
    return Refereed(_measurements(frame.iloc[kept], before[kept], after[kept]), frame)


def _of_chains(run: Draws, referee: Draws, chains: np.ndarray) -> dict[str, np.ndarray]:
    """Columns of some chains, those of the LPPD apart."""
    columns: dict[str, np.ndarray] = {}
    densities = {}
    for name in LOG_DENSITIES:
        before, after = (np.asarray(pool.statistic(name, chains), dtype=np.float64) for pool in (run, referee))
        densities[name] = after
        columns |= {
            f"{name}_before": before.mean(axis=1),
            f"{name}_sd": before.std(axis=1, ddof=1) if before.shape[1] > 1 else np.full(len(before), np.nan),
            f"{name}_after": after.mean(axis=1),
            f"{name}_shift": shift(before, after).in_sd,
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
    """Rows of the table, from the chains that are left and the log densities of both [C, n]."""
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
    return [row._replace(note=_joined(row.note, note), chains=len(chains)) for row in rows]


def _why_not_mixed(rhat: float, ess: float, rise: float, error: float) -> list[str]:
    """Why a referee has not mixed; empty where nothing speaks against it. What is undefined counts against it."""
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
    return Measurement(metric, float(array.mean()), error_of_mean(array), _joined(note, "error over chains"))


def _over_rows(metric: str, values: np.ndarray, note: str = "") -> Measurement:
    return Measurement(metric, float(values.mean()), error_of_mean(values), _joined(note, "error over test rows"))


def _densities(summary: PredictiveSummary) -> np.ndarray:
    if summary.log_density_by_chain is None:
        raise PredictionError("these predictions were made without targets, so they have no densities to score")
    return summary.log_density_by_chain


def _joined(*notes: str) -> str:
    return "; ".join(filter(None, notes))


class Shift(NamedTuple):
    """How a quantity's mean differs between chains and their referees, each [C]."""

    change: np.ndarray
    """Mean of the referee less mean of the chain."""
    in_sd: np.ndarray
    """The same over the standard deviation of the chain's draws; NaN where that is 0 or there is one draw."""


class Trend(NamedTuple):
    """The straight line through the draws of each chain [C]."""

    rise: np.ndarray
    """From the first to the last draw."""
    error: np.ndarray
    """Its standard error, NaN for a constant chain and for fewer than 4 draws."""


def shift(chains: np.ndarray, referees: np.ndarray) -> Shift:
    """Shift of the mean from chains [C, S] to their referees [C, T]."""
    before, after = (np.asarray(values, dtype=np.float64) for values in (chains, referees))
    change = after.mean(axis=1) - before.mean(axis=1)
    sd = before.std(axis=1, ddof=1) if before.shape[1] > 1 else np.zeros(len(before))
    return Shift(change, np.divide(change, sd, out=np.full(len(sd), np.nan), where=sd > 0))


def rhat_of_halves(values: np.ndarray) -> np.ndarray:
    """R-hat [C] of the two halves of each chain [C, S], as if they were two chains: rank-normalised and split again.

    It is near 1 where level and spread of a chain stay the same. The middle draw of an odd chain is left out. NaN for
    fewer than 8 draws.
    """
    half = values.shape[1] // 2
    return rhat(np.stack([values[:, :half].T, values[:, values.shape[1] - half :].T]))


def ess_of_chains(values: np.ndarray) -> np.ndarray:
    """Bulk effective sample size [C] of each chain [C, S] alone."""
    return ess_bulk(values.T[None])


def trend(values: np.ndarray) -> Trend:
    """Least-squares line through each chain [C, S], with an error that counts the effective number of its residuals.

    With times t from -1/2 to 1/2, r = sum t (x - mean) / sum t^2 and residuals e = x - mean - r t of standard
    deviation s and effective sample size n, the error of r is s / sqrt(n mean(t^2)). It is too small where residuals
    are dependent over most of the chain, which errs towards seeing a trend.
    """
    x = np.asarray(values, dtype=np.float64)
    times = np.linspace(-0.5, 0.5, x.shape[1])
    centred = x - x.mean(axis=1, keepdims=True)
    rise = centred @ times / (times @ times)
    residuals = centred - rise[:, None] * times
    effective = ess_mean(residuals.T[None])
    spread = np.sqrt((residuals**2).sum(axis=1) / max(x.shape[1] - 2, 1))
    return Trend(rise, spread / np.sqrt(effective * np.mean(times**2)))
