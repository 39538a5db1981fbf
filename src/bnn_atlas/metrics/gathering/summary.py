"""Predictions of a pool of draws, averaged over draws or over chains, and their file."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bnn_atlas.config.language.base import plural
from bnn_atlas.files import load_arrays, save_arrays
from bnn_atlas.metrics.tables.measurement import PredictionError


class PredictiveSummary(NamedTuple):
    """Predictions of C chains of S draws at n rows, averaged over draws or over chains.

    A chain is divergent if any of its draws has a non-finite parameter, prediction or density. Its values are NaN, and
    averages over chains leave it out. A log density of -inf is a value like any other.
    """

    draws: int
    divergent: np.ndarray
    """[C] bool: chains that are left out."""
    stuck: np.ndarray
    """[C] bool: chains that never moved; they are left out too."""
    running_draws: np.ndarray
    """[g] numbers of draws."""
    function_draws: np.ndarray
    """[C, S, q] mean function (regression) or class probabilities at chosen rows."""
    function_rows: np.ndarray
    """[q] row of each of the q quantities."""
    function_classes: np.ndarray
    """[q] class of each of the q quantities; -1 for regression."""
    log_density_by_chain: np.ndarray | None = None
    """[C, n] log of the mean density over the draws of a chain; None, like the next two, for rows without targets."""
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
    """[B] draws up to the end of each batch."""
    log_noise_draws: np.ndarray | None = None
    """[C, S, r] regression: log sigma of every draw at chosen rows; one row if it is the same at all rows."""
    mixture_mean: np.ndarray | None = None
    """[C, m, n] regression: mean function at all rows of m evenly spread draws; None for rows without targets."""
    mixture_log_noise: np.ndarray | None = None
    """[C, m, n] regression: log sigma of these draws at all rows."""

    def __repr__(self) -> str:
        """Task, chains, draws, and the arrays that there are."""
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
    """A field of a summary that exists if its rows have targets; PredictionError if they have none."""
    if array is None:
        raise PredictionError("these predictions were made without targets; use the predictions of the test rows")
    return array


def running_counts(total: int, points: int) -> np.ndarray:
    """Up to `points` numbers of draws from 1 to `total`, evenly spaced on a log scale; all numbers if they fit."""
    if total <= points:
        return np.arange(1, total + 1)
    return np.unique(np.geomspace(1, total, points).round().astype(np.int64))


def save(path: str | Path, summary: PredictiveSummary) -> None:
    """Write a summary as .npz."""
    save_arrays(path, summary._asdict())


def load(path: str | Path) -> PredictiveSummary:
    """Read what `save` wrote; PredictionError if the file is damaged or is something else."""
    optional = PredictiveSummary._field_defaults
    required = set(PredictiveSummary._fields) - optional.keys()
    arrays = load_arrays(path, required, PredictionError, "a predictive summary", optional)
    values: dict[str, Any] = {**arrays, "draws": int(arrays["draws"])}
    return PredictiveSummary(**values)
