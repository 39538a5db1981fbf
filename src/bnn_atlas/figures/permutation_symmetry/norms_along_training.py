"""Norms of the arrays of networks along their training."""

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bnn_atlas.figures import page, style
from bnn_atlas.figures.page import Drawing, check_fits
from bnn_atlas.figures.permutation_symmetry.pairs import band, over_pairs, read_pairs
from bnn_atlas.figures.shown import Shown

KIND = {"files": ["norms"]}

MOST = 8
"""Arrays that fit beside each other."""


def norms_along_training(shown: Sequence[Shown]) -> Drawing:
    """Euclidean norm of each array after each epoch, a panel per array and a line per label, mean over networks."""
    numbers = norms(shown)
    return Drawing(_figure(numbers), numbers)


def norms(shown: Sequence[Shown]) -> pd.DataFrame:
    """Columns label, array, draw, mean, sd, pairs (here networks); ValueError for more arrays than fit."""
    found = over_pairs(read_pairs(shown, "norms"), ["label", "array", "draw"], "norm")
    check_fits(found["array"].nunique(), MOST, "arrays", "show a smaller network")
    return found.rename(columns={"pairs": "networks"})


def _figure(numbers: pd.DataFrame) -> Figure:
    arrays, labels = list(dict.fromkeys(numbers["array"])), list(dict.fromkeys(numbers["label"]))
    figure, axes = page.panels(len(arrays), 4, 1.5, wide_from=1, more=0.5)
    for ax, array in zip(axes.flat, arrays, strict=False):
        for label, colour in zip(labels, style.chain_colours(len(labels)), strict=True):
            part = numbers[(numbers["array"] == array) & (numbers["label"] == label)]
            band(ax, part, "draw", colour, label=label)
        ax.set_title(array)
        ax.set_xlabel("epoch")
        ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes[0, 0].set_ylabel("norm")
    page.legend_below(figure, dict(zip(*reversed(axes[0, 0].get_legend_handles_labels()), strict=True)))
    return figure
