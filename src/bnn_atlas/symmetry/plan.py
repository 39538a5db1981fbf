"""What an alignment is asked to do, and the checkpoint at which a stopped one goes on."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from bnn_atlas.files import load_arrays, load_chosen, save_arrays
from bnn_atlas.symmetry.groups import SymmetryError


class Plan(NamedTuple):
    """What an alignment does (`config.alignments` says what each means)."""

    reference: Literal["first", "last", "mean", "barycentre"] | np.ndarray
    """An array is the target [P] of another frame."""
    unit: Literal["draw", "chain"] = "draw"
    passes: int = 200
    frame: np.ndarray | None = None
    """Target [P] of a frame that the aligned draws enter with one more permutation for all of them."""
    signed: bool = False
    balance: bool = False
    rank: int = 20
    seed: int = 0

    @property
    def to_barycentre(self) -> bool:
        """Whether the reference follows from the aligned draws themselves."""
        return isinstance(self.reference, str) and self.reference == "barycentre"


class Fit(NamedTuple):
    """Mean and standard deviations [c, P] that each chain of an approximation has fitted."""

    mean: np.ndarray
    sd: np.ndarray | None


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


def load_fit(paths: Sequence[str | Path], centre: str, chains: np.ndarray) -> Fit:
    """Means of the fits of these chains, and their standard deviations if they have some."""
    means = [load_chosen(path, (centre,), SymmetryError, f"a fit with the array '{centre}'")[centre] for path in paths]
    if centre != "mean":
        return Fit(np.concatenate(means)[chains], None)
    spreads = [load_chosen(path, ("sd",), SymmetryError, "a fit with the array 'sd'")["sd"] for path in paths]
    return Fit(np.concatenate(means)[chains], np.concatenate(spreads)[chains])
