"""Panels of a sweep: a metric against a field, a line per label, open marks for chains that have not converged.

Published numbers, which may be for other data than the runs use, are open black marks with their own name.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from bnn_atlas.config.methods.base import KindOfDraws
from bnn_atlas.config.methods.registry import method
from bnn_atlas.figures import style
from bnn_atlas.figures.axes import fenced_limits, log_ticks, off_scale_remark, remark
from bnn_atlas.figures.xy.table import MONTE_CARLO, Field
from bnn_atlas.metrics.judgement.trust import MOST_ABOVE, RHAT_LIMIT
from bnn_atlas.published import Number

FAINT = (0, (1, 1.2))
"""Dashes of a panel's second metric."""
LEVEL = (0, (3, 1.5))
"""Dashes of lines that do not vary along the x axis."""
LOST: dict[str, Any] = {"color": style.VERMILION, "marker": "x", "ls": "none", "ms": 4, "mew": 1.0, "zorder": 5}
"""Marks of runs without a value."""
BARS = {
    MONTE_CARLO: "Monte Carlo error",
    "chains": "standard error over chains",
    "seeds": "standard error over seeds",
    "splits": "standard error over splits",
    "rows": "standard error over test rows",
}
"""What an error is taken over -> text in the legend."""
FENCE = 8.0
"""Interquartile ranges from the quartiles within which a value sets the axis."""
OPEN = f"open: R-hat above {RHAT_LIMIT} for over {MOST_ABOVE:.0%} of function values"
NONE_LEFT = "cross: no chain moved, or none is finite"
WORST = "dotted: the worst value"


class Panel(NamedTuple):
    """What one panel shows."""

    metric: str
    label: str
    """Text at the y axis."""
    second: str | None = None
    """A second metric in the same panel, drawn faintly and without bars."""
    second_text: str = WORST
    """Text in the legend for the second metric."""
    is_log: bool = False
    limit: float | None = None
    """A value with a grey line."""

    @property
    def metrics(self) -> list[str]:
        """Names of its metrics."""
        return [self.metric, *([self.second] if self.second else [])]


class Look(NamedTuple):
    """How a label is drawn."""

    line: style.Line
    level: bool
    """Whether it does not vary along the x axis and is a level line."""


def looks_of(table: pd.DataFrame, levels: Sequence[KindOfDraws]) -> dict[str, Look]:
    """Look of each label; methods whose draws are of a kind in `levels` are level lines."""
    labels = table.drop_duplicates("label")
    lines = style.lines(list(labels["method"]))
    return {
        label: Look(line, method(kind).kind_of_draws in levels)
        for label, kind, line in zip(labels["label"], labels["method"], lines, strict=True)
    }


def draw_panel(
    ax: Axes,
    panel: Panel,
    field: Field,
    table: pd.DataFrame,
    published: pd.DataFrame,
    looks: Mapping[str, Look],
) -> None:
    """Draw the rows of a panel's metrics, and the published numbers for its first metric."""
    ax.grid(axis="y")
    places = _places(field, table, published)
    for metric, faint in zip(panel.metrics, (False, True), strict=False):
        for label, part in table[table["metric"] == metric].groupby("label", sort=False):
            _line(ax, part, looks[str(label)], faint, places)
    theirs = published[published["metric"] == panel.metric]
    looks_of_theirs = published_looks(published)
    for label, part in theirs.groupby("label", sort=False):
        x = [places[word] for word in part["x"]] if places else part["x"].astype(float)
        ax.plot(x, part["value"], **looks_of_theirs[str(label)], clip_on=False, zorder=6)
    if panel.limit is not None:
        ax.axhline(panel.limit, color=style.GREY, lw=0.7, ls=":", zorder=0)
    _y_limits(ax, panel, table, published)
    _x_axis(ax, field, table, theirs, places)
    ax.set_ylabel(panel.label)


def legend_entries(panels: Sequence[Panel], table: pd.DataFrame, looks: Mapping[str, Look]) -> dict[str, Artist]:
    """Labels, faint lines, open marks and bars."""
    entries: dict[str, Artist] = {}
    for label in dict.fromkeys(table["label"]):
        look = looks[str(label)]
        dash, marker = (LEVEL, "") if look.level else (look.line.dash, look.line.marker)
        entries[str(label)] = Line2D([], [], color=look.line.colour, ls=dash, marker=marker, ms=3.4, lw=1.0)
    drawn = table[~table["label"].isin([label for label, look in looks.items() if look.level])]
    if not drawn["converged"].all():
        look_open: dict[str, Any] = {"marker": "o", "mfc": "white", "ms": 3.4, "mew": 0.9}
        entries[OPEN] = Line2D([], [], color=style.GREY, ls="none", **look_open)
    if drawn["value"].isna().any():
        entries[NONE_LEFT] = Line2D([], [], **LOST)
    for panel in panels:
        if panel.second in set(drawn["metric"]):
            entries[panel.second_text] = Line2D([], [], color=style.GREY, ls=FAINT, lw=0.8, marker="o", ms=2.2)
    first = drawn[drawn["metric"].isin([panel.metric for panel in panels])]
    if bars := [BARS[over] for over in dict.fromkeys(first.loc[first["error"].notna(), "error_over"])]:
        entries[f"bars: ±1 {' or '.join(bars)}"] = Line2D([], [], color=style.GREY, marker="|", ls="none", ms=7)
    return entries


def _line(ax: Axes, part: pd.DataFrame, look: Look, faint: bool, places: dict[str, float] | None) -> None:
    """One label: marks with bars and the line through them, or a level line; infinite values at the edge."""
    value, error = (part[name].to_numpy(dtype=float) for name in ("value", "error"))
    if look.level:
        if not faint and np.isfinite(value[0]):
            ax.axhline(value[0], color=look.line.colour, ls=LEVEL, lw=1.0, zorder=1)
            if np.isfinite(error[0]) and part["error_over"].iloc[0] == MONTE_CARLO:
                ends = value[0] - error[0], value[0] + error[0]
                ax.axhspan(*ends, color=look.line.colour, alpha=0.12, lw=0, zorder=0)
        return
    x = np.array([places[each] for each in part["x"]]) if places else part["x"].to_numpy(dtype=float)
    order = np.argsort(x, kind="stable")
    x, value, error, converged = x[order], value[order], error[order], part["converged"].to_numpy()[order]
    seen = np.where(np.isfinite(value), value, np.nan)
    colour, dash = look.line.colour, FAINT if faint else look.line.dash
    if places is None:
        ax.plot(x, seen, color=colour, ls=dash, lw=0.8 if faint else 1.0, zorder=2)
    if not faint:
        ax.errorbar(x, seen, np.nan_to_num(error), color=colour, ls="none", elinewidth=0.8, zorder=3)
    lost = x[np.isnan(value) & (part["repetitions"].to_numpy()[order] > 0)]
    if not faint and len(lost):
        ax.plot(lost, np.full(len(lost), 0.03), **LOST, transform=ax.get_xaxis_transform())
    size, edge = (2.2, 0.6) if faint else (3.4, 0.9)
    for is_open in (False, True):
        chosen = converged != is_open
        fill = "white" if is_open else colour
        ax.plot(
            x[chosen], seen[chosen], color=colour, marker=look.line.marker, ls="none", ms=size, mfc=fill, mew=edge,
            zorder=4,
        )  # fmt: skip
        for infinite, height, marker in ((np.isneginf(value), 0.03, "v"), (np.isposinf(value), 0.97, "^")):
            ax.plot(
                x[chosen & infinite], np.full((chosen & infinite).sum(), height), color=colour, marker=marker,
                ls="none", ms=size + 1, mfc=fill, mew=edge, transform=ax.get_xaxis_transform(), zorder=4,
            )  # fmt: skip


def _y_limits(ax: Axes, panel: Panel, table: pd.DataFrame, published: pd.DataFrame) -> None:
    rows = table[table["metric"].isin(panel.metrics)]
    theirs = published.loc[published["metric"] == panel.metric, "value"].to_numpy(dtype=float)
    value = rows["value"].to_numpy(dtype=float)
    error = np.nan_to_num(rows["error"].where(rows["metric"] == panel.metric).to_numpy(dtype=float))
    ends = np.concatenate([value - error, value + error, theirs])
    ends = ends[np.isfinite(ends)]
    if panel.is_log:
        positive = [*ends[ends > 0], *([panel.limit] if panel.limit else [])]
        if positive:
            log_ticks(ax, min(positive) / 1.15, max(positive) * 1.15)
        return
    values = np.concatenate([value, theirs])
    limits = fenced_limits(values, np.concatenate([error, np.zeros(len(theirs))]), FENCE)
    ax.set_ylim(limits)
    remark(ax, [off_scale_remark(values, limits)])


def _x_axis(
    ax: Axes, field: Field, table: pd.DataFrame, published: pd.DataFrame, places: dict[str, float] | None
) -> None:
    ax.set_xlabel(field.label)
    if places is not None and field.categories is not None:
        ax.set_xticks(list(places.values()), [field.categories[word] for word in places])
        ax.set_xlim(-0.5, len(places) - 0.5)
        return
    x = np.concatenate([table["x"].astype(float), published["x"].astype(float), field.marks])
    x = np.unique(x[np.isfinite(x)])
    for mark in field.marks:
        ax.axvline(mark, color=style.GREY, lw=0.6, ls=":", zorder=0)
    if field.is_log:
        ax.set_xscale("log")
        margin = (x[-1] / x[0]) ** 0.06 if len(x) > 1 else 1.5
        ax.set_xlim(x[0] / margin, x[-1] * margin)
        if x[-1] / x[0] < 30:
            _plain_ticks(ax, x[0] / margin, x[-1] * margin)
    else:
        margin = 0.06 * (x[-1] - x[0]) or 0.5
        ax.set_xlim(x[0] - margin, x[-1] + margin)


def _plain_ticks(ax: Axes, low: float, high: float) -> None:
    """Ticks at 1, 2, 5, ... as plain numbers, for a logarithmic x axis of few decades."""
    powers = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    ticks = [tick for tick in np.outer(powers, [1, 2, 5]).ravel() if low <= tick <= high]
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _plain(value)))


def _plain(value: float) -> str:
    """The number in short, such as `0.125`, or `1e-6` instead of `1e-06`."""
    return re.sub(r"e([-+])0*", r"e\1", f"{value:g}").replace("e+", "e")


def _places(field: Field, table: pd.DataFrame, published: pd.DataFrame) -> dict[str, float] | None:
    """Word in the field -> place on the x axis, in the field's order; None for numbers."""
    if field.categories is None:
        return None
    found = {*table["x"], *published["x"]}
    return {word: float(i) for i, word in enumerate(word for word in field.categories if word in found)}


MARKERS = ("d", "s", "^")
"""Marks of the published numbers of each label, in their order."""


def published_rows(numbers: Sequence[Number], field: str, metrics: Sequence[str]) -> pd.DataFrame:
    """Published numbers as rows of the CSV: field, label, x (a number or a word), metric, value, approximate."""
    read_off = {one.label: one.read_off is not None for one in reversed(numbers)}
    rows = [
        {
            "field": field, "label": f"published, {label}{' (~)' if read_off[label] else ''}", "x": _x(one.x),
            "metric": metric, "value": float(one.value), "approximate": read_off[label],
        }
        for label in dict.fromkeys(one.label for one in numbers)
        for metric in metrics
        for one in numbers
        if (one.label, one.metric) == (label, metric)
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["field", "label", "x", "metric", "value", "approximate"])


def published_looks(rows: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Look of each label, for its marks and the legend."""
    return {
        label: {"color": style.BLACK, "marker": marker, "ls": "none", "ms": 4, "mfc": "none", "mew": 0.9}
        for label, marker in zip(dict.fromkeys(rows["label"]), MARKERS, strict=False)
    }


def _x(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
