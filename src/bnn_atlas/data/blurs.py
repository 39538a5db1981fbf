"""Images out of focus, and images zoomed in while they were taken (constants: `bnn_atlas.data.corruptions`)."""

import math
from typing import NamedTuple

import numpy as np
from scipy.ndimage import correlate

from bnn_atlas.data.pixels import KERNEL, SIDE, whole_weights

DEFOCUS = ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1.0, 0.2), (1.5, 0.1))
"""Radius of a disk, and sd of the Gaussian over three pixels that smooths its edge, in pixels."""
ZOOM_END = (1.06, 1.11, 1.16, 1.21, 1.26)
ZOOM_STEP = 0.01
REACH = 2
"""Pixels from the middle of the largest disk, smoothed, to its edge."""


def defocus_blur(images: np.ndarray, severity: int, seed: int, first: int) -> np.ndarray:
    """Convolution with a smoothed disk; beyond the edge the image is mirrored about its outermost pixels."""
    weights = whole_weights(_disk(*DEFOCUS[severity - 1]))[None, :, :, None]
    return np.floor(correlate(images, weights, output=np.float64, mode="mirror") / KERNEL + 0.5).astype(np.uint8)


def zoom_blur(images: np.ndarray, severity: int, seed: int, first: int) -> np.ndarray:
    """Mean of the image and of its enlargements by `zoom_factors` about its middle, cut to its size."""
    factors = zoom_factors(min(images.shape[1:3]), severity)
    total = images.astype(np.float64)
    for factor in factors:
        total += _zoomed(images, factor)
    return np.floor(total / (len(factors) + 1) + 0.5).astype(np.uint8)


def zoom_factors(side: int, severity: int) -> np.ndarray:
    """Factors 1, 1.01, ... as the published script has them, with a last one at the end where rounding lets it in.

    Of images whose shorter side has fewer than SIDE pixels they grow so that the outermost pixel moves as far.
    """
    factors = np.arange(1, ZOOM_END[severity - 1], ZOOM_STEP)
    return factors if side >= SIDE else 1 + (factors - 1) * SIDE / side


def _disk(radius: float, sd: float) -> np.ndarray:
    """Weights [5, 5]: equal ones within the radius, smoothed by a Gaussian over three pixels along each axis."""
    square = np.arange(-REACH, REACH + 1) ** 2
    disk = (square[:, None] + square[None] <= radius**2).astype(np.float64)
    line = np.exp(-0.5 * (np.arange(-1, 2) / sd) ** 2)
    for axis in (0, 1):
        disk = np.apply_along_axis(np.convolve, axis, disk, line / line.sum(), "same")
    return disk


class _Places(NamedTuple):
    """Where the pixels of a line lie between those of the image: `part` / `whole` of the way from `low` to `high`."""

    low: np.ndarray
    high: np.ndarray
    part: np.ndarray
    whole: int


def _places(side: int, factor: float) -> _Places:
    """A line of `side` pixels enlarged: its middle part stretched to a whole number of pixels, their ends kept."""
    kept = math.ceil(side / factor)
    enlarged = max(round(kept * factor), 2)
    number = np.arange(side) + (enlarged - side) // 2
    low, part = np.divmod(number * (kept - 1), enlarged - 1)
    start = (side - kept) // 2
    return _Places(start + low, start + np.minimum(low + 1, kept - 1), part, enlarged - 1)


def _zoomed(images: np.ndarray, factor: float) -> np.ndarray:
    """Bilinear enlargement [n, H, W, C] float64: a quotient of whole numbers."""
    rows, columns = (_places(side, factor) for side in images.shape[1:3])
    values, part = images.astype(np.int64), rows.part[:, None, None]
    down = (rows.whole - part) * values[:, rows.low] + part * values[:, rows.high]
    part = columns.part[:, None]
    across = (columns.whole - part) * down[:, :, columns.low] + part * down[:, :, columns.high]
    return np.asarray(across / (rows.whole * columns.whole))
