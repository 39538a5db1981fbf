"""Published predictive probabilities for the test rows of a registered data set."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bnn_atlas.config.data.datasets import DatasetEntry
from bnn_atlas.data import DataError
from bnn_atlas.data.orders import tfds_order
from bnn_atlas.files import load_arrays, save_arrays

TOLERANCE = 1e-4
"""Largest allowed difference between 1 and the sum of a row."""


class Predictions(NamedTuple):
    """Class probabilities of each published test row."""

    probabilities: np.ndarray
    """[n, k] float32; row i belongs to the i-th published test row in the data set's own file."""
    of: str
    """Name of the data set."""
    classes: tuple[str, ...]


def prepare_predictions(name: str, entry: DatasetEntry, raw_paths: Sequence[str | Path]) -> Predictions:
    """Read published predictions and put them into the order of the data set's file.

    Raises DataError, with file and line, for a row that is not a distribution over the classes, and if the number of
    rows differs from the registered number.
    """
    from bnn_atlas.data.download import verify  # takes long to import

    if entry.kind != "predictions" or entry.of is None:
        raise DataError(f"{name}: registered as data of kind '{entry.kind}', not as predictions")
    if len(raw_paths) != len(entry.files):
        raise DataError(f"{name}: needs {len(entry.files)} raw files, got {len(raw_paths)}")
    tables = []
    for path, file in zip(raw_paths, entry.files, strict=True):
        verify(path, file)
        tables.append(read_probabilities(path, len(entry.classes)))
    values = np.concatenate(tables)
    if len(values) != entry.rows:
        raise DataError(f"{name}: {len(values)} rows of probabilities, but {entry.rows} are registered")
    if entry.order == "tfds":
        values[tfds_order("test", len(values))] = values.copy()
    return Predictions(values, entry.of, entry.classes)


def read_probabilities(path: str | Path, classes: int) -> np.ndarray:
    """[n, classes] float32, one row per line, separated by blanks; DataError names the first wrong line."""
    rows = []
    for number, line in enumerate(Path(path).read_bytes().splitlines(), start=1):
        try:
            row = [float(cell) for cell in line.split()]
        except ValueError as error:
            raise DataError(f"{path}: line {number}: {error}; download the file again") from error
        if len(row) != classes:
            raise DataError(f"{path}: line {number} has {len(row)} values; {classes} classes are registered")
        # A NaN fails both comparisons.
        if not (abs(sum(row) - 1) <= TOLERANCE and min(row) >= 0):
            raise DataError(
                f"{path}: line {number}: probabilities must be at least 0 and sum to 1; these sum to {sum(row):.6g}, "
                f"the smallest is {min(row):.6g}. Download the file again, or turn logits into probabilities"
            )
        rows.append(row)
    return np.array(rows, dtype=np.float32).reshape(-1, classes)


def save_predictions(path: str | Path, predictions: Predictions) -> None:
    """Write predictions as .npz; equal predictions give equal bytes."""
    classes = np.array(predictions.classes, dtype=np.str_)
    save_arrays(path, {"probabilities": predictions.probabilities, "of": predictions.of, "classes": classes})


def load_predictions(path: str | Path) -> Predictions:
    """The inverse of `save_predictions`; DataError for any other file."""
    arrays = load_arrays(path, Predictions._fields, DataError, "prepared predictions")
    return Predictions(arrays["probabilities"], str(arrays["of"]), tuple(map(str, arrays["classes"])))
