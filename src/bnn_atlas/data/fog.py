"""Images in fog (constants: `bnn_atlas.data.corruptions`)."""

import numpy as np

from bnn_atlas.data.pixels import stream

FOG = ((0.2, 3.0), (0.5, 3.0), (0.75, 2.5), (1.0, 2.0), (1.5, 1.75))
"""Thickness in units of the full range, and by how much the fog's waves fall from one scale to the next."""
FIRST_WAVE = 100.0
STREAM = 4
"""Number of the kind's streams."""


def fog(images: np.ndarray, severity: int, seed: int, first: int) -> np.ndarray:
    """Pixel x becomes (x + 255 c f) m / (m + 255 c), with the fog f in [0, 1] and the image's largest value m.

    f is the same in all channels, and every image has its own: a map with a side of the smallest power of two that
    covers the image, cut to its size.
    """
    thickness, decay = FOG[severity - 1]
    height, width = images.shape[1:3]
    side = max(2, 1 << (max(height, width) - 1).bit_length())
    uniform = np.stack([stream(seed, first + row, STREAM).random(side**2 - 1) for row in range(len(images))])
    cover = 255 * thickness * plasma(uniform, side, decay)[:, :height, :width, None]
    brightest = images.max(axis=(1, 2, 3), keepdims=True).astype(np.float64)
    return np.rint((images + cover) * brightest / (brightest + 255 * thickness)).astype(np.uint8)


def plasma(uniform: np.ndarray, side: int, decay: float) -> np.ndarray:
    """Height maps [n, side, side] from 0 to 1 by the diamond-square algorithm on a torus.

    From the coarsest grid to the finest, the middle of every square is the mean of its corners, and the middle of every
    edge that of its ends and of the two middles beside it, each plus w times a uniform number in [-w, w]; w is
    FIRST_WAVE and falls by the factor `decay` with every grid. `uniform` has the random numbers [n, side^2 - 1] in
    [0, 1). Fournier, Fussell and Carpenter 1982, as in the published script.
    """
    heights = np.zeros((len(uniform), side, side))
    wave, used, step = FIRST_WAVE, 0, side
    while step >= 2:
        half, count = step // 2, (side // step) ** 2
        of_middles, of_rows, of_columns = np.split(uniform[:, used : used + 3 * count], 3, axis=1)
        corners = heights[:, ::step, ::step]
        ends = corners + np.roll(corners, -1, axis=1)
        heights[:, half::step, half::step] = _displaced(ends + np.roll(ends, -1, axis=2), wave, of_middles)
        middles = heights[:, half::step, half::step]
        along, down = (corners + np.roll(corners, -1, axis=axis) for axis in (2, 1))
        above, beside = (middles + np.roll(middles, 1, axis=axis) for axis in (1, 2))
        heights[:, ::step, half::step] = _displaced(along + above, wave, of_rows)
        heights[:, half::step, ::step] = _displaced(down + beside, wave, of_columns)
        wave, used, step = wave / decay, used + 3 * count, half
    heights -= heights.min(axis=(1, 2), keepdims=True)
    return heights / heights.max(axis=(1, 2), keepdims=True)


def _displaced(total: np.ndarray, wave: float, uniform: np.ndarray) -> np.ndarray:
    """The mean of four heights plus w times a number in [-w, w]."""
    return total / 4 + wave * (wave * (2 * uniform.reshape(total.shape) - 1))
