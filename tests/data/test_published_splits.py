"""The publisher's division, its orders, and how images and sequences are scaled."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bnn_atlas.config.data.datasets import load_registry
from bnn_atlas.config.data.splits import SplitConfig
from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.config.settings import load_study
from bnn_atlas.data import DataError
from bnn_atlas.data.dataset import Dataset, save
from bnn_atlas.data.orders import tfds_order
from bnn_atlas.data.splitting import SplitData, load_split, make_split, split_file
from tests.config.folders import Edit, run_edit, study_file

REGISTRY = load_registry(Path(__file__).parents[2] / "config" / "datasets.yaml")
TRAIN, TEST = 30, 12


def _images(channels: int = 3, seed: int = 0, **changes: Any) -> Dataset:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 256, (TRAIN + TEST, 4, 5, channels), dtype=np.uint8)
    fields = {"kind": "image", "published_train": TRAIN, "published_scaling": ((0.5,) * channels, (0.25,) * channels)}
    y = rng.integers(0, 3, TRAIN + TEST)
    return Dataset(x, y, (), "label", "classification", ("a", "b", "c"), **(fields | changes))


def _tokens() -> Dataset:
    x = np.arange(TRAIN * 2 + TEST * 2, dtype=np.int32).reshape(-1, 2)
    fields: dict[str, Any] = {"kind": "tokens", "published_train": TRAIN, "vocabulary": 100}
    return Dataset(x, np.arange(TRAIN + TEST) % 2, (), "label", "classification", ("a", "b"), **fields)


def _table() -> Dataset:
    x, y = np.random.default_rng(0).normal(3, 2, (TRAIN + TEST, 2)), np.arange(TRAIN + TEST) % 2
    return Dataset(x, y, ("a", "b"), "y", "classification", ("u", "v"), published_train=TRAIN)


def _load(folder: Path, dataset: Dataset, **fields: Any) -> SplitData:
    save(folder / "prepared.npz", dataset)
    config = SplitConfig.model_validate({"kind": "published"} | fields)
    split_file(folder / "prepared.npz", folder / "split.npz", config, 0)
    return load_split(folder / "prepared.npz", folder / "split.npz")


def _rows(**fields: Any) -> list[list[int]]:
    config = SplitConfig.model_validate({"kind": "published"} | fields)
    return [part.tolist() for part in make_split(TRAIN + TEST, config, 0, TRAIN)]


def _edit(**changes: Any) -> Edit:
    """Change the run of the small study, which needs no figure."""

    def edit(study: dict[str, Any]) -> None:
        run_edit(**changes)(study)
        del study["figures"]

    return edit


def test_published_rows_in_the_files_order() -> None:
    assert _rows() == [[*range(27)], [27, 28, 29], [*range(30, 42)]]
    assert _rows(validation=0.0) == [[*range(30)], [], [*range(30, 42)]]
    assert _rows(first=10, first_test=2, validation=0.2) == [[*range(8)], [8, 9], [30, 31]]
    assert all(part.dtype == np.int64 for part in make_split(42, SplitConfig(kind="published"), 0, TRAIN))


def test_published_rows_in_tfds_order() -> None:
    orders = {
        part: sorted(range(n), key=lambda i, part=part: int(hashlib.md5(f"{part}{i}".encode()).hexdigest(), 16))
        for part, n in (("train", TRAIN), ("test", TEST))
    }
    train, test = orders["train"], [TRAIN + i for i in orders["test"]]
    assert tfds_order("train", TRAIN).tolist() == train != [*range(TRAIN)]
    assert _rows(order="tfds", validation=0.0) == [train, [], test]
    assert _rows(order="tfds", first=20, first_test=3, validation=0.1) == [train[:18], train[18:20], test[:3]]


def test_the_first_rows_of_cifar_in_tfds_order() -> None:
    """The ids that TensorFlow Datasets gives the first training images of its CIFAR sets (`train_16399`, ...)."""
    assert tfds_order("train", 50_000)[:8].tolist() == [16399, 1680, 47917, 17307, 27051, 48736, 26263, 1456]


@pytest.mark.parametrize(
    ("fields", "published_train", "message"),
    [
        ({"first": 31}, TRAIN, r"split\.first = 31: there are 30 published training rows"),
        ({"first_test": 13}, TRAIN, r"split\.first_test = 13: there are 12 published test rows"),
        ({}, None, "no published training rows; use another kind of split"),
        ({}, 0, "no published training rows; use another kind of split, or use the data as an out-of-distribution"),
        ({}, TRAIN + TEST, "no published test rows"),
        ({"first": 1}, TRAIN, "of 42 rows leaves no validation rows"),
    ],
)
def test_published_rows_that_there_are_not(fields: dict[str, Any], published_train: int | None, message: str) -> None:
    with pytest.raises(DataError, match=message):
        make_split(TRAIN + TEST, SplitConfig.model_validate({"kind": "published"} | fields), 0, published_train)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"order": "tfds"}, "order: only for kind 'published', not 'random'"),
        ({"kind": "standard", "first": 5, "first_test": 5}, "first, first_test: only for kind 'published'"),
        ({"kind": "published", "limit": 5}, "limit is not for kind 'published'"),
        ({"kind": "published", "count": 2}, "count = 2: kind 'published' has only one split"),
        ({"kind": "published", "first": 0}, "greater than or equal to 1"),
        ({"kind": "published", "order": "keras"}, "'file' or 'tfds'"),
        ({"scaling": "pixels"}, "'columns', 'all_rows', 'channels', 'published', 'unit' or 'none'"),
    ],
)
def test_settings_that_do_not_fit_together(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SplitConfig.model_validate(fields)


@pytest.mark.parametrize(
    ("dataset", "split", "message"),
    [
        (
            "diabetes",
            {"kind": "published"},
            r"split\.kind = 'published': the data set 'diabetes' has no published split",
        ),
        ("mnist", {"kind": "published", "first": 60001}, r"'mnist': split\.first = 60001: there are 60000 published"),
        ("mnist", {"kind": "published", "first_test": 10001}, r"there are 10000 published test rows"),
        ("notmnist", {"kind": "published"}, r"'notmnist': .* no published training rows"),
        ("cifar10_first4000", {"kind": "published"}, r"'cifar10_first4000': .* no published test rows"),
        ("mnist", {"scaling": "columns"}, r"split\.scaling = 'columns': .*'mnist' \(image\), use one of channels"),
        ("fashion_mnist", {"scaling": "published"}, r"'fashion_mnist' \(image\), use one of channels, unit, none"),
        ("imdb", {"scaling": "unit"}, r"'imdb' \(tokens\), use one of none"),
        ("digits", {"scaling": "channels"}, r"'digits' \(table\), use one of columns, all_rows, none"),
        ("hmc_imdb", {}, r"dataset = 'hmc_imdb': these are published predictions for 'imdb', not a data set"),
    ],
)
def test_split_that_the_data_set_does_not_have(
    tmp_path: Path, dataset: str, split: dict[str, Any], message: str
) -> None:
    likelihood = {"kind": "gaussian", "sigma": 0.5} if dataset == "diabetes" else {"kind": "categorical"}
    path = study_file(tmp_path, _edit(dataset=dataset, split=split, likelihood=likelihood))
    with pytest.raises(ConfigError, match=message):
        load_study(path, "paper", REGISTRY)


@pytest.mark.parametrize("split", [{"kind": "published", "first": 60000, "order": "tfds"}, {"scaling": "published"}])
def test_split_that_the_data_set_has(tmp_path: Path, split: dict[str, Any]) -> None:
    path = study_file(tmp_path, _edit(dataset="mnist", split=split, likelihood={"kind": "categorical"}))
    assert load_study(path, "paper", REGISTRY).runs["one"].config.split.validation == 0.1


@pytest.mark.parametrize("in_likelihood", [True, False])
def test_channels_are_scaled_with_the_fit_rows(tmp_path: Path, in_likelihood: bool) -> None:
    dataset = _images()
    data = _load(tmp_path, dataset, validation=0.2, validation_in_likelihood=in_likelihood)
    fit = dataset.x[: TRAIN if in_likelihood else 24].astype(np.float64)
    np.testing.assert_allclose(data.x_mean, fit.mean((0, 1, 2)), rtol=1e-14)
    np.testing.assert_allclose(data.x_scale, fit.std((0, 1, 2)), rtol=1e-14)
    assert data.x_mean.shape == data.x_scale.shape == (3,)
    expected = (dataset.x - fit.mean((0, 1, 2))) / fit.std((0, 1, 2))
    for part, rows in zip(("train", "validation", "test"), data.split, strict=True):
        x = getattr(data, f"x_{part}")
        assert x.dtype == np.float32
        np.testing.assert_allclose(x, expected[rows], atol=1e-6)
        np.testing.assert_array_equal(getattr(data, f"y_{part}"), dataset.y[rows])
    assert len(data.x_fit) == len(data.y_fit) == len(fit)
    assert (data.shape, data.kind, data.vocabulary, data.task) == ((4, 5, 3), "image", 0, "classification")


def test_test_images_do_not_touch_the_scaling(tmp_path: Path) -> None:
    dataset = _images()
    x = dataset.x.copy()
    x[TRAIN:] = 255 - x[TRAIN:] // 2
    one, two = _load(tmp_path, dataset), _load(tmp_path, dataset._replace(x=x))
    for name in ("x_mean", "x_scale", "x_fit"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


def test_statistics_of_many_images_are_exact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = _load(tmp_path, _images())
    monkeypatch.setattr("bnn_atlas.data.split_data.BLOCK", 47)
    blocks = _load(tmp_path, _images())
    np.testing.assert_array_equal(whole.x_mean, blocks.x_mean)
    np.testing.assert_array_equal(whole.x_scale, blocks.x_scale)


@pytest.mark.parametrize(
    ("scaling", "mean", "scale"), [("published", 127.5, 63.75), ("unit", 0.0, 255.0), ("none", 0.0, 1.0)]
)
@pytest.mark.parametrize("channels", [1, 3])
def test_constant_scalings(tmp_path: Path, scaling: str, mean: float, scale: float, channels: int) -> None:
    dataset = _images(channels)
    data = _load(tmp_path, dataset, scaling=scaling)
    assert data.x_mean.tolist() == [mean] * channels
    assert data.x_scale.tolist() == [scale] * channels
    np.testing.assert_allclose(data.x_test, (dataset.x[TRAIN:] - mean) / scale, rtol=1e-6, atol=1e-6)


def test_constant_channel_becomes_exactly_zero(tmp_path: Path) -> None:
    dataset = _images()
    dataset.x[..., 1] = 77
    data = _load(tmp_path, dataset)
    assert data.x_scale[1] == 1
    assert not data.x_fit[..., 1].any()


def test_sequences_stay_as_they_are(tmp_path: Path) -> None:
    dataset = _tokens()
    data = _load(tmp_path, dataset, first=20, validation=0.1)
    assert data.x_test.dtype == data.x_fit.dtype == np.int32
    np.testing.assert_array_equal(data.x_fit, dataset.x[:20])
    np.testing.assert_array_equal(data.x_test, dataset.x[TRAIN:])
    assert (data.x_mean.tolist(), data.x_scale.tolist(), data.vocabulary) == ([0.0], [1.0], 100)


def test_table_without_scaling(tmp_path: Path) -> None:
    np.testing.assert_array_equal(_load(tmp_path, _table(), scaling="none").x_test, _table().x[TRAIN:])


@pytest.mark.parametrize(
    ("dataset", "scaling", "message"),
    [
        (_tokens(), "unit", "'unit': not for data of kind 'tokens'; use one of none"),
        (_images(), "columns", "'columns': not for data of kind 'image'; use one of channels"),
        (_images(published_scaling=None), "published", "no published_scaling"),
    ],
    ids=["tokens", "image", "constants"],
)
def test_scaling_that_does_not_fit(tmp_path: Path, dataset: Dataset, scaling: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        _load(tmp_path, dataset, scaling=scaling)
    assert not (tmp_path / "split.npz").exists()


@pytest.mark.parametrize("in_likelihood", [True, False])
@pytest.mark.parametrize("fields", [{}, {"order": "tfds"}, {"kind": "random"}], ids=["file", "tfds", "random"])
def test_rows_are_held_once(tmp_path: Path, fields: dict[str, Any], in_likelihood: bool) -> None:
    data = _load(tmp_path, _images(), **fields, validation_in_likelihood=in_likelihood)
    assert set(vars(data)) & {"x_test", "_others"} == set(), "nothing is scaled before it is asked for"
    assert np.shares_memory(data.x_train, data.x_fit)
    assert np.shares_memory(data.x_validation, data.x_fit) is in_likelihood
    assert data.x_train.base is data.x_validation.base
    assert data.x_test is data.x_test
    assert not np.shares_memory(data.x_test, data.x_fit)
    scaled_bytes = sum(vars(data)[name].nbytes for name in ("x_test", "_others"))
    assert scaled_bytes == 4 * data.dataset.x.size, "one float32 per pixel"


@pytest.mark.parametrize("dataset", [_images(), _tokens(), _table()], ids=["images", "tokens", "table"])
def test_other_rows_are_scaled_like_the_splits_own(tmp_path: Path, dataset: Dataset) -> None:
    data = _load(tmp_path, dataset, order="tfds")
    np.testing.assert_array_equal(data.scaled(dataset.x[data.split.test]), data.x_test)
    assert data.scaled(dataset.x[:2]).dtype == data.x_test.dtype


def test_rows_of_another_shape_cannot_be_compared(tmp_path: Path) -> None:
    data = _load(tmp_path, _images())
    with pytest.raises(DataError, match=r"rows of shape \[4, 5, 1\] .* of shape \[4, 5, 3\]"):
        data.scaled(_images(1).x)
