"""A prepared data set: one array of rows, with names."""

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bnn_atlas.data import DataError
from bnn_atlas.files import load_arrays, save_arrays

ROWS = {"table": ("<f8", 1), "image": ("|u1", 3), "tokens": ("<i4", 1)}
"""Kind -> type of `x`, and number of axes of a row."""


class Dataset(NamedTuple):
    """Inputs and targets of `n` rows in original units."""

    x: np.ndarray
    """[n, *shape]: tables [n, d] float64; images [n, height, width, channels] uint8, 0 to 255, with 1 or 3 channels;
    sequences [n, length] int32 token ids."""
    y: np.ndarray
    """[n] float64 for regression, [n] int64 class numbers for classification."""
    feature_names: tuple[str, ...]
    """Empty for images and sequences."""
    target_name: str
    task: str
    """`regression` or `classification`."""
    classes: tuple[str, ...]
    """Name of each class number; empty for regression."""
    kind: str = "table"
    """`table`, `image` or `tokens`."""
    published_train: int | None = None
    """Rows [0, published_train) are the publisher's training rows and the other rows the publisher's test rows, both in
    the publisher's order; None if there is no published split."""
    vocabulary: int = 0
    """Sequences: number of token ids, 0 to vocabulary - 1."""
    published_scaling: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    """Images: mean and scale per channel that a paper used on pixels / 255."""
    pixel_divisor: float = 1.0
    """Images: divisor of the pixels before scaling."""


def fingerprint(dataset: Dataset) -> str:
    """SHA-256 of the numbers and their shape; the same on every machine."""
    digest = hashlib.sha256(repr(dataset.x.shape).encode())
    target = "<i8" if dataset.task == "classification" else "<f8"
    for values, kind in ((dataset.x, ROWS[dataset.kind][0]), (dataset.y, target)):
        digest.update(np.ascontiguousarray(values, dtype=kind).data)
    return digest.hexdigest()


def check(dataset: Dataset, place: str) -> None:
    """Raise DataError for rows that do not match their kind, labels of unknown classes, and unknown tokens.

    The message starts with `place` and names the first wrong row.
    """
    if dataset.kind not in ROWS:
        raise DataError(f"{place}: no such kind of data '{dataset.kind}'; use one of {', '.join(ROWS)}")
    dtype, axes = ROWS[dataset.kind]
    x, y = dataset.x, dataset.y
    if x.ndim != axes + 1 or x.dtype != np.dtype(dtype) or y.shape != x.shape[:1]:
        raise DataError(
            f"{place}: data of kind '{dataset.kind}' must be {np.dtype(dtype)} with {axes + 1} axes and one target per "
            f"row; found {x.dtype} {x.shape} and targets {y.shape}"
        )
    if dataset.task == "classification":
        check_labels(y, len(dataset.classes), place)
    if dataset.kind == "image" and x.shape[-1] not in (1, 3):
        raise DataError(f"{place}: images have 1 or 3 channels, these have {x.shape[-1]}")
    if dataset.kind == "tokens" and x.size and (x.min() < 0 or x.max() >= dataset.vocabulary):
        row, column = np.argwhere((x < 0) | (x >= dataset.vocabulary))[0]
        raise DataError(
            f"{place}: row {row}, position {column}: token {x[row, column]} is not in the vocabulary of "
            f"{dataset.vocabulary} ids (0 to {dataset.vocabulary - 1}); correct `vocabulary` or the tokens"
        )
    if dataset.published_train is not None and not 0 <= dataset.published_train <= len(x):
        raise DataError(f"{place}: {dataset.published_train} published training rows, but only {len(x)} rows")


def check_labels(labels: np.ndarray, classes: int, place: str) -> None:
    """Raise DataError for class numbers that are not whole or not in 0 .. classes - 1."""
    if labels.dtype.kind not in "iu":
        raise DataError(f"{place}: labels must be whole numbers; these are {labels.dtype}")
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(wrong):
        raise DataError(
            f"{place}: row {wrong[0]}: label {labels[wrong[0]]}; {classes} classes are registered (0 to {classes - 1})"
        )


def save(path: str | Path, dataset: Dataset) -> None:
    """Write a data set as .npz; equal data sets give equal bytes.

    Raises DataError, and writes nothing, if rows, labels or tokens contradict the data set's own description.
    """
    check(dataset, str(path))
    arrays: dict[str, Any] = {
        "x": dataset.x,
        "y": dataset.y,
        "feature_names": np.array(dataset.feature_names, dtype=np.str_),
        "target_name": np.array(dataset.target_name),
        "task": np.array(dataset.task),
        "classes": np.array(dataset.classes, dtype=np.str_),
        "kind": np.array(dataset.kind),
        "vocabulary": np.int64(dataset.vocabulary),
    }
    if dataset.published_train is not None:
        arrays["published_train"] = np.int64(dataset.published_train)
    if dataset.published_scaling is not None:
        arrays["published_scaling"] = np.array(dataset.published_scaling, dtype=np.float64)
    if dataset.pixel_divisor != 1:
        arrays["pixel_divisor"] = np.float64(dataset.pixel_divisor)
    save_arrays(path, arrays)


def load(path: str | Path) -> Dataset:
    """The inverse of `save`; DataError for a file that is not a prepared data set."""
    required = ("x", "y", "feature_names", "target_name", "task", "classes", "kind", "vocabulary")
    optional = ("published_train", "published_scaling", "pixel_divisor")
    arrays = load_arrays(path, required, DataError, "a prepared data set", optional)
    return Dataset(
        x=arrays["x"],
        y=arrays["y"],
        feature_names=tuple(map(str, arrays["feature_names"])),
        target_name=str(arrays["target_name"]),
        task=str(arrays["task"]),
        classes=tuple(map(str, arrays["classes"])),
        kind=str(arrays["kind"]),
        published_train=int(arrays["published_train"]) if "published_train" in arrays else None,
        vocabulary=int(arrays["vocabulary"]),
        published_scaling=_constants(arrays["published_scaling"]) if "published_scaling" in arrays else None,
        pixel_divisor=float(arrays["pixel_divisor"]) if "pixel_divisor" in arrays else 1.0,
    )


def _constants(values: np.ndarray) -> tuple[tuple[float, ...], tuple[float, ...]]:
    mean, scale = values.tolist()
    return tuple(mean), tuple(scale)
