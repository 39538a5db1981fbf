"""A cache of configurations that have passed their checks, valid while their files and the code stay the same."""

import contextlib
import hashlib
import json
import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pydantic

from bnn_atlas.config.settings import Atlas, load_atlas
from bnn_atlas.runtime import cache_folder
from bnn_atlas.sources import NO_CACHE, PACKAGE, state

KEPT = 8
"""Largest number of configurations that are kept in the user's cache folder."""


def checked_atlas(config: dict[str, Any], folder: Path) -> Atlas:
    """Like `load_atlas`, but from the cache folder if the same code has already checked the same files and settings.

    Every plan and every Slurm job reads the configuration, and checking all runs at all scales takes a third of the
    time of a plan. A configuration that uses data files on this machine is checked every time, since the check reads
    those files too. Raises like `load_atlas`.
    """
    with contextlib.suppress(Exception):  # a cache file that cannot be used, for whatever reason, is ignored
        kept = _file(config, folder)
        if _is_private(kept) and isinstance(found := pickle.loads(kept.read_bytes()), Atlas):
            return found
    atlas = load_atlas(config, folder)
    if not any(entry.own_checksums for entry in atlas.datasets.values()):
        with contextlib.suppress(*NO_CACHE):
            _keep(atlas, _file(config, folder))
    return atlas


def _is_private(file: Path) -> bool:
    """Whether only this user can have written a file; loading a pickle runs any code that it contains."""
    status = file.stat()
    return status.st_uid == os.getuid() and not status.st_mode & 0o022


def _keep(atlas: Atlas, file: Path) -> None:
    """Write a cache file, and remove the oldest ones."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_suffix(f".{os.getpid()}")
    temporary.touch(mode=0o600)
    temporary.write_bytes(pickle.dumps(atlas))
    temporary.replace(file)
    for old in sorted(file.parent.glob("*.pickle"), key=lambda each: each.stat().st_mtime)[:-KEPT]:
        old.unlink(missing_ok=True)


def _file(config: Mapping[str, Any], folder: Path) -> Path:
    """The cache file for these settings, the configuration's files, and this code."""
    about = [pydantic.VERSION, state(), str(folder), str(Path.cwd()), dict(config)]
    settings = json.dumps(about, sort_keys=True, default=str)
    whole = hashlib.sha256(settings.encode())
    data = (
        file for root in (folder, PACKAGE / "config") for file in root.rglob("*") if file.suffix in (".yaml", ".csv")
    )
    for file in sorted(data):
        content = file.read_bytes()
        whole.update(f"{file} {len(content)} ".encode() + content)
    return cache_folder() / "atlas" / f"{whole.hexdigest()[:32]}.pickle"
