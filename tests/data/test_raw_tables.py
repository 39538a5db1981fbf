"""Reading raw files, and the hash of their numbers."""

import hashlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from bnn_atlas.config.data.datasets import Reader
from bnn_atlas.data import DataError
from bnn_atlas.data.readers.tabular import Table, read_table, table_hash


def _reader(**fields: Any) -> Reader:
    return TypeAdapter(Reader).validate_python(fields)


def _whitespace(*columns: str, **fields: Any) -> Reader:
    return _reader(format="whitespace", columns=columns, **fields)


def _csv(*columns: str, **fields: Any) -> Reader:
    return _reader(**({"format": "csv", "header": True, "columns": columns} | fields))


def _write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def test_whitespace_with_tabs_and_blank_last_line(tmp_path: Path) -> None:
    path = _write(tmp_path / "t", "  1\t-2.5e-1   3\r\n4 5 6\r\n\r\n")
    table = read_table(path, _whitespace("a", "b", "c", drop=["b"]))
    assert table.order == ("a", "c")
    np.testing.assert_array_equal(table.numbers["a"], [1, 4])
    np.testing.assert_array_equal(table.numbers["c"], [3, 6])


def test_dropped_cells_are_not_looked_at(tmp_path: Path) -> None:
    path = _write(tmp_path / "t", "n,x,day\n\x111,0.5,2011-01-01\n,0.25,\n")
    table = read_table(path, _csv("n", "x", "day", drop=["n", "day"]))
    np.testing.assert_array_equal(table.numbers["x"], [0.5, 0.25])


def test_csv_with_words_missing_values_and_a_comment(tmp_path: Path) -> None:
    path = _write(tmp_path / "t", "|1x3 Cross validator\n1, Red, <=50K.\n2, ?, >50K.\n3, Blue, >50K.\n\n")
    reader = _csv(
        "n", "colour", "label",
        header=False, comment="|", missing="?", text=["colour", "label"], strip_end={"label": "."},
    )  # fmt: skip
    table = read_table(path, reader)
    assert table.words["colour"].tolist() == ["Red", "Blue"]
    assert table.words["label"].tolist() == ["<=50K", ">50K"]
    np.testing.assert_array_equal(table.numbers["n"], [1, 3])


def test_quoted_header_and_semicolons(tmp_path: Path) -> None:
    path = _write(tmp_path / "t", '"fixed acidity";"quality"\n7.4;5\n')
    assert read_table(path, _csv("fixed_acidity", "quality", separator=";")).numbers["quality"].tolist() == [5.0]


@pytest.mark.parametrize(
    "text",
    [
        "a,b,target\n1,2,3\n",
        '"a","b","target"\n1,2,3\n',
        "\ufeffA, B ,Target\r\n1,2,3\r\n",
    ],
)
def test_header_with_the_registered_names_is_skipped(tmp_path: Path, text: str) -> None:
    path = _write(tmp_path / "t", text)
    assert read_table(path, _csv("a", "b", "target")).numbers["target"].tolist() == [3.0]


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ("target,b,a", ("a", "b", "target")),
        ("a,c,target", ("a", "b", "target")),
        (",b,target", ("a", "b", "target")),
        ("B,b", ("b", "B")),
        ("x 1,x_1", ("x_1", "x 1")),
    ],
)
def test_header_with_other_names_is_refused(tmp_path: Path, header: str, columns: tuple[str, ...]) -> None:
    path = _write(tmp_path / "t.csv", f"{header}\n" + ",".join("123"[: len(columns)]) + "\n")
    with pytest.raises(DataError) as caught:
        read_table(path, _csv(*columns))
    names = ", ".join(header.split(","))
    assert str(caught.value).startswith(
        f"{path}: row 1 names the columns {names}, but {', '.join(columns)} are registered."
    )


def test_header_with_names_of_its_own_is_registered_with_them(tmp_path: Path) -> None:
    path = _write(tmp_path / "t", "X1,Y\n1,2\n")
    assert read_table(path, _csv("size", "price", header=["X1", "Y"])).numbers["price"].tolist() == [2.0]
    with pytest.raises(DataError, match="names the columns X1, Y, but Y, X1 are registered"):
        read_table(path, _csv("size", "price", header=["Y", "X1"]))
    with pytest.raises(ValueError, match="header lists 1 columns"):
        _csv("size", "price", header=["X1"])


def test_header_of_numbers_can_be_registered(tmp_path: Path) -> None:
    path = _write(tmp_path / "t", "2019,2020\n1,2\n")
    assert read_table(path, _csv("before", "after", header=["2019", "2020"])).numbers["after"].tolist() == [2.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3\n", "row 3 has 1 cells; 2 columns"),
        ("a,b,c\n1,2\n", "row 1 has 3 cells; 2 columns"),
        ("a,b\n1,2\n\n3,x\n", "row 4, column 'b': 'x' is not a finite number"),
        ("a,b\n1,nan\n", "row 2, column 'b': 'nan' is not a finite number"),
        ("a,b\ninf,1\n", "row 2, column 'a': 'inf' is not a finite number"),
        ("a,b\n,1\n", "row 2, column 'a': '' is not a finite number"),
        ("1,2\n3,4\n", "row 1 should hold column names"),
        ("a,b\n", "no rows of data"),
        ("", "no rows of data"),
    ],
)
def test_bad_csv_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = _write(tmp_path / "table.csv", text)
    with pytest.raises(DataError) as caught:
        read_table(path, _csv("a", "b"))
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


def test_empty_word_is_named(tmp_path: Path) -> None:
    path = _write(tmp_path / "t", "1, \n")
    with pytest.raises(DataError, match="row 1, column 'w': the cell is empty"):
        read_table(path, _csv("n", "w", header=False, text=["w"]))


@pytest.mark.parametrize("reader", [_csv("a", "b"), _whitespace("a", "b")])
def test_binary_file_is_refused(tmp_path: Path, reader: Reader) -> None:
    (tmp_path / "t").write_bytes(bytes(range(128, 256)))
    with pytest.raises(DataError, match="not readable as"):
        read_table(tmp_path / "t", reader)


def _workbook(path: Path, rows: list[list[Any]], sheets: tuple[str, ...] = ("first", "second")) -> Path:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name in sheets:
        book.create_sheet(name)
    for row in rows:
        book[sheets[-1]].append(row)
    book.save(path)
    book.close()
    return path


def test_xlsx_sheet_without_empty_rows_and_columns(tmp_path: Path) -> None:
    rows = [["X", None, "Y"], [0.98, None, 15.55], [None, None, None], [1, None, 20]]
    path = _workbook(tmp_path / "t.xlsx", rows)
    table = read_table(path, _reader(format="xlsx", sheet="second", columns=["x", "y"]))
    np.testing.assert_array_equal(table.numbers["x"], [0.98, 1])
    np.testing.assert_array_equal(table.numbers["y"], [15.55, 20])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([["x", "y"], [1, 2], [3, None]], "row 3, column 'y': '' is not a finite number"),
        ([["x", "y"], [1, 2], ["a", 3]], "row 3, column 'x': 'a' is not a finite number"),
        ([["x", "y", "z"], [1, 2, 3]], "row 1 has 3 cells; 2 columns"),
        ([["y", "x"], [1, 2]], "row 1 names the columns y, x, but x, y are registered"),
        ([[1, 2], [3, 4]], "row 1 should hold column names"),
        ([], "no rows of data"),
    ],
)
def test_bad_sheet_is_named(tmp_path: Path, rows: list[list[Any]], message: str) -> None:
    path = _workbook(tmp_path / "t.xlsx", rows, sheets=("only",))
    with pytest.raises(DataError, match=message):
        read_table(path, _reader(format="xlsx", columns=["x", "y"]))


def test_missing_sheet_lists_the_sheets(tmp_path: Path) -> None:
    path = _workbook(tmp_path / "t.xlsx", [["x", "y"], [1, 2]])
    with pytest.raises(DataError, match="no sheet 'Sheet5'; it has first, second"):
        read_table(path, _reader(format="xlsx", sheet="Sheet5", columns=["x", "y"]))


@pytest.mark.parametrize("kind", ["xls", "xlsx"])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
def test_truncated_workbook_is_refused(tmp_path: Path, kind: str, share: float) -> None:
    content = _workbook(tmp_path / "whole", [["x", "y"], [1, 2]]).read_bytes()
    if kind == "xls":
        content = bytes.fromhex("d0cf11e0a1b11ae1") + content
    (tmp_path / "cut").write_bytes(content[: int(share * len(content))])
    with pytest.raises(DataError, match=f"cut: not readable as {kind}"):
        read_table(tmp_path / "cut", _reader(format=kind, columns=["x", "y"]))


def test_hash_follows_its_definition(tmp_path: Path) -> None:
    path = _write(tmp_path / "t", "0.1,-0,skipped,12345678901.25\n2,3,x,4e-300\n")
    table = read_table(path, _csv("a", "b", "w", "c", header=False, drop=["w"]))
    text = (
        "1.000000000e-01 0.000000000e+00 1.234567890e+10\n"
        "2.000000000e+00 3.000000000e+00 4.000000000e-300\n"
    )  # fmt: skip
    assert table_hash(table) == hashlib.sha256(text.encode()).hexdigest()


def test_hash_does_not_see_line_ends_formats_and_containers(tmp_path: Path) -> None:
    rows = [[0.1, 162.0], [79.98611076, -2.5]]
    lines = _write(tmp_path / "lf", "x,y\n0.1,162\n79.98611076,-2.5\n")
    others = [
        (_write(tmp_path / "crlf", "x,y\r\n1e-1,162.0\r\n79.986110760,-2.50\r\n"), _csv("x", "y")),
        (_write(tmp_path / "digits", "x,y\n0.10000000000000001,162\n79.986110759999999,-2.5\n"), _csv("x", "y")),
        (_write(tmp_path / "blanks", ".1   162\n79.98611076\t-2.5"), _whitespace("x", "y")),
        (_workbook(tmp_path / "book.xlsx", [["x", "y"], *rows], ("s",)), _reader(format="xlsx", columns=["x", "y"])),
    ]
    expected = table_hash(read_table(lines, _csv("x", "y")))
    assert [table_hash(read_table(path, reader)) for path, reader in others] == [expected] * len(others)


@given(st.lists(st.tuples(*[st.floats(-1e9, 1e9)] * 2), min_size=1, max_size=5), st.data())
def test_hash_sees_every_change(rows: list[tuple[float, float]], data: st.DataObject) -> None:
    values = np.array(rows)
    row, column = data.draw(st.integers(0, len(rows) - 1)), data.draw(st.integers(0, 1))
    changed = values.copy()
    changed[row, column] = changed[row, column] * (1 + 1e-8) + math.copysign(1e-8, changed[row, column])

    def hashed(table: np.ndarray) -> str:
        return table_hash(Table({"x": table[:, 0], "y": table[:, 1]}, {}, ("x", "y")))

    assert hashed(values) == hashed(values * 1.0)
    assert hashed(values) != hashed(changed)
    assert math.isfinite(values.sum())
