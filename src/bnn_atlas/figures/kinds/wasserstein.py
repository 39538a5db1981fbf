"""How far apart the functions of a chain's draws are, and which of them cannot be told apart."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bnn_atlas.figures import page, style
from bnn_atlas.figures.functions import (
    Functions,
    distance_bar,
    distance_map,
    names,
    pair_table,
    read_functions,
)
from bnn_atlas.figures.page import Drawing, check_fits
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.formulas.distances import DISTINGUISHABLE, Pairs, pairs_alike, significance, wasserstein_squared

KIND = {"sections": ["functions"]}

MOST_PANELS = 2
MOST_DRAWS = 100
"""Largest number of draws in a map; if there are more, evenly spaced ones are taken."""


def wasserstein(shown: Sequence[Shown]) -> Drawing:
    """A panel per run: squared Wasserstein distances between the draws of its first chain, outlines where |z| < 1.96.

    File: `functions` (function draws). Distances and z are those of `formulas.distances`; the title gives the share
    of pairs that are not distinguishable. All panels share their colours. Raises ValueError for more than two runs,
    for a classification and where the chain has fewer than two draws.
    """
    check_fits(len(shown), MOST_PANELS, "runs")
    functions = [_first_chain(one).at_most(MOST_DRAWS) for one in read_functions(shown)]
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
    outline = Line2D([], [], color=style.ORANGE, marker="s", ms=4, mfc="none", mew=0.7, ls="")
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
        share = f"{pairs.alike:,} of {defined:,} pairs not distinguishable ({100 * pairs.share:.0f} %)"
        share += f"\n{pairs.undefined:,} pairs without z: constant functions" if pairs.undefined else ""
    return "\n".join(part for part in (head, share, functions.remark) if part)
