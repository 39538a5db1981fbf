"""Planes through three draws in parameter space, and log-likelihood and log-prior on them, without gradients."""

import logging
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jax import Array

from bnn_atlas import runtime
from bnn_atlas.config.parts.figures import PlaneConfig, PointConfig, SurfaceConfig
from bnn_atlas.inference.problem import Problem
from bnn_atlas.metrics.tables.arrays import SurfaceError, Surfaces
from bnn_atlas.placement import Placement
from bnn_atlas.posterior.density import FullBatch, LogDensity, Posterior, PosteriorData
from bnn_atlas.traces.draws import Draws

log = logging.getLogger(__name__)

EQUAL = 1e-6
"""Distance between two points, relative to their norm, below which they count as equal in single precision."""
COLLINEAR = 1e-4
"""Distance of the third point from the line through the others, relative to its distance from the first point, below
which the points do not determine a plane."""
LOT = 512
"""Number of points of a plane that a CPU computes between two log messages."""
AT_ONCE_ON_GPU = 16
"""Number of points that a GPU computes together."""


class PlaneError(ValueError):
    """Three points that do not determine a plane."""


class Plane(NamedTuple):
    """A plane in parameter space: origin + x axes[0] + y axes[1]."""

    origin: np.ndarray
    """[P] float64: the first point."""
    axes: np.ndarray
    """[2, P] float64, orthonormal: towards the second point, and from the line through the first two to the third."""
    points: np.ndarray
    """[3, 2] float64: coordinates of the three points, (0, 0), (d, 0) and (a, h) with h > 0."""

    def lines(self, resolution: int, margin: float) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates x [n] and y [n] of the grid lines of a rectangle around the three points.

        The rectangle reaches `margin` d beyond the points horizontally, with d the distance between the first two
        points, and `margin` h vertically, with h the distance of the third point from the line through the first two.
        """
        across, height = self.points[1, 0], self.points[2, 1]
        first, last = self.points[:, 0].min(), self.points[:, 0].max()
        return (
            np.linspace(first - margin * across, last + margin * across, resolution),
            np.linspace(-margin * height, (1 + margin) * height, resolution),
        )


class Densities(NamedTuple):
    """Untempered densities in nats, float64."""

    log_likelihood: np.ndarray
    """[n]."""
    log_prior: np.ndarray
    """[n]."""


def plane_through(points: np.ndarray) -> Plane:
    """The plane through three points [3, P], with axes by Gram-Schmidt.

    u = (w2 - w1) / |w2 - w1|,   v = (w3 - w1 - a u) / h   with   a = (w3 - w1) . u,   h = |w3 - w1 - a u|.

    Izmailov et al. 2021, section 5.2 (the plots there have the same axes); the third point is at (a, h).

    Raises:
        PlaneError: a point is not finite, two points are equal, or all three points are on one line.
    """
    w = np.asarray(points, np.float64)
    for number, point in enumerate(w, start=1):
        if not np.isfinite(point).all():
            raise PlaneError(f"point {number} is not finite")
    norms = np.linalg.norm(w, axis=1)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        if np.linalg.norm(w[j] - w[i]) <= EQUAL * max(norms[i], norms[j]):
            raise PlaneError(f"points {i + 1} and {j + 1} are equal, so they do not determine a plane")
    to_second, to_third = w[1] - w[0], w[2] - w[0]
    across = np.linalg.norm(to_second)
    u = to_second / across
    rest = to_third - (to_third @ u) * u
    rest -= (rest @ u) * u  # again, since the first subtraction loses digits if the points are almost on a line
    height = np.linalg.norm(rest)
    if height <= COLLINEAR * np.linalg.norm(to_third):
        raise PlaneError("the three points are on one line, so they do not determine a plane")
    coordinates = np.array([[0.0, 0.0], [across, 0.0], [to_third @ u, height]])
    return Plane(w[0], np.stack([u, rest / height]), coordinates)


def densities_on(posterior: Posterior, data: PosteriorData, plane: Plane, coordinates: np.ndarray) -> Densities:
    """Log-likelihood and log-prior at coordinates [n, 2] of a plane.

    Each core computes one point at a time (a GPU several together) in the micro-batches of `posterior`, so that memory
    does not grow with the number of points. All rows are on every device.
    """
    count = len(coordinates)
    most = LOT if runtime.on_cpu() else AT_ONCE_ON_GPU
    lot = -(-count // -(-count // most))
    dtype = data.prior.loc.dtype
    place = Placement(lot)
    shared = place.share((posterior.arrange(data), plane.origin.astype(dtype), plane.axes.astype(dtype)))

    def one(shared: tuple[FullBatch, Array, Array], coordinates: Array) -> LogDensity:
        batch, origin, axes = shared
        return posterior.log_density(origin + coordinates[0] * axes[0] + coordinates[1] * axes[1], batch)

    mapped, found = place.map(one), []
    for start in range(0, count, lot):
        part = np.asarray(coordinates[start : start + lot], dtype)
        filled = np.concatenate([part, np.repeat(part[:1], lot - len(part), axis=0)])
        values = place.get(mapped(shared, place.put(filled)))
        found.append([np.asarray(value[: len(part)], np.float64) for value in values])
        log.info("%d of %d points", start + len(part), count)
    likelihoods, priors = zip(*found, strict=True)
    return Densities(np.concatenate(likelihoods), np.concatenate(priors))


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
    """Densities on the planes of a figure; `pools` maps the run names that the points use to draws.

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
        raise SurfaceError(f"{where}: there is no chain {point.chain}; it has {draws.chains}, counted from 0")
    chain = found[:1]
    draw = _draw(draws, chain, point.draw, where)
    has_density = set(PARTS) <= set(draws.statistics)
    stored = np.array([draws.statistic(name, chain, [draw])[0, 0] for name in PARTS]) if has_density else None
    label = point.label or _label(point, draws, draw)
    return _Point(label, draws.read(chain, [draw])[0, 0], stored)


def _draw(draws: Draws, chain: np.ndarray, draw: int | str, where: str) -> int:
    if isinstance(draw, int):
        if draw >= draws.draws:
            raise SurfaceError(f"{where}: there is no draw {draw}; each chain has {draws.draws:,}, counted from 0")
        return draw
    if draw == "best":
        log_posterior = sum(draws.statistic(name, chain)[0].astype(np.float64) for name in PARTS)
        return int(np.argmax(np.where(np.isfinite(log_posterior), log_posterior, -np.inf)))
    return {"first": 0, "middle": draws.draws // 2, "last": draws.draws - 1}[draw]


def _label(point: PointConfig, draws: Draws, draw: int) -> str:
    texts = [point.run or "", f"chain {point.chain}", f"draw {draws.draw_ids[draw]}" if draws.draws > 1 else ""]
    return ", ".join(filter(None, texts))


def _check_stored(point: _Point, evaluated: np.ndarray, title: str) -> None:
    """Reject a draw if its stored densities differ from the evaluated densities."""
    if point.stored is None:
        return
    agree = np.isclose(evaluated, point.stored, rtol=AGREEMENT, atol=AGREEMENT, equal_nan=True)
    if not agree.all():
        k = int(np.argmin(agree))
        name, was, now = PARTS[k].replace("_", "-"), point.stored[k], evaluated[k]
        raise SurfaceError(
            f"plane '{title}': {point.label} was stored with a {name} of {was:.6g}, but for this posterior it is "
            f"{now:.6g}: its run has other data or another posterior; leave it out, or sample it again"
        )
