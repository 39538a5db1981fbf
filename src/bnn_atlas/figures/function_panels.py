"""A panel for the functions of each run, all with the same axes."""

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bnn_atlas.figures.functions import Functions
from bnn_atlas.figures.page import check_fits, panels
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
    figure, axes = panels(
        len(functions), MOST_COLUMNS, height, wide_from=3, more=0.7, even=True, sharex=True, sharey=True
    )
    for place, (ax, one, run) in enumerate(zip(axes.flat, functions, shown, strict=False)):
        panel(ax, one, run)
        ax.set_title(one.name, fontsize=7)
        ax.tick_params(labelbottom=place + axes.shape[1] >= len(functions))
    for ax in axes[:, 0]:
        ax.set_ylabel("target")
    for ax in axes[-1]:
        ax.set_xlabel("input")
    return figure, axes
