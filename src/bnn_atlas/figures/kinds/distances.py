"""Wasserstein distances between the functions of draws: within a chain, and by network."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from bnn_atlas.figures import page, style
from bnn_atlas.figures.functions import (
    Functions,
    distance_bar,
    distance_map,
    draw_points,
    line,
    names,
    pair_table,
    read_functions,
    target_limits,
    training_points,
)
from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.formulas.function_distances import (
    DISTINGUISHABLE,
    Pairs,
    pairs_alike,
    significance,
    wasserstein_squared,
)

KINDS = {
    "wasserstein": {
        "sections": ["functions"], "task": "regression", "needs": ["several draws"], "most": 2,
        "columns": "label chain_a draw_a chain_b draw_b wasserstein_squared z",
    },
    "functional_diversity": {
        "sections": ["functions"],
        "task": "regression",
        "needs": ["one input"],
        "inputs": "line",
        "same": ["dataset"],
        "most": 4,
        "columns": "panel label x low high x_end pairs target",
    },
}  # fmt: skip

MOST_MAPPED = 100
"""Largest number of draws in a map; if there are more, evenly spaced ones are taken."""


def wasserstein(shown: Sequence[Shown]) -> Drawing:
    """A panel per run: squared Wasserstein distances between draws of its first chain, with outlines if |z| < 1.96.

    File: `functions` (function draws). Distances and z are those of `formulas.function_distances`; the title gives the
    share of pairs that are not distinguishable. All panels share their colours.
    """
    functions = [_first_chain(one).at_most(MOST_MAPPED) for one in read_functions(shown)]
    distances = [wasserstein_squared(one.mean, one.scale) for one in functions]
    z = [significance(one.mean, one.scale) for one in functions]
    tables = [pair_table(one, matrix, z=values) for one, matrix, values in zip(functions, distances, z, strict=True)]
    columns = len(functions)
    width = style.COLUMN_WIDTH if columns == 1 else style.TEXT_WIDTH
    side = min(2.6, (width - 1.0) / columns - 0.35)
    figure = Figure(figsize=(width, side + 1.05))
    axes = figure.subplots(1, columns, squeeze=False)[0]
    largest = max(float(matrix.max()) for matrix in distances)
    for ax, one, matrix, values in zip(axes, functions, distances, z, strict=True):
        image = distance_map(ax, one, matrix, largest)
        _outlines(ax, values)
        ax.set_title(_title(one, pairs_alike(values)), fontsize=7)
    distance_bar(axes[-1], image, functions)
    outline = {"color": style.ORANGE, "marker": "s", "ms": 4, "mfc": "none", "mew": 0.7, "ls": ""}
    page.legend_below(figure, {f"not distinguishable, |z| < {DISTINGUISHABLE}": outline})
    return Drawing(figure, pd.concat(tables, ignore_index=True), names=names(shown))


def _first_chain(functions: Functions) -> Functions:
    chosen = functions.only(functions.chain == functions.chain[0])
    if len(chosen.draw) < 2:
        raise ValueError(f"{functions.name}: chain {chosen.chain[0]} has one draw; distances need at least 2")
    return chosen


def _outlines(ax: Axes, z: np.ndarray) -> None:
    """A frame within the cell of each pair of different draws that is not distinguishable."""
    row, column = np.nonzero((np.abs(z) < DISTINGUISHABLE) & ~np.eye(len(z), dtype=bool))
    corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * 0.36
    frames = np.stack([column, row], axis=1)[:, None] + corners
    ax.add_collection(PolyCollection(list(frames), facecolors="none", edgecolors=style.ORANGE, linewidths=0.4))


def _title(functions: Functions, pairs: Pairs) -> str:
    head = f"{functions.name}, chain {functions.chain[0]}"
    if pairs.total == pairs.undefined:
        share = "no z: functions are constant"
    else:
        defined = pairs.total - pairs.undefined
        share = f"{pairs.alike:,} of {defined:,} pairs not distinguishable ({100 * pairs.share:.0f}%)"
        share += f"\n{pairs.undefined:,} pairs without z: constant functions" if pairs.undefined else ""
    return "\n".join(part for part in (head, share, functions.remark) if part)


MOST_DRAWS = 500
"""Largest number of draws of each chain in the histograms."""
BINS = 40
LEVELS = (0.05, 0.95)
COLUMNS = ["panel", "label", "x", "low", "high", "x_end", "pairs", "target"]


def functional_diversity(shown: Sequence[Shown]) -> Drawing:
    """Upper panel: bands of 5 to 95 percent of the mean functions' values, one per network, with the training points.

    Below, a histogram per network of the Wasserstein distances (not squared) between all pairs of its draws, on common
    axes with logarithmic counts. File: `functions` along a line of inputs (function draws). Numbers are columns panel,
    label, x (left edge of a bin, median), x_end, low, high of the band, target, pairs.
    """
    functions = read_functions(shown)
    x = line(functions[0])
    bands = [np.quantile(one.mean, LEVELS, axis=0) for one in functions]
    between = [_distances(one.at_most(MOST_DRAWS)) for one in functions]
    edges = np.linspace(0.0, max(float(part.max()) for part in between) or 1.0, BINS + 1)
    edges[-1] = np.nextafter(edges[-1], np.inf)
    counts = [np.histogram(part, edges)[0] for part in between]
    columns = [str(i) for i in range(len(functions))]
    figure = Figure(figsize=(style.TEXT_WIDTH, 4.3))
    axes = figure.subplot_mosaic([["bands" for _ in columns], list(columns)], height_ratios=(2.3, 1.35))
    tables = []
    entries: dict[str, Any] = {}
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
    squares = wasserstein_squared(functions.mean, functions.scale)
    return np.sqrt(squares[np.triu_indices(len(squares), 1)])
