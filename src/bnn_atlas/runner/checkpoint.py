"""The files from which an interrupted block continues: its folder, the last two checkpoints, and draws of a phase."""

import json
import logging
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.tree_util import keystr

from bnn_atlas.files import ZIP_DAMAGE, atomic, refusals

log = logging.getLogger(__name__)


RERUN = "Segments written before it are intact. Free or repair the disk and rerun that block; it continues from there."
"""Advice in errors about files that cannot be written."""


class CheckpointError(RuntimeError):
    """Raised if a block has checkpoints, but no checkpoint can be read."""


class Progress(NamedTuple):
    """Progress of a block: the phase, and the number of its units (draws, or steps if none are kept) that are done."""

    phase: int
    done: int
    seconds: tuple[float, ...] = ()
    """Wall time of each phase so far without compilation, over all attempts."""
    gradients: tuple[int, ...] = ()
    """Gradients counted over all chains in each phase so far; empty if gradients are not counted."""
    courses: tuple[tuple[tuple[float, ...], ...], ...] = ()
    """[point, quantity, chain]: the quantities of a fit in `segments.COURSES` so far; empty for other phases."""


class CheckpointStore:
    """The two newest checkpoints of a block, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.newest = folder / "checkpoint.npz"
        self.previous = folder / "checkpoint.previous.npz"

    def save(self, progress: Progress, state: Any) -> None:
        """Write the state of all chains [chain, ...]; the newest checkpoint becomes the previous one."""
        arrays: dict[str, Any] = {keystr(path): np.asarray(leaf) for path, leaf in jax.tree.leaves_with_path(state)}
        arrays["progress"] = np.frombuffer(json.dumps(progress).encode(), np.uint8)
        with refusals(self.newest, RERUN), atomic(self.newest) as temporary:
            with temporary.open("wb") as handle:
                np.savez(handle, **arrays)
            if self.newest.exists():
                self.newest.replace(self.previous)

    def load(self, like: Any) -> tuple[Progress, Any] | None:
        """The newest readable checkpoint in the form of `like`, or None if there is none.

        If the newest checkpoint is damaged, the log says so and the previous one is used, which costs one segment.
        Raises CheckpointError if all checkpoints are damaged.
        """
        damaged = []
        for path in (self.newest, self.previous):
            if not path.exists():
                continue
            try:
                return self._read(path, like)
            except ZIP_DAMAGE as error:
                damaged.append(f"{path}: {error}")
                log.warning("checkpoint %s is damaged (%s); trying the previous one", path, error)
        if damaged:
            raise CheckpointError(
                f"no checkpoint can be read: {'; '.join(damaged)}. The draws written so far are untouched. "
                f"Delete the folder {self.newest.parent} to sample this block from its start."
            )
        return None

    @staticmethod
    def _read(path: Path, like: Any) -> tuple[Progress, Any]:
        with path.open("rb") as handle, np.load(handle, allow_pickle=False) as stored:
            phase, done, *lists = json.loads(stored["progress"].tobytes())
            progress = Progress(phase, done, *map(tuple, lists))
            paths, structure = jax.tree.flatten_with_path(like)
            arrays = [stored[keystr(key)] for key, _ in paths]
        for (key, leaf), array in zip(paths, arrays, strict=True):
            if array.shape != leaf.shape or array.dtype != leaf.dtype:
                raise ValueError(f"{keystr(key)} has {array.dtype}{array.shape}")
        return progress, jax.tree.unflatten(structure, arrays)


def work_path(destination: Path) -> Path:
    """Path `<trace>.partial` of the folder in which a block is sampled."""
    return destination.with_name(f"{destination.name}.partial")


def work_folder(destination: Path, fingerprint: str) -> Path:
    """The folder `<trace>.partial`, emptied if the fingerprint of its contents differs or cannot be read."""
    folder = work_path(destination)
    label = folder / "fingerprint.json"
    if folder.exists():
        try:
            if json.loads(label.read_text(encoding="utf-8")) == fingerprint:
                return folder
            log.info("%s was begun with other settings or data: starting again", folder)
        except (OSError, ValueError, RecursionError) as error:
            log.warning("%s is missing or damaged (%s): starting again", label, error)
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    with atomic(label) as temporary:
        temporary.write_text(json.dumps(fingerprint), encoding="utf-8")
    return folder


class Scratch:
    """The draws that a phase keeps for its `finish` function, in one file per segment."""

    def __init__(self, work: Path, phase: int) -> None:
        self._folder = work / f"scratch{phase}"

    def write(self, segment: int, draws: np.ndarray, statistics: dict[str, np.ndarray]) -> None:
        """Keep the draws [chain, draw, scalar] of a segment."""
        path = self._folder / f"{segment:06d}.npy"
        with refusals(path, RERUN), atomic(path) as temporary, temporary.open("wb") as handle:
            np.save(handle, draws)

    def read(self, segments: int) -> list[np.ndarray]:
        """The draws of the first `segments` segments, mapped into memory."""
        return [np.load(self._folder / f"{segment:06d}.npy", mmap_mode="r") for segment in range(segments)]

    def remove(self) -> None:
        """Delete the files."""
        shutil.rmtree(self._folder, ignore_errors=True)
