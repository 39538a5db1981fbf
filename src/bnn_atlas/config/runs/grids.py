"""The points of an entry's grid: every combination of the values of `grid` and of the rows of `zipped`."""

import itertools
import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.config.language.fields import MOST_RUNS

Sections = Mapping[str, Mapping[str, list[Any]]]
"""`grid` and `zipped` -> dotted field -> values; those at one place of `zipped` are a row of the file."""
Axis = tuple[tuple[str, ...], list[tuple[Any, ...]]]
"""Fields that vary together, and their values at each place."""


class Point(NamedTuple):
    """One run of a grid."""

    values: dict[str, Any]
    """Dotted field -> value."""
    label: tuple[str, ...]
    """Parts of the run's name."""


def points(sections: Sections, where: str, line_of: Callable[[str, str], int | None]) -> list[Point]:
    """All points in order; one without values where there is no grid.

    Args:
        sections: `grid` and `zipped` of an entry at one scale.
        where: file, scale and entry, for messages.
        line_of: (section, field) -> line of the list in the file, if known.

    Raises:
        ConfigError: an empty list, a value given twice, a field that is given in both sections, or too many runs.
    """
    grid, zipped = sections["grid"], sections["zipped"]
    for field, choices in grid.items():
        _check_choices(choices, f"{where}.grid.{field}")
    for field in zipped:
        if field in grid:
            raise ConfigError(
                f"{where}: '{field}' is in grid{_line(line_of('grid', field))} and in "
                f"zipped{_line(line_of('zipped', field))}; give its values in one of them"
            )
    axes: list[Axis] = []
    if zipped:
        first = next(iter(zipped))
        _check_choices(zipped[first], f"{where}.zipped: '{first}'")
        axes.append((tuple(zipped), list(zip(*zipped.values(), strict=True))))
    for field, choices in grid.items():
        axes.append(((field,), [(one,) for one in choices]))
    number = math.prod(len(values) for _, values in axes)
    if number > MOST_RUNS:
        raise ConfigError(f"{where}.grid: its product gives {number:,} runs; at most {MOST_RUNS:,} are allowed")
    names = _short([fields[0] for fields, _ in axes])
    fields = [field for group, _ in axes for field in group]
    return [
        Point(
            dict(zip(fields, itertools.chain(*rows), strict=True)),
            tuple(_label(name, row[0]) for name, row in zip(names, rows, strict=True)),
        )
        for rows in itertools.product(*(values for _, values in axes))
    ]


def columns(rows: Any) -> Any:
    """The rows of `zipped` as dotted field -> values.

    Raises:
        ValueError: no list of rows, or a row that does not give the fields that the first one gives.
    """
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("a list of rows is wanted, such as [{ seed: 1, chains: 4 }, { seed: 2, chains: 8 }]")
    for number, row in enumerate(rows, 1):
        if row.keys() != rows[0].keys():
            first, other = (", ".join(each) or "none" for each in (rows[0], row))
            raise ValueError(f"all rows give the same fields, but row 1 gives {first}, and row {number} gives {other}")
    return {field: [row[field] for row in rows] for field in (rows[0] if rows else ())}


def _line(number: int | None) -> str:
    return f" (line {number})" if number else ""


def _check_choices(choices: list[Any], where: str) -> None:
    """Refuse a list of a grid that gives no run, or the same one twice."""
    if not choices:
        raise ConfigError(f"{where}: an empty list gives no run")
    seen = set()
    for value in choices:
        if (key := frozen(value)) in seen:
            raise ConfigError(f"{where}: {json.dumps(value, default=str)} is given twice; remove one")
        seen.add(key)


def frozen(value: Any) -> Any:
    """A value that can be in a set, equal where the values are."""
    if isinstance(value, dict):
        return frozenset((key, frozen(part)) for key, part in value.items())
    return tuple(map(frozen, value)) if isinstance(value, list) else value


def _short(fields: Iterable[str]) -> list[str]:
    """The last part of each dotted field, or all of it where another one ends alike."""
    names = list(fields)
    last = [name.rpartition(".")[2] for name in names]
    return [end if last.count(end) == 1 else name for name, end in zip(names, last, strict=True)]


def _label(field: str, value: Any) -> str:
    """Part of a run's name: `airfoil` for a word, `scale0.1` for a number, `hidden16x16` for a list."""
    if isinstance(value, Mapping):
        return "-".join(str(v) if isinstance(v, str) else _label(k, v) for k, v in value.items())
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        value = "x".join(map(str, value))
    return field + str(value)
