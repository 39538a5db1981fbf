"""Checked class probabilities, and a named score of them."""

from typing import NamedTuple

import numpy as np

from bnn_atlas.metrics.predictive import PredictionError
from bnn_atlas.metrics.scores import error_of_mean

TOLERANCE = 1e-3
"""How far the probabilities of a row may add up from 1; float16 needs it."""


class Score(NamedTuple):
    """One value for the table of metrics."""

    name: str
    value: float
    standard_error: float | None = None
    note: str = ""


def mean_score(name: str, values: np.ndarray, note: str = "") -> Score:
    """The mean of one value per row, with the standard error sd / sqrt(n) of independent rows."""
    return Score(name, float(values.mean()), error_of_mean(values), note)


def as_probabilities(probabilities: np.ndarray, name: str = "probabilities") -> np.ndarray:
    """Class probabilities [n, k] as float64.

    Raises PredictionError for another shape, no rows, fewer than two classes, a type that is not floating, and for
    the first row that has a NaN or a negative value or does not add up to 1 within 0.001.
    """
    array = np.asarray(probabilities)
    if array.ndim != 2 or array.shape[0] == 0 or array.shape[1] < 2:
        raise PredictionError(f"{name} have shape {list(array.shape)}; expected [rows, classes], at least [1, 2]")
    if not np.issubdtype(array.dtype, np.floating):
        raise PredictionError(f"{name} are {array.dtype}; expected a floating type")
    array = array.astype(np.float64, copy=False)
    total = array.sum(axis=1)
    # A NaN fails both comparisons, an infinity the first.
    valid = (np.abs(total - 1) <= TOLERANCE) & (array.min(axis=1) >= 0)
    if not valid.all():
        row = int(valid.argmin())
        raise PredictionError(
            f"{name} of row {row} add up to {total[row]:g}, the smallest is {array[row].min():g}; a row has to be "
            f"finite, not negative and add up to 1 within {TOLERANCE:g} ({int((~valid).sum())} of {len(valid)} rows "
            "do not): give probabilities, not logits or their logarithms"
        )
    return array


def as_labelled(probabilities: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Checked probabilities [n, k] as float64 and class numbers [n] as int64; PredictionError where they do not fit."""
    p, y = as_probabilities(probabilities), np.asarray(labels)
    if y.shape != p.shape[:1]:
        raise PredictionError(f"labels have shape {list(y.shape)} for {len(p)} rows of probabilities; expected [n]")
    if not np.issubdtype(y.dtype, np.integer):
        raise PredictionError(f"labels are {y.dtype}; expected whole class numbers")
    wrong = (y < 0) | (y >= p.shape[1])
    if wrong.any():
        row = int(wrong.argmax())
        raise PredictionError(f"label {y[row]} of row {row} has no probability: classes are 0 to {p.shape[1] - 1}")
    return p, y.astype(np.int64, copy=False)


def as_pair(p: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two checked sets of probabilities of the same rows; PredictionError where their shapes differ."""
    if np.shape(p) != np.shape(q):
        raise PredictionError(
            f"probabilities of shape {list(np.shape(p))} and {list(np.shape(q))} cannot be compared; "
            "both need the same rows in the same order and the same classes"
        )
    return as_probabilities(p, "first probabilities"), as_probabilities(q, "second probabilities")
