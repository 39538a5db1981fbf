"""All numeric claims of a study: how far each measured value is from the published one, in units of what matters."""

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

KIND = {"runs": "none", "claims": True, "columns": "group claim verdict measured published limit deviation bar"}

LINEAR = 2.0
"""Limits within which the axis is linear; beyond them it is logarithmic."""
TICKS = (1, 10, 100, 1000, 10_000)
ROW = 0.145
"""Inches: height of a claim."""
AGREES: dict[str, Any] = {"color": style.BLUE, "mfc": style.BLUE, "marker": "o"}
DIFFERS: dict[str, Any] = {"color": style.VERMILION, "mfc": style.VERMILION, "marker": "s"}
LOOKS = {"agrees": AGREES, "holds": AGREES, "differs": DIFFERS, "does not hold": DIFFERS}
OTHER: dict[str, Any] = {"color": style.GREY, "mfc": "white", "marker": "^"}
"""Look of any other verdict, such as "cannot tell"."""
MARK: dict[str, Any] = {"ls": "none", "ms": 3.8, "mew": 0.9}


def claims_forest(shown: Sequence[Shown], *, claims: str | Path) -> Drawing:
    """(measured - published) / size of each numeric claim, a row each, grouped by where the paper states it.

    Claims that are to be run are counted, and they are in the CSV. The band from -1 to 1 is the size that matters. Bars
    are one standard error of the comparison, in the same unit. The numbers come from `forest_table`. Raises ValueError
    for runs, which this figure does not show, and for a table without a numeric claim.
    """
    table = forest_table(read_parquet(claims))
    if table.empty:
        raise ValueError(f"{claims}: no claim has a published number and a limit; this figure needs some")
    measured = table[table["measured"].notna()]
    heads = measured["group"].nunique()
    figure = Figure(figsize=(style.TEXT_WIDTH, ROW * (len(measured) + 1.3 * heads) + 1.1))
    ax = figure.subplots()
    ax.axvspan(-1, 1, color="#E8EEF4", lw=0, zorder=0)
    ax.axvline(0, color=style.BLACK, lw=0.8, zorder=1)
    places, names = [], []
    height = 0.0
    for group, part in measured.groupby("group", sort=False):
        height += 0.3
        ax.text(
            -0.01, height, str(group), transform=ax.get_yaxis_transform(), ha="right", va="center", weight="bold",
            fontsize=6.5,
        )  # fmt: skip
        height += 1
        for row in part.itertuples():
            _mark(ax, row, height)
            places.append(height)
            names.append(str(row.claim).replace("_", " "))
            height += 1
    ax.set_ylim(height - 0.3, -0.6)
    ax.set_yticks(places, names, fontsize=6.5)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    _scale(ax, table)
    if missing := len(table) - len(measured):
        remark(ax, [f"{missing} of {len(table)} numeric claims to run"])
    ax.set_xlabel("(measured \N{MINUS SIGN} published) / size that matters")
    page.legend_below(figure, _legend(table))
    return Drawing(figure, table)


def forest_table(judged: pd.DataFrame) -> pd.DataFrame:
    """Columns group, claim, verdict, measured, published, limit, deviation, bar; a row per numeric claim, in groups.

    `equals`: deviation = (measured - published) / size. `alike`: measured change / size, whatever the published change.
    Other relations have no published number to compare with and are left out. `bar` is the standard error of the
    comparison divided by the size. Claims that are to be run have neither.
    """
    rows = judged[judged["relation"].isin(["equals", "alike"])]
    size = rows["size"].astype(float)
    table = pd.DataFrame(
        {
            "group": rows["place"].where(rows["place"] != "", "own questions"),
            "claim": rows["claim"],
            "verdict": rows["verdict"],
            "measured": rows["difference"].where(rows["compares"].astype(bool), rows["value"]).astype(float),
            "published": rows["paper_value"].astype(float),
            "limit": size,
            "deviation": rows["d"].astype(float) / size,
            "bar": rows["error"].astype(float) / size,
        }
    )
    order = {group: place for place, group in enumerate(dict.fromkeys(table["group"]))}
    return table.sort_values("group", key=lambda group: group.map(order), kind="stable").reset_index(drop=True)


def _mark(ax: Axes, row: Any, height: float) -> None:
    """One claim: its mark with a bar, or a word if its value is not finite."""
    ax.axhline(height, color="#E3E3E3", lw=0.4, zorder=0.5)
    if not np.isfinite(row.deviation):
        text = f"{row.verdict}: not finite"
        ax.annotate(text, (1.1, height), fontsize=6, color=style.GREY, va="center", annotation_clip=False)
        return
    look = LOOKS.get(row.verdict, OTHER)
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
    bar = "bar: 1 standard error of the comparison"
    return {**entries, bar: {"color": style.GREY, "lw": 0.8}} if measured["bar"].notna().any() else entries
