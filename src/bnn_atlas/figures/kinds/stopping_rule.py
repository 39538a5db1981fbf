"""When there is enough evidence to stop: a chain predicts better than its warm start."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bnn_atlas.figures import page, style
from bnn_atlas.figures.axes import compress_beyond, count_axis
from bnn_atlas.figures.functions import names
from bnn_atlas.figures.page import Drawing, check_fits
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.tables.parquet import read_e_values

KIND = {"files": ["e_values"], "needs": ["chains"], "most": 2}

MOST_RUNS = 2
REFERENCES = {"log_e": "own warm start", "log_e_ensemble": "ensemble of all warm starts"}
"""Column of the file -> what a chain is compared with."""
LINEAR = 10.0
"""Powers of ten within which the axis is linear."""
TEN = math.log(10)
LEVEL = "1/\N{GREEK SMALL LETTER ALPHA}"
THRESHOLD: dict[str, Any] = {"color": "black", "ls": (0, (4, 1.5)), "lw": 1.0}
MANY = 20
"""Number of chains above which lines are thinner and carry no dots."""
MOST_POINTS = 500
"""Points of a drawn line; if there are more draws, it has some, evenly spaced on a log scale, and all crossings."""


class Evidence(NamedTuple):
    """E-values of a run against one reference."""

    name: str
    reference: str
    alpha: float
    chains: dict[int, pd.DataFrame]
    """Number -> draw (counted from 1) and log_e, in order of the draws."""

    @property
    def threshold(self) -> float:
        """log(1 / alpha)."""
        return -math.log(self.alpha)

    @property
    def crossings(self) -> dict[int, int | None]:
        """Number of a chain -> first draw with log E >= log(1 / alpha); None if there is none."""
        reaching = {chain: part.loc[part["log_e"] >= self.threshold, "draw"] for chain, part in self.chains.items()}
        return {chain: int(draws.iloc[0]) if len(draws) else None for chain, draws in reaching.items()}

    @property
    def last(self) -> int:
        """The last draw of the longest chain."""
        return max(int(part["draw"].iloc[-1]) for part in self.chains.values())

    @classmethod
    def read(cls, path: Path, name: str) -> list[Self]:
        """Read the file, one `Evidence` per reference; ValueError if it is something else or has no rows."""
        table, alpha = read_e_values(path)
        if table.empty:
            raise ValueError(f"{path}: there are no E-values; check whether the run has draws")
        if not 0 < alpha < 1:
            raise ValueError(f"{path}: alpha = {alpha:g}; a level lies between 0 and 1")
        found = []
        for column, reference in REFERENCES.items():
            values = pd.DataFrame({"chain": table["chain"], "draw": table["draw"], "log_e": table[column]})
            each = {chain: values.loc[values["chain"] == chain] for chain in values["chain"].unique()}
            chains = {int(chain): part[["draw", "log_e"]] for chain, part in each.items()}
            found.append(cls(name, reference, alpha, chains))
        return found


def stopping_rule(shown: Sequence[Shown]) -> Drawing:
    """Log10 E-value of each chain against its draws, with the level to stop at; below, where each chain reaches it.

    A column of panels per run and reference: the chain's own warm start, by which chains stop, and the ensemble of all
    warm starts. Logarithms are to base 10 in the picture and natural in the CSV. Values that are infinite or not a
    number leave a gap and a remark; +inf is enough to stop, NaN is not. Raises ValueError for a file that holds
    something else or no rows, and for more runs than fit.
    """
    check_fits(len(shown), MOST_RUNS, "runs")
    read = [Evidence.read(run.files["e_values"], name) for run, name in zip(shown, names(shown), strict=True)]
    runs = [one for both in read for one in both]
    extra = {one.name: _crossings(both) for both in read for one in both}
    drawn = [{chain: _thinned(part, extra[one.name][chain]) for chain, part in one.chains.items()} for one in runs]
    tables = [_table(both[0], both[1], drawn[2 * i : 2 * i + 2]) for i, both in enumerate(read)]
    data = pd.concat(tables, ignore_index=True)
    figure = _page(runs, drawn)
    return Drawing(figure, data, names=names(shown))


def _crossings(both: Sequence[Evidence]) -> dict[int, list[int]]:
    """The draws at which each chain of a run reaches the level, against either reference."""
    return {chain: [draw for one in both if (draw := one.crossings[chain])] for chain in both[0].chains}


def _thinned(part: pd.DataFrame, crossings: Sequence[int]) -> pd.DataFrame:
    """The points of a chain that are drawn, the same against each reference."""
    if len(part) <= MOST_POINTS:
        return part
    chosen = np.unique(np.geomspace(1, len(part), MOST_POINTS).round().astype(np.int64)) - 1
    extra = np.flatnonzero(np.isin(part["draw"].to_numpy(), crossings))
    return part.iloc[np.union1d(chosen, extra)]


def _page(runs: Sequence[Evidence], drawn: Sequence[dict[int, pd.DataFrame]]) -> Figure:
    columns = len(runs)
    strip = max(min(0.3 + 0.07 * max(len(one.chains) for one in runs), 1.6), 0.6)
    figure = Figure(figsize=(style.TEXT_WIDTH, 2.0 + strip + 0.85))
    axes = figure.subplots(2, columns, squeeze=False, sharex="col", height_ratios=(2.0, strip))
    for (upper, lower), one, parts in zip(axes.T, runs, drawn, strict=True):
        colours = dict(zip(one.chains, style.chain_colours(len(one.chains)), strict=True))
        _lines(upper, one, parts, colours)
        _stops(lower, one, colours)
        count_axis(lower, one.last)
        lower.set_xlim(0.93, max(one.last, 2) * 1.1)
        lower.set_xlabel("draws per chain")
        upper.set_title(_title(one), fontsize=7)
    axes[0, 0].set_ylabel("log$_{10}$ E-value")
    axes[1, 0].set_ylabel("chain")
    mark = {"color": style.GREY, "marker": "o", "ms": 3.5, "ls": ""}
    entries = {f"reaches {LEVEL}": mark, "does not reach it": {**mark, "mfc": "white"}, LEVEL: THRESHOLD}
    page.legend_below(figure, entries)
    return figure


def _lines(ax: Axes, one: Evidence, parts: dict[int, pd.DataFrame], colours: dict[int, str]) -> None:
    ax.grid(axis="y")
    many = len(parts) > MANY
    for chain, part in parts.items():
        values = part["log_e"].to_numpy(dtype=np.float64) / TEN
        seen = np.where(np.isfinite(values), values, np.nan)
        single = "o" if np.isfinite(values).sum() == 1 else ""
        ax.plot(part["draw"], seen, color=colours[chain], lw=0.5 if many else 0.9, alpha=0.9, marker=single, ms=2)
        crossing = one.crossings[chain]
        height = seen[part["draw"].to_numpy() == crossing]
        if crossing is not None and not many and np.isfinite(height).any():
            ax.plot(crossing, height[0], "o", color=colours[chain], ms=3.5, mec="white", mew=0.4, zorder=3)
    ax.axhline(one.threshold / TEN, **THRESHOLD)
    _value_axis(ax, one, parts)
    if texts := _remarks(one):
        box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0}
        ax.text(0.02, 0.03, "\n".join(texts), transform=ax.transAxes, fontsize=6.5, color=style.GREY, bbox=box)


def _remarks(one: Evidence) -> list[str]:
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
    """Make the axis linear near the threshold, and compressed far from it if there are values."""
    values = np.concatenate([part["log_e"].to_numpy(dtype=np.float64) for part in parts.values()]) / TEN
    values = np.append(values[np.isfinite(values)], (0.0, one.threshold / TEN))
    low, high = float(values.min()), float(values.max())
    margin = 0.06 * (high - low)
    linear = max(LINEAR, 2 * one.threshold / TEN)
    compress_beyond(ax, (max(low - margin, -linear), min(high + margin, linear)), values)


def _stops(ax: Axes, one: Evidence, colours: dict[int, str]) -> None:
    """A dot per chain at the draw where it reaches 1 / alpha, or an open dot at its end if it does not."""
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
    text = f"{one.name}, against {one.reference}:\n{len(stops)} of {len(one.chains)} chains reach {enough}"
    if not stops:
        return text
    low, high = min(stops), max(stops)
    return f"{text} at draw {low:,}" if low == high else f"{text} at draws {low:,} to {high:,}"


def _table(own: Evidence, ensemble: Evidence, drawn: Sequence[dict[int, pd.DataFrame]]) -> pd.DataFrame:
    """Plotted numbers of a run: label, alpha, chain, draw, and for each reference the E-value and its crossing.

    `crossing` and `log_e` are against the chain's own start, columns ending in `_ensemble` against all warm starts. A
    crossing is the draw that reaches the level; it is empty if there is none.
    """
    rows = [
        part.assign(
            label=own.name, alpha=own.alpha, chain=chain, crossing=own.crossings[chain],
            crossing_ensemble=ensemble.crossings[chain], log_e_ensemble=drawn[1][chain]["log_e"].to_numpy(),
        )
        for chain, part in drawn[0].items()
    ]  # fmt: skip
    columns = ["label", "alpha", "chain", "crossing", "crossing_ensemble", "draw", "log_e", "log_e_ensemble"]
    return pd.concat(rows, ignore_index=True).astype({"crossing": "Int64", "crossing_ensemble": "Int64"})[columns]
