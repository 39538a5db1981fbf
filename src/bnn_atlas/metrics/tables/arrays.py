"""The files of arrays that figures read: functions of single draws, and densities on planes of parameter space."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from bnn_atlas.files import load_arrays, save_arrays


class FunctionsError(ValueError):
    """Raised for function draws that cannot be made or read."""


class FunctionDraws(NamedTuple):
    """Functions of c chains with s draws each at n inputs, with targets in standardised units.

    A draw with a non-finite parameter or prediction is NaN at all inputs and marked in `divergent`.
    """

    x: np.ndarray
    """[n, d] float64 inputs in standardised units ([n, ...] for rows of other shapes)."""
    chains: np.ndarray
    """[c] indices of the chains."""
    draws: np.ndarray
    """[s] indices of the draws, the same for every chain."""
    divergent: np.ndarray
    """[c, s] bool: draws to leave out."""
    mean: np.ndarray | None = None
    """[c, s, n] float32, regression: mean function."""
    scale: np.ndarray | None = None
    """[c, s, n] float32, regression: standard deviation of the noise."""
    probabilities: np.ndarray | None = None
    """[c, s, n, k] float32, classification."""
    y: np.ndarray | None = None
    """[n] targets of test rows; None on a line."""
    train_x: np.ndarray | None = None
    """[m, d] standardised inputs of the rows that the posterior conditions on; None for images and sequences."""
    train_y: np.ndarray | None = None
    """[m] targets of the rows in `train_x`."""

    @property
    def task(self) -> str:
        """`regression` or `classification`."""
        return "regression" if self.probabilities is None else "classification"


_REQUIRED = set(FunctionDraws._fields) - set(FunctionDraws._field_defaults)


def save_functions(path: str | Path, functions: FunctionDraws) -> None:
    """Write function draws as .npz."""
    save_arrays(path, functions._asdict())


def load_functions(path: str | Path) -> FunctionDraws:
    """Read what `save_functions` wrote; FunctionsError names the file and the arrays that are missing or unknown."""
    arrays = load_arrays(path, _REQUIRED, FunctionsError, "function draws", FunctionDraws._field_defaults)
    if ("probabilities" in arrays) == ("mean" in arrays and "scale" in arrays):
        raise FunctionsError(
            f"{path}: function draws have either mean and scale, or probabilities; delete it and make it again"
        )
    return FunctionDraws(**arrays)


class SurfaceError(ValueError):
    """Raised for surfaces that cannot be made or read."""


class Surfaces(NamedTuple):
    """Densities in nats, not tempered, on p planes with n x n points; coordinates are distances in parameter space."""

    titles: np.ndarray
    """[p] title of each plane."""
    x: np.ndarray
    """[p, n] coordinates along the line through the first two points, measured from the first point."""
    y: np.ndarray
    """[p, n] distances from that line."""
    log_likelihood: np.ndarray
    """[p, n, n] float64, indexed by plane, y and x."""
    log_prior: np.ndarray
    """[p, n, n] float64."""
    labels: np.ndarray
    """[p, 3] names of the three points."""
    points: np.ndarray
    """[p, 3, 2] coordinates of the three points."""
    point_log_likelihood: np.ndarray
    """[p, 3] float64."""
    point_log_prior: np.ndarray
    """[p, 3] float64."""
    temperature: np.ndarray
    """[] T: the posterior's log density is (log-likelihood + log-prior) / T up to a constant."""


def save_surfaces(path: str | Path, surfaces: Surfaces) -> None:
    """Write surfaces as .npz."""
    save_arrays(path, surfaces._asdict())


def load_surfaces(path: str | Path) -> Surfaces:
    """Read what `save_surfaces` wrote; SurfaceError names the file and the arrays that are missing or unknown."""
    return Surfaces(**load_arrays(path, Surfaces._fields, SurfaceError, "surfaces"))
