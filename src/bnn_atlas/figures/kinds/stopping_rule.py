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
from bnn_atlas.figures.axes import count_axis
from bnn_atlas.figures.functions import names
from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.tables.parquet import read_e_values

KIND = {
    "files": ["table", "e_values"], "needs": ["chains"], "most": 2,
    "columns": "label alpha chain crossing crossing_ensemble draw log_e log_e_ensemble lppd",
}  # fmt: skip

REFERENCES = {"log_e": "own warm start", "log_e_ensemble": "all warm starts together"}
"""Column of the file -> what a chain is compared with."""
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
    """What a draw of each chain adds to its evidence, log E over draws, and the LPPD if all chains stopped at a draw.

    A row of panels per run: evidence against the chain's own warm start, by which chains stop, evidence against the
    ensemble of all warm starts, and the LPPD of all chains by their draws. The dashed line is the level to stop at,
    log(1 / alpha) over draws. Values that are infinite or not a number leave a gap and a remark; +inf is enough to
    stop, NaN is not. Raises ValueError for a file that holds something else or no rows.
    """
    read = [Evidence.read(run.files["e_values"], name) for run, name in zip(shown, names(shown), strict=True)]
    runs = [one for both in read for one in both]
    extra = {one.name: _crossings(both) for both in read for one in both}
    drawn = [{chain: _thinned(part, extra[one.name][chain]) for chain, part in one.chains.items()} for one in runs]
    tables = [_table(both[0], both[1], drawn[2 * i : 2 * i + 2]) for i, both in enumerate(read)]
    data = pd.concat(tables, ignore_index=True)
    curves = [_lppd(run) for run in shown]
    data["lppd"] = np.concatenate([of["draw"].map(curve) for of, curve in zip(tables, curves, strict=True)])
    return Drawing(_page(runs, drawn, curves), data, names=names(shown))


def _lppd(run: Shown) -> pd.Series:
    """Draws of each chain -> LPPD of all chains with so many first draws."""
    rows = run.table()
    return rows[rows["metric"] == "lppd_cumulative_draws"].set_index("draws")["value"].sort_index()


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


def _page(runs: Sequence[Evidence], drawn: Sequence[dict[int, pd.DataFrame]], curves: Sequence[pd.Series]) -> Figure:
    figure = Figure(figsize=(style.TEXT_WIDTH, 2.1 * len(curves) + 0.3))
    axes = figure.subplots(len(curves), 3 if any(map(len, curves)) else 2, squeeze=False)
    for ax, one, parts in zip(axes[:, :2].flat, runs, drawn, strict=True):
        colours = dict(zip(one.chains, style.chain_colours(len(one.chains)), strict=True))
        _lines(ax, one, parts, colours)
        ax.set_title(_title(one), fontsize=7)
    for ax, curve in zip(axes[:, 2:].flat, curves, strict=False):
        ax.grid(axis="y")
        ax.plot(curve.index, curve, color=style.BLACK, marker="o" if len(curve) == 1 else "", ms=2)
        ax.set_title("all chains,\nif all stopped there", fontsize=7)
        ax.set_ylabel("LPPD per test row")
        ax.set_visible(len(curve) > 0)
    for row, one in zip(axes, runs[::2], strict=True):
        for ax in row:
            count_axis(ax, one.last)
            ax.set_xlim(0.93, max(one.last, 2) * 1.1)
            ax.set_xlabel("draws per chain")
    for ax in axes[:, 0]:
        ax.set_ylabel("log E-value per draw")
    mark = {"color": style.GREY, "marker": "o", "ms": 3.5, "ls": ""}
    page.legend_below(figure, {f"first draw that reaches {LEVEL}": mark, f"log({LEVEL}) / draws": THRESHOLD})
    return figure


def _lines(ax: Axes, one: Evidence, parts: dict[int, pd.DataFrame], colours: dict[int, str]) -> None:
    ax.grid(axis="y")
    many = len(parts) > MANY
    for chain, part in parts.items():
        values = (part["log_e"] / part["draw"]).to_numpy(dtype=np.float64)
        seen = np.where(np.isfinite(values), values, np.nan)
        single = "o" if np.isfinite(values).sum() == 1 else ""
        ax.plot(part["draw"], seen, color=colours[chain], lw=0.5 if many else 0.9, alpha=0.9, marker=single, ms=2)
        crossing = one.crossings[chain]
        height = seen[part["draw"].to_numpy() == crossing]
        if crossing is not None and not many and np.isfinite(height).any():
            ax.plot(crossing, height[0], "o", color=colours[chain], ms=3.5, mec="white", mew=0.4, zorder=3)
    draws = np.geomspace(1, one.last, 200)
    ax.plot(draws, one.threshold / draws, **THRESHOLD)
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


def _title(one: Evidence) -> str:
    stops = [draw for draw in one.crossings.values() if draw is not None]
    level = 1 / one.alpha
    enough = style.thousands(level) if level >= 1000 else f"{level:.3g}"
    text = f"{one.name}, against\n{one.reference}:\n{len(stops)} of {len(one.chains)} reach {enough}"
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
