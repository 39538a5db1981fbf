"""Prepared images, sequences and published predictions from small raw files."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bnn_atlas.config.data.datasets import DatasetEntry, load_registry
from bnn_atlas.data import ChecksumError, DataError, DownloadError
from bnn_atlas.data.dataset import Dataset, fingerprint, load, save
from bnn_atlas.data.download import download
from bnn_atlas.data.prepare import prepare, prepare_file
from bnn_atlas.data.published_predictions import load_predictions, prepare_predictions, read_probabilities
from bnn_atlas.data.readers.images import labels_hash
from tests.data import raw_files
from tests.data.registered_files import file_entry, sha256

REGISTRY = Path(__file__).parents[2] / "config" / "datasets.yaml"
RNG = np.random.default_rng(1)
X = RNG.integers(0, 256, (7, 4, 4), dtype=np.uint8)
Y = np.array([0, 2, 1, 1, 0, 2, 0], np.uint8)
FILES = [
    {"part": part, "read": {"format": "idx"}} for part in ("train", "train", "test", "test")
]  # images and labels of each part
CONTENTS = [raw_files.idx(X[:5]), raw_files.idx(Y[:5]), raw_files.idx(X[5:]), raw_files.idx(Y[5:])]


def _written(folder: Path, contents: Sequence[bytes]) -> list[Path]:
    paths = [folder / f"file{i}" for i in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    return paths


def _grey(contents: Sequence[bytes] = CONTENTS, **changes: Any) -> DatasetEntry:
    shape = {"inputs": [4, 4, 1], "rows": 7, "published_train": 5}
    return raw_files.entry(FILES, contents, **(shape | changes))


def test_images(tmp_path: Path) -> None:
    entry = _grey(published_scaling={"mean": [0.25], "scale": [0.5]})
    dataset = prepare("small", entry, _written(tmp_path, CONTENTS))
    np.testing.assert_array_equal(dataset.x, X[..., None])
    np.testing.assert_array_equal(dataset.y, Y)
    assert (dataset.x.dtype, dataset.y.dtype) == (np.uint8, np.int64)
    assert dataset[2:] == ((), "label", "classification", ("a", "b", "c"), "image", 5, 0, ((0.25,), (0.5,)), 1.0)


def test_test_files_may_come_first(tmp_path: Path) -> None:
    files, contents = FILES[2:] + FILES[:2], CONTENTS[2:] + CONTENTS[:2]
    entry = raw_files.entry(files, contents, inputs=[4, 4, 1], rows=7, published_train=5)
    np.testing.assert_array_equal(prepare("small", entry, _written(tmp_path, contents)).y, Y)


def test_test_set_only(tmp_path: Path) -> None:
    entry = raw_files.entry(FILES[2:], CONTENTS[2:], inputs=[4, 4, 1], rows=2, published_train=0)
    dataset = prepare("small", entry, _written(tmp_path, CONTENTS[2:]))
    assert dataset.published_train == 0
    np.testing.assert_array_equal(dataset.x, X[5:, :, :, None])


def test_images_sorted_by_class_take_the_order_of_the_labels(tmp_path: Path) -> None:
    # Levels say which image is which: class and rank within it.
    level = {("a", 0): 10, ("a", 1): 50, ("b", 0): 90, ("b", 1): 130, ("c", 0): 170}
    images = {
        f"{part}/{label}/{rank:04d}.jpg": raw_files.picture(np.full((8, 8, 3), value + shift, np.uint8), "JPEG")
        for part, shift in (("train", 0), ("test", 5))
        for (label, rank), value in level.items()
    }
    train, test = np.array([1, 0, 2, 0, 1]), np.array([2, 1, 1, 0, 0])
    contents = [raw_files.tar(images), raw_files.npy(train), raw_files.npy(test)]
    reader = {"format": "npy_labels"}
    files: list[Any] = [
        {"read": {"format": "image_tar"}}, {"part": "train", "read": reader}, {"part": "test", "read": reader},
    ]  # fmt: skip
    entry = raw_files.entry(files, contents, inputs=[8, 8, 3], rows=10, published_train=5)
    dataset = prepare("small", entry, _written(tmp_path, contents))
    assert dataset.x[:, 0, 0, 0].tolist() == [90, 10, 170, 50, 130, 175, 95, 135, 15, 55]
    assert dataset.y.tolist() == [*train.tolist(), *test.tolist()]
    contents[2] = raw_files.npy(np.array([2, 2, 1, 0, 0]))
    entry = raw_files.entry(files, contents, inputs=[8, 8, 3], rows=10, published_train=5)
    with pytest.raises(DataError, match=r"small: the test labels have \[2, 1, 2\] rows per class, the images"):
        prepare("small", entry, _written(tmp_path, contents))


@pytest.mark.parametrize(
    ("entry", "contents", "message"),
    [
        (_grey(inputs=[5, 4, 1]), CONTENTS, r"small: .*file0: a row has shape 4 x 4 x 1, but 5 x 4 x 1"),
        (_grey(inputs=[4, 4, 3]), CONTENTS, r"small: .*file0: .*4 x 4 x 3 is registered .* Delete the raw file"),
        (_grey(classes=["a", "b"]), CONTENTS, r"small: .*file1: row 1: label 2; 2 classes .* \(0 to 1\)"),
        (_grey(rows=8), CONTENTS, r"small: the files have 2 test rows and 2 labels, but 3 are"),
        (_grey(published_train=4), CONTENTS, r"small: the files have 5 train rows .* 4 are registered"),
        (_grey(), CONTENTS[:3], r"small: needs 4 raw files \(file0, file1, file2, file3\), got 3"),
    ],
)
def test_images_that_are_not_as_registered(
    tmp_path: Path, entry: DatasetEntry, contents: Sequence[bytes], message: str
) -> None:
    paths = _written(tmp_path, contents)
    with pytest.raises(DataError, match=message):
        prepare_file("small", entry, paths, tmp_path / "prepared.npz")
    assert sorted(tmp_path.iterdir()) == paths, "nothing is written"


def test_labels_of_other_rows_are_refused(tmp_path: Path) -> None:
    contents = [CONTENTS[0], raw_files.idx(Y[:4]), *CONTENTS[2:]]
    with pytest.raises(DataError, match="5 train rows and 4 labels, but 5 are"):
        prepare("small", _grey(contents), _written(tmp_path, contents))


def test_truncated_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    paths = _written(tmp_path, CONTENTS)
    paths[0].write_bytes(CONTENTS[0][:-5])
    with pytest.raises(ChecksumError, match=r"file0 from .* is not the registered file: it is truncated or altered"):
        prepare_file("small", _grey(), paths, tmp_path / "prepared.npz")
    assert not (tmp_path / "prepared.npz").exists()


def test_content_hash_accepts_another_packing(tmp_path: Path) -> None:
    wide, narrow = (raw_files.npy(Y[5:].astype(dtype)) for dtype in (np.int64, np.uint8))
    (tmp_path / "wide").write_bytes(wide)
    files: list[Any] = [*FILES[:3], {"part": "test", "read": {"format": "npy_labels"}}]
    files[3] |= {"sha256": sha256(wide), "content_sha256": labels_hash(tmp_path / "wide")}
    for last in (wide, narrow):
        contents = [*CONTENTS[:3], last]
        entry = raw_files.entry(files, contents, inputs=[4, 4, 1], rows=7, published_train=5)
        np.testing.assert_array_equal(prepare("small", entry, _written(tmp_path, contents)).y, Y)
    paths = _written(tmp_path, [*CONTENTS[:3], raw_files.npy(Y[5:] + 1)])
    with pytest.raises(ChecksumError, match=r"content_sha256 [0-9a-f]{64}\. Delete"):
        prepare("small", entry, paths)


def test_file_without_a_public_address(tmp_path: Path) -> None:
    file = file_entry(url=None)
    with pytest.raises(DownloadError, match=r"table\.csv has no public address .* BNN_ATLAS_MIRROR .* some/table\.csv"):
        download(file, tmp_path / "table.csv")


def _tokens(**changes: Any) -> Dataset:
    x = np.array([[0, 1, 5], [4, 5, 2]], np.int32)
    fields = {"kind": "tokens", "vocabulary": 6, "published_train": 1} | changes
    return Dataset(x, np.array([0, 1]), (), "sentiment", "classification", ("no", "yes"), **fields)


def _image(**changes: Any) -> Dataset:
    fields = {"kind": "image", "published_train": 2, "published_scaling": ((0.1, 0.2, 0.3), (0.5, 0.5, 0.5))}
    x, y = np.arange(48, dtype=np.uint8).reshape(4, 2, 2, 3), np.array([0, 1, 1, 0])
    return Dataset(x, y, (), "t", "classification", ("u", "v"), **(fields | changes))


def _regression(**changes: Any) -> Dataset:
    x = np.random.default_rng(0).normal(size=(6, 2))
    return Dataset(x, x[:, 0] ** 2, ("a", "größe=ü"), "y", "regression", (), **changes)


@pytest.mark.parametrize("make", [_tokens, _image, _regression])
def test_save_and_load(tmp_path: Path, make: Callable[..., Dataset]) -> None:
    dataset = make()
    for name in ("one", "two"):
        save(tmp_path / f"{name}.npz", dataset)
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    loaded = load(tmp_path / "one.npz")
    np.testing.assert_array_equal(loaded.x, dataset.x)
    np.testing.assert_array_equal(loaded.y, dataset.y)
    assert loaded.x.dtype == dataset.x.dtype
    assert loaded[2:] == dataset[2:]
    assert fingerprint(loaded) == fingerprint(dataset)
    assert fingerprint(dataset._replace(x=dataset.x[::-1])) != fingerprint(dataset)
    save(tmp_path / "none.npz", dataset._replace(published_train=None, published_scaling=None))
    assert load(tmp_path / "none.npz").published_train is None


def test_fingerprint_sees_values_and_shape() -> None:
    dataset = _regression()
    assert fingerprint(dataset) == fingerprint(dataset._replace(x=np.asfortranarray(dataset.x)))
    assert fingerprint(dataset) != fingerprint(dataset._replace(x=dataset.x + 1e-12))
    assert fingerprint(dataset) != fingerprint(dataset._replace(y=-dataset.y))
    assert fingerprint(dataset) != fingerprint(dataset._replace(x=dataset.x.reshape(3, 4)))


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (_tokens(vocabulary=5), r"row 0, position 2: token 5 is not in the vocabulary of 5 ids \(0 to 4\)"),
        (_tokens()._replace(x=np.array([[1, 2, 3], [3, 2, -1]], np.int32)), r"row 1, position 2: token -1"),
        (_tokens()._replace(x=np.zeros((2, 3))), r"'tokens' must be int32 with 2 axes .* found float64 \(2, 3\)"),
        (_image(kind="picture"), r"no such kind of data 'picture'"),
        (_image()._replace(x=np.zeros((4, 2, 2), np.uint8)), r"'image' must be uint8 with 4 axes .* \(4, 2, 2\)"),
        (_image()._replace(x=np.zeros((4, 2, 2, 2), np.uint8)), r"images have 1 or 3 channels, these have 2"),
        (_image()._replace(y=np.array([0, 1])), r"targets \(2,\)"),
        (_image()._replace(y=np.array([0, 1, 2, 0])), r"row 2: label 2; 2 classes are registered \(0 to 1\)"),
        (_image()._replace(y=np.array([0, 1, -1, 0])), r"row 2: label -1"),
        (_image()._replace(y=np.array([0, 1, 0.5, 0])), r"whole numbers; these are float64"),
        (_image(published_train=5), r"5 published training rows, but only 4 rows"),
    ],
)
def test_what_is_not_a_data_set_is_not_written(tmp_path: Path, dataset: Dataset, message: str) -> None:
    with pytest.raises(DataError, match=rf"prepared\.npz: .*{message}"):
        save(tmp_path / "prepared.npz", dataset)
    assert not list(tmp_path.iterdir())


def test_digits_as_images() -> None:
    registry = load_registry(REGISTRY)
    table, images = (prepare(name, registry[name]) for name in ("digits", "digits_images"))
    assert images.x.shape == (1797, 8, 8, 1)
    assert images.x.dtype == np.uint8
    assert (images.x.min(), images.x.max()) == (0, 255)
    np.testing.assert_array_equal(np.rint(images.x.reshape(1797, 64) * (16 / 255)), table.x)
    assert len(np.unique(images.x)) == 17
    np.testing.assert_array_equal(images.y, table.y)


PROBABILITIES = b"0.5 0.25 0.25\n1e-1 9.0e-01 0\n0 0 1\n0.2 0.3 0.5\n"


def _predictions(order: str, content: bytes = PROBABILITIES, **changes: Any) -> DatasetEntry:
    fields = {"kind": "predictions", "of": "mnist", "order": order, "inputs": 3, "rows": 4} | changes
    return raw_files.entry([{"read": {"format": "probabilities"}}], [content], **fields)


@pytest.mark.parametrize("order", ["file", "tfds"])
def test_predictions(tmp_path: Path, order: str) -> None:
    paths = _written(tmp_path, [PROBABILITIES])
    prepare_file("reference", _predictions(order), paths, tmp_path / "prepared.npz")
    loaded = load_predictions(tmp_path / "prepared.npz")
    assert (loaded.of, loaded.classes) == ("mnist", ("a", "b", "c"))
    assert loaded.probabilities.dtype == np.float32
    lines = np.array([line.split() for line in PROBABILITIES.splitlines()], np.float32)
    # The MD5 sums of test0 to test3 start with f6f4, 5a10, ad02 and 8ad8.
    rows = [0, 1, 2, 3] if order == "file" else [1, 3, 2, 0]
    np.testing.assert_array_equal(loaded.probabilities[rows], lines)
    with pytest.raises(DataError, match=r"published predictions for .mnist., not a data set"):
        prepare("reference", _predictions(order), paths)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            PROBABILITIES.replace(b"0.25 0.25", b"0.25 0.35"),
            r"line 1: probabilities .* these sum to 1\.1, the smallest",
        ),
        (PROBABILITIES.replace(b"0.2 0.3", b"-.2 0.7"), r"line 4: .* the smallest is -0\.2"),
        (PROBABILITIES.replace(b"0.9", b"nan").replace(b"9.0e-01", b"nan"), r"line 2: .* sum to nan"),
        (PROBABILITIES.replace(b"0 0 1", b"0 1"), r"line 3 has 2 values; 3 classes are registered"),
        (PROBABILITIES.replace(b"0 0 1", b"0 0 one"), r"line 3: could not convert string to float"),
        (PROBABILITIES + b"\n", r"line 5 has 0 values"),
        (b"\xff\xfe1 0 0\n", r"line 1: could not convert"),
    ],
    ids=raw_files.brief,
)
def test_what_is_no_distribution_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    paths = _written(tmp_path, [content])
    with pytest.raises(DataError, match=rf"file0: {message}"):
        prepare_file("reference", _predictions("file", content), paths, tmp_path / "prepared.npz")
    assert not (tmp_path / "prepared.npz").exists()


def test_number_of_predictions_is_checked(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="reference: 4 rows of probabilities, but 5"):
        prepare_predictions("reference", _predictions("file", rows=5), _written(tmp_path, [PROBABILITIES]))
    with pytest.raises(DataError, match="not as predictions"):
        prepare_predictions("small", _grey(), [])
    (tmp_path / "empty").write_bytes(b"")
    assert read_probabilities(tmp_path / "empty", 3).shape == (0, 3)
