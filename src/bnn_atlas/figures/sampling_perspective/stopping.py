"""When the evidence that a chain predicts better than its warm start is enough to stop."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from bnn_atlas.figures import style
from bnn_atlas.figures.diagnostics.looks import chain_colours, count_axis
from bnn_atlas.figures.sampling_perspective.functions import names
from bnn_atlas.figures.shown import Shown
from bnn_atlas.figures.style import FigureOutputs
from bnn_atlas.metrics.e_value_table import read_e_values
from bnn_atlas.provenance import Provenance

MOST_PANELS = 3
MANY = 20
"""Chains beyond which lines are thinner and carry no dots."""
MOST_POINTS = 500
"""Points of a drawn line; of more draws some are taken, evenly spaced on a logarithmic scale, crossings always."""


class Evidence(NamedTuple):
    """E-values of a run."""

    name: str
    alpha: float
    chains: dict[int, pd.DataFrame]
    """Number -> draw (counted from 1) and log_e, in order of the draws."""

    @property
    def threshold(self) -> float:
        """log(1 / alpha)."""
        return -math.log(self.alpha)

    @property
    def crossings(self) -> dict[int, int | None]:
        """Number of a chain -> first draw with log E >= log(1 / alpha), None where there is none."""
        found = {chain: part.loc[part["log_e"] >= self.threshold, "draw"] for chain, part in self.chains.items()}
        return {chain: int(draws.iloc[0]) if len(draws) else None for chain, draws in found.items()}

    @property
    def last(self) -> int:
        """The last draw of the longest chain."""
        return max(int(part["draw"].iloc[-1]) for part in self.chains.values())

    @classmethod
    def read(cls, path: Path, name: str) -> Self:
        """Read the file; ValueError where it is something else or has no rows."""
        table, alpha = read_e_values(path)
        if table.empty:
            raise ValueError(f"{path}: there are no E-values; look whether the run has draws")
        if not 0 < alpha < 1:
            raise ValueError(f"{path}: alpha = {alpha:g}; a level lies between 0 and 1")
        columns = {chain: table.loc[table["chain"] == chain, ["draw", "log_e"]] for chain in table["chain"].unique()}
        return cls(name, alpha, {int(chain): part for chain, part in columns.items()})


def stopping_rule(shown: Sequence[Shown], outputs: FigureOutputs, provenance: Provenance) -> None:
    """Log E-value of each chain against its draws, the line at which it is enough, and below it where each one is.

    File: `e_values` (metrics.e_value_table); logarithms are natural. Values that are infinite or not a number leave a
    gap and a remark; +inf is enough to stop, NaN is not. A column of panels per run, at most three. Raises ValueError
    for a file of something else or without rows.
    """
    if len(shown) > MOST_PANELS:
        raise ValueError(f"{len(shown)} runs: at most {MOST_PANELS} fit beside each other; name fewer in `runs`")
    runs = [Evidence.read(run.files["e_values"], name) for run, name in zip(shown, names(shown), strict=True)]
    drawn = [{chain: _thinned(part, one.crossings[chain]) for chain, part in one.chains.items()} for one in runs]
    data = pd.concat([_table(one, parts) for one, parts in zip(runs, drawn, strict=True)], ignore_index=True)
    with style.context():
        figure = _page(runs, drawn)
        style.save(figure, data, outputs, provenance)


def _thinned(part: pd.DataFrame, crossing: int | None) -> pd.DataFrame:
    """The points of a chain that are drawn."""
    if len(part) <= MOST_POINTS:
        return part
    chosen = np.unique(np.geomspace(1, len(part), MOST_POINTS).round().astype(np.int64)) - 1
    extra = np.flatnonzero(part["draw"].to_numpy() == crossing)
    return part.iloc[np.union1d(chosen, extra)]


def _page(runs: Sequence[Evidence], drawn: Sequence[dict[int, pd.DataFrame]]) -> Figure:
    columns = len(runs)
    strip = max(min(0.3 + 0.07 * max(len(one.chains) for one in runs), 1.6), 0.6)
    width = style.COLUMN_WIDTH if columns == 1 else style.TEXT_WIDTH
    figure = Figure(figsize=(width, 2.0 + strip + 0.85))
    axes = figure.subplots(2, columns, squeeze=False, sharex="col", height_ratios=(2.0, strip))
    for (upper, lower), one, parts in zip(axes.T, runs, drawn, strict=True):
        colours = dict(zip(one.chains, chain_colours(len(one.chains)), strict=True))
        _lines(upper, one, parts, colours)
        _stops(lower, one, colours)
        count_axis(lower, one.last)
        lower.set_xlim(0.93, max(one.last, 2) * 1.1)
        lower.set_xlabel("draws per chain")
        upper.set_title(_title(one), fontsize=7)
    axes[0, 0].set_ylabel("log E-value")
    axes[1, 0].set_ylabel("chain")
    entries: dict[str, Artist] = {
        "reaches 1/\N{GREEK SMALL LETTER ALPHA}": Line2D([], [], color=style.GREY, marker="o", ms=3.5, ls=""),
        "does not reach it": Line2D([], [], color=style.GREY, marker="o", mfc="white", ms=3.5, ls=""),
        "log(1/\N{GREEK SMALL LETTER ALPHA})": Line2D([], [], color="black", ls=(0, (4, 1.5)), lw=1.0),
    }
    style.legend_below(figure, entries)
    return figure


def _lines(ax: Axes, one: Evidence, parts: dict[int, pd.DataFrame], colours: dict[int, str]) -> None:
    ax.grid(axis="y")
    many = len(parts) > MANY
    for chain, part in parts.items():
        values = part["log_e"].to_numpy(dtype=np.float64)
        seen = np.where(np.isfinite(values), values, np.nan)
        single = "o" if np.isfinite(values).sum() == 1 else ""
        ax.plot(part["draw"], seen, color=colours[chain], lw=0.5 if many else 0.9, alpha=0.9, marker=single, ms=2)
        crossing = one.crossings[chain]
        height = seen[part["draw"].to_numpy() == crossing]
        if crossing is not None and not many and np.isfinite(height).any():
            ax.plot(crossing, height[0], "o", color=colours[chain], ms=3.5, mec="white", mew=0.4, zorder=3)
    ax.axhline(one.threshold, color="black", ls=(0, (4, 1.5)), lw=1.0)
    _value_axis(ax, one, parts)
    if texts := _remarks(one):
        box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0}
        ax.text(0.02, 0.03, "\n".join(texts), transform=ax.transAxes, fontsize=6.5, color=style.GREY, bbox=box)


def _remarks(one: Evidence) -> list[str]:
    """What is not drawn, in words."""
    marks: dict[str, Callable[[pd.Series], Any]] = {
        "\N{INFINITY}": np.isposinf, "\N{MINUS SIGN}\N{INFINITY}": np.isneginf, "not a number": np.isnan
    }  # fmt: skip
    texts = []
    for mark, test in marks.items():
        starts = [int(part["draw"].iloc[int(test(part["log_e"]).argmax())])
                  for part in one.chains.values() if test(part["log_e"]).any()]  # fmt: skip
        if starts:
            word = "chain" if len(starts) == 1 else "chains"
            first = "" if len(starts) == 1 else "first "
            texts.append(f"{len(starts)} {word} {mark}, {first}from draw {style.thousands(min(starts))}")
    return texts


def _value_axis(ax: Axes, one: Evidence, parts: dict[int, pd.DataFrame]) -> None:
    """Linear near the threshold, logarithmic far from it on either side where values go there."""
    values = np.concatenate([part["log_e"].to_numpy(dtype=np.float64) for part in parts.values()])
    values = np.append(values[np.isfinite(values)], (0.0, one.threshold))
    low, high = float(values.min()), float(values.max())
    if max(-low, high) <= 15 * one.threshold:
        margin = 0.06 * (high - low)
        ax.set_ylim(low - margin, high + margin)
        ax.yaxis.set_major_locator(MaxNLocator(6))
    else:
        linear = 10.0 ** math.ceil(math.log10(one.threshold))
        ax.set_yscale("symlog", linthresh=linear)
        ax.set_ylim(min(1.6 * low, -0.15 * linear), max(1.6 * high, 1.3 * one.threshold))
        decades = [linear * 10.0**power for power in range(20)]
        ticks = [0.0, *decades, *(-tick for tick in decades)]
        inside = sorted(tick for tick in ticks if ax.get_ylim()[0] <= tick <= ax.get_ylim()[1])
        ax.yaxis.set_major_locator(
            FixedLocator(inside if len(inside) <= 9 else [t for t in inside if _even(t, linear)])
        )
        ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _signed(value)))


def _even(tick: float, linear: float) -> bool:
    """Whether a tick is 0 or an even number of decades beyond the first."""
    return tick == 0 or round(math.log10(abs(tick) / linear)) % 2 == 0


def _signed(value: float) -> str:
    return f"\N{MINUS SIGN}{style.short_count(-value)}" if value < 0 else style.short_count(value)


def _stops(ax: Axes, one: Evidence, colours: dict[int, str]) -> None:
    """A dot per chain where it reaches 1 / alpha, an open one at its end where it does not."""
    count = len(colours)
    for place, (chain, crossing) in enumerate(one.crossings.items()):
        end = int(one.chains[chain]["draw"].iloc[-1])
        fill = colours[chain] if crossing is not None else "white"
        ax.plot(crossing or end, place, "o", color=colours[chain], mfc=fill, ms=2 if count > MANY else 3.2, mew=0.7)
    places = np.unique(np.linspace(0, count - 1, min(count, 4)).round().astype(np.int64))
    ax.set_yticks(places, [str(list(colours)[place]) for place in places])
    ax.set_ylim(-0.7, count - 0.3)


def _title(one: Evidence) -> str:
    stops = [draw for draw in one.crossings.values() if draw is not None]
    level = 1 / one.alpha
    enough = style.thousands(level) if level >= 1000 else f"{level:.3g}"
    text = f"{one.name}: {len(stops)} of {len(one.chains)} chains reach {enough}"
    if not stops:
        return f"{text}\n \nthe rule ends no chain"
    low, high = min(stops), max(stops)
    where = f"draw {low:,}" if low == high else f"draws {low:,} to {high:,} (median {np.median(stops):,.4g})"
    end = "ends no chain" if len(stops) < len(one.chains) else f"ends all chains after draw {high:,}"
    return f"{text}\nat {where}\nthe rule {end}"


def _table(one: Evidence, parts: dict[int, pd.DataFrame]) -> pd.DataFrame:
    """Plotted numbers: label, alpha, chain, crossing (its draw; empty where there is none), draw, log_e."""
    rows = [
        part.assign(label=one.name, alpha=one.alpha, chain=chain, crossing=one.crossings[chain])
        for chain, part in parts.items()
    ]
    table = pd.concat(rows, ignore_index=True).astype({"crossing": "Int64"})
    return table[["label", "alpha", "chain", "crossing", "draw", "log_e"]]
