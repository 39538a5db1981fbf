"""The file of function draws: predictive functions of single draws, evaluated at some inputs."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from bnn_atlas.files import load_arrays, save_arrays


class FunctionsError(ValueError):
    """Function draws that cannot be made or read."""


class FunctionDraws(NamedTuple):
    """Functions of c chains with s draws each at n inputs; targets in standardised units.

    A draw with a non-finite parameter or prediction is NaN at all inputs and marked in `divergent`.
    """

    x: np.ndarray
    """[n, d] float64 inputs in standardised units ([n, ...] for rows of other shapes)."""
    chains: np.ndarray
    """[c] numbers of the chains."""
    draws: np.ndarray
    """[s] numbers of the draws, the same for every chain."""
    divergent: np.ndarray
    """[c, s] bool: draws that are left out."""
    mean: np.ndarray | None = None
    """[c, s, n] float32, regression: mean function."""
    scale: np.ndarray | None = None
    """[c, s, n] float32, regression: standard deviation of the noise."""
    probabilities: np.ndarray | None = None
    """[c, s, n, k] float32, classification."""
    y: np.ndarray | None = None
    """[n] targets of test rows; None on a line."""
    train_x: np.ndarray | None = None
    """[m, d] inputs of the rows that the posterior conditions on, standardised; None for images and sequences."""
    train_y: np.ndarray | None = None
    """[m] their targets."""

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
            f"{path}: not function draws (needed are mean and scale, or probabilities); delete it and make it again"
        )
    return FunctionDraws(**arrays)
