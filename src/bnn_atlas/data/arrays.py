"""From raw files of images or sequences to one data set."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bnn_atlas.config.data.datasets import DatasetEntry, KerasReader, Reader
from bnn_atlas.data.checksum import verify
from bnn_atlas.data.dataset import Dataset, check_labels
from bnn_atlas.data.errors import DataError
from bnn_atlas.data.readers import keras_imdb
from bnn_atlas.data.readers.images import Rows, read_images


class _Part(NamedTuple):
    """The arrays read so far for one part."""

    x: list[np.ndarray]
    y: list[np.ndarray]
    counts: list[np.ndarray]


def join_rows(name: str, entry: DatasetEntry, paths: Sequence[str | Path]) -> Dataset:
    """The data set of kind `image` or `tokens`: training rows, then test rows, each in the order of the files.

    Images that are sorted by class in their file are put into the order of the label file: the j-th label of class c
    gets the j-th image of class c.
    Raises DataError, with the file's name, for rows of another shape, labels without a class, and parts that differ in
    size from the registered ones.
    """
    parts = {"train": _Part([], [], []), "test": _Part([], [], [])}
    for path, file in zip(map(Path, paths), entry.files, strict=True):
        for part, rows in _read(path, verify(path, file).read, entry).items():
            place = f"{name}: {path}"
            into = parts[part or file.part or "train"]
            if rows.x is not None:
                if rows.x.shape[1:] != entry.shape:
                    raise DataError(
                        f"{place}: a row has shape {_sizes(rows.x.shape[1:])}, but {_sizes(entry.shape)} is registered "
                        "in config/datasets.yaml. Delete the raw file and download it again, or correct the entry"
                    )
                into.x.append(rows.x)
            if rows.y is not None:
                check_labels(rows.y, len(entry.classes), place)
                into.y.append(rows.y.astype(np.int64))
            if rows.counts is not None:
                into.counts.append(rows.counts)
    expected = {"train": entry.published_train or 0, "test": entry.published_test}
    joined = [_joined(name, part, parts[part], expected[part], entry) for part in parts]
    constants = entry.published_scaling
    return Dataset(
        x=np.concatenate([x for x, _ in joined]),
        y=np.concatenate([y for _, y in joined]),
        feature_names=(),
        target_name=entry.target,
        task=entry.task,
        classes=entry.classes,
        kind=entry.kind,
        published_train=entry.published_train,
        vocabulary=entry.vocabulary,
        published_scaling=None if constants is None else (constants.mean, constants.scale),
        pixel_divisor=entry.pixel_divisor or 1.0,
    )


def _read(path: Path, reader: Reader, entry: DatasetEntry) -> dict[str, Rows]:
    if isinstance(reader, KerasReader):
        sequences = keras_imdb.read(path, reader.format)
        return keras_imdb.token_rows(sequences, reader, entry.vocabulary, entry.shape[0])
    return read_images(path, reader, entry.classes)


def _joined(name: str, part: str, rows: _Part, expected: int, entry: DatasetEntry) -> tuple[np.ndarray, np.ndarray]:
    """Images or tokens, and labels, of a part."""
    dtype = np.int32 if entry.kind == "tokens" else np.uint8
    x = np.concatenate(rows.x) if rows.x else np.empty((0, *entry.shape), dtype)
    y = np.concatenate(rows.y) if rows.y else np.empty(0, np.int64)
    if len(x) != expected or len(y) != expected:
        raise DataError(
            f"{name}: the files have {len(x)} {part} rows and {len(y)} labels, but {expected} are registered in "
            "config/datasets.yaml. Delete the raw files and download them again, or correct the entry"
        )
    if not rows.counts:
        return x, y
    counts = np.bincount(y, minlength=len(entry.classes))
    if (counts != np.sum(rows.counts, axis=0)).any():
        raise DataError(
            f"{name}: the {part} labels have {counts.tolist()} rows per class, the images "
            f"{np.sum(rows.counts, axis=0).tolist()}; labels and images do not belong together, correct the entry"
        )
    ordered = np.empty_like(x)
    ordered[np.argsort(y, kind="stable")] = x
    return ordered, y


def _sizes(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))
