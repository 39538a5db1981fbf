"""From raw files to a prepared data set."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bnn_atlas.config.data.datasets import DatasetEntry, KerasReader, Reader, TableReader
from bnn_atlas.config.data.own_table import remarks
from bnn_atlas.data import DataError
from bnn_atlas.data.dataset import Dataset, check, check_labels, save
from bnn_atlas.data.download import verify
from bnn_atlas.data.published_predictions import prepare_predictions, save_predictions
from bnn_atlas.data.readers import keras_imdb
from bnn_atlas.data.readers.images import Rows, read_images
from bnn_atlas.data.readers.tabular import Table, read_table
from bnn_atlas.data.synthetic_rows import generate

LOG = logging.getLogger(__name__)


def prepare_file(name: str, entry: DatasetEntry, raw_paths: Sequence[str | Path], destination: str | Path) -> None:
    """Prepare a data set, or published predictions, and write the result; nothing is written if anything is wrong."""
    if entry.kind == "predictions":
        save_predictions(destination, prepare_predictions(name, entry, raw_paths))
    else:
        save(destination, prepare(name, entry, raw_paths))


def prepare(name: str, entry: DatasetEntry, raw_paths: Sequence[str | Path] = ()) -> Dataset:
    """The data set `name` in original units.

    `raw_paths` are the downloaded files in the order of `entry.files`. Rows are joined in this order; for images and
    sequences, training rows come before test rows.
    The columns of tables keep the file's order. A text column is replaced by one column of 0 and 1 per word, named
    `column=word`, with words sorted. Class labels become their index in `entry.classes`.

    Raises DataError for a file that is not the registered file or cannot be read, for a shape other than the registered
    `rows` x `inputs`, and for labels or tokens that are not registered.
    """
    if entry.of is not None:
        raise DataError(f"{name}: published {entry.kind} for '{entry.of}', not a data set")
    if len(raw_paths) != len(entry.files):
        expected = ", ".join(file.name for file in entry.files)
        raise DataError(f"{name}: needs {len(entry.files)} raw files ({expected or 'none'}), got {len(raw_paths)}")
    if entry.bundled is not None:
        dataset = _bundled(entry)
    elif entry.generate is not None:
        dataset = _generated(entry)
    elif entry.kind == "table":
        dataset = _from_tables(name, entry, raw_paths)
    else:
        dataset = _from_arrays(name, entry, raw_paths)
    without = f"scikit-learn's '{entry.bundled}'" if entry.bundled else "the generator"
    files = ", ".join(map(str, raw_paths)) or without
    if dataset.x.shape != (entry.rows, *entry.shape):
        found = " x ".join(map(str, dataset.x.shape))
        registered = " x ".join(map(str, entry.shape))
        raise DataError(
            f"{name}: {files} gives {found} rows x inputs, but {entry.rows} x {registered} are registered in "
            "config/datasets.yaml. Delete the raw files and download them again, or correct the entry"
        )
    check(dataset, f"{name}: {files}")
    return dataset


def _from_tables(name: str, entry: DatasetEntry, raw_paths: Sequence[str | Path]) -> Dataset:
    tables = []
    for path, file in zip(raw_paths, entry.files, strict=True):
        reader = verify(path, file).read
        assert isinstance(reader, TableReader)
        tables.append(read_table(path, reader))
    table = _joined(tables)
    rows = len(next(iter((table.numbers | table.words).values())))
    numbers: dict[str, list[float]] = {key: values.tolist() for key, values in table.numbers.items()}
    words = {key: list(map(str, cells)) for key, cells in table.words.items()}
    for remark in remarks(numbers, words, entry.target, rows, table.left_out):
        LOG.warning("%s: %s", name, remark)
    return _dataset(name, entry, table)


def _joined(tables: Sequence[Table]) -> Table:
    """The rows of all tables, in the order of the tables, with the columns in the first table's order."""
    first = tables[0]
    return Table(
        {name: np.concatenate([table.numbers[name] for table in tables]) for name in first.numbers},
        {name: np.concatenate([table.words[name] for table in tables]) for name in first.words},
        first.order,
        sum(table.left_out for table in tables),
    )


def _dataset(name: str, entry: DatasetEntry, table: Table) -> Dataset:
    names: list[str] = []
    columns: list[np.ndarray] = []
    for column in table.order:
        if column == entry.target:
            continue
        if column in table.numbers:
            names.append(column)
            columns.append(table.numbers[column])
            continue
        for word in np.unique(table.words[column]):
            names.append(f"{column}={word}")
            columns.append((table.words[column] == word).astype(np.float64))
    x, y = np.column_stack(columns), _target(name, entry, table)
    return Dataset(x, y, tuple(names), entry.target, entry.task, entry.classes, published_train=entry.published_train)


def _target(name: str, entry: DatasetEntry, table: Table) -> np.ndarray:
    if entry.task == "regression":
        return table.numbers[entry.target]
    labels = table.words[entry.target]
    unknown = sorted(set(labels.tolist()) - set(entry.classes))
    if unknown:
        raise DataError(
            f"{name}: column '{entry.target}' holds {', '.join(map(repr, unknown))}, but "
            f"the registered classes are {', '.join(map(repr, entry.classes))}; correct `classes`"
        )
    numbers = {label: i for i, label in enumerate(entry.classes)}
    return np.array([numbers[label] for label in labels.tolist()], dtype=np.int64)


def _bundled(entry: DatasetEntry) -> Dataset:
    """A data set that comes with scikit-learn."""
    from sklearn.datasets import load_diabetes, load_digits

    data = load_diabetes(scaled=False) if entry.bundled == "diabetes" else load_digits()
    classification = entry.task == "classification"
    dataset = Dataset(
        x=np.asarray(data.data, dtype=np.float64),
        y=np.asarray(data.target, dtype=np.int64 if classification else np.float64),
        feature_names=tuple(map(str, data.feature_names)),
        target_name=entry.target,
        task=entry.task,
        classes=entry.classes,
        published_train=entry.published_train,
    )
    if entry.kind == "table":
        return dataset
    # Pixels are 0 to 16 in the file. In the full range of uint8, `pixel / 255` and corruptions mean the same as for
    # other images, and all levels stay distinct.
    pixels = np.rint(data.images * (255 / 16)).astype(np.uint8)[..., None]
    return dataset._replace(x=pixels, feature_names=(), kind="image")


def _generated(entry: DatasetEntry) -> Dataset:
    assert entry.generate is not None
    x, y = generate(entry.generate, entry.rows, entry.published_train)
    return Dataset(x, y, ("x",), entry.target, entry.task, (), published_train=entry.published_train)


class _Part(NamedTuple):
    """The arrays read so far for one part (training or test)."""

    x: list[np.ndarray]
    y: list[np.ndarray]
    counts: list[np.ndarray]


def _from_arrays(name: str, entry: DatasetEntry, paths: Sequence[str | Path]) -> Dataset:
    """The data set of kind `image` or `tokens`: training rows, then test rows, each in the order of the files.

    Images that are sorted by class in their file are put into the order of the label file: the j-th label of class c
    gets the j-th image of class c.
    Raises DataError, with the file's name, for rows of another shape, labels of unknown classes, and parts whose size
    differs from the registered size.
    """
    parts = {"train": _Part([], [], []), "test": _Part([], [], [])}
    for path, file in zip(map(Path, paths), entry.files, strict=True):
        for part, rows in _read_rows(path, verify(path, file).read, entry).items():
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
    joined = [_part(name, part, parts[part], expected[part], entry) for part in parts]
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


def _read_rows(path: Path, reader: Reader, entry: DatasetEntry) -> dict[str, Rows]:
    if isinstance(reader, KerasReader):
        sequences = keras_imdb.read(path, reader.format)
        return keras_imdb.token_rows(sequences, reader, entry.vocabulary, entry.shape[0])
    return read_images(path, reader, entry.classes)


def _part(name: str, part: str, rows: _Part, expected: int, entry: DatasetEntry) -> tuple[np.ndarray, np.ndarray]:
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
