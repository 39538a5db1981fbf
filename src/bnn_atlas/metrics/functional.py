"""How different the functions of single draws are, and how the model average grows draw by draw.

A draw of a regression predicts N(mu_i, sd_i^2) at each of n rows; arrays hold m draws, [m, n], in the units of the
target. Sommer et al. 2025, Approximate Posteriors in Neural Networks: A Sampling Perspective.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import pdist, squareform
from scipy.special import ndtr, ndtri

from bnn_atlas.metrics.predictive import PredictionError, PredictiveSummary
from bnn_atlas.metrics.scores import lppd_over_draws

MAX_BYTES = 256 * 2**20
"""Working memory, apart from results [m, m]."""
DISTINGUISHABLE = 1.96
"""|z| from which two draws' functions differ significantly at the level 0.05."""


class Pairs(NamedTuple):
    """How many pairs of different draws a significance matrix cannot tell apart."""

    total: int
    """m (m - 1) / 2."""
    alike: int
    """Pairs with |z| < 1.96."""
    undefined: int
    """Pairs without a z, because a mean function is constant over the rows; they count as neither."""

    @property
    def share(self) -> float:
        """Pairs not distinguishable among those that have a z; NaN where none has."""
        defined = self.total - self.undefined
        return self.alike / defined if defined else float("nan")


class RunningLppd(NamedTuple):
    """LPPD per row of the first k draws of each chain."""

    counts: np.ndarray
    """[g] numbers of draws k."""
    ensemble: np.ndarray
    """[g] of all chains that are not divergent together."""
    chains: np.ndarray
    """[C, g] of each chain alone; NaN for a divergent chain."""


def wasserstein_squared(mean: np.ndarray, scale: np.ndarray, max_bytes: int = MAX_BYTES) -> np.ndarray:
    """Squared 2-Wasserstein distances between the predictions of all pairs of draws, [m, m].

    W2^2(a, b) = sum_i (mu_ai - mu_bi)^2 + (sd_ai - sd_bi)^2, the distance of two Gaussians with diagonal covariance; a
    sum over rows, so it grows with their number; in squared units of the target. `mean` and `scale` (standard
    deviations) are [m, n]. Working memory stays near `max_bytes`. Raises PredictionError for shapes that differ, values
    that are not finite and deviations that are not positive.
    """
    mean, scale = _checked(mean, scale)
    total = np.zeros(len(mean) * (len(mean) - 1) // 2)
    for rows in _parts(mean, max_bytes):
        # The formula is the squared Euclidean distance of the vectors (mu, sd).
        total += pdist(np.concatenate([mean[:, rows], scale[:, rows]], axis=1, dtype=np.float64), "sqeuclidean")
    distances: np.ndarray = squareform(total)
    return distances


def wasserstein_squared_as_published(mean: np.ndarray, scale: np.ndarray, max_bytes: int = MAX_BYTES) -> np.ndarray:
    """What the published figure on permuted warm starts shows in place of `wasserstein_squared`, [m, m].

    sum_i (mu_ai - mu_bi)^2 + (sqrt(sd_ai) - sqrt(sd_bi))^2: its script gave standard deviations to a function that
    takes the root of variances. The second term is not in squared units of the target, so that the number changes with
    those units. Arguments and errors as for `wasserstein_squared`.
    """
    mean, scale = _checked(mean, scale)
    return wasserstein_squared(mean, np.sqrt(scale), max_bytes)


def significance(mean: np.ndarray, scale: np.ndarray, max_bytes: int = MAX_BYTES) -> np.ndarray:
    """Whether two draws' functions differ in their mean over the rows: z of all pairs [m, m], antisymmetric.

    z_ab = sqrt(n) mean_i(mu_ai - mu_bi) / sqrt(mean_i(sd_ai^2 + sd_bi^2 - 2 rho_ab sd_ai sd_bi)), where rho_ab is
    Pearson's correlation of the two mean functions over the n rows: errors of functions that move together cancel in
    their difference. |z| >= 1.96 is a significant difference. Only the difference's mean over the rows counts: two
    functions that differ up here and down there have a small z and a large `wasserstein_squared`. A pair with equal
    means over the rows has z = 0; NaN where rho is not defined because a mean function is constant. Arguments and
    errors as for `wasserstein_squared`; at least two rows.
    """
    mean, scale = _checked(mean, scale)
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
    # Below this share of a function's size the deviations are rounding errors of its mean.
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
    """Count the pairs of different draws that a matrix of `significance` does not tell apart."""
    upper = z[np.triu_indices(len(z), 1)]
    return Pairs(upper.size, int(np.sum(np.abs(upper) < DISTINGUISHABLE)), int(np.sum(np.isnan(upper))))


def running_lppd(summary: PredictiveSummary) -> RunningLppd:
    """LPPD of the first k draws at the summary's numbers of draws, of the ensemble and of each chain.

    ensemble_k = mean_i log (1/k) sum_{s<=k} (1/C) sum_c p(y_i | theta_cs). A density of 0 at a row gives -inf.
    Raises PredictionError for predictions without targets, and where every chain is divergent.
    """
    if summary.log_density_by_draw is None or summary.running_lppd is None:
        raise PredictionError("these predictions have no targets; take the rows of the test set")
    if not len(summary.kept):
        raise PredictionError(f"all {len(summary.divergent)} chains are divergent: there is no model average")
    ensemble = lppd_over_draws(summary.log_density_by_draw, summary.running_draws).value
    return RunningLppd(summary.running_draws, ensemble, summary.running_lppd)


def mixture_quantile(mean: np.ndarray, scale: np.ndarray, level: float) -> np.ndarray:
    """Quantile of the equal mixture of N(mu, sd^2) over m draws at each row [n], in the units of the target.

    Solves (1/m) sum_s Phi((y - mu_s) / sd_s) = level by bisection between the smallest and the largest quantile of the
    draws, to full float64 accuracy. Raises PredictionError for a level outside (0, 1) and as `wasserstein_squared`.
    """
    from_draws = _checked(mean, scale)
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


def _parts(mean: np.ndarray, max_bytes: int) -> Iterator[slice]:
    """Cut the rows so that eight float64 numbers per draw and row fit."""
    draws, rows = mean.shape
    step = max(1, max_bytes // (64 * draws))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def _checked(mean: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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
