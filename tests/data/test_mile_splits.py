"""The rows of the published runs of MILE and of its package, and scaling with all rows."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from sklearn.model_selection import train_test_split

from bnn_atlas.config.data.splits import SCALED_WITH_TEST_ROWS, SplitConfig
from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.config.settings import load_study
from bnn_atlas.data import DataError
from bnn_atlas.data.dataset import Dataset, save
from bnn_atlas.data.orders import mile_order
from bnn_atlas.data.splitting import load_split, make_split, split_file
from tests.config.folders import run_edit, study_file
from tests.data.test_published_splits import REGISTRY

MILE = SplitConfig(kind="mile", rng=42)


@pytest.mark.parametrize(
    ("n", "first"),
    [
        (351, [237, 224, 3, 181, 308, 115, 1, 184, 195, 38]),
        (1503, [692, 1423, 943, 390, 208, 548, 429, 899, 1341, 806]),
        (17379, [7829, 10209, 15415, 14793, 12374, 16190, 10863, 15248, 9595, 7908]),
    ],
)
def test_order_is_the_published_one(n: int, first: list[int]) -> None:
    """Check values computed with JAX 0.4.33, the version that the published code locks."""
    order = mile_order(n, 42)
    assert order[:10].tolist() == first
    assert sorted(order) == list(range(n))
    assert order.dtype == np.int64


@pytest.mark.parametrize("loader", ["trainer", "script"])
def test_order_is_that_of_jax_without_partitionable_threefry(loader: Any) -> None:
    import jax

    with jax.threefry_partitionable(False):
        for n, rng in ((2, 3), (207, 1), (1626, 2**32 - 1), (60_000, 7)):
            key = jax.random.key(np.uint32(rng))
            for taken in (3, 2) if loader == "trainer" else (2,):
                for _ in range(taken):
                    key, sub = jax.random.split(key)
                key = sub
            np.testing.assert_array_equal(mile_order(n, rng, loader), jax.random.permutation(key, np.arange(n)))


@pytest.mark.parametrize(
    ("n", "limit", "loader", "sizes"),
    [
        (1503, None, "trainer", (1052, 150, 301)),
        (17379, None, "trainer", (12165, 1738, 3476)),
        (1030, None, "trainer", (721, 102, 207)),
        (1030, None, "script", (721, 102, 207)),
        (768, None, "trainer", (537, 77, 154)),
        (351, None, "trainer", (245, 35, 71)),
        (1000, 200, "trainer", (140, 20, 40)),
    ],
)
def test_parts_have_their_published_sizes(n: int, limit: int | None, loader: Any, sizes: tuple[int, int, int]) -> None:
    split = make_split(n, SplitConfig(kind="mile", rng=42, limit=limit, loader=loader), 0)
    assert tuple(map(len, split)) == sizes
    np.testing.assert_array_equal(np.concatenate(split), mile_order(n, 42, loader)[:limit])


def test_further_splits_have_the_next_seeds_and_scripts_have_other_rows() -> None:
    three = SplitConfig(kind="mile", rng=1, count=3)
    for index, rng in enumerate((1, 2, 3)):
        np.testing.assert_array_equal(np.concatenate(make_split(768, three, index)), mile_order(768, rng))
    script = make_split(768, SplitConfig(kind="mile", rng=1, loader="script"), 0)
    assert 0.1 < np.isin(script.test, make_split(768, three, 0).test).mean() < 0.3


def test_published_test_rows_stay_and_the_others_are_cut() -> None:
    """Fashion-MNIST: 49,000 training rows, 11,000 validation rows, and the publisher's test rows."""
    split = make_split(70_000, SplitConfig(kind="mile", rng=42, first_test=9984), 0, published_train=60_000)
    assert tuple(map(len, split)) == (49_000, 11_000, 9984)
    np.testing.assert_array_equal(np.concatenate(split[:2]), mile_order(60_000, 42))
    np.testing.assert_array_equal(split.test, np.arange(60_000, 69_984))


def test_rows_run_out() -> None:
    with pytest.raises(DataError, match="split 0 \\(mile\\) of 3 rows leaves no validation rows"):
        make_split(3, MILE, 0)
    with pytest.raises(DataError, match="first_test: these data have no published test rows"):
        make_split(100, SplitConfig(kind="mile", rng=42, first_test=5), 0)
    with pytest.raises(DataError, match="limit: not for kind 'mile' of data with published test rows"):
        make_split(100, SplitConfig(kind="mile", rng=42, limit=5), 0, published_train=80)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "mile"}, "set rng, for example 42"),
        ({"kind": "mile", "rng": 2**32 - 1, "count": 2}, "the seeds of 2 splits do not fit into 32 bits"),
        ({"kind": "mile", "rng": 1, "seed": 2, "test": 0.1}, "test, seed: not for kind 'mile'"),
        ({"kind": "mile", "rng": 1, "first": 2}, "first: only for kind 'published', not 'mile'"),
        ({"rng": 1}, "rng: only for kind 'mile', not 'random'"),
        ({"loader": "script"}, "loader: only for kind 'mile', not 'random'"),
        ({"validation_seed": 42}, "validation_seed: only for kind 'train_test_split', not 'random'"),
    ],
)
def test_settings_that_do_not_fit_together(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        SplitConfig.model_validate(fields)


@pytest.mark.parametrize(
    ("dataset", "split", "message"),
    [
        ("diabetes", {"first_test": 5}, "split.first_test: the data set 'diabetes' has no published test rows"),
        ("clusters_1d", {"limit": 50}, "split.limit: the data set 'clusters_1d' has its own published test rows"),
        ("clusters_1d", {"first_test": 10**6}, "split.first_test = 1000000: there are [0-9]+ published test rows"),
    ],
)
def test_rows_that_the_data_set_does_not_have(
    tmp_path: Path, dataset: str, split: dict[str, int], message: str
) -> None:
    path = study_file(tmp_path, run_edit(dataset=dataset, split={"kind": "mile", "rng": 1} | split))
    with pytest.raises(ConfigError, match=message):
        load_study(path, "paper", REGISTRY)


def test_validation_rows_of_the_package_are_scikit_learns() -> None:
    config = SplitConfig(kind="train_test_split", test=0.2, validation=0.15, seed=0, validation_seed=42)
    others, test = train_test_split(np.arange(1503), test_size=0.2, random_state=0)
    train, validation = train_test_split(others, test_size=0.15, random_state=42)
    for ours, theirs in zip(make_split(1503, config, 0), (train, validation, test), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_scaling_with_all_rows_takes_those_of_the_split_and_no_class_numbers(tmp_path: Path, task: str) -> None:
    random = np.random.default_rng(0)
    x, y = random.normal(3.0, 5.0, (60, 2)), random.normal(7.0, 2.0, 60)
    labels = () if task == "regression" else ("a", "b", "c")
    target = y if task == "regression" else np.arange(60) % 3
    save(tmp_path / "data.npz", Dataset(x, target, ("a", "b"), "y", task, labels))
    config = SplitConfig(kind="mile", rng=42, limit=40, scaling="all_rows", validation_in_likelihood=False)
    split_file(tmp_path / "data.npz", tmp_path / "split.npz", config, 0)
    data = load_split(tmp_path / "data.npz", tmp_path / "split.npz")
    kept = np.concatenate(data.split)
    assert len(kept) == 40
    both = np.concatenate([data.x_train, data.x_validation, data.x_test])
    np.testing.assert_allclose(both.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(both.std(axis=0), 1)
    if task == "regression":
        np.testing.assert_allclose(np.mean(y[kept]), data.y_mean)
        np.testing.assert_allclose(np.std(y[kept]), data.y_scale)
    else:
        assert (data.y_mean, data.y_scale) == (0.0, 1.0)


def test_only_scaling_with_all_rows_is_marked() -> None:
    assert SplitConfig(scaling="all_rows").marks == (SCALED_WITH_TEST_ROWS,)
    assert SplitConfig(scaling="columns").marks == SplitConfig().marks == ()
