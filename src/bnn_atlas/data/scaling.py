"""How inputs are scaled, and with which statistics."""

import numpy as np

from bnn_atlas.config.splits import SCALINGS, Features, Scaling
from bnn_atlas.data.dataset import Dataset
from bnn_atlas.data.errors import DataError

BLOCK = 2**22
"""Pixels that are counted at once."""


def as_features(x: np.ndarray, features: Features) -> np.ndarray:
    """What the network takes of raw rows, before it is scaled: of tables [n, d] the inputs, or [x, x^2] [n, 2 d]."""
    return x if features == "inputs" else np.concatenate([x, x**2], axis=1)


def input_statistics(dataset: Dataset, rows: np.ndarray, scaling: Scaling | None) -> tuple[np.ndarray, np.ndarray]:
    """Mean and scale, in raw units, that broadcast over the trailing axes: (x - mean) / scale.

    `columns` and `all_rows`: mean and population standard deviation of each column of `rows` [d]; `channels`: of all
    pixels of each channel [C]; `published`: the registered constants, 255 mean and 255 scale [C]; `unit`: 0 and 255;
    `none`: 0 and 1.
    What is constant gets scale 1, so that it becomes 0.
    """
    allowed = SCALINGS[dataset.kind]
    chosen = scaling or allowed[0]
    if chosen not in allowed:
        raise DataError(
            f"split.scaling = '{chosen}': not for data of the kind '{dataset.kind}'; allowed are {', '.join(allowed)}"
        )
    if chosen in ("columns", "all_rows"):
        return _moments(dataset.x[rows])
    if chosen == "channels":
        return _channel_moments(dataset.x, rows)
    if chosen == "published":
        if dataset.published_scaling is None:
            raise DataError("split.scaling = 'published': no constants are registered for this data set")
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
    """(x - mean) / scale: tables in float64, images in float32; sequences are returned as they are."""
    if kind == "tokens":
        return x
    if kind == "table":
        return (x - mean) / scale
    result = np.subtract(x, mean.astype(np.float32), dtype=np.float32)
    result /= scale.astype(np.float32)
    return result


def _moments(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and population standard deviation along the rows; exactly the value and 1 where all rows are equal.

    Equality is tested on the values: the standard deviation of a constant such as 0.998 comes out as 1e-13, not 0.
    """
    constant = values.max(axis=0) == values.min(axis=0)
    mean = np.where(constant, values[0], values.mean(axis=0))
    return mean, np.where(constant, 1.0, values.std(axis=0))


def _channel_moments(x: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and population standard deviation of each channel, from counts of the 256 pixel values.

    Counts are whole numbers, so that neither the order of the rows nor their number costs accuracy or memory.
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
