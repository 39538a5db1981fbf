"""Densities of draws as all figures draw them: of one parameter as curves, of two as counted cells or as regions.

Kernel estimates are computed on a grid, which is quick for any number of draws.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import contourpy
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator
from scipy.ndimage import gaussian_filter

from bnn_atlas.figures import style
from bnn_atlas.figures.axes import colour_bar


def draw_marginals(
    axes: Sequence[Axes], table: pd.DataFrame, parameter: str, series: str, looks: Mapping[str, Mapping[str, Any]]
) -> None:
    """A panel for each value of the column `parameter`, with a density for each value of the column `series`.

    Rows with `low` and `high` are bins of a histogram, others points `x` of a curve; a single point, for a parameter
    that does not vary, is a vertical line. Panels beyond the last are hidden.
    """
    panels = list(table.groupby(parameter, sort=False))
    for ax, (name, part) in zip(axes, panels, strict=False):
        for which, own in part.groupby(series, sort=False):
            if "low" in own:
                draw_bins(ax, own, "density", **looks[str(which)])
            elif len(own) == 1:
                ax.axvline(own["x"].item(), **looks[str(which)])
            else:
                ax.plot(own["x"], own["density"], **looks[str(which)])
        ax.set_ylim(bottom=0)
        ax.xaxis.set_major_locator(MaxNLocator(4))
        ax.yaxis.set_major_locator(MaxNLocator(3))
        ax.set_title(str(name), fontsize=7)
        ax.tick_params(labelsize=6)
    for ax in axes[len(panels) :]:
        ax.set_visible(False)


def draw_bins(ax: Axes, bins: pd.DataFrame, height: str, **look: Any) -> None:
    """A histogram whose bins have the edges `low` and `high`."""
    ax.stairs(bins[height].to_numpy(), [*bins["low"], bins["high"].iloc[-1]], **look)


class Cells(NamedTuple):
    """Counts [x bin, y bin] and the bin edges along x and y."""

    counts: np.ndarray
    x_edges: np.ndarray
    y_edges: np.ndarray


def equalise(counts: np.ndarray) -> np.ndarray:
    """Histogram equalisation: the share of occupied cells with a smaller count, stretched to [0, 1]; empty cells NaN.

    level(c) = (F(c) - F(c_min)) / (1 - F(c_min)) with F the distribution of the counts of occupied cells, as in
    datashader's `eq_hist`. If all occupied cells hold the same count, they get 1.
    """
    occupied = counts > 0
    levels = np.full(counts.shape, np.nan)
    if not occupied.any():
        return levels
    _, place, cells = np.unique(counts[occupied], return_inverse=True, return_counts=True)
    share = np.cumsum(cells) / cells.sum()
    levels[occupied] = (share[place] - share[0]) / (1 - share[0]) if len(cells) > 1 else 1.0
    return levels


def coarsen(cells: Cells, at_most: int) -> Cells:
    """Neighbouring cells added up, by the smallest factor that divides their number and leaves `at_most` or fewer."""
    bins = cells.counts.shape[0]
    k = next(k for k in range(1, bins + 1) if bins % k == 0 and bins // k <= max(1, at_most))
    blocks = cells.counts.reshape(bins // k, k, bins // k, k)
    return Cells(blocks.sum(axis=(1, 3)), cells.x_edges[::k], cells.y_edges[::k])


def resolution(draws: int, inches: float) -> int:
    """Cells along an axis that `draws` can fill (about their square root) and `inches` can show."""
    return int(np.clip(np.sqrt(draws), 40, max(40, inches * style.DPI)))


def draw_cells(ax: Axes, cells: Cells) -> AxesImage:
    """Show equalised counts on black in a square panel without a frame."""
    extent = (cells.x_edges[0], cells.x_edges[-1], cells.y_edges[0], cells.y_edges[-1])
    ax.set_facecolor("black")
    ax.spines[:].set_visible(False)
    return ax.imshow(
        equalise(cells.counts).T, origin="lower", extent=extent, cmap=style.DENSITY, vmin=0, vmax=1,
        interpolation="nearest", aspect="equal",
    )  # fmt: skip


def draw_counts(ax: Axes, cells: Cells, **place: Any) -> None:
    """`draw_cells` with a colour bar of the counts, next to the panel or placed as `place` says (`axes.colour_bar`)."""
    ticks, texts = count_ticks(cells.counts)
    bar = colour_bar(draw_cells(ax, cells), ax, "draws per cell, spaced by rank", **place)
    bar.set_ticks(ticks, labels=texts)


def square(ax: Axes, window: tuple[float, float], ticks: int = 4) -> None:
    """The same limits and round ticks along both axes."""
    ax.set_xlim(window)
    ax.set_ylim(window)
    for axis in (ax.xaxis, ax.yaxis):
        round_ticks(axis, ticks)


def round_ticks(axis: Axis, ticks: int = 4) -> None:
    """A few ticks at round numbers, none at the ends."""
    axis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 5, 10], prune="both"))


def count_ticks(counts: np.ndarray) -> tuple[list[float], list[str]]:
    """Places on the colour bar of a panel, and the counts that have these colours."""
    occupied = counts > 0
    values, levels = counts[occupied], equalise(counts)[occupied]
    ticks: dict[str, float] = {}
    for level in np.linspace(0, 1, 5):
        chosen = levels >= level
        ticks.setdefault(style.thousands(values[chosen].min()), float(levels[chosen].min()))
    return list(ticks.values()), list(ticks)


def cell_table(cells: Cells) -> pd.DataFrame:
    """Occupied cells: centre x and y (rounded to a hundredth of a cell), count, level (the colour, four digits)."""
    i, j = np.nonzero(cells.counts)
    x, y = ((edges[:-1] + edges[1:]) / 2 for edges in (cells.x_edges, cells.y_edges))
    levels = equalise(cells.counts)[i, j]
    # A hundredth of a cell, and finer than a colour map of 256 steps: enough digits, and the files stay small.
    digits = max(0, 2 - math.floor(math.log10(np.diff(cells.x_edges[:2])[0])))
    columns = {"x": np.round(x[i], digits), "y": np.round(y[j], digits), "count": cells.counts[i, j]}
    return pd.DataFrame({**columns, "level": np.round(levels, 4)})


TRUNCATE = 4.0
"""Bandwidths from its centre at which a kernel ends."""


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
    """Share of all draws -> the density at the edge of the smallest region that holds this share.

    Outermost first, so levels rise. Shares that the draws inside the limits do not reach are left out, and so are
    shares whose region is, to a cell, the region of a larger share.
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


def draw_regions(
    ax: Axes, surface: Surface, colours: Mapping[float, Any], *, filled: bool = True, **look: Any
) -> pd.DataFrame:
    """Draw the smallest regions that hold these shares of all draws, outermost first, and return their outlines."""
    levels = mass_levels(surface, tuple(colours))
    if levels:
        draw, bounds = (ax.contourf, [*levels.values(), np.inf]) if filled else (ax.contour, [*levels.values()])
        own = [colours[share] for share in levels]
        draw(surface.x, surface.y, surface.density.T, levels=bounds, colors=own, **look)
    return contour_table(surface, levels)


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
