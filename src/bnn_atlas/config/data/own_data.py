"""Your own data in config/datasets.yaml: local files that need no checksum, and tables that need no description."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bnn_atlas.config.data.own_table import OwnTable, Seen, sentence, survey
from bnn_atlas.config.language.base import ConfigError, validated


def with_own_data(registry: Any, source: str, root: Path) -> Any:
    """The registry with the user's tables expanded to full entries with files, and with checksums of local files.

    Paths are relative to `root`. Raises ConfigError with `source`, the data set, the file and the position in it.
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
    """A registered file; the checksum is added if the file is local."""
    if not isinstance(file, Mapping) or not isinstance(file.get("path"), str) or "sha256" in file:
        return file
    return {**file, "sha256": _sha256(located(file["path"], where, root))}


def _entry(name: str, own: OwnTable, where: str, root: Path) -> dict[str, Any]:
    """The entry of your own table, with the keys of `DatasetEntry`."""
    path = located(own.path, where, root)
    problems, _, seen = survey(path, own)
    if problems or seen is None:
        keys = [f".{problem.key}" if problem.key else "" for problem in problems]
        lines = [f"{key}: {own.path}: {sentence(problem)}" for key, problem in zip(keys, problems, strict=True)]
        raise ConfigError("\n".join(where + line for line in lines))
    raw = f"{name}.{own.workbook or 'csv'}"
    return {
        "title": own.title,
        "task": own.task,
        "target": own.target,
        "classes": sorted(set(seen.parsed.words[own.target])) if own.task == "classification" else [],
        "rows": len((seen.parsed.numbers | seen.parsed.words)[own.target]),
        "inputs": sum(len(set(seen.parsed.words.get(column, "1"))) for column in seen.used if column != own.target),
        "licence": own.licence,
        "note": own.note,
        "files": [{"name": raw, "path": own.path, "sha256": _sha256(path), "read": _reader(own, seen)}],
    }


def _reader(own: OwnTable, seen: Seen) -> dict[str, Any]:
    """Settings for reading the file, with the keys of `CsvReader` or `WorkbookReader`."""
    names: bool | list[str] = list(seen.header) if seen.header != seen.columns else own.columns is None
    drop = [column for column in seen.columns if column not in seen.used]
    read: dict[str, Any] = {"columns": list(seen.columns), "drop": drop, "text": sorted(set(own.words))}
    read |= {key: getattr(own, key) for key in ("missing", "skip", "decimal", "thousands")}
    if own.workbook:
        return read | {"format": own.workbook, "sheet": own.sheet, "header": names if isinstance(names, list) else None}
    read |= {"format": "csv", "separator": own.between, "header": names}
    return read | {"encoding": own.encoding, "comment": own.comment}


def located(path: str, where: str, root: Path) -> Path:
    """A local file of the registry; ConfigError if it does not exist."""
    found = root / Path(path).expanduser()
    if not found.is_file():
        what = "a folder, not a file" if found.is_dir() else "no such file"
        raise ConfigError(
            f"{where}.path = '{path}': {what}; a relative path starts at {root.resolve()}. Put the file there, "
            "correct the path, or take the data set out"
        )
    return found


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
