"""Partitions of a data set's rows, and the scaled arrays that a method works on."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from zipfile import BadZipFile

import numpy as np

from bnn_atlas.data.dataset import Dataset, fingerprint, load
from bnn_atlas.data.errors import DataError
from bnn_atlas.files import atomic

if TYPE_CHECKING:
    from bnn_atlas.config.studies import SplitConfig


class Split(NamedTuple):
    """Row numbers (int64) of the three parts; they do not overlap, and `validation` may be empty."""

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray


class SplitData(NamedTuple):
    """One split of a data set, scaled with statistics of rows that are not test rows.

    Inputs are [rows, d] float64, (x - x_mean) / x_scale. Regression targets are [rows] float64,
    (y - y_mean) / y_scale; class numbers are [rows] int64 and stay as they are.
    """

    x_train: np.ndarray
    y_train: np.ndarray
    x_validation: np.ndarray
    y_validation: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    x_fit: np.ndarray
    """Inputs of the rows that the likelihood sees: training then validation rows, or training rows only."""
    y_fit: np.ndarray
    x_mean: np.ndarray
    """[d]"""
    x_scale: np.ndarray
    """[d]"""
    y_mean: float
    """0 for classification."""
    y_scale: float
    """1 for classification."""
    task: str
    classes: tuple[str, ...]


def make_split(n: int, config: "SplitConfig", index: int) -> Split:
    """Split number `index` (from 0) of `n` rows.

    With `limit`, only that many rows take part, chosen by the seed alone, so that all splits share them. Of these,
    - `random`: round(test * rows) test rows from a permutation by the generator of SeedSequence([seed, index]);
    - `standard`: the splits of Hernandez-Lobato and Adams (2015) and Gal and Ghahramani (2016): one RandomState(1)
      permutes the rows once per split, the first round(0.9 * rows) are not test rows;
    - `train_test_split`: scikit-learn's function with test_size = test and random_state = seed + index.
    Validation rows are the last round(validation * others) of the other rows, in the order in which the rule gives
    them, which is random. Classes are not balanced between the parts, as in the published splits.

    Raises DataError if a part that should have rows gets none.
    """
    if index < 0:
        raise DataError(f"split {index}: splits are numbered from 0")
    if n < 2:
        raise DataError(f"split {index} ({config.kind}) of {n} rows: at least 2 rows are needed")
    rows = np.arange(n)
    if config.limit is not None and config.limit < n:
        chooser = np.random.default_rng(np.random.SeedSequence(config.seed, spawn_key=(0,)))
        rows = np.sort(chooser.choice(n, config.limit, replace=False))
    try:
        others, test = _rest_and_test(len(rows), config, index)
    except ValueError as error:
        raise DataError(f"split {index} ({config.kind}) of {len(rows)} rows: {error}") from error
    held_out = round(config.validation * len(others))
    keep = len(others) - held_out
    split = Split(rows[others[:keep]], rows[others[keep:]], rows[test])
    for part, share in (("train", 1.0), ("validation", config.validation), ("test", 1.0)):
        if share > 0 and not len(getattr(split, part)):
            raise DataError(
                f"split {index} ({config.kind}) of {len(rows)} rows leaves no {part} rows; use more rows or change the "
                f"shares (test {config.test}, validation {config.validation})"
            )
    return Split(*(part.astype(np.int64) for part in split))


def standard_split_count(name: str) -> int:
    """How many of the standard splits were published for a data set: 5 for protein, else 20."""
    return 5 if name == "protein" else 20


def save_split(path: str | Path, dataset: Dataset, split: Split, validation_in_likelihood: bool = True) -> None:
    """Write row numbers and scaling statistics of a split as .npz.

    The statistics are mean and population standard deviation of the rows that the posterior conditions on: training
    and validation rows, or training rows only. A constant column gets scale 1, so that it becomes 0. Class numbers
    get mean 0 and scale 1.
    """
    rows = np.concatenate([split.train, split.validation]) if validation_in_likelihood else split.train
    x_mean, x_scale = _statistics(dataset.x[rows])
    y_mean, y_scale = (0.0, 1.0) if dataset.task == "classification" else _statistics(dataset.y[rows])
    with atomic(path) as temporary, temporary.open("wb") as handle:
        np.savez(
            handle,
            train=split.train,
            validation=split.validation,
            test=split.test,
            validation_in_likelihood=np.array(validation_in_likelihood),
            x_mean=x_mean,
            x_scale=x_scale,
            y_mean=np.float64(y_mean),
            y_scale=np.float64(y_scale),
            dataset=np.array(fingerprint(dataset)),
        )


def load_split(dataset_path: str | Path, split_path: str | Path) -> SplitData:
    """Scaled arrays of a split; the statistics are the stored ones.

    Raises DataError if the split was made for other data or is not a split.
    """
    dataset = load(dataset_path)
    try:
        with Path(split_path).open("rb") as handle, np.load(handle, allow_pickle=False) as arrays:
            stored = {name: arrays[name] for name in arrays.files}
        if str(stored["dataset"]) != fingerprint(dataset):
            raise DataError(f"{split_path} was made for other data than {dataset_path}; delete it and make it again")
        split = Split(stored["train"], stored["validation"], stored["test"])
        x = (dataset.x - stored["x_mean"]) / stored["x_scale"]
        y_mean, y_scale = float(stored["y_mean"]), float(stored["y_scale"])
        both = bool(stored["validation_in_likelihood"])
    except DataError:
        raise
    except (KeyError, ValueError, BadZipFile, EOFError) as error:
        raise DataError(f"{split_path}: not a split ({error}); delete it and make it again") from error
    y = dataset.y if dataset.task == "classification" else (dataset.y - y_mean) / y_scale
    fit = np.concatenate([split.train, split.validation]) if both else split.train
    return SplitData(
        x_train=x[split.train],
        y_train=y[split.train],
        x_validation=x[split.validation],
        y_validation=y[split.validation],
        x_test=x[split.test],
        y_test=y[split.test],
        x_fit=x[fit],
        y_fit=y[fit],
        x_mean=stored["x_mean"],
        x_scale=stored["x_scale"],
        y_mean=y_mean,
        y_scale=y_scale,
        task=dataset.task,
        classes=dataset.classes,
    )


def _rest_and_test(n: int, config: "SplitConfig", index: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions 0..n-1 that are not test rows, and those that are, each in the rule's order."""
    if config.kind == "random":
        order = np.random.default_rng(np.random.SeedSequence([config.seed, index])).permutation(n)
        count = round(config.test * n)
        return order[count:], order[:count]
    if config.kind == "standard":
        state = np.random.RandomState(1)
        for _ in range(index + 1):
            order = state.choice(range(n), n, replace=False)
        count = round(0.9 * n)
        return order[:count], order[count:]
    from sklearn.model_selection import train_test_split

    others, test = train_test_split(np.arange(n), test_size=config.test, random_state=config.seed + index)
    return others, test


def _statistics(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and population standard deviation along the rows; exactly the value and 1 where all rows are equal.

    Equality is tested on the values: the standard deviation of a constant such as 0.998 comes out as 1e-13, not 0.
    """
    constant = values.max(axis=0) == values.min(axis=0)
    mean = np.where(constant, values[0], values.mean(axis=0))
    return mean, np.where(constant, 1.0, values.std(axis=0))
