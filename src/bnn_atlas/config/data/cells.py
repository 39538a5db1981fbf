"""Reading tables as cells: the format of a file, its rows, and cells that are not valid numbers or words.

The configuration and the jobs both read tables through this module, so that they accept the same files.
"""

import codecs
import csv
import gzip
import io
import math
import re
from collections.abc import Iterator, Sequence
from itertools import compress
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from bnn_atlas.config.language.base import CountOrNone, Model

Row = tuple[int, Sequence[str]]
"""Line number in a text file, or row number in a sheet, from 1, and cells without surrounding blanks; an empty cell is
''."""
GZIP = b"\x1f\x8b"
ALIKE = {" ": "\u00a0\u2009\u202f", "'": "\u2019\u02bc\u00b4`"}
"""Thousands separator -> characters that programs print in its place."""
MINUS = re.compile("[\u2010\u2011\u2012\u2013\u2212\ufe63\uff0d]")
"""Characters that programs print for the minus of negative numbers, in place of a hyphen."""
AFTER = re.compile(r"^([\d.,].*)-$")
"""A negative number with a trailing minus."""
BINARY = {
    b"PK\x03\x04": "a workbook (.xlsx, .ods) or a zip archive",
    b"\xd0\xcf\x11\xe0": "an old workbook (.xls)",
    b"BZh": "a bzip2 archive",
    b"\xfd7zXZ": "an xz archive",
    b"7z\xbc\xaf": "a 7-zip archive",
    b"\x28\xb5\x2f\xfd": "a zstd archive",
    b"PAR1": "a Parquet file",
    b"ARROW1": "a Feather file",
    b"\x89HDF": "an HDF5 file",
    b"\x93NUMPY": "a NumPy array",
    b"SQLite format 3": "an SQLite database",
    b"%PDF": "a PDF",
}
"""First bytes of a file that is not text -> type of the file."""


def _texts(value: Any) -> Any:
    """A word or a list of words; unquoted numbers are accepted too."""
    if isinstance(value, list | tuple):
        return tuple(map(_texts, value))
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _known(encoding: str) -> str:
    try:
        " ".encode(encoding)  # also fails for base64 and the like
    except (LookupError, ValueError):
        raise ValueError("no such encoding; the usual ones are utf-8, utf-16, cp1252 and latin-1") from None
    return encoding


Missing = Annotated[str | tuple[str, ...] | None, BeforeValidator(_texts)]
Character = Annotated[str, StringConstraints(min_length=1, max_length=1)]
Skip = Annotated[CountOrNone | tuple[CountOrNone, CountOrNone], Field(exclude_if=lambda value: value == 0)]


class Numbers(Model):
    """Format of numbers that are written as text."""

    decimal: Annotated[Literal[".", ","], Field(exclude_if=lambda value: value == ".")] = "."
    """Decimal separator."""
    thousands: Annotated[Character | None, Field(exclude_if=lambda value: value is None)] = None
    """Separator of groups of three digits, such as the comma in 2,074.14 (or groups of two, as in 12,34,567). A blank
    includes narrow and no-break blanks, and an apostrophe includes curved ones."""


class Written(Numbers):
    """Format of a text file."""

    encoding: Annotated[str, AfterValidator(_known), Field(exclude_if=lambda value: value == "utf-8")] = "utf-8"
    """Encoding of the file: utf-8 (with or without a mark at the start), utf-16, cp1252 (Windows), latin-1, ..."""
    skip: Skip = 0
    """Number of lines to skip at the start of the file, such as a title. A list of two numbers also gives the number of
    rows to skip below the column names, such as a row of units: [0, 1]."""


def skipped(skip: int | tuple[int, int]) -> tuple[int, int]:
    """Numbers of lines to skip at the start of a file and below its header."""
    return (skip, 0) if isinstance(skip, int) else skip


def missing_words(missing: str | tuple[str, ...] | None) -> tuple[str, ...]:
    """Words that mark missing values."""
    return () if missing is None else (missing,) if isinstance(missing, str) else missing


def content(path: Path) -> bytes:
    """The bytes of a file, unpacked if it is gzipped."""
    found = path.read_bytes()
    return gzip.decompress(found) if found.startswith(GZIP) else found


def file_text(path: Path, encoding: str) -> str:
    """The text of a file, unpacked if it is gzipped.

    Raises UnicodeError if the encoding is wrong, and ValueError if the file is not text.
    """
    found = content(path)
    if kind := next((kind for start, kind in BINARY.items() if found.startswith(start)), None):
        raise ValueError(f"it is {kind}, not text")
    text = found.decode("utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding)
    if "\0" in text:
        before = text[: text.index("\0")]
        raise UnicodeError(f"line {before.count(chr(10)) + 1} contains a NUL byte, so this is not a text file")
    return text


def text_rows(text: str, separator: str, comment: str | None, skip: int) -> list[Row]:
    """Rows with at least one non-empty cell, from line `skip` + 1 on.

    Quotes, and blanks after a separator, are stripped; a blank as separator matches any run of blanks and tabs. Raises
    csv.Error.
    """
    lines: Iterator[str] = io.StringIO(text, newline="")
    for _ in range(skip):
        next(lines, None)
    if separator == " ":
        lines = (" ".join(line.split()) + "\n" for line in lines)
    parsed = csv.reader(lines, delimiter=separator, skipinitialspace=True)
    rows: list[Row] = []
    for cells in parsed:
        if any(cells) and not (comment is not None and cells[0].startswith(comment)):
            stripped = [cell.strip() for cell in cells]
            if any(stripped):
                rows.append((skip + parsed.line_num, stripped))
    return rows


class Real(str):
    """A numeric cell of a workbook, which is read unchanged, whatever the number format of text cells."""

    __slots__ = ()


def _cell(value: Any) -> str:
    real = isinstance(value, int | float) and not isinstance(value, bool)
    return Real(value) if real else str(value).strip()


def workbook(path: Path, kind: Literal["xls", "xlsx"]) -> dict[str, Any]:
    """Name of each sheet -> its cells as a data frame; ValueError for a file that is not a workbook of this kind."""
    import warnings

    import pandas as pd  # takes long to import

    engine: Literal["xlrd", "openpyxl"] = "xlrd" if kind == "xls" else "openpyxl"
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The xlrd engine is deprecated")  # no other engine in the lock reads xls
            return pd.read_excel(path, sheet_name=None, header=None, dtype=object, na_filter=False, engine=engine)
    except Exception as error:  # both engines raise many kinds of errors for a damaged file
        raise ValueError(f"not readable as {kind}: {type(error).__name__} {error}".rstrip()) from error


def sheet_rows(sheet: Any, skip: int = 0) -> list[Row]:
    """Non-empty rows of a sheet, from row `skip` + 1 on, without the columns that are entirely empty."""
    rows = [list(map(_cell, row)) for row in sheet.iloc[skip:].to_numpy(dtype=object).tolist()]
    filled = [any(column) for column in zip(*rows, strict=True)]
    return [(place, list(compress(row, filled))) for place, row in enumerate(rows, start=skip + 1) if any(row)]


def workbook_rows(path: Path, kind: Literal["xls", "xlsx"], sheet: str | None, skip: int) -> list[Row]:
    """Read the rows of one sheet of a workbook file, as `sheet_rows` does.

    Raises ValueError if the file is not a workbook of this kind or has no such sheet.
    """
    sheets = workbook(path, kind)
    if sheet is not None and sheet not in sheets:
        raise ValueError(f"no sheet '{sheet}'; it has {', '.join(sheets)}")
    return sheet_rows(sheets[sheet or next(iter(sheets))], skip)


def fitted(cells: Sequence[str], width: int) -> Sequence[str]:
    """Cells of a row, dropping empty cells beyond the last column (left by trailing separators)."""
    return cells if any(cells[width:]) else cells[:width]


def with_index(header: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """Names of the columns; '' for an unnamed column, such as the column of row names written by R.

    If R wrote row names, each row has one more cell than the header. A last column with neither a name nor any cells is
    ignored.
    """
    names, width = list(header), len(header)
    wide = all(len(fitted(cells, width + 1)) == width + 1 and cells[width] for _, cells in rows)
    if wide and len(rows) > 1 and len({cells[0] for _, cells in rows}) == len(rows):
        return ["", *names]
    while names and not names[-1] and not any(any(cells[len(names) - 1 : len(names)]) for _, cells in rows):
        names.pop()
    return names


def number(cell: str, decimal: str = ".", thousands: str | None = None) -> float | None:
    """The finite number in a cell; None if there is none, or if its digits are not grouped as expected."""
    if "_" in cell:  # float would read 1_0 as 10
        return None
    if isinstance(cell, Real):
        decimal, thousands = ".", None
    cell = AFTER.sub(r"-\1", MINUS.sub("-", cell))
    if thousands is not None:
        if thousands in ALIKE:
            cell = re.sub(f"[{ALIKE[thousands]}]", thousands, cell)
        if thousands in cell:
            mark, point = re.escape(thousands), re.escape(decimal)
            whole = rf"[1-9](\d{{0,2}}({mark}\d{{3}})+|\d?({mark}\d\d)+{mark}\d{{3}})"
            if not re.fullmatch(rf"[-+]?{whole}({point}\d*)?([eE][-+]?\d+)?", cell):
                return None
            cell = cell.replace(thousands, "")
    if decimal == ",":
        if "." in cell:
            return None
        cell = cell.replace(",", ".")
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


class Fault(NamedTuple):
    """A cell of a used column that is not a valid number or word."""

    place: int
    """Line or row of the cell."""
    column: str
    cell: str


class Parsed(NamedTuple):
    """The columns in use, without the rows that have missing values."""

    numbers: dict[str, list[float]]
    words: dict[str, list[str]]
    left_out: int
    """Number of rows with missing values."""
    faults: list[Fault]
    """Invalid cells; columns with such cells are incomplete."""


def parse(
    rows: Sequence[Row],
    columns: Sequence[str],
    used: Sequence[str],
    text: Sequence[str],
    missing: str | tuple[str, ...] | None = None,
    decimal: str = ".",
    thousands: str | None = None,
) -> Parsed:
    """The cells of the columns `used` as numbers, or as words for the columns in `text`.

    A row is left out if a cell in use equals a `missing` marker; in numeric columns also if it equals one numerically
    (-99.0 for -99). All rows must have one cell per column.
    """
    absent = frozenset(missing_words(missing))
    values = {value for word in absent if (value := number(word, decimal, thousands)) is not None}
    values |= {value for word in absent if (value := number(word)) is not None}
    complete = [True] * len(rows)
    found: dict[str, Sequence[Any]] = {}
    for name in used:
        place = columns.index(name)
        cells = [row[1][place] for row in rows]
        words = name in text
        read = cells if words else [number(cell, decimal, thousands) for cell in cells]
        found[name] = read
        for i, cell in enumerate(cells):
            if cell in absent or (not words and read[i] in values):
                complete[i] = False
    kept = [i for i, whole in enumerate(complete) if whole]
    numbers, all_words, faults = {}, {}, []
    for name in used:
        place = columns.index(name)
        faults += [
            Fault(rows[i][0], name, rows[i][1][place]) for i in kept if found[name][i] is None or found[name][i] == ""
        ]
        chosen = [found[name][i] for i in kept]
        if name in text:
            all_words[name] = list(map(str, chosen))
        else:
            numbers[name] = chosen
    return Parsed(numbers, all_words, len(rows) - len(kept), faults)


NAMED = 5
"""Number of cells that one message lists."""
LONG = 60
"""Number of characters of a cell that a message shows."""


def short(cell: str) -> str:
    """A cell in quotes; long ones are cut."""
    return repr(cell if len(cell) <= LONG else f"{cell[:LONG]}...")


def told(faults: Sequence[Fault], text: Sequence[str], place: str = "row") -> dict[str, str]:
    """Column -> text with its first invalid cell and the number of further ones."""
    columns: dict[str, list[Fault]] = {}
    for fault in faults:
        columns.setdefault(fault.column, []).append(fault)
    lines = {}
    for name, (first, *others) in columns.items():
        what = "the cell is empty" if name in text else f"{short(first.cell)} is not a finite number"
        cells = list(dict.fromkeys(short(fault.cell) for fault in others))
        shown = ", ".join(cells[:NAMED]) + (", ..." if len(cells) > NAMED else "")
        more = f", and {len(others)} more such cell{'s' if len(others) > 1 else ''} ({shown})" if others else ""
        lines[name] = f"{place} {first.place}, column '{name}': {what}{more}"
    return lines
