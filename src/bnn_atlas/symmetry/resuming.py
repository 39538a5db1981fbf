"""A checkpoint of a computation in passes: what it has so far, as one file that is replaced whole."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bnn_atlas.files import load_arrays, save_arrays
from bnn_atlas.symmetry.groups import SymmetryError

SECONDS = 30.0
"""Time between two checkpoints, which changes no number."""


class Checkpoint:
    """Arrays on disk under a fingerprint; those of another fingerprint, or damaged ones, are not used."""

    def __init__(self, path: Path, fingerprint: str, seconds: float = SECONDS) -> None:
        self._path, self._fingerprint, self._seconds = path, fingerprint, seconds
        self._saved = time.monotonic()

    def load(self) -> dict[str, np.ndarray] | None:
        """What was saved last; None where there is nothing to go on from."""
        if not self._path.exists():
            return None
        try:
            arrays = load_arrays(self._path, ("fingerprint",), SymmetryError, "a checkpoint", optional=None)
        except SymmetryError:
            return None
        return arrays if str(arrays.pop("fingerprint")) == self._fingerprint else None

    def save(self, arrays: Callable[[], dict[str, np.ndarray]], *, now: bool = False) -> None:
        """Save what `arrays` gives, if it is time."""
        if now or time.monotonic() - self._saved >= self._seconds:
            save_arrays(self._path, {**arrays(), "fingerprint": np.array(self._fingerprint)})
            self._saved = time.monotonic()

    def remove(self) -> None:
        """Remove the file: the result is written."""
        self._path.unlink(missing_ok=True)
