"""A panel for the functions of each run, all with the same axes."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bnn_atlas.figures import style
from bnn_atlas.figures.functions import Functions
from bnn_atlas.figures.page import check_fits
from bnn_atlas.figures.shown import Shown

MOST = 12
"""Panels of a figure."""
MOST_COLUMNS = 4


def function_panels(
    functions: Sequence[Functions],
    shown: Sequence[Shown],
    panel: Callable[[Axes, Functions, Shown], None],
    *,
    height: float,
) -> tuple[Figure, np.ndarray]:
    """Draw `panel(ax, functions, run)` for each run, and return the figure and its axes [rows, columns].

    `height` is that of a row, in inches. Places without a run are left empty. Raises ValueError for more than fit.
    """
    check_fits(len(functions), MOST, "runs")
    rows = math.ceil(len(functions) / MOST_COLUMNS)
    columns = math.ceil(len(functions) / rows)  # as even as rows can be: five are three and two
    width = style.COLUMN_WIDTH if columns < 3 else style.TEXT_WIDTH
    figure = Figure(figsize=(width, height * rows + 0.7))
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for place, (ax, one, run) in enumerate(zip(axes.flat, functions, shown, strict=False)):
        panel(ax, one, run)
        ax.set_title(one.name, fontsize=7)
        ax.tick_params(labelbottom=place + columns >= len(functions))
    for ax in axes[:, 0]:
        ax.set_ylabel("target")
    for ax in axes[-1]:
        ax.set_xlabel("input")
    for ax in axes.flat[len(functions) :]:
        ax.set_visible(False)
    return figure, axes
