"""Planes through three points of parameter space, and log-likelihood and log-prior on them, without gradients."""

import logging
from typing import NamedTuple

import numpy as np
from jax import Array

from bnn_atlas import runtime
from bnn_atlas.placement import Placement
from bnn_atlas.posterior.density import FullBatch, LogDensity, Posterior, PosteriorData

log = logging.getLogger(__name__)

EQUAL = 1e-6
"""Distance between two points, relative to their norm, below which they count as equal in single precision."""
COLLINEAR = 1e-4
"""Distance of the third point from the line through the others, relative to its distance from the first, below which
the points determine no plane."""
LOT = 512
"""Number of points of a plane that a CPU computes between two messages."""
AT_ONCE_ON_GPU = 16
"""Number of points that a GPU computes together."""


class PlaneError(ValueError):
    """Three points that do not determine a plane."""


class Plane(NamedTuple):
    """A plane in parameter space: origin + x axes[0] + y axes[1]."""

    origin: np.ndarray
    """[P] float64: the first point."""
    axes: np.ndarray
    """[2, P] float64, orthonormal: towards the second point, and from the line through both towards the third."""
    points: np.ndarray
    """[3, 2] float64: coordinates of the three points, (0, 0), (d, 0) and (a, h) with h > 0."""

    def lines(self, resolution: int, margin: float) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates x [n] and y [n] of the grid lines of a rectangle around the three points.

        The rectangle reaches `margin` d beyond the points horizontally, with d the distance between the first two, and
        `margin` h vertically, with h the distance of the third from the line through these.
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

    Izmailov et al. 2021, section 5.2, whose plots have the same axes; the third point is at (a, h).

    Raises:
        PlaneError: a point is not finite, two are equal, or all three are on one line.
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
    rest -= (rest @ u) * u  # once more, since the first subtraction cancels where the points are almost on a line
    height = np.linalg.norm(rest)
    if height <= COLLINEAR * np.linalg.norm(to_third):
        raise PlaneError("the three points are on one line, so they do not determine a plane")
    coordinates = np.array([[0.0, 0.0], [across, 0.0], [to_third @ u, height]])
    return Plane(w[0], np.stack([u, rest / height]), coordinates)


def densities_on(posterior: Posterior, data: PosteriorData, plane: Plane, coordinates: np.ndarray) -> Densities:
    """Log-likelihood and log-prior at coordinates [n, 2] of a plane.

    The points are computed one after another on each core (several together on a GPU), each in the micro-batches of
    `posterior`, so that memory does not grow with the number of points. All rows are on every device.
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
