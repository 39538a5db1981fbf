"""How far draws are from a prior N(0, sd^2): Kolmogorov distances in one and in two dimensions."""

import numpy as np
from scipy.special import ndtr


def prior_distance(values: np.ndarray, sd: float) -> float:
    """Distance max_x |F(x) - Phi(x / sd)| of draws [n] to N(0, sd^2): 0 for the prior itself, at most 1.

    F is the share of the draws up to x, whose largest difference is at one of the draws, just before or after it
    (Kolmogorov and Smirnov). NaN without draws.
    """
    if not len(values):
        return float("nan")
    prior = ndtr(np.sort(values.astype(np.float64)) / sd)
    steps = np.arange(len(values) + 1) / len(values)
    return float(max(np.abs(steps[1:] - prior).max(), np.abs(steps[:-1] - prior).max()))


def joint_prior_distance(counts: np.ndarray, x_edges: np.ndarray, y_edges: np.ndarray, draws: int, sd: float) -> float:
    """The same in two dimensions, from counts of draws: the largest difference of the shares in any quadrant.

    max over all quadrants Q around a corner of the cells |share of the draws in Q - N(0, sd^2 I)(Q)|, each within the
    limits of the cells (Peacock 1983, whose corners are the draws). It is no smaller than what the marginals differ by
    at the edges of the cells, and sees ridges and crosses, too, whose marginals may be those of the prior. NaN without
    draws.

    Args:
        counts: draws [x bin, y bin] inside the limits.
        x_edges: [x bins + 1].
        y_edges: [y bins + 1].
        draws: all draws, also those outside the limits.
        sd: standard deviation of the prior.
    """
    if draws < 1:
        return float("nan")
    expected = np.outer(np.diff(ndtr(x_edges / sd)), np.diff(ndtr(y_edges / sd)))
    excess = np.pad((counts / draws - expected).cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
    left, below, everything = excess[:, -1:], excess[-1:, :], excess[-1, -1]
    quadrants = (excess, left - excess, below - excess, everything - left - below + excess)
    return float(max(np.abs(quadrant).max() for quadrant in quadrants))
