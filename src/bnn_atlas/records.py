"""The record of a result: the file `.<name>.record` next to it, which says what made it.

It is also the lock of the process that makes the result: its contents are those of a finished result, unless it names
its holder. It holds no time, host or absolute path, so that the same result has the same record.
"""

import fcntl
import hashlib
import json
import logging
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

from bnn_atlas import provenance, runtime

log = logging.getLogger(__name__)
HOLDER = "holder"
FINGERPRINT = "fingerprint"
"""Field of results that are made again only if the hash of all that they depend on has changed (`making`)."""
PACKAGES = ("jax", "numpy")
VECTORS = {"avx512f": 512, "avx2": 256, "avx": 256, "sse2": 128, "asimd": 128}
"""Flag of a processor -> width of its vectors in bits, the widest first."""
_mine: "dict[tuple[Path, int], Record]" = {}
"""The records whose locks this process holds, by their path and thread."""
os.register_at_fork(after_in_child=_mine.clear)


class Record:
    """The record of a result whose lock this process holds."""

    def __init__(self, file: TextIO, before: Mapping[str, Any], waited: bool, holder: str) -> None:
        self._file, self._holder = file, holder
        self.before = before
        """What the record said before; empty if there was none."""
        self.waited = waited
        """Whether another process held the lock first."""
        self.content = {FINGERPRINT: before[FINGERPRINT]} if FINGERPRINT in before else {}
        """What the record will say."""

    def says(self, facts: Mapping[str, Any]) -> bool:
        """Whether it said these facts."""
        return all(self.before.get(name) == json.loads(json.dumps(fact)) for name, fact in facts.items())

    def write(self, held: bool = True) -> None:
        """Write the content and, while the lock is held, its holder."""
        content = dict(sorted(self.content.items()) + [(HOLDER, self._holder)] * held)
        self._file.truncate(0)
        self._file.write(json.dumps(content, indent=1) + "\n" if content else "")
        self._file.flush()


def record_of(destination: str | Path) -> Path:
    """The record of a result."""
    path = Path(destination)
    return path.parent.resolve() / f".{path.name}.record"


@contextmanager
def held(destination: str | Path, while_waiting: Callable[[], None] = lambda: None) -> Iterator[Record]:
    """Hold the record of a result; wait while another process (such as an orphaned cluster job) holds it.

    While waiting, `while_waiting` is called every second; it may raise. Within the block, the thread can hold the same
    record again. After the block, the record says what its `content` does.

    Raises:
        LockError: the file system has no locks.
    """
    from bnn_atlas.locks import lock, this_process  # imports JAX, which readers of records need not wait for

    path = record_of(destination)
    key = path, threading.get_ident()
    if key in _mine:
        yield _mine[key]
        return
    with lock(path, f"to make {destination}", while_waiting) as (file, waited):
        before = _parsed(file.read())
        old = path.with_suffix(".lock")  # earlier versions had a fingerprint in a file of its own
        if old.is_file():
            before = before or {FINGERPRINT: old.read_text(encoding="utf-8")}
            old.unlink()
        record = _mine[key] = Record(file, before, waited, this_process())
        record.write()
        try:
            yield record
        finally:
            del _mine[key]
            record.write(held=False)


@contextmanager
def making(destination: str | Path, fingerprint: str) -> Iterator[bool]:
    """Hold the record of a file and yield whether it has to be made: False if it was made with this fingerprint.

    When the block ends without an exception, the fingerprint is recorded. The block must write the whole file or
    nothing (`bnn_atlas.files.atomic`).

    Raises:
        LockError: the file system has no locks.
    """
    with held(destination) as record:
        if Path(destination).exists() and record.before.get(FINGERPRINT) == fingerprint:
            log.info("%s is complete already", destination)
            yield False
            return
        record.content.pop(FINGERPRINT, None)
        record.write()
        yield True
        record.content[FINGERPRINT] = fingerprint
        record.write()


def read(path: Path) -> dict[str, Any]:
    """The record at a path; empty if there is none, it is damaged, or the result was not finished."""
    if any(path == mine for mine, _ in _mine):  # reading the file would end the lock
        return {}
    try:
        content = _parsed(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return {}
    return {} if HOLDER in content else content


def is_busy(path: Path) -> bool:
    """Whether a process that still runs holds the record at a path."""
    if HOLDER not in path.read_text(encoding="utf-8", errors="replace"):
        return False
    with path.open("a") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def made_by(path: str | Path, results: str | Path) -> dict[str, Any]:
    """The record of the job that made a file below `results`, whichever of its outputs it is; empty if none has it."""
    file, name = Path(path), name_of(path, results)
    first = record_of(file)
    for record in (first, *sorted({*first.parent.glob(".*.record")} - {first})):
        if name in (content := read(record)).get("outputs", {}):
            return content
    return {}


def is_damaged(path: str | Path, results: str | Path) -> bool:
    """Whether a file differs from what its record says; not if it has none."""
    record = made_by(path, results)
    return bool(record) and record["outputs"][name_of(path, results)] != digest(Path(path))


def digests(paths: Iterable[str | Path], results: str | Path, recorded: bool = False) -> dict[str, str]:
    """Name of each file or folder -> its SHA-256; if `recorded`, that in its record, where it has one."""
    found = {}
    for path in paths:
        name = name_of(path, results)
        known = made_by(path, results) if recorded else {}
        found[name] = known["outputs"][name] if known else digest(Path(path))
    return found


def digest(path: Path) -> str:
    """SHA-256 of a file; that of a folder is over the sorted list of its files with theirs, without hidden files."""
    if path.is_dir():
        names = sorted(file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file())
        listed = [f"{digest(path / name)}  {name}\n" for name in names if not re.search(r"(^|/)\.", name)]
        return hashlib.sha256("".join(listed).encode()).hexdigest()
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def name_of(path: str | Path, results: str | Path) -> str:
    """A path relative to the results; files elsewhere, such as captions, keep theirs relative to this folder."""
    name = os.path.relpath(path, results)
    return os.path.relpath(path) if name.startswith("..") else name


def environment() -> dict[str, Any]:
    """Where and by what a result is made."""
    commit, dirty = commit_here()
    return {
        "commit": commit,
        "dirty": dirty,
        "processor": runtime.processor(),
        "vector_bits": vector_bits(),
        "versions": {name: version(name) for name in PACKAGES},
    }


def vector_bits() -> int:
    """Width of this processor's vectors; 0 if unknown."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        text = ""
    match = re.search(r"^(?:flags|Features)\s*:(.+)", text, re.MULTILINE)
    flags = match[1].split() if match else []
    return next((bits for flag, bits in VECTORS.items() if flag in flags), 0)


@cache
def commit_here() -> tuple[str, bool]:
    """The last commit that changed the code in this folder, and whether the code has changed since."""
    return provenance.commit(Path())


def _parsed(text: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
