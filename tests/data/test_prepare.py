"""Prepared tables from small raw files, and from the data sets that come with scikit-learn."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bnn_atlas.config.data.datasets import DatasetEntry, load_registry
from bnn_atlas.data import ChecksumError, DataError
from bnn_atlas.data.prepare import prepare
from tests.data.registered_files import CSV, file_entry, sha256

REGISTRY = Path(__file__).parents[2] / "config" / "datasets.yaml"


def _entry(**changes: Any) -> DatasetEntry:
    fields = {"task": "regression", "target": "y", "rows": 3, "inputs": 2, "licence": "none", "files": [file_entry()]}
    fields |= changes
    fields["files"] = [file.model_dump() for file in fields["files"]]
    return DatasetEntry.model_validate(fields)


def _words(content: bytes, name: str) -> Any:
    reader = {
        "format": "csv", "header": False, "missing": "?", "comment": "|", "strip_end": {"income": "."},
        "columns": ["age", "colour", "hours", "income"], "text": ["colour", "income"],
    }  # fmt: skip
    return file_entry(content, name=name, read=reader)


def test_regression(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(CSV)
    dataset = prepare("small", _entry(), [tmp_path / "t.csv"])
    np.testing.assert_array_equal(dataset.x, [[1, 2], [4, 5.5], [-7, 8]])
    np.testing.assert_array_equal(dataset.y, [3, 6, 0.009])
    assert dataset[2:] == (("a", "b"), "y", "regression", (), "table", None, 0, None, 1.0)
    assert dataset.x.dtype == dataset.y.dtype == np.float64


def test_target_may_be_the_first_column(tmp_path: Path) -> None:
    content = b"y a b\n3 1 2\n"
    reader = {"format": "csv", "separator": " ", "header": True, "columns": ["y", "a", "b"]}
    (tmp_path / "t").write_bytes(content)
    dataset = prepare("small", _entry(rows=1, files=[file_entry(content, read=reader)]), [tmp_path / "t"])
    assert dataset.feature_names == ("a", "b")
    assert dataset.y.tolist() == [3.0]


def test_words_are_one_hot_and_files_are_joined_in_order(tmp_path: Path) -> None:
    train = b"39, Red, 40, <=50K\n50, Blue, 13, >50K\n38, ?, 40, >50K\n"
    test = b"|1x3 Cross validator\n25, Green, 40, <=50K.\n28, Red, 40, >50K.\n\n"
    entry = _entry(
        task="classification", target="income", classes=["<=50K", ">50K"], rows=4, inputs=5,
        files=[_words(train, "train"), _words(test, "test")],
    )  # fmt: skip
    paths = [tmp_path / "train", tmp_path / "test"]
    for path, content in zip(paths, (train, test), strict=True):
        path.write_bytes(content)
    dataset = prepare("income", entry, paths)
    assert dataset.feature_names == ("age", "colour=Blue", "colour=Green", "colour=Red", "hours")
    np.testing.assert_array_equal(
        dataset.x, [[39, 0, 0, 1, 40], [50, 1, 0, 0, 13], [25, 0, 1, 0, 40], [28, 0, 0, 1, 40]]
    )
    np.testing.assert_array_equal(dataset.y, [0, 1, 0, 1])
    assert dataset.y.dtype == np.int64
    assert dataset.classes == ("<=50K", ">50K")
    with pytest.raises(ChecksumError, match="train from"):
        prepare("income", entry, paths[::-1])


def test_unknown_label_is_named(tmp_path: Path) -> None:
    content = b"39, Red, 40, rich\n"
    entry = _entry(
        task="classification", target="income", classes=["<=50K", ">50K"], rows=1, inputs=3,
        files=[_words(content, "t")],
    )  # fmt: skip
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(DataError, match=r"income: column 'income' holds 'rich', but the registered"):
        prepare("income", entry, [tmp_path / "t"])


def test_other_shape_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(CSV)
    with pytest.raises(DataError, match=r"small: .*t\.csv gives 3 x 2 rows x inputs, but 4 x 2"):
        prepare("small", _entry(rows=4), [tmp_path / "t.csv"])
    with pytest.raises(DataError, match="3 x 5 are registered"):
        prepare("small", _entry(inputs=5), [tmp_path / "t.csv"])


def test_altered_raw_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(CSV + b"1,2,3\r\n")
    with pytest.raises(ChecksumError, match=sha256(CSV)):
        prepare("small", _entry(), [tmp_path / "t.csv"])


def test_number_of_raw_files_is_checked() -> None:
    with pytest.raises(DataError, match=r"small: needs 1 raw files \(table\.csv\), got 0"):
        prepare("small", _entry())


@pytest.mark.parametrize(
    ("name", "shape", "first"), [("diabetes", (442, 10), "age"), ("digits", (1797, 64), "pixel_0_0")]
)
def test_bundled(name: str, shape: tuple[int, int], first: str) -> None:
    entry = load_registry(REGISTRY)[name]
    dataset = prepare(name, entry)
    assert dataset.x.shape == shape
    assert dataset.feature_names[0] == first
    assert dataset.task == entry.task
    if name == "digits":
        assert dataset.y.dtype == np.int64
        assert len(dataset.classes) == 10
        assert set(dataset.y.tolist()) == set(range(10))
    else:
        assert dataset.y.dtype == np.float64
        assert dataset.y.mean() == pytest.approx(152.13, abs=0.01)
        assert dataset.x[:, 0].max() == 79
