"""Applying a shift to a set of images."""

import numpy as np

from bnn_atlas.config.shift import OF_COLOURS, OF_SPLIT, ROTATION, Shift, parse_shift
from bnn_atlas.data.corruptions import CORRUPTION
from bnn_atlas.data.errors import DataError
from bnn_atlas.data.rotation import rotate

BATCH_BYTES = 2**24
"""Working memory of one float64 copy of a batch of images."""


def apply_shift(shift: Shift, images: np.ndarray, seed: int, first: int = 0) -> np.ndarray:
    """The images [n, H, W, C] uint8 (C = 1 or 3) rotated or corrupted, in the same shape and type.

    Image i of the result depends on the shift, the seed, image i and the number i alone, not on the other images:
    a part of a set that starts at image `first` gives the same bytes as the whole set. The same bytes on every
    machine. Raises ConfigError for an unknown shift and DataError for arrays that are not images.
    """
    shift = parse_shift(shift.name)
    if shift.kind in OF_SPLIT:
        raise DataError(f"shift '{shift.name}' depends on the rows of a split; take `dead_pixels.noise_in`")
    _check(images, seed, first)
    if shift.kind in OF_COLOURS and images.shape[3] != 3:
        raise DataError(
            f"shift '{shift.name}': grey images have no saturation to change; leave it out, or take images with three "
            "channels"
        )
    result = np.empty_like(images)
    step = max(1, BATCH_BYTES // (8 * max(1, int(np.prod(images.shape[1:])))))
    for start in range(0, len(images), step):
        part = slice(start, start + step)
        if shift.kind == ROTATION:
            result[part] = rotate(images[part], shift.level)
        else:
            result[part] = CORRUPTION[shift.kind](images[part], shift.level, seed, first + start)
    return result


def _check(images: np.ndarray, seed: int, first: int) -> None:
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] not in (1, 3) or 0 in images.shape[1:3]:
        raise DataError(
            f"a shift is for images of shape [n, H, W, 1 or 3] and type uint8, not for {images.dtype} of shape "
            f"{list(images.shape)}; apply it to the prepared images before they are scaled"
        )
    if seed < 0 or first < 0:
        raise DataError(f"seed {seed} and first image {first} must not be negative")
