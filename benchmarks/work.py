"""The work of the gradient benchmarks, the same for everyone: a network, random rows, and where the chains start."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from machine import gradient_flop

FEATURES, OUTPUTS = 5, 2
STEP_SIZE = 1e-4
"""Small enough for every proposal to be accepted, whatever the network."""
DECOHERENCE = 1.0
"""L of MCLMC."""
CALL_FLOP = 2e11
"""FLOP of the gradients in one call of a compiled loop, about: a second on two cores."""
LONG_FLOP, HEAVY_FLOP = 2e10, 1e11
"""FLOP of a gradient of all chains that takes about a tenth of a second and half a second on two cores."""
STORED_STEPS = 1000
"""Largest number of steps of one call, and so of the states that it returns."""


class Work(NamedTuple):
    """A regression network with heteroscedastic noise, its rows, and how many chains sample its posterior."""

    hidden: tuple[int, ...]
    rows: int
    chains: int
    call_flop: float = CALL_FLOP

    @property
    def widths(self) -> list[int]:
        """Widths of all layers, input and output included."""
        return [FEATURES, *self.hidden, OUTPUTS]

    @property
    def flop(self) -> int:
        """FLOP of one gradient of one chain."""
        return gradient_flop(self.widths, self.rows)

    @property
    def label(self) -> str:
        width = f"{self.hidden[0]}x{len(self.hidden)}"
        return f"{width}, {self.rows:,} rows, {self.chains} chain{'s' * (self.chains > 1)}"

    def steps(self, gradients: int) -> int:
        """Steps of one call, each of `gradients` gradients: a multiple of ten, or one if a gradient takes long."""
        count = min(int(self.call_flop / (self.flop * self.chains * gradients)), STORED_STEPS)
        return 1 if self.is_heavy else max(10, count // 10 * 10)

    @property
    def is_heavy(self) -> bool:
        """A gradient of all chains takes about half a second or more on two cores."""
        return self.flop * self.chains > HEAVY_FLOP

    @property
    def leapfrog_steps(self) -> int:
        """Leapfrog steps of a trajectory of HMC: ten, or two if a gradient takes long."""
        return 10 if self.flop * self.chains < LONG_FLOP else 2

    def data(self, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Rows [n, features] and targets [n]."""
        generator = np.random.default_rng(seed)
        x = generator.normal(size=(self.rows, FEATURES))
        return x.astype(np.float32), generator.normal(size=self.rows).astype(np.float32)

    def starts(self) -> Iterator[list[tuple[np.ndarray, np.ndarray]]]:
        """For each chain the weights [fan_in, fan_out] and biases [fan_out] of all layers."""
        generator = np.random.default_rng(1)
        for _ in range(self.chains):
            yield [
                (
                    (generator.normal(size=(a, b)) / np.sqrt(a)).astype(np.float32),
                    (0.1 * generator.normal(size=b)).astype(np.float32),
                )
                for a, b in pairwise(self.widths)
            ]


class Loop(NamedTuple):
    """What a contestant has compiled."""

    gradients: int
    """Chain-gradients of one call."""
    slope: float
    """Length of the gradient where the first chain starts, which shows that all sample the same posterior."""
    run: Callable[[int], float]
    """run(calls) -> seconds of this many calls."""


def length(arrays: list[Any]) -> float:
    """Euclidean length of the vector that some arrays (or pairs of them) form."""
    flat = [part for entry in arrays for part in (entry if isinstance(entry, tuple) else (entry,))]
    return float(np.sqrt(sum(np.square(np.asarray(part, np.float64)).sum() for part in flat)))
