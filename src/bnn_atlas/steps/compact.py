"""Draws from a Gaussian with the moments of another run's draws, aligned or as they are."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from bnn_atlas.data.errors import DataError
from bnn_atlas.files import save_arrays
from bnn_atlas.symmetry.frame import load_frame
from bnn_atlas.symmetry.moments import Factor, Moments
from bnn_atlas.traces.draws import Draws
from bnn_atlas.traces.pool import open_pool

log = logging.getLogger(__name__)

BATCH_BYTES = 32 << 20
"""Bytes of draws that are in memory at a time; each step takes a few times as many."""


class Gaussian(NamedTuple):
    """Moments of draws."""

    mean: np.ndarray
    """[P]."""
    sd: np.ndarray
    """[P], unbiased."""
    factor: np.ndarray | None
    """[r, P] with B'B the covariance, or its r largest directions; None where it was not asked for."""
    draws: int
    """Draws that are finite."""


def compact_starts(
    pool: str | Path,
    frame: str | Path | None,
    destination: str | Path,
    *,
    form: Literal["diagonal", "low_rank", "mean"],
    rank: int,
    members: Sequence[int],
    seed: int,
) -> None:
    """Write a draw [member, P] from the Gaussian of a pool's draws for each member (.npz, as starts of chains).

        diagonal: mean + sd z,   low_rank: mean + B'z,   mean: mean,   z ~ N(0, I)

    A draw depends on the seed and its number alone. With a `frame` (the file of an alignment) the moments are those of
    the aligned draws, and B has at most the rank of the frame. Draws that are not finite are left out and counted.

    Raises:
        DataError: fewer than two finite draws, or a frame of another network.
    """
    draws = open_pool(pool)
    gaussian = _of_frame(frame, draws, rank) if frame else moments(draws, rank if form == "low_rank" else None)
    if gaussian.draws < 2 and form != "mean":
        raise DataError(f"{pool}: {gaussian.draws} finite draws have no spread; a compact representation needs two")
    theta = np.stack([_draw(gaussian, form, np.random.default_rng([seed, member])) for member in members])
    save_arrays(destination, {"members": np.asarray(members), "parameters": theta.astype(draws.dtype)})


def moments(draws: Draws, rank: int | None = None) -> Gaussian:
    """Mean, sd and, with `rank`, a factor of the covariance of all finite draws as they are.

    Raises DataError where no draw is finite.
    """
    found, factor = Moments(draws.size), Factor(draws.size, rank) if rank else None
    for _, _, batch in draws.batches(BATCH_BYTES):
        rows = batch.reshape(-1, draws.size)
        kept = rows[np.isfinite(rows).all(axis=1)]
        found.add(kept)
        if factor is not None:
            factor.add(kept)
    if found.count == 0:
        raise DataError(f"{draws.path}: none of its draws is finite")
    if lost := draws.chains * draws.draws - found.count:
        log.warning("%s: %d draws are not finite and are left out", draws.path, lost)
    spread = factor.covariance_factor() if factor is not None else None
    return Gaussian(found.mean, np.sqrt(found.variance), spread, found.count)


def _of_frame(path: str | Path, draws: Draws, rank: int) -> Gaussian:
    """The moments of aligned draws."""
    frame = load_frame(path)
    if len(frame.mean) != draws.size:
        raise DataError(
            f"{path}: an alignment of draws of {len(frame.mean):,} parameters, but those of {draws.path} have "
            f"{draws.size:,}; align it again"
        )
    return Gaussian(frame.mean, frame.moment("aligned", "sd"), frame.factor[:rank], int(frame.finite.sum()))


def _draw(gaussian: Gaussian, form: str, generator: np.random.Generator) -> np.ndarray:
    if form == "mean":
        return gaussian.mean
    if form == "diagonal":
        return gaussian.mean + gaussian.sd * generator.standard_normal(len(gaussian.mean))
    assert gaussian.factor is not None
    return gaussian.mean + generator.standard_normal(len(gaussian.factor)) @ gaussian.factor
