"""Pictures of bivariate histogram counts: colour by rank, so that every order of magnitude shows."""

import math
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.image import AxesImage

from bnn_atlas.figures import style


class Cells(NamedTuple):
    """Counts [x bin, y bin] and the bin edges along x and y."""

    counts: np.ndarray
    x_edges: np.ndarray
    y_edges: np.ndarray


def equalise(counts: np.ndarray) -> np.ndarray:
    """Histogram equalisation: the share of occupied cells with a smaller count, stretched to [0, 1]; empty cells NaN.

    level(c) = (F(c) - F(c_min)) / (1 - F(c_min)) with F the distribution of the counts of occupied cells, as in
    datashader's `eq_hist`. Where all occupied cells hold the same count, they get 1.
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
    """Neighbouring cells added up, by the smallest factor that divides the bins and leaves `at_most` or fewer."""
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
