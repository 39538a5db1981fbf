"""What an alignment is asked to do."""

from typing import Literal, NamedTuple

import numpy as np


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
