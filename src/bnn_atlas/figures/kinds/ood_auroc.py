"""How well methods tell test rows from rows of other data sets, by how certain their predictions are."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from bnn_atlas.figures import page, style
from bnn_atlas.figures.axes import fenced_limits
from bnn_atlas.figures.method_looks import Look, method_looks
from bnn_atlas.figures.page import Drawing, check_fits
from bnn_atlas.figures.set_scores import averaged, read_sets, set_titles
from bnn_atlas.figures.shown import Shown

KIND = {"files": ["table", "sets"]}

METRICS = {"auroc_confidence": "by the largest probability", "auroc_entropy": "by predictive entropy"}
MOST = 5
"""Data sets beside each other."""
LEFT = 0.99
"""Where an axis begins at most."""
MARGIN = 0.03
"""Share of an axis on its right, so that marks at 1 are whole."""


def ood_auroc(shown: Sequence[Shown]) -> Drawing:
    """Area under the ROC curve for telling test rows from others, a column per other data set and a line per label.

    Filled marks score rows by their largest probability, white ones by predictive entropy; bars are one standard error
    (over rows, or over seeds and splits where there are several). 0.5 is chance. Numbers are those of `auroc_numbers`.
    """
    numbers = auroc_numbers(shown)
    figure = _figure(numbers, set_titles(shown), method_looks(shown))
    return Drawing(figure, numbers)


def auroc_numbers(shown: Sequence[Shown]) -> pd.DataFrame:
    """Columns label, method, set, metric, value, error, over, repetitions.

    Raises ValueError where a run has no out-of-distribution sets, and for more sets than fit.
    """
    means = averaged(shown, read_sets(shown, list(METRICS)))
    check_fits(means["set"].nunique(), MOST, "out-of-distribution sets", "show fewer runs")
    return means[["label", "method", "set", "metric", "value", "error", "over", "repetitions"]]


def _figure(numbers: pd.DataFrame, titles: Mapping[str, str], looks: Mapping[str, Look]) -> Figure:
    sets = list(dict.fromkeys(numbers["set"]))
    width = style.COLUMN_WIDTH if len(sets) < 3 else style.TEXT_WIDTH
    figure = Figure(figsize=(width, 1.1 + 0.22 * (len(looks) + 1)))
    axes = figure.subplots(1, len(sets), squeeze=False, sharey=True)[0]
    for ax, name in zip(axes, sets, strict=True):
        _panel(ax, numbers[numbers["set"] == name], looks)
        ax.set_title(titles.get(name, name))
        ax.set_xlabel("AUROC")
        ax.tick_params(axis="y", length=0)
    axes[0].set_yticks(range(len(looks)), list(looks))
    axes[0].set_ylim(len(looks) - 0.5, -0.5)
    entries: dict[str, Artist] = {
        text: Line2D([], [], color=style.GREY, marker="o", ms=4, mew=0.9, ls="none", mfc=_face(metric, style.GREY))
        for metric, text in METRICS.items()
    }
    page.legend_below(figure, entries)
    return figure


def _panel(ax: Axes, part: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    """One other data set."""
    for y, (label, look) in enumerate(looks.items()):
        ax.axhline(y, color="#E3E3E3", lw=0.5, zorder=0)
        for place, metric in enumerate(METRICS):
            of_label = part[(part["label"] == label) & (part["metric"] == metric)]
            for value, error in of_label[["value", "error"]].itertuples(index=False):
                ax.errorbar(
                    value, y + 0.26 * (place - 0.5), xerr=error if np.isfinite(error) else None, color=look.colour,
                    marker=look.marker, ms=3.8, mfc=_face(metric, look.colour), mew=0.9, elinewidth=0.8,
                )  # fmt: skip
    low, high = fenced_limits(part["value"].to_numpy(), part["error"].to_numpy(dtype=float), 8.0)
    low = min(low, LEFT)
    high = max(min(high, 1.0), low + 1 - LEFT)
    ax.set_xlim(low, high + MARGIN * (high - low))
    if low < 0.5:
        ax.axvline(0.5, color=style.BLACK, lw=0.6, ls=":")
    ax.xaxis.set_major_locator(MaxNLocator(4))


def _face(metric: str, colour: str) -> str:
    return colour if metric == "auroc_confidence" else "white"
