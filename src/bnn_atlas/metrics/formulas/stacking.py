"""Stacking: weights of chains that do not mix, by what their mixture predicts (Yao, Vehtari and Gelman 2022)."""

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

TOLERANCE = 1e-4
"""Nats per row by which the score of the weights may be below the best one."""
ITERATIONS = 20_000
HALVES_SEED = 0
"""Seed of the permutation whose halves cross-fit."""


class Stacked(NamedTuple):
    """The mixture whose weights were fitted to other rows."""

    log_density: np.ndarray
    """[n] log of the weighted mean density of each row; the row had no part in its weights."""
    effective_chains: float
    """1 / sum_c w_c^2, mean over the two fits: C for equal weights, 1 where one chain has all."""


def stacking_weights(log_density: np.ndarray) -> np.ndarray:
    """Weights w [C] on the simplex that maximise (1/n) sum_i log sum_c w_c p_ic, from log densities [C, n].

    The objective is concave. Steps are those of expectation maximisation, w_c <- w_c g_c with g_c the mean over rows of
    p_ic / sum_k w_k p_ik; they never lower it, and the best value is at most max_c g_c - 1 above the present one, which
    ends them at `TOLERANCE`. Rows to which no chain gives a density above 0 say nothing and are left out.
    Yao, Vehtari and Gelman 2022, Stacking for Non-mixing Bayesian Computations, equation 3.
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


def cross_fitted(log_density: np.ndarray) -> Stacked:
    """Stacked density of each test row from log densities [C, n], with weights fitted to the other half of the rows.

    Stacking needs rows that neither the posterior nor the score uses. Validation rows are not that: they chose the
    epoch of every warm start, and many posteriors condition on them. So the test rows are divided into two random
    halves, and each is scored with the weights of the other.
    """
    order = np.random.default_rng(HALVES_SEED).permutation(log_density.shape[1])
    half = len(order) // 2
    found, sizes = np.empty(len(order)), []
    for scored, fitted in ((order[:half], order[half:]), (order[half:], order[:half])):
        weights = stacking_weights(log_density[:, fitted])
        sizes.append(1 / np.square(weights).sum())
        with np.errstate(divide="ignore"):
            found[scored] = logsumexp(log_density[:, scored] + np.log(weights)[:, None], axis=0)
    return Stacked(found, float(np.mean(sizes)))
