"""Pixels that never vary in training, noise in them, and what their weights are."""

import numpy as np
import pytest

from bnn_atlas.config.data.shift import Shift, parse_shift
from bnn_atlas.data import DataError, pixels
from bnn_atlas.data.corruptions import apply_shift
from bnn_atlas.data.dataset import Dataset
from bnn_atlas.data.evaluation_sets import shifted_rows
from bnn_atlas.data.pixels import NOISE_SD, dead_inputs, noise_in, second_moments
from bnn_atlas.data.split_data import Split, SplitData
from bnn_atlas.metrics.gathering.marginals import dead_input_measurements
from bnn_atlas.models.layout import Layout, Parameter
from tests.metrics.conftest import MemoryPool

SHAPE = (6, 7, 1)


def _split(in_likelihood: bool = True, border: int = 1) -> SplitData:
    """Ten training, five validation and eight test images; the border is black, and grey in one validation image."""
    x = np.random.default_rng(0).integers(1, 256, (23, *SHAPE), dtype=np.uint8)
    if border:
        x[:, :border] = x[:, -border:] = x[:, :, :border] = x[:, :, -border:] = 0
    x[12, 0, 0] = 9
    dataset = Dataset(x, np.arange(23) % 2, (), "label", "classification", ("a", "b"), kind="image")
    split = Split(np.arange(10), np.arange(10, 15), np.arange(15, 23))
    return SplitData(dataset, split, in_likelihood, np.zeros(1), np.full(1, 255.0), 0.0, 1.0)


@pytest.mark.parametrize("in_likelihood", [True, False])
def test_dead_pixels_are_those_of_the_rows_that_the_likelihood_sees(in_likelihood: bool) -> None:
    border = np.ones(SHAPE, bool)
    border[1:-1, 1:-1] = False
    border[0, 0] = not in_likelihood
    np.testing.assert_array_equal(dead_inputs(_split(in_likelihood)), border)


@pytest.mark.parametrize("in_likelihood", [True, False])
def test_second_moments_are_of_the_same_rows_as_the_network_sees_them(
    in_likelihood: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pixels, "ROWS_TOGETHER", 4)
    split = _split(in_likelihood)
    x = split.x_fit.reshape(15 if in_likelihood else 10, -1).astype(np.float64)
    np.testing.assert_allclose(second_moments(split), x.T @ x / len(x), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("severity", [1, 3, 5])
def test_noise_is_in_dead_pixels_or_in_all_others(severity: int) -> None:
    split = _split()
    dead, images = dead_inputs(split), split.dataset.x[split.split.test]
    both = []
    for kind, where in (("dead_pixels", dead), ("live_pixels", ~dead)):
        rows = shifted_rows(split, f"{kind}{severity}")
        found = np.rint(255 * rows.x).astype(np.int64)
        np.testing.assert_array_equal(found[:, ~where], images[:, ~where])
        assert (found[:, where] != images[:, where]).mean() > 0.3
        assert (found.min(), found.max()) >= (0, 1)
        assert found.max() <= 255
        np.testing.assert_array_equal(rows.y, split.y_test)
        both.append(found)
    together = np.where(dead, both[0], both[1])
    noise = np.random.Generator(np.random.Philox(key=5 << 64, counter=2 << 128)).standard_normal(SHAPE)
    exact = np.clip(images[2] + 255 * NOISE_SD[severity - 1] * noise, 0, 255)
    np.testing.assert_allclose(together[2], exact, atol=0.5 + 1e-9)


def test_the_noise_grows_with_the_severity() -> None:
    images, dead = np.full((20, 10, 10, 1), 128, np.uint8), np.ones((10, 10, 1), bool)
    spread = [noise_in("dead_pixels", severity, images, dead, 0).std() for severity in range(1, 6)]
    assert spread[0] == pytest.approx(25.5, rel=0.05)
    assert (np.diff(spread) > 0).all()


def test_without_such_pixels_it_is_refused() -> None:
    with pytest.raises(DataError, match="shift 'dead_pixels2': no pixel is the same in all rows"):
        shifted_rows(_split(border=0), "dead_pixels2")
    with pytest.raises(DataError, match="shift 'live_pixels2': every pixel is the same in all rows"):
        noise_in("live_pixels", 2, np.zeros((1, 2, 2, 1), np.uint8), np.ones((2, 2, 1), bool), 0)


def test_names_are_shifts_and_need_a_split() -> None:
    assert parse_shift("dead_pixels3") == ("dead_pixels", 3)
    with pytest.raises(DataError, match="shift 'live_pixels3' depends on the rows of a split"):
        apply_shift(Shift("live_pixels", 3), np.zeros((1, 8, 8, 1), np.uint8), 0)


def _pool(draws: np.ndarray, shape: tuple[int, ...] = (3, 4)) -> MemoryPool:
    weight = Parameter("layer0.weight", shape, "weight", 0, 4, 3)
    bias = Parameter("layer0.bias", (3,), "bias", 0, 4, 3)
    return MemoryPool(draws, layout=Layout((bias, weight)), chunk=7)


def test_weights_of_dead_inputs_beside_those_of_live_ones() -> None:
    rng, dead = np.random.default_rng(3), np.array([[True], [False], [False], [True]])
    draws = rng.normal(size=(3, 40, 15))
    weights = draws[:, :, 3:].reshape(3, 40, 3, 4)
    weights[..., dead.ravel()] *= 5
    draws[:, :, 3:] = weights.reshape(3, 40, 12)
    draws[1] = np.nan
    found = dead_input_measurements(_pool(draws), np.array([0, 2]), dead, 10**6)
    kept = weights[[0, 2]]
    assert [m.metric for m in found] == ["weight_sd_dead_inputs", "weight_sd_live_inputs"]
    for measured, which in zip(found, (dead.ravel(), ~dead.ravel()), strict=True):
        assert measured.value == pytest.approx(np.sqrt(np.mean(kept[..., which] ** 2)))
    assert found[0].note == "layer0.weight: 2 of 4 inputs"


def test_other_networks_and_inputs_have_no_such_weights() -> None:
    draws, kept = np.ones((2, 5, 15)), np.arange(2)
    dead = np.array([True, False, False, False])
    assert len(dead_input_measurements(_pool(draws), kept, dead, 10**6)) == 2
    for mask in (None, np.zeros(4, bool), np.ones(4, bool), np.array([True, False])):
        assert dead_input_measurements(_pool(draws), kept, mask, 10**6) == []
    assert dead_input_measurements(_pool(draws), kept[:0], dead, 10**6) == []
    assert dead_input_measurements(_pool(draws, (3, 2, 2)), kept, dead, 10**6) == []
