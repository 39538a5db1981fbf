"""Numbers that the papers publish: `config/published/<study>.csv`, read by claims, figures and tests alike."""

import csv
import re
from decimal import Decimal, InvalidOperation
from functools import cache
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parents[2] / "config" / "published"
COLUMNS = ["group", "label", "x", "metric", "value", "error", "repetitions", "read_off", "source"]


class Number(NamedTuple):
    """A published number."""

    group: str
    """Group of numbers that belong together, such as a table or a curve."""
    label: str
    """Method, run or the like to which the number belongs; may be empty."""
    x: str
    """Position on the x axis, such as a number of chains; may be empty."""
    metric: str
    value: Decimal
    """The number, with the published digits."""
    error: Decimal | None
    """The printed error."""
    repetitions: int | None
    """The number of repetitions behind a standard deviation, or one less for a population standard deviation. None if
    the error is a standard error or of unknown kind."""
    read_off: Decimal | None
    """The error from reading the number off a picture; None for printed digits."""
    source: str
    """Where it is published."""

    @property
    def key(self) -> str:
        """Name of the number, unique in a file: group, label, x and metric joined by slashes, without empty parts."""
        return "/".join(filter(None, (self.group, self.label, self.x, self.metric)))

    @property
    def of_mean(self) -> float | None:
        """The standard error of the number: the printed error / sqrt(repetitions)."""
        return None if self.error is None else float(self.error) / (self.repetitions or 1) ** 0.5


def published_numbers(study: str, group: str) -> list[Number]:
    """The numbers of one group of a study, in the order of the file. Raises KeyError for an unknown group."""
    found = [number for number in read_published(FOLDER / f"{study}.csv").values() if number.group == group]
    if not found:
        raise KeyError(f"config/published/{study}.csv has no group '{group}'")
    return found


@cache
def read_published(file: Path) -> dict[str, Number]:
    """Key -> number, in the order of the file; empty if there is no file.

    Raises ValueError, with file and line, for wrong columns, cells that are not numbers, and a key that occurs twice.
    """
    found: dict[str, Number] = {}
    if not file.is_file():
        return found
    with file.open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(lines)
        if rows.fieldnames != COLUMNS:
            raise ValueError(f"{file}: the columns must be {', '.join(COLUMNS)} (line 1)")
        for row in rows:
            where = f"(line {rows.line_num})"
            if None in row or None in row.values():
                raise ValueError(f"{file}: a row has {len(COLUMNS)} cells; put text with commas in quotes {where}")
            value, error, read_off = (_number(row[name], name, file, where) for name in ("value", "error", "read_off"))
            if value is None:
                raise ValueError(f"{file}: value is empty; a number is wanted {where}")
            if not re.fullmatch(r"([1-9]\d*)?", row["repetitions"]) or (row["repetitions"] and error is None):
                text = f"repetitions = '{row['repetitions']}': the number of repetitions behind `error`, or nothing"
                raise ValueError(f"{file}: {text} {where}")
            group, label, x, metric = (row[name] for name in ("group", "label", "x", "metric"))
            repetitions = int(row["repetitions"]) if row["repetitions"] else None
            number = Number(group, label, x, metric, value, error, repetitions, read_off, row["source"])
            if number.key in found:
                raise ValueError(f"{file}: '{number.key}' is given twice; remove one {where}")
            found[number.key] = number
    return found


def _number(text: str, column: str, file: Path, where: str) -> Decimal | None:
    try:
        number = Decimal(text) if text else None
    except InvalidOperation:
        number = Decimal("nan")
    if number is not None and not number.is_finite():
        raise ValueError(f"{file}: {column} = '{text}': a number is wanted {where}")
    return number
