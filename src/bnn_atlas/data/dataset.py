"""A prepared data set: one table of numbers with names."""

import hashlib
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np

from bnn_atlas.data.errors import DataError
from bnn_atlas.files import atomic


class Dataset(NamedTuple):
    """Inputs and targets of `n` rows in original units."""

    x: np.ndarray
    """[n, d] float64."""
    y: np.ndarray
    """[n] float64 for regression, [n] int64 class numbers for classification."""
    feature_names: tuple[str, ...]
    target_name: str
    task: str
    """`regression` or `classification`."""
    classes: tuple[str, ...]
    """Name of each class number; empty for regression."""


def fingerprint(dataset: Dataset) -> str:
    """SHA-256 of the numbers and their shape; equal for equal tables on any machine."""
    digest = hashlib.sha256(repr(dataset.x.shape).encode())
    for values, kind in ((dataset.x, "<f8"), (dataset.y, "<i8" if dataset.task == "classification" else "<f8")):
        digest.update(np.ascontiguousarray(values, dtype=kind).data)
    return digest.hexdigest()


def save(path: str | Path, dataset: Dataset) -> None:
    """Write a data set as .npz; equal data sets give equal bytes."""
    with atomic(path) as temporary, temporary.open("wb") as handle:
        np.savez(
            handle,
            x=dataset.x,
            y=dataset.y,
            feature_names=np.array(dataset.feature_names, dtype=np.str_),
            target_name=np.array(dataset.target_name),
            task=np.array(dataset.task),
            classes=np.array(dataset.classes, dtype=np.str_),
        )


def load(path: str | Path) -> Dataset:
    """The inverse of `save`; DataError names a file that is not a prepared data set."""
    try:
        with Path(path).open("rb") as handle, np.load(handle, allow_pickle=False) as arrays:
            return Dataset(
                x=arrays["x"],
                y=arrays["y"],
                feature_names=tuple(map(str, arrays["feature_names"])),
                target_name=str(arrays["target_name"]),
                task=str(arrays["task"]),
                classes=tuple(map(str, arrays["classes"])),
            )
    except (KeyError, ValueError, BadZipFile, EOFError) as error:
        raise DataError(f"{path}: not a prepared data set ({error}); delete it and prepare it again") from error
