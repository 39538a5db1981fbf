"""Draws of all weights of a network, as lines over the weights."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bnn_atlas.figures import style
from bnn_atlas.figures.page import Drawing, check_fits
from bnn_atlas.figures.shown import Shown, check_titles, panel_title
from bnn_atlas.figures.subsets import NamedDraws, read_named, remarks

KIND = {"sections": ["subset"], "files": ["table"]}

MOST = 8
"""Panels."""
LINES = 50
"""Draws at most, evenly spread."""


def parallel_coordinates(shown: Sequence[Shown]) -> Drawing:
    """Up to 50 draws of each run and split, a line each, over the parameters in the order of their means.

    A panel for each; the black line is the mean. As in appendix F.3 of Shi, Sun and Zhu 2018 (Kernel
    Implicit Variational Inference). Inputs: `subset`, the draws, and `table`, which says whose chains can be trusted.
    """
    check_fits(len(shown), MOST, "runs")
    titles = [f"{panel_title(one)}, {one.dataset_title}" for one in shown]
    check_titles(shown, titles)
    draws = [read_named(one.files["subset"]) for one in shown]
    tables = []
    figure = Figure(figsize=(style.TEXT_WIDTH, 1.35 * len(shown) + 0.3))
    grid = figure.subplots(len(shown), 1, squeeze=False, sharey=True)[:, 0]
    for ax, one, each, title in zip(grid, shown, draws, titles, strict=True):
        lines, names = _ordered(each)
        x = np.arange(1, len(names) + 1)
        ax.plot(x, lines.T, color=style.BLUE, lw=0.4, alpha=0.35)
        ax.plot(x, lines.mean(0), color=style.BLACK, lw=1)
        ax.set_xlim(1, max(len(names), 2))
        ax.set_ylabel("value")
        ax.set_title(title, fontsize=7)
        table = pd.DataFrame(
            {
                "run": one.run,
                "split": one.split,
                "parameter": np.tile(names, len(lines)),
                "place": np.tile(x, len(lines)),
                "line": np.repeat(np.arange(len(lines)), len(names)),
                "value": lines.ravel(),
            }
        )
        tables.append(table)
    grid[-1].set_xlabel("parameter, in the order of the means")
    left_out = remarks({one.label: each.subset for one, each in zip(shown, draws, strict=True)})
    return Drawing(figure, pd.concat(tables, ignore_index=True), names=titles, notes=[left_out])


def _ordered(draws: NamedDraws) -> tuple[np.ndarray, np.ndarray]:
    """Draws [line, parameter] and the labels of the parameters, in the order of the means of these draws."""
    states = draws.values.reshape(-1, draws.values.shape[2])
    places = np.linspace(0, len(states) - 1, min(len(states), LINES)).round().astype(int)
    lines = states[places]
    order = np.argsort(lines.mean(0), kind="stable")
    return lines[:, order], draws.parameters["label"].to_numpy()[order]
