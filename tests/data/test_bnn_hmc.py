"""Rows as the published code of Izmailov et al. (2021) has them: its synthetic regression, features and UCI splits."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from pydantic import ValidationError

from bnn_atlas.config.data.datasets import TableReader
from bnn_atlas.config.data.splits import SplitConfig
from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.config.parts.figures import FunctionsConfig
from bnn_atlas.config.runs.shared import SharedSplit
from bnn_atlas.config.settings import load_study
from bnn_atlas.data import DataError, orders
from bnn_atlas.data.dataset import Dataset, fingerprint, save
from bnn_atlas.data.prepare import prepare
from bnn_atlas.data.split_data import SplitData
from bnn_atlas.data.splitting import load_split, make_split, save_split, split_file
from bnn_atlas.inference.network_functions import _inputs
from tests.config.folders import run_edit, study_file
from tests.data.test_published_splits import REGISTRY

NAME = "clusters_1d_bnn_hmc"
FINGERPRINT = "d15b60d5d123bb9e14a010f0375a524cdcfa40471a10a4776edf24687d1dda45"


def _published_network(x: np.ndarray) -> np.ndarray:
    """f(x) as the notebook computes it, with JAX: biases before weights, layer by layer."""
    h = np.stack([x, x**2], axis=1)
    shapes = [((100,), (2, 100)), ((100,), (100, 100)), ((100,), (100, 100)), ((1,), (100, 1))]
    keys = iter(jax.random.split(jax.random.PRNGKey(22), 8))
    for layer, (of_bias, of_weight) in enumerate(shapes):
        bias = np.asarray(jax.random.normal(next(keys), of_bias)) * 0.1
        weight = np.asarray(jax.random.normal(next(keys), of_weight)) * 0.1
        h = h @ weight + bias
        h = np.maximum(h, 0) if layer < 3 else h
    return h[:, 0]


def _split(folder: Path, dataset: Dataset, **fields: Any) -> SplitData:
    save(folder / "prepared.npz", dataset)
    split_file(folder / "prepared.npz", folder / "split.npz", SplitConfig.model_validate(fields), 0)
    return load_split(folder / "prepared.npz", folder / "split.npz")


@pytest.mark.parametrize(("seed", "n"), [(0, 7), (22, 20_000), (2**32 - 1, 1)])
def test_random_numbers_are_those_of_jax(seed: int, n: int) -> None:
    with jax.threefry_partitionable(False):
        key = jax.random.PRNGKey(np.uint32(seed))
        np.testing.assert_array_equal(orders.split(orders.key_of(seed), 8), jax.random.split(key, 8))
        expected = np.asarray(jax.random.normal(key, (n,)))
    found = orders.normal(orders.key_of(seed), n)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_synthetic_regression_is_that_of_the_notebook() -> None:
    dataset = prepare(NAME, REGISTRY[NAME])
    x = dataset.x[:, 0]
    grids = [np.linspace(*ends, 40) for ends in ((-10, -6), (6, 10), (14, 18))]
    np.testing.assert_allclose(x, np.concatenate([*grids, np.linspace(-14, 22, 120)]), rtol=0, atol=1e-6)
    with jax.threefry_partitionable(False):
        f = _published_network(x)
        noise = np.asarray(jax.random.normal(jax.random.PRNGKey(0), (120,))) * 0.02
    np.testing.assert_allclose(dataset.y[:120], f[:120] + noise, rtol=0, atol=3e-6)
    np.testing.assert_allclose(dataset.y[120:], f[120:], rtol=0, atol=3e-6)


def test_its_likelihood_is_what_the_published_chain_reports() -> None:
    """304.8 +- 1.8 is the log-likelihood of the published draws, which fit the noise a little."""
    residual = prepare(NAME, REGISTRY[NAME]).y[:120]
    with jax.threefry_partitionable(False):
        residual = residual - _published_network(prepare(NAME, REGISTRY[NAME]).x[:120, 0])
    log_likelihood = np.sum(-0.5 * np.log(2 * np.pi * 0.02**2) - 0.5 * (residual / 0.02) ** 2)
    assert log_likelihood == pytest.approx(303.93, abs=0.01)


def test_synthetic_rows_are_the_same_on_every_machine() -> None:
    dataset = prepare(NAME, REGISTRY[NAME])
    assert fingerprint(dataset) == FINGERPRINT
    np.testing.assert_array_equal(dataset.y, dataset.y.round(6))


def test_rows_that_cannot_be_spread_evenly_are_refused() -> None:
    entry = REGISTRY[NAME].model_dump(mode="json") | {"published_train": 121}
    with pytest.raises(ValidationError, match="121 training rows cannot be spread evenly over 3 intervals; use a mult"):
        type(REGISTRY[NAME]).model_validate(entry)


def test_features_and_targets_as_the_notebook_has_them(tmp_path: Path) -> None:
    dataset = prepare(NAME, REGISTRY[NAME])
    data = _split(
        tmp_path, dataset, kind="published", validation=0, scaling="none", features="squares", targets="as_given"
    )
    x = dataset.x[:, 0]
    np.testing.assert_array_equal(data.x_train, np.stack([x[:120], x[:120] ** 2], axis=1))
    np.testing.assert_array_equal(data.x_test, np.stack([x[120:], x[120:] ** 2], axis=1))
    np.testing.assert_array_equal(data.y_fit, dataset.y[:120])
    assert (data.y_mean, data.y_scale, data.shape, data.raw_shape) == (0.0, 1.0, (2,), (1,))


def test_features_are_scaled_with_their_own_statistics(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(3, 2, size=(40, 2))
    dataset = Dataset(x, x @ [1.0, -2.0], ("a", "b"), "y", "regression", ())
    data = _split(tmp_path, dataset, features="squares", validation=0)
    np.testing.assert_allclose(data.x_fit.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(data.x_fit.std(axis=0), 1, rtol=1e-12)
    raw = x[data.split.train]
    columns = np.concatenate([raw, raw**2], axis=1)
    np.testing.assert_allclose(data.x_fit, (columns - columns.mean(axis=0)) / columns.std(axis=0), atol=1e-12)
    standardised = (x - data.x_mean[:2]) / data.x_scale[:2]
    np.testing.assert_allclose(data.taken(standardised), data.scaled(x), atol=1e-12)
    np.testing.assert_allclose(data.y_fit.std(), 1)


def test_a_line_is_drawn_in_the_input_and_not_in_its_square(tmp_path: Path) -> None:
    dataset = prepare(NAME, REGISTRY[NAME])
    data = _split(tmp_path, dataset, kind="published", validation=0, scaling="none", features="squares")
    x, taken, _ = _inputs(data, FunctionsConfig(inputs="line", low=-14, high=22, points=5))
    np.testing.assert_array_equal(x[:, 0], [-14, -5, 4, 13, 22])
    np.testing.assert_array_equal(taken, np.stack([x[:, 0], x[:, 0] ** 2], axis=1))


def test_other_splits_keep_their_addresses_settings_and_files(tmp_path: Path) -> None:
    """What came later is said only where it is given."""
    plain = SplitConfig()
    assert SharedSplit("yacht", plain).key == "5211934e7858"
    assert not {"features", "targets"} & plain.settings.keys()
    given = SplitConfig(features="squares", targets="as_given")
    assert given.settings["features"] == "squares"
    assert given.settings["targets"] == "as_given"
    assert len({SharedSplit("yacht", config).key for config in (plain, given, SplitConfig(targets="as_given"))}) == 3
    _split(tmp_path, Dataset(np.eye(20), np.arange(20.0), tuple(map(str, range(20))), "y", "regression", ()))
    with np.load(tmp_path / "split.npz") as stored:
        assert "features" not in stored.files


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("n", [308, 506, 11_934])
def test_uci_rows_are_those_of_the_published_loader(n: int, seed: int) -> None:
    with jax.threefry_partitionable(False):
        order = np.asarray(jax.random.permutation(jax.random.PRNGKey(seed + 1), n))
    split = make_split(n, SplitConfig(kind="bnn_hmc", seed=seed, count=2, validation=0), 1)
    np.testing.assert_array_equal(split.train, order[: int(0.9 * n)])
    np.testing.assert_array_equal(split.test, order[int(0.9 * n) :])
    assert not len(split.validation)
    held_out = make_split(n, SplitConfig(kind="bnn_hmc", seed=seed, count=2), 1)
    np.testing.assert_array_equal(np.concatenate(held_out[:2]), split.train)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"test": 0.3}, "test = 0.3: kind 'bnn_hmc' always has a test share"),
        ({"limit": 10}, "limit: not for kind 'bnn_hmc'"),
        ({"seed": 2**32 - 1, "count": 2}, "the seeds of 2 splits do not fit into 32 bits"),
        ({"rng": 1}, "rng: only for kind 'mile', not 'bnn_hmc'"),
        ({"first": 3}, "first: only for kind 'published', not 'bnn_hmc'"),
    ],
)
def test_what_the_published_split_does_not_have_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        SplitConfig(kind="bnn_hmc", **fields)


@pytest.mark.parametrize(
    ("dataset", "fields", "message"),
    [
        ("digits_images", {"features": "squares"}, "features = 'squares': the data set 'digits_images' has rows of"),
        ("digits", {"targets": "as_given"}, "targets = 'as_given': the data set 'digits' is for classification"),
    ],
)
def test_a_study_with_features_or_targets_that_do_not_fit_is_refused(
    tmp_path: Path, dataset: str, fields: dict[str, Any], message: str
) -> None:
    changes = {"dataset": dataset, "likelihood": {"kind": "categorical"}, "split": {"kind": "random"} | fields}

    def edit(study: dict[str, Any]) -> None:
        run_edit(**changes)(study)
        del study["figures"]

    with pytest.raises(ConfigError, match=message):
        load_study(study_file(tmp_path, edit), "laptop", REGISTRY)


def test_features_of_images_and_targets_of_classes_are_refused_by_the_writer(tmp_path: Path) -> None:
    x = np.zeros((6, 4, 4, 1), np.uint8)
    images = Dataset(x, np.arange(6) % 2, (), "label", "classification", ("a", "b"), kind="image")
    split = make_split(6, SplitConfig(validation=0), 0)
    with pytest.raises(DataError, match=r"split\.features = 'squares': not for data of kind 'image'"):
        save_split(tmp_path / "s.npz", images, split, features="squares")
    with pytest.raises(DataError, match=r"split\.targets = 'as_given': not for classification"):
        save_split(tmp_path / "s.npz", images, split, targets="as_given")


def test_naval_without_its_constant_columns() -> None:
    with_them, without = (REGISTRY[name].files[0].read for name in ("naval", "naval_bnn_hmc"))
    assert isinstance(with_them, TableReader)
    assert isinstance(without, TableReader)
    assert len(without.kept) == 15
    assert set(with_them.kept) - set(without.kept) == {
        "compressor_inlet_temperature",
        "compressor_inlet_pressure",
    }
