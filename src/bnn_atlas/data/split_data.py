"""One split of a data set as scaled arrays."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from bnn_atlas.config.data.splits import SCALINGS, Features, Scaling
from bnn_atlas.data import DataError
from bnn_atlas.data.dataset import Dataset


class Split(NamedTuple):
    """Row indices (int64) of the three parts; the parts do not overlap, and `validation` may be empty."""

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray


@dataclass(frozen=True, eq=False)
class SplitData:
    """One split of a data set, scaled with statistics that exclude test rows, except with the scaling `all_rows`.

    Inputs are (x - x_mean) / x_scale after `as_features`: tables [rows, d] float64, images
    [rows, height, width, channels] float32; sequences are unscaled [rows, length] int32. Regression targets are [rows]
    float64, (y - y_mean) / y_scale; class numbers are unscaled [rows] int64.
    Arrays are made on first use. Training, validation and fit rows share one array and the test rows have another, so
    no row is in memory twice.
    """

    dataset: Dataset
    """The rows in original units."""
    split: Split
    validation_in_likelihood: bool
    x_mean: np.ndarray
    """[d] for tables, [channels] for images."""
    x_scale: np.ndarray
    y_mean: float
    """0 for classification."""
    y_scale: float
    """1 for classification."""
    features: Features = "inputs"
    """The features of a table's rows that the network takes (`as_features`)."""

    @property
    def x_train(self) -> np.ndarray:
        """Inputs of the training rows."""
        return self._others[: self._train]

    @property
    def y_train(self) -> np.ndarray:
        """Targets of the training rows."""
        return self._targets(self.split.train)

    @property
    def x_validation(self) -> np.ndarray:
        """Inputs of the validation rows."""
        return self._others[self._train :]

    @property
    def y_validation(self) -> np.ndarray:
        """Targets of the validation rows."""
        return self._targets(self.split.validation)

    @cached_property
    def x_test(self) -> np.ndarray:
        """Inputs of the test rows."""
        return self.scaled(self.dataset.x[self.split.test])

    @property
    def y_test(self) -> np.ndarray:
        """Targets of the test rows."""
        return self._targets(self.split.test)

    @property
    def x_fit(self) -> np.ndarray:
        """Inputs of the rows that the likelihood sees: training then validation rows, or training rows only."""
        return self._others if self.validation_in_likelihood else self.x_train

    @property
    def y_fit(self) -> np.ndarray:
        """Targets of the rows that the likelihood sees."""
        return self._targets(np.concatenate(self.split[:2])) if self.validation_in_likelihood else self.y_train

    @property
    def task(self) -> str:
        """`regression` or `classification`."""
        return self.dataset.task

    @property
    def classes(self) -> tuple[str, ...]:
        """Name of each class number; empty for regression."""
        return self.dataset.classes

    @property
    def kind(self) -> str:
        """`table`, `image` or `tokens`."""
        return self.dataset.kind

    @property
    def vocabulary(self) -> int:
        """Sequences: number of token ids; 0 for other kinds."""
        return self.dataset.vocabulary

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a row as the network takes it."""
        return as_features(self.dataset.x[:0], self.features).shape[1:]

    @property
    def raw_shape(self) -> tuple[int, ...]:
        """Shape of a row of the data set."""
        return self.dataset.x.shape[1:]

    def scaled(self, x: np.ndarray) -> np.ndarray:
        """Other raw rows [m, *shape] of the same kind, scaled exactly like the split's own rows.

        Every set that is compared with a run (shifted and out-of-distribution sets) goes through this, so that no set
        can be recognised by its scaling. Raises DataError for rows of another shape.
        """
        if x.shape[1:] != self.raw_shape:
            raise DataError(
                f"rows of shape {list(x.shape[1:])} cannot be compared with this split's rows of shape "
                f"{list(self.raw_shape)}"
            )
        return scaled(as_features(x, self.features), self.kind, self.x_mean, self.x_scale)

    def taken(self, x: np.ndarray) -> np.ndarray:
        """The network's inputs at x [m, *raw_shape] in standardised units, (raw - mean) / scale."""
        if self.features == "inputs":
            return x
        columns = self.raw_shape[0]
        return self.scaled(self.x_mean[:columns] + self.x_scale[:columns] * x)

    @property
    def _train(self) -> int:
        return len(self.split.train)

    @cached_property
    def _others(self) -> np.ndarray:
        """Inputs of training rows, then validation rows."""
        return self.scaled(self.dataset.x[np.concatenate(self.split[:2])])

    def _targets(self, rows: np.ndarray) -> np.ndarray:
        y = self.dataset.y[rows]
        return y if self.task == "classification" else (y - self.y_mean) / self.y_scale


BLOCK = 2**22
"""Number of pixels counted at a time."""


def as_features(x: np.ndarray, features: Features) -> np.ndarray:
    """The features of raw rows, before scaling: the inputs x, or [x, x^2] [n, 2 d] for tables [n, d]."""
    return x if features == "inputs" else np.concatenate([x, x**2], axis=1)


def input_statistics(dataset: Dataset, rows: np.ndarray, scaling: Scaling | None) -> tuple[np.ndarray, np.ndarray]:
    """Mean and scale in raw units, for (x - mean) / scale along the last axis.

    `columns` and `all_rows`: mean and population standard deviation of each column of `rows` [d]; `channels`: mean and
    population standard deviation of all pixels of each channel [C]; `published`: the registered constants, 255 mean and
    255 scale [C]; `unit`: 0 and 255; `none`: 0 and 1. Constant columns and channels get scale 1, so that they become 0.
    """
    allowed = SCALINGS[dataset.kind]
    chosen = scaling or allowed[0]
    if chosen not in allowed:
        raise DataError(
            f"split.scaling = '{chosen}': not for data of kind '{dataset.kind}'; use one of {', '.join(allowed)}"
        )
    if chosen in ("columns", "all_rows"):
        return _moments(dataset.x[rows])
    if chosen == "channels":
        return _channel_moments(dataset.x, rows)
    if chosen == "published":
        if dataset.published_scaling is None:
            raise DataError(
                "split.scaling = 'published': this data set has no published_scaling in config/datasets.yaml; add it, "
                "or use another scaling"
            )
        mean, scale = np.array(dataset.published_scaling)
        return 255 * mean, 255 * scale
    size = 1 if dataset.kind == "tokens" else dataset.x.shape[-1]
    return np.zeros(size), np.full(size, 255.0 if chosen == "unit" else 1.0)


def target_statistics(dataset: Dataset, rows: np.ndarray) -> tuple[float, float]:
    """Mean and population standard deviation of the targets of `rows`; 0 and 1 for class numbers."""
    if dataset.task == "classification":
        return 0.0, 1.0
    mean, scale = _moments(dataset.y[rows])
    return float(mean), float(scale)


def scaled(x: np.ndarray, kind: str, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """(x - mean) / scale: tables in float64, images in float32; sequences are returned unscaled."""
    if kind == "tokens":
        return x
    if kind == "table":
        return (x - mean) / scale
    result = np.subtract(x, mean.astype(np.float32), dtype=np.float32)
    result /= scale.astype(np.float32)
    return result


def _moments(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and population standard deviation over rows; if all rows are equal, exactly their value and 1.

    Equality is tested on the values: the computed standard deviation of a constant such as 0.998 is 1e-13, not 0.
    """
    constant = values.max(axis=0) == values.min(axis=0)
    mean = np.where(constant, values[0], values.mean(axis=0))
    return mean, np.where(constant, 1.0, values.std(axis=0))


def _channel_moments(x: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and population standard deviation of each channel, from counts of the 256 pixel values.

    Counts are whole numbers, so the result does not depend on the order of the rows, and many rows cost no accuracy.
    """
    channels, values = x.shape[-1], np.arange(256)
    counts = np.zeros((channels, 256), dtype=np.int64)
    step = max(1, BLOCK // int(np.prod(x.shape[1:])))
    for start in range(0, len(rows), step):
        block = x[rows[start : start + step]]
        for channel in range(channels):
            counts[channel] += np.bincount(block[..., channel].ravel(), minlength=256)
    pixels = counts.sum(axis=1)
    mean = counts @ values / pixels
    variance = (counts * (values - mean[:, None]) ** 2).sum(axis=1) / pixels
    return mean, np.where(variance > 0, np.sqrt(variance), 1.0)
