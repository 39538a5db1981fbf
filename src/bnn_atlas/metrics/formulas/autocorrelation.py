"""Autocorrelation of draws as arrays, and the effective sample size that follows from it.

The formulas are those of Vehtari et al. 2021 (Rank-normalization, folding, and localization) as ArviZ has them, here
vectorised over quantities. Draws have shape [C, S, ...]; results the shape of the trailing axes. Apart from `rhat_ess`,
since the tuning of MCLMC uses this module alone: an edit of ranks leaves its draws current.
"""

from collections.abc import Callable

import numpy as np
from scipy import fft


def ess_mean(draws: np.ndarray) -> np.ndarray:
    """Effective sample size of the draws as they are, without ranks and with whole chains: that of their mean."""
    return on_quantities(effective_size, draws, min_chains=1, min_draws=4)


def autocorrelation(draws: np.ndarray) -> np.ndarray:
    """Autocorrelation at lags 0, 1, ... of draws [C, S], as it enters the effective sample size: [S].

    rho_t = 1 - (W - c_t) / V with c_t the mean autocovariance within chains, W = c_0 S / (S - 1) and
    V = c_0 + variance of the chain means: chains that disagree keep it above 0 at all lags.
    """
    rho: np.ndarray = _autocorrelation(by_quantity(draws))[0]
    return rho


def on_quantities(
    function: Callable[[np.ndarray], np.ndarray], draws: np.ndarray, min_chains: int, min_draws: int
) -> np.ndarray:
    """`function` of [P, C, S] -> [P] on the quantities that have the diagnostic, NaN on the others."""
    chains, count, *shape = draws.shape
    x = by_quantity(draws)
    result = np.full(len(x), np.nan)
    if chains >= min_chains and count >= min_draws:
        usable = np.isfinite(x).all(axis=(1, 2)) & (np.ptp(x, axis=(1, 2)) > 0)
        if usable.any():
            result[usable] = function(x[usable])
    return result.reshape(shape)


def by_quantity(draws: np.ndarray) -> np.ndarray:
    """Draws [C, S, ...] as float64 [P, C, S]: with rows contiguous, a sum does not depend on the other quantities."""
    return np.ascontiguousarray(np.moveaxis(draws.reshape(*draws.shape[:2], -1), -1, 0), dtype=np.float64)


def effective_size(x: np.ndarray) -> np.ndarray:
    """Effective sample size mN / tau of [P, m, N]; NaN for constant quantities.

    tau = -1 + 2 sum of autocorrelations over Geyer's initial positive, monotone sequence of pairs; tau >= 1/log10(mN).
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
    """`autocorrelation` of [P, m, N]: [P, N]; without meaning for constant quantities."""
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
