"""Every registered data set from the real files (needs BNN_ATLAS_MIRROR)."""

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from bnn_atlas.config.datasets import CsvReader, load_registry
from bnn_atlas.data.checksum import verify
from bnn_atlas.data.dataset import Dataset
from bnn_atlas.data.download import fetch
from bnn_atlas.data.prepare import prepare

MIRROR = os.environ.get("BNN_ATLAS_MIRROR", "")  # read before a fixture hides it from the tests
if not MIRROR:
    pytest.skip(
        "BNN_ATLAS_MIRROR is not set: the real data sets cannot be had without network", allow_module_level=True
    )

REGISTRY = load_registry(Path(__file__).parents[2] / "config" / "datasets.yaml")
DOWNLOADED = sorted(name for name, entry in REGISTRY.items() if entry.files)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Dataset]:
    """Downloads, verifies and prepares a data set once."""
    folder = tmp_path_factory.mktemp("raw")

    @cache
    def get(name: str) -> Dataset:
        entry = REGISTRY[name]
        paths = [
            fetch(entry, file.name, folder / name / file.name, mirror=MIRROR, cache=folder / "cache")
            for file in entry.files
        ]
        return prepare(name, entry, paths)

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
    "boston": ({"crim": 0.00632, "lstat": 4.98}, 24),
    "ionosphere": ({"attribute_1": 1, "attribute_3": 0.99539, "attribute_34": -0.453}, 1),
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
