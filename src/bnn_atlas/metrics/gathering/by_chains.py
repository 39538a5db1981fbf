"""What a method reported with every draw, read a few whole chains at a time; and chains that never moved."""

from collections.abc import Iterator

import numpy as np

from bnn_atlas.traces.draws import Draws

LOG_DENSITIES = ("log_likelihood", "log_prior")
"""Untempered; their sum is the log posterior up to a constant."""
WORKING_COPIES = 6
"""Float64 copies of a statistic alive at once while it is summarised."""


def by_chains(pool: Draws, names: tuple[str, ...], max_bytes: int) -> Iterator[tuple[slice, np.ndarray]]:
    """The sum of statistics as float64 [c, S], a group of whole chains at a time."""
    size = max(1, max_bytes // (WORKING_COPIES * 8 * pool.draws))
    for start in range(0, pool.chains, size):
        chains = slice(start, min(start + size, pool.chains))
        total = np.zeros((chains.stop - chains.start, pool.draws))
        for name in names:
            total += pool.statistic(name, chains)
        yield chains, total


def stuck_chains(pool: Draws, max_bytes: int) -> np.ndarray:
    """Chains [C] that never moved, told by a log-likelihood that never changed."""
    stuck = np.zeros(pool.chains, dtype=bool)
    if pool.draws < 2 or LOG_DENSITIES[0] not in pool.statistics:
        return stuck
    for chains, values in by_chains(pool, LOG_DENSITIES[:1], max_bytes):
        stuck[chains] = np.ptp(values, axis=1) == 0
    return stuck
