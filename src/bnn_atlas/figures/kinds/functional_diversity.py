"""How different the functions are that networks of different depth hold probable."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from bnn_atlas.figures import style
from bnn_atlas.figures.functions import (
    Functions,
    draw_points,
    line,
    names,
    read_functions,
    target_limits,
    training_points,
)
from bnn_atlas.figures.page import Drawing, check_fits
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.formulas.distances import wasserstein_squared

KIND = {"sections": ["functions"]}

MOST_NETWORKS = 4
MOST_DRAWS = 500
"""Largest number of draws of each chain in the histograms."""
BINS = 40
LEVELS = (0.05, 0.95)


def functional_diversity(shown: Sequence[Shown]) -> Drawing:
    """Upper panel: bands of 5 to 95 percent of the mean functions' values, one per network, with the training points.

    Below, a histogram per network of the Wasserstein distances (not squared) between all pairs of its draws, on common
    axes with logarithmic counts. File: `functions` along a line of inputs (function draws). Raises ValueError for
    more than four networks, several data sets, a classification, several inputs, and networks that were given different
    lines.
    """
    check_fits(len(shown), MOST_NETWORKS, "networks")
    if len(datasets := list(dict.fromkeys(run.dataset for run in shown))) > 1:
        raise ValueError(f"{' and '.join(datasets)}: bands of different data sets do not compare; show runs of one")
    functions = read_functions(shown)
    x = line(functions[0])
    if any(not np.array_equal(line(one), x) for one in functions):
        raise ValueError("the functions of these runs are at different inputs; their distances do not compare")
    bands = [np.quantile(one.mean, LEVELS, axis=0) for one in functions]
    thinned = [one.at_most(MOST_DRAWS) for one in functions]
    squares = [wasserstein_squared(one.mean, one.scale) for one in thinned]
    between = [np.sqrt(matrix[np.triu_indices(len(matrix), 1)]) for matrix in squares]
    edges = np.linspace(0.0, max(float(part.max()) for part in between) or 1.0, BINS + 1)
    edges[-1] = np.nextafter(edges[-1], np.inf)
    counts = [np.histogram(part, edges)[0] for part in between]
    medians = [float(np.median(part)) for part in between]
    data = _table(functions, x, bands, edges, counts, medians)
    figure = _page(functions, x, bands, edges, counts, medians)
    return Drawing(figure, data, names=names(shown))


def _page(
    functions: Sequence[Functions], x: np.ndarray, bands: Sequence[np.ndarray], edges: np.ndarray,
    counts: Sequence[np.ndarray], medians: Sequence[float],
) -> Figure:  # fmt: skip
    columns = len(functions)
    figure = Figure(figsize=(style.TEXT_WIDTH, 4.3))
    axes = figure.subplot_mosaic(
        [["bands"] * columns, [str(i) for i in range(columns)]], height_ratios=(2.3, 1.35),
        per_subplot_kw={"bands": {}},
    )  # fmt: skip
    _band_panel(axes["bands"], functions, x, bands)
    for i, one in enumerate(functions):
        ax = axes[str(i)]
        _histogram(ax, edges, counts[i], style.CYCLE[i], max(int(part.max()) for part in counts))
        ax.set_title(f"{one.name}: median {medians[i]:.3g}", fontsize=7.5)
        ax.tick_params(labelleft=i == 0)
    axes["0"].set_ylabel("pairs of draws")
    figure.supxlabel(f"2-Wasserstein distance over {len(x):,} inputs, units of the standardised target", fontsize=7.5)
    entries: dict[str, Artist] = {
        one.name: Patch(facecolor=(style.CYCLE[i], 0.22), edgecolor=style.CYCLE[i], linestyle=style.dash(i))
        for i, one in enumerate(functions)
    }
    entries["training rows"] = Line2D([], [], color="black", marker="o", ms=2.5, ls="")
    axes["bands"].legend(list(entries.values()), list(entries), loc="upper center", ncols=len(entries),
                         bbox_to_anchor=(0.5, 1.14))  # fmt: skip
    return figure


def _band_panel(ax: Axes, functions: Sequence[Functions], x: np.ndarray, bands: Sequence[np.ndarray]) -> None:
    for i, (low, high) in enumerate(bands):
        ax.fill_between(x, low, high, color=style.CYCLE[i], alpha=0.22, lw=0)
        for edge in (low, high):
            ax.plot(x, edge, color=style.CYCLE[i], ls=style.dash(i), lw=1.1)
    draw_points(ax, functions[0])
    ax.set_xlim(x[0], x[-1])
    ax.set_ylim(*target_limits(functions, bands, 0.75))
    ax.set_xlabel("input, standardised")
    ax.set_ylabel("target, standardised")
    if remarks := [f"{one.name}: {one.remark}" for one in functions if one.remark]:
        ax.text(0.985, 0.03, "\n".join(remarks), transform=ax.transAxes, ha="right", fontsize=6.5, color=style.GREY)


def _histogram(ax: Axes, edges: np.ndarray, counts: np.ndarray, colour: str, largest: int) -> None:
    ax.stairs(counts, edges, fill=True, color=colour, alpha=0.75)
    ax.set_yscale("log")
    ax.set_ylim(0.7, 2 * largest)
    ax.set_xlim(0, edges[-1])
    ax.xaxis.set_major_locator(MaxNLocator(5))


def _table(
    functions: Sequence[Functions], x: np.ndarray, bands: Sequence[np.ndarray], edges: np.ndarray,
    counts: Sequence[np.ndarray], medians: Sequence[float],
) -> pd.DataFrame:  # fmt: skip
    """Plotted numbers: panel, label, x (left edge of a bin, median), x_end, low, high of the band, target, pairs."""
    tables = [
        pd.DataFrame({"panel": "band", "label": one.name, "x": x, "low": low, "high": high})
        for one, (low, high) in zip(functions, bands, strict=True)
    ]
    tables += [
        pd.DataFrame({"panel": "distances", "label": one.name, "x": edges[:-1], "x_end": edges[1:], "pairs": part})
        for one, part in zip(functions, counts, strict=True)
    ]
    labels = [one.name for one in functions]
    tables.append(pd.DataFrame({"panel": "median distance", "label": labels, "x": medians}))
    points, targets = training_points(functions[0])
    tables.append(pd.DataFrame({"panel": "training rows", "label": "", "x": points, "target": targets}))
    return pd.concat(tables, ignore_index=True).astype({"pairs": "Int64"})
