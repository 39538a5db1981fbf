"""A user's own tables in the registry."""

import gzip
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import openpyxl
import pytest
import yaml

from bnn_atlas.config.data.datasets import DatasetEntry, load_registry
from bnn_atlas.config.data.own_table import remarks
from bnn_atlas.config.settings import load_study
from bnn_atlas.data import ChecksumError, DownloadError
from bnn_atlas.data.download import download
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
    registry.write_text(yaml.safe_dump({"mine": written | changes}, allow_unicode=True), encoding="utf-8")
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
BINARIES = {
    b"PK\x03\x04": "a workbook (.xlsx, .ods) or a zip archive, not text", b"BZh9": "a bzip2 archive",
    b"\xfd7zXZ\0": "an xz archive", b"PAR1": "a Parquet file",
}  # fmt: skip
REFUNDS = "".join(f"{i},({i / 10})\n" if i % 3 else f"{i},{i}\n" for i in range(1, 40)) + "1,2\n" * 20
UNCLOSED = "5,1,3\n4,2,1\n" * 5 + '"5,1,3\n' + "6,2,3\n" * 29
CLASSES = {"text": ["soil"], "target": "kind", "task": "classification"}
MANY = {"columns": ["a", "y"], **NUMBERS}


@pytest.mark.parametrize(
    ("content", "changes", "expected"),
    [
        (CSV, {"path": "data/mien.csv"}, ["mine.path = 'data/mien.csv'", "no such file", "relative path starts at"]),
        (CSV, {"path": "data"}, ["mine.path = 'data': a folder, not a file"]),
        (CSV, {"target": "yy"}, ["mine.target: data/mine.csv: no column 'yy'", "a, colour, y", '`target: "y"`']),
        (CSV, {"target": "width"}, ["no column 'width'; there are a, colour, y"]),
        ("1,2\n3,4\n", NUMBERS, ["no column 'y'; there are 1, 2; if these are numbers", "`columns`"]),
        (CSV, {"drop": ["b"]}, ["mine.drop: data/mine.csv: no column 'b'", "`drop: []`"]),
        (CSV, {"drop": ["y"]}, ["the target 'y' is also listed under `drop`"]),
        (CSV, {"sha256": "0"}, ["mine: ", "unknown key 'sha256'"]),
        *((CSV, {"encoding": name}, [f"encoding = '{name}'", "no such enc"]) for name in ("utf-99", "base64", "rot13")),
        *((start + CSV.encode(), NUMBERS, ["cannot be read: it is", what]) for start, what in BINARIES.items()),
        ("a,y\n1,2\n3\0,4\n", NUMBERS, ["line 3 contains a NUL byte", "save it as CSV"]),
        (f"a,b,y\n{UNCLOSED}", NUMBERS, ["line 12: the quote (\") before '5,1,3' is not closed", "up to line 41"]),
        ("a,b,y\n" + UNCLOSED.replace('"5,1,3', '5,1,"3'), NUMBERS, ["line 12: the quote (\") before '3' is"]),
        (f"a,y\n{REFUNDS}", NUMBERS, ["line 2, column 'y': '(0.1)' is not a finite number", "as numbers in the file"]),
        ("a,y\n1,2\n2,3\n3,<1\n", NUMBERS, ["'<1' is not a finite number", "never left out because"]),
        *(
            ("a,y\n" + "".join(f"{i},{word.format(i, i % 4)}\n" for i in range(20)), NUMBERS | {"task": task}, [why])
            for word, task, why in (
                ("{0}.5%", "regression", "numbers with '%': write only the numbers"),
                ("1{1} # ok", "regression", "numbers with '# ok'"),
                ("2020-01-{0}", "regression", "20 different words in 20 rows are too many"),
                ("2020-01-{0}", "classification", "20 different words in 20 rows are too many"),
            )
        ),
        (CSV, {"name": "mine.xlsx"}, ["mine.xlsx", "save it as CSV"]),
        ("a,y\n1,2,3\n4,5\n", NUMBERS, ["line 2: 3 cells in a table of 2 columns", "correct or remove that line"]),
        ("a,y\n", NUMBERS, ["has no rows below its column names"]),
        ("", NUMBERS, ["mine: data/mine.csv: the file is empty"]),
        ("\n \na,y\n", NUMBERS, ["has no rows below its column names"]),
        ("a,y\n1,2\n", NUMBERS, ["data/mine.csv: the file has one row; at least 2 are needed"]),
        ("a,b,y\n1,2,3\n1.0,2,4\n", NUMBERS, ["data/mine.csv: nothing can be predicted", "as these are: a, b"]),
        ("a,colour,y\n1,red,3\n1,red,4\n", {}, ["as these are: a, colour"]),
        ("a,y\n1,7\n2,7.0\n", NUMBERS, ["column 'y': the target has one value, 7.0, in all rows"]),
        ("soil,kind\na,x\nb,x\n", CLASSES, ["column 'kind': the target has one class, 'x', in all rows"]),
        ("y\n1\n2\n", NUMBERS, ["data/mine.csv: the file has no input columns"]),
        (CSV, {"drop": ["a", "colour"], **NUMBERS}, ["data/mine.csv: the file has no input columns"]),
        ("1,2\n3,4\n", MANY | {"name": "mine.txt"}, ['separated by commas; give `separator: ","`']),
        ("a,a,y\n1,2,3\n", NUMBERS, ["(a,a,y) contain 'a' more than once; rename all but"]),
        ("1,2,3\n", MANY | {"columns": ["a", "a", "y"]}, ["mine.columns: ", "(a,a,y) contain 'a' more than once"]),
        (
            "a,b,y\n1,2,0\n", MANY | {"columns": ["y", "b", "a"], "missing": "a"},
            ["mine.columns: data/mine.csv: the file has a row of column names (a,b,y); give `columns: null`"],
        ),
        ("soil, Kind\nclay,x\nsand,y\n", CLASSES | {"columns": ["soil", "kind"]}, ["row of column names (soil,Kind)"]),
        ("a,other,y\n1,2,0\n", MANY | {"columns": ["first", "second", "y"]}, ["has a row of column names (a,other,y)"]),
        ("0,1\n1,2\n3,4\n", MANY | {"columns": ["0", "1"], "target": "1"}, ["has a row of column names (0,1)"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(
    tmp_path: Path, content: str | bytes, changes: dict[str, Any], expected: list[str]
) -> None:
    with refused(*expected):
        entry(tmp_path, content, **changes)


MESSY = (
    "Messung 4;;;;\nNr;Tag;Breite;Boden;Wert;\n;;mm;;N;\n"
    + "".join(f"{i};{i}. Mai;{i % 7},5;{'Löss' if i % 3 else 'Lehm'};1.{100 + i},25;\n" for i in range(1, 40))
    + "40;x;NA;Lehm;1.200,5;\n41;x;k.A.;Lehm;1.200,5;\n42;x;-200,0;;?;\n"
)
GERMAN = {"separator": ";", "decimal": ",", "thousands": "."}
WEIGHTS = "a,m,y\n" + "".join(f"{i},{i + 10} kg,{i % 7}\n" for i in range(30))
LABELS = "a,kind\n" + "".join(f"{i},{'elm' if i % 2 else 'ash'}\n" for i in range(30)) + "1,NA\n2,\n3,nan\n"


@pytest.mark.parametrize(
    ("content", "changes", "rows", "places"),
    [
        (MESSY.encode("cp1252"), {"target": "Wert"}, 39, ["cp1252", "line 4, column 'Breite'", "line 43, column 'Br"]),
        (MESSY.encode("utf-16"), {"target": "Wert"}, 39, ["utf-16", "line 43, column 'Breite': 'NA'", '";"']),
        (LABELS, {"target": "kind", "task": "classification"}, 30, ["line 32, column 'kind': 'NA' is a missing value"]),
        (LABELS, {"target": "kind"}, 30, ["line 2, column 'kind': 'ash' is not a finite number"]),
        ('a,y\n1,"12,34,567.5"\n2,"1,000"\n3,5\n', {}, 3, ["line 2, column 'y': '12,34,567.5'", '`thousands: ","`']),
        ('a,y\n1,"2,074.14"\n2,"1,000"\n3,5\n', {}, 3, ["line 2, column 'y': '2,074.14'", '`thousands: ","`']),
        ("# by hand\na,y\n# later\n1,2\n2,3\n", {}, 2, ["line 1: a comment", '`comment: "#"`']),
        ("a\ty\n1\t2\n4\t5\n", {"name": "m.tsv", "separator": ","}, 2, ['`separator: "\\t"`']),
        ("a   b y\n1 2 3\n 4 5  6 \n", {"name": "m.dat"}, 2, ['`separator: " "`']),
        ("a b  y\n1  2\t3\n4 5\t6 \n", {"name": "m.dat"}, 2, ['`separator: " "`']),
        ("a,b,y\n,1,2\n,2,3\n,3,4\n", {}, 3, ["line 2, column 'a': ''", '`drop: ["a"]`']),
        (CSV, {"missing": None}, 2, ["line 5, column 'y': 'NA' is not a finite number", '`missing: ["NA"]`']),
        (CSV, {}, 2, ["line 2, column 'colour': 'red' is not a finite number", '`text: ["colour"]`']),
        ("ä,y\n1,2\n2,NA\n3,4\n".encode("cp1252"), {}, 2, ['`encoding: "cp1252"`', "line 3, column 'y'"]),
        ("ä,y\n1,2\n2,NA\n3,45\n".encode("cp1252"), {}, 2, ['`encoding: "cp1252"`', "line 3, column 'y'"]),
        (CSV, {"drop": ["width", "Colours"]}, 2, ["no column 'width'", '`drop: ["colour"]`', "line 5, column 'y'"]),
        (CSV, {"target": "Y", "drop": ["color"]}, 2, ['`target: "y"`', '`drop: ["colour"]`']),
        ("a;b;y\n1.125;0,966;1,121\n2.250;0,500;2,250\n", {}, 2, ['`decimal: ","` and `thousands: "."`']),
        ("a,site,y\n1,1_0,2\n2,1_1,3\n", {}, 2, ["column 'site': '1_0' is not a finite number", '`text: ["site"]`']),
        ("Report, spring, 2020\na,b,y\n1,2,3\n4,5,6\n", {}, 2, ["with 'y', is line 2; give `skip: 1`"]),
        ("Report, 1, 2\na;b;y\n1,5;2,5;3,5\n4,5;5;6,5\n", {}, 2, ["with 'y', is line 2", '`separator: ";"` and `skip']),
        ("a,y\n1,2\n3,4\n".encode("utf-16-le"), {}, 2, ['`encoding: "utf-16-le"`']),
        ("a,y\n12\u2019000,1\n5'000.5,2\n7,3\n", {}, 3, ["line 2, column 'a'", '`thousands: "\'"`']),
        ("a,y\n12,1\n1.2.3,2\n7,3\n5,3\n", {}, 3, ["; if these are meant as numbers", '`missing: ["1.2.3"]`']),
        ("a,y\n12,1\n\u2013,2\n7,3\n", {}, 2, ['`missing: ["\u2013"]`']),
        (WEIGHTS, {}, 30, ["column 'm': '10 kg'", "numbers with 'kg': write only the numbers", '["m"]`']),
        (WEIGHTS.replace("kg", "\u20ac"), {}, 30, ["numbers with '\u20ac'", '["m"]`']),
        (re.sub(r"(\d+) kg", r"-\1%", WEIGHTS), {}, 30, ["these are numbers with '%'", '["m"]`']),
        (re.sub(r"(\d+) kg", r"(\1)", WEIGHTS), {}, 30, ["these are numbers in brackets", '["m"]`']),
        (WEIGHTS.replace(" kg", "", 26), {}, 26, ["numbers with 'kg': write only the numbers", '`missing: ["36 kg"']),
    ],
)  # fmt: skip
def test_all_problems_are_said_at_once_and_each_advice_works(
    tmp_path: Path, content: str | bytes, changes: dict[str, Any], rows: int, places: list[str]
) -> None:
    given = {"text": [], "missing": None} | changes
    with refused(*places) as error:
        entry(tmp_path, content, **given)
    lines = str(error.value).splitlines()
    advised = [dict(re.findall(r"`(\w+): ([^`]+)`", line)) for line in lines]
    assert all(advised), lines
    for advice in reversed(advised):
        given |= {key: json.loads(value) for key, value in advice.items()}
    assert entry(tmp_path, content, **given).rows == rows


@pytest.mark.parametrize(
    ("content", "changes", "x", "y"),
    [
        ("a;y;\n1,5;2;\n2,5;3;\n", {"separator": ";", "decimal": ","}, [[1.5], [2.5]], [2, 3]),
        ("a;y\n1;1.234,5\n2;-2.000\n", GERMAN, [[1], [2]], [1234.5, -2000]),
        ("a,y\n1,2\u202f000\n2,3\n", {"thousands": " "}, [[1], [2]], [2000, 3]),
        ("a,y\n-200,1\n-200.0,2\n3,?\n1,1\n2,2\n", {"missing": [-200, "?"]}, [[1], [2]], [1, 2]),
        ("a,y\n-2e2,1\n1,1\n2,2\n", {"missing": -200}, [[1], [2]], [1, 2]),
        ("title, of 2021\n\na,y\nm,N\n1,2\n2,3\n", {"skip": [2, 1]}, [[1], [2]], [2, 3]),
        ("a  y\n 1\t2 \n2 3\n", {"separator": " "}, [[1], [2]], [2, 3]),
        (",a,y\n0,1,2\n1,2,3\n", {}, [[1], [2]], [2, 3]),
        ("a,y\nr1,1,2\nr2,2,3\n", {}, [[1], [2]], [2, 3]),
        ("a,y,\n1,2,read\n2,3,twice\n", {}, [[1], [2]], [2, 3]),
        ("a,y,,\n1,2,,\n,,,\n2,3,,\n", {}, [[1], [2]], [2, 3]),
        (gzip.compress(b"a,y\n1,2\n2,3\n", mtime=0), {"name": "mine.csv.gz"}, [[1], [2]], [2, 3]),
        ("ä,y\n1,2\n2,3\n".encode("cp1252"), {"encoding": "cp1252"}, [[1], [2]], [2, 3]),
        ("a,y\n1,2\n% end\n2,3\n", {"comment": "%"}, [[1], [2]], [2, 3]),
        *(
            (f"a,y\n{minus}1,{minus}2.5\n2e-1,1.5-\n", {}, [[-1], [0.2]], [-2.5, -1.5])
            for minus in "\u2010\u2011\u2012\u2013\u2212\ufe63\uff0d"
        ),
        ("a;y\n1;1.234,5-\n2;2.000\u2212\n", GERMAN, [[1], [2]], [-1234.5, -2000]),
        ("a,y\n1,\u201312'000\n2,12\u2019000.5\n", {"thousands": "'"}, [[1], [2]], [-12000, 12000.5]),
    ],
)  # fmt: skip
def test_the_registry_and_the_job_read_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | bytes, changes: dict[str, Any], x: Any, y: Any
) -> None:
    mine = entry(tmp_path, content, **{"text": [], "missing": None} | changes)
    monkeypatch.chdir(tmp_path)
    data = prepare("mine", mine, [mine.files[0].path or ""])
    assert (data.x.tolist(), data.y.tolist()) == (x, y)


def test_a_workbook_with_title_and_units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book = openpyxl.Workbook()
    assert book.active is not None
    above: list[list[Any]] = [["Series 4"], [], ["n", "a", "soil", "y"], [None, "mm", None, "N"]]
    for row in (*above, [1, 2.5, "clay", 3], [2, 3.5, "sand", 4], [3, 1.5, "clay", 5], [4, "n/a", "sand", 6]):
        book.active.append(row)
    (tmp_path / "data").mkdir()
    book.save(tmp_path / "data" / "mine.xlsx")
    content = (tmp_path / "data" / "mine.xlsx").read_bytes()
    given: dict[str, Any] = {"name": "mine.xlsx", "text": [], "missing": None, "drop": ["n"]}
    with refused("row 1: ", "`skip: [2, 1]`", "row 4, column 'a': 'mm'", "row 8, column 'a': 'n/a'") as error:
        entry(tmp_path, content, **given)
    for key, value in re.findall(r"`(\w+): ([^`]+)`", str(error.value)):
        given[key] = json.loads(value)
    mine = entry(tmp_path, content, **given)
    monkeypatch.chdir(tmp_path)
    data = prepare("mine", mine, ["data/mine.xlsx"])
    assert (data.x.tolist(), data.y.tolist()) == ([[2.5, 1, 0], [3.5, 0, 1], [1.5, 1, 0]], [3, 4, 5])


def test_text_in_a_workbook_may_hold_numbers_of_any_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book = openpyxl.Workbook()
    assert book.active is not None
    book.active.append(["Read the other sheet"])
    sheet = book.create_sheet("Data")
    for row in [["Spring", "of 2020", "!"], ["a", "b", "y"], [0.5, "1.000,25", 2.25], [1.5, "0,75", 3]]:
        sheet.append(row)
    (tmp_path / "data").mkdir()
    book.save(tmp_path / "data" / "mine.xlsx")
    content = (tmp_path / "data" / "mine.xlsx").read_bytes()
    given: dict[str, Any] = {"name": "mine.xlsx", "text": [], "missing": None}
    with refused("is row 2 of sheet 'Data'", "row 3, column 'b': '1.000,25'") as error:
        entry(tmp_path, content, **given)
    keys = {key: json.loads(value) for key, value in re.findall(r"`(\w+): ([^`]+)`", str(error.value))}
    assert keys == {"sheet": "Data", "skip": 1, "decimal": ",", "thousands": "."}
    mine = entry(tmp_path, content, **given | keys)
    monkeypatch.chdir(tmp_path)
    data = prepare("mine", mine, ["data/mine.xlsx"])
    assert (data.x.tolist(), data.y.tolist()) == ([[0.5, 1000.25], [1.5, 0.75]], [2.25, 3])


@pytest.mark.parametrize(
    ("labels", "alike"),
    [
        (["1", "1.0", "0"], "'1', '1.0' count as different classes"),
        (["very  good", "very good", "bad"], "'very  good', 'very good' count as different classes"),
        (["T", "TRUE", "F"], "'T', 'TRUE' count as different classes"),
        (["no", "N", "yes"], "'N', 'no' count as different classes"),
        (["1", "10", "2"], ""),
    ],
)
def test_labels_that_are_most_likely_the_same_are_named(labels: list[str], alike: str) -> None:
    said = [remark for remark in remarks({}, {"y": labels * 20}, "y", 60, 0) if "different classes" in remark]
    assert [remark for remark in said if alike in remark] == said
    assert bool(said) == bool(alike)


@pytest.mark.parametrize("word", ["-", "--", "missing", "None", "n.a", "unknown", "NULL", "?", "(not available)"])
def test_words_that_often_mean_no_value_are_named(word: str) -> None:
    columns = {"colour": ["red", word, "blue"] * 30, "y": ["A", "B", word] * 30}
    said = remarks({}, columns, "y", 90, 0)
    assert [f"column 'colour': taken as words: {word!r};", f"column 'y': taken as classes: {word!r};"] == [
        remark[: remark.index(";") + 1] for remark in said if "taken as" in remark
    ]


@pytest.mark.parametrize(
    ("others", "code", "named"),
    [
        ([i / 10 for i in range(-20, 20)], -999, True),
        ([100.5 * i for i in range(-20, 40)], 9999, True),
        ([40.5 + i for i in range(40)] * 2, 0, False),
        ([400.5 + i for i in range(40)] * 2, 0, True),
        ([1, 2, 3, 4, 5] * 9, 99, True),
        ([0, 1] * 20, -9, True),
        ([0, 1] * 20, 10, False),
        ([2**i for i in range(20)] * 2, 2**20, False),
    ],
)
def test_numbers_that_often_mean_no_value_are_named(others: list[float], code: float, named: bool) -> None:
    values = [*others, code, code, code]
    inputs = [i % 7 for i in range(len(values))]
    said = [
        *remarks({"a": values, "y": inputs}, {}, "y", len(values), 0),
        *remarks({"a": inputs, "y": values}, {}, "y", len(values), 0),
        *remarks({"a": inputs}, {"y": list(map(str, values))}, "y", len(values), 0),
    ]
    codes = [remark for remark in said if "far from" in remark]
    assert len(codes) == 3 * named
    assert all(f": {code} in 3 of {len(values)} rows" in remark and "`missing`" in remark for remark in codes)


def test_inputs_that_tell_nothing_or_all_are_named() -> None:
    y = [i % 9 + 0.1 * (i % 4) for i in range(72)]
    numbers = {"y": y, "const": [3.0] * 72, "inches": [2.54 * v - 1 for v in y], "good": [i % 5 for i in range(72)]}
    words = {"same": ["x"] * 72, "flag": ["True", "true", "FALSE", "False"] * 18, "code": [f"c{v:.1f}" for v in y]}
    said = remarks(numbers, words, "y", 72, 0)
    assert [remark.partition(":")[0] for remark in said] == [
        f"column '{name}'" for name in ("flag", "flag", "const", "inches", "same", "code")
    ]


def test_what_is_odd_is_said_in_the_log_of_prepare(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kinds = [">50K", ">50K.", "<=50K", "<=50k", "once"]
    rows = "".join(f"{i},id{i},{kinds[min(i % 5, 4) if i == 4 else i % 4]}\n" for i in range(20))
    given = {"text": ["word"], "target": "kind", "task": "classification", "missing": "NA"}
    mine = entry(tmp_path, f"a,word,kind\n{rows}NA,x,once\n", **given)
    monkeypatch.chdir(tmp_path)
    prepare("mine", mine, [mine.files[0].path or ""])
    said = caplog.text
    for part in (
        "mine: 1 of 21 rows have missing values", "20 rows are very few", "'>50K', '>50K.' count as different classes",
        "'<=50K', '<=50k' count as different", "classes with a single row", "'once'", "20 different words in 20 rows",
    ):  # fmt: skip
        assert part in said, part


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
