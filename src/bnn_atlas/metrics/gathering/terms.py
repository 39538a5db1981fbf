"""What single draws contribute to averages of predictions: densities, moments and probabilities at rows."""

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from bnn_atlas.metrics.tables.measurement import PredictionError
from bnn_atlas.posterior.predictive import Predictive

LOG_2PI = float(np.log(2 * np.pi))
REGRESSION_BYTES = 96
"""Bytes per draw and row while terms are computed."""
CLASS_BYTES = 40
"""Bytes per class probability while terms are computed."""


class Terms(NamedTuple):
    """The contribution of b draws at n rows."""

    valid: np.ndarray
    """[b] whether everything about the draw is finite, except that log densities may be -inf."""
    log_density: np.ndarray | None
    """[b, n]; None for rows without targets."""
    averages: dict[str, np.ndarray]
    """Field of PredictiveSummary -> [b, n]."""
    functions: np.ndarray
    """[b, n, k], k = 1 for regression."""
    probabilities: np.ndarray | None = None
    """[b, n, k] float64, for classification."""
    log_noise: np.ndarray | None = None
    """[b, n] log sigma, for regression."""


def regression_terms(prediction: Predictive, y: np.ndarray | None, rows: int) -> Terms:
    """Terms of N(mean, scale^2) in float64: mu, mu^2, sigma^2; with targets log density and Phi((y - mu) / sigma)."""
    functions = np.asarray(prediction.mean)
    mean, scale = functions.astype(np.float64), np.array(prediction.scale, dtype=np.float64)
    for name, array in (("mean", mean), ("scale", scale)):
        if array.ndim != 2 or array.shape[1] != rows:
            raise PredictionError(f"predict returned {name} of shape {array.shape}; expected [draws, {rows}]")
    valid = np.asarray((np.isfinite(mean) & np.isfinite(scale) & (scale > 0)).all(axis=1))
    mean[~valid], scale[~valid] = 0.0, 1.0
    log_density = None
    with np.errstate(over="ignore"):  # a square too large for float64 is a density of 0
        averages = {"mean": mean, "second_moment": mean**2, "noise_variance": scale**2}
        if y is not None:
            z = (y - mean) / scale
            log_density = -0.5 * (LOG_2PI + z**2) - np.log(scale)
            averages["pit"] = ndtr(z)
    return Terms(valid, log_density, averages, functions[..., None], log_noise=np.log(scale).astype(functions.dtype))


def classification_terms(prediction: Predictive, y: np.ndarray | None, rows: int) -> Terms:
    """Terms of a categorical distribution: all probabilities, and the log probability of the label, in float64."""
    log_probs = np.asarray(prediction.log_probs)
    if log_probs.ndim != 3 or log_probs.shape[1] != rows:
        raise PredictionError(f"predict returned log_probs of shape {log_probs.shape}; expected [draws, {rows}, k]")
    if y is not None and y.max() >= log_probs.shape[2]:
        raise PredictionError(f"label {y.max()} has no probability: predict returned {log_probs.shape[2]} classes")
    # A NaN fails this comparison too; -inf is a probability of 0.
    valid = np.asarray((log_probs < np.inf).all(axis=(1, 2)))
    log_probs = np.where(valid[:, None, None], log_probs, 0.0)
    probabilities = np.exp(log_probs, dtype=np.float64)
    total = probabilities[valid].sum(axis=2)
    if total.size and np.abs(total - 1).max() > 1e-3:
        raise PredictionError("log_probs are not normalised: probabilities of a row do not add up to 1 within 0.001")
    density = None
    if y is not None:
        density = np.take_along_axis(log_probs, y[None, :, None], axis=2)[..., 0].astype(np.float64)
    return Terms(valid, density, {}, probabilities.astype(log_probs.dtype), probabilities)
