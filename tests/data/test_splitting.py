"""Partitions and scaling."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import train_test_split

from bnn_atlas.config.data.splits import SplitConfig, check_parts, standard_split_count
from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.data import DataError
from bnn_atlas.data.dataset import Dataset, save
from bnn_atlas.data.splitting import Split, SplitData, load_split, make_split, save_split

KINDS = ("random", "standard", "train_test_split")


def _dataset(n: int = 40, task: str = "regression", seed: int = 0) -> Dataset:
    rng = np.random.default_rng(seed)
    x = rng.normal(3.0, 5.0, size=(n, 3))
    x[:, 1] = 0.998
    if task == "regression":
        return Dataset(x, 100 + 7 * x[:, 0], ("a", "b", "c"), "y", task, ())
    return Dataset(x, rng.integers(0, 3, n), ("a", "b", "c"), "kind", task, ("u", "v", "w"))


def _load(dataset: Dataset, split: Split, validation_in_likelihood: bool = True) -> SplitData:
    with tempfile.TemporaryDirectory() as folder:
        save(f"{folder}/prepared.npz", dataset)
        save_split(f"{folder}/split.npz", dataset, split, validation_in_likelihood)
        return load_split(f"{folder}/prepared.npz", f"{folder}/split.npz")


@settings(deadline=None, max_examples=60)
@given(
    n=st.integers(30, 300),
    kind=st.sampled_from(KINDS),
    test=st.floats(0.1, 0.5),
    validation=st.one_of(st.just(0.0), st.floats(0.1, 0.5)),
    seed=st.integers(0, 2**31),
    index=st.integers(0, 19),
    limit=st.one_of(st.none(), st.integers(25, 400)),
)
def test_split_is_a_partition(
    n: int, kind: str, test: float, validation: float, seed: int, index: int, limit: int | None
) -> None:
    config = SplitConfig.model_validate(
        {"kind": kind, "test": test, "validation": validation, "seed": seed, "limit": limit}
    )
    split = make_split(n, config, index)
    used = n if limit is None else min(n, limit)
    rows = np.concatenate(split)
    assert len(rows) == used
    assert len(set(rows.tolist())) == used
    assert rows.min() >= 0
    assert rows.max() < n
    assert all(part.dtype == np.int64 for part in split)
    expected_test = {
        "random": round(test * used),
        "standard": used - round(0.9 * used),
        "train_test_split": int(np.ceil(test * used)),
    }[kind]
    assert len(split.test) == expected_test
    assert len(split.validation) == round(validation * (used - expected_test))
    for one, other in zip(split, make_split(n, config, index), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("kind", KINDS)
def test_splits_and_seeds_differ(kind: str) -> None:
    first = make_split(100, SplitConfig(kind=kind), 0)
    assert set(first.test) != set(make_split(100, SplitConfig(kind=kind), 1).test)
    if kind != "standard":
        assert set(first.test) != set(make_split(100, SplitConfig(kind=kind, seed=5), 0).test)


def test_standard_splits_by_hand() -> None:
    config = SplitConfig(kind="standard", validation=0.0)
    # RandomState(1) permutes 0..9 to 2 9 6 4 0 3 1 7 8 5, then to 9 5 3 0 8 4 2 1 6 7; a stream that NumPy froze.
    assert make_split(10, config, 0).train.tolist() == [2, 9, 6, 4, 0, 3, 1, 7, 8]
    assert make_split(10, config, 0).test.tolist() == [5]
    assert make_split(10, config, 1).train.tolist() == [9, 5, 3, 0, 8, 4, 2, 1, 6]
    assert make_split(10, config, 1).test.tolist() == [7]


def test_standard_splits_follow_the_published_rule() -> None:
    n, state = 1503, np.random.RandomState(1)
    for index in range(20):
        order = state.choice(range(n), n, replace=False)
        split = make_split(n, SplitConfig(kind="standard", validation=0.1), index)
        np.testing.assert_array_equal(split.test, order[round(0.9 * n) :])
        np.testing.assert_array_equal(np.concatenate([split.train, split.validation]), order[: round(0.9 * n)])
        assert len(split.validation) == 135


def test_standard_split_counts() -> None:
    assert standard_split_count("protein") == 5
    assert standard_split_count("yacht") == 20


def test_train_test_split_is_scikit_learns() -> None:
    config = SplitConfig(kind="train_test_split", test=0.2, validation=0.0, seed=3)
    others, test = train_test_split(np.arange(1503), test_size=0.2, random_state=5)
    split = make_split(1503, config, 2)
    np.testing.assert_array_equal(split.train, others)
    np.testing.assert_array_equal(split.test, test)


def test_limit_takes_the_same_rows_for_all_splits() -> None:
    config = SplitConfig(limit=50, seed=4)
    rows = [set(np.concatenate(make_split(200, config, index)).tolist()) for index in range(3)]
    assert rows[0] == rows[1] == rows[2]
    assert rows[0] != set(range(50))
    assert rows[0] != set(np.concatenate(make_split(200, SplitConfig(limit=50, seed=5), 0)).tolist())


@pytest.mark.parametrize(
    ("n", "fields", "part"),
    [
        (2, {"test": 0.1}, "test"),
        (4, {"kind": "standard"}, "test"),
        (5, {"test": 0.2, "validation": 0.1}, "validation"),
        (3, {"test": 0.9, "validation": 0.0}, "train"),
        (2, {"test": 0.5, "validation": 0.9}, "train"),
        (0, {}, "0 rows"),
        (0, {"kind": "standard"}, "0 rows"),
        (1, {"kind": "train_test_split"}, "1 rows"),
        (1000, {"limit": 3, "test": 0.1, "validation": 0.0}, "3 rows leaves no test rows"),
    ],
)
def test_too_few_rows(n: int, fields: dict[str, float], part: str) -> None:
    with pytest.raises(DataError, match=part):
        make_split(n, SplitConfig.model_validate(fields), 0)


def test_negative_index() -> None:
    with pytest.raises(DataError, match="numbered from 0"):
        make_split(10, SplitConfig(), -1)


@pytest.mark.parametrize("validation_in_likelihood", [True, False])
def test_scaling_statistics(validation_in_likelihood: bool) -> None:
    dataset = _dataset()
    split = make_split(40, SplitConfig(test=0.25, validation=0.2), 0)
    data = _load(dataset, split, validation_in_likelihood)
    fit = np.concatenate([split.train, split.validation]) if validation_in_likelihood else split.train
    assert len(data.x_fit) == len(data.y_fit) == len(fit)
    np.testing.assert_allclose(data.x_fit.mean(0), 0, atol=1e-14)
    np.testing.assert_allclose(data.x_fit.std(0), [1, 0, 1], atol=1e-14)
    np.testing.assert_allclose([data.y_fit.mean(), data.y_fit.std()], [0, 1], atol=1e-14)
    np.testing.assert_allclose(data.x_mean, dataset.x[fit].mean(0), rtol=1e-14)
    assert data.y_scale == pytest.approx(dataset.y[fit].std(), rel=1e-14)
    parts = (data.x_train, data.x_validation, data.x_test), (data.y_train, data.y_validation, data.y_test)
    for rows, x, y in zip(split, *parts, strict=True):
        np.testing.assert_allclose(x * data.x_scale + data.x_mean, dataset.x[rows], rtol=1e-13)
        np.testing.assert_allclose(y * data.y_scale + data.y_mean, dataset.y[rows], rtol=1e-13)
    expected = [data.x_train, data.x_validation] if validation_in_likelihood else [data.x_train]
    np.testing.assert_array_equal(data.x_fit, np.concatenate(expected))


def test_constant_column_becomes_exactly_zero() -> None:
    # The standard deviation of 0.998 repeated is 1e-13 in floating point: dividing by it would make noise of size 1.
    dataset = _dataset(n=5000)
    assert dataset.x.std(axis=0)[1] > 0
    data = _load(dataset, make_split(5000, SplitConfig(), 0))
    assert data.x_scale[1] == 1
    assert not data.x_fit[:, 1].any()
    assert not data.x_test[:, 1].any()


def test_constant_target_becomes_exactly_zero() -> None:
    data = _load(_dataset()._replace(y=np.full(40, 0.1)), make_split(40, SplitConfig(), 0))
    assert data.y_scale == 1
    assert not data.y_fit.any()


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 1000), factor=st.floats(-1e6, 1e6), in_likelihood=st.booleans(), kind=st.sampled_from(KINDS))
def test_test_rows_do_not_touch_the_scaling(seed: int, factor: float, in_likelihood: bool, kind: str) -> None:
    dataset = _dataset(seed=seed)
    split = make_split(40, SplitConfig.model_validate({"kind": kind, "seed": seed}), 0)
    x, y = dataset.x.copy(), dataset.y.copy()
    outside = split.test if in_likelihood else np.concatenate([split.test, split.validation])
    x[outside] = x[outside] * factor + 17
    y[outside] = y[outside] * factor - 5
    before, after = _load(dataset, split, in_likelihood), _load(dataset._replace(x=x, y=y), split, in_likelihood)
    for name in ("x_mean", "x_scale", "y_mean", "y_scale", "x_fit", "y_fit", "x_train", "y_train"):
        np.testing.assert_array_equal(getattr(before, name), getattr(after, name))


def test_labels_stay_as_they_are() -> None:
    dataset = _dataset(task="classification")
    split = make_split(40, SplitConfig(), 0)
    data = _load(dataset, split)
    assert data.y_fit.dtype == data.y_test.dtype == np.int64
    assert (data.y_mean, data.y_scale) == (0.0, 1.0)
    assert (data.task, data.classes) == ("classification", ("u", "v", "w"))
    np.testing.assert_array_equal(data.y_test, dataset.y[split.test])


def test_empty_validation() -> None:
    data = _load(_dataset(), make_split(40, SplitConfig(validation=0.0), 0))
    assert data.x_validation.shape == (0, 3)
    assert data.y_validation.shape == (0,)
    np.testing.assert_array_equal(data.x_fit, data.x_train)


def test_split_of_other_data_is_refused(tmp_path: Path) -> None:
    dataset, other = _dataset(seed=0), _dataset(seed=1)
    save(tmp_path / "prepared.npz", other)
    save_split(tmp_path / "split.npz", dataset, make_split(40, SplitConfig(), 0))
    with pytest.raises(DataError, match=r"split\.npz was not made for .*prepared\.npz"):
        load_split(tmp_path / "prepared.npz", tmp_path / "split.npz")
    with pytest.raises(DataError, match=r"prepared\.npz: not a split"):
        load_split(tmp_path / "prepared.npz", tmp_path / "prepared.npz")


def test_split_file_holds_no_data_and_has_stable_bytes(tmp_path: Path) -> None:
    dataset = _dataset()
    for name in ("one", "two"):
        save_split(tmp_path / f"{name}.npz", dataset, make_split(40, SplitConfig(), 0))
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    with np.load(tmp_path / "one.npz", allow_pickle=False) as arrays:
        assert set(arrays.files) == {
            "train", "validation", "test", "validation_in_likelihood", "x_mean", "x_scale", "y_mean", "y_scale",
            "dataset",
        }  # fmt: skip


@pytest.mark.parametrize("limit", [None, 7])
@pytest.mark.parametrize(
    "settings",
    [
        *({"test": test, "validation": share} for test in (0.05, 0.5, 0.9) for share in (0, 0.1, 0.5)),
        *(
            {"kind": "train_test_split", "test": test, "validation_seed": seed}
            for test in (0.05, 0.9)
            for seed in (None, 3)
        ),
        {"kind": "standard"},
        {"kind": "mile", "rng": 1},
    ],
)
def test_plans_refuse_the_splits_that_cannot_be_made(settings: dict[str, Any], limit: int | None) -> None:
    config = SplitConfig(**settings, limit=limit)
    for n in range(2, 30):
        planned = made = True
        try:
            check_parts(n, config)
        except ConfigError:
            planned = False
        try:
            parts = make_split(n, config, 0)
            made = bool(len(parts.train) and len(parts.test) and (len(parts.validation) or not config.validation))
        except DataError:
            made = False
        assert planned == made, n
