"""Families of claims: entries with `for` become one claim for each of its rows, and published numbers are filled in."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from bnn_atlas.config.language.base import ConfigError, did_you_mean, near_or_all
from bnn_atlas.config.language.reading import Lines
from bnn_atlas.published import Number

PLACE = re.compile(r"\{(\w+)(?::(words|,))?\}")
"""`{key}` in a text; `{key:words}` has spaces for '_', and `{key:,}` commas between thousands."""
MINUS = " - "
"""Between the keys of two published numbers whose difference is meant."""


class Families:
    """The claims of a file, one for each row of `for`, and where in the file each is written."""

    def __init__(
        self, entries: Mapping[str, Any], fields: Sequence[str], numbers: Mapping[str, Number], where: str
    ) -> None:
        """Expand the entries of a file.

        Args:
            entries: name -> claim, as in the file.
            fields: keys that a claim can have.
            numbers: published numbers of the study by their keys.
            where: the file, for messages.

        Raises:
            ConfigError: wrong rows of `for`, two claims of one name, unknown places in texts, and unknown numbers.
        """
        self.claims: dict[str, Any] = {}
        """Name -> claim, without `for`."""
        self._written: dict[str, tuple[tuple[Any, ...], dict[str, tuple[Any, ...]]]] = {}
        for entry, data in entries.items():
            place = f"{where}: claims.{entry}"
            if not isinstance(data, dict):
                self.claims[entry] = data
                continue
            is_family = "for" in data
            for path, row in _rows(data["for"], place) if is_family else [((), {})]:
                own = {key: value for key, value in data.items() if key != "for"}
                own |= {key: value for key, value in row.items() if key in fields}
                known = dict(row)
                name = _filled(entry, known, place) if is_family else entry
                if "published" in own:
                    own |= _published(own, known, numbers, place, is_family)
                if name in self.claims:
                    raise ConfigError(f"{place}: two claims have the name '{name}': put a key of `for` in it")
                _check_used(row, fields, (entry, own), place)
                self.claims[name] = _filled(own, known, place) if is_family or "published" in own else own
                self._written[name] = ("claims", entry), {key: ("claims", entry, *path, key) for key in row if path}

    def lines(self, file: Path) -> Lines:
        """The lines of the file by the names of the claims."""
        return _Lines(file, self)

    def place(self, keys: Sequence[Any]) -> list[Any]:
        """Where in the file the value at a path of keys is written, such as `claims.one_of_a_family.bound`."""
        if len(keys) > 1 and keys[0] == "claims" and keys[1] in self._written:
            entry, of_row = self._written[keys[1]]
            field = of_row.get(keys[2]) if len(keys) > 2 else None
            return [*field, *keys[3:]] if field else [*entry, *keys[2:]]
        return list(keys)


class _Lines(Lines):
    def __init__(self, file: Path, families: Families) -> None:
        super().__init__(file)
        self._families = families

    def __call__(self, keys: Sequence[Any]) -> tuple[int, int]:
        return super().__call__(self._families.place(keys))

    def of_name(self, name: str) -> tuple[int | None, bool]:
        return super().of_name(".".join(map(str, self._families.place(name.split(".")))))


def _rows(given: Any, where: str) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Each row with its path below the claim: the rows of a list, or all combinations of a section of lists."""
    if isinstance(given, list) and given and all(isinstance(row, dict) and row for row in given):
        yield from ((("for", number), row) for number, row in enumerate(given))
    elif isinstance(given, dict) and given and all(isinstance(values, list) and values for values in given.values()):
        yield from (((), dict(zip(given, row, strict=True))) for row in itertools.product(*given.values()))
    else:
        raise ConfigError(
            f"{where}.for: rows are wanted, such as [{{ set: airfoil, bound: 0.1 }}, {{ set: concrete, bound: 0.2 }}], "
            "or lists of which all combinations are taken, such as { set: [airfoil, concrete], seed: [1, 2] }"
        )


def _check_used(row: Mapping[str, Any], fields: Sequence[str], texts: Any, where: str) -> None:
    """Refuse keys of `for` that are neither a field of a claim nor in one of its texts."""
    used = {match[1] for match in PLACE.finditer(repr(texts))}
    for key in row:
        if key not in fields and key not in used:
            near = did_you_mean(key, fields)
            raise ConfigError(f"{where}.for: '{key}' is no key of a claim{near}, and no text of this one has {{{key}}}")


def _published(
    own: Mapping[str, Any], known: dict[str, Any], numbers: Mapping[str, Number], where: str, is_family: bool
) -> dict[str, Any]:
    """Number and standard deviation that a claim takes from the published ones; `known` gets their texts."""
    for key in ("paper_value", "paper_sd"):
        if key in own:
            raise ConfigError(f"{where}.{key}: the claim takes its number from `published`; leave one of them out")
    if not isinstance(own["published"], str):
        raise ConfigError(f"{where}.published = {own['published']!r}: the key of a published number is wanted, as text")
    text = _filled(own["published"], known, where) if is_family else own["published"]
    found = []
    for key in text.split(MINUS):
        if key not in numbers:
            near = did_you_mean(key, numbers)
            raise ConfigError(f"{where}.published: no number '{key}' in config/published{near}; add a row for it")
        found.append(numbers[key])
    if len(found) > 2:
        raise ConfigError(f"{where}.published: the difference of two numbers is wanted, not of {len(found)}")
    value: Decimal = found[0].value - found[1].value if len(found) > 1 else found[0].value
    error = found[0].error if len(found) == 1 else None
    known |= {"value": value} | ({} if error is None else {"error": error})
    return {"paper_value": float(value)} | ({} if error is None else {"paper_sd": float(error)})


def _filled(value: Any, known: Mapping[str, Any], where: str) -> Any:
    """A value with the places in all its texts filled."""
    if isinstance(value, dict):
        return {key: _filled(part, known, where) for key, part in value.items()}
    if isinstance(value, list):
        return [_filled(part, known, where) for part in value]
    if not isinstance(value, str):
        return value

    def text(match: re.Match[str]) -> str:
        key, form = match.groups()
        if key not in known:
            raise ConfigError(f"{where}: {match[0]} stands for nothing{near_or_all(key, 'known are', known)}")
        if form == ",":
            return f"{known[key]:,}"
        return str(known[key]).replace("_", " ") if form else str(known[key])

    return PLACE.sub(text, value)
