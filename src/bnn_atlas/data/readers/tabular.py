"""Read tables of numbers and words from text files and workbooks, and hash their numbers."""

import csv
import hashlib
import json
import math
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from bnn_atlas.config.data.datasets import CsvReader, TableReader, Tables, WorkbookReader
from bnn_atlas.data.errors import DataError

Row = tuple[int, Sequence[Any]]
"""Line or sheet row, from 1, and its cells."""


class Table(NamedTuple):
    """The used columns of a file, in the file's order."""

    numbers: dict[str, np.ndarray]
    """Column -> [n] float64, finite."""
    words: dict[str, np.ndarray]
    """Text column -> [n] str."""
    order: tuple[str, ...]
    """All used columns in the file's order."""


def read_table(path: str | Path, reader: Tables) -> Table:
    """Read the used columns of a file.

    Raises DataError, with file, row and column, for a cell that is not a finite number, a row with the wrong number of
    cells, a header whose names or order differ from those registered, or a file that is not in this format.
    """
    source = Path(path)
    rows = _rows(source, reader)
    for place, cells in rows:
        if len(cells) != len(reader.columns):
            raise DataError(
                f"{source}: row {place} has {len(cells)} cells; {len(reader.columns)} columns are registered. Correct "
                "`columns` in config/datasets.yaml, or the file"
            )
    if isinstance(reader, WorkbookReader) or (isinstance(reader, CsvReader) and reader.header):
        rows = _without_header(source, rows, reader)
    used = [reader.columns.index(name) for name in reader.kept]
    if isinstance(reader, CsvReader) and reader.missing is not None:
        rows = [row for row in rows if all(row[1][i] != reader.missing for i in used)]
    if not rows:
        raise DataError(f"{source}: no rows of data; download the file again")
    numbers, words = {}, {}
    for index in used:
        name = reader.columns[index]
        column = [(place, cells[index]) for place, cells in rows]
        if name in reader.text:
            words[name] = _words(source, name, column, reader)
        else:
            numbers[name] = _numbers(source, name, column)
    return Table(numbers, words, reader.kept)


def table_hash(table: Table) -> str:
    """Hash of a table's numbers, independent of line ends, number formats and saving the file again.

    SHA-256 of ASCII text: one line per row, ended by a line feed; values in the order of the table's columns, separated
    by one blank, in C's format `%.9e` (ten significant digits, zero without sign).
    """
    columns = [[f"{value + 0.0:.9e}" for value in values.tolist()] for values in table.numbers.values()]
    text = "".join(" ".join(cells) + "\n" for cells in zip(*columns, strict=True))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _rows(source: Path, reader: Tables) -> list[Row]:
    """All rows that are not blank, including the header."""
    if isinstance(reader, WorkbookReader):
        return _sheet_rows(source, reader)
    try:
        with source.open(encoding="utf-8-sig", newline="") as lines:
            if isinstance(reader, CsvReader):
                return list(_csv_rows(lines, reader))
            return [(i, cells) for i, line in enumerate(lines, start=1) if (cells := line.split())]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{source}: not readable as {reader.format}: {error}") from error


def _sheet_rows(source: Path, reader: WorkbookReader) -> list[Row]:
    """Rows of a sheet that are not empty, without columns that are empty throughout."""
    import pandas as pd  # takes long to import

    engine: Literal["xlrd", "openpyxl"] = "xlrd" if reader.format == "xls" else "openpyxl"
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The xlrd engine is deprecated")  # no other engine in the lock reads xls
            sheets = pd.read_excel(source, sheet_name=None, header=None, dtype=object, na_filter=False, engine=engine)
    except Exception as error:  # both engines raise errors of many kinds for a damaged file
        reason = f"{type(error).__name__} {error}".rstrip()
        raise DataError(f"{source}: not readable as {reader.format}: {reason}") from error
    if reader.sheet is not None and reader.sheet not in sheets:
        raise DataError(f"{source}: no sheet '{reader.sheet}'; it has {', '.join(sheets)}")
    cells = sheets[reader.sheet or next(iter(sheets))]
    filled = cells.map(lambda cell: cell != "")
    kept = cells.where(filled, None).loc[filled.any(axis=1), filled.any(axis=0)]
    return [(int(place) + 1, row) for place, row in zip(kept.index, kept.to_numpy().tolist(), strict=True)]


def _csv_rows(lines: Iterable[str], reader: CsvReader) -> Iterator[Row]:
    parsed = csv.reader(lines, delimiter=reader.separator, skipinitialspace=True)
    for cells in parsed:
        if cells and not (reader.comment is not None and cells[0].startswith(reader.comment)):
            yield parsed.line_num, [cell.strip() for cell in cells]


def _without_header(source: Path, rows: list[Row], reader: CsvReader | WorkbookReader) -> list[Row]:
    """The rows below the header; DataError if the header is not the registered one, or is a row of data."""
    if not rows:
        return rows
    place, cells = rows[0]
    found = ["" if cell is None else str(cell).strip() for cell in cells]
    wanted = reader.header if isinstance(reader.header, tuple) else reader.columns
    if not _same_names(found, [name.strip() for name in wanted]):
        if all(_number(cell) is not None for cell in cells):
            raise DataError(f"{source}: row {place} should hold column names but holds numbers only")
        raise DataError(
            f"{source}: row {place} names the columns {', '.join(found)}, but {', '.join(wanted)} are registered. In "
            "config/datasets.yaml, put `columns` into the file's order, or give the file's own names as `header: "
            f"[{', '.join(map(json.dumps, found))}]`"
        )
    return rows[1:]


def _same_names(found: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether two headers agree up to case, blanks and punctuation, with all names still distinct."""
    plain = [[re.sub(r"[\W_]+", "_", name.casefold()).strip("_") for name in names] for names in (found, wanted)]
    return list(found) == list(wanted) or (plain[0] == plain[1] and len(set(plain[0])) == len(found))


def _number(cell: Any) -> float | None:
    """The finite number in a cell; None if there is none."""
    try:
        value = float(cell)
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None


def _numbers(source: Path, name: str, column: Sequence[tuple[int, Any]]) -> np.ndarray:
    values = np.empty(len(column))
    for i, (place, cell) in enumerate(column):
        value = _number(cell)
        if value is None:
            raise DataError(f"{source}: row {place}, column '{name}': {cell!r} is not a finite number")
        values[i] = value
    return values


def _words(source: Path, name: str, column: Sequence[tuple[int, Any]], reader: TableReader) -> np.ndarray:
    end = reader.strip_end.get(name) if isinstance(reader, CsvReader) else None
    words = []
    for place, cell in column:
        word = "" if cell is None else str(cell).rstrip(end) if end else str(cell)
        if not word:
            raise DataError(f"{source}: row {place}, column '{name}': the cell is empty")
        words.append(word)
    return np.array(words, dtype=np.str_)
