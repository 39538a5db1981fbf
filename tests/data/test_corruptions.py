"""Rotated and corrupted images, against other computations of the same thing: colorsys, SciPy and Pillow."""

import colorsys
import hashlib
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from pydantic import TypeAdapter
from scipy import ndimage, stats

from bnn_atlas.config.data.shift import (
    CORRUPTIONS,
    OF_COLOURS,
    OF_SPLIT,
    PUBLISHED_CORRUPTIONS,
    Shift,
    ShiftSetting,
    parse_shift,
)
from bnn_atlas.config.language.base import ConfigError, Model, validated
from bnn_atlas.config.settings import load_study
from bnn_atlas.data import DataError, corruptions
from bnn_atlas.data.corruptions import CORRUPTION, FOG_STREAM, SHOT, apply_shift, plasma, zoom_factors
from bnn_atlas.data.pixels import stream
from tests.config.folders import run_edit, study_file
from tests.data.test_published_splits import REGISTRY

SIZES = [(8, 8, 1), (28, 28, 1), (32, 32, 3), (17, 40, 3)]
ALL = [Shift("rotated", 30), *(Shift(kind, severity) for kind in CORRUPTIONS for severity in (1, 3, 5))]

SHIFTS = st.one_of(
    st.builds(Shift, st.just("rotated"), st.integers(0, 359)),
    st.builds(Shift, st.sampled_from((*CORRUPTIONS, *OF_SPLIT)), st.integers(1, 5)),
)


def _noise(n: int, shape: tuple[int, int, int], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(256, size=(n, *shape), dtype=np.uint8)


def _apply(name: str, images: np.ndarray, seed: int = 0) -> np.ndarray:
    return apply_shift(parse_shift(name), images, seed)


def _smooth(n: int, shape: tuple[int, int, int]) -> np.ndarray:
    """Blobs as wide as a fifth of the image, as photographs and digits have them."""
    side = min(shape[:2])
    blobs = ndimage.gaussian_filter(np.random.default_rng(3).normal(size=(n, *shape)), (0, side / 10, side / 10, 0))
    return np.clip(128 + 60 * blobs / blobs.std(), 0, 255).astype(np.uint8)


@given(SHIFTS)
def test_name_and_shift_are_inverse(shift: Shift) -> None:
    assert parse_shift(shift.name) == shift
    assert parse_shift(shift.name).name == shift.name
    assert shift.name.replace("_", "").isalnum()


def test_names_are_as_written() -> None:
    assert parse_shift("rotated30") == ("rotated", 30)
    assert parse_shift("gaussian_noise3") == ("gaussian_noise", 3)


@pytest.mark.parametrize(
    "name",
    ["", "rotated", "rotated360", "rotated030", "rotated-30", "rotated1.5", "blur0", "blur6", "fog0", "frost3", "blur",
     "Blur3", "blur3 ", "../blur3", "gaussian_noise", "3", "blur³", "zoom_blur10", "shot_noise-1"],
)  # fmt: skip
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(
        ConfigError, match=r"rotated<whole degrees from 0 to 359>.*gaussian_noise, shot_noise.*from 1 to 5"
    ):
        parse_shift(name)


class _Settings(Model):
    shifts: tuple[ShiftSetting, ...]


def test_configuration_reads_names() -> None:
    settings = validated(_Settings, {"shifts": ["rotated30", "blur2"]}, "study.yaml")
    assert settings.shifts == (Shift("rotated", 30), Shift("blur", 2))
    assert settings.model_dump(mode="json") == {"shifts": ["rotated30", "blur2"]}
    assert TypeAdapter(ShiftSetting).json_schema()["type"] == "string"
    with pytest.raises(ConfigError, match=r"^study\.yaml: shifts\.1 = 'blur9': there is no shift 'blur9'; allowed"):
        validated(_Settings, {"shifts": ["rotated30", "blur9"]}, "study.yaml")
    with pytest.raises(ConfigError, match=r"shifts\.0 = 3: there is no shift 3"):
        validated(_Settings, {"shifts": [3]}, "study.yaml")


@pytest.mark.parametrize("side", [5, 8, 28, 31])
@pytest.mark.parametrize("turns", [0, 1, 2, 3])
def test_quarter_turns_are_exact(side: int, turns: int) -> None:
    images = _noise(4, (side, side, 3))
    turned = apply_shift(Shift("rotated", 90 * turns), images, 0)
    np.testing.assert_array_equal(turned, np.rot90(images, turns, axes=(1, 2)))


def test_rotation_is_counter_clockwise_about_the_centre() -> None:
    """A dot at three o'clock goes to half past one and then, by 90 degrees, to twelve."""
    image = np.zeros((1, 21, 21, 1), dtype=np.uint8)
    image[0, 10, 18] = 200
    for degrees, place in ((45, (4, 16)), (90, (2, 10)), (180, (10, 2)), (270, (18, 10))):
        turned = apply_shift(Shift("rotated", degrees), image, 0)[0, :, :, 0]
        assert np.unravel_index(turned.argmax(), turned.shape) == place


@pytest.mark.parametrize("shape", [(28, 28, 1), (17, 40, 3)])
@pytest.mark.parametrize("degrees", [1, 15, 45, 137, 301])
def test_rotation_is_bilinear_with_zeros_outside(shape: tuple[int, int, int], degrees: int) -> None:
    """To within one grey value of the spline code of scipy in double precision."""
    images = _noise(3, shape)
    turned = apply_shift(Shift("rotated", degrees), images, 0)
    exact = ndimage.rotate(
        images.astype(np.float64), degrees, axes=(1, 2), reshape=False, order=1, mode="grid-constant"
    )
    np.testing.assert_allclose(turned, exact, atol=0.75)
    if degrees == 45:
        assert (turned[:, 0, 0] == 0).all()


def test_brightness_saturates_and_keeps_the_hue() -> None:
    """Severity 1 adds 12.75 to the largest channel, severity 5 adds 76.5."""
    image = np.array([[[[0, 0, 0], [100, 50, 200], [250, 0, 125], [255, 255, 255]]]], dtype=np.uint8)
    one = apply_shift(Shift("brightness", 1), image, 0)[0, 0]
    np.testing.assert_array_equal(one, [[13, 13, 13], [106, 53, 213], [255, 0, 128], [255, 255, 255]])
    five = apply_shift(Shift("brightness", 5), image, 0)[0, 0]
    np.testing.assert_array_equal(five, [[77, 77, 77], [128, 64, 255], [255, 0, 128], [255, 255, 255]])
    grey = np.array([[[[0], [100], [200], [250]]]], dtype=np.uint8)
    np.testing.assert_array_equal(apply_shift(Shift("brightness", 5), grey, 0).ravel(), [77, 177, 255, 255])


def test_contrast_pulls_to_the_mean_of_each_channel() -> None:
    image = np.array([[[[0, 10]], [[100, 30]]]], dtype=np.uint8)
    image = np.concatenate([image, image[..., :1]], axis=3)
    # Means 50, 20 and 50; factor 0.15: 42.5 and 57.5 (halves up), 18.5 and 21.5.
    found = apply_shift(Shift("contrast", 5), image, 0)[0, :, 0]
    np.testing.assert_array_equal(found, [[43, 19, 43], [58, 22, 58]])
    constant = np.full((2, 9, 7, 3), 173, dtype=np.uint8)
    for severity in range(1, 6):
        np.testing.assert_array_equal(apply_shift(Shift("contrast", severity), constant, 0), constant)


def test_contrast_uses_the_mean_of_its_own_image() -> None:
    images = np.stack([np.full((4, 4, 1), 10), np.full((4, 4, 1), 200)]).astype(np.uint8)
    np.testing.assert_array_equal(apply_shift(Shift("contrast", 5), images, 0), images)


@pytest.mark.parametrize(
    ("shape", "sd"),
    [
        ((32, 32, 3), {1: 0.4, 4: 0.8, 5: 1.0}),
        ((28, 28, 1), {1: 0.4, 4: 0.75, 5: 0.925}),
        ((8, 8, 1), {1: 0.4, 4: 0.6, 5: 0.7}),
        ((64, 48, 3), {1: 0.6, 4: 1.2, 5: 1.5}),
    ],
)
@pytest.mark.parametrize("severity", [1, 4, 5])
def test_blur_is_a_gaussian(shape: tuple[int, int, int], sd: dict[int, float], severity: int) -> None:
    """With the sd of CIFAR-10-C at 32 pixels."""
    images, width = _noise(2, shape), (0, sd[severity], sd[severity], 0)
    exact = ndimage.gaussian_filter(images.astype(np.float64), width, mode="nearest", truncate=4)
    np.testing.assert_allclose(apply_shift(Shift("blur", severity), images, 0), exact, atol=0.52)
    constant = np.full((1, *shape), 255, dtype=np.uint8)
    np.testing.assert_array_equal(apply_shift(Shift("blur", severity), constant, 0), constant)


def test_pixels_of_the_coarse_image_are_a_share_of_the_side() -> None:
    for side, coarse in ((32, [30, 28, 27, 24, 20]), (28, [26, 25, 23, 21, 18]), (8, [7, 7, 6, 6, 5]), (1, [1] * 5)):
        assert [corruptions.coarse_side(side, severity) for severity in range(1, 6)] == coarse


def test_pixelation_averages_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """At half the side: blocks of 2 x 2 pixels become their mean, and an image of such blocks stays as it is."""
    monkeypatch.setattr(corruptions, "PIXELATE_PERCENT", (50,))
    blocks = np.kron(_noise(3, (4, 4, 3)), np.ones((1, 2, 2, 1), dtype=np.uint8))
    np.testing.assert_array_equal(apply_shift(Shift("pixelate", 1), blocks, 0), blocks)
    noise = _noise(1, (8, 12, 1))
    coarse = apply_shift(Shift("pixelate", 1), noise, 0)[0, :, :, 0]
    means = noise[0, :, :, 0].reshape(4, 2, 6, 2).mean(axis=(1, 3))
    np.testing.assert_allclose(coarse[::2, ::2], means, atol=1)
    np.testing.assert_array_equal(coarse, np.kron(coarse[::2, ::2], np.ones((2, 2), dtype=np.uint8)))


@pytest.mark.parametrize("severity", [1, 5])
def test_pixelation_of_cifar_sized_images_is_the_published_one(severity: int) -> None:
    """Reduced to 30 or 20 pixels and enlarged with Pillow's box filter."""
    images, side = _noise(2, (32, 32, 3)), {1: 30, 5: 20}[severity]
    found = apply_shift(Shift("pixelate", severity), images, 0)
    for image, pixelated in zip(images, found, strict=True):
        small = Image.fromarray(image).resize((side, side), Image.Resampling.BOX)
        np.testing.assert_array_equal(pixelated, np.asarray(small.resize((32, 32), Image.Resampling.BOX)))


@pytest.mark.parametrize("severity", [1, 5])
def test_noise_has_its_standard_deviation(severity: int) -> None:
    grey = np.full((40, 28, 28, 1), 128, dtype=np.uint8)
    noise = apply_shift(Shift("gaussian_noise", severity), grey, 1).astype(float) - 128
    assert noise.std() == pytest.approx(255 * {1: 0.04, 5: 0.1}[severity], rel=0.02)
    assert abs(noise.mean()) < 0.5
    by_image = noise.reshape(40, -1)
    correlation = np.corrcoef(by_image)[np.triu_indices(40, 1)]
    assert np.abs(correlation).max() < 0.2


def test_noise_has_streams_by_seed_and_image_and_the_same_pattern_at_every_severity() -> None:
    grey = np.full((3, 16, 16, 3), 128, dtype=np.uint8)
    three, five = (apply_shift(Shift("gaussian_noise", s), grey, 7).astype(float) - 128 for s in (3, 5))
    np.testing.assert_allclose(five, three * 0.1 / 0.08, atol=1.2)
    other = apply_shift(Shift("gaussian_noise", 5), grey, 8).astype(float) - 128
    assert abs(np.corrcoef(other.ravel(), five.ravel())[0, 1]) < 0.1


@pytest.mark.parametrize("shift", ALL, ids=lambda s: s.name)
def test_an_image_does_not_depend_on_the_others(shift: Shift, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a part of the set, beside other images, and in batches of any size."""
    images = _noise(11, (12, 10, 3))
    whole = apply_shift(shift, images, 5)
    np.testing.assert_array_equal(apply_shift(shift, images[4:9], 5, first=4), whole[4:9])
    changed = images.copy()
    changed[:6] = 255 - changed[:6]
    np.testing.assert_array_equal(apply_shift(shift, changed, 5)[6:], whole[6:])
    monkeypatch.setattr("bnn_atlas.data.corruptions.BATCH_BYTES", 12 * 10 * 3 * 8 * 4)
    np.testing.assert_array_equal(apply_shift(shift, images, 5), whole)


def _colours(shift: Shift, shape: tuple[int, int, int]) -> tuple[int, int, int]:
    """The shape, with three channels where the shift is for colours."""
    return (*shape[:2], 3) if shift.kind in OF_COLOURS else shape


@pytest.mark.parametrize("shape", SIZES, ids=str)
@pytest.mark.parametrize("kind", [kind for kind in CORRUPTIONS if kind != "saturate"])
def test_a_higher_severity_is_farther_from_the_original(shape: tuple[int, int, int], kind: str) -> None:
    """Not so for images of few pixels that are pixelated: severities 1 and 2 are the same at 8 and 17 pixels."""
    if kind == "pixelate" and min(shape[:2]) < 20:
        shape = (20, 25, shape[2])
    images = _smooth(30, shape)
    distance = [
        np.abs(apply_shift(Shift(kind, severity), images, 0).astype(float) - images).mean() for severity in range(1, 6)
    ]
    assert distance[0] > 0.05
    assert (np.diff(distance) > 0).all()


@pytest.mark.parametrize("shape", SIZES, ids=str)
@pytest.mark.parametrize("shift", ALL, ids=lambda s: s.name)
def test_shape_and_type_stay_and_the_input_is_not_written(shift: Shift, shape: tuple[int, int, int]) -> None:
    images = _noise(3, _colours(shift, shape))
    images.setflags(write=False)
    shifted = apply_shift(shift, images, 0)
    assert shifted.shape == images.shape
    assert shifted.dtype == np.uint8
    assert (shifted != images).any()
    assert apply_shift(shift, images[:0], 0).shape == images[:0].shape


PINNED = {
    "rotated30": "f046465914dd8f30",
    "rotated45": "abb00a5cf7bf4684",
    "gaussian_noise3": "0046bcbd81237de7",
    "blur2": "74f5b07a9f473611",
    "brightness4": "0198857110a651af",
    "contrast3": "32160af61e664009",
    "pixelate2": "9a9b6a630fc7960b",
    "shot_noise2": "0fc326a7f049ec0f",
    "impulse_noise4": "76cb3ec0952d4dad",
    "speckle_noise3": "54e7ac33038d6745",
    "defocus_blur3": "0d16124027a5ebcb",
    "zoom_blur4": "effd4a1945b8d46b",
    "fog2": "cae18dfcfebc75ab",
    "saturate5": "d2f5660eb6bb2eb7",
}


@pytest.mark.parametrize("name", sorted(PINNED))
def test_bytes_are_the_same_everywhere(name: str) -> None:
    images = np.arange(2 * 13 * 11 * 3, dtype=np.int64).reshape(2, 13, 11, 3) ** 2 % 251
    shifted = apply_shift(parse_shift(name), images.astype(np.uint8), 20)
    assert hashlib.sha256(shifted.tobytes()).hexdigest()[:16] == PINNED[name]


@pytest.mark.parametrize(
    "images",
    [
        np.zeros((2, 8, 8, 1)),
        np.zeros((2, 8, 8), dtype=np.uint8),
        np.zeros((2, 8, 8, 2), dtype=np.uint8),
        np.zeros((2, 0, 8, 1), dtype=np.uint8),
    ],
    ids=["type", "axes", "channels", "empty"],
)
def test_what_is_no_image_set_is_refused(images: np.ndarray) -> None:
    with pytest.raises(DataError, match=r"images of shape \[n, H, W, 1 or 3\] and type uint8"):
        apply_shift(Shift("blur", 1), images, 0)


def test_unknown_shift_and_negative_seed_are_refused() -> None:
    images = np.zeros((1, 8, 8, 1), dtype=np.uint8)
    with pytest.raises(ConfigError, match="no shift 'frost3'"):
        apply_shift(Shift("frost", 3), images, 0)
    with pytest.raises(ConfigError, match="no shift 'blur6'"):
        apply_shift(Shift("blur", 6), images, 0)
    with pytest.raises(DataError, match="seed -1"):
        apply_shift(Shift("blur", 1), images, -1)


OWN_NAMES = {"blur": "gaussian_blur"}


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
