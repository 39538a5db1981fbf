"""Your own table: the keys of its entry, problems with its file, and the keys that solve them."""

import codecs
import csv
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from bnn_atlas.config.data.cells import (
    NAMED,
    Character,
    Missing,
    Parsed,
    Real,
    Row,
    Written,
    content,
    file_text,
    fitted,
    missing_words,
    number,
    parse,
    sheet_rows,
    short,
    skipped,
    text_rows,
    told,
    with_index,
    workbook,
    workbook_rows,
)
from bnn_atlas.config.language.base import plural

ENDINGS = {".csv": ",", ".tsv": "\t"}
"""Ending of a file -> separator of its cells."""
SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas", " ": "blanks"}
"""Possible separators, in the order in which they are tried -> their names in messages."""
FORMS = ((".", None), (",", None), (".", ","), (",", "."), (".", " "), (",", " "), (".", "'"), (",", "'"))
"""Separators of decimals and of thousands, in the order in which they are tried."""
ABSENT = (
    *("", "na", "#na", "nan", "nil", "null", "none", "missing", "unknown", "unk", "undefined", "unspecified", "nodata"),
    *("notavailable", "notapplicable", "notknown", "notreported", "notspecified", "#value", "#ref", "#num", "#div0"),
)
"""Common markers of missing values, in lower case and without blanks, dashes, points and brackets."""
AROUND = re.compile("[-\u2010-\u2015\u2212.?*!/<>()\\[\\]_\\s]+")
"""Blanks, dashes, points and brackets."""
NO_LABELS = ("", "#n/a", "#na", "<na>", "n/a", "n.a.", "na", "nan", "null", "?")
"""Words that are rejected as classes, in lower case."""
SHORT = {"true": "t", "false": "f", "yes": "y", "no": "n"}
"""Labels that are also abbreviated to one letter."""
UNIT = re.compile(r"[-+\u2013\u2212]?([^-+\u2013\u2212\w\s]?) ?[-+\u2013\u2212]?\d[\d.,'\u2019]*\s?(\D*)")
"""A number with the text before and after it, such as 12.5 kg."""
MANY = 10
"""Largest number of different words in a column of numbers, and of printed list entries."""
SAMPLE = 200
"""Number of rows from which the layout of a file is guessed."""
FEW = 50
"""Tables with fewer rows get a warning."""
NEXT = 10
"""Number of rows to search for the row of column names."""


class OwnTable(Written):
    """Your own table: a row of column names, then one row per example; all other facts are read from the file."""

    path: str
    """A text file such as .csv, gzipped or not, or a workbook (.xlsx, .xls), relative to the repository; its checksum
    is computed whenever Snakemake starts."""
    title: str | None = None
    """Name in figures; null takes the data set's name, with underscores replaced by spaces."""
    task: Literal["regression", "classification"]
    """What is predicted: a number or a class."""
    target: str
    """The column that is predicted; all others are inputs."""
    drop: tuple[str, ...] = ()
    """Columns that are not used. Columns without a name are never used."""
    text: tuple[str, ...] = ()
    """Inputs that hold words: each word becomes a column of 0 and 1. The target of a classification is always text."""
    missing: Missing = None
    """Marker of missing values, or a list of markers: ["", NA]; rows with such a cell are left out. In numeric columns,
    markers are compared as numbers: -200 also matches -200.0."""
    separator: Character | None = None
    """Separator between the cells; a blank means any run of blanks and tabs. Null takes a comma for .csv and a tab for
    .tsv."""
    comment: str | None = None
    """Lines that start with this are skipped."""
    sheet: str | None = None
    """Workbooks: name of the sheet; null takes the first one."""
    columns: Annotated[tuple[str, ...], Field(min_length=2)] | None = None
    """Names of the columns, if the file has no row of column names."""
    licence: str = "the user's own"
    """Licence of the data, for readers."""
    note: str = ""
    """Remark for readers."""

    @property
    def ending(self) -> str:
        """Ending of the file, ignoring the ending of gzip."""
        return Path(self.path.lower().removesuffix(".gz")).suffix

    @property
    def workbook(self) -> Literal["xls", "xlsx"] | None:
        """The kind of workbook; None for other files."""
        return {".xls": "xls", ".xlsx": "xlsx"}.get(self.ending)  # type: ignore[return-value]

    @property
    def between(self) -> str | None:
        """Separator between the cells; None if unknown."""
        return self.separator or ENDINGS.get(self.ending)

    @property
    def words(self) -> tuple[str, ...]:
        """Columns of words."""
        return (*self.text, *([self.target] if self.task == "classification" else []))


class Problem(NamedTuple):
    """A problem with a file: what is wrong, where, and what to do."""

    text: str
    changes: Mapping[str, Any] = MappingProxyType({})
    """Keys and values to put into the entry so that the file can be read; empty if no keys help."""
    key: str = ""
    """The wrong key of the entry, if there is one."""


class Seen(NamedTuple):
    """A table as its entry reads it."""

    header: tuple[str, ...]
    """Column names in the file; '' for an unnamed column."""
    columns: tuple[str, ...]
    """Column names, with a name for every column."""
    used: tuple[str, ...]
    """Columns in use, including the target."""
    parsed: Parsed
    form: str
    """A sentence on another format in which all numbers could be read; '' if there is none."""


class Survey(NamedTuple):
    """All problems with a table."""

    problems: list[Problem]
    """The problems, each with the complete values of its keys, so that they can be solved in any order."""
    table: OwnTable
    """The entry with the keys of all problems."""
    seen: Seen | None
    """The table as read with that entry; None if no keys make it readable."""


def survey(path: Path, own: OwnTable) -> Survey:
    """Check a table again with the keys that solve the problems found so far, until no new problems appear."""
    problems: list[Problem] = []
    tried: list[OwnTable] = []
    while True:
        found, seen = _look(path, own)
        problems += [problem for problem in found if problem not in problems]
        changes = {key: value for problem in found for key, value in problem.changes.items()}
        changed = own.model_copy(update=changes)
        tried.append(own)
        if changed in tried:
            break
        own = changed
    whole = [problem._replace(changes={key: getattr(own, key) for key in problem.changes}) for problem in problems]
    return Survey(whole, own, None if found else seen)


def sentence(problem: Problem, most: int | None = None) -> str:
    """A problem as one line, with the keys to put into the entry; longer lists are cut."""
    return f"{problem.text}; give {keys_text(problem.changes, most)}" if problem.changes else problem.text


def keys_text(keys: Mapping[str, Any], most: int | None = None) -> str:
    """Keys and values, formatted as in an entry of config/datasets.yaml; longer lists are cut."""
    return " and ".join(f"`{key}: {_value_text(value, most)}`" for key, value in keys.items())


def _value_text(value: Any, most: int | None) -> str:
    left = len(value) - most if most and isinstance(value, list | tuple) else 0
    if left <= 0:
        return json.dumps(value, ensure_ascii=False)
    return f"{json.dumps(value[:most], ensure_ascii=False)[:-1]}, ... and {left} more]"


def _look(path: Path, own: OwnTable) -> tuple[list[Problem], Seen | None]:
    """The visible problems of a table under one entry, and the table itself."""
    place = "row" if own.workbook else "line"
    try:
        rows = _read(path, own)
    except UnicodeError as error:
        text = f"cannot be read as text in {own.encoding}"
        if encoding := _encoding(path, own):
            return [Problem(text, {"encoding": encoding})], None
        return [Problem(f"{text}: {error}; save it as CSV in UTF-8")], None
    except (ValueError, csv.Error, EOFError, OSError) as error:
        return [Problem(f"cannot be read: {error}; save it as CSV in UTF-8")], None
    if isinstance(rows, Problem):
        return [rows], None
    if not rows:
        return [_elsewhere(path, own, place) or Problem("the file is empty")], None
    if problem := _wrong_names(rows[0][1], own):
        return [problem], None
    header = tuple(map(str, with_index(rows[0][1], rows[1:]))) if own.columns is None else own.columns
    columns = tuple(name or f"column_{i}" for i, name in enumerate(header, start=1))
    used = tuple(name for name, given in zip(columns, header, strict=True) if given and name not in own.drop)
    if repeated := [name for name, count in Counter(columns).items() if count > 1]:
        text = f"the column names ({','.join(header)}) contain '{repeated[0]}' more than once; rename all but one"
        return [Problem(text, key="columns" if own.columns else "")], None
    problems = list(_unknown_names(columns, own))
    if own.target not in columns:
        near = own.target.casefold() in map(str.casefold, columns)
        names = None if near else _elsewhere(path, own, place)
        return [names] if names else problems, None
    if own.target in used and len(used) == 1:
        problems.append(Problem("the file has no input columns: only the target and the columns under `drop`"))
    body = [(line, fitted(cells, len(columns))) for line, cells in rows[own.columns is None :]]
    body = body[skipped(own.skip)[1] :]
    if problem := _open_quote(body, len(columns), own.between):
        return [*problems, problem], None
    problems += _ragged(body, len(columns), place)
    body = [row for row in body if len(row[1]) == len(columns)]
    numeric = tuple(name for name in used if name not in own.words)
    if problem := _units(body, columns, numeric, own, place):
        return [*problems, problem], None
    parsed = parse(body, columns, used, own.words, own.missing, own.decimal, own.thousands)
    if parsed.faults and (problem := _form(body, columns, numeric, own, place)):
        return [*problems, problem], None
    problems += _cells(body, columns, used, parsed, own, place)
    if not problems:
        problems += _degenerate(parsed, used, own)
    form = "" if problems else _other_form(body, columns, numeric, own)
    return problems, Seen(header, columns, used, parsed, form)


def _read(path: Path, own: OwnTable) -> list[Row] | Problem:
    """The rows of a file, or the problem with its layout."""
    before, _ = skipped(own.skip)
    if own.workbook:
        rows = workbook_rows(path, own.workbook, own.sheet, before)
        title = next((i for i, (_, cells) in enumerate(rows) if _names_of(cells, len(cells))), 0)
        if title:
            found = f"row {rows[0][0]}: {rows[0][1]} is not the row of column names, which is row {rows[title][0]}"
            return Problem(found, _skip(own, rows[title][0] - 1))
        return rows
    text = file_text(path, own.encoding)
    rows = text_rows(text, own.between, own.comment, before) if own.between else []
    usual = Counter(len(cells) for _, cells in rows[:SAMPLE]).most_common(1)
    width = usual[0][0] if usual else 0
    if own.comment is None and (notes := [row for row in rows if row[1][0].startswith("#") and len(row[1]) != width]):
        return Problem(f"line {notes[0][0]}: a comment, not a row of {width} cells", {"comment": "#"})
    if own.between and (not rows or (width > 1 and _names_of(rows[0][1], width))):
        return rows
    layout = _layout(text, own.comment)
    if layout is None:
        return rows if own.between else Problem("no `separator` is given, and none fits; save it as CSV")
    separator, title = layout
    changes: dict[str, Any] = {} if separator == own.between else {"separator": separator}
    found = f"line {title + 1}: the cells are separated by {SEPARATORS[separator]}" if changes else ""
    if title > before:
        changes |= _skip(own, title)
        found += f"{', and' if found else f'line {before + 1}:'} the row of column names is below line {title}"
    return Problem(found, changes) if changes else rows


def _skip(own: OwnTable, before: int) -> dict[str, Any]:
    """The key that skips lines at the start."""
    after = skipped(own.skip)[1]
    return {"skip": (before, after) if after else before}


def _elsewhere(path: Path, own: OwnTable, place: str) -> Problem | None:
    """A problem stating where the column names are: below the first row, with another separator or on another sheet."""
    if own.columns is not None:
        return None
    now: str | None
    tables: list[tuple[str, list[Row]]] = []
    if own.workbook:
        sheets = workbook(path, own.workbook)
        key, now = "sheet", own.sheet or next(iter(sheets))
        tables = [(name, sheet_rows(sheet)) for name, sheet in sheets.items()]
    else:
        key, now = "separator", own.between
        lines = file_text(path, own.encoding).splitlines(keepends=True)[:SAMPLE]
        for separator in dict.fromkeys(filter(None, (own.between, *SEPARATORS))):
            try:
                tables.append((separator, text_rows("".join(lines), separator, own.comment, 0)))
            except csv.Error:
                continue
    for value, rows in tables:
        width = Counter(len(cells) for _, cells in rows[:SAMPLE]).most_common(1)[0][0] if rows else 0
        for line, cells in rows[:NEXT]:
            named = own.target.casefold() in map(str.casefold, cells)
            if named and width - 1 <= len(cells) and len(cells) > 1 and _names_of(cells, width):
                changes: dict[str, Any] = {} if value == now else {key: value}
                if line - 1 != skipped(own.skip)[0]:
                    changes |= _skip(own, line - 1)
                on = f" of sheet '{value}'" if key in changes and own.workbook else ""
                return Problem(f"the row of column names, with '{own.target}', is {place} {line}{on}", changes)
    return None


def _encoding(path: Path, own: OwnTable) -> str | None:
    """The most likely encoding of a file; None if unknown."""
    found = content(path)
    encodings = ["utf-8", "cp1252", "latin-1"]
    if found.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encodings = ["utf-16"]
    elif 3 * found.count(0) > len(found):
        encodings = ["utf-16-le" if found[1] == 0 else "utf-16-be"]
    for encoding in encodings:
        try:
            file_text(path, encoding)
        except UnicodeError:
            continue
        if encoding != own.encoding:
            return encoding
    return None


def _layout(text: str, comment: str | None) -> tuple[str, int] | None:
    """Separator of the cells of a text, and number of lines above the column names; None if nothing fits."""
    text = "".join(text.splitlines(keepends=True)[:SAMPLE])
    found = []
    for separator in SEPARATORS:
        try:
            rows = text_rows(text, separator, comment, 0)
        except csv.Error:
            continue
        width = Counter(len(cells) for _, cells in rows).most_common(1)[0][0] if rows else 0
        first = next((i for i, (_, cells) in enumerate(rows) if _names_of(cells, width)), 0)
        whole = sum(len(cells) == width for _, cells in rows[first:])
        if width > 1 and whole + 1 >= 0.9 * (len(rows) - first):
            found.append((whole < len(rows), separator, rows[first - 1][0] if first else 0))
    return min(found, key=lambda layout: layout[0])[1:] if found else None


def _wrong_names(cells: Sequence[str], own: OwnTable) -> Problem | None:
    """The problem that a file has a row of column names although its entry gives `columns`."""
    top, names = ({name.strip().casefold() for name in line} for line in (cells, own.columns or ()))
    if top == names or any(number(name, own.decimal, own.thousands) is None for name in top & names):
        return Problem(f"the file has a row of column names ({','.join(cells)})", {"columns": None}, "columns")
    return None


def _names_of(cells: Sequence[str], width: int) -> bool:
    """Whether a row may hold column names: more than half of its cells are filled."""
    return 2 * sum(map(bool, cells)) > width


def _unknown_names(columns: Sequence[str], own: OwnTable) -> Iterator[Problem]:
    numbers = own.columns is None and all(number(name) is not None for name in columns)
    hint = "; if these are numbers of the first row, give the names as `columns`" if numbers else ""
    known = {column.casefold(): column for column in columns}
    for key, names in (("target", (own.target,)), ("drop", own.drop), ("text", own.text)):
        unknown = [name for name in names if name not in columns]
        near = {name: [known[match] for match in get_close_matches(name.casefold(), known, n=1)] for name in unknown}
        right = [column for name in names for column in near.get(name, [name])]
        for name in near:
            value: Any = tuple(right) if key != "target" else right[0] if right else name
            changes = {} if value == name else {key: value}
            yield Problem(f"no column '{name}'; there are {', '.join(columns)}{hint}", changes, key)
    if own.target in own.drop:
        rest = tuple(name for name in own.drop if name != own.target)
        yield Problem(f"the target '{own.target}' is also listed under `drop`", {"drop": rest}, "drop")


def _ragged(rows: Sequence[Row], width: int, place: str) -> Iterator[Problem]:
    """Problems with rows whose number of cells differs from the number of columns."""
    wrong = [(line, cells) for line, cells in rows if len(cells) != width]
    for line, cells in wrong[:5]:
        what = f"{plural(len(cells), 'cell')} in a table of {width} columns"
        yield Problem(f"{place} {line}: {what}; correct or remove that line of the file")
    if len(wrong) > 5:
        yield Problem(f"{len(wrong) - 5} more such lines, the last one is {place} {wrong[-1][0]}")


def _open_quote(rows: Sequence[Row], width: int, separator: str | None) -> Problem | None:
    """The problem that a cell contains whole rows, because its quote is not closed."""
    for line, cells in rows:
        for cell in cells:
            first, *further = cell.split("\n")
            if separator and further and all(one.count(separator) == width - 1 for one in further[:-1] or further):
                start = line - len(further)
                found = f'line {start}: the quote (") before {short(first)} is not closed in this line, so that the '
                return Problem(
                    f"{found}rows up to line {line} are one cell; remove the quote, or close it where the cell ends"
                )
    return None


def _units(
    rows: Sequence[Row], columns: Sequence[str], numeric: Sequence[str], own: OwnTable, place: str
) -> Problem | None:
    """The problem that the first row has no numbers in columns where the rows below it have numbers."""
    places = [columns.index(name) for name in numeric]
    if len(rows) < 3 or skipped(own.skip)[1] or any(_any_number(rows[0][1][i]) for i in places):
        return None
    words = [i for i in places if not _absent(rows[0][1][i]) and all(_any_number(c[i]) for _, c in rows[1:3])]
    if not words:
        return None
    cell, name = rows[0][1][words[0]], columns[words[0]]
    found = f"{place} {rows[0][0]}, column '{name}': {cell!r} is not a finite number; the row seems to hold units"
    return Problem(found, {"skip": (skipped(own.skip)[0], 1)})


def _absent(cell: str) -> bool:
    """Whether a cell most likely marks a missing value."""
    return AROUND.sub("", cell.lower()) in ABSENT


def _any_number(cell: str) -> bool:
    return any(number(cell, *form) is not None for form in FORMS)


def _form(
    rows: Sequence[Row], columns: Sequence[str], numeric: Sequence[str], own: OwnTable, place: str
) -> Problem | None:
    """The problem that more cells are numbers under another number format."""
    now = (own.decimal, own.thousands)
    places = [columns.index(name) for name in numeric]
    odd = [(line, i) for line, cells in enumerate(rows) for i in places if number(cells[1][i], *now) is None]
    if not any(_any_number(rows[line][1][i]) for line, i in odd):
        return None
    cells = list({cells[i] for _, cells in rows for i in places})
    # In a file of commas between cells, a number in quotes such as "2,074" has a comma between thousands.
    forms = sorted(FORMS, key=lambda form: form[0] == own.between)
    counts = {form: sum(number(cell, *form) is not None for cell in cells) for form in (*forms, now)}
    best = max(forms, key=lambda form: counts[form])
    if counts[best] <= counts[now]:
        return None
    line, i = next(((line, i) for line, i in odd if number(rows[line][1][i], *best) is not None), odd[0])
    changes = {key: value for key, value, old in zip(("decimal", "thousands"), best, now, strict=True) if value != old}
    cell = f"{place} {rows[line][0]}, column '{columns[i]}': {rows[line][1][i]!r}"
    return Problem(f"{cell} is not a finite number in a format with {_points(*now)}", changes)


def _other_form(rows: Sequence[Row], columns: Sequence[str], numeric: Sequence[str], own: OwnTable) -> str:
    """A sentence on the other reading of numbers such as 1,125, if all numbers can be read in two formats; else ''."""
    now = (own.decimal, own.thousands)
    places = [columns.index(name) for name in numeric]
    cells = [cells[i] for _, cells in rows for i in places if not isinstance(cells[i], Real)]
    for mark in [mark for mark in ".," if mark in now]:
        decimal, thousands = other = ("," if mark == "." else ".", mark) if mark == own.decimal else (mark, None)
        grouped = re.compile(rf"[-+]?[1-9]\d{{0,2}}(\{mark}\d{{3}})+")
        marked = [cell for cell in cells if mark in cell]
        if not marked or not all(grouped.fullmatch(cell) or number(cell, *now) is None for cell in marked):
            continue
        if all(number(cell, *other) is not None or number(cell, *now) is None for cell in cells):
            cell = next(filter(grouped.fullmatch, marked), "")
            is_now, is_other = (f"{number(cell, *form) or 0:.15g}" for form in (now, other))
            keys = keys_text({"decimal": decimal, "thousands": thousands})
            return f"'{cell}' is read as {is_now}; if it is {is_other}, change the entry to {keys}"
    return ""


def _points(decimal: str, thousands: str | None) -> str:
    return f"decimal {'points' if decimal == '.' else 'commas'}" + (
        f" and {thousands!r} in thousands" if thousands else ""
    )


def _cells(
    rows: Sequence[Row], columns: Sequence[str], used: Sequence[str], parsed: Parsed, own: OwnTable, place: str
) -> Iterator[Problem]:
    """Problems with columns that have invalid cells; the suggested keys keep at least half of the rows."""
    lines = told(parsed.faults, own.words, place)
    if own.task == "classification" and own.target in used:
        at = columns.index(own.target)
        labels = [(line, cells[at]) for line, cells in rows if cells[at].lower() in NO_LABELS]
        labels = [(line, cell) for line, cell in labels if cell not in missing_words(own.missing)]
        if labels:
            first, cell = labels[0]
            lines[own.target] = f"{place} {first}, column '{own.target}': {cell!r} is a missing value, not a class"
    else:
        labels = []
    if not lines:
        return
    absent, drop, text = list(missing_words(own.missing)), list(own.drop), list(own.text)
    keys: dict[str, str] = {}
    for name in lines:
        at = columns.index(name)
        cells = [cells[at] for _, cells in rows]
        odd = (
            [cell for _, cell in labels]
            if name == own.target and labels
            else [f.cell for f in parsed.faults if f.column == name]
        )
        filled = [cell for cell in cells if not _absent(cell)]
        unknown = [cell for cell in odd if not _absent(cell)]
        if name == own.target and (why := _no_target(filled, unknown)):
            keys[name] = ""
            lines[name] += f"; {why}"
        elif name != own.target and (why := _unit(unknown)):
            lines[name] += f"; {why}, then the column is used"
            keys[name] = "drop" if len(set(unknown)) > MANY or 2 * len(unknown) > len(filled) else "missing"
            absent += [cell for cell in dict.fromkeys(odd) if keys[name] == "missing" and cell not in absent]
        elif 2 * len(unknown) > len(filled):
            keys[name] = "task" if name == own.target else "drop" if _all_different(filled) else "text"
        elif name != own.target and (2 * len(odd) > len(cells) or len(set(unknown)) > MANY):
            keys[name] = "drop"
        else:
            keys[name] = "missing"
            if any(re.search(r"\d", cell) for cell in unknown):
                lines[name] += "; if these are meant as numbers, correct them in the file"
            absent += [cell for cell in dict.fromkeys(odd) if cell not in absent]
        if keys[name] in ("drop", "text"):
            (drop if keys[name] == "drop" else text).append(name)
    gaps = {
        name: {i for i, (_, cells) in enumerate(rows) if cells[columns.index(name)] in absent}
        for name in used
        if name not in drop and name != own.target
    }
    while gaps and 2 * len(set().union(*gaps.values())) > len(rows) and absent:
        worst = max(gaps, key=lambda name: len(gaps[name]))
        del gaps[worst]
        drop.append(worst)
        if worst in keys:
            keys[worst] = "drop"
    values = {"missing": tuple(absent), "drop": tuple(drop), "text": tuple(text), "task": "classification"}
    for name, line in lines.items():
        yield Problem(line, {keys[name]: values[keys[name]]} if keys[name] else {})


def _all_different(cells: Sequence[str]) -> bool:
    return len(set(cells)) > max(MANY, len(cells) / 2)


def _no_classes(cells: Sequence[str]) -> str:
    """Why cells cannot be classes; '' if they can."""
    if not _all_different(cells):
        return ""
    return (
        f"{len(set(cells))} different words in {len(cells)} rows are too many classes. Numbers need `task: regression` "
        "and cells without units and remarks; otherwise give another target"
    )


def _no_target(filled: Sequence[str], unknown: Sequence[str]) -> str:
    """Why no key helps with a target whose filled cells include the non-numbers `unknown`; '' if a key helps."""
    if 2 * len(unknown) <= len(filled):
        if len(set(unknown)) <= MANY and not any(re.search(r"\d", cell) for cell in unknown):
            return ""
        return "rows are never left out because of an invalid target: write these cells as numbers in the file"
    if why := _unit(filled):
        return f"{why}. If they are classes, give `task: classification` (`--task classification`)"
    return _no_classes(filled)


def _unit(cells: Sequence[str]) -> str:
    """Advice for cells that are numbers with a common unit; '' for other cells."""
    words = set(cells)
    units = Counter("".join(found.groups()).strip() for word in words if (found := UNIT.fullmatch(word)))
    unit, count = max(units.items(), key=lambda item: item[1], default=("", 0))
    if not unit or count <= max(2, len(words) / 2):
        return ""
    if unit == "()":
        return "these are numbers in brackets: write negative numbers with a minus in the file"
    return f"these are numbers with '{unit}': write only the numbers in the file"


def _degenerate(parsed: Parsed, used: Sequence[str], own: OwnTable) -> Iterator[Problem]:
    """Problems of tables from which nothing can be learned."""
    found: dict[str, Sequence[Any]] = {**parsed.numbers, **parsed.words}
    count = len(found[own.target])
    if not count:
        rest = f": all {parsed.left_out} have missing values" if parsed.left_out else ""
        yield Problem(f"the file has no rows{'' if own.columns else ' below its column names'}{rest}")
        return
    if count == 1:
        yield Problem("the file has one row; at least 2 are needed, to train and to test")
        return
    inputs = [name for name in used if name != own.target]
    if all(len(set(found[name])) == 1 for name in inputs):
        yield Problem(f"nothing can be predicted from inputs that are constant, as these are: {', '.join(inputs)}")
    if own.task == "classification" and (why := _no_classes(parsed.words[own.target])):
        yield Problem(f"column '{own.target}': {why}")
    if len(set(found[own.target])) == 1:
        what = "class" if own.task == "classification" else "value"
        value = found[own.target][0]
        yield Problem(f"column '{own.target}': the target has one {what}, {value!r}, in all rows; give another target")


def remarks(
    numbers: Mapping[str, Sequence[float]], words: Mapping[str, Sequence[str]], target: str, rows: int, left_out: int
) -> list[str]:
    """Remarks on oddities of a readable table, one line each, from its columns of numbers and of words."""
    said = [f"{left_out} of {rows + left_out} rows have missing values and are left out"] if left_out else []
    if rows < FEW:
        said.append(f"{rows} rows are very few: scores on the test rows will say little")
    counted = Counter(words.get(target, ()))
    if single := [label for label, count in counted.items() if count == 1]:
        these = ", ".join(map(repr, single[:5])) + (", ..." if len(single) > 5 else "")
        said.append(f"column '{target}': classes with a single row ({these}) cannot be trained and tested")
    for name, cells in words.items():
        what = "classes" if name == target else "words"
        alike: dict[str, list[str]] = {}
        for label in sorted(set(cells)):
            alike.setdefault(_plain(label), []).append(label)
        for labels in [labels for labels in alike.values() if len(labels) > 1][:NAMED]:
            these = ", ".join(map(repr, labels))
            said.append(f"column '{name}': {these} count as different {what}; if they mean the same, use one spelling")
        if name != target and len(set(cells)) > max(MANY, 0.9 * rows):
            said.append(f"column '{name}': {len(set(cells))} different words in {rows} rows; if it is an id, drop it")
        if absent := sorted(filter(_absent, set(cells))):
            these = ", ".join(map(repr, absent[:NAMED]))
            said.append(f"column '{name}': taken as {what}: {these}; if they mean no value, list them under `missing`")
    labels_as_numbers = [number(label) for label in words.get(target, ())]
    for name, values in {target: [value for value in labels_as_numbers if value is not None], **numbers}.items():
        for value, count in _codes(values):
            said.append(
                f"column '{name}': {value:.15g} in {count} of {rows} rows is far from the other values; if it marks "
                "missing values, list it under `missing`"
            )
    outcome = numbers.get(target) or words[target]
    for name, column in [*numbers.items(), *words.items()]:
        if name != target and len(set(column)) == 1:
            said.append(f"column '{name}': {column[0]!r} in all rows, which carries no information; drop it")
        elif name != target and _same(column, outcome):
            said.append(f"column '{name}': determines the target exactly; if it is the target in another form, drop it")
    return said


def _codes(values: Sequence[float]) -> Iterator[tuple[float, int]]:
    """Values far from all others that most likely mark missing values, such as -999, and how often each occurs."""
    counted = Counter(values)
    left = sorted(counted)
    while len(left) > 2:
        for value, rest in ((left[0], left[1:]), (left[-1], left[:-1])):
            count, width = counted[value], rest[-1] - rest[0]
            nines = re.fullmatch("9{2,}", f"{abs(value):.15g}".replace(".", ""))
            far = min(abs(value - rest[0]), abs(value - rest[-1])) > 2 * width
            odd = nines or (count > 1 and (value < 0 <= rest[0] or len(rest) > MANY))
            if (far and odd) or (nines and count > 1 and len(nines[0]) > 2 and abs(value) > 100):
                yield value, count
                left = rest
                break
        else:
            return


def _same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether two columns hold the same facts: few values that correspond one to one, or values on a straight line."""
    few = len(set(one))
    if 2 * few <= len(one) and few == len(set(other)):
        return len(set(zip(one, other, strict=True))) == few
    if few == 1 or len(set(other)) == 1 or isinstance(one[0], str) or isinstance(other[0], str):
        return False
    last, first = one.index(max(one)), one.index(min(one))
    slope, width = (other[last] - other[first]) / (one[last] - one[first]), max(other) - min(other)
    line = ((other[first] + slope * (a - one[first]), b) for a, b in zip(one, other, strict=True))
    return all(abs(a - b) <= 1e-6 * width for a, b in line)


def _plain(label: str) -> str:
    """A normalised form of a label; labels with the same form most likely mean the same."""
    value = number(label)
    word = " ".join(label.split()).strip(" .").casefold()
    return SHORT.get(word, word) if value is None else str(value)
