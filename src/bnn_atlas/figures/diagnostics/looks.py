"""Colours of chains, and the parts that panels share."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullFormatter, NullLocator

from bnn_atlas.figures import style
from bnn_atlas.figures.diagnostics.run import Run, plotted

FEW = (style.BLUE, style.ORANGE, style.GREEN, style.PURPLE, style.SKY, style.BLACK)
"""Colours of up to six chains; vermilion is kept for what went wrong."""
WRONG = style.VERMILION
BAND = style.BLUE


class Panel(NamedTuple):
    """One panel of the page."""

    title: str
    missing: Callable[[Run], str]
    """Why a run does not have it; empty if it does."""
    draw: Callable[[Axes, Run], pd.DataFrame]
    """Draws it and returns the plotted numbers (run.plotted)."""


def chain_colours(count: int) -> list[Any]:
    """One colour per chain: distinct ones for up to six, else along a colour map."""
    if count <= len(FEW):
        return list(FEW[:count])
    return [mpl.colormaps["viridis"](place) for place in np.linspace(0.0, 0.92, count)]


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


def robust_limits(values: np.ndarray, tail: float = 0.005) -> tuple[float, float] | None:
    """Limits that hold everything but values farther out than the bulk is wide; None where nothing is finite.

    The bulk leaves out a share `tail` of the values at each end.
    """
    finite = values[np.isfinite(values)]
    if not finite.size:
        return None
    low, high = np.quantile(finite, (tail, 1 - tail))
    wide = high - low
    low, high = max(finite.min(), low - wide), min(finite.max(), high + wide)
    margin = 0.06 * (high - low) or 0.5 * max(abs(high), 1e-12)
    return float(low - margin), float(high + margin)


def count_axis(ax: Axes, largest: int) -> None:
    """Logarithmic x axis from 1 to `largest` with whole numbers as ticks."""
    ax.set_xscale("log")
    powers = 10 ** np.arange(len(str(largest)))
    steps = [1] if largest >= 1000 else [1, 2, 5]
    ax.xaxis.set_major_locator(FixedLocator([float(t) for t in np.outer(powers, steps).ravel() if t <= largest]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: style.short_count(value)))


def whole_numbers(ax: Axes) -> None:
    """Ticks of the x axis at whole numbers, thousands as k."""
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: style.short_count(value)))


def log_ticks(ax: Axes, low: float, high: float) -> None:
    """Logarithmic y axis whose ticks are plain numbers, at 1, 2, 5 within few decades and at powers of ten beyond."""
    ax.set_yscale("log")
    ax.set_ylim(low, high)
    decades = np.log10(high / low)
    steps = [1, 2, 5] if decades < 2.5 else [1]
    every = 1 if decades < 6 else 2
    powers = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1, every)
    ax.yaxis.set_major_locator(FixedLocator([t for t in np.outer(powers, steps).ravel() if low <= t <= high]))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.yaxis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:g}" if value < 1000 else style.short_count(value))
    )


def remark(ax: Axes, texts: Sequence[str], colour: str = WRONG) -> None:
    """Short remarks inside a panel, at its lower right."""
    text = "\n".join(text for text in texts if text)
    if text:
        box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0}
        ax.text(
            0.985, 0.03, text, transform=ax.transAxes, ha="right", va="bottom", fontsize=6.5, color=colour, bbox=box
        )
