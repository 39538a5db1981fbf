"""What the metrics ask of a pool of draws and of the data."""

from collections.abc import Callable, Collection, Iterator
from typing import Protocol

import numpy as np

from bnn_atlas.models.layout import Layout
from bnn_atlas.posterior.predictive import Predictive

Predict = Callable[[np.ndarray, np.ndarray], Predictive]
"""(theta [b, P], x [n, d]) -> Predictive of b draws at n rows."""


class DrawPool(Protocol):
    """Read access to chains x draws x parameters (a `traces.Pool`)."""

    @property
    def chains(self) -> int:
        """Number of chains."""

    @property
    def draws(self) -> int:
        """Draws per chain."""

    @property
    def draws_per_chunk(self) -> int:
        """Draws of a chain that are read together; batches are multiples of it where it fits them."""

    @property
    def layout(self) -> Layout:
        """Names and places of the parameters."""

    @property
    def dtype(self) -> np.dtype:
        """Number type of the stored draws."""

    @property
    def statistics(self) -> Collection[str]:
        """Names of the per-draw statistics."""

    def batches(self, *, max_bytes: int) -> Iterator[tuple[slice, slice, np.ndarray]]:
        """(chains, draws, array [c, s, P]): every draw once, the draws of each chain in order."""

    def read(self, chains: slice, draws: slice, parameters: slice) -> np.ndarray:
        """Array [c, s, p]."""

    def statistic(self, name: str, chains: slice) -> np.ndarray:
        """Array [c, S] of the chains."""


class HeldOut(Protocol):
    """The held-out rows of a split, in the scaled units in which the model was fitted."""

    @property
    def x_test(self) -> np.ndarray:
        """Features [n, d]."""

    @property
    def y_test(self) -> np.ndarray:
        """Targets [n] (float) or labels [n] (int)."""

    @property
    def y_scale(self) -> float:
        """Standard deviation that scaled the target."""
