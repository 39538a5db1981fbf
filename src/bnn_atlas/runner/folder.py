"""The folder that a block is sampled in."""

import json
import logging
import shutil
from pathlib import Path

import numpy as np

from bnn_atlas.files import atomic, refusals
from bnn_atlas.runner.checkpoint import RERUN

log = logging.getLogger(__name__)


def work_path(destination: Path) -> Path:
    """`<trace>.partial`, where a block is sampled."""
    return destination.with_name(f"{destination.name}.partial")


def work_folder(destination: Path, fingerprint: str) -> Path:
    """`<trace>.partial`; emptied if what is in it was made from something else."""
    folder = work_path(destination)
    label = folder / "fingerprint.json"
    if folder.exists():
        if label.exists() and json.loads(label.read_text(encoding="utf-8")) == fingerprint:
            return folder
        log.info("%s was begun with other settings or data: starting afresh", folder)
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    with atomic(label) as temporary:
        temporary.write_text(json.dumps(fingerprint), encoding="utf-8")
    return folder


class Scratch:
    """Draws that a phase keeps for its ending, a file per segment."""

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
