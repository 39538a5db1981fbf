"""R-hat and effective sample sizes of draws as arrays.

The formulas are those of Vehtari et al. 2021 (Rank-normalization, folding, and localization) as ArviZ has them, here
vectorised over quantities. Draws have shape [C, S, ...]; results the shape of the trailing axes. A quantity is NaN
where the diagnostic does not exist: fewer than 4 draws (10 for bulk and tail effective sample sizes), one chain
(R-hat), constant or non-finite draws.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from bnn_atlas.metrics.formulas.autocorrelation import by_quantity, effective_size, on_quantities

PIECES = 4
"""Pieces into which chain-wise R-hat cuts a chain."""
SHORTEST_ESS = 10
"""Fewest draws of bulk and tail effective sample sizes. With fewer, half chains have one pair of autocorrelations, and
the estimate is at its floor whatever the draws are."""


class Diagnostics(NamedTuple):
    """Diagnostics of P quantities, each [P]."""

    rhat: np.ndarray
    """Rank-normalised split R-hat, the larger of bulk and folded."""
    rhat_chainwise_max: np.ndarray
    """Chain-wise R-hat, largest over chains; NaN if the quantity is constant in a chain."""
    rhat_chainwise_median: np.ndarray
    """The same, median over chains."""
    ess_bulk: np.ndarray
    ess_tail: np.ndarray
    within: np.ndarray
    """Mean over chains of the variance within a chain."""
    between: np.ndarray
    """Variance over chains of the chain mean."""


def rhat(draws: np.ndarray) -> np.ndarray:
    """Rank-normalised split R-hat: sqrt((B/W + N - 1) / N) of half chains, the larger of the plain and folded one.

    Infinite where half chains are constant at different values.
    """
    return on_quantities(_rhat_of_halves, draws, min_chains=2, min_draws=4)


def rhat_chainwise(draws: np.ndarray) -> np.ndarray:
    """R-hat of each chain alone [C, ...]: the chain cut into 4 pieces, ranks taken within the chain.

    Sommer et al. 2024, Connecting the Dots. Leading draws that do not fill four equal pieces are left out.
    """
    chains, count, *shape = draws.shape
    alone = by_quantity(draws).reshape(-1, 1, count)
    found = on_quantities(_rhat_of_pieces, np.moveaxis(alone, 0, -1), min_chains=1, min_draws=2 * PIECES)
    return np.moveaxis(found.reshape(*shape, chains), -1, 0)


def ess_bulk(draws: np.ndarray) -> np.ndarray:
    """Effective sample size of the rank-normalised draws of all half chains."""
    return on_quantities(lambda x: effective_size(_z_scale(_split(x, 2))), draws, min_chains=1, min_draws=SHORTEST_ESS)


def ess_tail(draws: np.ndarray) -> np.ndarray:
    """The smaller effective sample size of the indicators of the 5% and 95% quantiles."""
    return on_quantities(_ess_of_tails, draws, min_chains=1, min_draws=SHORTEST_ESS)


def variance_within_between(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean over chains of the chain variance, and variance over chains of the chain mean (both unbiased, ddof = 1)."""
    x = by_quantity(draws)
    within, between = np.full(len(x), np.nan), np.full(len(x), np.nan)
    finite = np.isfinite(x).all(axis=(1, 2))
    if x.shape[2] > 1:
        within[finite] = x[finite].var(axis=2, ddof=1).mean(axis=1)
    if x.shape[1] > 1:
        between[finite] = x[finite].mean(axis=2).var(axis=1, ddof=1)
    return within.reshape(draws.shape[2:]), between.reshape(draws.shape[2:])


def diagnose(draws: np.ndarray) -> Diagnostics:
    """All diagnostics of draws [C, S, P]."""
    draws = np.moveaxis(by_quantity(draws), 0, -1)  # in the order that all of these work in, once
    chainwise = rhat_chainwise(draws)
    largest, median = chainwise.max(axis=0), np.median(chainwise, axis=0)
    return Diagnostics(rhat(draws), largest, median, ess_bulk(draws), ess_tail(draws), *variance_within_between(draws))


def _split(x: np.ndarray, pieces: int) -> np.ndarray:
    """Cut chains [P, C, S] into equal pieces [P, C * pieces, S // pieces].

    Halves leave out the middle draw of an odd chain, as ArviZ does; other pieces leave out leading draws.
    """
    length = x.shape[2] // pieces
    if pieces == 2:
        return np.concatenate([x[..., :length], x[..., x.shape[2] - length :]], axis=1)
    return x[..., x.shape[2] - pieces * length :].reshape(len(x), -1, length)


def _z_scale(x: np.ndarray) -> np.ndarray:
    """Normal scores of the ranks over chains and draws, Phi^-1((r - 3/8) / (N + 1/4)); ties share the mean rank."""
    flat = x.reshape(len(x), -1)
    size = flat.shape[1]
    order = np.argsort(flat, axis=1)
    ordered = np.take_along_axis(flat, order, axis=1)
    differs = np.ones(flat.shape, dtype=bool)
    np.not_equal(ordered[:, 1:], ordered[:, :-1], out=differs[:, 1:])
    first = np.flatnonzero(differs)  # of each group of ties; the first of a row always is one
    ties = np.diff(first, append=flat.size)
    scores = ndtri((first % size + (ties + 1) / 2 - 0.375) / (size + 0.25))
    np.put_along_axis(ordered, order, np.repeat(scores, ties).reshape(flat.shape), axis=1)
    return ordered.reshape(x.shape)


def _rhat(x: np.ndarray) -> np.ndarray:
    """sqrt((B/W + N - 1) / N) of [P, m, N]; infinite for W = 0 < B, NaN for W = B = 0."""
    count = x.shape[2]
    variance = x.var(axis=2, ddof=1)
    variance[np.ptp(x, axis=2) == 0] = 0.0  # round-off of a mean would make it positive
    within = variance.mean(axis=1)
    between = count * x.mean(axis=2).var(axis=1, ddof=1)
    between[np.ptp(x, axis=(1, 2)) == 0] = np.nan
    ratio = np.full(len(x), np.inf)
    np.divide(between, within, out=ratio, where=within > 0)
    return np.sqrt((np.where(np.isnan(between), np.nan, ratio) + count - 1) / count)


def _rhat_of_halves(x: np.ndarray) -> np.ndarray:
    halves = _split(x, 2)
    folded = np.abs(halves - np.median(halves, axis=(1, 2), keepdims=True))
    return np.fmax(_rhat(_z_scale(halves)), _rhat(_z_scale(folded)))


def _rhat_of_pieces(x: np.ndarray) -> np.ndarray:
    return _rhat(_z_scale(_split(x, PIECES)))


def _ess_of_tails(x: np.ndarray) -> np.ndarray:
    quantiles = np.quantile(x, (0.05, 0.95), axis=(1, 2), keepdims=True)
    low, high = (effective_size(_split(x <= quantile, 2).astype(np.float64)) for quantile in quantiles)
    return np.minimum(low, high)
