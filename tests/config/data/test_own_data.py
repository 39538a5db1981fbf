"""A user's own tables in the registry."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
import yaml

from bnn_atlas.config.data.datasets import DatasetEntry, load_registry
from bnn_atlas.config.settings import load_study
from bnn_atlas.data.download import download
from bnn_atlas.data.errors import ChecksumError, DownloadError
from bnn_atlas.data.prepare import prepare
from tests.config.folders import refused, run_edit, study_file
from tests.copies import copy_config

CSV = "a,colour,y\n1,red,2\n 3, blue ,4.5\n\n5,red,NA\n"


def entry(folder: Path, content: str | bytes = CSV, name: str = "mine.csv", **changes: Any) -> DatasetEntry:
    """The entry of a file with this content, as the registry in `folder`/config has it."""
    (folder / "data").mkdir(exist_ok=True)
    (folder / "data" / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    written = {"path": f"data/{name}", "task": "regression", "target": "y", "text": ["colour"], "missing": "NA"}
    (folder / "config").mkdir(exist_ok=True)
    registry = folder / "config" / "datasets.yaml"
    registry.write_text(yaml.safe_dump({"mine": written | changes}), encoding="utf-8")
    return load_registry(registry)["mine"]


def test_everything_else_is_read_from_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = entry(tmp_path)
    assert (mine.rows, mine.inputs, mine.classes) == (2, 3, ())
    assert mine.own_checksums == {"mine.csv": hashlib.sha256(CSV.encode()).hexdigest()}
    monkeypatch.chdir(tmp_path)
    raw = download(mine.file("mine.csv"), tmp_path / "raw" / "mine.csv", cache=tmp_path / "cache")
    assert not (tmp_path / "cache").exists()
    data = prepare("mine", mine, [raw])
    assert data.feature_names == ("a", "colour=blue", "colour=red")
    assert data.x.tolist() == [[1, 0, 1], [3, 1, 0]]
    assert data.y.tolist() == [2, 4.5]


def test_classes_are_the_words_of_the_target(tmp_path: Path) -> None:
    mine = entry(tmp_path, "a\tkind\n1\tdog\n2\tcat\n", "mine.tsv", task="classification", target="kind", text=[])
    assert (mine.classes, mine.inputs) == (("cat", "dog"), 1)


def test_a_file_without_names(tmp_path: Path) -> None:
    mine = entry(tmp_path, "1;2\n3;4\n", "mine.dat", separator=";", columns=["x", "y"], text=[])
    assert (mine.rows, mine.inputs) == (2, 1)


def test_names_that_are_numbers_may_be_in_the_first_row_of_data(tmp_path: Path) -> None:
    mine = entry(tmp_path, "1,5\n2,6\n", columns=["0", "1"], target="1", text=[])
    assert (mine.rows, mine.inputs) == (2, 1)


def test_other_cells_have_no_advice_about_commas(tmp_path: Path) -> None:
    with refused("list the column under `text:`") as error:
        entry(tmp_path, "a;y\n1,x;2\n", separator=";", text=[])
    assert "points" not in str(error.value)


def test_a_table_with_too_few_rows_for_the_split_is_refused_when_planning(tmp_path: Path) -> None:
    mine = entry(tmp_path, "a,y\n1,2\n2,3\n", text=[])
    leaves = "runs.one: the data set 'mine': of 2 rows, split.kind 'random' leaves no "
    with refused(leaves, "use more rows, or change the shares (test 0.2, validation 0.1)"):
        load_study(study_file(tmp_path, run_edit(dataset="mine")), "demo", {"mine": mine})


def test_a_new_content_is_another_recipe(tmp_path: Path) -> None:
    first, second = entry(tmp_path).recipe, entry(tmp_path, CSV + "7,red,8\n").recipe
    assert first != second
    assert entry(tmp_path).recipe == first


def test_local_files_of_other_formats_need_no_checksum(tmp_path: Path) -> None:
    read = {"format": "whitespace", "columns": ["x", "y"]}
    file = {"name": "mine.dat", "path": "data/mine.dat", "read": read}
    given = {"task": "regression", "target": "y", "rows": 2, "inputs": 1, "licence": "mine", "files": [file]}
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine.dat").write_text("1 2\n3 4\n")
    (tmp_path / "config").mkdir()
    registry = tmp_path / "config" / "datasets.yaml"
    registry.write_text(yaml.safe_dump({"mine": given}))
    assert load_registry(registry)["mine"].own_checksums.keys() == {"mine.dat"}


NUMBERS = {"text": []}
CLASSES = {"text": ["soil"], "target": "kind", "task": "classification"}
MANY = {"columns": ["a", "y"], **NUMBERS}


@pytest.mark.parametrize(
    ("content", "changes", "expected"),
    [
        (CSV, {"path": "data/mien.csv"}, ["mine.path = 'data/mien.csv'", "no such file", "relative path starts at"]),
        (CSV, {"target": "yy"}, ["mine.target = 'yy'", "did you mean 'y'", "a, colour, y"]),
        (CSV, {"drop": ["b"]}, ["mine.drop = 'b'", "no such column"]),
        (CSV, {"drop": ["y"]}, ["mine: the target 'y' is also listed under `drop`"]),
        (CSV, NUMBERS, ["line 2, column 'colour': 'red' is not a number", "`text:`"]),
        (CSV, {"missing": None}, ["line 5, column 'y': 'NA' is not a number", "missing: 'NA'"]),
        (CSV, {"sha256": "0"}, ["mine: ", "unknown key 'sha256'"]),
        (CSV, {"name": "mine.xlsx"}, ["mine.xlsx", "save it as CSV"]),
        (b"a,y\n\xff,1\n", NUMBERS, ["cannot be read as text", "UTF-8"]),
        ("a,y\n1,2,3\n", NUMBERS, ["line 2: 3 cells in a table of 2 columns"]),
        ("a,y\n", NUMBERS, ["has no rows below the names"]),
        ("", NUMBERS, ["mine: data/mine.csv: the file is empty"]),
        ("\n \na,y\n", NUMBERS, ["mine: data/mine.csv: the first line is empty"]),
        ("a,y\n1,2\n", NUMBERS, ["data/mine.csv has one row; at least 2 are needed"]),
        ("a,b,y\n1,2,3\n1.0,2,4\n", NUMBERS, ["data/mine.csv: nothing can be predicted", "and these are: a, b"]),
        ("a,colour,y\n1,red,3\n1,red,4\n", {}, ["the same in all rows, and these are: a, colour"]),
        ("y\n1\n2\n", NUMBERS, ["data/mine.csv has no input columns"]),
        (CSV, {"drop": ["a", "colour"], **NUMBERS}, ["data/mine.csv has no input columns"]),
        ("a;b;y\n1,5;2;3\n", NUMBERS, ["the first line has semicolons between its cells", 'give `separator: ";"`']),
        ("a\tb\ty\n1\t2\t3\n", NUMBERS, ['has tabs between its cells; give `separator: "\\t"`']),
        ("a,y\n1,2\n", {"name": "mine.tsv", **NUMBERS}, ["data/mine.tsv: the first line has commas", 'separator: ","']),
        ("1;2\n3;4\n", MANY, ["the first line has semicolons between its cells"]),
        ("a;y\n1,5;2\n2;3\n", {"separator": ";", **NUMBERS}, ["line 2, column 'a': '1,5' is not a number", "here 1.5"]),
        ("a,a,y\n1,2,3\n", NUMBERS, ["the header of data/mine.csv (a,a,y) names 'a' more than once; rename all but"]),
        ("1,2,3\n", MANY | {"columns": ["a", "a", "y"]}, ["mine: `columns` (a,a,y) names 'a' more than once"]),
        (
            "a,b,y\n1,2,0\n", MANY | {"columns": ["y", "b", "a"], "missing": "a"},
            ["mine.columns: data/mine.csv has a header (a,b,y); leave `columns` out"],
        ),
        ("soil, Kind\nclay,x\nsand,y\n", CLASSES | {"columns": ["soil", "kind"]}, ["has a header (soil,Kind); leave"]),
        ("a,other,y\n1,2,0\n", MANY | {"columns": ["first", "second", "y"]}, ["has a header (a,other,y)"]),
        ("0,1\n1,2\n3,4\n", MANY | {"columns": ["0", "1"], "target": "1"}, ["has a header (0,1)"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(
    tmp_path: Path, content: str | bytes, changes: dict[str, Any], expected: list[str]
) -> None:
    with refused(*expected):
        entry(tmp_path, content, **changes)


def test_a_file_that_changes_after_planning_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = entry(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data" / "mine.csv").write_text("a,colour,y\n1,red,3\n")
    with pytest.raises(ChecksumError, match=r"data/mine\.csv has changed since this run was planned"):
        download(mine.file("mine.csv"), tmp_path / "raw.csv")
    assert not (tmp_path / "raw.csv").exists()
    (tmp_path / "data" / "mine.csv").unlink()
    with pytest.raises(DownloadError, match=r"data/mine\.csv: no such file"):
        download(mine.file("mine.csv"), tmp_path / "raw.csv")


def test_recipes_of_registered_data_know_no_path(tmp_path: Path) -> None:
    registry = load_registry(copy_config(tmp_path / "config") / "datasets.yaml")
    assert not any("path" in copy for entry in registry.values() for copy in entry.recipe["files"])
