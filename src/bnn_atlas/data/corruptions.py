"""Rotations of images, and corruptions at five severities, with the same bytes on every machine.

Operations and severities follow CIFAR-10-C (Hendrycks and Dietterich 2019, Benchmarking Neural Network Robustness to
Common Corruptions and Perturbations, section 3; constants of their script for 32 x 32 images):

| corruption       | constant                                           | severity 1 to 5                     |
|------------------|----------------------------------------------------|-------------------------------------|
| gaussian_noise   | sd in units of the full range                      | 0.04, 0.06, 0.08, 0.09, 0.10        |
| shot_noise       | mean count of a white pixel                        | 500, 250, 100, 75, 50               |
| impulse_noise    | fraction of pixels that become black or white      | 0.01, 0.02, 0.03, 0.05, 0.07        |
| speckle_noise    | sd in units of the pixel                           | 0.06, 0.1, 0.12, 0.16, 0.2          |
| blur             | sd of a Gaussian in pixels (their `gaussian_blur`) | 0.4, 0.6, 0.7, 0.8, 1               |
| defocus_blur     | radius of a disk in pixels                         | 0.3, 0.4, 0.5, 1, 1.5               |
|                  | sd of the Gaussian that smooths it                 | 0.4, 0.5, 0.6, 0.2, 0.1             |
| zoom_blur        | largest enlargement                                | 1.06, 1.11, 1.15, 1.20, 1.25        |
| fog              | thickness in units of the full range               | 0.2, 0.5, 0.75, 1, 1.5              |
|                  | decay of its waves from scale to scale             | 3, 3, 2.5, 2, 1.75                  |
| brightness       | added to the value V of HSV, in units of the range | 0.05, 0.10, 0.15, 0.20, 0.30        |
| contrast         | factor of the distance to the image's mean         | 0.75, 0.5, 0.4, 0.3, 0.15           |
| saturate         | factor of the saturation S of HSV                  | 0.3, 0.1, 1.5, 2, 2.5               |
|                  | added to S after that                              | 0, 0, 0, 0.1, 0.2                   |
| jpeg_compression | quality                                            | 80, 65, 58, 50, 40                  |
| pixelate         | side of the coarse image as a fraction of the side | 0.95, 0.9, 0.85, 0.75, 0.65         |

The other six corruptions of CIFAR-10-C need photographs, OpenCV or ImageMagick and are not computed here: motion_blur,
glass_blur, snow, frost, spatter, elastic_transform (`bnn_atlas.data.evaluation_sets` reads all nineteen).

For other image sizes, intensities do not change. Above 32 pixels, a blur grows with the shorter side. Below 32 pixels,
the blur's sd still starts at 0.4 pixels, since a narrower blur changes nothing; the steps between severities shrink
with the side, at most to half. Defocus has the same disk at every size, and a zoom moves the outermost pixels at least
as far as at 32 pixels.
Pixelation is relative to each side, rounded down; on sides below 20 pixels some severities coincide (8 pixels become 7,
7, 6, 6, 5) and their order depends on alignment.

Results are rounded to the nearest grey value (CIFAR-10-C truncates). Integers are used wherever the last bit of
floating-point arithmetic would depend on the machine. The bytes of jpeg_compression depend on Pillow's JPEG library.
"""

import math
from collections.abc import Callable
from functools import cache
from io import BytesIO
from typing import NamedTuple

import numpy as np
from PIL import Image
from scipy.ndimage import correlate, correlate1d
from scipy.special import cosdg, pdtr, sindg

from bnn_atlas.config.data.shift import OF_COLOURS, OF_SPLIT, ROTATION, Shift, parse_shift
from bnn_atlas.data import DataError
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

    Image i of the set has its own Philox stream with key `seed` and counter i 2^128; images[0] is image `first`. So the
    image's z depends only on the seed and i, and is the same at every severity.
    """
    noise = np.empty(images.shape)
    for row in range(len(images)):
        stream(seed, first + row).standard_normal(out=noise[row])
    return np.rint(np.clip(images + 255 * NOISE_SD[severity - 1] * noise, 0, 255)).astype(np.uint8)


def blur(images: np.ndarray, severity: int, seed: int, first: int) -> np.ndarray:
    """Convolution with a Gaussian truncated at 4 sd; the outermost pixels are repeated beyond the edge."""
    weights = _gaussian_weights(blur_sd(min(images.shape[1:3]), severity))
    once = correlate1d(images, weights, axis=1, output=np.float64, mode="nearest")
    twice = correlate1d(once, weights, axis=2, output=np.float64, mode="nearest")
    return np.floor(twice / KERNEL**2 + 0.5).astype(np.uint8)


def brightness(images: np.ndarray, severity: int, seed: int, first: int) -> np.ndarray:
    """The value V = max over channels is raised by c, at most to white; hue and saturation do not change.

    Pixel x becomes x (V + c) / V in each channel; black becomes grey c.
    """
    value = images.max(axis=3, keepdims=True).astype(np.int32)
    added = 255 * BRIGHTNESS_PERCENT[severity - 1]
    raised = np.minimum(100 * value + added, 25500)
    black = value == 0
    return divided(np.where(black, added, images * raised), np.where(black, 100, 100 * value))


def contrast(images: np.ndarray, severity: int, seed: int, first: int) -> np.ndarray:
    """Pixel x becomes m + c (x - m), with m the mean of the image's channel; a constant image does not change."""
    percent, pixels = CONTRAST_PERCENT[severity - 1], images.shape[1] * images.shape[2]
    total = images.sum(axis=(1, 2), keepdims=True, dtype=np.int64)
    return divided(percent * pixels * images.astype(np.int64) + (100 - percent) * total, np.array(100 * pixels))


def saturate(images: np.ndarray, severity: int, seed: int, first: int) -> np.ndarray:
    """The saturation S = (V - smallest channel) / V becomes S' = a S + b, at most 1; hue and value V do not change.

    x becomes V - (V - x) S' / S in each channel; grey, which has no hue, turns red if b > 0. Needs three channels.
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
    """Write the images as JPEG with Pillow and read them back; images with one channel are written as grey."""
    result = np.empty_like(images)
    for row, image in enumerate(images):
        written = BytesIO()
        _picture(image).save(written, "JPEG", quality=JPEG_QUALITY[severity - 1])
        result[row] = np.asarray(Image.open(written)).reshape(image.shape)
    return result


def pixelate(images: np.ndarray, severity: int, seed: int, first: int) -> np.ndarray:
    """Shrink the images with Pillow's box filter and enlarge them to the original size with the same filter."""
    height, width = images.shape[1:3]
    coarse = (coarse_side(width, severity), coarse_side(height, severity))
    result = np.empty_like(images)
    for row, image in enumerate(images):
        enlarged = _picture(image).resize(coarse, Image.Resampling.BOX).resize((width, height), Image.Resampling.BOX)
        result[row] = np.asarray(enlarged).reshape(image.shape)
    return result


def coarse_side(side: int, severity: int) -> int:
    """Number of pixels on a side of the coarse image, at least one."""
    return max(1, side * PIXELATE_PERCENT[severity - 1] // 100)


def blur_sd(side: int, severity: int) -> float:
    """Standard deviation of a blur in pixels, for an image whose shorter side has `side` pixels."""
    least, sd, share = BLUR_SD[0], BLUR_SD[severity - 1], side / SIDE
    return sd * share if share >= 1 else least + (sd - least) * max(0.5, share)


def _picture(image: np.ndarray) -> Image.Image:
    """An image [H, W, 1 or 3] as a Pillow image."""
    return Image.fromarray(image[..., 0] if image.shape[2] == 1 else image)


def _gaussian_weights(sd: float) -> np.ndarray:
    """`whole_weights` [2 r + 1] of a Gaussian, r = 4 sd."""
    radius = int(4 * sd + 0.5)
    return whole_weights(np.exp(-0.5 * (np.arange(-radius, radius + 1) / sd) ** 2))


SHOT_RATE = (500, 250, 100, 75, 50)
IMPULSE_SHARE = (0.01, 0.02, 0.03, 0.05, 0.07)
SPECKLE_SD = (0.06, 0.1, 0.12, 0.16, 0.2)
SHOT, IMPULSE, SPECKLE = 1, 2, 3
"""Index of the random stream of each kind of corruption."""


def shot_noise(images: np.ndarray, severity: int, seed: int, first: int) -> np.ndarray:
    """Pixel x becomes 255 k / rate, at most white, with k ~ Poisson(rate x / 255) for each pixel and channel."""
    rate = SHOT_RATE[severity - 1]
    below, most = _poisson(rate)
    result = np.empty_like(images)
    for row, image in enumerate(images):
        uniform = stream(seed, first + row, SHOT).random(image.shape)
        # Row x of the table is x + P(count <= k), so the position of x + u in the table is x whole rows plus the count.
        count = np.searchsorted(below, image + uniform, side="right") - image.astype(np.int64) * most
        result[row] = divided(255 * np.minimum(count, rate), np.array(rate))
    return result


def impulse_noise(images: np.ndarray, severity: int, seed: int, first: int) -> np.ndarray:
    """A fraction of all pixels, in each channel independently, becomes white or black with equal probability."""
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
    """Flat table of x + P(count <= k), count ~ Poisson(rate x / 255), for x in 0..255 and all likely k; number of k."""
    most = rate + 12 * int(rate**0.5) + 20
    levels = np.arange(256.0)[:, None]
    return (levels + pdtr(np.arange(most), rate * levels / 255)).ravel(), most


DEFOCUS = ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1.0, 0.2), (1.5, 0.1))
"""Radius of the disk, and sd of the Gaussian over three pixels that smooths the disk's edge, in pixels."""
ZOOM_END = (1.06, 1.11, 1.16, 1.21, 1.26)
ZOOM_STEP = 0.01
REACH = 2
"""Pixels from the centre to the edge of the largest smoothed disk."""


def defocus_blur(images: np.ndarray, severity: int, seed: int, first: int) -> np.ndarray:
    """Convolution with a smoothed disk; beyond the edge the image is mirrored about its outermost pixels."""
    weights = whole_weights(_disk(*DEFOCUS[severity - 1]))[None, :, :, None]
    return np.floor(correlate(images, weights, output=np.float64, mode="mirror") / KERNEL + 0.5).astype(np.uint8)


def zoom_blur(images: np.ndarray, severity: int, seed: int, first: int) -> np.ndarray:
    """Mean of the image and its enlargements by `zoom_factors` about the centre, cropped to the image's size."""
    factors = zoom_factors(min(images.shape[1:3]), severity)
    total = images.astype(np.float64)
    for factor in factors:
        total += _zoomed(images, factor)
    return np.floor(total / (len(factors) + 1) + 0.5).astype(np.uint8)


def zoom_factors(side: int, severity: int) -> np.ndarray:
    """Factors 1, 1.01, ... as in the published script, including the end of the range if rounding admits it.

    If the shorter side is below SIDE pixels, the factors are larger, so that the outermost pixel moves as far as at
    SIDE pixels.
    """
    factors = np.arange(1, ZOOM_END[severity - 1], ZOOM_STEP)
    return factors if side >= SIDE else 1 + (factors - 1) * SIDE / side


def _disk(radius: float, sd: float) -> np.ndarray:
    """Weights [5, 5]: equal within the radius, smoothed by a Gaussian over three pixels along each axis."""
    square = np.arange(-REACH, REACH + 1) ** 2
    disk = (square[:, None] + square[None] <= radius**2).astype(np.float64)
    line = np.exp(-0.5 * (np.arange(-1, 2) / sd) ** 2)
    for axis in (0, 1):
        disk = np.apply_along_axis(np.convolve, axis, disk, line / line.sum(), "same")
    return disk


class _Places(NamedTuple):
    """Positions of a line's pixels between image pixels: `part` / `whole` of the way from `low` to `high`."""

    low: np.ndarray
    high: np.ndarray
    part: np.ndarray
    whole: int


def _places(side: int, factor: float) -> _Places:
    """A line of `side` pixels enlarged: its middle part stretched to a whole number of pixels, with its ends kept."""
    kept = math.ceil(side / factor)
    enlarged = max(round(kept * factor), 2)
    number = np.arange(side) + (enlarged - side) // 2
    low, part = np.divmod(number * (kept - 1), enlarged - 1)
    start = (side - kept) // 2
    return _Places(start + low, start + np.minimum(low + 1, kept - 1), part, enlarged - 1)


def _zoomed(images: np.ndarray, factor: float) -> np.ndarray:
    """Bilinear enlargement [n, H, W, C] in float64, computed as a quotient of whole numbers."""
    rows, columns = (_places(side, factor) for side in images.shape[1:3])
    values, part = images.astype(np.int64), rows.part[:, None, None]
    down = (rows.whole - part) * values[:, rows.low] + part * values[:, rows.high]
    part = columns.part[:, None]
    across = (columns.whole - part) * down[:, :, columns.low] + part * down[:, :, columns.high]
    return np.asarray(across / (rows.whole * columns.whole))


FOG = ((0.2, 3.0), (0.5, 3.0), (0.75, 2.5), (1.0, 2.0), (1.5, 1.75))
"""Thickness in units of the full range, and the factor by which the fog's waves decay from scale to scale."""
FIRST_WAVE = 100.0
FOG_STREAM = 4


def fog(images: np.ndarray, severity: int, seed: int, first: int) -> np.ndarray:
    """Pixel x becomes (x + 255 c f) m / (m + 255 c), with the fog f in [0, 1] and m the image's largest value.

    Every image has its own f, the same in all channels: a map whose side is the smallest power of two that covers the
    image, cropped to its size.
    """
    thickness, decay = FOG[severity - 1]
    height, width = images.shape[1:3]
    side = max(2, 1 << (max(height, width) - 1).bit_length())
    uniform = np.stack([stream(seed, first + row, FOG_STREAM).random(side**2 - 1) for row in range(len(images))])
    cover = 255 * thickness * plasma(uniform, side, decay)[:, :height, :width, None]
    brightest = images.max(axis=(1, 2, 3), keepdims=True).astype(np.float64)
    return np.rint((images + cover) * brightest / (brightest + 255 * thickness)).astype(np.uint8)


def plasma(uniform: np.ndarray, side: int, decay: float) -> np.ndarray:
    """Height maps [n, side, side] from 0 to 1 by the diamond-square algorithm on a torus.

    From the coarsest grid to the finest, the centre of a square is the mean of its four corners, and the middle of an
    edge the mean of its two ends and the two adjacent centres, each plus w times a uniform number in [-w, w]. w starts
    at FIRST_WAVE and is divided by `decay` with each grid. `uniform` holds random numbers [n, side^2 - 1] in [0, 1).
    Fournier, Fussell and Carpenter 1982, as in the published script.
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
    """The mean of four heights, plus w times a number in [-w, w]."""
    return total / 4 + wave * (wave * (2 * uniform.reshape(total.shape) - 1))


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


BATCH_BYTES = 2**24
"""Working memory of one float64 copy of a batch of images."""


def apply_shift(shift: Shift, images: np.ndarray, seed: int, first: int = 0) -> np.ndarray:
    """Rotate or corrupt images [n, H, W, C] uint8 (C = 1 or 3); shape and type do not change.

    Image i of the result depends only on the shift, the seed, image i and the index i, not on other images: a part of a
    set that starts at image `first` yields the same bytes as the whole set. Bytes are the same on every machine.
    Raises ConfigError for an unknown shift and DataError for arrays that are not images.
    """
    shift = parse_shift(shift.name)
    if shift.kind in OF_SPLIT:
        raise DataError(f"shift '{shift.name}' depends on the rows of a split; use `data.pixels.noise_in`")
    _check_images(images, seed, first)
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


def _check_images(images: np.ndarray, seed: int, first: int) -> None:
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
    """A position as whole pixels and a fraction in units of 2^-BITS."""
    fixed = np.rint(position * ONE).astype(np.int32)
    return fixed >> BITS, fixed & (ONE - 1)
