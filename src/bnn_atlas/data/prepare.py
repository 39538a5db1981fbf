"""From raw files to a prepared data set."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bnn_atlas.config.data.datasets import DatasetEntry, TableReader
from bnn_atlas.data.arrays import join_rows
from bnn_atlas.data.checksum import verify
from bnn_atlas.data.dataset import Dataset, check, save
from bnn_atlas.data.errors import DataError
from bnn_atlas.data.generators import generate
from bnn_atlas.data.published_predictions import prepare_predictions, save_predictions
from bnn_atlas.data.readers.tabular import Table, read_table


def prepare_file(name: str, entry: DatasetEntry, raw_paths: Sequence[str | Path], destination: str | Path) -> None:
    """Prepare a data set, or published predictions, and write it; nothing is written if anything is wrong."""
    if entry.kind == "predictions":
        save_predictions(destination, prepare_predictions(name, entry, raw_paths))
    else:
        save(destination, prepare(name, entry, raw_paths))


def prepare(name: str, entry: DatasetEntry, raw_paths: Sequence[str | Path] = ()) -> Dataset:
    """The data set `name` in original units.

    `raw_paths` are the downloaded files in the order of `entry.files`. Their rows are joined in that order; for images
    and sequences (`bnn_atlas.data.arrays`) training rows come before test rows.
    The columns of tables keep the file's order. A text column is replaced by one column of 0 and 1 per word, named
    `column=word`, with words sorted. Class labels become their index in `entry.classes`.

    Raises DataError for a file that is not the registered one or cannot be read, for a shape other than the registered
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
        dataset = join_rows(name, entry, raw_paths)
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
    return _dataset(name, entry, _joined(tables))


def _joined(tables: Sequence[Table]) -> Table:
    """Rows of all tables, one after another, in the first table's order of columns."""
    first = tables[0]
    return Table(
        {name: np.concatenate([table.numbers[name] for table in tables]) for name in first.numbers},
        {name: np.concatenate([table.words[name] for table in tables]) for name in first.words},
        first.order,
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
