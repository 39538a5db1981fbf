"""Scores of a Bayesian model average: its density at held-out rows, and the error of its mean function.

All functions take arrays of a PredictiveSummary, without divergent chains: C chains of S draws each, n rows, k classes.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, xlogy

LOG_2PI = float(np.log(2 * np.pi))
LEAST_POINTS = 3
"""Smallest number of points of a curve over draws from which its limit and the error of the limit follow."""


class Curve(NamedTuple):
    """A score as a function of a number of chains or draws."""

    counts: np.ndarray
    """[g]."""
    value: np.ndarray
    """[g]."""
    error: np.ndarray
    """[g] standard error over rows; NaN where the value at a row is infinite."""
    deviation: np.ndarray
    """[g] population standard deviation over orderings; NaN if a value is infinite or there is one ordering."""


class Extrapolation(NamedTuple):
    """What infinitely many draws would add to a score of S draws."""

    shift: float
    error: float
    """Standard error of the shift. It is independent of the Monte Carlo error of the score itself."""


def extrapolation(draws: np.ndarray, scores: np.ndarray) -> Extrapolation | None:
    """The shift c / S of the least squares fit L - c / k to scores of the first k draws, S / 4 <= k <= S.

    The log of an average over k draws is biased by about c / k, c half the relative variance of one draw's density. The
    chains stay the same: what other chains would change is left out (`repetitions.jackknife_limit` has that, too).
    A score of the first k draws is L - c / k plus, to first order, a mean of k terms. As a function of u = 1 / k, means
    of the same draws are a Brownian motion: their covariance at u and v is sigma^2 min(u, v). Increments between
    neighbouring u are therefore independent. They give sigma^2, with one degree of freedom taken by the slope, and with
    the weights w of the slope the error is sigma sqrt(sum_ij w_i w_j min(u_i, u_j)) / S. The weights add up to 0 and S
    has the smallest u, so that the slope is uncorrelated with the score at S. Draws have to be correlated over fewer
    draws than lie between neighbouring k.

    Args:
        draws: numbers k of draws [g].
        scores: scores of the averages over the first k draws [g].

    Returns None if fewer than three of the scores from S / 4 on are known, or one of them is not finite.
    """
    k, places = np.unique(draws, return_index=True)
    late = k >= k[-1] / 4 if len(k) else np.zeros(0, dtype=bool)
    s = scores[places][late][::-1].astype(np.float64)
    if len(s) < LEAST_POINTS or not np.isfinite(s).all():
        return None
    last, u = float(k[-1]), 1 / k[late][::-1].astype(np.float64)
    centred = u - u.mean()
    weights = centred / np.square(centred).sum()
    steps, gaps = np.diff(s), np.diff(u)
    drift = (s[-1] - s[0]) / (u[-1] - u[0])
    variance = np.square(steps - drift * gaps) @ (1 / gaps) / (len(u) - 2)
    spread = weights @ np.minimum(u[:, None], u) @ weights
    return Extrapolation(float(-(weights @ s) / last), float(np.sqrt(variance * spread) / last))


def mixture_log_density(log_density_by_chain: np.ndarray) -> np.ndarray:
    """Log of the density averaged over chains at each row [n], from the chains' log densities [C, n]."""
    return logsumexp(log_density_by_chain, axis=0) - np.log(len(log_density_by_chain))


def lppd_per_chain(log_density_by_chain: np.ndarray) -> np.ndarray:
    """LPPD [C] of each chain on its own."""
    return log_density_by_chain.mean(axis=1)


def chain_counts(total: int, few: int = 20) -> np.ndarray:
    """Numbers of chains to report: 1 to `total` if that is at most `few`, else 1, 2, 5, 10, 20, 50, ..., `total`."""
    if total <= few:
        return np.arange(1, total + 1)
    series = [m * 10**e for e in range(len(str(total))) for m in (1, 2, 5) if m * 10**e < total]
    return np.array([*series, total])


def lppd_over_chains(log_density_by_chain: np.ndarray, counts: np.ndarray, orderings: int, seed: int) -> Curve:
    """LPPD of the first 1, 2, ... chains, averaged over random orders of the chains.

    The deviation is the population standard deviation over orderings, as published. Orderings share chains, so the
    deviation is zero once all chains are in: it measures only the choice of chains. The error of the LPPD is the error
    of the mean over rows.
    """
    chains = len(log_density_by_chain)
    values, rows = density_over_chains(log_density_by_chain, counts, orderings, seed)
    finite = np.isfinite(values).all(axis=0) & (orderings > 1)
    spread = np.where(counts < chains, np.where(finite, values, 0.0).std(axis=0), 0.0)
    deviation = np.where(finite, spread, np.nan)
    return Curve(counts, values.mean(axis=0), _errors(rows), deviation)


def density_over_chains(
    log_density_by_chain: np.ndarray, counts: np.ndarray, orderings: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """LPPD [orderings, g] of the first chains in random orders, and each row's log density, mean over orders [g, n]."""
    generator = np.random.default_rng(seed)
    chains, n = log_density_by_chain.shape
    values, rows = np.empty((orderings, len(counts))), np.zeros((len(counts), n))
    for ordering in range(orderings):
        order = generator.permutation(chains)
        total = np.full(n, -np.inf)
        for point, (start, stop) in enumerate(pairwise([0, *counts])):
            total = np.logaddexp(total, logsumexp(log_density_by_chain[order[start:stop]], axis=0))
            density = total - np.log(stop)
            values[ordering, point] = density.mean()
            rows[point] += density / orderings
    return values, rows


def lppd_over_draws(log_density_by_draw: np.ndarray, counts: np.ndarray) -> Curve:
    """LPPD of the first 1, 2, ... draws of all chains, from the log of each draw's mean density over chains [S, n]."""
    total = np.full(log_density_by_draw.shape[1], -np.inf)
    rows = np.empty((len(counts), len(total)))
    for point, (start, stop) in enumerate(pairwise([0, *counts])):
        total = np.logaddexp(total, logsumexp(log_density_by_draw[start:stop], axis=0))
        rows[point] = total - np.log(stop)
    return Curve(counts, rows.mean(axis=1), _errors(rows), np.full(len(counts), np.nan))


def rmse(mean: np.ndarray, y: np.ndarray) -> float:
    """Root mean square error, in the units of y, of the mean function [C, n] averaged over chains."""
    return float(np.sqrt(np.mean((mean.mean(axis=0) - y) ** 2)))


def moment_matched_log_density(
    mean: np.ndarray, second_moment: np.ndarray, noise_variance: np.ndarray, y: np.ndarray
) -> np.ndarray:
    """Log density N(y_i; m_i, v_i) at each row [n], with the mixture's mean and variance.

    m = E mu and v = E sigma^2 + E mu^2 - m^2, expectations over chains and draws.
    This is one Gaussian instead of the mixture, which scikit-learn-contrib/bde publishes as NLL. Arguments [C, n].
    """
    centre, variance = mixture_moments(mean, second_moment, noise_variance)
    return -0.5 * (LOG_2PI + np.log(variance) + (y - centre) ** 2 / variance)


def error_of_mean(values: np.ndarray) -> float | None:
    """Standard error sd / sqrt(n) of the mean of independent values; None for fewer than two or any infinite values."""
    if len(values) < 2 or not np.isfinite(values).all():
        return None
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def _errors(rows: np.ndarray) -> np.ndarray:
    """`error_of_mean` of each row of values [g, n], with NaN in place of None."""
    errors = [error_of_mean(values) for values in rows]
    return np.array([np.nan if error is None else error for error in errors])


def mixture_moments(
    mean: np.ndarray, second_moment: np.ndarray, noise_variance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance [n] of the mixture over chains, from the chains' moments [C, n]."""
    centre = mean.mean(axis=0)
    spread = np.maximum(second_moment.mean(axis=0) - centre**2, 0.0)
    return centre, noise_variance.mean(axis=0) + spread


def function_spread(mean: np.ndarray, second_moment: np.ndarray) -> float:
    """Mean over inputs of sqrt(E[f^2] - E[f]^2), with expectations [n] over the functions f of the draws."""
    return float(np.sqrt(np.maximum(second_moment - mean**2, 0)).mean())


TOLERANCE = 1e-4
"""Nats per row by which the score of the weights may fall short of the optimum."""
ITERATIONS = 20_000
HALVES_SEED = 0
"""Seed of the permutation that divides the rows into halves."""


class Stacked(NamedTuple):
    """A mixture with weights fitted to other rows."""

    log_density: np.ndarray
    """[n] log of the weighted mean density of each row, with weights that did not use the row."""
    effective_chains: float
    """`effective_number` of the weights, averaged over the two fits."""


def stacking_weights(log_density: np.ndarray) -> np.ndarray:
    """Weights w [C] on the simplex that maximise (1/n) sum_i log sum_c w_c p_ic, from log densities [C, n].

    The objective is concave. An expectation-maximisation step w_c <- w_c g_c, with g_c the mean over rows of
    p_ic / sum_k w_k p_ik, never lowers it, and the optimum is at most max_c g_c - 1 above the current value; the steps
    end when this bound reaches `TOLERANCE`. Rows at which every chain has density 0 carry no information and are left
    out. Yao, Vehtari and Gelman 2022, Stacking for Non-mixing Bayesian Computations, equation 3.
    """
    largest = log_density.max(axis=0)
    density = np.exp(log_density[:, np.isfinite(largest)] - largest[np.isfinite(largest)])
    weights = np.full(len(density), 1 / len(density))
    if not density.shape[1]:
        return weights
    for _ in range(ITERATIONS):
        gradient = (density / (weights @ density)).mean(axis=1)
        if gradient.max() - 1 <= TOLERANCE:
            break
        weights = weights * gradient
    return np.asarray(weights / weights.sum())


def effective_number(weights: np.ndarray) -> float:
    """exp(-sum_c w_c log w_c) of weights [C] that add up to 1: C for equal weights, 1 if one chain has all of it."""
    return float(np.exp(-xlogy(weights, weights).sum()))


def weighted(log_density: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Log of the weighted mean density of each row [n], from log densities [C, n] and weights [C]."""
    with np.errstate(divide="ignore"):
        return logsumexp(log_density + np.log(weights)[:, None], axis=0)


def cross_fitted(log_density: np.ndarray) -> Stacked:
    """Stacked density of each test row from log densities [C, n], with weights fitted to the other half of the rows.

    Stacking needs rows that neither the posterior nor the score uses, and many posteriors condition on validation rows,
    which also chose the epoch of every warm start. So the test rows are divided into two random
    halves, and each half is scored with weights fitted to the other.
    """
    order = np.random.default_rng(HALVES_SEED).permutation(log_density.shape[1])
    half = len(order) // 2
    found, sizes = np.empty(len(order)), []
    for scored, fitted in ((order[:half], order[half:]), (order[half:], order[:half])):
        weights = stacking_weights(log_density[:, fitted])
        sizes.append(effective_number(weights))
        found[scored] = weighted(log_density[:, scored], weights)
    return Stacked(found, float(np.mean(sizes)))
