"""Log files of jobs."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def logged(path: str | Path) -> Iterator[None]:
    """Send log records and the traceback of a failure to the file at `path`, behind those of earlier attempts.

    Warnings also go to the terminal.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    file = logging.FileHandler(target, mode="a", encoding="utf-8")
    file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", datefmt="%H:%M:%S"))
    terminal = logging.StreamHandler(sys.stderr)
    terminal.setLevel(logging.WARNING)
    root = logging.getLogger()
    atlas = logging.getLogger("bnn_atlas")
    root.addHandler(file)
    root.addHandler(terminal)
    atlas.setLevel(logging.INFO)
    atlas.info("started")
    try:
        yield
    except Exception:
        root.exception("failed")
        raise
    finally:
        root.removeHandler(file)
        root.removeHandler(terminal)
        file.close()
