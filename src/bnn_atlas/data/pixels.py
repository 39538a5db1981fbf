"""Grey values computed in whole numbers, so that no last bit of a machine's arithmetic decides over one."""

import numpy as np

KERNEL = 1 << 16
"""The weights of a blur are integers that sum to this."""
SIDE = 32
"""Pixels of the images that the severities were chosen for."""


def divided(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """The quotient of two whole numbers rounded to the nearest, halves up, as uint8."""
    return ((2 * numerator + denominator) // (2 * denominator)).astype(np.uint8)


def whole_weights(weights: np.ndarray) -> np.ndarray:
    """Weights of a symmetric blur as whole numbers that add up to KERNEL; the middle one takes what is left over."""
    found = np.rint(weights / weights.sum() * KERNEL)
    found[tuple(size // 2 for size in weights.shape)] += KERNEL - found.sum()
    return found


def stream(seed: int, image: int, kind: int = 0) -> np.random.Generator:
    """Random numbers of image number `image` of a set: of a Philox stream with key seed + 2^64 kind.

    They depend on nothing else, and kinds of corruption have streams of their own.
    """
    return np.random.Generator(np.random.Philox(key=seed + (kind << 64), counter=image << 128))
