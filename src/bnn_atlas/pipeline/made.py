"""Settings and inputs of results, from records and Snakemake's metadata, and whether these are still up to date."""

import ast
import json
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from bnn_atlas.pipeline.paths import in_metadata
from bnn_atlas.pipeline.steps import CODE
from bnn_atlas.records import made_by

LONGEST = 254
"""Largest number of characters in the name of a file of metadata; Snakemake puts longer ones into nested folders."""


def as_metadata(path: str, results: str) -> dict[str, Any]:
    """The record of a file in the format of Snakemake's metadata; empty if the record lacks these facts."""
    record = made_by(path, results)
    if "settings" not in record:
        return {}
    inputs = (name if Path(name).exists() else f"{results}/{name}" for name in record["inputs"])
    return {
        "rule": record["rule"],
        "params": sorted(map(repr, record["settings"])),
        "input": sorted(in_metadata(name, results) for name in inputs),
    }


class Metadata:
    """Metadata that Snakemake uses for the results of one scale (`hooks.keep_metadata`)."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self.results = str(self._folder.parent)
        self.of = lru_cache(maxsize=None)(self._read)
        """Path of a file -> its metadata; empty if there are none."""

    def made_from(self, path: str) -> dict[str, Any]:
        """Name of each recorded setting -> its value."""
        return dict(self._settings(path))

    def drawn_from(self, path: str) -> list[list[Any]]:
        """Name and value of each recorded setting of a figure, in order; a name may appear several times.

        Code is left out; it is recognised by the names of its files, which have no colon.
        """
        settings = ([name, value] for name, value in self._settings(path) if name != CODE)
        return sorted(setting for setting in settings if "/" not in setting[0] or ": " in setting[0])

    def _settings(self, path: str) -> Iterator[tuple[str, Any]]:
        for text in self.of(path).get("params") or ():
            try:
                value = ast.literal_eval(text)
            except (ValueError, SyntaxError):
                continue
            if isinstance(value, dict):
                yield from value.items()

    def code_of(self, path: str) -> str:
        """Recorded hash of the code that made a file; empty if unknown."""
        return str(self.made_from(path).get(CODE, ""))

    def is_current(self, path: str, settings: Mapping[str, Any], inputs: Iterable[str] = ()) -> bool:
        """Whether a file was made with these settings and, if given, these inputs; true if nothing is known."""
        known = self.of(path)
        if not known:
            return True
        made = self.made_from(path)
        same = {name: value for name, value in made.items() if name in settings} == dict(settings)
        gone = [name for name in made if name not in settings and name != CODE and "/" not in name]
        wanted = sorted(in_metadata(path, self.results) for path in inputs)
        return same and not gone and (not wanted or sorted(known.get("input") or ()) == wanted)

    def is_later(self, path: str, than: Iterable[str]) -> bool:
        """Whether a file was made after others, as far as is recorded."""
        times = [time for other in than if (time := self.of(other).get("endtime")) is not None]
        made = self.of(path).get("endtime")
        return made is None or all(made >= time for time in times)

    def _read(self, path: str) -> dict[str, Any]:
        name = urlsafe_b64encode(in_metadata(path, self.results).encode()).decode()
        parts = [name[start : start + LONGEST] for start in range(0, len(name), LONGEST)]
        file = self._folder.joinpath(*(f"@{part}" for part in parts[:-1]), parts[-1])
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            found = {}
        return {**(found if isinstance(found, dict) else {}), **as_metadata(path, self.results)}
