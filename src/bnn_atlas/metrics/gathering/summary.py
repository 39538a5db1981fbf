"""Contributions of single draws to predictions, and averages over a pool of draws with their file."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from bnn_atlas.config.language.base import plural
from bnn_atlas.files import load_arrays, save_arrays
from bnn_atlas.metrics.tables.measurement import PredictionError
from bnn_atlas.posterior import Predictive

LOG_2PI = float(np.log(2 * np.pi))
REGRESSION_BYTES = 96
"""Bytes per draw and row while terms are computed."""
CLASS_BYTES = 40
"""Bytes per class probability while terms are computed."""


class Terms(NamedTuple):
    """The contribution of b draws at n rows."""

    valid: np.ndarray
    """[b] whether all values of the draw are finite (log densities may be -inf)."""
    log_density: np.ndarray | None
    """[b, n]; None for rows without targets."""
    averages: dict[str, np.ndarray]
    """Field of PredictiveSummary -> [b, n]."""
    functions: np.ndarray
    """[b, n, k] function values; k = 1 for regression."""
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
    with np.errstate(over="ignore"):  # a square too large for float64 means a density of 0
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


class PredictiveSummary(NamedTuple):
    """Predictions of C chains of S draws at n rows, averaged over draws or over chains.

    A chain is divergent if any of its draws has a non-finite parameter, prediction or density. Its values are NaN, and
    averages over chains leave it out. A log density of -inf counts as a valid value.
    """

    draws: int
    divergent: np.ndarray
    """[C] bool: chains that are left out, including the chains in `stuck`."""
    stuck: np.ndarray
    """[C] bool: chains that never moved."""
    running_draws: np.ndarray
    """[g] numbers of draws."""
    function_draws: np.ndarray
    """[C, S, q] mean function (regression) or class probabilities at chosen rows."""
    function_rows: np.ndarray
    """[q] row of each of the q quantities."""
    function_classes: np.ndarray
    """[q] class of each of the q quantities; -1 for regression."""
    log_density_by_chain: np.ndarray | None = None
    """[C, n] log of the mean density over the draws of a chain; None for rows without targets, like the next two
    fields."""
    log_density_by_draw: np.ndarray | None = None
    """[S, n] log of the mean density over the chains that are not divergent."""
    running_lppd: np.ndarray | None = None
    """[C, g] mean over rows of the log mean density over a chain's first draws."""
    mean: np.ndarray | None = None
    """[C, n] regression: mean over draws of the mean function mu."""
    second_moment: np.ndarray | None = None
    """[C, n] regression: mean over draws of mu^2."""
    noise_variance: np.ndarray | None = None
    """[C, n] regression: mean over draws of sigma^2."""
    pit: np.ndarray | None = None
    """[C, n] regression: mean over draws of Phi((y - mu) / sigma), the chain's predictive CDF at y."""
    probabilities_by_batch: np.ndarray | None = None
    """[C, B, n, k] classification: mean class probabilities over each of B batches of consecutive draws."""
    batch_stops: np.ndarray | None = None
    """[B] number of draws up to the end of each batch."""
    log_noise_draws: np.ndarray | None = None
    """[C, S, r] regression: log sigma of every draw at chosen rows; one row if the noise is the same at all rows."""
    mixture_mean: np.ndarray | None = None
    """[C, m, n] regression: mean function at all rows of m evenly spread draws; None for rows without targets."""
    mixture_log_noise: np.ndarray | None = None
    """[C, m, n] regression: log sigma of these draws at all rows."""

    def __repr__(self) -> str:
        """Task, chains, draws, and the arrays that are present."""
        found = ", ".join(name for name, value in self._asdict().items() if isinstance(value, np.ndarray))
        sizes = f"{plural(len(self.divergent), 'chain')} x {plural(self.draws, 'draw')}"
        return f"PredictiveSummary({self.task}, {sizes}: {found})"

    @property
    def task(self) -> str:
        """`regression` or `classification`."""
        return "regression" if self.probabilities_by_batch is None else "classification"

    @property
    def probabilities(self) -> np.ndarray:
        """[C, n, k] mean over all draws of the class probabilities, float64."""
        if self.probabilities_by_batch is None or self.batch_stops is None:
            raise PredictionError("a regression has no class probabilities")
        shares = np.diff(self.batch_stops, prepend=0) / self.draws
        return np.einsum("b,cbnk->cnk", shares, self.probabilities_by_batch, dtype=np.float64)

    @property
    def kept(self) -> np.ndarray:
        """Indices of the chains that are not divergent."""
        return np.flatnonzero(~self.divergent)


def with_targets(array: np.ndarray | None) -> np.ndarray:
    """A field of a summary that exists only for rows with targets; PredictionError if it is missing."""
    if array is None:
        raise PredictionError("these predictions were made without targets; use the predictions of the test rows")
    return array


def running_counts(total: int, points: int) -> np.ndarray:
    """Up to `points` numbers of draws from 1 to `total`, evenly spaced on a log scale; all if `total` <= `points`."""
    if total <= points:
        return np.arange(1, total + 1)
    return np.unique(np.geomspace(1, total, points).round().astype(np.int64))


def save(path: str | Path, summary: PredictiveSummary) -> None:
    """Write a summary as .npz."""
    save_arrays(path, summary._asdict())


def load(path: str | Path) -> PredictiveSummary:
    """Read what `save` wrote; PredictionError if the file is damaged or is not a summary."""
    optional = PredictiveSummary._field_defaults
    required = set(PredictiveSummary._fields) - optional.keys()
    arrays = load_arrays(path, required, PredictionError, "a predictive summary", optional)
    values: dict[str, Any] = {**arrays, "draws": int(arrays["draws"])}
    return PredictiveSummary(**values)
