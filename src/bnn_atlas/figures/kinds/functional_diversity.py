"""How different the functions are that networks of different depth hold probable."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
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
COLUMNS = ["panel", "label", "x", "low", "high", "x_end", "pairs", "target"]


def functional_diversity(shown: Sequence[Shown]) -> Drawing:
    """Upper panel: bands of 5 to 95 percent of the mean functions' values, one per network, with the training points.

    Below, a histogram per network of the Wasserstein distances (not squared) between all pairs of its draws, on common
    axes with logarithmic counts. File: `functions` along a line of inputs (function draws). Numbers are columns panel,
    label, x (left edge of a bin, median), x_end, low, high of the band, target, pairs. Raises ValueError for more than
    four networks, several data sets, a classification, several inputs, and networks that were given different lines.
    """
    check_fits(len(shown), MOST_NETWORKS, "networks")
    if len(datasets := list(dict.fromkeys(run.dataset for run in shown))) > 1:
        raise ValueError(f"{' and '.join(datasets)}: bands of different data sets do not compare; show runs of one")
    functions = read_functions(shown)
    x = line(functions[0])
    if any(not np.array_equal(line(one), x) for one in functions):
        raise ValueError("the functions of these runs are at different inputs; their distances do not compare")
    bands = [np.quantile(one.mean, LEVELS, axis=0) for one in functions]
    between = [_distances(one.at_most(MOST_DRAWS)) for one in functions]
    edges = np.linspace(0.0, max(float(part.max()) for part in between) or 1.0, BINS + 1)
    edges[-1] = np.nextafter(edges[-1], np.inf)
    counts = [np.histogram(part, edges)[0] for part in between]
    columns = [str(i) for i in range(len(functions))]
    figure = Figure(figsize=(style.TEXT_WIDTH, 4.3))
    axes = figure.subplot_mosaic([["bands" for _ in columns], list(columns)], height_ratios=(2.3, 1.35))
    tables = []
    entries: dict[str, Artist] = {}
    upper = axes["bands"]
    for i, (one, (low, high), part, number) in enumerate(zip(functions, bands, between, counts, strict=True)):
        colour, median = style.CYCLE[i], float(np.median(part))
        upper.fill_between(x, low, high, color=colour, alpha=0.22, lw=0)
        for edge in (low, high):
            upper.plot(x, edge, color=colour, ls=style.dash(i), lw=1.1)
        entries[one.name] = Patch(facecolor=(colour, 0.22), edgecolor=colour, linestyle=style.dash(i))
        ax = axes[columns[i]]
        ax.stairs(number, edges, fill=True, color=colour, alpha=0.75)
        ax.set_yscale("log")
        ax.set_ylim(0.7, 2 * max(int(each.max()) for each in counts))
        ax.set_xlim(0, edges[-1])
        ax.xaxis.set_major_locator(MaxNLocator(5))
        ax.set_title(f"{one.name}: median {median:.3g}", fontsize=7.5)
        ax.tick_params(labelleft=i == 0)
        tables += [
            pd.DataFrame({"panel": "band", "label": one.name, "x": x, "low": low, "high": high}),
            pd.DataFrame(
                {"panel": "distances", "label": one.name, "x": edges[:-1], "x_end": edges[1:], "pairs": number}
            ),
            pd.DataFrame({"panel": "median distance", "label": [one.name], "x": [median]}),
        ]
    draw_points(upper, functions[0])
    upper.set_xlim(x[0], x[-1])
    upper.set_ylim(*target_limits(functions, bands, 0.75))
    upper.set_xlabel("input, standardised")
    upper.set_ylabel("target, standardised")
    remarks = "\n".join(f"{one.name}: {one.remark}" for one in functions if one.remark)
    upper.text(0.985, 0.03, remarks, transform=upper.transAxes, ha="right", fontsize=6.5, color=style.GREY)
    axes["0"].set_ylabel("pairs of draws")
    figure.supxlabel(f"2-Wasserstein distance over {len(x):,} inputs, units of the standardised target", fontsize=7.5)
    entries["training rows"] = Line2D([], [], color="black", marker="o", ms=2.5, ls="")
    upper.legend(
        list(entries.values()), list(entries), loc="upper center", ncols=len(entries), bbox_to_anchor=(0.5, 1.14)
    )
    points, targets = training_points(functions[0])
    tables.append(pd.DataFrame({"panel": "training rows", "label": "", "x": points, "target": targets}))
    data = pd.concat(tables, ignore_index=True).astype({"pairs": "Int64"})
    order = ["band", "distances", "median distance", "training rows"]
    data = data.sort_values("panel", key=lambda panel: panel.map(order.index), kind="stable", ignore_index=True)
    return Drawing(figure, data[COLUMNS], names=names(shown))


def _distances(functions: Functions) -> np.ndarray:
    """Distances of all pairs of draws."""
    squares = wasserstein_squared(functions.mean, functions.scale)
    return np.sqrt(squares[np.triu_indices(len(squares), 1)])
