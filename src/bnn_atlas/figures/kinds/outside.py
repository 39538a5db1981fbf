"""Class predictions on test rows and on rows of other data sets: their certainty, and how well it separates the two."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bnn_atlas.config.parts.evaluation import OUTSIDE, TEST
from bnn_atlas.figures import page, style
from bnn_atlas.figures.axes import fenced_limits
from bnn_atlas.figures.method_looks import draw_mark, label_rows, method_looks
from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.set_scores import averaged, read_sets, set_titles
from bnn_atlas.figures.shown import Shown

KINDS = {
    "entropy_cdf": {
        "files": ["table"], "files_if_any": ["sets"], "task": "classification", "repeats": ["label"],
        "most_other_data": 7, "columns": "label method set metric right value repetitions",
    },
    "entropy_histograms": {
        "files": ["table"], "files_if_any": ["sets"], "task": "classification", "repeats": ["label"],
        "most_other_data": 3, "columns": "label method set metric right value error repetitions",
    },
    "ood_auroc": {
        "files": ["table", "sets"], "task": "classification", "repeats": ["label"], "needs": ["other data"],
        "most_other_data": 5, "columns": "label method set metric value error over repetitions",
    },
}  # fmt: skip

HISTOGRAM = "entropy_histogram"


def entropy_histograms(shown: Sequence[Shown]) -> Drawing:
    """Histograms of the predictive entropy, a row per label, a column for the test rows and one per other data set.

    Entropy is in nats, up to log k for k classes; a triangle at the foot marks the mean. A column has one y axis.
    Columns: label, method, set, metric, right, value, error, repetitions: `value` is the share of rows in the bin
    that ends at the entropy `right`, or the mean entropy (metric `mean`) with its standard error.
    """
    numbers = _entropies(shown)
    sets = list(dict.fromkeys(numbers["set"]))
    looks, titles = method_looks(shown), set_titles(shown)
    figure = Figure(figsize=(style.TEXT_WIDTH, 0.55 * len(looks) + 0.75))
    axes = figure.subplots(len(looks), len(sets), squeeze=False, sharex=True, sharey="col")
    for (label, look), row in zip(looks.items(), axes, strict=True):
        for ax, name in zip(row, sets, strict=True):
            own = numbers[(numbers["set"] == name) & (numbers["label"] == label)]
            bins = own[own["metric"] == "share"].sort_values("right")
            edges = np.array([0.0, *bins["right"]])
            ax.stairs(bins["value"].to_numpy(), edges, color=look.colour, fc=look.fill, fill=True, lw=0.8)
            at_foot = {"clip_on": False, "transform": ax.get_xaxis_transform()}
            for value in own.loc[own["metric"] == "mean", "value"]:
                ax.plot(value, 0, color=look.colour, marker=6, ms=4, mew=0, **at_foot)
            ax.set_xlim(0, float(edges[-1]))
        row[0].set_ylabel("\n".join(label.split(" ")), rotation=0, ha="right", va="center")
    for name, column in zip(sets, axes.T, strict=True):
        column[0].set_title(titles.get(name, name))
        column[0].set_ylim(bottom=0)
        column[-1].set_xlabel("predictive entropy (nats)")
    page.legend_below(figure, {"mean": {"color": style.GREY, "marker": 6, "ls": "none", "ms": 4, "mew": 0}})
    return Drawing(figure, numbers)


def entropy_cdf(shown: Sequence[Shown]) -> Drawing:
    """Share of rows whose predictive entropy is at most x, a panel for the test rows and one per other data set.

    Columns as in `entropy_histograms`, with the share up to `right` in place of that of a bin, and without means.
    """
    numbers = _entropies(shown)
    sets, looks, titles = list(dict.fromkeys(numbers["set"])), method_looks(shown), set_titles(shown)
    numbers = numbers[numbers["metric"] == "share"].sort_values("right", kind="stable").drop(columns="error")
    numbers["value"] = numbers.groupby(["label", "set"])["value"].cumsum()
    figure, axes = page.panels(len(sets), 4, 1.9, wide_from=2, more=0.4, sharex=True, sharey=True)
    for ax, name in zip(axes.flat, sets, strict=True):
        for label, look in looks.items():
            own = numbers[(numbers["set"] == name) & (numbers["label"] == label)]
            ax.plot([0, *own["right"]], [0, *own["value"]], color=look.colour, ls=look.dash)
        ax.set_title(titles.get(name, name))
        ax.set_xlabel("predictive entropy (nats)")
        ax.set_xlim(0, float(numbers["right"].max()))
        ax.set_ylim(0, 1)
    axes[0, 0].set_ylabel("share of rows up to it")
    page.legend_below(figure, {label: {"color": look.colour, "ls": look.dash} for label, look in looks.items()})
    return Drawing(figure, numbers)


def _entropies(shown: Sequence[Shown]) -> pd.DataFrame:
    """Shares of rows in bins of the entropy, and its mean, on the test rows and on other data sets."""
    means = averaged(shown, read_sets(shown, [HISTOGRAM, "predictive_entropy", "predictive_entropy_ood"]))
    means = means[(means["set"] == TEST) | means["set"].str.startswith(OUTSIDE)]
    is_bin = means["metric"] == HISTOGRAM
    right = pd.to_numeric(means["at"].where(is_bin), errors="coerce")
    numbers = means.assign(metric=np.where(is_bin, "share", "mean"), right=right).reset_index(drop=True)
    return numbers[["label", "method", "set", "metric", "right", "value", "error", "repetitions"]]


SCORES = {"auroc_confidence": "by the largest probability", "auroc_entropy": "by predictive entropy"}
LEFT = 0.99
"""Largest value at which an axis begins."""
MARGIN = 0.03
"""Share of an axis added on its right, so that marks at 1 are not cut off."""


def ood_auroc(shown: Sequence[Shown]) -> Drawing:
    """Area under the ROC curve for telling test rows from others, a column per other data set and a line per label.

    Filled marks score rows by their largest probability, white ones by predictive entropy; bars are one standard error
    (over rows, or over seeds and splits if there are several). 0.5 is chance.
    """
    numbers = averaged(shown, read_sets(shown, list(SCORES)))
    sets, looks, titles = list(dict.fromkeys(numbers["set"])), method_looks(shown), set_titles(shown)
    figure, axes = page.panels(len(sets), 5, 1.1 + 0.22 * (len(looks) + 1), wide_from=3, sharey=True)
    for ax, name in zip(axes.flat, sets, strict=True):
        part = numbers[numbers["set"] == name]
        label_rows(ax, looks)
        for y, (label, look) in enumerate(looks.items()):
            for place, metric in enumerate(SCORES):
                of_label = part[(part["label"] == label) & (part["metric"] == metric)]
                for value, error in of_label[["value", "error"]].itertuples(index=False):
                    draw_mark(ax, value, y + 0.26 * (place - 0.5), error, look, is_open=place == 1)
        low, high = fenced_limits(part["value"].to_numpy(), part["error"].to_numpy(dtype=float), 8.0)
        low = min(low, LEFT)
        high = max(min(high, 1.0), low + 1 - LEFT)
        ax.set_xlim(low, high + MARGIN * (high - low))
        if low < 0.5:
            ax.axvline(0.5, color=style.BLACK, lw=0.6, ls=":")
        ax.xaxis.set_major_locator(MaxNLocator(4))
        ax.set_title(titles.get(name, name))
        ax.set_xlabel("AUROC")
    mark = {"color": style.GREY, "marker": "o", "ms": 4, "mew": 0.9, "ls": "none"}
    faces = zip(SCORES.values(), (style.GREY, "white"), strict=True)
    page.legend_below(figure, {text: {**mark, "mfc": face} for text, face in faces})
    return Drawing(figure, numbers[["label", "method", "set", "metric", "value", "error", "over", "repetitions"]])
