"""Writing files so that a reader never sees half of one."""

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success flush it to disk and rename it to `path`.

    On an exception the temporary file (or folder) is removed and `path` keeps what it held before.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.stem}.{uuid.uuid4().hex[:8]}{target.suffix}")
    try:
        yield temporary
        if not temporary.is_dir():
            with temporary.open("rb+") as handle:
                os.fsync(handle.fileno())
        temporary.replace(target)
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary)
        else:
            temporary.unlink(missing_ok=True)
