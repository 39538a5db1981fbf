"""Corruptions of images at five severities, with the same bytes on every machine.

Operations and severities are those of CIFAR-10-C (Hendrycks and Dietterich 2019, Benchmarking Neural Network
Robustness to Common Corruptions and Perturbations, section 3; constants of their script for 32 x 32 images):

| corruption       | constant                                           | severity 1 to 5                     |
|------------------|----------------------------------------------------|-------------------------------------|
| gaussian_noise   | sd in units of the full range                      | 0.04, 0.06, 0.08, 0.09, 0.10        |
| shot_noise       | mean count of a white pixel                        | 500, 250, 100, 75, 50               |
| impulse_noise    | share of pixels that become black or white         | 0.01, 0.02, 0.03, 0.05, 0.07        |
| speckle_noise    | sd in units of the pixel                           | 0.06, 0.1, 0.12, 0.16, 0.2          |
| blur             | sd of a Gaussian in pixels (their `gaussian_blur`) | 0.4, 0.6, 0.7, 0.8, 1               |
| defocus_blur     | radius of a disk in pixels                         | 0.3, 0.4, 0.5, 1, 1.5               |
|                  | sd of the Gaussian that smooths it                 | 0.4, 0.5, 0.6, 0.2, 0.1             |
| zoom_blur        | largest enlargement                                | 1.06, 1.11, 1.15, 1.20, 1.25        |
| fog              | thickness in units of the full range               | 0.2, 0.5, 0.75, 1, 1.5              |
|                  | fall of its waves from scale to scale              | 3, 3, 2.5, 2, 1.75                  |
| brightness       | added to the value V of HSV, in units of the range | 0.05, 0.10, 0.15, 0.20, 0.30        |
| contrast         | factor of the distance to the image's mean         | 0.75, 0.5, 0.4, 0.3, 0.15           |
| saturate         | factor of the saturation S of HSV, and what is     | 0.3, 0.1, 1.5, 2, 2.5               |
|                  | added to it                                        | 0, 0, 0, 0.1, 0.2                   |
| jpeg_compression | quality                                            | 80, 65, 58, 50, 40                  |
| pixelate         | side of the coarse image as a share of the side    | 0.95, 0.9, 0.85, 0.75, 0.65         |

The other six of CIFAR-10-C need photographs, OpenCV or ImageMagick and are not computed here: motion_blur, glass_blur,
snow, frost, spatter, elastic_transform (`bnn_atlas.data.cifar10c` reads all nineteen).

Other sizes: intensities stay as they are. A blur grows with the shorter side above 32 pixels; below, its sd starts at
0.4 pixels all the same, since a narrower blur changes nothing, and the steps from there shrink with the side, to half
at most. Defocus has the same disk at every size, and a zoom moves the outermost pixels at least as far as at 32 pixels.
Pixelation is relative to each side, rounded down; on sides below 20 pixels some severities are the same (8 pixels
become 7, 7, 6, 6, 5) and their order is a matter of alignment.

Results are rounded to the nearest grey value (CIFAR-10-C cuts off), in integers where a real number would let the
last bit of a machine's arithmetic decide. Bytes of jpeg_compression are those of the JPEG library within Pillow.
"""

from collections.abc import Callable
from io import BytesIO

import numpy as np
from PIL import Image
from scipy.ndimage import correlate1d

from bnn_atlas.data.blurs import defocus_blur, zoom_blur
from bnn_atlas.data.fog import fog
from bnn_atlas.data.noises import impulse_noise, shot_noise, speckle_noise
from bnn_atlas.data.pixels import KERNEL, SIDE, divided, stream, whole_weights

NOISE_SD = (0.04, 0.06, 0.08, 0.09, 0.10)
BLUR_SD = (0.4, 0.6, 0.7, 0.8, 1.0)
BRIGHTNESS_PERCENT = (5, 10, 15, 20, 30)
CONTRAST_PERCENT = (75, 50, 40, 30, 15)
SATURATE_TENTHS = ((3, 0), (1, 0), (15, 0), (20, 1), (25, 2))
JPEG_QUALITY = (80, 65, 58, 50, 40)
PIXELATE_PERCENT = (95, 90, 85, 75, 65)


def gaussian_noise(images: np.ndarray, severity: int, seed: int, first: int) -> np.ndarray:
    """Pixel x becomes x + 255 sd z with z ~ N(0, 1) for each pixel and channel, cut to [0, 255].

    Image i of the set has its own Philox stream, key `seed` and counter i 2^128, where images[0] is image
    `first`: its noise depends on nothing but seed and i, and is the same z at every severity.
    """
    noise = np.empty(images.shape)
    for row in range(len(images)):
        stream(seed, first + row).standard_normal(out=noise[row])
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
    return divided(np.where(black, added, images * raised), np.where(black, 100, 100 * value))


def contrast(images: np.ndarray, severity: int, seed: int, first: int) -> np.ndarray:
    """Pixel x becomes m + c (x - m) with m the mean of the image's channel; a constant image stays as it is."""
    percent, pixels = CONTRAST_PERCENT[severity - 1], images.shape[1] * images.shape[2]
    total = images.sum(axis=(1, 2), keepdims=True, dtype=np.int64)
    return divided(percent * pixels * images.astype(np.int64) + (100 - percent) * total, np.array(100 * pixels))


def saturate(images: np.ndarray, severity: int, seed: int, first: int) -> np.ndarray:
    """The saturation S = (V - least channel) / V becomes a S + b, at most 1; hue and value V stay.

    V - (V - x) S' / S in each channel; grey, which has no hue, turns red where b > 0. For images with three channels.
    """
    factor, added = SATURATE_TENTHS[severity - 1]
    pixels = images.astype(np.int64)
    value, distance = pixels.max(axis=3, keepdims=True), np.ptp(pixels, axis=3, keepdims=True)
    new = np.minimum(factor * distance + added * value, 10 * value)
    red = np.arange(images.shape[3]) == 0
    coloured = 10 * distance * value - (value - pixels) * new
    grey = np.where(red, 10, 10 - added) * value
    return divided(np.where(distance > 0, coloured, grey), np.where(distance > 0, 10 * distance, 10))


def jpeg_compression(images: np.ndarray, severity: int, seed: int, first: int) -> np.ndarray:
    """Written as JPEG by Pillow and read again; images of one channel as grey ones."""
    result = np.empty_like(images)
    for row, image in enumerate(images):
        written = BytesIO()
        _picture(image).save(written, "JPEG", quality=JPEG_QUALITY[severity - 1])
        result[row] = np.asarray(Image.open(written)).reshape(image.shape)
    return result


def pixelate(images: np.ndarray, severity: int, seed: int, first: int) -> np.ndarray:
    """Reduced with Pillow's box filter and enlarged to the old size with the same."""
    height, width = images.shape[1:3]
    coarse = (coarse_side(width, severity), coarse_side(height, severity))
    result = np.empty_like(images)
    for row, image in enumerate(images):
        enlarged = _picture(image).resize(coarse, Image.Resampling.BOX).resize((width, height), Image.Resampling.BOX)
        result[row] = np.asarray(enlarged).reshape(image.shape)
    return result


def coarse_side(side: int, severity: int) -> int:
    """Pixels of a side of the coarse image, at least one."""
    return max(1, side * PIXELATE_PERCENT[severity - 1] // 100)


def blur_sd(side: int, severity: int) -> float:
    """Standard deviation of a blur in pixels, for an image whose shorter side has `side` pixels."""
    least, sd, share = BLUR_SD[0], BLUR_SD[severity - 1], side / SIDE
    return sd * share if share >= 1 else least + (sd - least) * max(0.5, share)


def _picture(image: np.ndarray) -> Image.Image:
    """An image [H, W, 1 or 3] for Pillow."""
    return Image.fromarray(image[..., 0] if image.shape[2] == 1 else image)


CORRUPTION: dict[str, Callable[[np.ndarray, int, int, int], np.ndarray]] = {
    "gaussian_noise": gaussian_noise,
    "shot_noise": shot_noise,
    "impulse_noise": impulse_noise,
    "speckle_noise": speckle_noise,
    "blur": blur,
    "defocus_blur": defocus_blur,
    "zoom_blur": zoom_blur,
    "fog": fog,
    "brightness": brightness,
    "contrast": contrast,
    "saturate": saturate,
    "jpeg_compression": jpeg_compression,
    "pixelate": pixelate,
}
"""Name -> function of (images [n, H, W, C] uint8, severity, seed, number of the first image in its set)."""


def _gaussian_weights(sd: float) -> np.ndarray:
    """Weights [2 r + 1] of a Gaussian with r = 4 sd, whole numbers that add up to KERNEL."""
    radius = int(4 * sd + 0.5)
    return whole_weights(np.exp(-0.5 * (np.arange(-radius, radius + 1) / sd) ** 2))
