"""R-hat, effective sample sizes and autocorrelation of draws as arrays.

The formulas of Vehtari et al. 2021 (Rank-normalization, folding, and localization) as implemented by ArviZ, vectorised
over quantities. Draws have shape [C, S, ...]; results have the shape of the trailing axes. A result is NaN where the
diagnostic is undefined: fewer than 4 draws (10 for bulk and tail effective sample sizes), one chain (R-hat), constant
or non-finite draws. BlackJAX's diagnostics are slower: on 4 x 1,000 draws of 300 quantities its R-hat takes 4.8 s and
this one 0.23 s; the two agree to 3e-16.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import fft
from scipy.special import ndtri

PIECES = 4
"""Pieces into which chain-wise R-hat cuts a chain."""
SHORTEST_ESS = 10
"""Fewest draws for bulk and tail effective sample sizes. With fewer draws, half chains have only one pair of
autocorrelations, so the estimate is always at its lower bound."""


class Diagnostics(NamedTuple):
    """Diagnostics of P quantities, each [P]."""

    rhat: np.ndarray
    """Rank-normalised split R-hat, the larger of the bulk and the folded value."""
    rhat_chainwise_max: np.ndarray
    """Largest chain-wise R-hat; NaN if the quantity is constant in a chain."""
    rhat_chainwise_median: np.ndarray
    """Median chain-wise R-hat."""
    ess_bulk: np.ndarray
    ess_tail: np.ndarray
    within: np.ndarray
    """Mean over chains of the variance within a chain."""
    between: np.ndarray
    """Variance over chains of the chain means."""


def rhat(draws: np.ndarray) -> np.ndarray:
    """Rank-normalised split R-hat: sqrt((B/W + N - 1) / N) of half chains, the larger of the plain and folded values.

    Infinite if half chains are constant at different values.
    """
    return on_quantities(_rhat_of_halves, draws, min_chains=2, min_draws=4)


def rhat_chainwise(draws: np.ndarray) -> np.ndarray:
    """R-hat of each chain on its own [C, ...]: the chain is cut into 4 pieces, with ranks taken within the chain.

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
    """The smaller effective sample size of two indicators: below the 5% quantile and below the 95% quantile."""
    return on_quantities(_ess_of_tails, draws, min_chains=1, min_draws=SHORTEST_ESS)


def variance_within_between(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean over chains of the chain variances, and variance over chains of the chain means (both with ddof = 1)."""
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
    draws = np.moveaxis(by_quantity(draws), 0, -1)  # reorders memory once for all diagnostics
    chainwise = rhat_chainwise(draws)
    largest, median = chainwise.max(axis=0), np.median(chainwise, axis=0)
    return Diagnostics(rhat(draws), largest, median, ess_bulk(draws), ess_tail(draws), *variance_within_between(draws))


def _split(x: np.ndarray, pieces: int) -> np.ndarray:
    """Cut chains [P, C, S] into equal pieces [P, C * pieces, S // pieces].

    If S does not divide evenly, halves leave out the middle draw, as in ArviZ; other pieces leave out leading draws.
    """
    length = x.shape[2] // pieces
    if pieces == 2:
        return np.concatenate([x[..., :length], x[..., x.shape[2] - length :]], axis=1)
    return x[..., x.shape[2] - pieces * length :].reshape(len(x), -1, length)


def _z_scale(x: np.ndarray) -> np.ndarray:
    """Normal scores Phi^-1((r - 3/8) / (N + 1/4)) of the ranks r over chains and draws; ties share the mean rank."""
    flat = x.reshape(len(x), -1)
    size = flat.shape[1]
    order = np.argsort(flat, axis=1)
    ordered = np.take_along_axis(flat, order, axis=1)
    differs = np.ones(flat.shape, dtype=bool)
    np.not_equal(ordered[:, 1:], ordered[:, :-1], out=differs[:, 1:])
    first = np.flatnonzero(differs)  # index of each group of ties; each row begins a new group
    ties = np.diff(first, append=flat.size)
    scores = ndtri((first % size + (ties + 1) / 2 - 0.375) / (size + 0.25))
    np.put_along_axis(ordered, order, np.repeat(scores, ties).reshape(flat.shape), axis=1)
    return ordered.reshape(x.shape)


def _rhat(x: np.ndarray) -> np.ndarray:
    """sqrt((B/W + N - 1) / N) of [P, m, N]; infinite for W = 0 < B, NaN for W = B = 0."""
    count = x.shape[2]
    variance = x.var(axis=2, ddof=1)
    variance[np.ptp(x, axis=2) == 0] = 0.0  # rounding of the mean would make it positive
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


def gelman_rubin(draws: np.ndarray) -> np.ndarray:
    """sqrt(((N - 1) / N W + B / N) / W) of draws [C, N, ...]: the shape of the trailing axes.

    W is the mean over the C chains of the variance within a chain, B / N the variance over chains of the chain means
    (both with ddof = 1). Gelman and Rubin 1992, Inference from Iterative Simulation Using Multiple Sequences, without
    their correction for the sampling variability of the variances; Gelman et al., Bayesian Data Analysis, equation
    11.4, on whole chains. It does not detect chains that drift together or differ in spread: use `rhat` to judge
    convergence. NaN for one chain, fewer than two draws, or quantities that are constant or not finite; infinite if
    chains are constant at different values.
    """
    chains, count, *shape = draws.shape
    if chains < 2 or count < 2:
        return np.full(shape, np.nan)
    x = np.asarray(draws, dtype=np.float64).reshape(chains, count, -1)
    usable = np.isfinite(x).all(axis=(0, 1)) & (np.ptp(x, axis=(0, 1)) > 0)
    result = np.full(x.shape[2], np.nan)
    x = x[..., usable]
    variance = x.var(axis=1, ddof=1)
    variance[np.ptp(x, axis=1) == 0] = 0.0  # rounding of the mean would make it positive
    within, between = variance.mean(axis=0), x.mean(axis=1).var(axis=0, ddof=1)
    ratio = np.full(len(within), np.inf)
    np.divide(between, within, out=ratio, where=within > 0)
    result[usable] = np.sqrt((count - 1) / count + ratio)
    return result.reshape(shape)


def ess_mean(draws: np.ndarray) -> np.ndarray:
    """Effective sample size for the mean of the draws: without ranks, from whole chains."""
    return on_quantities(effective_size, draws, min_chains=1, min_draws=4)


def autocorrelation(draws: np.ndarray) -> np.ndarray:
    """Autocorrelation at lags 0, 1, ... of draws [C, S], as used for the effective sample size: [S].

    rho_t = 1 - (W - c_t) / V, with c_t the mean autocovariance within chains, W = c_0 S / (S - 1) and
    V = c_0 + variance of the chain means; if chains disagree, rho_t stays above 0 at all lags.
    """
    rho: np.ndarray = _autocorrelation(by_quantity(draws))[0]
    return rho


def on_quantities(
    function: Callable[[np.ndarray], np.ndarray], draws: np.ndarray, min_chains: int, min_draws: int
) -> np.ndarray:
    """Apply `function`, [P, C, S] -> [P], to the quantities for which it is defined; NaN for the others."""
    chains, count, *shape = draws.shape
    x = by_quantity(draws)
    result = np.full(len(x), np.nan)
    if chains >= min_chains and count >= min_draws:
        usable = np.isfinite(x).all(axis=(1, 2)) & (np.ptp(x, axis=(1, 2)) > 0)
        if usable.any():
            result[usable] = function(x[usable])
    return result.reshape(shape)


def by_quantity(draws: np.ndarray) -> np.ndarray:
    """Draws [C, S, ...] as float64 [P, C, S]; rows are contiguous, so a sum does not depend on other quantities."""
    return np.ascontiguousarray(np.moveaxis(draws.reshape(*draws.shape[:2], -1), -1, 0), dtype=np.float64)


def effective_size(x: np.ndarray) -> np.ndarray:
    """Effective sample size mN / tau of [P, m, N]; NaN for constant quantities.

    tau = -1 + 2 (sum of autocorrelations over Geyer's initial positive, monotone sequence of pairs), at least
    1 / log10(mN).
    """
    chains, count = x.shape[1:]
    rho = _autocorrelation(x)
    pairs = 1 + max(0, (count - 3) // 2)
    even, odd = rho[:, 0 : 2 * pairs : 2], rho[:, 1 : 2 * pairs : 2]
    sums = even + odd
    ended = sums <= 0
    last = np.where(ended.any(axis=1), ended.argmax(axis=1), pairs - 1)[:, None]
    monotone = np.minimum.accumulate(sums, axis=1)
    body = np.where(np.arange(pairs) < last, monotone, 0.0).sum(axis=1)
    even, sums = np.take_along_axis(even, last, axis=1)[:, 0], np.take_along_axis(sums, last, axis=1)[:, 0]
    tau = -1.0 + 2.0 * body + np.where((even > 0) | (sums >= 0), even, 0.0)
    size, constant = chains * count, np.ptp(x, axis=(1, 2)) == 0
    return np.where(constant, np.nan, size / np.maximum(tau, 1 / np.log10(size)))


def _autocorrelation(x: np.ndarray) -> np.ndarray:
    """`autocorrelation` of [P, m, N]: [P, N]; meaningless for constant quantities."""
    chains, count = x.shape[1:]
    covariance = _mean_autocovariance(x)
    within = covariance[:, 0] * count / (count - 1)
    total = covariance[:, 0] + (x.mean(axis=2).var(axis=1, ddof=1) if chains > 1 else 0.0)
    total[np.ptp(x, axis=(1, 2)) == 0] = 1.0
    rho = 1.0 - (within[:, None] - covariance) / total[:, None]
    rho[:, 0] = 1.0
    return rho


def _mean_autocovariance(x: np.ndarray) -> np.ndarray:
    """Autocovariance at lags 0 ... N-1, averaged over chains: [P, N] from [P, m, N] (one inverse transform for all)."""
    count = x.shape[2]
    length = fft.next_fast_len(2 * count, real=True)
    spectrum = fft.rfft(x - x.mean(axis=2, keepdims=True), n=length, axis=2)
    power = (spectrum.real**2 + spectrum.imag**2).mean(axis=1)
    return fft.irfft(power, n=length, axis=1)[:, :count] / count


def error_of_chain_mean(draws: np.ndarray) -> float:
    """Standard error sd / sqrt(ESS) of the mean over all draws [C, S] of one quantity; NaN where ESS is undefined."""
    effective = float(ess_mean(draws[:, :, None])[0])
    return float(np.std(draws, ddof=1)) / effective**0.5 if effective > 0 else float("nan")
