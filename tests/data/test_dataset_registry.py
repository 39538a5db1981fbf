"""The registry of data sets and its error messages."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from bnn_atlas.config.data.datasets import DatasetEntry, Registry, load_registry
from bnn_atlas.config.language.base import ConfigError
from tests.copies import REPOSITORY, published_datasets

REGISTRY = REPOSITORY / "config" / "datasets.yaml"


def _edited(tmp_path: Path, edit: Callable[[dict[str, Any]], None]) -> Path:
    # Through JSON, which has no anchors, so that an edit reaches one file only.
    data = json.loads(json.dumps(published_datasets()))
    edit(data)
    path = tmp_path / "datasets.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


def test_registry_has_the_papers_data_sets() -> None:
    registry = load_registry(REGISTRY)
    assert set(published_datasets()) == {
        "airfoil", "bikesharing", "bikesharing_mile", "concrete", "energy", "protein", "yacht", "boston", "kin8nm",
        "naval", "power_plant", "wine_red", "wine_white", "red_wine_grades", "white_wine_grades", "ionosphere", "adult",
        "diabetes", "digits",
        "airfoil_mile", "concrete_mile", "energy_mile", "protein_mile", "yacht_mile", "ionosphere_mile",
        "synthetic_regression_1x", "digits_images", "mnist", "fashion_mnist", "kmnist", "notmnist", "cifar10",
        "cifar10_first4000", "cifar10_jpeg", "cifar100", "svhn", "imdb", "cifar10c", "hmc_cifar10", "hmc_imdb",
        "line_1x", "clusters_1d", "clusters_1d_bnn_hmc", "wave_1d", "naval_bnn_hmc",
        "sinusoids_1", "sinusoids_2", "sinusoids_3", "notmnist_dark",
    }  # fmt: skip
    assert "deprecated" in registry["boston"].note
    assert "season" in registry["bikesharing_mile"].note
    assert "row number" in registry["bikesharing_mile"].note
    assert not registry["diabetes"].files
    assert not registry["digits"].files
    assert not registry["line_1x"].files
    assert "do not state the noise; 0.3 is chosen" in registry["line_1x"].note
    assert "do not give the function" in registry["clusters_1d"].note


def test_leaking_columns_of_bike_sharing_are_dropped() -> None:
    reader = load_registry(REGISTRY)["bikesharing"].files[0].read
    assert {"instant", "dteday", "casual", "registered"} == set(reader.drop)


@pytest.mark.parametrize(
    ("edit", "parts"),
    [
        (lambda d: d["airfoil"].update(licens="x"), ["airfoil", "licens", "did you mean 'licence'"]),
        (lambda d: d["airfoil"].update(rows="many"), ["airfoil.rows = 'many'", "must be a whole number"]),
        (lambda d: d["airfoil"].update(task="regresion"), ["airfoil.task = 'regresion'", "'classification'"]),
        (lambda d: d["yacht"]["files"][0]["read"].update(format="parquet"), ["yacht.files.0.read", "'xlsx'"]),
        (lambda d: d["wine_red"]["files"][0]["read"].update(separator=";;"), ["separator = ';;'"]),
        (lambda d: d["wine_red"]["files"][0].update(member="../x"), ["member = '../x'", "relative path"]),
        (lambda d: d["wine_red"]["files"][0].update(mirror="/etc/x"), ["mirror = '/etc/x'", "relative path"]),
        (lambda d: d["wine_red"]["files"][0].update(name="a/b"), ["name = 'a/b'"]),
        (
            lambda d: d["wine_red"]["files"][0].update(url="ftp://x/y"),
            ["url = 'ftp://x/y': must be an address that begins with http"],
        ),
        (lambda d: d["wine_red"]["files"][0].update(sha256="abc"), ["sha256 = 'abc'", "64 digits"]),
        (lambda d: d["wine_red"]["files"][0].pop("sha256"), ["wine_red.files.0", "sha256 or table_sha256"]),
        (lambda d: d["wine_red"].update(target="quali"), ["target 'quali'", "quality"]),
        (lambda d: d["ionosphere"].update(classes=[]), ["ionosphere", "classes"]),
        (lambda d: d["yacht"].update(task="classification", classes=["a", "b"]), ["yacht", "must be listed under"]),
        (lambda d: d["ionosphere"]["files"][0]["read"].update(text=[]), ["'class'", "must be listed under read.text"]),
        (lambda d: d["adult"]["files"][0].update(table_sha256="a" * 64), ["adult.files.0", "tables of numbers"]),
        (lambda d: d["adult"]["files"][1].update(name="adult.data"), ["adult", "same name"]),
        (lambda d: d["adult"]["files"][1]["read"].update(drop=["age"]), ["adult", "use the same columns"]),
        (lambda d: d["adult"]["files"][1]["read"]["text"].append("age"), ["adult", "text in the same"]),
        (lambda d: d["adult"]["files"][1]["read"].update(strip_end={"age": "."}), ["strip_end", "age"]),
        (lambda d: d["naval"]["files"][0]["read"].update(drop=["turbine"]), ["drop names turbine"]),
        (lambda d: d["kin8nm"]["files"][0]["read"]["columns"].append("theta1"), ["theta1 twice"]),
        (lambda d: d["digits"].update(bundled="iris"), ["digits.bundled = 'iris'", "'diabetes' or 'digits'"]),
        (lambda d: d["digits"].pop("bundled"), ["digits", "either files or bundled or generate"]),
        (lambda d: d["digits"].update(generate=d["line_1x"]["generate"]), ["digits", "either files or bundled or gen"]),
        (lambda d: d["line_1x"]["generate"].update(kind="sine"), ["line_1x.generate.kind = 'sine'", "'clusters'"]),
        (lambda d: d["line_1x"]["generate"].update(low=3.0), ["line_1x.generate", "high: 3.0 must be below 3.0"]),
        (lambda d: d["line_1x"]["generate"].update(noise=-0.1), ["line_1x.generate.noise = -0.1", "greater"]),
        (lambda d: d["line_1x"]["generate"].pop("noise"), ["line_1x.generate.noise: this key is missing"]),
        (lambda d: d["line_1x"]["generate"].update(sloap=2), ["unknown key 'sloap' (did you mean 'slope'?)"]),
        (lambda d: d["line_1x"].update(inputs=2), ["line_1x", "generate: needs task 'regression'", "inputs 1"]),
        (lambda d: d["line_1x"].update(published_train=5), ["published_train: the kind 'line' has no published"]),
        (lambda d: d["clusters_1d"].update(published_train=240), ["published_train from 1 to 239"]),
        (lambda d: d["clusters_1d"].pop("published_train"), ["published_train from 1 to 239"]),
        (lambda d: d["clusters_1d"]["generate"].update(test=[2, 1]), ["test: 2.0 must be below 1.0"]),
        (lambda d: d["wave_1d"]["generate"].update(intervals=[]), ["wave_1d.generate.intervals", "at least 1 item"]),
        (lambda d: d["wave_1d"]["generate"].update(intervals=[[0, 2], [1, 3]]), ["[0.0, 2.0], [1.0, 3.0] must not"]),
        (lambda d: d["wave_1d"]["generate"].update(intervals=[[2, 0]]), ["intervals: 2.0 must be below 0.0"]),
        (lambda d: d["airfoil"].update(inputs="five"), ["airfoil.inputs = 'five'", "such as [28, 28, 1]"]),
        (lambda d: d["airfoil"].update(inputs=[5]), ["airfoil", "inputs: the kind 'table' needs one number"]),
        (lambda d: d["mnist"].update(inputs=[28, 0, 1]), ["mnist.inputs", "such as [28, 28, 1]"]),
        (lambda d: d["mnist"].update(inputs=[28, 28]), ["mnist", "needs [height, width, channels]"]),
        (lambda d: d["mnist"].update(kind="picture"), ["mnist.kind = 'picture'", "'tokens'"]),
        (lambda d: d["mnist"].update(kind="table", inputs=784), ["mnist", "'idx' does not contain data of the kind"]),
        (lambda d: d["mnist"].update(vocabulary=3), ["mnist", "vocabulary: sequences need"]),
        (lambda d: d["mnist"].update(published_train=70001), ["of 70000 rows, at most 70000"]),
        (lambda d: d["mnist"].pop("published_train"), ["mnist", "published_train: files of training and test rows"]),
        (lambda d: d["mnist"].update(pixel_divisor=255), ["mnist", "pixel_divisor", "published_train: 0"]),
        (lambda d: d["mnist"]["published_scaling"].update(mean=[0.1, 0.2]), ["mnist", "one mean and one scale per"]),
        (lambda d: d["mnist"]["published_scaling"].update(scale=[0]), ["published_scaling.scale.0 = 0", "greater"]),
        (lambda d: d["mnist"]["files"][0].pop("part"), ["train-images-idx3-ubyte.gz (idx) needs part"]),
        (lambda d: d["mnist"]["files"][0].update(content_sha256="a" * 64), ["content_sha256 is not for", "'idx'"]),
        (lambda d: d["mnist"]["files"][0].update(table_sha256="a" * 64), ["table_sha256 is for tables of numbers"]),
        (lambda d: d["cifar10"]["files"][0].update(part="test"), ["holds both parts: leave part out"]),
        (lambda d: d["cifar10"]["files"][0]["read"].update(train=["/x"]), ["train.0 = '/x'", "relative path"]),
        (lambda d: d["cifar10_jpeg"]["files"][1].pop("mirror"), ["url or mirror is needed"]),
        (lambda d: d["imdb"].update(vocabulary=0), ["imdb", "vocabulary: sequences need"]),
        (lambda d: d["hmc_imdb"].pop("of"), ["hmc_imdb", "of: predictions and corruptions need"]),
        (lambda d: d["hmc_imdb"].update(of="mnist"), ["hmc_imdb.of = 'mnist'", "25000 published test rows"]),
        (lambda d: d["hmc_imdb"].update(of="imbd"), ["hmc_imdb.of = 'imbd'", "25000 published test rows"]),
        (lambda d: d["hmc_imdb"].update(inputs=3), ["hmc_imdb", "predictions for 2 classes need 2"]),
        (lambda d: d["hmc_imdb"].update(order="keras"), ["hmc_imdb.order = 'keras'", "'tfds'"]),
        (lambda d: d.update({"Two Words": d["digits"]}), ["Two Words"]),
    ],
)
def test_mistake_is_named(tmp_path: Path, edit: Callable[[dict[str, Any]], None], parts: list[str]) -> None:
    path = _edited(tmp_path, edit)
    with pytest.raises(ConfigError) as caught:
        load_registry(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    for part in parts:
        assert part in message


def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    def edit(data: dict[str, Any]) -> None:
        data["airfoil"]["rows"] = -1
        data["yacht"]["nott"] = "x"

    with pytest.raises(ConfigError) as caught:
        load_registry(_edited(tmp_path, edit))
    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.parametrize("text", ["- a\n- b\n", "", "airfoil: 3\n"])
def test_wrong_structure(tmp_path: Path, text: str) -> None:
    path = tmp_path / "datasets.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"datasets\.yaml"):
        load_registry(path)


def test_missing_registry_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        load_registry(tmp_path / "nowhere.yaml")


def test_missing_file_lists_the_files() -> None:
    registry = load_registry(REGISTRY)
    with pytest.raises(ConfigError, match=r"no file 'adult\.names'.*adult\.data, adult\.test"):
        registry["adult"].file("adult.names")
    with pytest.raises(ConfigError, match="bundled"):
        registry["digits"].file("digits.csv")
    with pytest.raises(ConfigError, match="generated"):
        registry["wave_1d"].file("wave.csv")


def test_entries_are_frozen() -> None:
    entry = load_registry(REGISTRY)["yacht"]
    with pytest.raises(ValueError, match="frozen"):
        entry.rows = 3


def test_registry_has_a_json_schema() -> None:
    assert "DatasetEntry" in Registry.model_json_schema()["$defs"]


def test_entries_survive_json() -> None:
    for entry in load_registry(REGISTRY).values():
        assert DatasetEntry.model_validate(json.loads(json.dumps(entry.model_dump(mode="json")))) == entry
