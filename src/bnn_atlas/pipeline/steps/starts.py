"""Starts of a block of chains from another run: positions of its chains, or draws with the moments of its draws."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bnn_atlas.data.errors import DataError
from bnn_atlas.files import atomic, load_arrays, save_arrays
from bnn_atlas.symmetry.compact import Form, gaussian_draws
from bnn_atlas.traces.pool import Pool, open_pool


def take_starts(
    pool: str | Path | Sequence[str],
    arrays: Sequence[str | Path],
    destination: str | Path,
    *,
    draw: str,
    array: str | None,
    members: Sequence[int],
) -> None:
    """Write one position of another run for each chain in `members`; chain k starts at chain k modulo their number.

    Args:
        pool: draws of the other run, for `last` and `best`.
        arrays: one .npz per block of the other run, in order, for other positions.
        destination: .npz with `members` and `parameters` [chain, P].
        draw: `last` for a chain's last draw, `best` for the (first) draw with the highest log posterior; other
            positions are in `arrays`.
        array: name of the array [chain, P] in these files.
        members: numbers of the chains of this block.

    Raises:
        DataError: a file does not have that array, or a position is not finite.
    """
    if array is None:
        assert isinstance(pool, str | Path)
        source = open_pool(pool)
        parameters = np.stack([_draw(source, member % source.chains, draw) for member in members])
    else:
        what = f"a file of starts or of a fit with the array '{array}'"
        stored = [load_arrays(path, (array,), DataError, what, optional=None)[array] for path in arrays]
        positions = np.concatenate(stored)
        chains = np.asarray(members) % len(positions)
        parameters = positions[chains]
        if not (finite := np.isfinite(parameters).all(axis=1)).all():
            raise DataError(
                f"{arrays[0]}: '{array}' of chain {chains[~finite][0]} is not finite, so no chain can start there; "
                "start from another run or position"
            )
    with atomic(destination) as temporary, temporary.open("wb") as handle:
        np.savez(handle, members=np.asarray(members), parameters=parameters)


def _draw(pool: Pool, chain: int, draw: str) -> np.ndarray:
    """One draw [parameter] of a chain."""
    number = pool.draws - 1
    if draw == "best":
        log_posterior = pool.statistic("log_likelihood", [chain]) + pool.statistic("log_prior", [chain])
        number = int(np.argmax(log_posterior))
    return pool.read([chain], [number])[0, 0]


def compact_starts(
    pool: str | Path,
    frame: str | Path | None,
    destination: str | Path,
    *,
    form: Literal["diagonal", "low_rank", "mean"],
    rank: int | None,
    members: Sequence[int],
    seed: int,
    model: Mapping[str, Any],
    chains: int | None = None,
    balance: bool = False,
) -> None:
    """Write one draw per member from the Gaussian of a pool's draws (.npz); see `symmetry.compact`."""
    how = Form(form, rank, balance)
    draws = gaussian_draws(open_pool(pool), frame, how, members=members, seed=seed, model=model, chains=chains)
    save_arrays(destination, {"members": np.asarray(members), "parameters": draws})
