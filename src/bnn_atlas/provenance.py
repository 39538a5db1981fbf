"""Provenance of a file: settings, code, locked packages, seeds and device, in a form that a rerun repeats exactly."""

import hashlib
import json
import math
import os
import platform
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePath
from typing import Any, Self

CODE = ("Snakefile", "workflow", "src", "Rcode", "requirements.lock", "requirements-gpu.lock")
"""Files and folders on which results depend besides settings; an edit anywhere else does not change provenance."""

SUMMARY = (
    "study", "figure", "scale", "reductions", "marks", "runs", "run", "split", "block", "dataset", "method", "chains",
    "draws", "kernel", "own_data",
)  # fmt: skip
"""Settings that are kept readable, next to the hash of all of them."""

UNKNOWN = "unknown"


@dataclass(frozen=True)
class Provenance:
    """Provenance of a file. It contains no time, host or absolute path, so the same inputs give the same bytes."""

    config: str
    """SHA-256 of the settings, see `fingerprint`."""
    commit: str
    """The last commit that changed `CODE`, or `unknown` outside a Git repository."""
    dirty: bool
    """Whether `CODE` differed from that commit."""
    lock: str
    """SHA-256 of requirements.lock, or `unknown`."""
    version: str
    """Version of the package."""
    device: str
    """Platform and kind, such as `gpu NVIDIA H100` or `cpu x86_64`."""
    seeds: tuple[int, ...]
    """Every seed among the settings, sorted."""
    settings: dict[str, Any]
    """The settings named in `SUMMARY`."""

    def to_json(self) -> str:
        """One line of ASCII JSON with sorted keys."""
        return _canonical(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The inverse of `to_json`; ValueError for any other text."""
        try:
            fields = json.loads(text)
            return cls(**{**fields, "seeds": tuple(fields["seeds"])})
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise ValueError(f"not a provenance record ({error}): {text[:80]!r}") from None


def collect(settings: Mapping[str, Any], *, root: str | Path, device: str | None = None) -> Provenance:
    """Provenance of a result made from `settings` by the code in the repository `root`.

    `settings` holds the leaf values on which the result depends, nested in any way. `device` computed the result; by
    default it is the processor of this machine. Raises the errors of `fingerprint`.
    """
    folder = Path(root)
    plain = _plain(settings, "settings")
    last, dirty = commit(folder)
    lock = folder / "requirements.lock"
    return Provenance(
        config=fingerprint(plain),
        commit=last,
        dirty=dirty,
        lock=hashlib.sha256(lock.read_bytes()).hexdigest() if lock.is_file() else UNKNOWN,
        version=_version(folder),
        device=device or f"cpu {platform.machine()}",
        seeds=tuple(sorted(set(_seeds(plain)))),
        settings={key: plain[key] for key in SUMMARY if key in plain},
    )


def fingerprint(obj: Any) -> str:
    """SHA-256 (hexadecimal) of the canonical JSON of `obj`: sorted keys, no spaces, ASCII.

    Takes mappings with text keys, lists, tuples, text, numbers, booleans, None, relative paths and NumPy scalars and
    arrays. Raises TypeError for other types, and ValueError for an absolute path (the result would depend on the
    machine) or a number that is not finite, both with the place in `obj`.
    """
    return hashlib.sha256(_canonical(_plain(obj, "value")).encode("ascii")).hexdigest()


def commit(root: Path) -> tuple[str, bool]:
    """The last commit that changed `CODE`, and whether `CODE` has changed since then."""
    last = _git(root, "log", "-1", "--format=%H", "--", *CODE)
    if not last:
        return UNKNOWN, False
    return last, bool(_git(root, "status", "--porcelain", "--", *CODE))


def _canonical(plain: Any) -> str:
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _plain(obj: Any, where: str) -> Any:
    """The value of `obj` in JSON types only."""
    if isinstance(obj, Mapping):
        wrong = [key for key in obj if not isinstance(key, str)]
        if wrong:
            raise TypeError(f"{where}: the key {wrong[0]!r} is not text; use text keys")
        return {key: _plain(value, f"{where}.{key}") for key, value in obj.items()}
    if (numpy := sys.modules.get("numpy")) and isinstance(obj, numpy.ndarray | numpy.generic):
        return _plain(obj.tolist(), where)
    if isinstance(obj, list | tuple):
        return [_plain(value, f"{where}[{i}]") for i, value in enumerate(obj)]
    if isinstance(obj, str | PurePath):
        if PurePath(obj).is_absolute():
            raise ValueError(f"{where} is the absolute path {str(obj)!r}; make it relative to the repository")
        return obj.as_posix() if isinstance(obj, PurePath) else obj
    if isinstance(obj, float) and not math.isfinite(obj):
        raise ValueError(f"{where} is {obj}, which is not finite; leave it out or use null")
    if obj is None or isinstance(obj, bool | int | float):
        return obj
    raise TypeError(f"{where} is a {type(obj).__name__}; use plain values (text, numbers, lists, mappings)")


def _seeds(plain: Any) -> Iterable[int]:
    """Every integer under a key `seed`, `seeds` or `<something>_seed`."""
    if isinstance(plain, dict):
        for key, value in plain.items():
            if key in ("seed", "seeds") or key.endswith("_seed"):
                values = value if isinstance(value, list) else [value]
                yield from (seed for seed in values if isinstance(seed, int) and not isinstance(seed, bool))
            else:
                yield from _seeds(value)
    elif isinstance(plain, list):
        for value in plain:
            yield from _seeds(value)


def _git(root: Path, *arguments: str) -> str:
    """Output of Git in `root`; empty without Git, a repository or a commit."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    try:
        result = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(root), *arguments],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )
    except FileNotFoundError:
        return ""
    return result.stdout.strip() if result.returncode == 0 else ""


def _version(root: Path) -> str:
    project = root / "pyproject.toml"
    if not project.is_file():
        return UNKNOWN
    return str(tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"])
