"""Every registered data set from the real files (needs BNN_ATLAS_MIRROR)."""

import hashlib
import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from bnn_atlas.config.data.datasets import CsvReader, KerasReader, load_registry
from bnn_atlas.data.dataset import Dataset
from bnn_atlas.data.download import download, verify
from bnn_atlas.data.orders import tfds_order
from bnn_atlas.data.prepare import prepare
from bnn_atlas.data.published_predictions import Predictions, prepare_predictions
from bnn_atlas.data.readers import keras_imdb
from bnn_atlas.data.split_data import input_statistics

MIRROR = os.environ.get("BNN_ATLAS_MIRROR", "")  # read before a fixture hides it from the tests
if not MIRROR:
    pytest.skip("BNN_ATLAS_MIRROR is not set: the real data sets need it or a network", allow_module_level=True)

REGISTRY = load_registry(Path(__file__).parents[2] / "config" / "datasets.yaml")
DOWNLOADED = sorted(name for name, e in REGISTRY.items() if e.files and e.kind == "table" and not e.own_checksums)
NOT_THERE = {"cifar10", "cifar100", "svhn", "kmnist"}
IMAGES = sorted(name for name, e in REGISTRY.items() if e.files and e.kind == "image" and name not in NOT_THERE)


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[Path]]:
    """Downloads and verifies the files of a data set once."""
    folder = tmp_path_factory.mktemp("raw")

    @cache
    def get(name: str) -> list[Path]:
        entry = REGISTRY[name]
        return [
            download(file, folder / name / file.name, mirror=MIRROR, cache=folder / "cache") for file in entry.files
        ]

    return get


@pytest.fixture(scope="module")
def prepared(raw: Callable[[str], list[Path]]) -> Callable[[str], Dataset]:
    """Prepares a data set once."""

    @cache
    def get(name: str) -> Dataset:
        return prepare(name, REGISTRY[name], raw(name))

    return get


@pytest.fixture(scope="module")
def reference(raw: Callable[[str], list[Path]]) -> Callable[[str], Predictions]:
    """Prepares published predictions once."""

    @cache
    def get(name: str) -> Predictions:
        return prepare_predictions(name, REGISTRY[name], raw(name))

    return get


@pytest.mark.parametrize("name", DOWNLOADED)
def test_download_and_prepare(name: str, prepared: Callable[[str], Dataset]) -> None:
    entry = REGISTRY[name]
    dataset = prepared(name)
    assert dataset.x.shape == (entry.rows, entry.inputs)
    assert len(dataset.feature_names) == len(set(dataset.feature_names)) == entry.inputs
    assert entry.target not in dataset.feature_names
    assert np.isfinite(dataset.x).all()
    assert dataset.y.dtype == (np.float64 if entry.task == "regression" else np.int64)


# First row as the publishers' files show it.
FIRST_ROWS = {
    "airfoil": ({"frequency": 800, "displacement_thickness": 0.00266337}, 126.201),
    "bikesharing": ({"season": 1, "hr": 0, "atemp": 0.2879}, 16),
    "bikesharing_mile": ({"instant": 1, "hr": 0, "atemp": 0.2879}, 16),
    "concrete": ({"cement": 540, "age": 28}, 79.98611076),
    "energy": ({"relative_compactness": 0.98, "surface_area": 514.5, "glazing_area_distribution": 0}, 15.55),
    "protein": ({"total_surface_area": 13558.3, "mass_weighted_exposed_area": 1872790.507}, 17.284),
    "naval": ({"lever_position": 1.138, "compressor_inlet_temperature": 288, "fuel_flow": 0.082}, 0.95),
    "power_plant": ({"temperature": 8.34, "relative_humidity": 90.01}, 480.48),
    "wine_red": ({"fixed_acidity": 7.4, "alcohol": 9.4}, 5),
    "red_wine_grades": ({"fixed_acidity": 7.4, "alcohol": 9.4}, 2),
    "boston": ({"crim": 0.00632, "lstat": 4.98}, 24),
    "ionosphere": ({"attribute_1": 1, "attribute_3": 0.99539, "attribute_34": -0.453}, 1),
    "airfoil_mile": ({"frequency": 800, "displacement_thickness": 0.00266337}, 126.201),
    "synthetic_regression_1x": ({"x": -3.0}, -2.85098575409663),
    "adult": ({"age": 39, "workclass=State-gov": 1, "workclass=Private": 0, "native_country=United-States": 1}, 0),
}


@pytest.mark.parametrize("name", sorted(FIRST_ROWS))
def test_first_row(name: str, prepared: Callable[[str], Dataset]) -> None:
    dataset = prepared(name)
    values, target = FIRST_ROWS[name]
    row = dict(zip(dataset.feature_names, dataset.x[0].tolist(), strict=True))
    assert {key: row[key] for key in values} == values
    assert dataset.y[0] == target


def test_adult_rows_and_labels(prepared: Callable[[str], Dataset]) -> None:
    dataset = prepared("adult")
    # adult.names: 45222 complete rows, of which 24.78 % have the label >50K.
    assert dataset.y.mean() == pytest.approx(0.2478, abs=5e-5)
    assert (dataset.y[:30162].sum(), dataset.y[30162:].sum()) == (7508, 3700)
    words = [i for i, name in enumerate(dataset.feature_names) if name.startswith("native_country=")]
    np.testing.assert_array_equal(dataset.x[:, words].sum(axis=1), 1)


# Rows of each grade from 3 on, counted in the publisher's files.
GRADES = {"red": [10, 53, 681, 638, 199, 18], "white": [20, 163, 1457, 2198, 880, 175, 5]}


@pytest.mark.parametrize("colour", GRADES)
def test_grades_of_wine_are_targets_and_classes(colour: str, prepared: Callable[[str], Dataset]) -> None:
    graded, classes = prepared(f"wine_{colour}"), prepared(f"{colour}_wine_grades")
    np.testing.assert_array_equal(graded.x, classes.x)
    np.testing.assert_array_equal(graded.y, classes.y + 3)
    assert np.bincount(classes.y).tolist() == GRADES[colour]


def test_both_bike_sharing_sets_hold_the_same_hours(prepared: Callable[[str], Dataset]) -> None:
    raw, mile = (prepared(name) for name in ("bikesharing", "bikesharing_mile"))
    assert set(raw.feature_names) ^ set(mile.feature_names) == {"season", "instant"}
    np.testing.assert_array_equal(raw.x[:, 1:], mile.x[:, 1:])
    np.testing.assert_array_equal(raw.y, mile.y)


def test_both_copies_of_protein_hold_the_same_digits(prepared: Callable[[str], Dataset], tmp_path: Path) -> None:
    # The publisher's CASP.csv, written from the file of the standard splits, has the publisher's checksum.
    source = (Path(MIRROR) / "uci" / "protein_gal_data.txt").read_text().splitlines()
    header = ",".join(f'"{name}"' for name in ("RMSD", *(f"F{i}" for i in range(1, 10))))
    rows = [line.split() for line in source]
    text = "\n".join([header, *(",".join([row[-1], *row[:-1]]) for row in rows)]) + "\n"
    (tmp_path / "CASP.csv").write_text(text)
    entry = REGISTRY["protein"]
    assert isinstance(verify(tmp_path / "CASP.csv", entry.files[0]).read, CsvReader)
    ours, theirs = prepare("protein", entry, [tmp_path / "CASP.csv"]), prepared("protein")
    assert ours.feature_names == theirs.feature_names
    np.testing.assert_array_equal(ours.x, theirs.x)
    np.testing.assert_array_equal(ours.y, theirs.y)


def test_publishers_bike_file_is_accepted_too(prepared: Callable[[str], Dataset], tmp_path: Path) -> None:
    # The mirror's copy has other line ends and one damaged character in `instant`; undone, the checksum is the
    # publisher's, so both ways of verifying lead to the same table.
    content = (Path(MIRROR) / "uci" / "bike_hour.csv").read_bytes()
    original = content.replace(b"\x1160,", b"160,").replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    (tmp_path / "hour.csv").write_bytes(original)
    file = REGISTRY["bikesharing"].files[0].model_copy(update={"table_sha256": None})
    assert verify(tmp_path / "hour.csv", file).sha256 == file.sha256
    ours = prepare("bikesharing", REGISTRY["bikesharing"], [tmp_path / "hour.csv"])
    np.testing.assert_array_equal(ours.x, prepared("bikesharing").x)


@pytest.mark.parametrize("name", ["airfoil", "concrete", "energy", "protein", "yacht", "ionosphere"])
def test_table_of_the_mile_papers_is_the_publishers(name: str, prepared: Callable[[str], Dataset]) -> None:
    ours, mile = prepared(name), prepared(f"{name}_mile")
    assert ours.feature_names == mile.feature_names
    np.testing.assert_array_equal(ours.x, mile.x)
    # The workbook of concrete has its targets in binary, the other file in decimal.
    np.testing.assert_allclose(ours.y, mile.y, rtol=1e-14 if name == "concrete" else 0)


# First labels of both parts.
IMAGE_SETS = {
    "mnist": ([5, 0, 4, 1, 9, 2, 1, 3], [7, 2, 1, 0, 4, 1, 4, 9]),
    "fashion_mnist": ([9, 0, 0, 3, 0, 2, 7, 2], [9, 2, 1, 1, 6, 1, 4, 6]),
    "cifar10_jpeg": ([6, 9, 9, 4, 1, 1, 2, 7], [3, 8, 8, 0, 6, 6, 1, 6]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", IMAGES)
def test_images(name: str, prepared: Callable[[str], Dataset]) -> None:
    entry, dataset = REGISTRY[name], prepared(name)
    assert dataset.x.shape == (entry.rows, *entry.shape)
    assert dataset.x.dtype == np.uint8
    assert (dataset.x.min(), dataset.x.max()) == (0, 255)
    assert dataset.published_train == entry.published_train
    division = dataset.published_train or 0
    if name in IMAGE_SETS:
        train, test = IMAGE_SETS[name]
        assert dataset.y[:8].tolist() == train
        assert dataset.y[division : division + 8].tolist() == test
    if name not in ("mnist", "cifar10_first4000"):
        for part in (dataset.y[:division], dataset.y[division:]):
            assert set(np.bincount(part, minlength=10).tolist()) == {len(part) // 10}


def test_pixels_of_mnist(prepared: Callable[[str], Dataset]) -> None:
    x = prepared("mnist").x[:, :, :, 0]
    mean, scale = input_statistics(prepared("mnist"), np.arange(60000), "channels")
    constants = REGISTRY["mnist"].published_scaling
    assert constants is not None
    np.testing.assert_allclose([*mean / 255, *scale / 255], [*constants.mean, *constants.scale], atol=5e-5)
    # The first image, a 5, begins in row 5 with 3 18 18 18 126 136 175 26 166 255 247 127.
    assert x[0, 5, 12:24].tolist() == [3, 18, 18, 18, 126, 136, 175, 26, 166, 255, 247, 127]
    assert np.bincount(prepared("mnist").y[:60000]).tolist() == [
        5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949
    ]  # fmt: skip


MD5 = {
    "mnist": ["f68b3c2dcbeaaa9fbdd348bbdeb94873", "d53e105ee54ea40749a09fcbcd1e9432",
              "9fb629c4189551a2d022fa330f9573f3", "ec29112dd5afa0611ce80d1b7f02629c"],
    "fashion_mnist": ["8d4fb7e6c68d591d4c3dfef9ec88bf0d", "25c81989df183df01b3e8a0aad5dffbe",
                      "bef4ecab320f06d8554ea6380940ec79", "bb300cfdad3c16e7a12a480ee83cd310"],
}  # fmt: skip


@pytest.mark.parametrize("name", MD5)
def test_files_have_the_published_md5(name: str, raw: Callable[[str], list[Path]]) -> None:
    assert [hashlib.md5(path.read_bytes()).hexdigest() for path in raw(name)] == MD5[name]


def test_lossy_cifar_has_the_order_of_the_lossless_images(prepared: Callable[[str], Dataset]) -> None:
    lossless, lossy = prepared("cifar10_first4000"), prepared("cifar10_jpeg")
    np.testing.assert_array_equal(lossless.y, lossy.y[:4000])
    squares = ((lossless.x.astype(np.float32) - lossy.x[:4000]) ** 2).mean(axis=(1, 2, 3))
    assert 25 < 10 * np.log10(255**2 / np.median(squares)) < 35
    # Any image of another place is much further away.
    shuffled = ((lossless.x.astype(np.float32) - lossy.x[1:4001]) ** 2).mean(axis=(1, 2, 3))
    assert squares.max() < np.quantile(shuffled, 0.01)


def test_order_of_tensorflow_datasets() -> None:
    np.testing.assert_array_equal(tfds_order("test", 10000), np.load(Path(MIRROR) / "cifar10" / "tfds_order_test.npy"))


def test_labels_of_mnist_in_the_order_of_tensorflow_datasets(prepared: Callable[[str], Dataset]) -> None:
    assert prepared("mnist").y[tfds_order("train", 60000)[:10]].tolist() == [4, 1, 0, 7, 8, 1, 2, 7, 1, 6]


def test_reviews(prepared: Callable[[str], Dataset]) -> None:
    dataset = prepared("imdb")
    assert (dataset.x.dtype, dataset.x.shape, dataset.vocabulary) == (np.int32, (50000, 100), 20000)
    assert (dataset.x.min(), dataset.x.max()) == (0, 19999)
    assert [np.bincount(part).tolist() for part in np.split(dataset.y, 2)] == [[12500, 12500]] * 2
    ranks = json.loads((Path(MIRROR) / "imdb" / "imdb_word_index.json").read_text())
    words = {rank + 3: word for word, rank in ranks.items()} | {0: "", 1: "<start>", 2: "<unknown>"}
    # The first training review of keras.datasets.imdb, which ends like this; the first test review fits into 100.
    assert " ".join(words[i] for i in dataset.x[0, -8:].tolist()) == "after all that was shared with us all"
    assert dataset.y[:5].tolist() == [1, 0, 0, 1, 0]
    first = [words[i] for i in dataset.x[25000].tolist()]
    assert " ".join(first).split()[:7] == ["<start>", "please", "give", "this", "one", "a", "miss"]
    assert first[:32] == [""] * 32


def test_reviews_are_in_keras_order(prepared: Callable[[str], Dataset]) -> None:
    path = Path(MIRROR) / "imdb" / "keras_imdb_rebuilt.npz"
    parts = keras_imdb.read(path, "tokens_npz")
    with np.load(path) as arrays:
        orders = {part: arrays[f"{part}_keras_order"] for part in ("train", "test")}
    state = np.random.RandomState(113)
    for i, part in enumerate(("train", "test")):
        order = np.arange(25000)
        state.shuffle(order)
        np.testing.assert_array_equal(order, orders[part])
        tokens, offsets, labels = parts[part]
        rows = slice(25000 * i, 25000 * (i + 1))
        np.testing.assert_array_equal(prepared("imdb").y[rows], labels[orders[part]])
        for row in (0, 1, 24999):
            review = tokens[offsets[orders[part][row]] : offsets[orders[part][row] + 1]] + 3
            review = np.concatenate([np.zeros(100, int), [1], np.where(review < 20000, review, 2)])[-100:]
            np.testing.assert_array_equal(prepared("imdb").x[rows][row], review)


def test_published_layout_gives_the_registered_content(raw: Callable[[str], list[Path]], tmp_path: Path) -> None:
    # The mirror's reviews, written as lists in object arrays like the published imdb.npz.
    parts = keras_imdb.read(raw("imdb")[0], "tokens_npz")
    arrays = {}
    for part, (tokens, offsets, labels) in parts.items():
        lists = np.empty(len(labels), dtype=object)
        lists[:] = [piece.tolist() for piece in np.split(tokens, offsets[1:-1])]
        arrays |= {f"x_{part}": lists, f"y_{part}": labels}
    np.savez(tmp_path / "imdb.npz", **arrays)
    entry = REGISTRY["imdb"]
    reader = verify(tmp_path / "imdb.npz", entry.files[0]).read
    assert isinstance(reader, KerasReader)
    assert reader.format == "keras_npz"


def test_published_hmc_of_imdb(prepared: Callable[[str], Dataset], reference: Callable[[str], Predictions]) -> None:
    labels = prepared("imdb").y[25000:]
    probabilities = reference("hmc_imdb").probabilities
    assert (probabilities.dtype, probabilities.shape) == (np.float32, (25000, 2))
    assert (probabilities.argmax(axis=1) == labels).mean() == pytest.approx(0.8756, abs=1e-9)


def test_published_hmc_of_cifar(prepared: Callable[[str], Dataset], reference: Callable[[str], Predictions]) -> None:
    labels = prepared("cifar10_jpeg").y[50000:]
    probabilities = reference("hmc_cifar10").probabilities
    assert (probabilities.dtype, probabilities.shape) == (np.float32, (10000, 10))
    assert (probabilities.argmax(axis=1) == labels).mean() == pytest.approx(0.9144, abs=1e-9)
    assert -np.log(probabilities[np.arange(10000), labels]).mean() == pytest.approx(0.2773, abs=5e-5)
