"""Distances: between functions of draws, between predictive distributions, to targets, and from draws to their prior.

A draw of a regression predicts N(mu_i, sd_i^2) at each of n rows. Arrays [m, n] hold m draws, in units of the target.
Sommer et al. 2025, Approximate Posteriors in Neural Networks: A Sampling Perspective.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from bnn_atlas.metrics.tables.measurement import PredictionError

MAX_BYTES = 256 * 2**20
"""Bytes of working memory, excluding results [m, m]."""
DISTINGUISHABLE = 1.96
"""|z| at and above which two draws' functions differ significantly at level 0.05."""


class Pairs(NamedTuple):
    """Numbers of pairs of different draws in a significance matrix."""

    total: int
    """m (m - 1) / 2."""
    alike: int
    """Pairs with |z| < 1.96."""
    undefined: int
    """Pairs whose z is undefined because a mean function is constant over the rows; not counted in `alike`."""

    @property
    def share(self) -> float:
        """Fraction of indistinguishable pairs among the pairs with a defined z; NaN if there are no such pairs."""
        defined = self.total - self.undefined
        return self.alike / defined if defined else float("nan")


def wasserstein_squared(mean: np.ndarray, scale: np.ndarray, max_bytes: int = MAX_BYTES) -> np.ndarray:
    """Squared 2-Wasserstein distances between the predictions of all pairs of draws, [m, m].

    W2^2(a, b) = sum_i (mu_ai - mu_bi)^2 + (sd_ai - sd_bi)^2, the distance between two Gaussians with diagonal
    covariance, in squared units of the target. The distance is a sum over rows, so it grows with the number of rows.
    `mean` and `scale` (standard deviations) are [m, n]. Working memory stays near `max_bytes`. Raises PredictionError
    if shapes differ, a value is not finite or a deviation is not positive.
    """
    from scipy.spatial.distance import pdist, squareform  # slow to import

    mean, scale = checked_draws(mean, scale)
    total = np.zeros(len(mean) * (len(mean) - 1) // 2)
    for rows in _parts(mean, max_bytes):
        # The formula is the squared Euclidean distance of the vectors (mu, sd).
        total += pdist(np.concatenate([mean[:, rows], scale[:, rows]], axis=1, dtype=np.float64), "sqeuclidean")
    distances: np.ndarray = squareform(total)
    return distances


def significance(mean: np.ndarray, scale: np.ndarray, max_bytes: int = MAX_BYTES) -> np.ndarray:
    """Whether two draws' functions differ in their mean over the rows: z of all pairs [m, m], antisymmetric.

    z_ab = sqrt(n) mean_i(mu_ai - mu_bi) / sqrt(mean_i(sd_ai^2 + sd_bi^2 - 2 rho_ab sd_ai sd_bi)), where rho_ab is
    Pearson's correlation of the two mean functions over the n rows: errors that the two functions have in common cancel
    in their difference. |z| >= 1.96 is a significant difference. Only the mean difference over the rows counts: if one
    function is larger at some rows and smaller at others, z can be small although `wasserstein_squared` is large. A
    pair with equal means over the rows has z = 0; NaN where rho is undefined because a mean function is constant.
    Arguments and errors as for `wasserstein_squared`; at least two rows.
    """
    mean, scale = checked_draws(mean, scale)
    draws, rows = mean.shape
    if rows < 2:
        raise PredictionError("the correlation of two functions needs at least 2 rows; there is 1")
    centre = mean.mean(axis=1, dtype=np.float64)
    covariance, cross = np.zeros((2, draws, draws))
    for part in _parts(mean, max_bytes):
        deviation, sd = mean[:, part] - centre[:, None], scale[:, part].astype(np.float64)
        covariance += deviation @ deviation.T
        cross += sd @ sd.T
    norm = np.sqrt(np.diag(covariance))
    # Below this fraction of a function's size, the deviations are rounding errors of its mean.
    norm[norm <= np.sqrt(rows) * np.abs(centre) * rows * np.finfo(np.float64).eps] = np.nan
    with np.errstate(invalid="ignore", divide="ignore"):
        rho = np.clip(covariance / np.outer(norm, norm), -1.0, 1.0)
        square = np.diag(cross)
        variance = np.maximum((square[:, None] + square - 2 * rho * cross) / rows, 0.0)
        difference = centre[:, None] - centre
        z: np.ndarray = np.sqrt(rows) * difference / np.sqrt(variance)
    z[(difference == 0) & ~np.isnan(rho)] = 0.0
    np.fill_diagonal(z, 0.0)
    return z


def pairs_alike(z: np.ndarray) -> Pairs:
    """Count the pairs of different draws in a matrix from `significance`, and the pairs that z cannot distinguish."""
    upper = z[np.triu_indices(len(z), 1)]
    return Pairs(upper.size, int(np.sum(np.abs(upper) < DISTINGUISHABLE)), int(np.sum(np.isnan(upper))))


def mixture_quantile(mean: np.ndarray, scale: np.ndarray, level: float) -> np.ndarray:
    """Quantile of the equal mixture of N(mu, sd^2) over m draws at each row [n], in the units of the target.

    Solves (1/m) sum_s Phi((y - mu_s) / sd_s) = level by bisection between the smallest and the largest quantile of the
    draws, to full float64 accuracy. Raises PredictionError for a level outside (0, 1), and in the same cases as
    `wasserstein_squared`.
    """
    from_draws = checked_draws(mean, scale)
    if not 0 < level < 1:
        raise PredictionError(f"level = {level}: a quantile needs a level between 0 and 1")
    mean, scale = (array.astype(np.float64) for array in from_draws)
    single = mean + scale * ndtri(level)
    low, high = single.min(axis=0), single.max(axis=0)
    for _ in range(60):
        middle = 0.5 * (low + high)
        below = ndtr((middle - mean) / scale).mean(axis=0) < level
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return 0.5 * (low + high)


def crps(mean: np.ndarray, scale: np.ndarray, y: np.ndarray, max_bytes: int = MAX_BYTES) -> np.ndarray:
    """Continuous ranked probability score of each row [n], in the units of the target; 0 is best.

    The integral of (F(x) - 1{x >= y})^2 over x, with F the equal mixture of N(mu, sd^2) over m draws, in closed form:
    (1/m) sum_s A(y - mu_s, sd_s^2) - 1/(2 m^2) sum_st A(mu_s - mu_t, sd_s^2 + sd_t^2), where A(u, v) is the mean of
    |N(u, v)|. Grimit et al. 2006, The continuous ranked probability score for circular variables, equation 5; Gneiting
    and Raftery 2007, Strictly Proper Scoring Rules, Prediction, and Estimation, section 4.2.

    `mean` and `scale` are [m, n] and `y` is [n]. Time grows with m^2; memory and errors as for `wasserstein_squared`.
    """
    mean, scale = checked_draws(mean, scale)
    found = np.empty(len(y))
    for rows in _parts(mean, max_bytes):
        mu, sd = (array[:, rows].astype(np.float64) for array in (mean, scale))
        within = _mean_absolute(np.zeros_like(mu), np.sqrt(2) * sd).sum(axis=0)
        between = sum(
            _mean_absolute(mu[lag:] - mu[:-lag], np.hypot(sd[lag:], sd[:-lag])).sum(axis=0) for lag in range(1, len(mu))
        )
        found[rows] = _mean_absolute(y[rows] - mu, sd).mean(axis=0) - (0.5 * within + between) / len(mu) ** 2
    return found


def interval_score(
    mean: np.ndarray, scale: np.ndarray, y: np.ndarray, level: float, max_bytes: int = MAX_BYTES
) -> np.ndarray:
    """Interval score of each row [n], in the units of the target: smaller is better.

    (u - l) + 2 / (1 - level) max(l - y, y - u, 0), where l and u are the quantiles (1 - level) / 2 and
    (1 + level) / 2 of the equal mixture of N(mu, sd^2) over m draws. Gneiting and Raftery 2007, Strictly Proper Scoring
    Rules, Prediction, and Estimation, equation 43. Arguments and memory as for `crps`, errors as for
    `mixture_quantile`.
    """
    found = np.empty(len(y))
    for rows in _parts(mean, max_bytes):
        low, high = (mixture_quantile(mean[:, rows], scale[:, rows], 0.5 * (1 + sign * level)) for sign in (-1, 1))
        outside = np.maximum(np.maximum(low - y[rows], y[rows] - high), 0)
        found[rows] = high - low + 2 / (1 - level) * outside
    return found


def _mean_absolute(mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Mean of |N(mean, scale^2)|."""
    with np.errstate(over="ignore"):  # if z^2 overflows float64, the density is 0
        z = mean / scale
        return mean * (2 * ndtr(z) - 1) + scale * np.sqrt(2 / np.pi) * np.exp(-0.5 * z**2)


def _parts(mean: np.ndarray, max_bytes: int) -> Iterator[slice]:
    """Slices of rows for which eight float64 numbers per draw and row fit in `max_bytes`."""
    draws, rows = mean.shape
    step = max(1, max_bytes // (64 * draws))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def checked_draws(mean: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and scale as arrays [m, n]; PredictionError in the same cases as `wasserstein_squared`."""
    mean, scale = np.asarray(mean), np.asarray(scale)
    if mean.ndim != 2 or mean.shape != scale.shape or not mean.size:
        raise PredictionError(f"mean has shape {mean.shape} and scale {scale.shape}; expected [draws, rows] for both")
    bad = ~(np.isfinite(mean) & np.isfinite(scale) & (scale > 0)).all(axis=1)
    if bad.any():
        raise PredictionError(
            f"{int(bad.sum())} of {len(bad)} draws have a mean or scale that is not finite, or a scale that is not "
            f"positive, first draw {int(np.flatnonzero(bad)[0])}; leave out divergent chains"
        )
    return mean, scale


POINTS = 2001
"""Points at which two distribution functions are compared."""
REACH = 8.0
"""Distance from the outermost means to the outermost of these points, in standard deviations of the noise."""
MOST_DRAWS = 1000
"""Largest number of evenly spread draws of a mixture that are used, as in the competition of Wilson et al. 2022."""


def wasserstein_1(mean_p: np.ndarray, scale_p: np.ndarray, mean_q: np.ndarray, scale_q: np.ndarray) -> np.ndarray:
    """W1 = integral of |F - G| at each row [n], for mixtures F and G of N(mean, scale^2) with equal weights.

    Means and scales are [s, n] over the draws of each predictive distribution, observation noise included; at most
    MOST_DRAWS draws are used. The integral is a trapezoidal sum over a grid that extends REACH standard deviations of
    the widest noise beyond the outermost means. Evaluating Approximate Inference in Bayesian Deep Learning (Wilson et
    al. 2022) measures the same distance from 1,000 draws with noise, but calls the distance W2.

    Raises PredictionError for means and scales of the wrong shape, and for scales that are not positive.
    """
    p, q = (_thinned(*pair) for pair in ((mean_p, scale_p), (mean_q, scale_q)))
    if p[0].shape[1] != q[0].shape[1]:
        raise PredictionError(f"{p[0].shape[1]} rows cannot be compared with {q[0].shape[1]} rows")
    return np.array([_row(*(part[:, row] for pair in (p, q) for part in pair)) for row in range(p[0].shape[1])])


def _thinned(mean: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean, scale = np.asarray(mean, np.float64), np.asarray(scale, np.float64)
    if mean.ndim != 2 or mean.shape != scale.shape or not len(mean):
        raise PredictionError(f"means have shape {list(mean.shape)} and scales {list(scale.shape)}; expected [s, n]")
    if not (np.isfinite(mean).all() and np.isfinite(scale).all() and (scale > 0).all()):
        raise PredictionError("means must be finite, and scales finite and positive; leave out divergent chains")
    chosen = np.linspace(0, len(mean) - 1, min(len(mean), MOST_DRAWS)).round().astype(np.int64)
    return mean[chosen], scale[chosen]


def _row(mean_p: np.ndarray, scale_p: np.ndarray, mean_q: np.ndarray, scale_q: np.ndarray) -> float:
    means, widest = np.concatenate([mean_p, mean_q]), max(scale_p.max(), scale_q.max())
    grid = np.linspace(means.min() - REACH * widest, means.max() + REACH * widest, POINTS)
    gap = _distribution(grid, mean_p, scale_p) - _distribution(grid, mean_q, scale_q)
    return float(np.trapezoid(np.abs(gap), grid))


def _distribution(grid: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Distribution function F of the mixture at the grid points [g]: the mean over draws."""
    return ndtr((grid[:, None] - mean) / scale).mean(axis=1)


def joint_prior_distance(counts: np.ndarray, x_edges: np.ndarray, y_edges: np.ndarray, draws: int, sd: float) -> float:
    """Distance of draws to N(0, sd^2 I) in two dimensions: the largest difference in the probability of a quadrant.

    max |share of the draws in Q - N(0, sd^2 I)(Q)| over all quadrants Q around a corner of the cells, within the limits
    of the cells (Peacock 1983 takes the draws as corners). The distance is at least the largest difference between the
    marginals at the edges of the cells; it also detects ridges and crosses with the same marginals as the prior. NaN
    without draws.

    Args:
        counts: number of draws in each cell [x bin, y bin] inside the limits.
        x_edges: [x bins + 1].
        y_edges: [y bins + 1].
        draws: number of all draws, inside and outside the limits.
        sd: standard deviation of the prior.
    """
    if draws < 1:
        return float("nan")
    expected = np.outer(np.diff(ndtr(x_edges / sd)), np.diff(ndtr(y_edges / sd)))
    excess = np.pad((counts / draws - expected).cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
    left, below, everything = excess[:, -1:], excess[-1:, :], excess[-1, -1]
    quadrants = (excess, left - excess, below - excess, everything - left - below + excess)
    return float(max(np.abs(quadrant).max() for quadrant in quadrants))
