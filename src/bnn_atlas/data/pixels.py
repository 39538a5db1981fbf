"""Whole-number arithmetic of grey values, random numbers of images, and pixels that never vary in the fitted rows.

The likelihood says nothing about the weights of such dead inputs, so their posterior is their prior, and a test image
that lights them up goes through random weights. A maximum of the posterior has these weights at the mode of the prior,
0 for a normal prior. Izmailov et al. 2021, Dangers of Bayesian Model Averaging under Covariate Shift.
"""

import numpy as np

from bnn_atlas.data import DataError
from bnn_atlas.data.split_data import SplitData, as_features

KERNEL = 1 << 16
"""The weights of a blur are integers that sum to this."""
SIDE = 32
"""Side in pixels of the images for which the severities were chosen."""


def divided(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """The quotient of two whole numbers rounded to the nearest, halves up, as uint8."""
    return ((2 * numerator + denominator) // (2 * denominator)).astype(np.uint8)


def whole_weights(weights: np.ndarray) -> np.ndarray:
    """Weights of a symmetric blur as whole numbers that add up to KERNEL; the middle one takes the remainder."""
    found = np.rint(weights / weights.sum() * KERNEL)
    found[tuple(size // 2 for size in weights.shape)] += KERNEL - found.sum()
    return found


def stream(seed: int, image: int, kind: int = 0) -> np.random.Generator:
    """Random numbers for the image with index `image` in a set, from a Philox stream with key seed + 2^64 kind.

    The numbers depend on nothing else; each kind of corruption has its own streams.
    """
    return np.random.Generator(np.random.Philox(key=seed + (kind << 64), counter=image << 128))


NOISE_SD = (0.1, 0.2, 0.4, 0.7, 1.0)
"""Noise sd in units of the full range, at severities 1 to 5. We chose these values; the paper scales noise in all
pixels."""
STREAM = 5


def dead_inputs(data: SplitData) -> np.ndarray:
    """Mask, in the shape of a row's features, of the inputs that are the same in all rows of the likelihood."""
    rows = np.concatenate(data.split[:2]) if data.validation_in_likelihood else data.split.train
    x = as_features(data.dataset.x[rows], data.features)
    return np.asarray((x == x[:1]).all(axis=0))


def second_moments(data: SplitData) -> np.ndarray:
    """(1/n) sum_i x_i x_i' [inputs, inputs] over the rows x_i of the likelihood, scaled as the network sees them."""
    rows = np.concatenate(data.split[:2]) if data.validation_in_likelihood else data.split.train
    size = int(np.prod(data.shape))
    total = np.zeros((size, size))
    for start in range(0, len(rows), ROWS_TOGETHER):
        x = data.scaled(data.dataset.x[rows[start : start + ROWS_TOGETHER]]).reshape(-1, size).astype(np.float64)
        total += x.T @ x
    return total / len(rows)


ROWS_TOGETHER = 5000


def noise_in(kind: str, severity: int, images: np.ndarray, dead: np.ndarray, seed: int) -> np.ndarray:
    """Images [n, H, W, C] uint8 with noise in some pixels: x becomes x + 255 sd z with z ~ N(0, 1), cut to [0, 255].

    The kind `dead_pixels` adds noise only to the pixels `dead` [H, W, C], `live_pixels` to all others. z is the same
    for both kinds and at every severity, and depends only on the seed and the index of the image.

    Raises DataError if there is no pixel to add noise to.
    """
    chosen = dead if kind == "dead_pixels" else ~dead
    if not chosen.any():
        which = "no" if kind == "dead_pixels" else "every"
        raise DataError(
            f"shift '{kind}{severity}': {which} pixel is the same in all rows that the likelihood sees, so there is "
            "no pixel to add noise to; leave the shift out"
        )
    result, sd = images.copy(), 255 * NOISE_SD[severity - 1]
    for row, image in enumerate(images):
        noise = stream(seed, row, STREAM).standard_normal(image.shape)
        result[row] = np.where(chosen, np.rint(np.clip(image + sd * noise, 0, 255)), image)
    return result
