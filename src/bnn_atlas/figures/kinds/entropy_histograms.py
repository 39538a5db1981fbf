"""How certain methods are of their test rows and of rows of other data sets."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bnn_atlas.config.parts.evaluation import OUTSIDE, TEST
from bnn_atlas.figures import page, style
from bnn_atlas.figures.method_looks import Look, method_looks
from bnn_atlas.figures.page import Drawing, check_fits
from bnn_atlas.figures.set_scores import averaged, read_sets, set_titles
from bnn_atlas.figures.shown import Shown

KIND = {"files": ["table"], "files_if_any": ["sets"]}

METRIC = "entropy_histogram"
MOST = 4
"""Panels beside each other."""


def entropy_histograms(shown: Sequence[Shown]) -> Drawing:
    """Histogram of the predictive entropy, one panel for the test rows and one per other data set, a line per label.

    Entropy is in nats, up to log k for k classes; triangles at the foot of a panel are the mean of each label. Numbers
    are those of `entropy_numbers`.
    """
    numbers = entropy_numbers(shown)
    figure = _figure(numbers, set_titles(shown), method_looks(shown))
    return Drawing(figure, numbers)


def entropy_numbers(shown: Sequence[Shown]) -> pd.DataFrame:
    """Columns label, method, set, metric, right, value, error, repetitions.

    `value` is the share of rows in the bin that ends at the entropy `right`, or the mean entropy (metric `mean`) with
    its standard error. Sets are the test rows and those out of distribution. Raises ValueError for more sets than fit.
    """
    means = averaged(shown, read_sets(shown, [METRIC, "predictive_entropy", "predictive_entropy_ood"]))
    means = means[(means["set"] == TEST) | means["set"].str.startswith(OUTSIDE)]
    check_fits(means["set"].nunique(), MOST, "sets of rows", "show runs with fewer")
    is_bin = means["metric"] == METRIC
    right = pd.to_numeric(means["at"].where(is_bin), errors="coerce")
    table = means.assign(metric=np.where(is_bin, "share", "mean"), right=right)
    return table[["label", "method", "set", "metric", "right", "value", "error", "repetitions"]].reset_index(drop=True)


def _figure(numbers: pd.DataFrame, titles: Mapping[str, str], looks: Mapping[str, Look]) -> Figure:
    sets = list(dict.fromkeys(numbers["set"]))
    figure = Figure(figsize=(style.TEXT_WIDTH if len(sets) > 1 else style.COLUMN_WIDTH, 2.7))
    axes = figure.subplots(1, len(sets), squeeze=False, sharex=True)[0]
    for ax, name in zip(axes, sets, strict=True):
        _panel(ax, numbers[numbers["set"] == name], looks)
        ax.set_title(titles.get(name, name))
        ax.set_xlabel("predictive entropy (nats)")
    axes[0].set_ylabel("share of rows in a bin")
    entries: dict[str, Artist] = {
        label: Line2D([], [], color=look.colour, ls=look.dash) for label, look in looks.items()
    }
    entries["mean"] = Line2D([], [], color=style.GREY, marker=6, ls="none", ms=4, mew=0)
    page.legend_below(figure, entries)
    return figure


def _panel(ax: Axes, part: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    """One set of rows."""
    for label, look in looks.items():
        own = part[part["label"] == label]
        bins = own[own["metric"] == "share"].sort_values("right")
        edges = np.array([0.0, *bins["right"]])
        ax.stairs(bins["value"].to_numpy(), edges, color=look.colour, ls=look.dash, lw=1.0, baseline=None)
        for value in own.loc[own["metric"] == "mean", "value"]:
            ax.plot(
                value, 0, color=look.colour, marker=6, ms=4, mew=0, clip_on=False, transform=ax.get_xaxis_transform()
            )
        ax.set_xlim(0, float(edges[-1]))
    ax.set_ylim(bottom=0)
    ax.grid(axis="y")
