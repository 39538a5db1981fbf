"""Published numbers of a study: how far the measured ones are from them, in units of the size that matters."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from bnn_atlas.figures import page, style
from bnn_atlas.figures.axes import remark
from bnn_atlas.figures.page import Drawing, Entries
from bnn_atlas.figures.shown import Shown
from bnn_atlas.files import read_parquet

KIND = {
    "runs": "none",
    "claims": True,
    "columns": "group claim statement verdict identity published_text measured_text deviation bar",
}

LINEAR = 2.0
"""Sizes within which the axis is linear; beyond them it is logarithmic."""
CUT = " \N{HORIZONTAL ELLIPSIS}"
TICKS = (1, 10, 100, 1000, 10_000)
ROW = 0.145
"""Inches: height of a claim."""
LETTERS, SECOND = 66, 0.5
"""Length of a line of a statement next to its mark, and the room that a second line takes, in rows."""
LOOKS: dict[str, dict[str, Any]] = {
    "agrees": {"color": style.BLUE, "mfc": style.BLUE, "marker": "o"},
    "differs": {"color": style.VERMILION, "mfc": style.VERMILION, "marker": "s"},
    "erratum": {"color": style.VERMILION, "mfc": style.VERMILION, "marker": "X"},
}
OTHER: dict[str, Any] = {"color": style.GREY, "mfc": style.GREY, "marker": "^"}
"""Look of any other verdict, such as "cannot tell"."""
WHITE = {"mfc": "white"}
"""Look of a number whose runs are reduced."""
MARK: dict[str, Any] = {"ls": "none", "ms": 3.8, "mew": 0.9}


def claims_forest(shown: Sequence[Shown], *, claims: str | Path) -> Drawing:
    """(measured - published) / size of each published number, a row each, grouped by where it was read.

    Numbers that are to be run are counted, and they are in the CSV. The band from -1 to 1 is the size that matters.
    Bars are two standard errors of the comparison, in the same unit; the numbers stand on the right. The table comes
    from `forest_table`. Raises ValueError for runs, which this figure does not show, and for a table without such a
    number.
    """
    table = forest_table(read_parquet(claims))
    if table.empty:
        raise ValueError(f"{claims}: no claim equals a published number; this figure needs some")
    measured = table[table["deviation"].notna()]
    texts = [page.with_minus(text) for text in measured["statement"].astype(str)]
    names = [textwrap.fill(text, LETTERS, max_lines=2, placeholder=CUT) for text in texts]
    rooms = [1 + SECOND * name.count("\n") for name in names]
    figure = Figure(figsize=(style.TEXT_WIDTH, ROW * (sum(rooms) + 1.3 * measured["group"].nunique()) + 1.1))
    ax = figure.subplots()
    ax.axvspan(-1, 1, color="#E8EEF4", lw=0, zorder=0)
    ax.axvline(0, color=style.BLACK, lw=0.8, zorder=1)
    places: list[float] = []
    height, beside = 0.0, ax.get_yaxis_transform()
    for group, part in measured.groupby("group", sort=False):
        height += 0.3
        ax.text(-0.01, height, str(group), transform=beside, ha="right", va="center", weight="bold", fontsize=6)
        height += 1
        for row in part.itertuples():
            room = rooms[len(places)]
            height += (room - 1) / 2
            _mark(ax, row, height)
            ax.text(1.02, height, f"{row.published_text}  \N{RIGHTWARDS ARROW}  {row.measured_text}", transform=beside,
                    va="center", fontsize=5.5)  # fmt: skip
            places.append(height)
            height += (room + 1) / 2
    ax.text(1.02, -0.9, "published  \N{RIGHTWARDS ARROW}  here", transform=beside, fontsize=5.5, color=style.GREY)
    ax.set_ylim(height - 0.3, -0.6)
    ax.set_yticks(places, names, fontsize=5.5)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    _scale(ax, table)
    if missing := len(table) - len(measured):
        remark(ax, [f"{missing} of {len(table)} to run"])
    ax.set_xlabel("(here \N{MINUS SIGN} published)\n/ size that matters")
    page.legend_below(figure, _legend(table))
    return Drawing(figure, table)


def forest_table(judged: pd.DataFrame) -> pd.DataFrame:
    """Columns group, claim, statement, verdict, identity, published_text, measured_text, deviation, bar; in groups.

    A row per claim that a value, or a difference, equals a published number: deviation = (measured - published) / size,
    and `bar` two standard errors of the comparison over the same size; both are empty for claims that are to be run.
    """
    rows = judged[(judged["relation"] == "equals") & judged["paper_value"].notna()]
    size = rows["size"].astype(float).where(rows["verdict"] != "to run")
    table = pd.DataFrame(
        {
            "group": rows["place"].str.extract(r"^([^,(]*)")[0].str.strip(),
            "claim": rows["claim"],
            "statement": rows["statement"],
            "verdict": rows["verdict"],
            "identity": rows["identity"],
            "published_text": rows["paper_text"],
            "measured_text": rows["here"],
            "deviation": rows["d"].astype(float) / size,
            "bar": 2 * rows["error"].astype(float) / size,
        }
    )
    order = {group: place for place, group in enumerate(dict.fromkeys(table["group"]))}
    return table.sort_values("group", key=lambda group: group.map(order), kind="stable").reset_index(drop=True)


def _mark(ax: Axes, row: Any, height: float) -> None:
    """One claim: its mark with a bar."""
    ax.axhline(height, color="#E3E3E3", lw=0.4, zorder=0.5)
    look = LOOKS.get(row.verdict, OTHER) | (WHITE if row.identity != "same" else {})
    ax.errorbar(row.deviation, height, xerr=row.bar, elinewidth=0.8, zorder=3, **MARK, **look)


def _scale(ax: Axes, table: pd.DataFrame) -> None:
    """Symmetric limits that hold all marks; linear inside, logarithmic outside `LINEAR` limits."""
    finite = table.loc[np.isfinite(table["deviation"]), "deviation"].abs()
    reach = max(1.5 * float(finite.max()) if len(finite) else 0.0, 2.5)
    if reach > 1.5 * LINEAR:
        ax.set_xscale("symlog", linthresh=LINEAR, linscale=2)
    ax.set_xlim(-reach, reach)
    ticks = [tick for tick in TICKS if tick <= reach]
    ax.xaxis.set_major_locator(FixedLocator([*(-float(tick) for tick in reversed(ticks)), 0.0, *map(float, ticks)]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}".replace("-", "\N{MINUS SIGN}")))


def _legend(table: pd.DataFrame) -> Entries:
    measured = table[np.isfinite(table["deviation"])]
    verdicts = sorted(set(measured["verdict"]), key=lambda verdict: [*LOOKS, verdict].index(verdict))
    entries: Entries = {"within the size that matters": Patch(color="#E8EEF4", lw=0)}
    entries = {**entries, **{verdict: {**MARK, **LOOKS.get(verdict, OTHER)} for verdict in verdicts}}
    if (measured["identity"] != "same").any():
        entries = {**entries, "white: reduced runs": {**MARK, "color": style.GREY, "marker": "o", **WHITE}}
    bar = "bar: 2 standard errors of the comparison"
    return {**entries, bar: {"color": style.GREY, "lw": 0.8}} if measured["bar"].notna().any() else entries
