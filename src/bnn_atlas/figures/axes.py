"""Axis limits that ignore a few bad values, readable ticks, colour bars, and marks for published numbers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colorbar import Colorbar
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullFormatter, NullLocator

from bnn_atlas.figures import style
from bnn_atlas.metrics.judgement.checks import RHAT


def fenced_limits(values: np.ndarray, deviations: np.ndarray | None = None, fence: float = 3.0) -> tuple[float, float]:
    """Limits that hold all finite values except those more than `fence` interquartile ranges outside the quartiles.

    The bars +- `deviations` of these values (no bar for NaN) are inside, too. Tukey, Exploratory Data Analysis, 1977
    (outer fences), with a margin; (0, 1) if no value is finite.
    """
    is_finite = np.isfinite(values)
    finite = values[is_finite]
    if not finite.size:
        return 0.0, 1.0
    bars = np.zeros(len(finite)) if deviations is None else np.nan_to_num(deviations[is_finite])
    first, third = np.quantile(finite, (0.25, 0.75))
    reach = fence * (third - first)
    near = (finite >= first - reach) & (finite <= third + reach) if reach > 0 else np.ones(len(finite), dtype=bool)
    low, high = float((finite - bars)[near].min()), float((finite + bars)[near].max())
    margin = 0.06 * (high - low) or 0.05 * max(abs(high), 1e-3)
    return low - margin, high + margin


def score_text(value: float) -> str:
    """A score in three digits, with a true minus and an infinity sign."""
    if np.isinf(value):
        return "\N{MINUS SIGN}\N{INFINITY}" if value < 0 else "\N{INFINITY}"
    return f"{value:.3g}".replace("-", "\N{MINUS SIGN}")


def off_scale_remark(values: np.ndarray, limits: tuple[float, float]) -> str:
    """How many values lie beyond the limits (infinite ones too) and the farthest of them; empty for none."""
    beyond = values[(values < limits[0]) | (values > limits[1])]
    if not beyond.size:
        return ""
    centre = sum(limits) / 2
    farthest = beyond[np.argmax(np.abs(beyond - centre))]
    return f"{beyond.size} off scale, to {score_text(float(farthest))}"


def fence(
    ax: Axes, values: np.ndarray, errors: np.ndarray | None = None, reach: float = 3.0, *, along: str = "y"
) -> tuple[float, float]:
    """Give an axis the limits of `fenced_limits`, with a remark on what they leave out."""
    limits = fenced_limits(values, errors, reach)
    ax.set(**{f"{along}lim": limits})
    remark(ax, [off_scale_remark(values, limits)])
    return limits


def remark(ax: Axes, texts: Sequence[str]) -> None:
    """Write, in small print at its top right, what a panel does not show."""
    ax.set_title("\n".join(text for text in texts if text), loc="right", fontsize=6, color=style.GREY)


def bulk_limits(values: np.ndarray, tail: float = 0.005) -> tuple[float, float] | None:
    """Limits that hold all values no farther from the bulk than its width; None if no value is finite.

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


def count_axis(ax: Axes, largest: int, *, powers_from: int = 1000, steps_from: int = 0) -> None:
    """Logarithmic x axis from 1 to `largest` with whole numbers as ticks.

    There are ticks at powers of ten, below `powers_from` at 1, 2, 5, 10, ..., and below `steps_from` at every number.
    """
    ax.set_xscale("log")
    powers = 10 ** np.arange(len(str(largest)))
    steps = [1] if largest >= powers_from else [1, 2, 5] if largest >= steps_from else np.arange(1, 10)
    ax.xaxis.set_major_locator(FixedLocator([float(t) for t in np.outer(powers, steps).ravel() if t <= largest]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: style.short_count(value)))


def whole_numbers(ax: Axes) -> None:
    """Put the ticks of the x axis at whole numbers, with k for thousands."""
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: style.short_count(value)))


def log_ticks(ax: Axes, low: float, high: float) -> None:
    """Logarithmic y axis whose ticks are plain numbers, at 1, 2, 5 over few decades and at powers of ten over more."""
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


RHATS = (1.001, 1.01, 1.1, 2.0, 11.0, 101.0)


def rhat_axis(ax: Axes, low: float, high: float) -> None:
    """An x axis of log10(R-hat - 1) between two values of R-hat - 1, with ticks at R-hats and a line at their limit."""
    ax.axvline(np.log10(RHAT.look - 1), color=style.GREY, lw=0.8, ls="--")
    ax.set_xlim(np.log10(low), np.log10(high))
    ticks = [tick for tick in RHATS if low <= 1.01 * (tick - 1) and tick - 1 <= 1.01 * high]
    ax.xaxis.set_major_locator(FixedLocator([float(np.log10(tick - 1)) for tick in ticks]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xticklabels([f"{tick:g}" for tick in ticks])


def colour_bar(of: ScalarMappable, ax: Axes, label: str = "", **place: Any) -> Colorbar:
    """A colour bar without a frame, next to a panel and as high, or placed as `place` says (see `Figure.colorbar`)."""
    where = {"ax": ax, **place} if place else {"cax": ax.inset_axes((1.04, 0, 0.05, 1))}
    bar = ax.figure.colorbar(of, **where)
    bar.outline.set_visible(False)
    bar.set_label(label)
    return bar


PUBLISHED: dict[str, Any] = {"color": style.BLACK, "marker": "d", "ls": "none", "ms": 4, "mfc": "none", "mew": 0.9}
PUBLISHED_LABEL = "published ± sd (where given)"
"""How published numbers look, here and in legends: open black marks, with the deviation that the paper gives."""


def mark_published(ax: Axes, x: float, y: float, *, x_sd: float | None = None, y_sd: float | None = None) -> None:
    """Draw a published number with its bar."""
    ax.errorbar(x, y, xerr=x_sd, yerr=y_sd, elinewidth=0.8, ecolor=style.BLACK, zorder=6, clip_on=False, **PUBLISHED)


def published_handle() -> Line2D:
    """The entry for published numbers in a legend."""
    return Line2D([], [], **PUBLISHED)
