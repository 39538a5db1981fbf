"""One pair of parameters twice: smoothed from a few chains, and counted from all draws."""

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bnn_atlas.figures import style
from bnn_atlas.figures.density import (
    Cells,
    cell_table,
    coarsen,
    contour_table,
    count_ticks,
    draw_cells,
    mass_levels,
    resolution,
    smooth_pair,
)
from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.shown import Shown
from bnn_atlas.figures.subsets import Subset, locate, parameter_label, read_subset
from bnn_atlas.traces.grids import BivariateGrids

KIND = {"sections": ["grid", "subset"], "runs": "one"}

SHARES = tuple(round(1 - 0.1 * k - 0.05, 2) for k in range(10))
"""Shares of the draws that the coloured regions hold, outermost first."""
ADJUST = 0.5
"""Bandwidth over Scott's rule; 0.5 in the paper."""
PANEL_INCHES = 2.7


def fireball_teaser(shown: Sequence[Shown]) -> Drawing:
    """The joint density of two parameters as a few chains show it, smoothed, and as all draws show it, counted.

    Left: kernel density estimate of the draws of the figure's subset, a colour per region with a given share of them.
    Right: draws per cell of the figure's grid, coloured by rank. Both have the limits of the grid. The pair is the
    first of the grid whose parameters the subset has. Raises ValueError where there is none, or no draw inside.
    """
    run = shown[0]
    grid, subset = BivariateGrids.load(run.files["grid"]), read_subset(run.files["subset"])
    pairs = [k for k, pair in enumerate(grid.pairs) if set(pair) <= set(subset.names)]
    if not pairs:
        raise ValueError(
            f"{run.files['subset']}: no pair of {run.files['grid']} is among its parameters "
            f"{', '.join(subset.names[:8])}; choose one of {', '.join(f'({x}, {y})' for x, y in grid.pairs[:3])}"
        )
    pair = pairs[0]
    if not grid.counts[pair].any():
        raise ValueError(
            f"{run.files['grid']}: no draw of ({grid.x[pair]}, {grid.y[pair]}) lies inside the limits; widen them"
        )
    points = locate(subset, grid.pairs[pair], run.files["subset"]).reshape(-1, 2)
    cells = coarsen(Cells(grid.counts[pair], *grid.edges(pair)), resolution(grid.draws, PANEL_INCHES))
    window = min(cells.x_edges[0], cells.y_edges[0]), max(cells.x_edges[-1], cells.y_edges[-1])
    figure = Figure(figsize=(style.TEXT_WIDTH, PANEL_INCHES + 1.15))
    left, right = figure.subplots(1, 2)
    smoothed = _smoothed(left, points, window)
    _counted(right, cells)
    left.set_title(_smoothed_title(subset, points, window))
    right.set_title(_counted_title(grid, pair, run.chains))
    for ax in (left, right):
        ax.set_xlim(window)
        ax.set_ylim(window)
        ax.set_xlabel(parameter_label(grid.x[pair]))
        ax.set_ylabel(parameter_label(grid.y[pair]))
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10], prune="both"))
    names = {"x_name": parameter_label(grid.x[pair]), "y_name": parameter_label(grid.y[pair])}
    counted = cell_table(cells).assign(panel="counted", **names)
    columns = ["panel", "x_name", "y_name", "x", "y", "share", "line", "count", "level"]
    data = pd.concat([smoothed.assign(panel="smoothed", **names), counted], ignore_index=True)
    return Drawing(figure, data.reindex(columns=columns).astype({"line": "Int64", "count": "Int64"}))


def _smoothed(ax: Axes, points: np.ndarray, window: tuple[float, float]) -> pd.DataFrame:
    """Draw the regions that hold given shares of the draws; their outlines."""
    surface = smooth_pair(points, np.array([window, window]), bins=300, adjust=ADJUST)
    levels = mass_levels(surface, SHARES)
    if not levels:
        raise ValueError(f"fewer than {SHARES[-1]:.0%} of the smoothed draws lie inside the limits; widen the grid")
    colours = [mpl.colormaps[style.DENSITY](place) for place in np.linspace(0.06, 1, len(SHARES))]
    ax.set_facecolor("black")
    ax.spines[:].set_visible(False)
    ax.set_aspect("equal")
    drawn = [colours[SHARES.index(share)] for share in levels]
    bounds = [*levels.values(), np.inf]
    ax.contourf(surface.x, surface.y, surface.density.T, levels=bounds, colors=drawn)
    bar = _bar(ax, ScalarMappable(cmap=ListedColormap(colours)), "smallest region that holds this share of the draws")
    bar.set_ticks([(k + 0.5) / len(SHARES) for k in (0, 3, 6, 9)], labels=[f"{SHARES[k]:.0%}" for k in (0, 3, 6, 9)])
    return contour_table(surface, levels)


def _counted(ax: Axes, cells: Cells) -> None:
    """Draw counts, coloured by rank."""
    image = draw_cells(ax, cells)
    bar = _bar(ax, image, "draws per cell, spaced by rank")
    ticks, texts = count_ticks(cells.counts)
    bar.set_ticks(ticks, labels=texts)


def _bar(ax: Axes, of: ScalarMappable, label: str) -> mpl.colorbar.Colorbar:
    """A colour bar below a panel."""
    figure = ax.get_figure()
    assert figure is not None
    bar = figure.colorbar(of, ax=ax, orientation="horizontal", shrink=0.8, aspect=28, pad=0.02)
    bar.outline.set_visible(False)
    bar.set_label(label)
    return bar


def _smoothed_title(subset: Subset, points: np.ndarray, window: tuple[float, float]) -> str:
    outside = np.mean(((points < window[0]) | (points > window[1])).any(axis=1))
    chains = len(subset.chains)
    remarks = [f"{100 * outside:.2g} % outside the panel" if outside else "", subset.remark]
    head = f"{style.thousands(len(points))} draws of {_chains(chains)}, smoothed"
    return "\n".join([head, *[text for text in (", ".join(filter(None, remarks)),) if text]])


def _counted_title(grid: BivariateGrids, pair: int, chains: int) -> str:
    outside, bad = int(grid.outside[pair]), int(grid.nonfinite[pair])
    remarks = [f"{100 * outside / grid.draws:.2g} % outside the panel" if outside else ""]
    remarks += [f"{style.thousands(bad)} not finite" if bad else ""]
    head = f"{style.thousands(grid.draws)} draws of {_chains(chains)}, counted"
    return "\n".join([head, *[text for text in (", ".join(filter(None, remarks)),) if text]])


def _chains(count: int) -> str:
    return f"{style.thousands(count)} chain{'s' if count > 1 else ''}"
