"""Chains beside their referees, chains with a Metropolis test that went on from their last states: [C, S] each."""

from typing import NamedTuple

import numpy as np

from bnn_atlas.metrics.formulas.rhat_ess import ess_bulk, ess_mean, rhat


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
