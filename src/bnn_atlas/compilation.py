"""Compilation of programs that several processes may need at the same time."""

import fcntl
import hashlib
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import jax
from jax.stages import Compiled, Lowered

log = logging.getLogger(__name__)


def compiled(program: Lowered) -> Compiled:
    """Executable of a program; if another process is compiling the same one, wait and take it from the cache."""
    folder = jax.config.values["jax_compilation_cache_dir"]
    if not folder:
        return program.compile()
    name = hashlib.sha256(program.as_text().encode()).hexdigest()
    with ExitStack() as stack:
        try:
            stack.enter_context(_lock(Path(folder) / "locks" / name))
        except OSError as error:
            log.warning("cannot lock %s (%s): two jobs may compile one program", folder, error)
        return program.compile()


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold the lock of a file, which ends with the process at the latest."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.lockf(handle, fcntl.LOCK_EX)
        yield
