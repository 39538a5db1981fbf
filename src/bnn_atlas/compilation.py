"""Compile programs for several jobs at once: each program once, and no half-written entry in the cache of programs."""

import hashlib
import logging
from contextlib import ExitStack
from pathlib import Path

import jax
from jax._src.lru_cache import LRUCache
from jax.stages import Compiled, Lowered

from bnn_atlas.files import atomic
from bnn_atlas.locks import lock

log = logging.getLogger(__name__)


def compiled(program: Lowered) -> Compiled:
    """Compile a program; if another process is compiling the same program, wait and take the result from the cache."""
    folder = jax.config.values["jax_compilation_cache_dir"]
    if not folder:
        return program.compile()
    name = hashlib.sha256(program.as_text().encode()).hexdigest()
    with ExitStack() as stack:
        try:
            stack.enter_context(lock(Path(folder) / "locks" / name, "to compile a program of this job", seconds=0.05))
        except OSError as error:
            log.warning("%s: two jobs may compile the same program", error)
        return program.compile()


def _write_cache_entries_whole() -> None:
    """Make JAX's compilation cache write each entry to a temporary file and rename it.

    JAX 0.10 to 0.12 write in place. A process that is killed meanwhile leaves half an entry, which JAX can neither read
    nor replace: every later job would compile that program again. JAX writes an entry only if it could read none, so it
    is safe to replace whatever is there.
    """
    in_place = LRUCache.put

    def put(cache: LRUCache, key: str, value: bytes) -> None:
        if cache.eviction_enabled or not key or "://" in str(cache.path):
            in_place(cache, key, value)
            return
        # Flushing to disk would take long, and an entry damaged by a power cut is replaced anyway.
        with atomic(Path(cache.path) / f"{key}-cache", flush=False) as temporary:
            temporary.write_bytes(value)

    LRUCache.put = put  # type: ignore[method-assign, assignment]


_write_cache_entries_whole()
