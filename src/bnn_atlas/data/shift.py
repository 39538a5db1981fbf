"""Apply a shift to a set of images."""

import numpy as np
from scipy.special import cosdg, sindg

from bnn_atlas.config.data.shift import OF_COLOURS, OF_SPLIT, ROTATION, Shift, parse_shift
from bnn_atlas.data.corruptions import CORRUPTION
from bnn_atlas.data.errors import DataError

BATCH_BYTES = 2**24
"""Working memory of one float64 copy of a batch of images."""


def apply_shift(shift: Shift, images: np.ndarray, seed: int, first: int = 0) -> np.ndarray:
    """The images [n, H, W, C] uint8 (C = 1 or 3) rotated or corrupted, in the same shape and type.

    Image i of the result depends only on the shift, the seed, image i and the number i, not on the other images: a part
    of a set that starts at image `first` gives the same bytes as the whole set. Bytes are the same on every machine.
    Raises ConfigError for an unknown shift and DataError for arrays that are not images.
    """
    shift = parse_shift(shift.name)
    if shift.kind in OF_SPLIT:
        raise DataError(f"shift '{shift.name}' depends on the rows of a split; use `data.pixels.noise_in`")
    _check(images, seed, first)
    if shift.kind in OF_COLOURS and images.shape[3] != 3:
        raise DataError(
            f"shift '{shift.name}': grey images have no saturation to change; leave it out, or use images with three "
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
            f"a shift needs images of shape [n, H, W, 1 or 3] and type uint8, not {images.dtype} of shape "
            f"{list(images.shape)}; apply it to the prepared images before they are scaled"
        )
    if seed < 0 or first < 0:
        raise DataError(f"seed {seed} and first image {first} must not be negative")


BITS = 11
"""Positions are rounded to 2^-11 pixels, which makes weights and sums of a bilinear interpolation exact integers."""
ONE = 1 << BITS


def rotate(images: np.ndarray, degrees: int) -> np.ndarray:
    """Images [n, H, W, C] uint8 rotated counter-clockwise about their centre, on a background of zeros.

    Pixel (i, j) of the result is the bilinear interpolation of the image at
    (cos a (i - i0) + sin a (j - j0) + i0, -sin a (i - i0) + cos a (j - j0) + j0), with the centre
    i0 = (H - 1) / 2, j0 = (W - 1) / 2; outside the image there are zeros. The shape stays, so corners are cut off.
    Multiples of 90 degrees are exact on square images.
    """
    n, height, width, channels = images.shape
    i, j = np.mgrid[:height, :width]
    di, dj = i.ravel() - (height - 1) / 2, j.ravel() - (width - 1) / 2
    cosine, sine = float(cosdg(degrees)), float(sindg(degrees))
    row, row_part = _cut(cosine * di + sine * dj + (height - 1) / 2)
    column, column_part = _cut(cosine * dj - sine * di + (width - 1) / 2)
    framed = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0))).reshape(n, -1, channels)
    total = np.full((n, height * width, channels), ONE * ONE // 2, dtype=np.int32)
    for down, row_weight in ((1, ONE - row_part), (2, row_part)):
        for right, column_weight in ((1, ONE - column_part), (2, column_part)):
            place = np.clip(row + down, 0, height + 1) * (width + 2) + np.clip(column + right, 0, width + 1)
            total += (row_weight * column_weight)[:, None] * framed[:, place].astype(np.int32)
    return (total >> 2 * BITS).astype(np.uint8).reshape(images.shape)


def _cut(position: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whole pixels, and the fraction in units of 2^-BITS."""
    fixed = np.rint(position * ONE).astype(np.int32)
    return fixed >> BITS, fixed & (ONE - 1)
