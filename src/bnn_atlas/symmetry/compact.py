"""Draws from a Gaussian with the moments of another run's draws, aligned or as sampled."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import TypeAdapter

from bnn_atlas.config.parts.posterior import ModelConfig
from bnn_atlas.data import DataError
from bnn_atlas.symmetry.frame import Frame, load_frame
from bnn_atlas.symmetry.layers import free_symmetry
from bnn_atlas.symmetry.moments import Factor, Moments
from bnn_atlas.symmetry.permutation import balanced, transform
from bnn_atlas.traces.draws import Draws, Selection

log = logging.getLogger(__name__)

BATCH_BYTES = 32 << 20
"""Bytes of draws that are read at a time; the computation uses a few times as much memory."""


class Gaussian(NamedTuple):
    """Moments that determine a Gaussian, computed from draws."""

    mean: np.ndarray
    """[P]."""
    sd: np.ndarray
    """[P], unbiased."""
    factor: np.ndarray | None
    """B [r, P] with B'B the covariance, or its r largest directions; None if it was not requested."""
    draws: int
    """Number of finite draws."""


class Form(NamedTuple):
    """The kind of Gaussian that represents the draws."""

    kind: Literal["diagonal", "low_rank", "mean"]
    rank: int | None
    """Rank of the covariance; None for the full covariance."""
    scales: bool = False
    """Whether the alignment removes the scales of units."""


def gaussian_draws(
    whole: Draws,
    frame: str | Path | None,
    form: Form,
    *,
    members: Sequence[int],
    seed: int,
    model: Mapping[str, Any],
    chains: int | None = None,
) -> np.ndarray:
    """For each member, a draw [member, P] from the Gaussian with the moments of a run's draws.

        diagonal: mean + sd z,   low_rank: mean + B'z,   mean: mean,   z ~ N(0, I)

    B has the `rank` largest directions of the covariance. If `rank` is None, B has all directions: its rows are then
    (w_k - mean) / sqrt(K - 1), for K draws w_k, and B is never in memory. A draw depends only on the seed and the index
    of the draw. With a `frame` (the file of an alignment) the moments are those of the aligned draws, and `rank` is at
    most the rank stored in the frame. Draws that are not finite are left out and counted.

    Args:
        whole: the draws of the source run.
        frame: file of an alignment of these draws, or None for the draws as sampled.
        form: the kind of Gaussian.
        members: indices of the draws to make.
        seed: seed of the draws.
        model: settings of the network, as plain values.
        chains: without a frame, the number of chains to use; None for all.

    Raises:
        DataError: fewer than two finite draws, or a frame from a different network.
    """
    first = np.arange(min(chains or whole.chains, whole.chains))
    draws = Selection(whole, first, np.arange(whole.draws), np.arange(whole.size))
    found = _frame(frame, draws) if frame else None
    if found is not None:
        factor = found.factor[: form.rank] if form.rank is not None else None
        gaussian = Gaussian(found.mean, found.moment("aligned", "sd"), factor, int(found.finite.sum()))
    else:
        gaussian = moments(draws, form.rank if form.kind == "low_rank" else None)
    if gaussian.draws < 2 and form.kind != "mean":
        raise DataError(
            f"{whole.path}: {gaussian.draws} finite draws have no spread; a compact representation needs at least two"
        )
    generators = [np.random.default_rng([seed, member]) for member in members]
    theta = np.empty((len(members), whole.size), whole.dtype)
    if form.kind == "low_rank" and form.rank is None:
        rows = _rows(whole, found, model, form.scales) if found is not None else _finite(draws)
        _add_deviations(theta, gaussian, rows, generators)
    else:
        for row, generator in zip(theta, generators, strict=True):
            row[:] = _draw(gaussian, form.kind, generator)
    return theta


def moments(draws: Draws, rank: int | None = None) -> Gaussian:
    """Mean, sd and, with `rank`, a factor of the covariance of all finite draws.

    Raises DataError if no draw is finite.
    """
    found, factor = Moments(draws.size), Factor(draws.size, rank) if rank else None
    for kept in _finite(draws):
        found.add(kept)
        if factor is not None:
            factor.add(kept)
    if found.count == 0:
        raise DataError(f"{draws.path}: none of its draws is finite")
    if lost := draws.chains * draws.draws - found.count:
        log.warning("%s: %d draws are not finite and are left out", draws.path, lost)
    spread = factor.covariance_factor() if factor is not None else None
    return Gaussian(found.mean, np.sqrt(found.variance), spread, found.count)


def _finite(draws: Draws) -> Iterator[np.ndarray]:
    """Finite draws [m, P], in batches."""
    for _, _, batch in draws.batches(BATCH_BYTES):
        rows = batch.reshape(-1, draws.size)
        yield rows[np.isfinite(rows).all(axis=1)]


def _rows(draws: Draws, frame: Frame, model: Mapping[str, Any], scales: bool) -> Iterator[np.ndarray]:
    """Finite draws [m, P] in a frame, in batches."""
    symmetry = free_symmetry(TypeAdapter(ModelConfig).validate_python(model), draws.layout)
    chains, numbers = np.isin(draws.chain_ids, frame.chain_ids), np.isin(draws.draw_ids, frame.draw_ids)
    aligned = Selection(draws, np.flatnonzero(chains), np.flatnonzero(numbers), np.arange(draws.size))
    if aligned.shape[:2] != frame.finite.shape:
        raise DataError(f"the alignment does not belong to the draws of {draws.path}: align them again")
    for at_chains, at_draws, batch in aligned.batches(BATCH_BYTES):
        place = at_chains, at_draws
        usable = frame.finite[place]
        rows = batch[usable]
        if scales and len(rows):
            rows = balanced(symmetry, rows)[0].astype(rows.dtype)
        yield transform(symmetry, rows, frame.units[place][usable], frame.signs[place][usable])


def _add_deviations(
    theta: np.ndarray, gaussian: Gaussian, rows: Iterator[np.ndarray], generators: Sequence[np.random.Generator]
) -> None:
    """Fill theta [member, P] with mean + sum_k z_k (w_k - mean) / sqrt(K - 1), for draws w_k in batches."""
    theta[:] = gaussian.mean
    for batch in rows:
        deviations = (batch - gaussian.mean).astype(theta.dtype) / theta.dtype.type(np.sqrt(gaussian.draws - 1))
        for row, generator in zip(theta, generators, strict=True):
            row += generator.standard_normal(len(batch)).astype(theta.dtype) @ deviations


def _frame(path: str | Path, draws: Draws) -> Frame:
    frame = load_frame(path)
    if len(frame.mean) != draws.size:
        raise DataError(
            f"{path}: an alignment of draws with {len(frame.mean):,} parameters, but the draws of {draws.path} have "
            f"{draws.size:,}; align them again"
        )
    return frame


def _draw(gaussian: Gaussian, form: str, generator: np.random.Generator) -> np.ndarray:
    if form == "mean":
        return gaussian.mean
    if form == "diagonal":
        return gaussian.mean + gaussian.sd * generator.standard_normal(len(gaussian.mean))
    assert gaussian.factor is not None
    return gaussian.mean + generator.standard_normal(len(gaussian.factor)) @ gaussian.factor
