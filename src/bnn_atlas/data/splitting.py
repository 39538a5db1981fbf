"""Make, write and read splits of a data set."""

from pathlib import Path

import numpy as np

from bnn_atlas.config.data.splits import MILE_SHARE, Features, Scaling, SplitConfig, Targets, published_rows
from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.data import DataError
from bnn_atlas.data.dataset import Dataset, fingerprint, load
from bnn_atlas.data.orders import bnn_hmc_order, mile_order, tfds_order
from bnn_atlas.data.split_data import Split, SplitData, as_features, input_statistics, target_statistics
from bnn_atlas.files import load_arrays, save_arrays

ARRAYS = (
    "train", "validation", "test", "validation_in_likelihood", "x_mean", "x_scale", "y_mean", "y_scale", "dataset",
)  # fmt: skip
"""Names of the arrays in a split's file."""
FEATURES = "features"
"""Name of a further array, present if the network does not take the plain inputs."""


def make_split(n: int, config: SplitConfig, index: int, published_train: int | None = None) -> Split:
    """Split number `index` (from 0) of `n` rows.

    With `limit`, only that many rows are used; which rows depends only on the seed, so all splits share them. Of these,
    - `random`: round(test * rows) test rows from a permutation by the generator of SeedSequence([seed, index]);
    - `standard`: the splits of Hernandez-Lobato and Adams (2015) and Gal and Ghahramani (2016): one RandomState(1)
      permutes the rows once per split, and the rows after the first round(0.9 * rows) are test rows;
    - `train_test_split`: scikit-learn's function with test_size = test and random_state = seed + index;
    - `bnn_hmc`: all rows in the order of `orders.bnn_hmc_order` with the seed `seed + index`, cut at int(0.9 rows);
    - `published`: test rows are the publisher's test rows, which start at row `published_train`. Each part is in the
      order `order` and is cut to its first `first` or `first_test` rows;
    - `mile`: all rows in the order of `orders.mile_order` with the seed `rng + index`; the first `limit` rows are kept
      and cut at int(0.7 rows) and int((0.7 + 0.1) rows). If the data set has published test rows, only the other rows
      are put in this order; the first int(0.7 n) of these rows are training rows and the rest are validation rows.
    Except for `mile`, the rows that are not test rows are put in the order of the rule (random except for `published`),
    and the last round(validation * others) of them are validation rows. With `validation_seed`, validation rows are
    instead chosen by scikit-learn's train_test_split(validation, random_state=validation_seed). As in the published
    splits, classes are not balanced between the parts.

    Raises DataError if a part that should have rows gets none.
    """
    if index < 0:
        raise DataError(f"split {index}: splits are numbered from 0")
    if n < 2:
        raise DataError(f"split {index} ({config.kind}) of {n} rows: at least 2 rows are needed")
    if config.kind == "published":
        return _parted(config, index, np.arange(n), *_published(n, config, published_train))
    if config.kind == "mile":
        return _checked(_mile(n, config, index, published_train), config, index, n)
    rows = np.arange(n)
    if config.limit is not None and config.limit < n:
        chooser = np.random.default_rng(np.random.SeedSequence(config.seed, spawn_key=(0,)))
        rows = np.sort(chooser.choice(n, config.limit, replace=False))
    try:
        others, test = _rest_and_test(len(rows), config, index)
    except ValueError as error:
        raise DataError(f"split {index} ({config.kind}) of {len(rows)} rows: {error}") from error
    return _parted(config, index, rows, others, test)


def split_file(dataset_path: str | Path, destination: str | Path, config: SplitConfig, index: int) -> None:
    """Write split number `index` of a prepared data set, with its scaling."""
    dataset = load(dataset_path)
    split = make_split(len(dataset.x), config, index, dataset.published_train)
    save_split(
        destination,
        dataset,
        split,
        config.validation_in_likelihood,
        config.scaling,
        features=config.features,
        targets=config.targets,
    )


def save_split(
    path: str | Path,
    dataset: Dataset,
    split: Split,
    validation_in_likelihood: bool = True,
    scaling: Scaling | None = None,
    *,
    features: Features = "inputs",
    targets: Targets = "standardised",
) -> None:
    """Write row indices and scaling statistics of a split as .npz.

    Statistics come from the rows that the posterior conditions on: training and validation rows, or training rows
    only; with the scaling `all_rows`, from all three parts. Targets are scaled with their mean and population standard
    deviation; class numbers, and targets `as_given`, get mean 0 and scale 1. Raises DataError for a scaling, features
    or targets that do not apply to data of this kind.
    """
    if features != "inputs" and dataset.kind != "table":
        raise DataError(f"split.features = '{features}': not for data of kind '{dataset.kind}', only for tables")
    if targets != "standardised" and dataset.task != "regression":
        raise DataError(f"split.targets = '{targets}': not for {dataset.task}, only for regression")
    if scaling == "all_rows":
        rows = np.concatenate(split)
    else:
        rows = np.concatenate([split.train, split.validation]) if validation_in_likelihood else split.train
    x_mean, x_scale = input_statistics(dataset._replace(x=as_features(dataset.x, features)), rows, scaling)
    y_mean, y_scale = target_statistics(dataset, rows) if targets == "standardised" else (0.0, 1.0)
    given = {} if features == "inputs" else {FEATURES: np.array(features)}
    save_arrays(
        path,
        {
            "train": split.train,
            "validation": split.validation,
            "test": split.test,
            "validation_in_likelihood": validation_in_likelihood,
            "x_mean": x_mean,
            "x_scale": x_scale,
            "y_mean": np.float64(y_mean),
            "y_scale": np.float64(y_scale),
            "dataset": np.array(fingerprint(dataset)),
            **given,
        },
    )


def load_split(dataset_path: str | Path, split_path: str | Path) -> SplitData:
    """Scaled arrays of a stored split; DataError if the file was made for other data or is not a split."""
    dataset, stored = load(dataset_path), load_arrays(split_path, ARRAYS, DataError, "a split", (FEATURES,))
    if str(stored["dataset"]) != fingerprint(dataset):
        raise DataError(f"{split_path} was not made for {dataset_path}; delete the split and make it again")
    return SplitData(
        dataset=dataset,
        split=Split(stored["train"], stored["validation"], stored["test"]),
        validation_in_likelihood=bool(stored["validation_in_likelihood"]),
        x_mean=stored["x_mean"],
        x_scale=stored["x_scale"],
        y_mean=float(stored["y_mean"]),
        y_scale=float(stored["y_scale"]),
        features="squares" if FEATURES in stored else "inputs",
    )


def _parted(config: SplitConfig, index: int, rows: np.ndarray, others: np.ndarray, test: np.ndarray) -> Split:
    """Take the validation rows from `others`; like `test`, these are positions in `rows`."""
    held_out = round(config.validation * len(others))
    keep = len(others) - held_out
    train, validation = others[:keep], others[keep:]
    if config.validation_seed is not None and held_out:
        from sklearn.model_selection import train_test_split

        train, validation = train_test_split(others, test_size=config.validation, random_state=config.validation_seed)
    return _checked(Split(rows[train], rows[validation], rows[test]), config, index, len(rows))


def _checked(split: Split, config: SplitConfig, index: int, n: int) -> Split:
    """The split in int64; DataError if a part that should have rows has none."""
    for part, share in (("train", 1.0), ("validation", config.validation), ("test", 1.0)):
        if share > 0 and not len(getattr(split, part)):
            raise DataError(
                f"split {index} ({config.kind}) of {n} rows leaves no {part} rows; use more rows, or change "
                f"the fractions (test {config.test}, validation {config.validation})"
            )
    return Split(*(part.astype(np.int64) for part in split))


def _mile(n: int, config: SplitConfig, index: int, published_train: int | None) -> Split:
    rng = (config.rng or 0) + index
    if published_train is None or published_train == n:
        if config.first_test is not None:
            raise DataError("split.first_test: these data have no published test rows")
        order = mile_order(n, rng, config.loader)[: config.limit]
        return Split(*np.split(order, [int(len(order) * 0.7), int(len(order) * MILE_SHARE)]))
    if config.limit is not None:
        raise DataError("split.limit: not for kind 'mile' of data with published test rows")
    order = mile_order(published_train, rng, config.loader)
    cut = int(n * 0.7)
    test = np.arange(published_train, n)[: config.first_test]
    return Split(order[:cut], order[cut:], test)


def _published(n: int, config: SplitConfig, published_train: int | None) -> tuple[np.ndarray, np.ndarray]:
    """The publisher's training rows and test rows, in the chosen order."""
    train = published_train or 0
    test = 0 if published_train is None else n - train
    try:
        used = published_rows(train, config.first, "first", "training")
        used_test = published_rows(test, config.first_test, "first_test", "test")
    except ConfigError as error:
        raise DataError(str(error)) from None
    if config.order == "file":
        return np.arange(used), train + np.arange(used_test)
    return tfds_order("train", train)[:used], train + tfds_order("test", test)[:used_test]


def _rest_and_test(n: int, config: SplitConfig, index: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions (0 to n - 1) of the rows that are not test rows, and of the test rows, both in the rule's order."""
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
    if config.kind == "bnn_hmc":
        order = bnn_hmc_order(n, config.seed + index)
        count = int(0.9 * n)
        return order[:count], order[count:]
    from sklearn.model_selection import train_test_split

    others, test = train_test_split(np.arange(n), test_size=config.test, random_state=config.seed + index)
    return others, test
