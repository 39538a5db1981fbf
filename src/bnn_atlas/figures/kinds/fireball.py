"""Bivariate marginal densities of the posterior: counts of any number of draws, and one pair twice."""

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
from bnn_atlas.metrics.formulas.function_distances import joint_prior_distance
from bnn_atlas.traces.grids import BivariateGrids

KINDS = {
    "fireball": {"sections": ["grid"], "runs": "one"},
    "fireball_teaser": {"sections": ["grid", "subset"], "runs": "one"},
}

DISTANCE = "distance to the prior"


def fireball(shown: Sequence[Shown]) -> Drawing:
    """Bivariate marginal densities of the draws, from counts accumulated while they stream.

    One pair gives a panel of column width with the counts on its colour bar. Several pairs that share their parameters
    (as `layer_pairs` makes them: every layer against every layer) give a matrix for the weights and one for the biases;
    other pairs stand side by side. Colour is the rank of a cell's count within its panel; neighbouring cells are added
    up where there are too few draws, or too small a panel, to show them. All panels of a figure have the same limits.
    The number in a panel is the distance of its draws to the prior (`formulas.prior_distance.joint_prior_distance`),
    where all parameters have the prior N(0, sd^2). Raises ValueError for grids without draws.
    """
    loaded = [BivariateGrids.load(run.files["grid"]) for run in shown]
    names = [run.label if len(shown) > 1 else "" for run in shown]
    blocks = [
        block
        for run, name, grid in zip(shown, names, loaded, strict=True)
        for block in _blocks(grid, name, run.prior_sd)
    ]
    if not blocks:
        raise ValueError("there are no pairs to draw; give at least one grid with at least one pair")
    single = len(blocks) == 1 and len(blocks[0].panels) == 1
    figure, data = _one_fireball(blocks[0]) if single else _fireballs(blocks)
    return Drawing(figure, data)


class _Panel(NamedTuple):
    """A pair in its place of a block."""

    row: int
    column: int
    x: str
    y: str
    cells: Cells
    distance: float | None
    """To the prior; None where it is no N(0, sd^2)."""


class _Block(NamedTuple):
    """Panels that belong together: a matrix whose columns share x and whose rows share y, or a row of single pairs."""

    title: str
    remark: str
    rows: int
    columns: int
    draws: int
    shared: bool
    panels: tuple[_Panel, ...]


def _refuse_empty(grid: BivariateGrids) -> None:
    """Raise ValueError for a grid in which no draw was counted."""
    if grid.draws == 0 or not grid.counts.any():
        raise ValueError(
            f"no draw of {', '.join(f'({x}, {y})' for x, y in grid.pairs[:3]) or 'any pair'} lies inside the limits; "
            "widen the limits of the grid, or look whether the run has finished"
        )


def _blocks(grid: BivariateGrids, label: str, prior_sd: float | None) -> list[_Block]:
    """A matrix per role where pairs fill at least half of one, else one row of panels."""
    _refuse_empty(grid)
    chosen = range(len(grid.pairs))
    roles: dict[str, list[int]] = {}
    for k in chosen:
        x, y = grid.pairs[k]
        role = {("W", "W"): "weights", ("b", "b"): "biases"}.get((parameter_label(x)[0], parameter_label(y)[0]), "")
        roles.setdefault(role, []).append(k)
    matrices = {role: _axes_of(grid, members) for role, members in roles.items()}
    if any(len(roles[role]) * 2 < len(xs) * len(ys) for role, (xs, ys) in matrices.items()):
        roles = {"": list(chosen)}
        matrices = {}
    blocks = []
    for role, members in roles.items():
        title = ", ".join(part for part in (label, role if len(members) > 1 else "") if part)
        xs, ys = matrices.get(role, ([], []))
        panels = []
        for place, k in enumerate(members):
            row, column = (ys.index(grid.y[k]), xs.index(grid.x[k])) if xs else (0, place)
            cells = Cells(grid.counts[k], *grid.edges(k))
            finite = grid.draws - int(grid.nonfinite[k])
            distance = joint_prior_distance(*cells, finite, prior_sd) if prior_sd is not None else None
            panels.append(_Panel(row, column, grid.x[k], grid.y[k], cells, distance))
        remark = _left_out(grid, members)
        blocks.append(_Block(title, remark, len(ys) or 1, len(xs) or len(members), grid.draws, bool(xs), tuple(panels)))
    return blocks


def _axes_of(grid: BivariateGrids, members: Sequence[int]) -> tuple[list[str], list[str]]:
    """The different x and y of some pairs, in order."""
    return list(dict.fromkeys(grid.x[k] for k in members)), list(dict.fromkeys(grid.y[k] for k in members))


def _left_out(grid: BivariateGrids, members: Sequence[int]) -> str:
    """What a picture does not show, in words; empty where it shows all draws."""
    outside, bad = int(grid.outside[members].max()), int(grid.nonfinite[members].max())
    most = "up to " if len(members) > 1 else ""
    share = 100 * outside / grid.draws
    remarks = [f"{most}{share:.2g} % outside the panel"] if outside else []
    remarks += [f"{most}{style.thousands(bad)} not finite"] if bad else []
    return ", ".join(remarks)


def _one_fireball(block: _Block) -> tuple[Figure, pd.DataFrame]:
    """A panel of column width; its colour bar shows counts."""
    panel = block.panels[0]
    cells = coarsen(panel.cells, resolution(block.draws, 2.5))
    figure = Figure(figsize=(style.COLUMN_WIDTH, 3.0))
    ax = figure.subplots()
    image = draw_cells(ax, cells)
    _square(ax, *_window([block]))
    ax.set_xlabel(parameter_label(panel.x))
    ax.set_ylabel(parameter_label(panel.y))
    ax.set_title(_title(block, narrow=True))
    _write_distance(ax, panel.distance, f"{DISTANCE}: {{:.2f}}", 7)
    ticks, texts = count_ticks(cells.counts)
    bar = figure.colorbar(image, cax=ax.inset_axes((1.03, 0, 0.045, 1)), ticks=ticks)
    bar.ax.set_yticklabels(texts)
    bar.set_label("draws per cell, spaced by rank")
    bar.outline.set_visible(False)
    return figure, _fireball_table(block, panel, cells)


def _fireballs(blocks: Sequence[_Block]) -> tuple[Figure, pd.DataFrame]:
    """Blocks beside each other, under them one colour bar for all."""
    widest = max(block.columns for block in blocks)
    per_row = max(1, min(len(blocks), 10 // widest, 4))
    lines = [blocks[i : i + per_row] for i in range(0, len(blocks), per_row)]
    # Inches beside each panel that has labels of its own, or beside the first one of a matrix.
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
        titles = [_title(block, narrow=block.columns * inches < 2) for block in line]
        depth = max(title.count("\n") for title in titles)  # titles of one depth keep the panels of a line aligned
        for j, (block, title) in enumerate(zip(line, titles, strict=True)):
            title += "\n " * (depth - title.count("\n"))
            tables += _fireball_block(figure.add_subfigure(spec[i, j]), block, title, inches, window)
    numbered = any(panel.distance is not None for block in blocks for panel in block.panels)
    _rank_bar(figure.add_subfigure(spec[-1, :]), f"; number: {DISTANCE}" if numbered else "")
    return figure, pd.concat(tables, ignore_index=True)


def _rank_bar(part: SubFigure, more: str) -> None:
    """A colour bar for panels whose counts differ: it has ranks only; `more` ends its label."""
    axes = part.subplots(1, 3, width_ratios=(1, 1.2, 1))
    for ax in axes:
        ax.set_axis_off()
    bar = part.colorbar(ScalarMappable(cmap=style.DENSITY), cax=axes[1], orientation="horizontal", ticks=[])
    axes[1].set_axis_on()
    bar.outline.set_visible(False)
    bar.set_label(f"draws per cell, by rank in each panel{more}")
    for x, text, side in ((-0.03, "fewest", "right"), (1.03, "most", "left")):
        bar.ax.text(x, 0.5, text, transform=bar.ax.transAxes, ha=side, va="center", fontsize=7)


def _fireball_block(
    part: SubFigure, block: _Block, title: str, inches: float, window: tuple[float, float]
) -> list[pd.DataFrame]:
    """Draw the panels of a block and return their cells. In a matrix only the outer panels carry labels."""
    part.suptitle(title, fontsize=7.5, x=0.02, ha="left")
    axes = part.subplots(block.rows, block.columns, squeeze=False)
    names_x = {panel.column: panel.x for panel in block.panels}
    names_y = {panel.row: panel.y for panel in block.panels} if block.shared else {0: ""}
    panels = {(panel.row, panel.column): panel for panel in block.panels}
    tables = []
    for (row, column), ax in np.ndenumerate(axes):
        panel = panels.get((row, column))
        left = column == 0 or not block.shared
        foot = row == block.rows - 1 or not block.shared
        if panel is None:
            ax.set_aspect("equal")
            ax.patch.set_visible(False)
            ax.spines[:].set_visible(False)
        else:
            cells = coarsen(panel.cells, resolution(block.draws, inches))
            draw_cells(ax, cells)
            _write_distance(ax, panel.distance, "{:.2f}", 5.5)
            tables.append(_fireball_table(block, panel, cells))
            if not cells.counts.any():
                ax.text(0.5, 0.5, "all draws\noutside", transform=ax.transAxes, ha="center", va="center",
                        fontsize=6, color=style.GREY)  # fmt: skip
        _square(ax, *window)
        ax.tick_params(labelleft=left, labelbottom=foot, left=left, bottom=foot, labelsize=6)
        name_y = names_y[row] if panel is None or block.shared else panel.y
        ax.set_ylabel(parameter_label(name_y) if left else "", fontsize=7)
        ax.set_xlabel(parameter_label(names_x[column]) if foot else "", fontsize=7)
    return tables


def _write_distance(ax: Axes, distance: float | None, text: str, size: float) -> None:
    """The distance to the prior in the upper left corner of a panel, if there is one."""
    if distance is not None:
        shadow = withStroke(linewidth=1.2, foreground="black")
        ax.text(0.04, 0.96, text.format(distance), transform=ax.transAxes, ha="left", va="top", color="white",
                fontsize=size, path_effects=[shadow])  # fmt: skip


def _title(block: _Block, *, narrow: bool) -> str:
    """What a block shows, how many draws, and what it leaves out."""
    samples = f"{style.thousands(block.draws)} posterior samples"
    head = (f"{block.title}\n{samples}" if narrow else f"{block.title}: {samples}") if block.title else samples
    return f"{head}\n{block.remark}" if block.remark else head


def _window(blocks: Sequence[_Block]) -> tuple[float, float]:
    """Limits that hold all panels, the same along x and y."""
    edges = [edge for block in blocks for panel in block.panels for edge in (panel.cells.x_edges, panel.cells.y_edges)]
    return min(float(edge[0]) for edge in edges), max(float(edge[-1]) for edge in edges)


def _square(ax: Axes, low: float, high: float) -> None:
    """The same limits and round ticks along both axes."""
    ax.set_xlim(low, high)
    ax.set_ylim(low, high)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10], prune="both"))


def _fireball_table(block: _Block, panel: _Panel, cells: Cells) -> pd.DataFrame:
    """Plotted cells of a panel with its names in front."""
    table = cell_table(cells)
    names = {"block": block.title, "x_name": parameter_label(panel.x), "y_name": parameter_label(panel.y)}
    for place, (column, name) in enumerate(names.items()):
        table.insert(place, column, name)
    return table.assign(prior_distance=np.nan if panel.distance is None else round(panel.distance, 5))


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
