"""Noise of light, of dead and hot pixels, and in proportion to the pixel (constants: `bnn_atlas.data.corruptions`).

An image's random numbers are the same at every severity, so that what a severity changes is changed by all higher ones.
"""

from functools import cache

import numpy as np
from scipy.special import pdtr

from bnn_atlas.data.pixels import divided, stream

SHOT_RATE = (500, 250, 100, 75, 50)
IMPULSE_SHARE = (0.01, 0.02, 0.03, 0.05, 0.07)
SPECKLE_SD = (0.06, 0.1, 0.12, 0.16, 0.2)
SHOT, IMPULSE, SPECKLE = 1, 2, 3
"""Numbers of the kinds' streams."""


def shot_noise(images: np.ndarray, severity: int, seed: int, first: int) -> np.ndarray:
    """Pixel x becomes 255 k / rate, at most white, with k ~ Poisson(rate x / 255) for each pixel and channel."""
    rate = SHOT_RATE[severity - 1]
    below, most = _poisson(rate)
    result = np.empty_like(images)
    for row, image in enumerate(images):
        uniform = stream(seed, first + row, SHOT).random(image.shape)
        # Row x of the table holds x + P(count <= k): the place of x + u in it is the count, behind x whole rows.
        count = np.searchsorted(below, image + uniform, side="right") - image.astype(np.int64) * most
        result[row] = divided(255 * np.minimum(count, rate), np.array(rate))
    return result


def impulse_noise(images: np.ndarray, severity: int, seed: int, first: int) -> np.ndarray:
    """A share of all pixels, each channel by itself, becomes white or black with equal probability."""
    half = IMPULSE_SHARE[severity - 1] / 2
    result = images.copy()
    for row in range(len(images)):
        uniform = stream(seed, first + row, IMPULSE).random(images.shape[1:])
        result[row][uniform < half] = 255
        result[row][uniform >= 1 - half] = 0
    return result


def speckle_noise(images: np.ndarray, severity: int, seed: int, first: int) -> np.ndarray:
    """Pixel x becomes x + x sd z with z ~ N(0, 1) for each pixel and channel, cut to [0, 255]."""
    result, sd = np.empty_like(images), SPECKLE_SD[severity - 1]
    for row, image in enumerate(images):
        noise = stream(seed, first + row, SPECKLE).standard_normal(image.shape)
        result[row] = np.rint(np.clip(image + image * (sd * noise), 0, 255))
    return result


@cache
def _poisson(rate: int) -> tuple[np.ndarray, int]:
    """Table x + P(count <= k), count ~ Poisson(rate x / 255), of x in 0..255 and all likely k, flat; number of k."""
    most = rate + 12 * int(rate**0.5) + 20
    levels = np.arange(256.0)[:, None]
    return (levels + pdtr(np.arange(most), rate * levels / 255)).ravel(), most
