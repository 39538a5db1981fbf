"""What an alignment has to do, and the checkpoint from which a stopped one continues."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from bnn_atlas.files import load_arrays, load_chosen, save_arrays
from bnn_atlas.symmetry.groups import SymmetryError


class Plan(NamedTuple):
    """Settings of an alignment (explained in `config.parts.alignments`)."""

    reference: Literal["first", "last", "mean", "barycentre"] | np.ndarray
    """An array is the target [P] of another frame."""
    unit: Literal["draw", "chain"] = "draw"
    passes: int = 200
    frame: np.ndarray | None = None
    """Target [P] of a frame that the aligned draws enter, with one more permutation for all draws."""
    signed: bool = False
    balance: bool = False
    rank: int = 20
    seed: int = 0

    @property
    def to_barycentre(self) -> bool:
        """Whether the reference is the mean of the aligned draws themselves."""
        return isinstance(self.reference, str) and self.reference == "barycentre"


class Fit(NamedTuple):
    """Means and standard deviations [c, P] that the chains of an approximation have fitted."""

    mean: np.ndarray
    sd: np.ndarray | None


SECONDS = 30.0
"""Time between two checkpoints; it changes no number."""


class Checkpoint:
    """Arrays on disk with a fingerprint; a file that is damaged or has another fingerprint is not used."""

    def __init__(self, path: Path, fingerprint: str, seconds: float = SECONDS) -> None:
        self._path, self._fingerprint, self._seconds = path, fingerprint, seconds
        self._saved = time.monotonic()

    def load(self) -> dict[str, np.ndarray] | None:
        """The arrays that were saved last; None if there are none to continue from."""
        if not self._path.exists():
            return None
        try:
            arrays = load_arrays(self._path, ("fingerprint",), SymmetryError, "a checkpoint", optional=None)
        except SymmetryError:
            return None
        return arrays if str(arrays.pop("fingerprint")) == self._fingerprint else None

    def save(self, arrays: Callable[[], dict[str, np.ndarray]], *, now: bool = False) -> None:
        """Save the result of `arrays`, if it is time."""
        if now or time.monotonic() - self._saved >= self._seconds:
            save_arrays(self._path, {**arrays(), "fingerprint": np.array(self._fingerprint)})
            self._saved = time.monotonic()

    def remove(self) -> None:
        """Remove the file, once the result is written."""
        self._path.unlink(missing_ok=True)


def load_fit(paths: Sequence[str | Path], centre: str, chains: np.ndarray) -> Fit:
    """Means of these chains' fits, and their standard deviations if the array `centre` is a `mean`."""
    means = [load_chosen(path, (centre,), SymmetryError, f"a fit with the array '{centre}'")[centre] for path in paths]
    if centre != "mean":
        return Fit(np.concatenate(means)[chains], None)
    spreads = [load_chosen(path, ("sd",), SymmetryError, "a fit with the array 'sd'")["sd"] for path in paths]
    return Fit(np.concatenate(means)[chains], np.concatenate(spreads)[chains])
