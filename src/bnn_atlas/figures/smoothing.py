"""Kernel density estimates on a grid, quick for any number of draws: counts in fine cells, smoothed by a Gaussian."""

from typing import NamedTuple

import contourpy
import numpy as np
import pandas as pd
from scipy.ndimage import gaussian_filter

TRUNCATE = 4.0
"""Bandwidths at which a kernel ends."""


class Surface(NamedTuple):
    """Density [x, y] at cell centres x and y; it integrates to the share of the draws inside the limits."""

    x: np.ndarray
    y: np.ndarray
    density: np.ndarray

    @property
    def cell(self) -> float:
        """Area of a cell."""
        return float((self.x[1] - self.x[0]) * (self.y[1] - self.y[0]))


def bandwidths(points: np.ndarray) -> np.ndarray:
    """Scott's rule for points [n, d]: spread x n^(-1 / (d + 4)) along each axis.

    The spread is the smaller of standard deviation and interquartile range / 1.349, as Silverman has it, so that
    stragglers do not widen it. Scott, Multivariate Density Estimation, 1992, section 6.
    """
    n, d = points.shape
    deviation = points.std(axis=0)
    low, high = np.quantile(points, (0.25, 0.75), axis=0)
    quartile = (high - low) / 1.349
    spread = np.where(quartile > 0, np.minimum(deviation, quartile), deviation)
    return spread * float(n) ** (-1 / (d + 4))


def smooth(values: np.ndarray, limits: tuple[float, float], bins: int = 512, adjust: float = 1.0) -> np.ndarray:
    """Density [bins] of values [n] at the centres of equal cells between the limits, bandwidth `adjust` x Scott's."""
    density, _ = _smooth(values[:, None], np.array([limits]), bins, adjust)
    return density


def smooth_pair(points: np.ndarray, limits: np.ndarray, bins: int = 256, adjust: float = 1.0) -> Surface:
    """Density of points [n, 2] inside limits [axis, 2], bandwidths `adjust` x Scott's."""
    density, centres = _smooth(points, limits, bins, adjust)
    return Surface(centres[0], centres[1], density)


def mass_levels(surface: Surface, shares: tuple[float, ...]) -> dict[float, float]:
    """Share of all draws -> the density above which the smallest region that holds it lies.

    Outermost first, so levels rise; a share that the draws inside the limits do not reach is left out, and so is one
    whose region is, to a cell, that of a larger share.
    """
    falling = np.sort(surface.density, axis=None)[::-1]
    held = np.cumsum(falling) * surface.cell
    levels: dict[float, float] = {}
    for share in sorted(shares, reverse=True):
        level = float(falling[np.searchsorted(held, share)]) if share <= held[-1] else 0.0
        if level > max(levels.values(), default=0.0):
            levels[share] = level
    return levels


def contour_table(surface: Surface, levels: dict[float, float]) -> pd.DataFrame:
    """Vertices of contour lines: share (of the draws inside), line (counted from 0), x, y, in four digits."""
    generator = contourpy.contour_generator(surface.x, surface.y, surface.density.T)
    parts = []
    for share, level in levels.items():
        for number, vertices in enumerate(generator.lines(level)):
            x, y = np.round(np.asarray(vertices), 4).T
            parts.append(pd.DataFrame({"share": share, "line": number, "x": x, "y": y}))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["share", "line", "x", "y"])


def _smooth(points: np.ndarray, limits: np.ndarray, bins: int, adjust: float) -> tuple[np.ndarray, list[np.ndarray]]:
    """Density and cell centres; cells beyond the limits are counted too, as far as their kernels reach inside."""
    cells = (limits[:, 1] - limits[:, 0]) / bins
    # A kernel narrower than a cell would be drawn as a cell anyway.
    sigma = np.maximum(adjust * bandwidths(points) / cells, 0.5)
    margin = np.minimum(np.ceil(TRUNCATE * sigma).astype(int), bins)
    edges = [
        low + cell * np.arange(-more, bins + more + 1)
        for low, cell, more in zip(limits[:, 0], cells, margin, strict=True)
    ]
    counts, _ = np.histogramdd(points, bins=edges)
    blurred = gaussian_filter(counts, sigma, mode="constant", truncate=TRUNCATE)
    inside = blurred[tuple(slice(more, more + bins) for more in margin)]
    centres = [low + cell * (np.arange(bins) + 0.5) for low, cell in zip(limits[:, 0], cells, strict=True)]
    return inside / (len(points) * cells.prod()), centres
