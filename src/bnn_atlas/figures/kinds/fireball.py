"""Bivariate marginal densities of the posterior, as counts of any number of draws; and one pair both ways."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure, SubFigure
from matplotlib.patheffects import withStroke

from bnn_atlas.figures import style
from bnn_atlas.figures.axes import colour_bar
from bnn_atlas.figures.density import (
    Cells,
    cell_table,
    coarsen,
    draw_cells,
    draw_counts,
    draw_regions,
    resolution,
    smooth_pair,
    square,
)
from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.shown import Shown
from bnn_atlas.figures.subsets import locate, parameter_label, read_subset
from bnn_atlas.metrics.formulas.function_distances import joint_prior_distance
from bnn_atlas.traces.grids import BivariateGrids

KINDS = {
    "fireball": {"sections": ["grid"], "runs": "one", "columns": "block x_name y_name x y count level prior_distance"},
    "fireball_teaser": {
        "sections": ["grid", "subset"], "runs": "one",
        "columns": "panel x_name y_name x y share line count level",
    },
}  # fmt: skip

DISTANCE = "distance to the prior"


def fireball(shown: Sequence[Shown]) -> Drawing:
    """Bivariate marginal densities of the draws, from counts accumulated while they stream.

    One pair gives a panel of column width with the counts on its colour bar. Several pairs that share their parameters
    (as `layer_pairs` makes them: every layer against every layer) give a matrix for the weights and one for the biases;
    other pairs stand side by side. Colour is the rank of a cell's count within its panel; neighbouring cells are added
    up if there are too few draws, or the panel is too small, to show them. All panels of a figure have the same limits.
    The number in a panel is the distance of its draws to the prior (`function_distances.joint_prior_distance`),
    where all parameters have the prior N(0, sd^2). Raises ValueError for grids without draws.
    """
    blocks = [block for run in shown for block in _blocks(run, run.label if len(shown) > 1 else "")]
    if not blocks:
        raise ValueError("there are no pairs to draw; give at least one grid with at least one pair")
    single = len(blocks) == 1 and len(blocks[0].panels) == 1
    return Drawing(*(_one_fireball(blocks[0]) if single else _fireballs(blocks)))


class _Panel(NamedTuple):
    """A pair, with its place in a block."""

    row: int
    column: int
    x: str
    y: str
    cells: Cells
    distance: float | None
    """Distance to the prior; None if that is not N(0, sd^2)."""

    def table(self, block: str, cells: Cells) -> pd.DataFrame:
        """Plotted cells with the names in front."""
        distance = np.nan if self.distance is None else round(self.distance, 5)
        table = cell_table(cells).assign(block=block, x_name=self.x, y_name=self.y, prior_distance=distance)
        return table[["block", "x_name", "y_name", "x", "y", "count", "level", "prior_distance"]]


class _Block(NamedTuple):
    """Panels that belong together: a matrix whose columns share x and whose rows share y, or a row of single pairs."""

    title: str
    remark: str
    rows: int
    columns: int
    draws: int
    shared: bool
    panels: tuple[_Panel, ...]

    def heading(self, *, narrow: bool) -> str:
        """What it shows, how many draws, and what it leaves out."""
        samples = f"{style.thousands(self.draws)} posterior samples"
        head = (f"{self.title}\n{samples}" if narrow else f"{self.title}: {samples}") if self.title else samples
        return f"{head}\n{self.remark}" if self.remark else head


ROLES = {"WW": "weights", "bb": "biases"}


def _blocks(run: Shown, label: str) -> list[_Block]:
    """A matrix for each role whose pairs fill at least half of one; otherwise one row of panels."""
    grid = BivariateGrids.load(run.files["grid"])
    if grid.draws == 0 or not grid.counts.any():
        raise ValueError(
            f"no draw of {', '.join(f'({x}, {y})' for x, y in grid.pairs[:3]) or 'any pair'} lies inside the limits; "
            "widen the limits of the grid, or check whether the run has finished"
        )
    x, y = ([parameter_label(name) for name in names] for names in (grid.x, grid.y))
    roles: dict[str, list[int]] = {}
    for k in range(len(x)):
        roles.setdefault(ROLES.get(x[k][0] + y[k][0], ""), []).append(k)
    axes = {role: [list(dict.fromkeys(of[k] for k in members)) for of in (x, y)] for role, members in roles.items()}
    shared = all(2 * len(members) >= math.prod(map(len, axes[role])) for role, members in roles.items())
    blocks = []
    for role, members in (roles if shared else {"": list(range(len(x)))}).items():
        title = ", ".join(part for part in (label, role if len(members) > 1 else "") if part)
        xs, ys = axes[role] if shared else ([], [])
        panels = []
        for place, k in enumerate(members):
            row, column = (ys.index(y[k]), xs.index(x[k])) if shared else (0, place)
            cells = Cells(grid.counts[k], *grid.edges(k))
            finite = grid.draws - int(grid.nonfinite[k])
            distance = None if run.prior_sd is None else joint_prior_distance(*cells, finite, run.prior_sd)
            panels.append(_Panel(row, column, x[k], y[k], cells, distance))
        rows, columns = len(ys) or 1, len(xs) or len(members)
        blocks.append(_Block(title, _left_out(grid, members), rows, columns, grid.draws, shared, tuple(panels)))
    return blocks


def _left_out(grid: BivariateGrids, members: Sequence[int]) -> str:
    """What a picture does not show, in words; empty if it shows all draws."""
    outside, bad = int(grid.outside[members].max()), int(grid.nonfinite[members].max())
    most = "up to " if len(members) > 1 else ""
    remarks = [f"{most}{100 * outside / grid.draws:.2g}% outside the panel"] if outside else []
    remarks += [f"{most}{style.thousands(bad)} not finite"] if bad else []
    return ", ".join(remarks)


def _one_fireball(block: _Block) -> tuple[Figure, pd.DataFrame]:
    """A panel of column width; its colour bar shows counts."""
    panel = block.panels[0]
    cells = coarsen(panel.cells, resolution(block.draws, 2.5))
    figure = Figure(figsize=(style.COLUMN_WIDTH, 3.0))
    ax = figure.subplots()
    draw_counts(ax, cells)
    square(ax, _window([block]))
    ax.set_xlabel(panel.x)
    ax.set_ylabel(panel.y)
    ax.set_title(block.heading(narrow=True))
    _write_distance(ax, panel.distance, f"{DISTANCE}: {{:.2f}}", 7)
    return figure, panel.table(block.title, cells)


def _fireballs(blocks: Sequence[_Block]) -> tuple[Figure, pd.DataFrame]:
    """Blocks side by side, with one colour bar for all below them."""
    widest = max(block.columns for block in blocks)
    per_row = max(1, min(len(blocks), 10 // widest, 4))
    lines = [blocks[i : i + per_row] for i in range(0, len(blocks), per_row)]
    # Inches next to each panel with its own labels, or next to the first panel of a matrix.
    labels = 0.5
    gaps = labels + 0.06 * widest if all(block.shared for block in blocks) else labels * widest
    inches = min(1.3, (style.TEXT_WIDTH / per_row - gaps) / widest)
    heights = [max(block.rows for block in line) * (inches + 0.06) + 0.75 for line in lines]
    bar_height = 0.36
    width = max(style.COLUMN_WIDTH, per_row * (widest * inches + gaps))
    figure = Figure(figsize=(width, sum(heights) + bar_height))
    spec = figure.add_gridspec(len(lines) + 1, per_row, height_ratios=[*heights, bar_height])
    window = _window(blocks)
    tables = []
    for i, line in enumerate(lines):
        titles = [block.heading(narrow=block.columns * inches < 2) for block in line]
        depth = max(title.count("\n") for title in titles)  # titles of equal depth keep the panels of a row aligned
        for j, (block, title) in enumerate(zip(line, titles, strict=True)):
            title += "\n " * (depth - title.count("\n"))
            tables += _fireball_block(figure.add_subfigure(spec[i, j]), block, title, inches, window)
    numbered = any(panel.distance is not None for block in blocks for panel in block.panels)
    _rank_bar(figure.add_subfigure(spec[-1, :]), f"; number: {DISTANCE}" if numbered else "")
    return figure, pd.concat(tables, ignore_index=True)


def _rank_bar(part: SubFigure, more: str) -> None:
    """A colour bar for panels with different counts, so it shows only ranks; `more` ends its label."""
    left, middle, right = part.subplots(1, 3, width_ratios=(1, 1.2, 1))
    for ax in (left, right):
        ax.set_axis_off()
    label = f"draws per cell, by rank in each panel{more}"
    colour_bar(ScalarMappable(cmap=style.DENSITY), middle, label, cax=middle, orientation="horizontal", ticks=[])
    for x, text, side in ((-0.03, "fewest", "right"), (1.03, "most", "left")):
        middle.text(x, 0.5, text, transform=middle.transAxes, ha=side, va="center", fontsize=7)


def _fireball_block(
    part: SubFigure, block: _Block, title: str, inches: float, window: tuple[float, float]
) -> list[pd.DataFrame]:
    """Draw the panels of a block and return their cells. In a matrix only the outer panels carry labels."""
    part.suptitle(title, fontsize=7.5, x=0.02, ha="left")
    axes = part.subplots(block.rows, block.columns, squeeze=False)
    names_x = {panel.column: panel.x for panel in block.panels}
    names_y = {panel.row if block.shared else panel.column: panel.y for panel in block.panels}
    panels = {(panel.row, panel.column): panel for panel in block.panels}
    tables = []
    for (row, column), ax in np.ndenumerate(axes):
        left = not block.shared or column == min(place for of, place in panels if of == row)
        foot = row == max(place for place, of in panels if of == column)
        if panel := panels.get((row, column)):
            cells = coarsen(panel.cells, resolution(block.draws, inches))
            draw_cells(ax, cells)
            _write_distance(ax, panel.distance, "{:.2f}", 5.5)
            tables.append(panel.table(block.title, cells))
            if not cells.counts.any():
                ax.text(0.5, 0.5, "all draws\noutside", transform=ax.transAxes, ha="center", va="center",
                        fontsize=6, color=style.GREY)  # fmt: skip
        else:
            ax.set_axis_off()
        square(ax, window)
        ax.tick_params(labelleft=left, labelbottom=foot, left=left, bottom=foot, labelsize=6)
        ax.set_ylabel(names_y[row if block.shared else column] if left else "", fontsize=7)
        ax.set_xlabel(names_x[column] if foot else "", fontsize=7)
    return tables


def _write_distance(ax: Axes, distance: float | None, text: str, size: float) -> None:
    """The distance to the prior in the upper left corner of a panel, if there is one."""
    if distance is not None:
        shadow = withStroke(linewidth=1.2, foreground="black")
        ax.text(0.04, 0.96, text.format(distance), transform=ax.transAxes, ha="left", va="top", color="white",
                fontsize=size, path_effects=[shadow])  # fmt: skip


def _window(blocks: Sequence[_Block]) -> tuple[float, float]:
    """Limits that hold all panels, the same along x and y."""
    edges = [edge for block in blocks for panel in block.panels for edge in (panel.cells.x_edges, panel.cells.y_edges)]
    return min(float(edge[0]) for edge in edges), max(float(edge[-1]) for edge in edges)


SHARES = tuple(round(1 - 0.1 * k - 0.05, 2) for k in range(10))
"""Shares of the draws that the coloured regions hold, outermost first."""
ADJUST = 0.5
"""Bandwidth as a multiple of Scott's rule; 0.5 in the paper."""
PANEL_INCHES = 2.7
BELOW = {"orientation": "horizontal", "shrink": 0.8, "aspect": 28, "pad": 0.02}
"""Place of a panel's colour bar."""


def fireball_teaser(shown: Sequence[Shown]) -> Drawing:
    """The joint density of two parameters as a few chains show it, smoothed, and as all draws show it, counted.

    Left: kernel density estimate of the draws of the figure's subset, a colour per region with a given share of them.
    Right: draws per cell of the figure's grid, coloured by rank. Both have the limits of the grid. The pair is the
    first one in the grid whose parameters are in the subset. Raises ValueError if there is none, or if no draw is
    inside.
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
    draw_counts(right, cells, **BELOW)
    outside = np.mean(((points < window[0]) | (points > window[1])).any(axis=1))
    remarks = [f"{100 * outside:.2g}% outside the panel" if outside else "", subset.remark]
    left.set_title(_title(len(points), len(subset.chains), "smoothed", ", ".join(filter(None, remarks))))
    right.set_title(_title(grid.draws, run.chains, "counted", _left_out(grid, [pair])))
    names = {"x_name": parameter_label(grid.x[pair]), "y_name": parameter_label(grid.y[pair])}
    for ax in (left, right):
        square(ax, window, 5)
        ax.set_xlabel(names["x_name"])
        ax.set_ylabel(names["y_name"])
    parts = {"smoothed": smoothed, "counted": cell_table(cells)}
    columns = ["panel", "x_name", "y_name", "x", "y", "share", "line", "count", "level"]
    data = pd.concat([part.assign(panel=panel, **names) for panel, part in parts.items()], ignore_index=True)
    return Drawing(figure, data.reindex(columns=columns).astype({"line": "Int64", "count": "Int64"}))


def _smoothed(ax: Axes, points: np.ndarray, window: tuple[float, float]) -> pd.DataFrame:
    """Draw the regions that hold given shares of the draws; their outlines."""
    surface = smooth_pair(points, np.array([window, window]), bins=300, adjust=ADJUST)
    colours = [mpl.colormaps[style.DENSITY](place) for place in np.linspace(0.06, 1, len(SHARES))]
    outlines = draw_regions(ax, surface, dict(zip(SHARES, colours, strict=True)))
    if outlines.empty:
        raise ValueError(f"fewer than {SHARES[-1]:.0%} of the smoothed draws lie inside the limits; widen the grid")
    ax.set_facecolor("black")
    ax.spines[:].set_visible(False)
    ax.set_aspect("equal")
    label = "smallest region that holds this share of the draws"
    bar = colour_bar(ScalarMappable(cmap=ListedColormap(colours)), ax, label, **BELOW)
    bar.set_ticks([(k + 0.5) / len(SHARES) for k in (0, 3, 6, 9)], labels=[f"{SHARES[k]:.0%}" for k in (0, 3, 6, 9)])
    return outlines


def _title(draws: int, chains: int, how: str, remark: str) -> str:
    head = f"{style.thousands(draws)} draws of {style.thousands(chains)} chain{'s' if chains > 1 else ''}, {how}"
    return f"{head}\n{remark}" if remark else head
