"""Rows of shifted and out-of-distribution sets, and the scaling that they get."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bnn_atlas.config.data.shift import parse_shift
from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.data import DataError
from bnn_atlas.data.corruptions import apply_shift
from bnn_atlas.data.dataset import Dataset, save
from bnn_atlas.data.evaluation_sets import corrupted_rows, interval_rows, outside_rows, shifted_rows
from bnn_atlas.data.split_data import Split, SplitData
from tests.pipeline.steps.making import SHAPE, TEST, TRAIN, cifar10c_tar, make_images

MEAN, SCALE = np.array([100.0, 110.0, 120.0]), np.array([50.0, 60.0, 70.0])
PLACES = np.array([4, 0, 5, 1])


def make_split(dataset: Dataset, places: np.ndarray = PLACES, mean: Any = MEAN, scale: Any = SCALE) -> SplitData:
    rows = np.arange(TRAIN)
    return SplitData(dataset, Split(rows, rows[:0], TRAIN + places), True, mean, scale, 0.0, 1.0)


def table(rows: int = 5, columns: int = 3) -> Dataset:
    x = np.arange(rows * columns, dtype=np.float64).reshape(rows, columns)
    return Dataset(x, np.zeros(rows), tuple("abcdef")[:columns], "y", "regression", ())


@pytest.fixture
def images() -> Dataset:
    return make_images(0)


@pytest.mark.parametrize("shift", ["rotated90", "gaussian_noise5", "contrast1"])
def test_shifted_rows_are_the_test_images_in_order_with_the_scaling_of_the_split(images: Dataset, shift: str) -> None:
    x, y = shifted_rows(make_split(images), shift)
    raw = apply_shift(parse_shift(shift), images.x[TRAIN + PLACES], 0)
    np.testing.assert_allclose(x, (raw - MEAN) / SCALE, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(y, images.y[TRAIN + PLACES])
    assert x.dtype == np.float32


def test_every_run_sees_the_same_noise(images: Dataset) -> None:
    first, second = (shifted_rows(make_split(images), "gaussian_noise5").x for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_a_rotation_by_a_quarter_turn_is_exact(images: Dataset) -> None:
    x, _ = shifted_rows(make_split(images, mean=np.zeros(3), scale=np.ones(3)), "rotated90")
    np.testing.assert_array_equal(x, np.rot90(images.x[TRAIN + PLACES], axes=(1, 2)))


def test_only_images_are_shifted() -> None:
    rows = np.arange(2)
    split = SplitData(table(), Split(rows, rows[:0], rows + 2), True, np.zeros(3), np.ones(3), 0.0, 1.0)
    with pytest.raises(DataError, match="shift 'rotated30': rows of the kind 'table' cannot be shifted, only images"):
        shifted_rows(split, "rotated30")


def test_an_unknown_shift_lists_what_there_is(images: Dataset) -> None:
    with pytest.raises(ConfigError, match="no shift 'turned30'; allowed are rotated"):
        shifted_rows(make_split(images), "turned30")


@pytest.mark.parametrize("train", [TRAIN, 0, None])
def test_outside_rows_are_the_published_test_rows_or_all(tmp_path: Path, images: Dataset, train: int | None) -> None:
    other = make_images(5, 0, 40, published_train=train)
    save(tmp_path / "other.npz", other)
    x, y = outside_rows(make_split(images), tmp_path / "other.npz")
    np.testing.assert_allclose(x, (other.x[train or 0 :] - MEAN) / SCALE, rtol=1e-5, atol=1e-6)
    assert y is None


def test_outside_rows_may_be_limited(tmp_path: Path, images: Dataset) -> None:
    other = make_images(5)
    save(tmp_path / "other.npz", other)
    x, _ = outside_rows(make_split(images), tmp_path / "other.npz", 2)
    np.testing.assert_allclose(x, (other.x[TRAIN : TRAIN + 2] - MEAN) / SCALE, rtol=1e-5, atol=1e-6)
    assert len(outside_rows(make_split(images), tmp_path / "other.npz", 100).x) == TEST


def test_pixels_of_a_darkened_set_are_divided_before_they_are_scaled(tmp_path: Path, images: Dataset) -> None:
    other = make_images(5)._replace(pixel_divisor=255.0)
    save(tmp_path / "other.npz", other)
    x, _ = outside_rows(make_split(images, mean=np.zeros(3), scale=np.full(3, 255.0)), tmp_path / "other.npz")
    assert x.dtype == np.float32
    np.testing.assert_allclose(x, other.x[TRAIN:] / 255**2, rtol=1e-6)
    assert 0 < x.max() <= 1 / 255 + 1e-9


def test_an_interval_is_an_even_grid_in_units_of_the_data() -> None:
    rows = np.arange(2)
    parts = Split(rows, rows[:0], rows + 2)
    split = SplitData(table(columns=1), parts, True, np.array([1.0]), np.array([4.0]), 0.0, 1.0)
    x, y = interval_rows(split, (-1.0, 3.0))
    np.testing.assert_allclose(x[:, 0], (np.linspace(-1, 3, 50) - 1) / 4)
    assert y is None
    with pytest.raises(DataError, match=r"one input; .* has shape \[3\]"):
        interval_rows(SplitData(table(), parts, True, np.zeros(3), np.ones(3), 0.0, 1.0), (0.0, 1.0))


def test_outside_tables_are_scaled_in_float64(tmp_path: Path) -> None:
    rows, mean, scale = np.arange(2), np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])
    split = SplitData(table(), Split(rows, rows[:0], rows + 2), True, mean, scale, 0.0, 1.0)
    save(tmp_path / "other.npz", table(7))
    x, _ = outside_rows(split, tmp_path / "other.npz")
    np.testing.assert_array_equal(x, (table(7).x - mean) / scale)
    assert x.dtype == np.float64


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (make_images(5, x=np.zeros((TRAIN + TEST, 5, 4, 3), np.uint8)), r"image rows of shape \[5, 4, 3\]"),
        (make_images(5, x=np.zeros((TRAIN + TEST, 4, 4, 1), np.uint8)), r"image rows of shape \[4, 4, 1\]"),
        (table(), r"table rows of shape \[3\]"),
    ],
    ids=["another size", "grey", "table"],
)
def test_outside_rows_of_another_kind_or_shape_are_refused(
    tmp_path: Path, images: Dataset, other: Dataset, what: str
) -> None:
    save(tmp_path / "other.npz", other)
    message = rf"other\.npz: {what} cannot be compared with this run's image rows of shape \[4, 4, 3\]"
    with pytest.raises(DataError, match=message):
        outside_rows(make_split(images), tmp_path / "other.npz")


@pytest.mark.parametrize("vocabulary", [9, 40])
def test_outside_tokens_of_another_vocabulary_are_refused(tmp_path: Path, vocabulary: int) -> None:
    """More ids than the network has embeddings, or other words under the same ids."""
    x, rows = np.zeros((5, 3), np.int32), np.arange(2)
    dataset = Dataset(x, np.zeros(5, int), (), "y", "classification", ("a", "b"), kind="tokens", vocabulary=20)
    split = SplitData(dataset, Split(rows, rows[:0], rows + 2), True, np.zeros(1), np.ones(1), 0.0, 1.0)
    save(tmp_path / "other.npz", dataset)
    assert outside_rows(split, tmp_path / "other.npz").x.shape == (5, 3)
    save(tmp_path / "other.npz", dataset._replace(vocabulary=vocabulary))
    with pytest.raises(DataError, match=rf"other\.npz: tokens .* vocabulary of {vocabulary} ids .* of 20"):
        outside_rows(split, tmp_path / "other.npz")


@pytest.mark.parametrize("severity", [1, 5])
def test_published_corruptions_are_those_of_the_test_rows(tmp_path: Path, images: Dataset, severity: int) -> None:
    raw = cifar10c_tar(tmp_path / "c.tar", images.y[TRAIN:])
    x, y = corrupted_rows(make_split(images), f"cifar10c_fog{severity}", tmp_path / "c.tar")
    np.testing.assert_allclose(x, (raw[severity - 1, PLACES] - MEAN) / SCALE, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(y, images.y[TRAIN + PLACES])
    assert x.shape == (len(PLACES), *SHAPE)


def test_labels_that_are_not_those_of_the_test_rows_are_refused(tmp_path: Path, images: Dataset) -> None:
    wrong = images.y[TRAIN:].copy()
    wrong[PLACES[-1]] = (wrong[PLACES[-1]] + 1) % 3
    cifar10c_tar(tmp_path / "c.tar", wrong)
    with pytest.raises(DataError, match=r"c\.tar: its labels .* CIFAR-10's own order"):
        corrupted_rows(make_split(images), "cifar10c_fog1", tmp_path / "c.tar")


def test_a_computed_shift_is_not_looked_for_in_cifar10c(tmp_path: Path, images: Dataset) -> None:
    with pytest.raises(DataError, match="shift 'rotated30': CIFAR-10-C has no such images"):
        corrupted_rows(make_split(images), "rotated30", tmp_path / "c.tar")
    with pytest.raises(DataError, match="shift 'cifar10c_fog1': CIFAR-10-C has no such images"):
        corrupted_rows(make_split(make_images(0, published_train=None)), "cifar10c_fog1", tmp_path / "c.tar")


def test_a_damaged_or_another_tar_is_named(tmp_path: Path, images: Dataset) -> None:
    """Wherever it ends, as a web page, without the corruption, and where there is none."""
    path = tmp_path / "c.tar"
    cifar10c_tar(path, images.y[TRAIN:])
    whole = path.read_bytes()
    place = whole.index(b"CIFAR-10-C/labels")
    parts = [whole[:end] for end in (0, 100, 300, 900, place + 20, place + 530)]
    for content in (*parts, b"<html>not found</html>" * 100, whole.replace(b"fog", b"fig")):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"c\.tar: not the intact tar of CIFAR-10-C \(.*download it again"):
            corrupted_rows(make_split(images), "cifar10c_fog1", path)
    path.unlink()
    with pytest.raises(DataError, match=r"not the intact tar of CIFAR-10-C \(.*No such file"):
        corrupted_rows(make_split(images), "cifar10c_fog1", path)
