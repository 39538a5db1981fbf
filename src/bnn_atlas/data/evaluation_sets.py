"""Rows of the sets on which a run is evaluated."""

import tarfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bnn_atlas.config.data.shift import OF_SPLIT, SEVERITIES, parse_shift
from bnn_atlas.data import DataError
from bnn_atlas.data.dataset import load
from bnn_atlas.data.pixels import dead_inputs, noise_in
from bnn_atlas.data.split_data import SplitData

SEED = 0
"""Seed of random corruptions: runs with the same test rows in the same order see the same images."""


class Rows(NamedTuple):
    """Scaled inputs [n, ...] and their targets [n]; targets are None if there is no right answer."""

    x: np.ndarray
    y: np.ndarray | None


POINTS = 50
"""Number of inputs on an interval."""


def interval_rows(split: SplitData, interval: tuple[float, float]) -> Rows:
    """An even grid of inputs on an interval, scaled like the split; DataError for rows that are not one number."""
    if split.raw_shape != (1,):
        raise DataError(f"an interval needs one input; a row of this data set has shape {list(split.raw_shape)}")
    return Rows(split.scaled(np.linspace(*interval, POINTS)[:, None]), None)


def shifted_rows(split: SplitData, shift: str) -> Rows:
    """The test images of a split after a shift, scaled like the split; DataError for rows that are not images."""
    if split.kind != "image":
        raise DataError(f"shift '{shift}': rows of the kind '{split.kind}' cannot be shifted, only images")
    parsed, images = parse_shift(shift), split.dataset.x[split.split.test]
    if parsed.kind in OF_SPLIT:
        return Rows(split.scaled(noise_in(*parsed, images, dead_inputs(split), SEED)), split.y_test)
    from bnn_atlas.data.corruptions import apply_shift  # scipy.ndimage takes long to import

    images = apply_shift(parsed, images, SEED)
    return Rows(split.scaled(images), split.y_test)


def corrupted_rows(split: SplitData, shift: str, tar: str | Path) -> Rows:
    """The test rows of CIFAR-10 as corrupted in the published CIFAR-10-C, scaled like the split.

    Raises DataError if the tar is not CIFAR-10-C or its labels differ from the test rows' labels.
    """
    parsed, first = parse_shift(shift), split.dataset.published_train
    if parsed.published is None or first is None:
        raise DataError(f"shift '{shift}': CIFAR-10-C has no such images for this data set")
    images, labels = read_cifar10c(tar, parsed.published, parsed.level)
    places = split.split.test - first
    if not np.array_equal(labels[places], split.y_test):
        raise DataError(f"{tar}: its labels differ from those of the test rows; both must be in CIFAR-10's own order")
    return Rows(split.scaled(images[places]), split.y_test)


def read_cifar10c(path: str | Path, corruption: str, severity: int) -> tuple[np.ndarray, np.ndarray]:
    """Images [n, 32, 32, 3] uint8 and labels [n] of one corruption at one severity, from CIFAR-10-C.tar.

    A member holds five times the test images in CIFAR-10's own order, with severity s in rows (s - 1) n to s n - 1.
    Hendrycks and Dietterich 2019; Zenodo record 2535967. Raises DataError for a damaged tar or one of other contents.
    """
    arrays = []
    try:
        with tarfile.open(path, "r:") as tar, Path(path).open("rb") as content:
            for name in (corruption, "labels"):
                content.seek(tar.getmember(f"CIFAR-10-C/{name}.npy").offset_data)
                arrays.append(np.load(content))
    except (tarfile.TarError, LookupError, OSError, EOFError, ValueError) as error:
        raise DataError(
            f"{path}: not the intact tar of CIFAR-10-C ({error}): it is truncated or altered; download it again"
        ) from None
    images, labels = arrays
    rows = len(labels) // SEVERITIES
    part = slice((severity - 1) * rows, severity * rows)
    return images[part], labels[part].astype(np.int64)


def outside_rows(split: SplitData, dataset: str | Path, limit: int | None = None) -> Rows:
    """Test rows of another prepared data set (or all its rows if it has no test rows), scaled like the split.

    Only the first `limit` rows are taken. Raises DataError for rows of another kind or shape, or tokens of another
    vocabulary.
    """
    other = load(dataset)
    if other.kind != split.kind or other.x.shape[1:] != split.raw_shape:
        raise DataError(
            f"{dataset}: {other.kind} rows of shape {list(other.x.shape[1:])} cannot be compared with this run's "
            f"{split.kind} rows of shape {list(split.raw_shape)}"
        )
    if other.vocabulary != split.vocabulary:
        raise DataError(
            f"{dataset}: tokens of a vocabulary of {other.vocabulary} ids cannot be compared with this run's "
            f"vocabulary of {split.vocabulary}"
        )
    trained = other.published_train or 0
    x = other.x[trained if trained < len(other.x) else 0 :][:limit]
    if other.pixel_divisor != 1:
        x = x / np.float32(other.pixel_divisor)
    return Rows(split.scaled(x), None)
