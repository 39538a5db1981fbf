"""Your own data in config/datasets.yaml: local files that need no checksum, and tables that need no description."""

import csv
import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from bnn_atlas.config.language.base import ConfigError, Model, near_or_all, validated

SEPARATORS = {".csv": ",", ".tsv": "\t"}
"""Ending of a file -> what separates its cells."""
OTHERS = {";": "semicolons", "\t": "tabs", ",": "commas"}
"""What may separate them instead, and what it is called."""
DECIMAL_COMMA = re.compile(r"[-+]?\d*,\d+([eE][-+]?\d+)?")


class OwnTable(Model):
    """Your own table: a row of names and then one row per example; what is not given here is read from the file."""

    path: str
    """A .csv or .tsv file, relative to the repository; its checksum is computed whenever Snakemake starts."""
    title: str | None = None
    """Name in figures; null takes the data set's name, with spaces for underscores."""
    task: Literal["regression", "classification"]
    """What is predicted: a number or a class."""
    target: str
    """The column that is predicted; all others are inputs."""
    drop: tuple[str, ...] = ()
    """Columns that are not used."""
    text: tuple[str, ...] = ()
    """Inputs that hold words: each word becomes a column of 0 and 1. The target of a classification is always text."""
    missing: str | None = None
    """What a cell without a value holds; rows with such a cell are left out."""
    separator: Annotated[str, StringConstraints(min_length=1, max_length=1)] | None = None
    """What stands between the cells; null takes a comma for .csv and a tab for .tsv."""
    columns: Annotated[tuple[str, ...], Field(min_length=2)] | None = None
    """Names of the columns, if the file has no row of names."""
    licence: str = "the user's own"
    """Licence of the data, for readers."""
    note: str = ""
    """For readers."""


def with_own_data(registry: Any, source: str, root: Path) -> Any:
    """The registry with the user's tables written out as entries with files, and with the checksums of local files.

    Paths are relative to `root`. Raises ConfigError that names `source`, the data set, the file and the place in it.
    """
    if not isinstance(registry, Mapping):
        return registry
    return {name: _completed(name, entry, f"{source}: {name}", root) for name, entry in registry.items()}


def _completed(name: Any, entry: Any, where: str, root: Path) -> Any:
    if not isinstance(entry, Mapping):
        return entry
    if "path" in entry:
        return _entry(name, validated(OwnTable, entry, where), where, root)
    files = entry.get("files")
    if not isinstance(files, list):
        return entry
    return {**entry, "files": [_checked(file, f"{where}.files[{i}]", root) for i, file in enumerate(files)]}


def _checked(file: Any, where: str, root: Path) -> Any:
    """A registered file, with the checksum of a local one."""
    if not isinstance(file, Mapping) or not isinstance(file.get("path"), str) or "sha256" in file:
        return file
    return {**file, "sha256": _sha256(_located(file["path"], where, root))}


def _entry(name: str, own: OwnTable, where: str, root: Path) -> dict[str, Any]:
    """The entry of your own table, in the words of `DatasetEntry`."""
    path = _located(own.path, where, root)
    separator = own.separator or SEPARATORS.get(path.suffix.lower())
    if separator is None:
        raise ConfigError(
            f"{where}.path = '{own.path}': only .csv and .tsv files are read without a `separator:`; give one, save it "
            "as CSV, or describe it under `files:` as other entries do"
        )
    text = (*own.text, own.target) if own.task == "classification" else own.text
    columns, rows, words = _measured(path, own, text, separator, where)
    inputs = [column for column in columns if column not in (*own.drop, own.target)]
    read = {"format": "csv", "separator": separator, "header": own.columns is None, "columns": list(columns)}
    read |= {"drop": list(own.drop), "text": sorted(set(text)), "missing": own.missing}
    return {
        "title": own.title,
        "task": own.task,
        "target": own.target,
        "classes": sorted(words[own.target]) if own.task == "classification" else [],
        "rows": rows,
        "inputs": sum(len(words.get(column, "1")) for column in inputs),
        "licence": own.licence,
        "note": own.note,
        "files": [{"name": f"{name}.csv", "path": own.path, "sha256": _sha256(path), "read": read}],
    }


def _measured(
    path: Path, own: OwnTable, text: tuple[str, ...], separator: str, where: str
) -> tuple[tuple[str, ...], int, dict[str, set[str]]]:
    """Columns of a table, its number of rows, and the words of each text column."""
    columns = _columns(path, own, separator, where)
    rows = _rows(path, separator, where)
    if own.columns is None:
        next(rows)
    used = [(i, name, name in text) for i, name in enumerate(columns) if name not in own.drop]
    count = 0
    words: dict[str, set[str]] = {name: set() for _, name, is_text in used if is_text}
    first: dict[str, str | float] = {}
    varied: set[str] = set()
    for line, cells in rows:
        if len(cells) != len(columns):
            raise ConfigError(
                f"{where}: {own.path}, line {line}: {len(cells)} cells in a table of {len(columns)} columns"
            )
        if own.missing is not None and any(cells[i] == own.missing for i, _, _ in used):
            continue
        count += 1
        for i, name, is_text in used:
            value = cells[i] if is_text else _number(cells[i])
            if value is None:
                place = f"{own.path}, line {line}, column '{name}'"
                raise ConfigError(f"{where}: {place}: {cells[i]!r} is not a number; {_instead(cells[i])}")
            if is_text:
                words[name].add(cells[i])
            if first.setdefault(name, value) != value:
                varied.add(name)
    if not count:
        raise ConfigError(f"{where}: {own.path} has no rows{'' if own.columns else ' below the names of its columns'}")
    if count == 1:
        raise ConfigError(f"{where}: {own.path} has one row; at least 2 are needed, to train and to test")
    inputs = [name for _, name, _ in used if name != own.target]
    if not varied.intersection(inputs):
        raise ConfigError(
            f"{where}: {own.path}: nothing can be predicted from inputs that are the same in all rows, and these are: "
            f"{', '.join(inputs)}"
        )
    return columns, count, words


def _columns(path: Path, own: OwnTable, separator: str, where: str) -> tuple[str, ...]:
    """Names of the columns of a table, which have to include all that the entry names."""
    line = next(_rows(path, separator, where), None)
    if line is None or not any(line[1]):
        what = "the file is empty" if line is None else "the first line is empty"
        raise ConfigError(f"{where}: {own.path}: {what}")
    top = line[1]
    if other := next((mark for mark in OTHERS if len(top) == 1 and mark in top[0]), None):
        raise ConfigError(
            f"{where}: {own.path}: the first line has {OTHERS[other]} between its cells; give `separator: "
            f"{json.dumps(other)}`"
        )
    if own.columns is not None and _is_header(top, own.columns):
        raise ConfigError(f"{where}.columns: {own.path} has a header ({','.join(top)}); leave `columns` out")
    columns = own.columns or tuple(top)
    if repeated := sorted({name for name in columns if columns.count(name) > 1}):
        whose = "`columns`" if own.columns else f"the header of {own.path}"
        raise ConfigError(
            f"{where}: {whose} ({','.join(columns)}) names '{repeated[0]}' more than once; rename all but one"
        )
    for key, names in (("target", (own.target,)), ("drop", own.drop), ("text", own.text)):
        for name in names:
            if name not in columns:
                raise ConfigError(
                    f"{where}.{key} = '{name}': no such column in {own.path}{near_or_all(name, 'it has', columns)}"
                )
    if own.target in own.drop:
        raise ConfigError(f"{where}: the target '{own.target}' is also listed under `drop`")
    if set(columns) <= {own.target, *own.drop}:
        raise ConfigError(f"{where}: {own.path} has no input columns besides the target and those under `drop`")
    return columns


def _is_header(cells: list[str], columns: tuple[str, ...]) -> bool:
    """Whether a first line holds names of columns: all of them in some order, or one that is not a number."""
    top, names = ({name.strip().casefold() for name in line} for line in (cells, columns))
    return top == names or any(_number(name) is None for name in top & names)


def _instead(cell: str) -> str:
    """What to do about a cell that should hold a number."""
    if DECIMAL_COMMA.fullmatch(cell):
        return f"write decimal points instead of commas, here {cell.replace(',', '.')}"
    return f"list the column under `text:` or `drop:`, or give `missing: {cell!r}` to leave such rows out"


def _rows(path: Path, separator: str, where: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of each row that is not blank, as `bnn_atlas.data.readers.tabular` reads them."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            reader = csv.reader(lines, delimiter=separator, skipinitialspace=True)
            for cells in reader:
                if cells:
                    yield reader.line_num, [cell.strip() for cell in cells]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{where}: {path.name} cannot be read as text: {error}; save it as CSV in UTF-8") from None


def _number(cell: str) -> float | None:
    """The finite number in a cell, if it holds one."""
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _located(path: str, where: str, root: Path) -> Path:
    found = root / Path(path).expanduser()
    if not found.is_file():
        raise ConfigError(
            f"{where}.path = '{path}': no such file; a relative path starts at {root.resolve()}. Put the file there, "
            "correct the path, or take the data set out"
        )
    return found


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
