"""Barriers of a score along the straight line between two networks, by three definitions from the literature."""

from typing import NamedTuple

import numpy as np


class Barriers(NamedTuple):
    """One curve's barriers, in the units of the score; larger is a higher barrier."""

    sup: float
    """max over the line of L(x) - [(1 - x) L(0) + x L(1)], at least 0 (Entezari et al. 2022, definition 1)."""
    midpoint: float
    """L(1/2) - [L(0) + L(1)] / 2, which can be negative (the code of Xiao et al. 2023 and of Entezari et al.)."""
    max: float
    """max over the line of L(x) - [L(0) + L(1)] / 2 (Frankle et al. 2020; the text of Xiao et al. 2023)."""


def barriers(points: np.ndarray, values: np.ndarray) -> Barriers:
    """Barriers of a score with values L [m] at points x [m] of the line, which rise from 0 to 1 and hold 1/2.

    A value that is not finite gives NaN. Raises ValueError for points without 0, 1/2 or 1.
    """
    x, score = np.asarray(points, np.float64), np.asarray(values, np.float64)
    middle = np.flatnonzero(np.isclose(x, 0.5))
    if x.shape != score.shape or len(x) < 3 or not middle.size or abs(x[0]) > 1e-9 or abs(x[-1] - 1) > 1e-9:
        raise ValueError(f"a barrier needs a value at each point from 0 to 1, 1/2 among them; points are {x.tolist()}")
    if not np.isfinite(score).all():
        return Barriers(np.nan, np.nan, np.nan)
    mean = (score[0] + score[-1]) / 2
    chord = (1 - x) * score[0] + x * score[-1]
    return Barriers(float((score - chord).max()), float(score[middle[0]] - mean), float(score.max() - mean))


def line(points: int) -> np.ndarray:
    """Evenly spaced points from 0 to 1."""
    return np.linspace(0.0, 1.0, points)


def jackknife_error(statistic: np.ndarray) -> float:
    """Standard error from the values [n] of a statistic with each of n observations left out in turn.

    sqrt((n - 1) / n sum_i (s_i - mean)^2), Efron and Tibshirani 1993, eq. 11.5.
    """
    left_out = np.asarray(statistic, np.float64)
    n = len(left_out)
    return float(np.sqrt((n - 1) / n * ((left_out - left_out.mean()) ** 2).sum()))
