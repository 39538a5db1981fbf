"""The functions that draws stand for, evaluated at some inputs, as one file."""

from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np

from bnn_atlas.files import atomic


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
    arrays = {name: value for name, value in functions._asdict().items() if value is not None}
    with atomic(path) as temporary, temporary.open("wb") as handle:
        np.savez(handle, **arrays)


def load_functions(path: str | Path) -> FunctionDraws:
    """Read what `save_functions` wrote; FunctionsError names the file and the arrays that are missing or unknown."""
    try:
        with Path(path).open("rb") as handle, np.load(handle, allow_pickle=False) as source:
            arrays = {name: source[name] for name in source.files}
    except (ValueError, EOFError, BadZipFile) as error:
        raise FunctionsError(f"{path}: not an .npz file ({error}); delete it and run its rule again") from None
    missing, unknown = _REQUIRED - set(arrays), set(arrays) - set(FunctionDraws._fields)
    if missing or unknown or ("probabilities" in arrays) == ("mean" in arrays and "scale" in arrays):
        raise FunctionsError(
            f"{path}: no function draws (missing: {', '.join(sorted(missing)) or 'none'}; "
            f"unknown: {', '.join(sorted(unknown)) or 'none'}; needed are mean and scale, or probabilities)"
        )
    return FunctionDraws(**arrays)
