"""The plain potential scale reduction, without ranks and without halves of chains: R-hat as papers before 2021 have it.

It is blind to chains that drift alike and to different spreads; `rhat_ess.rhat` is the one to judge by.
"""

import numpy as np


def gelman_rubin(draws: np.ndarray) -> np.ndarray:
    """sqrt(((N - 1) / N W + B / N) / W) of draws [C, N, ...]: the shape of the trailing axes.

    W is the mean over the C chains of the variance within a chain, B / N the variance over chains of the chain means
    (both with n - 1). Gelman and Rubin 1992, Inference from Iterative Simulation Using Multiple Sequences, without its
    correction for the sampling of the variances; Gelman et al., Bayesian Data Analysis, equation 11.4, of whole chains.
    NaN for one chain, fewer than two draws and quantities that are constant or not finite; infinite where chains are
    constant at different values.
    """
    chains, count, *shape = draws.shape
    if chains < 2 or count < 2:
        return np.full(shape, np.nan)
    x = np.asarray(draws, dtype=np.float64).reshape(chains, count, -1)
    usable = np.isfinite(x).all(axis=(0, 1)) & (np.ptp(x, axis=(0, 1)) > 0)
    result = np.full(x.shape[2], np.nan)
    x = x[..., usable]
    variance = x.var(axis=1, ddof=1)
    variance[np.ptp(x, axis=1) == 0] = 0.0  # round-off of a mean would make it positive
    within, between = variance.mean(axis=0), x.mean(axis=1).var(axis=0, ddof=1)
    ratio = np.full(len(within), np.inf)
    np.divide(between, within, out=ratio, where=within > 0)
    result[usable] = np.sqrt((count - 1) / count + ratio)
    return result.reshape(shape)
