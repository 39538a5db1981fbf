"""Starts of a block of chains from the draws of another run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from bnn_atlas.files import atomic
from bnn_atlas.traces.pool import Pool, open_pool


def start_from_draws(
    pool: str | Path, destination: str | Path, *, draw: Literal["last", "best"], members: Sequence[int]
) -> None:
    """Write one draw of the pool for each chain in `members`: chain k takes a draw of chain k modulo their number.

    `last` is the chain's last draw, `best` the one with the highest log posterior (the first of equal ones).
    """
    source = open_pool(pool)
    chains = np.asarray(members) % source.chains
    parameters = np.stack([_draw(source, int(chain), draw) for chain in chains])
    with atomic(destination) as temporary, temporary.open("wb") as handle:
        np.savez(handle, members=np.asarray(members), parameters=parameters)


def _draw(pool: Pool, chain: int, draw: Literal["last", "best"]) -> np.ndarray:
    """One draw [parameter] of a chain."""
    number = pool.draws - 1
    if draw == "best":
        log_posterior = pool.statistic("log_likelihood", [chain]) + pool.statistic("log_prior", [chain])
        number = int(np.argmax(log_posterior))
    return pool.read([chain], [number])[0, 0]
