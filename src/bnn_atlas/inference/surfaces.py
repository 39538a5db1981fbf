"""Log-likelihood and log-prior on planes through draws."""

import logging
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from bnn_atlas.config.parts.figures import PlaneConfig, PointConfig, SurfaceConfig
from bnn_atlas.inference.problem import Problem
from bnn_atlas.metrics.tables.arrays import SurfaceError, Surfaces
from bnn_atlas.posterior.planes import PlaneError, densities_on, plane_through
from bnn_atlas.traces.draws import Draws

log = logging.getLogger(__name__)

PARTS = ("log_likelihood", "log_prior")
AGREEMENT = 1e-3
"""Largest difference, relative to 1 + |density|, between a draw's density here and the density stored with it."""


class _Point(NamedTuple):
    """A draw that a plane goes through."""

    label: str
    position: np.ndarray
    """[P]."""
    stored: np.ndarray | None
    """[2] log-likelihood and log-prior in its trace; None if the trace has none."""


def surfaces_through(problem: Problem, pools: Mapping[str | None, Draws], config: SurfaceConfig) -> Surfaces:
    """Densities on the planes of a figure; `pools` has draws by the run names that the points use.

    Raises:
        SurfaceError: a chain or draw does not exist, draws belong to another network, points do not determine a plane,
            or the densities stored with draws differ from this posterior's.
    """
    made = [_evaluated(problem, pools, plane, config) for plane in config.planes]
    arrays = {name: np.stack([one[name] for one in made]) for name in made[0]}
    return Surfaces(**arrays, temperature=np.asarray(problem.posterior.temperature))


def _evaluated(
    problem: Problem, pools: Mapping[str | None, Draws], plane: PlaneConfig, config: SurfaceConfig
) -> dict[str, np.ndarray]:
    """The fields of `Surfaces` for one plane, without the leading axis."""
    points = [_point(pools, point, problem, plane.title) for point in plane.points]
    try:
        through = plane_through(np.stack([point.position for point in points]))
    except PlaneError as error:
        named = "; ".join(f"{number} is {point.label}" for number, point in enumerate(points, start=1))
        raise SurfaceError(
            f"plane '{plane.title}': {error} ({named}). A rejected proposal repeats a draw: choose draws further apart"
        ) from None
    x, y = through.lines(config.resolution, config.margin)
    grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    log.info("plane '%s': %d x %d points", plane.title, len(x), len(y))
    found = densities_on(problem.posterior, problem.data, through, np.concatenate([grid, through.points]))
    values = np.stack(found)
    at_points = values[:, len(grid) :]
    for point, evaluated in zip(points, at_points.T, strict=True):
        _check_stored(point, evaluated, plane.title)
    if lost := int((~np.isfinite(values).all(axis=0)).sum()):
        log.warning("plane '%s': the density is not finite at %d points", plane.title, lost)
    surfaces = values[:, : len(grid)].reshape(2, len(y), len(x))
    return {
        "titles": np.asarray(plane.title),
        "x": x,
        "y": y,
        **dict(zip(PARTS, surfaces, strict=True)),
        "labels": np.asarray([point.label for point in points]),
        "points": through.points,
        **{f"point_{name}": part for name, part in zip(PARTS, at_points, strict=True)},
    }


def _point(pools: Mapping[str | None, Draws], point: PointConfig, problem: Problem, title: str) -> _Point:
    draws = pools[point.run]
    where = f"plane '{title}': {draws.path}"
    if draws.layout != problem.posterior.layout:
        raise SurfaceError(
            f"{where}: its draws belong to another network ({draws.layout.size:,} parameters) than the figure's run "
            f"({problem.posterior.layout.size:,} parameters); leave that run out"
        )
    found = np.flatnonzero(draws.chain_ids == point.chain)
    if not found.size:
        raise SurfaceError(f"{where}: there is no chain {point.chain}; it has {draws.chains}, with numbers from 0")
    chain = found[:1]
    draw = _draw(draws, chain, point.draw, where)
    has_density = set(PARTS) <= set(draws.statistics)
    stored = np.array([draws.statistic(name, chain, [draw])[0, 0] for name in PARTS]) if has_density else None
    label = point.label or _label(point, draws, draw)
    return _Point(label, draws.read(chain, [draw])[0, 0], stored)


def _draw(draws: Draws, chain: np.ndarray, draw: int | str, where: str) -> int:
    if isinstance(draw, int):
        if draw >= draws.draws:
            raise SurfaceError(f"{where}: there is no draw {draw}; each chain has {draws.draws:,}, with numbers from 0")
        return draw
    if draw == "best":
        log_posterior = sum(draws.statistic(name, chain)[0].astype(np.float64) for name in PARTS)
        return int(np.argmax(np.where(np.isfinite(log_posterior), log_posterior, -np.inf)))
    return {"first": 0, "middle": draws.draws // 2, "last": draws.draws - 1}[draw]


def _label(point: PointConfig, draws: Draws, draw: int) -> str:
    texts = [point.run or "", f"chain {point.chain}", f"draw {draws.draw_ids[draw]}" if draws.draws > 1 else ""]
    return ", ".join(filter(None, texts))


def _check_stored(point: _Point, evaluated: np.ndarray, title: str) -> None:
    """Refuse a draw if its stored densities differ from the evaluated ones."""
    if point.stored is None:
        return
    agree = np.isclose(evaluated, point.stored, rtol=AGREEMENT, atol=AGREEMENT, equal_nan=True)
    if not agree.all():
        k = int(np.argmin(agree))
        name, was, now = PARTS[k].replace("_", "-"), point.stored[k], evaluated[k]
        raise SurfaceError(
            f"plane '{title}': {point.label} was stored with a {name} of {was:.6g}, but this posterior gives "
            f"{now:.6g}: its run has other data or another posterior; leave it out, or sample it again"
        )
