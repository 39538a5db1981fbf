"""Synthetic data sets: they are as described, and the same everywhere."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bnn_atlas.config.data.datasets import DatasetEntry, load_registry
from bnn_atlas.config.data.synthetic import ClustersGenerator, LineGenerator, SinusoidsGenerator, WaveGenerator
from bnn_atlas.data import DataError
from bnn_atlas.data.dataset import Dataset, fingerprint
from bnn_atlas.data.prepare import prepare, prepare_file
from bnn_atlas.data.synthetic_rows import DECIMALS, generate

REGISTRY = load_registry(Path(__file__).parents[2] / "config" / "datasets.yaml")
FINGERPRINTS = {
    "line_1x": "36e393aab7d31a67924f193cdd324ad521f1233fcdef2699fc3e7e5246cf2006",
    "clusters_1d": "6566412dca803db0ad8860f085099f2423ffbf7a8b2f3dc98d7b1a6f2b6b1247",
    "wave_1d": "5563d3e554a20f14b44df6737fac6543d8a170591d69883e05946f91b8bd0f7b",
    "sinusoids_1": "99e382d924c161dcd0bcd478f62b2893ef373c32f7399c0f3cfb57243ba03814",
    "sinusoids_2": "65c1ac4e65be77abe9eab6e659d1d243155ed467d2d9ec3de1223468e8b89b55",
    "sinusoids_3": "fb88459c724d1ebce4c1d91ccbe103dbeb9f1f59d2c3eb917f7ab9ac97e37731",
}
"""Of the rows, which must never change, nor differ between machines."""


def residual_sd(dataset: Dataset, function: np.ndarray) -> float:
    return float(np.std(dataset.y - function))


@pytest.mark.parametrize("name", FINGERPRINTS)
def test_rows_are_the_same_on_every_machine(name: str) -> None:
    dataset = prepare(name, REGISTRY[name])
    assert fingerprint(dataset) == FINGERPRINTS[name]
    assert dataset.feature_names == ("x",)
    assert (dataset.task, dataset.kind, dataset.target_name) == ("regression", "table", "y")
    assert dataset.x.shape == (REGISTRY[name].rows, 1)
    for values in (dataset.x, dataset.y):
        np.testing.assert_array_equal(values, values.round(DECIMALS))


def test_line() -> None:
    dataset = prepare("line_1x", REGISTRY["line_1x"])
    x = dataset.x[:, 0]
    np.testing.assert_allclose(x, np.linspace(-3, 3, 1000), rtol=0, atol=1e-6)
    assert residual_sd(dataset, x) == pytest.approx(0.3, rel=4 / np.sqrt(2000))
    slope, intercept = np.polyfit(x, dataset.y, 1)
    assert slope == pytest.approx(1, abs=4 * 0.3 / np.sqrt(3 * 1000))
    assert intercept == pytest.approx(0, abs=4 * 0.3 / np.sqrt(1000))


def test_wave_has_a_gap() -> None:
    dataset = prepare("wave_1d", REGISTRY["wave_1d"])
    x = dataset.x[:, 0]
    left, right = x[x < 0], x[x > 0]
    assert len(left) == len(right) == 75
    assert (left.min() >= -2, left.max() <= -0.6, right.min() >= 0.6, right.max() <= 2) == (True,) * 4
    assert left.max() > -0.7, "the rows reach the gap"
    assert np.all(np.diff(x) >= 0)
    assert residual_sd(dataset, x / 2 + np.sin(3 * x)) == pytest.approx(0.15, rel=4 / np.sqrt(300))


def test_clusters_are_published_rows_in_random_order() -> None:
    dataset = prepare("clusters_1d", REGISTRY["clusters_1d"])
    assert dataset.published_train == 120
    train, test = dataset.x[:120, 0], dataset.x[120:, 0]
    for low, high in ((-10, -6), (6, 10), (14, 18)):
        assert np.sum((train >= low) & (train <= high)) == 40
        assert np.sum((train[-12:] >= low) & (train[-12:] <= high)) > 0, "validation rows come from every cluster"
    np.testing.assert_allclose(test, np.linspace(-14, 22, 120), rtol=0, atol=1e-6)


def test_sinusoids_are_two_noisy_grids_with_a_gap_and_test_rows_without_noise() -> None:
    dataset = prepare("sinusoids_1", REGISTRY["sinusoids_1"])
    x = 1.28 * dataset.x[:, 0]
    function = x + 0.8 * np.sin(2 * np.pi * x) + 0.8 * np.sin(4 * np.pi * x)
    train, test = x[:70], x[70:]
    grids = np.concatenate([np.linspace(-1.28, -0.61, 38), np.linspace(0.61, 1.28, 32)])
    np.testing.assert_allclose(np.sort(train), grids, rtol=0, atol=2e-6)
    assert np.any(np.diff(train) < 0), "in random order: the last rows are a sample of all"
    np.testing.assert_allclose(
        test, np.concatenate([np.linspace(-1.28, -0.61, 7), np.linspace(0.61, 1.28, 6)]), rtol=0, atol=2e-6
    )
    np.testing.assert_allclose(dataset.y[70:], function[70:], rtol=0, atol=2e-5)
    noise = dataset.y[:70] - function[:70]
    assert noise.std() == pytest.approx(0.3, rel=4 / np.sqrt(140))
    other = prepare("sinusoids_2", REGISTRY["sinusoids_2"])
    assert abs(np.corrcoef(noise, (other.y - dataset.y)[:70])[0, 1]) < 1 - 1e-6
    np.testing.assert_array_equal(other.y[70:], dataset.y[70:])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train": (38,)}, "train: .*2, not 1"),
        ({"test": (7, 6, 1)}, "test: .*2, not 3"),
        ({"intervals": ((0.0, 1.0), (0.5, 2.0))}, "must not overlap"),
        ({"train": (30, 30)}, "these intervals give rows 73 and published_train 60"),
    ],
)
def test_sinusoids_that_do_not_fit_their_rows_are_refused(change: dict, message: str) -> None:
    entry = REGISTRY["sinusoids_1"].model_dump()
    with pytest.raises(ValueError, match=message):
        DatasetEntry.model_validate(entry | {"generate": entry["generate"] | change})


def test_noise_is_added_to_one_function_of_all_rows() -> None:
    """The network written a second time; without noise the targets are its outputs."""
    entry = REGISTRY["clusters_1d"].generate
    assert isinstance(entry, ClustersGenerator)
    small = {"noise": 0.0, "hidden": (5, 4), "prior_sd": 0.7, "intervals": ((-1.0, 2.0),), "test": (-9.0, 9.0)}
    config = entry.model_copy(update=small)
    x, y = generate(config, 9, 4)
    numbers = np.random.default_rng(config.seed)
    numbers.permutation(numbers.uniform(-1, 2, 4))

    def parameters(*shape: int) -> np.ndarray:
        return 0.7 * numbers.standard_normal(shape)

    w1, b1, w2, b2, w3, b3 = (parameters(*shape) for shape in ((5, 2), (5, 1), (4, 5), (4, 1), (1, 4), (1, 1)))
    z = x[:, 0] / 5
    first = np.maximum(w1 @ np.array([z, z**2]) + b1, 0)
    second = np.maximum(w2 @ first + b2, 0)
    expected = (w3 @ second + b3)[0]
    assert np.ptp(expected) > 0.1
    np.testing.assert_allclose(y, expected, rtol=0, atol=1e-6)
    noisy = generate(config.model_copy(update={"noise": 0.5}), 9, 4)
    np.testing.assert_array_equal(noisy[0], x)
    assert np.std(noisy[1] - y) > 0.1


@pytest.mark.parametrize(
    "config",
    [
        LineGenerator(kind="line", noise=0.1),
        WaveGenerator(kind="wave", noise=0.1, intervals=((0.0, 1.0),)),
        ClustersGenerator(kind="clusters", noise=0.1, intervals=((0.0, 1.0),), test=(-1.0, 2.0), hidden=(3,)),
        SinusoidsGenerator(kind="sinusoids", noise=0.1, intervals=((0.0, 1.0),), train=(10,), test=(1,)),
    ],
    ids=lambda config: config.kind,
)
def test_the_seed_decides(config: Any) -> None:
    first, again = generate(config, 10, 5), generate(config, 10, 5)
    other = generate(config.model_copy(update={"seed": 1}), 10, 5)
    for one, same in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, same)
    assert not np.any(first[1][:10] == other[1][:10])


def test_rows_that_do_not_divide_are_spread_evenly() -> None:
    config = WaveGenerator(kind="wave", noise=0.0, intervals=((0.0, 1.0), (2.0, 3.0), (4.0, 5.0)))
    x = generate(config, 8)[0][:, 0]
    assert [np.sum((x >= low) & (x <= low + 1)) for low in (0, 2, 4)] == [3, 3, 2]


def test_a_file_is_written_and_raw_files_are_refused(tmp_path: Path) -> None:
    entry = REGISTRY["wave_1d"]
    prepare_file("wave_1d", DatasetEntry.model_validate(entry.model_dump(mode="json")), [], tmp_path / "prepared.npz")
    assert (tmp_path / "prepared.npz").is_file()
    with pytest.raises(DataError, match=r"wave_1d: needs 0 raw files \(none\), got 1"):
        prepare("wave_1d", entry, [tmp_path / "x.csv"])
