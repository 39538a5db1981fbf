"""Locks between processes: only one process at a time makes a result or compiles a program.

These are POSIX locks (`fcntl`): they end with their process, however it ends, and work between hosts that share a file
system.
"""

import errno
import fcntl
import logging
import os
import platform
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TextIO

log = logging.getLogger(__name__)
HELD = "held by "
"""Prefix of the text that the holder of a lock writes into it."""
_OWN = threading.Lock()
_held: set[Path] = set()
"""Locks of this process. The system would grant such a lock again to the process, and release it when either of the two
open files is closed."""
os.register_at_fork(after_in_child=_held.clear)


class LockError(OSError):
    """The file system does not support locks; the message names the file. `errno` is the system's."""


class Lock(NamedTuple):
    """A lock that this process holds."""

    file: TextIO
    """Open for reading and appending, at its start."""
    waited: bool
    """Whether another process held the lock first."""


@contextmanager
def lock(
    path: Path, purpose: str, while_waiting: Callable[[], None] = lambda: None, seconds: float = 1
) -> Iterator[Lock]:
    """Hold the lock of a file, which is created if needed; while the lock is taken, try again every `seconds` seconds.

    At each attempt, `while_waiting` is called; it may raise. The file is never removed.

    Raises:
        LockError: the file system has no locks.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path = path.parent.resolve() / path.name
    waited = (file := _taken(path)) is None
    if file is None:
        log.warning("waiting %s until %s has finished doing so", purpose, _holder(path))
        while (file := _taken(path)) is None:
            while_waiting()
            time.sleep(seconds)
    try:
        yield Lock(file, waited)
    finally:
        with _OWN:
            file.close()
            _held.discard(path)


def this_process() -> str:
    """The text that the holder of a lock writes into the file."""
    return f"{HELD}process ({os.getpid()} on {platform.node()})"


def _taken(path: Path) -> TextIO | None:
    """The locked file; None if its lock is taken."""
    with _OWN:
        if path in _held:
            return None
        file = path.open("a+", encoding="utf-8")
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # If the file was removed after it was opened, another process would lock a new file.
            is_there = os.path.samestat(path.stat(), os.fstat(file.fileno()))
        except (BlockingIOError, PermissionError, FileNotFoundError):
            is_there = False
        except OSError as error:
            file.close()
            why = f"cannot lock {path} ({error.strerror}); use a folder on a file system with locks"
            raise LockError(error.errno or errno.ENOLCK, why) from error
        if not is_there:
            file.close()
            return None
        _held.add(path)
    file.seek(0)
    return file


def _holder(path: Path) -> str:
    """The name of a lock's holder, as written in the file."""
    if path in _held:  # reading the file would end the lock
        return "another thread of this process"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        text = ""
    named = re.findall(rf"{HELD}(process \([^)]*\))", text)
    return f"another {named[-1]}" if named else "another process"
