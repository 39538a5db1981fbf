"""The file of surfaces: log-likelihood and log-prior on planes through three points of parameter space."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from bnn_atlas.files import load_arrays, save_arrays


class SurfaceError(ValueError):
    """Surfaces that cannot be made or read."""


class Surfaces(NamedTuple):
    """Densities in nats, not tempered, on p planes with n x n points; coordinates are distances in parameter space."""

    titles: np.ndarray
    """[p] text."""
    x: np.ndarray
    """[p, n] coordinates along the line through the first two points, from the first."""
    y: np.ndarray
    """[p, n] distances from that line."""
    log_likelihood: np.ndarray
    """[p, n, n] float64; the first n are those of y."""
    log_prior: np.ndarray
    """[p, n, n] float64."""
    labels: np.ndarray
    """[p, 3] text: what the three points are."""
    points: np.ndarray
    """[p, 3, 2] their coordinates."""
    point_log_likelihood: np.ndarray
    """[p, 3] float64."""
    point_log_prior: np.ndarray
    """[p, 3] float64."""
    temperature: np.ndarray
    """[] T: the posterior's log density is (log-likelihood + log-prior) / T up to a constant."""


def save_surfaces(path: str | Path, surfaces: Surfaces) -> None:
    """Write surfaces as .npz."""
    save_arrays(path, surfaces._asdict())


def load_surfaces(path: str | Path) -> Surfaces:
    """Read what `save_surfaces` wrote; SurfaceError names the file and the arrays that are missing or unknown."""
    return Surfaces(**load_arrays(path, Surfaces._fields, SurfaceError, "surfaces"))
