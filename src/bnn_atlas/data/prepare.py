"""From raw files to one table of numbers."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bnn_atlas.config.datasets import DatasetEntry
from bnn_atlas.data.checksum import verify
from bnn_atlas.data.dataset import Dataset
from bnn_atlas.data.errors import DataError
from bnn_atlas.data.tables import Table, read_table


def prepare(name: str, entry: DatasetEntry, raw_paths: Sequence[str | Path] = ()) -> Dataset:
    """The data set `name` as a table of numbers in original units.

    `raw_paths` are the downloaded files in the order of `entry.files`; their rows are joined in that order. Columns
    keep the file's order; a text column becomes one column of 0 and 1 per word, `column=word`, in its place, words
    sorted. Class labels become their place in `entry.classes`.

    Raises DataError for a file that is not the registered one, cannot be read, or gives another shape than the
    registered `rows` x `inputs`.
    """
    if entry.bundled is not None:
        dataset = _bundled(entry)
    else:
        if len(raw_paths) != len(entry.files):
            expected = ", ".join(file.name for file in entry.files)
            raise DataError(f"{name}: needs {len(entry.files)} raw files ({expected}), got {len(raw_paths)}")
        tables = [read_table(path, verify(path, file).read) for path, file in zip(raw_paths, entry.files, strict=True)]
        dataset = _dataset(name, entry, _joined(tables))
    if dataset.x.shape != (entry.rows, entry.inputs):
        files = ", ".join(map(str, raw_paths)) or f"scikit-learn's '{entry.bundled}'"
        found = " x ".join(map(str, dataset.x.shape))
        raise DataError(
            f"{name}: {files} gives {found} rows x inputs; {entry.rows} x {entry.inputs} are registered in "
            "config/datasets.yaml. Delete the raw files and download again, or correct the entry"
        )
    return dataset


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
    return Dataset(x, y, tuple(names), entry.target, entry.task, entry.classes)


def _target(name: str, entry: DatasetEntry, table: Table) -> np.ndarray:
    """Target values, or class numbers."""
    if entry.task == "regression":
        return table.numbers[entry.target]
    labels = table.words[entry.target]
    unknown = sorted(set(labels.tolist()) - set(entry.classes))
    if unknown:
        raise DataError(
            f"{name}: column '{entry.target}' holds {', '.join(map(repr, unknown))}; "
            f"the registered classes are {', '.join(map(repr, entry.classes))}"
        )
    numbers = {label: i for i, label in enumerate(entry.classes)}
    return np.array([numbers[label] for label in labels.tolist()], dtype=np.int64)


def _bundled(entry: DatasetEntry) -> Dataset:
    """A data set that is part of scikit-learn's installation."""
    from sklearn.datasets import load_diabetes, load_digits

    data = load_diabetes(scaled=False) if entry.bundled == "diabetes" else load_digits()
    classification = entry.task == "classification"
    return Dataset(
        x=np.asarray(data.data, dtype=np.float64),
        y=np.asarray(data.target, dtype=np.int64 if classification else np.float64),
        feature_names=tuple(map(str, data.feature_names)),
        target_name=entry.target,
        task=entry.task,
        classes=entry.classes,
    )
