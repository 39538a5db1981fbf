"""The record of a result: the file `.<name>.record` next to the result, which states how the result was made.

The record is also a lock. The process that makes the result adds a last line with the name of the process, and replaces
the whole record once the result is complete. A record holds no time, host or absolute path, so that equal results have
equal records.
"""

import fcntl
import hashlib
import json
import logging
import os
import re
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bnn_atlas import provenance, runtime
from bnn_atlas.files import MEND, refusals
from bnn_atlas.locks import lock, this_process

log = logging.getLogger(__name__)
FINGERPRINT = "fingerprint"
"""Field of results that are made again only if the hash of everything that they depend on has changed (`making`)."""
CHECKSUM = "checksum"
"""Field with the CRC-32 of all other fields."""
PUBLISHED = "published"
"""Field of results that came from an archive of another clone, or were made from such results: the archive's hash."""
LARGE = 64 * 2**20
"""Size in bytes above which a job does not compute the SHA-256 of an input file or folder, but takes the hash from the
input's record; the formats of such large results detect damage by themselves."""
NEW = ".new"
"""Suffix of a record that is being written."""
PACKAGES = ("jax", "numpy")
VECTORS = {"avx512f": 512, "avx2": 256, "avx": 256, "sse2": 128, "asimd": 128}
"""Flag of a processor -> width of its vectors in bits, the widest first."""
_HELD = re.compile(r"^held by process.*\n?", re.MULTILINE)
"""The line that names the holder (`locks.this_process`)."""
_mine: "dict[tuple[Path, int], Held]" = {}
"""The records whose locks this process holds, by their path and thread."""
os.register_at_fork(after_in_child=_mine.clear)


class Held:
    """The record of a result whose lock this process holds."""

    def __init__(self, before: Mapping[str, Any], waited: bool) -> None:
        self.before = before
        """The previous content of the record; empty if there was no record."""
        self.waited = waited
        """Whether another process held the lock first."""
        self.content = dict(before)
        """The new content of the record. If the block ends with an exception, the record gets its previous content
        without the fingerprint."""

    def says(self, facts: Mapping[str, Any]) -> bool:
        """Whether the previous record contains these facts."""
        return all(self.before.get(name) == json.loads(json.dumps(fact)) for name, fact in facts.items())


def record_of(destination: str | Path) -> Path:
    """The record of a result."""
    path = Path(destination)
    return path.parent.resolve() / f".{path.name}.record"


@contextmanager
def held(destination: str | Path, while_waiting: Callable[[], None] = lambda: None) -> Iterator[Held]:
    """Hold the record of a result; wait while another process (such as an orphaned cluster job) holds the record.

    While waiting, `while_waiting` is called every second; it may raise. Within the block, the thread can hold the same
    record again. After the block, `content` is written to the record.

    Raises:
        LockError: the file system has no locks.
    """
    path = record_of(destination)
    key = path, threading.get_ident()
    if key in _mine:
        yield _mine[key]
        return
    with lock(path, f"to make {destination}", while_waiting) as (file, waited):
        text = file.read()
        before = parsed_text(text)
        old = path.with_suffix(".lock")  # earlier versions kept the fingerprint in a separate file
        if old.is_file():
            before = before or {FINGERPRINT: old.read_text(encoding="utf-8")}
            old.unlink()
        record = _mine[key] = Held(before, waited)
        with refusals(path, "The record of a result has to be written before and after the result"):
            file.write(f"\n{this_process()}\n")
            file.flush()
        content: Mapping[str, Any] = {name: value for name, value in before.items() if name != FINGERPRINT}
        try:
            yield record
            content = record.content
        finally:
            del _mine[key]
            write(path, content)


def write(path: Path, content: Mapping[str, Any]) -> None:
    """Replace a whole record; processes that wait for its lock (which this process may hold) then open the new file."""
    new = path.with_name(f"{path.name}{NEW}")
    with refusals(path, "Make room, or write elsewhere; the job's result exists, but is not recorded"):
        with new.open("w", encoding="utf-8") as file:
            if content:
                # Settings are not sorted, since Snakemake compares them in their own order.
                file.write(json.dumps({**dict(sorted(content.items())), CHECKSUM: _checksum(content)}, indent=1) + "\n")
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)


@contextmanager
def making(destination: str | Path, fingerprint: str) -> Iterator[bool]:
    """Hold the record of a file and yield whether the file has to be made: False if made with this fingerprint.

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
        yield True
        record.content[FINGERPRINT] = fingerprint


class DamagedInput(ValueError):
    """An input of a job differs from its record; the message names the file and says what to do."""


def read(path: Path) -> dict[str, Any]:
    """The record at a path; empty if there is none, it is damaged, or the result was not finished."""
    if any(path == mine for mine, _ in _mine):  # closing the file after reading would release the lock
        return {}
    try:
        state = path.stat()
        return _read(path, state.st_ino, state.st_mtime_ns, state.st_size)
    except (OSError, UnicodeDecodeError):
        return {}


@lru_cache(maxsize=10_000)
def _read(path: Path, *state: int) -> dict[str, Any]:
    """The record at a path with this state (inode, time and size); cached, since plans read records repeatedly."""
    text = path.read_text(encoding="utf-8")
    return {} if _HELD.search(text) else parsed_text(text)


def is_unreadable(path: Path) -> bool:
    """Whether a record has been damaged; False if it only names a holder that was killed."""
    text = path.read_text(encoding="utf-8", errors="replace")
    return bool(_HELD.sub("", text).strip()) and not parsed_text(text)


def is_busy(path: Path) -> bool:
    """Whether a running process holds the record at a path."""
    if not _HELD.search(path.read_text(encoding="utf-8", errors="replace")):
        return False
    with path.open("a") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def made_by(path: str | Path, results: str | Path) -> dict[str, Any]:
    """The record of the job that made a file below `results`, whichever output the file is; empty if there is none."""
    name, first = name_of(path, results), record_of(path)
    if name in (content := read(first)).get("outputs", {}):
        return content
    with suppress(OSError):
        if other := _others(first.parent, first.parent.stat().st_mtime_ns).get(Path(path).name):
            return content if name in (content := read(other)).get("outputs", {}) else {}
    return {}


def behind(record: Mapping[str, Any], results: str | Path) -> Iterator[dict[str, Any]]:
    """The records of all jobs whose results a job used, directly or through other jobs; each record once."""
    seen: set[str] = set()
    for name in (waiting := list(record.get("inputs", ()))):
        if name not in seen and (made := made_by(Path(results, name), results)):
            yield made
            seen.update(made["outputs"])
            waiting += made.get("inputs", ())


def published(paths: Iterable[str | Path], results: str | Path) -> dict[str, str]:
    """The field PUBLISHED for results made from these files; empty if none of the files came from an archive."""
    found = {made_by(path, results).get(PUBLISHED) for path in paths} - {None}
    return {PUBLISHED: ", ".join(sorted(map(str, found)))} if found else {}


@lru_cache(maxsize=1_000)
def _others(folder: Path, changed: int) -> dict[str, Path]:
    """Name of each output in a folder -> the record there that lists it; `changed` is when the folder last changed."""
    records = sorted(folder.glob(".*.record"))
    return {Path(name).name: record for record in records for name in read(record).get("outputs", {})}


def stated(path: str | Path, results: str | Path) -> str | None:
    """The SHA-256 of a file according to its record; None if the file has no record."""
    return made_by(path, results).get("outputs", {}).get(name_of(path, results))


def is_damaged(path: str | Path, results: str | Path) -> bool:
    """Whether a file differs from its record; False if the file has no record."""
    return stated(path, results) not in (None, digest(Path(path)))


def digests(paths: Iterable[str | Path], results: str | Path) -> dict[str, str]:
    """Name of each file or folder -> its SHA-256."""
    return {name_of(path, results): digest(Path(path)) for path in paths}


def digests_of_inputs(paths: Iterable[str | Path], results: str | Path) -> dict[str, str]:
    """Name of each file or folder that a job reads -> its SHA-256; for inputs above `LARGE`, from a record if possible.

    Raises:
        DamagedInput: a file differs from its record.
    """
    found = {}
    for path in map(Path, paths):
        known = stated(path, results)
        whole = known if known and _size(path) > LARGE else digest(path)
        if known not in (None, whole):
            raise DamagedInput(f"{path}: changed or damaged since its job made it; {MEND}")
        found[name_of(path, results)] = whole
    return found


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in (path.rglob("*") if path.is_dir() else [path]))


def digest(path: Path) -> str:
    """SHA-256 of a file; for a folder, of the sorted list of its files and their SHA-256s, without hidden files."""
    if path.is_dir():
        return digest_of_folder({name: digest(path / name) for name in inside(path)})
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def inside(folder: Path) -> list[str]:
    """Names of the files in a folder and its folders, sorted, without hidden files."""
    names = sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())
    return [name for name in names if not re.search(r"(^|/)\.", name)]


def digest_of_folder(files: Mapping[str, str]) -> str:
    """SHA-256 of a folder, from the names of its files and their SHA-256s."""
    return hashlib.sha256("".join(f"{files[name]}  {name}\n" for name in sorted(files)).encode()).hexdigest()


def name_of(path: str | Path, results: str | Path) -> str:
    """A path relative to the results or, for files elsewhere such as captions, to the current folder."""
    name = os.path.relpath(path, results)
    return os.path.relpath(path) if name.startswith("..") else name


def environment() -> dict[str, Any]:
    """The code, processor and packages of this process, as recorded with results."""
    commit, dirty = commit_here()
    return {
        "commit": commit,
        "dirty": dirty,
        "processor": runtime.processor(),
        "vector_bits": vector_bits(),
        "cache_kib": cache_kib(),
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


def cache_kib() -> int:
    """Size of this processor's first-level data cache, by which XLA splits long sums in products; 0 if unknown."""
    try:
        return int(Path("/sys/devices/system/cpu/cpu0/cache/index0/size").read_text(encoding="utf-8").rstrip("K\n"))
    except (OSError, ValueError):
        return 0


@cache
def commit_here() -> tuple[str, bool]:
    """The last commit that changed the code in this folder, and whether the code has changed since."""
    return provenance.commit(Path())


def parsed_text(text: str) -> dict[str, Any]:
    """The content of a record; empty if the record is damaged."""
    try:
        content = json.loads(_HELD.sub("", text))
    except ValueError:
        return {}
    if not isinstance(content, dict) or content.pop(CHECKSUM, None) not in (None, _checksum(content)):
        return {}
    outputs = content.get("outputs", {})
    return content if isinstance(outputs, dict) and all(isinstance(one, str) for one in outputs.values()) else {}


def _checksum(content: Mapping[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(content, sort_keys=True).encode()):08x}"
