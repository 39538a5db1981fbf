"""Cells of one sheet of an Excel workbook, old (.xls) or new (.xlsx).

Both libraries are called directly: pandas is about to drop its engine for .xls.
"""

import io
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError
from zipfile import BadZipFile

import openpyxl
import xlrd

from bnn_atlas.data.errors import DataError

# What the two libraries raise for truncated or altered workbooks (found by damaging some).
XLS_DAMAGE = (xlrd.XLRDError, xlrd.compdoc.CompDocError, struct.error, LookupError, AssertionError, ValueError)
XLSX_DAMAGE = (BadZipFile, ParseError, zlib.error, LookupError, ValueError, NotImplementedError, EOFError)


def sheet_rows(source: Path, kind: str, sheet: str | None) -> list[tuple[int, Sequence[Any]]]:
    """Row number (from 1) and cells of every row that is not empty, without columns that are empty throughout.

    `kind` is `xls` or `xlsx`; None for `sheet` means the first. Raises DataError for a file that is not such a
    workbook, and for a sheet that it does not have.
    """
    content = source.read_bytes()
    if not content:
        raise DataError(f"{source}: not readable as {kind}: the file is empty; download it again")
    damage = XLS_DAMAGE if kind == "xls" else XLSX_DAMAGE
    try:
        rows = (_xls if kind == "xls" else _xlsx)(source, content, sheet)
    except DataError:
        raise
    except damage as error:
        raise DataError(f"{source}: not readable as {kind}: {type(error).__name__} {error}".rstrip()) from error
    filled = [(place, cells) for place, cells in rows if any(cell not in (None, "") for cell in cells)]
    columns = sorted({i for _, cells in filled for i, cell in enumerate(cells) if cell not in (None, "")})
    return [(place, [cells[i] if i < len(cells) else None for i in columns]) for place, cells in filled]


def _xlsx(source: Path, content: bytes, sheet: str | None) -> list[tuple[int, Sequence[Any]]]:
    book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
    try:
        name = _sheet_name(source, book.sheetnames, sheet)
        return list(enumerate(book[name].iter_rows(values_only=True), start=1))
    finally:
        book.close()


def _xls(source: Path, content: bytes, sheet: str | None) -> list[tuple[int, Sequence[Any]]]:
    book = xlrd.open_workbook(file_contents=content, logfile=io.StringIO())
    page = book.sheet_by_name(_sheet_name(source, book.sheet_names(), sheet))
    return [(i + 1, page.row_values(i)) for i in range(page.nrows)]


def _sheet_name(source: Path, names: Sequence[str], wanted: str | None) -> str:
    if wanted is None:
        return names[0]
    if wanted not in names:
        raise DataError(f"{source}: no sheet '{wanted}'; it has {', '.join(names)}")
    return wanted
