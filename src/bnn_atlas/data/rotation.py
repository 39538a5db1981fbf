"""Rotated images, with the same bytes on every machine."""

import numpy as np
from scipy.special import cosdg, sindg

BITS = 11
"""Positions are rounded to 2^-11 pixels, so that weights and sums of a bilinear interpolation are exact integers."""
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
    """Whole pixels and the rest in units of 2^-BITS."""
    fixed = np.rint(position * ONE).astype(np.int32)
    return fixed >> BITS, fixed & (ONE - 1)
