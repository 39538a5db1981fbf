"""Parts that the panels of the page share."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pandas as pd
from matplotlib.axes import Axes

from bnn_atlas.figures import style
from bnn_atlas.figures.diagnostics.run import Run, plotted

WRONG = style.VERMILION
BAND = style.BLUE


class Panel(NamedTuple):
    """One panel of the page."""

    title: str
    missing: Callable[[Run], str]
    """Why a run does not have it; empty if it does."""
    draw: Callable[[Axes, Run], pd.DataFrame]
    """Draws it and returns the plotted numbers (run.plotted)."""


def bands(ax: Axes, curve: pd.DataFrame, colour: str = BAND) -> None:
    """Quantiles over chains: 5 to 95 and 25 to 75 percent as bands, the median as a line."""
    levels = {q: curve[curve["quantile"] == q].sort_values("x") for q in (0.05, 0.25, 0.5, 0.75, 0.95)}
    for low, high, alpha in ((0.05, 0.95, 0.18), (0.25, 0.75, 0.3)):
        ax.fill_between(levels[low]["x"], levels[low]["value"], levels[high]["value"], color=colour, alpha=alpha, lw=0)
    ax.plot(levels[0.5]["x"], levels[0.5]["value"], color=colour, lw=1.1)


def band_rows(panel: str, curve: pd.DataFrame) -> pd.DataFrame:
    """Bands as plotted numbers."""
    shown = curve[curve["quantile"].isin([0.05, 0.25, 0.5, 0.75, 0.95])]
    series = "quantile " + shown["quantile"].map("{:g}".format)
    return plotted(panel, series, shown["x"], shown["value"])


def remark(ax: Axes, texts: Sequence[str], colour: str = WRONG) -> None:
    """Short remarks inside a panel, at its lower right."""
    text = "\n".join(text for text in texts if text)
    if text:
        box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0}
        ax.text(
            0.985, 0.03, text, transform=ax.transAxes, ha="right", va="bottom", fontsize=6.5, color=colour, bbox=box
        )
