"""Corruptions against other computations of the same thing: colorsys, SciPy and Pillow."""

import colorsys
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage, stats

from bnn_atlas.config.data.shift import PUBLISHED_CORRUPTIONS, parse_shift
from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.config.settings import load_study
from bnn_atlas.data.corruptions import CORRUPTION, FOG_STREAM, SHOT, plasma, zoom_factors
from bnn_atlas.data.errors import DataError
from bnn_atlas.data.pixels import stream
from bnn_atlas.data.shift import apply_shift
from tests.config.folders import run_edit, study_file
from tests.data.test_published_splits import REGISTRY

OWN_NAMES = {"blur": "gaussian_blur"}


def _noise(n: int, shape: tuple[int, int, int], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(256, size=(n, *shape), dtype=np.uint8)


def _apply(name: str, images: np.ndarray, seed: int = 0) -> np.ndarray:
    return apply_shift(parse_shift(name), images, seed)


def test_names_are_the_published_ones() -> None:
    assert {OWN_NAMES.get(name, name) for name in CORRUPTION} < set(PUBLISHED_CORRUPTIONS)


@pytest.mark.parametrize("severity", [1, 2, 3, 4, 5])
def test_saturation_is_changed_in_hsv(severity: int) -> None:
    images = _noise(2, (9, 8, 3))
    images[0, 0, :4] = [[0, 0, 0], [128, 128, 128], [255, 255, 255], [255, 0, 0]]
    factor, added = ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2))[severity - 1]
    expected = np.empty(images.shape)
    for place in np.ndindex(images.shape[:3]):
        hue, saturation, value = colorsys.rgb_to_hsv(*(images[place] / 255))
        expected[place] = colorsys.hsv_to_rgb(hue, min(saturation * factor + added, 1), value)
    np.testing.assert_allclose(_apply(f"saturate{severity}", images), 255 * expected, atol=0.5 + 1e-9)


def test_grey_images_have_no_saturation(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="shift 'saturate2': grey images have no saturation"):
        _apply("saturate2", np.zeros((1, 8, 8, 1), np.uint8))

    def edit(study: dict[str, Any]) -> None:
        split = {"kind": "random", "scaling": "channels"}
        changes = {"dataset": "digits_images", "likelihood": {"kind": "categorical"}, "split": split}
        run_edit(**changes, evaluate={"shifts": ["fog1", "saturate2"]})(study)
        del study["figures"]

    with pytest.raises(ConfigError, match="'saturate2' changes colours, and the images of 'digits_images' have 1 chan"):
        load_study(study_file(tmp_path, edit), "laptop", REGISTRY)


@pytest.mark.parametrize("shape", [(9, 14, 3), (28, 28, 1)])
@pytest.mark.parametrize("severity", [1, 4, 5])
def test_shot_noise_is_a_poisson_count(shape: tuple[int, int, int], severity: int) -> None:
    """The quantile of each pixel's uniform number."""
    images, rate = _noise(2, shape), {1: 500, 4: 75, 5: 50}[severity]
    found = _apply(f"shot_noise{severity}", images, 3)
    for number, image in enumerate(images):
        uniform = stream(3, number, SHOT).random(shape)
        count = stats.poisson.ppf(uniform, rate * (image / 255))
        np.testing.assert_allclose(found[number], np.minimum(255 * count / rate, 255), atol=0.5 + 1e-9)
    assert (found[images == 0] == 0).all()


def test_impulses_are_black_and_white_and_stay_at_higher_severities() -> None:
    grey = np.full((20, 28, 28, 1), 100, dtype=np.uint8)
    before = np.zeros(grey.shape, bool)
    for severity, share in enumerate((0.01, 0.02, 0.03, 0.05, 0.07), start=1):
        found = _apply(f"impulse_noise{severity}", grey, 1)
        changed = found != 100
        assert set(np.unique(found)) == {0, 100, 255}
        error = 4 * np.sqrt(share / grey.size)
        assert changed.mean() == pytest.approx(share, abs=error)
        assert (found == 255).mean() == pytest.approx(share / 2, abs=error)
        assert (changed[before]).all()
        before = changed


def test_speckles_are_in_proportion_to_the_pixel() -> None:
    images = np.concatenate([np.full((30, 20, 20, 1), level) for level in (0, 50, 100)]).astype(np.uint8)
    noise = _apply("speckle_noise3", images, 2).astype(float) - images
    assert (noise[:30] == 0).all()
    assert noise[30:60].std() == pytest.approx(0.12 * 50, rel=0.03)
    assert noise[60:].std() == pytest.approx(0.12 * 100, rel=0.03)


@pytest.mark.parametrize("kinds", [("gaussian_noise", "speckle_noise")])
def test_kinds_have_noise_of_their_own(kinds: tuple[str, str]) -> None:
    grey = np.full((4, 28, 28, 3), 128, dtype=np.uint8)
    one, other = (_apply(f"{kind}3", grey, 1).astype(float).ravel() for kind in kinds)
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.05


@pytest.mark.parametrize("severity", [1, 2, 3, 4, 5])
def test_defocus_is_a_smoothed_disk(severity: int) -> None:
    """Written as a mean over the disk's pixels of the image smoothed over three pixels."""
    images = _noise(3, (12, 15, 3))
    radius, sd = ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1))[severity - 1]
    side = np.exp(-1 / (2 * sd**2))
    line = np.array([side, 1, side]) / (1 + 2 * side)
    padded = np.pad(images.astype(float), ((0, 0), (3, 3), (3, 3), (0, 0)), mode="reflect")
    smooth = ndimage.convolve1d(ndimage.convolve1d(padded, line, axis=1), line, axis=2)
    inside = [(i, j) for i in range(-2, 3) for j in range(-2, 3) if i * i + j * j <= radius**2]
    exact = np.mean([np.roll(smooth, (i, j), axis=(1, 2))[:, 3:-3, 3:-3] for i, j in inside], axis=0)
    np.testing.assert_allclose(_apply(f"defocus_blur{severity}", images), exact, atol=0.55)
    constant = np.full((1, 12, 15, 3), 255, dtype=np.uint8)
    np.testing.assert_array_equal(_apply(f"defocus_blur{severity}", constant), constant)


@pytest.mark.parametrize("side", [8, 28, 32])
@pytest.mark.parametrize("severity", [1, 5])
def test_zoom_is_a_mean_of_enlargements(side: int, severity: int) -> None:
    """With SciPy's linear zoom of the middle part, as in the published script."""
    images, factors = _noise(2, (side, side, 3)), zoom_factors(side, severity)
    total = images.astype(float)
    for factor in factors:
        kept = int(np.ceil(side / factor))
        start = (side - kept) // 2
        part = images[:, start : start + kept, start : start + kept].astype(float)
        zoomed = ndimage.zoom(part, (1, factor, factor, 1), order=1)
        trim = (zoomed.shape[1] - side) // 2
        total += zoomed[:, trim : trim + side, trim : trim + side]
    np.testing.assert_allclose(_apply(f"zoom_blur{severity}", images), total / (len(factors) + 1), atol=0.5 + 1e-6)


def test_factors_of_the_zoom() -> None:
    """NumPy's arange lets the end in where rounding makes a step too many, and the published images have it."""
    assert [len(zoom_factors(32, severity)) for severity in range(1, 6)] == [7, 12, 16, 21, 26]
    for severity in range(1, 6):
        factors = zoom_factors(32, severity)
        np.testing.assert_allclose(factors, 1 + 0.01 * np.arange(len(factors)), atol=1e-12)
        np.testing.assert_array_equal(factors, zoom_factors(50, severity))
        np.testing.assert_allclose(8 * (zoom_factors(8, severity) - 1), 32 * (factors - 1), atol=1e-12)


def test_height_maps_on_the_smallest_torus() -> None:
    """A map of two by two pixels: a corner at 0, the middle, and the two edges, each with its random number."""
    uniform = np.array([[0.9, 0.2, 0.7]])
    middle = 1e4 * 0.8
    row, column = middle / 2 + 1e4 * (2 * 0.2 - 1), middle / 2 + 1e4 * (2 * 0.7 - 1)
    heights = np.array([[0, row], [column, middle]])
    expected = (heights - heights.min()) / np.ptp(heights)
    np.testing.assert_allclose(plasma(uniform, 2, 3.0)[0], expected, atol=1e-12)


def test_finer_waves_are_smaller_where_they_fall_faster() -> None:
    uniform = np.random.default_rng(0).random((20, 32**2 - 1))
    maps = [plasma(uniform, 32, decay) for decay in (3.0, 2.0, 1.75)]
    for heights in maps:
        np.testing.assert_array_equal(heights.min(axis=(1, 2)), 0)
        np.testing.assert_array_equal(heights.max(axis=(1, 2)), 1)
    rough = [np.abs(np.diff(heights, axis=2)).mean() for heights in maps]
    assert rough[0] < rough[1] < rough[2]


@pytest.mark.parametrize(("shape", "side"), [((28, 28, 1), 32), ((8, 8, 3), 8), ((17, 40, 3), 64)])
def test_fog_covers_and_takes_the_contrast(shape: tuple[int, int, int], side: int) -> None:
    """Each image under a map of its own, in units of the full range; black ones, without light, stay black."""
    images = _noise(3, shape) // 2
    images[2] = 0
    found = _apply("fog3", images, 6)
    for number in (0, 1):
        uniform = stream(6, number, FOG_STREAM).random(side**2 - 1)
        cover = 0.75 * plasma(uniform[None], side, 2.5)[0, : shape[0], : shape[1], None]
        image = images[number] / 255
        exact = (image + cover) * image.max() / (image.max() + 0.75)
        np.testing.assert_allclose(found[number], 255 * exact, atol=0.5 + 1e-9)
    assert not found[2].any()


@pytest.mark.parametrize(("channels", "mode"), [(1, "L"), (3, "RGB")])
@pytest.mark.parametrize(("severity", "quality"), [(1, 80), (5, 40)])
def test_jpeg_is_that_of_pillow(channels: int, mode: str, severity: int, quality: int) -> None:
    images = _noise(2, (16, 24, channels))
    found = _apply(f"jpeg_compression{severity}", images)
    for image, compressed in zip(images, found, strict=True):
        written = BytesIO()
        Image.fromarray(image.squeeze(), mode).save(written, "JPEG", quality=quality)
        np.testing.assert_array_equal(compressed.squeeze(), np.asarray(Image.open(written)))


@pytest.mark.parametrize("name", ["fog0", "saturate6", "jpeg_compression", "zoom_blur10", "shot_noise-1"])
def test_severities_outside_1_to_5_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"there is no shift '{name}'; allowed are .* a severity from 1 to 5"):
        parse_shift(name)
