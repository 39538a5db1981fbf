"""Whether all results are what their records say."""

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bnn_atlas import records
from bnn_atlas.files import is_temporary

log = logging.getLogger(__name__)
ASIDE = ("logs", "benchmarks", "records", "so_far", "site")
"""Folders below the results that hold no results."""
SHOWN = 12
"""Paths of a kind that are listed."""


class Found(NamedTuple):
    """Paths below the results that are not as recorded; `whole` counts those that are."""

    whole: int
    damaged: list[Path]
    missing: list[Path]
    unrecorded: list[Path]
    left_over: list[Path]

    def text(self, results: Path, mend: bool) -> str:
        """A line for each kind, with its first paths."""
        kinds = {
            "damaged": self.damaged,
            "missing, though recorded": self.missing,
            "without a record (made by an earlier version, or not by this pipeline)": self.unrecorded,
            "left over by jobs that were killed": self.left_over,
        }
        lines = [f"{self.whole:,} results in {results} are as recorded."]
        for kind, paths in kinds.items():
            if paths:
                lines += [f"{len(paths):,} {kind}:", *(f"  {path}" for path in paths[:SHOWN])]
                lines += [f"  and {len(paths) - SHOWN:,} more"] if len(paths) > SHOWN else []
        if self.damaged or self.left_over:
            removed = "is removed" if mend else "is removed by `--config mend=true`"
            lines.append(f"What is damaged or left over {removed}; a call that needs it makes it again.")
        return "\n".join(lines)


def check(*, results: str | Path, mend: bool) -> None:
    """Read every result and compare it with its record; with `mend`, remove what is damaged or left over.

    Raises:
        SystemExit: something is damaged, and was not removed.
    """
    found = look_at(Path(results))
    if mend:
        for path in [*found.damaged, *found.left_over]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    text = found.text(Path(results), mend)
    if found.damaged and not mend:
        log.error("%s", text)
        raise SystemExit(1)
    print(text)


def look_at(results: Path) -> Found:
    """Compare all files with their records; files of a job that is running count neither way."""
    found = Found(0, [], [], [], [])
    known, busy, whole = set(), set(), 0
    for record in sorted(results.rglob(".*.record")):
        if records.is_busy(record):
            busy.add(record.parent)
        for name, digest in records.read(record).get("outputs", {}).items():
            path = results / name
            known.add(path)
            if not path.exists():
                found.missing.append(path)
            elif records.digest(path) != digest:
                found.damaged.append(path)
            else:
                whole += 1
    for path in _files(results, known):
        if path.parent in busy or path.relative_to(results).parts[0] in ASIDE:
            continue
        if _is_left_over(path):
            found.left_over.append(path)
        elif path not in known and not path.name.startswith(".") and not path.name.endswith(".partial"):
            found.unrecorded.append(path)
    return found._replace(whole=whole)


def _files(folder: Path, known: set[Path]) -> Iterator[Path]:
    """All files in a folder and its folders, except in those that are one result, unfinished or left over."""
    for path in sorted(folder.iterdir()):
        if path.is_dir() and path not in known and not _is_left_over(path) and path.suffix not in (".zarr", ".partial"):
            yield from _files(path, known)
        else:
            yield path


def _is_left_over(path: Path) -> bool:
    """Whether no job will ever use a file or folder again, unless one is running."""
    name = path.name
    if name.startswith(".") and path.suffix in (".record", ".lock"):
        result = path.with_name(name.removeprefix(".").removesuffix(path.suffix))
        needless = path.with_suffix(".record").exists() if path.suffix == ".lock" else False
        return needless or not (result.exists() or records.read(path))
    if name.endswith(".partial"):
        return path.with_name(name.removesuffix(".partial")).exists()
    before = name.startswith(".") and name.endswith(".before")
    return is_temporary(path) or (before and path.with_name(name[1:].removesuffix(".before")).exists())
