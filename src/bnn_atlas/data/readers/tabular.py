"""Read tables of numbers and words from text files and workbooks, and hash their numbers."""

import csv
import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bnn_atlas.config.data.cells import (
    Row,
    file_text,
    fitted,
    number,
    parse,
    skipped,
    text_rows,
    told,
    with_index,
    workbook_rows,
)
from bnn_atlas.config.data.datasets import CsvReader, Tables, WhitespaceReader, WorkbookReader
from bnn_atlas.data import DataError


class Table(NamedTuple):
    """The used columns of a file, in the file's order."""

    numbers: dict[str, np.ndarray]
    """Column -> [n] float64, finite."""
    words: dict[str, np.ndarray]
    """Text column -> [n] str."""
    order: tuple[str, ...]
    """All used columns in the file's order."""
    left_out: int = 0
    """Number of rows left out because a value is missing."""


def read_table(path: str | Path, reader: Tables) -> Table:
    """Read the used columns of a file.

    Raises DataError, with file, row and column, for cells that are not finite numbers, rows with the wrong number of
    cells, a header whose names or order differ from those registered, or a file that is not in this format.
    """
    source = Path(path)
    rows = _rows(source, reader)
    if ragged := [(place, cells) for place, cells in rows if len(cells) != len(reader.columns)]:
        place, cells = ragged[0]
        raise DataError(
            f"{source}: row {place} has {len(cells)} cells; {len(reader.columns)} columns are registered. Correct "
            "`columns` in config/datasets.yaml, or the file"
        )
    if isinstance(reader, WorkbookReader) or (isinstance(reader, CsvReader) and reader.header):
        rows = _without_header(source, rows, reader)
    if isinstance(reader, CsvReader | WorkbookReader):
        rows = rows[skipped(reader.skip)[1] :]
    if isinstance(reader, WhitespaceReader):
        parsed = parse(rows, reader.columns, reader.kept, reader.text)
    else:
        form = (reader.missing, reader.decimal, reader.thousands)
        rows = _stripped(rows, reader) if isinstance(reader, CsvReader) else rows
        parsed = parse(rows, reader.columns, reader.kept, reader.text, *form)
    if parsed.faults:
        raise DataError("\n".join(f"{source}: {line}" for line in told(parsed.faults, reader.text).values()))
    if len(rows) == parsed.left_out:
        raise DataError(f"{source}: no rows of data; download the file again")
    return Table(
        {name: np.array(values, dtype=np.float64) for name, values in parsed.numbers.items()},
        {name: np.array(values, dtype=np.str_) for name, values in parsed.words.items()},
        reader.kept,
        parsed.left_out,
    )


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
    width = len(reader.columns)
    try:
        if isinstance(reader, WorkbookReader):
            return workbook_rows(source, reader.format, reader.sheet, skipped(reader.skip)[0])
        if isinstance(reader, WhitespaceReader):
            return text_rows(file_text(source, "utf-8"), " ", None, 0)
        before, _ = skipped(reader.skip)
        text = file_text(source, reader.encoding)
        rows = text_rows(text, reader.separator, reader.comment, before)
    except (ValueError, csv.Error, EOFError, OSError) as error:
        raise DataError(f"{source}: not readable as {reader.format}: {error}") from error
    if reader.header and rows:
        rows[0] = (rows[0][0], with_index(rows[0][1], rows[1:]))
    return [(place, fitted(cells, width)) for place, cells in rows]


def _stripped(rows: list[Row], reader: CsvReader) -> list[Row]:
    """Rows without the trailing characters that `strip_end` removes."""
    if not reader.strip_end:
        return rows
    ends = [reader.strip_end.get(name) for name in reader.columns]
    return [
        (place, [cell.rstrip(end) if end else cell for cell, end in zip(cells, ends, strict=True)])
        for place, cells in rows
    ]


def _without_header(source: Path, rows: list[Row], reader: CsvReader | WorkbookReader) -> list[Row]:
    """The rows below the header; DataError if the header is a row of data or differs from the registered header."""
    if not rows:
        return rows
    place, cells = rows[0]
    found = list(cells)
    wanted = reader.header if isinstance(reader.header, tuple) else reader.columns
    if not _same_names(found, [name.strip() for name in wanted]):
        if all(number(cell) is not None for cell in cells):
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
