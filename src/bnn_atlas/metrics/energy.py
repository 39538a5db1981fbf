"""How well the sampler kept its energy, from the per-draw statistics of the traces."""

from typing import NamedTuple

import numpy as np

from bnn_atlas.metrics.pools import DrawPool

ENERGY_CHANGE = "energy_change"
"""Statistic: energy change of the last step before a draw was kept."""
ENERGY_CHANGE_SQUARED = "energy_change_squared"
"""Statistic: its square, averaged over all steps since the draw before."""
ACCEPTANCE = "acceptance"
"""Statistic: acceptance probability, averaged over the steps since the draw before."""
DIVERGENT = "divergent"
"""Statistic: number of divergent steps since the draw before."""


class Finite(NamedTuple):
    """Per-draw values of the chains [C, S] and how many of them are not finite."""

    chains: list[np.ndarray]
    """The finite values of each chain."""
    left_out: int
    total: int

    @property
    def note(self) -> str:
        """Says what was left out."""
        return f"{self.left_out} of {self.total} values are not finite and left out" if self.left_out else ""


def finite(values: np.ndarray) -> Finite:
    """Split off values that are not finite, such as the energy change of a rejected trajectory that diverged."""
    good = np.isfinite(values)
    return Finite([row[mask] for row, mask in zip(values, good, strict=True)], int((~good).sum()), values.size)


def mean(values: Finite) -> float:
    """Mean over all chains and draws; NaN if there are none."""
    pooled = np.concatenate([*values.chains, np.empty(0)])
    return float(pooled.mean()) if pooled.size else float("nan")


def largest(values: Finite) -> float:
    """Largest absolute value; NaN if there are none."""
    pooled = np.concatenate([*values.chains, np.empty(0)])
    return float(np.abs(pooled).max()) if pooled.size else float("nan")


def variance_per_dimension(values: Finite, dimensions: int) -> float:
    """Mean over chains of Var(energy change) / d; each chain has its own step size, hence its own variance.

    NaN where no chain has two values.
    """
    variances = [row.var(ddof=1) for row in values.chains if len(row) > 1]
    return float(np.mean(variances) / dimensions) if variances else float("nan")


def mean_square_per_dimension(squares: Finite, dimensions: int) -> float:
    """E (energy change)^2 / d over all steps: what the tuning of MCLMC steers towards its desired energy variance."""
    return mean(squares) / dimensions


def statistic(pool: DrawPool, name: str, chains: np.ndarray | None = None) -> np.ndarray | None:
    """Statistic `name` of the chains (all by default) as float64 [c, S]; None if the sampler does not report it."""
    if name not in pool.statistics:
        return None
    values = np.asarray(pool.statistic(name), dtype=np.float64)
    return values if chains is None else values[chains]
