"""Results that are made by one process at a time, and again only when what they are made of has changed."""

import fcntl
import logging
import os
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

log = logging.getLogger(__name__)
FLOCK = "hhqqi4x"
"""Linux's `struct flock` on 64 bits: type, whence, start, length, process."""


@contextmanager
def locked(destination: Path, while_waiting: Callable[[], None] = lambda: None) -> Iterator[TextIO]:
    """Hold the lock of a result; wait while another process (such as an orphaned cluster job) holds it.

    Waiting calls `while_waiting` every second, which may raise. Gives the file `.<name>.lock` beside the result, which
    is not removed.
    """
    destination.parent.mkdir(parents=True, exist_ok=True)
    with destination.with_name(f".{destination.name}.lock").open("a+", encoding="utf-8") as handle:
        if not _locks(handle):
            log.warning("another process%s is making %s; waiting for it to end", _holder(handle), destination)
            while not _locks(handle):
                while_waiting()
                time.sleep(1)
        yield handle


def _locks(handle: TextIO) -> bool:
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(handle: TextIO) -> str:
    """The process that has the lock, in words; nothing where the system does not tell (other hosts, not Linux)."""
    if sys.platform != "linux":
        return ""
    asked = struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    pid = struct.unpack(FLOCK, fcntl.fcntl(handle, fcntl.F_GETLK, asked))[-1]
    return f" ({pid})" if pid > 0 else ""


@contextmanager
def making(destination: str | Path, fingerprint: str) -> Iterator[bool]:
    """Hold the lock of a file and tell whether it is to be made: not if it was made with this fingerprint.

    The fingerprint is kept in the file's lock, once the block has ended without an exception. The block must write the
    whole file or nothing (`bnn_atlas.files.atomic`).
    """
    path = Path(destination)
    with locked(path) as record:
        record.seek(0)
        if path.exists() and record.read() == fingerprint:
            log.info("%s is complete already", path)
            yield False
            return
        record.truncate(0)
        yield True
        record.write(fingerprint)
