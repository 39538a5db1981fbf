"""First Wasserstein distance between predictive distributions of one number."""

import numpy as np
from scipy.special import ndtr

from bnn_atlas.metrics.errors import PredictionError

POINTS = 2001
"""Places at which two distribution functions are compared."""
REACH = 8.0
"""Standard deviations of the noise beyond the outermost means where these places begin and end."""
MOST_DRAWS = 1000
"""Most draws of a mixture, evenly spread where there are more, as in the competition of Wilson et al. 2022."""


def wasserstein_1(mean_p: np.ndarray, scale_p: np.ndarray, mean_q: np.ndarray, scale_q: np.ndarray) -> np.ndarray:
    """W1 = integral of |F - G| of each row [n], F and G mixtures with equal weights of N(mean, scale^2).

    Means and scales are [s, n] over the draws of each predictive distribution, observation noise included; at most
    MOST_DRAWS draws enter. The integral is a trapezoidal sum over a grid between the outermost means, REACH standard
    deviations of the widest noise beyond them. Evaluating Approximate Inference in Bayesian Deep Learning (Wilson et
    al. 2022) measures the same from 1,000 draws with noise, and calls it W2.

    Raises PredictionError for means and scales of other shapes, and for scales that are not positive.
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
        raise PredictionError("means have to be finite, and scales finite and positive")
    chosen = np.linspace(0, len(mean) - 1, min(len(mean), MOST_DRAWS)).round().astype(np.int64)
    return mean[chosen], scale[chosen]


def _row(mean_p: np.ndarray, scale_p: np.ndarray, mean_q: np.ndarray, scale_q: np.ndarray) -> float:
    means, widest = np.concatenate([mean_p, mean_q]), max(scale_p.max(), scale_q.max())
    grid = np.linspace(means.min() - REACH * widest, means.max() + REACH * widest, POINTS)
    gap = _distribution(grid, mean_p, scale_p) - _distribution(grid, mean_q, scale_q)
    return float(np.trapezoid(np.abs(gap), grid))


def _distribution(grid: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """F at the grid [g], the mean over draws."""
    return ndtr((grid[:, None] - mean) / scale).mean(axis=1)
