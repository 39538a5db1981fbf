"""Corruptions of images at five severities, with the same bytes on every machine.

Operations and severities are those of CIFAR-10-C (Hendrycks and Dietterich 2019, Benchmarking Neural Network
Robustness to Common Corruptions and Perturbations, section 3; constants of their script for 32 x 32 images):

| corruption     | constant                                           | severity 1 to 5               |
|----------------|----------------------------------------------------|-------------------------------|
| gaussian_noise | sd in units of the full range                      | 0.04, 0.06, 0.08, 0.09, 0.10  |
| blur           | sd of a Gaussian in pixels (their `gaussian_blur`) | 0.4, 0.6, 0.7, 0.8, 1         |
| brightness     | added to the value V of HSV, in units of the range | 0.05, 0.10, 0.15, 0.20, 0.30  |
| contrast       | factor of the distance to the image's mean         | 0.75, 0.5, 0.4, 0.3, 0.15     |
| pixelate       | side of the coarse image as a share of the side    | 0.95, 0.9, 0.85, 0.75, 0.65   |

Other sizes: intensities stay as they are. A blur grows with the shorter side above 32 pixels; below, its sd starts at
0.4 pixels all the same, since a narrower blur changes nothing, and the steps from there shrink with the side, to half
at most. Pixelation is relative to each side, rounded down; on sides below 20 pixels some severities are the same
(8 pixels become 7, 7, 6, 6, 5) and their order is a matter of alignment.

Results are rounded to the nearest grey value (CIFAR-10-C cuts off), in integers where a real number would let the
last bit of a machine's arithmetic decide.
"""

from collections.abc import Callable

import numpy as np
from PIL import Image
from scipy.ndimage import correlate1d

NOISE_SD = (0.04, 0.06, 0.08, 0.09, 0.10)
BLUR_SD = (0.4, 0.6, 0.7, 0.8, 1.0)
BRIGHTNESS_PERCENT = (5, 10, 15, 20, 30)
CONTRAST_PERCENT = (75, 50, 40, 30, 15)
PIXELATE_PERCENT = (95, 90, 85, 75, 65)
SIDE = 32
"""Pixels of the images that the severities were chosen for."""
KERNEL = 1 << 16
"""The weights of a blur are integers that sum to this."""


def gaussian_noise(images: np.ndarray, severity: int, seed: int, first: int) -> np.ndarray:
    """Pixel x becomes x + 255 sd z with z ~ N(0, 1) for each pixel and channel, cut to [0, 255].

    Image i of the set has its own Philox stream, key `seed` and counter i 2^128, where images[0] is image
    `first`: its noise depends on nothing but seed and i, and is the same z at every severity.
    """
    noise = np.empty(images.shape)
    for row in range(len(images)):
        stream = np.random.Philox(key=seed, counter=(first + row) << 128)
        np.random.Generator(stream).standard_normal(out=noise[row])
    return np.rint(np.clip(images + 255 * NOISE_SD[severity - 1] * noise, 0, 255)).astype(np.uint8)


def blur(images: np.ndarray, severity: int, seed: int, first: int) -> np.ndarray:
    """Convolution with a Gaussian cut at 4 sd; the outermost pixels are continued beyond the edge."""
    weights = _gaussian_weights(blur_sd(min(images.shape[1:3]), severity))
    once = correlate1d(images, weights, axis=1, output=np.float64, mode="nearest")
    twice = correlate1d(once, weights, axis=2, output=np.float64, mode="nearest")
    return np.floor(twice / KERNEL**2 + 0.5).astype(np.uint8)


def brightness(images: np.ndarray, severity: int, seed: int, first: int) -> np.ndarray:
    """The value V = max over channels raised by a share of the range, at most to white; hue and saturation stay.

    x (V + c) / V in each channel; black becomes grey c.
    """
    value = images.max(axis=3, keepdims=True).astype(np.int32)
    added = 255 * BRIGHTNESS_PERCENT[severity - 1]
    raised = np.minimum(100 * value + added, 25500)
    black = value == 0
    return _divided(np.where(black, added, images * raised), np.where(black, 100, 100 * value))


def contrast(images: np.ndarray, severity: int, seed: int, first: int) -> np.ndarray:
    """Pixel x becomes m + c (x - m) with m the mean of the image's channel; a constant image stays as it is."""
    percent, pixels = CONTRAST_PERCENT[severity - 1], images.shape[1] * images.shape[2]
    total = images.sum(axis=(1, 2), keepdims=True, dtype=np.int64)
    return _divided(percent * pixels * images.astype(np.int64) + (100 - percent) * total, np.array(100 * pixels))


def pixelate(images: np.ndarray, severity: int, seed: int, first: int) -> np.ndarray:
    """Reduced with Pillow's box filter and enlarged to the old size with the same."""
    height, width = images.shape[1:3]
    coarse = (coarse_side(width, severity), coarse_side(height, severity))
    result = np.empty_like(images)
    for row, image in enumerate(images):
        picture = Image.fromarray(image[..., 0] if image.shape[2] == 1 else image)
        enlarged = picture.resize(coarse, Image.Resampling.BOX).resize((width, height), Image.Resampling.BOX)
        result[row] = np.asarray(enlarged).reshape(image.shape)
    return result


def coarse_side(side: int, severity: int) -> int:
    """Pixels of a side of the coarse image, at least one."""
    return max(1, side * PIXELATE_PERCENT[severity - 1] // 100)


def blur_sd(side: int, severity: int) -> float:
    """Standard deviation of a blur in pixels, for an image whose shorter side has `side` pixels."""
    least, sd, share = BLUR_SD[0], BLUR_SD[severity - 1], side / SIDE
    return sd * share if share >= 1 else least + (sd - least) * max(0.5, share)


CORRUPTION: dict[str, Callable[[np.ndarray, int, int, int], np.ndarray]] = {
    "gaussian_noise": gaussian_noise,
    "blur": blur,
    "brightness": brightness,
    "contrast": contrast,
    "pixelate": pixelate,
}
"""Name -> function of (images [n, H, W, C] uint8, severity, seed, number of the first image in its set)."""


def _gaussian_weights(sd: float) -> np.ndarray:
    """Weights [2 r + 1] of a Gaussian with r = 4 sd, whole numbers that add up to KERNEL."""
    radius = int(4 * sd + 0.5)
    density = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sd) ** 2)
    weights = np.rint(density / density.sum() * KERNEL)
    weights[radius] += KERNEL - weights.sum()
    return weights


def _divided(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """The quotient of two whole numbers rounded to the nearest, halves up."""
    return ((2 * numerator + denominator) // (2 * denominator)).astype(np.uint8)
