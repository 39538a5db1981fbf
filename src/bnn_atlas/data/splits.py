"""Partitions of a data set's rows, and the scaled arrays that a method works on."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bnn_atlas.data.dataset import Dataset, fingerprint, load
from bnn_atlas.data.errors import ZIP_DAMAGE, DataError
from bnn_atlas.data.orders import tfds_order
from bnn_atlas.data.published import published_rows
from bnn_atlas.data.scaling import Scaling, input_statistics, target_statistics
from bnn_atlas.data.split_data import Split, SplitData
from bnn_atlas.files import atomic

if TYPE_CHECKING:
    from bnn_atlas.config.studies import SplitConfig


def make_split(n: int, config: "SplitConfig", index: int, published_train: int | None = None) -> Split:
    """Split number `index` (from 0) of `n` rows.

    With `limit`, only that many rows take part, chosen by the seed alone, so that all splits share them. Of these,
    - `random`: round(test * rows) test rows from a permutation by the generator of SeedSequence([seed, index]);
    - `standard`: the splits of Hernandez-Lobato and Adams (2015) and Gal and Ghahramani (2016): one RandomState(1)
      permutes the rows once per split, the first round(0.9 * rows) are not test rows;
    - `train_test_split`: scikit-learn's function with test_size = test and random_state = seed + index;
    - `published`: the publisher's test rows are the test rows; `published_train` says where they begin. Each part is in
      the order `order`, and `first` and `first_test` take its beginning.
    Validation rows are the last round(validation * others) of the other rows, in the order in which the rule gives
    them, which is random except for `published`. Classes are not balanced between the parts, as in the published
    splits.

    Raises DataError if a part that should have rows gets none.
    """
    if index < 0:
        raise DataError(f"split {index}: splits are numbered from 0")
    if n < 2:
        raise DataError(f"split {index} ({config.kind}) of {n} rows: at least 2 rows are needed")
    if config.kind == "published":
        return _parted(config, index, np.arange(n), *_published(n, config, published_train))
    rows = np.arange(n)
    if config.limit is not None and config.limit < n:
        chooser = np.random.default_rng(np.random.SeedSequence(config.seed, spawn_key=(0,)))
        rows = np.sort(chooser.choice(n, config.limit, replace=False))
    try:
        others, test = _rest_and_test(len(rows), config, index)
    except ValueError as error:
        raise DataError(f"split {index} ({config.kind}) of {len(rows)} rows: {error}") from error
    return _parted(config, index, rows, others, test)


def split_file(dataset_path: str | Path, destination: str | Path, config: "SplitConfig", index: int) -> None:
    """Write split number `index` of a prepared data set, with its scaling."""
    dataset = load(dataset_path)
    split = make_split(len(dataset.x), config, index, dataset.published_train)
    save_split(destination, dataset, split, config.validation_in_likelihood, config.scaling)


def save_split(
    path: str | Path,
    dataset: Dataset,
    split: Split,
    validation_in_likelihood: bool = True,
    scaling: Scaling | None = None,
) -> None:
    """Write row numbers and scaling statistics of a split as .npz.

    Statistics come from the rows that the posterior conditions on: training and validation rows, or training rows
    only (`bnn_atlas.data.scaling`). Targets are scaled with their mean and population standard deviation; class
    numbers get mean 0 and scale 1.
    """
    rows = np.concatenate([split.train, split.validation]) if validation_in_likelihood else split.train
    x_mean, x_scale = input_statistics(dataset, rows, scaling)
    y_mean, y_scale = target_statistics(dataset, rows)
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
    dataset, stored = load(dataset_path), _stored(split_path)
    if str(stored["dataset"]) != fingerprint(dataset):
        raise DataError(f"{split_path} was made for other data than {dataset_path}; delete it and make it again")
    return SplitData(
        dataset=dataset,
        split=Split(stored["train"], stored["validation"], stored["test"]),
        validation_in_likelihood=bool(stored["validation_in_likelihood"]),
        x_mean=stored["x_mean"],
        x_scale=stored["x_scale"],
        y_mean=float(stored["y_mean"]),
        y_scale=float(stored["y_scale"]),
    )


def _stored(path: str | Path) -> dict[str, np.ndarray]:
    """Arrays of a split's file."""
    keys = {
        "train", "validation", "test", "validation_in_likelihood", "x_mean", "x_scale", "y_mean", "y_scale", "dataset",
    }  # fmt: skip
    try:
        with Path(path).open("rb") as handle, np.load(handle, allow_pickle=False) as arrays:
            stored = {name: arrays[name] for name in arrays.files}
    except ZIP_DAMAGE as error:
        raise DataError(f"{path}: not a split ({error}); delete it and make it again") from error
    if missing := sorted(keys - set(stored)):
        raise DataError(f"{path}: not a split (no {', '.join(missing)}); delete it and make it again")
    return stored


def _parted(config: "SplitConfig", index: int, rows: np.ndarray, others: np.ndarray, test: np.ndarray) -> Split:
    """Take the validation rows off the end of `others`, which like `test` are positions in `rows`."""
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


def _published(n: int, config: "SplitConfig", published_train: int | None) -> tuple[np.ndarray, np.ndarray]:
    """The publisher's training rows and test rows, in the chosen order."""
    train = published_train or 0
    test = 0 if published_train is None else n - train
    used = published_rows(train, config.first, "first", "training")
    used_test = published_rows(test, config.first_test, "first_test", "test")
    if config.order == "file":
        return np.arange(used), train + np.arange(used_test)
    return tfds_order("train", train)[:used], train + tfds_order("test", test)[:used_test]


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
