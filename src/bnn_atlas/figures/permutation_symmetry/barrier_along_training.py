"""Barriers between networks along their training, before and after alignment."""

from collections.abc import Sequence

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from bnn_atlas.figures import page, style
from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.permutation_symmetry.pairs import LOOKS, TEXTS, band, over_pairs, read_barriers, read_pairs
from bnn_atlas.figures.shown import Shown

KIND = {"files": ["lines", "matches"]}

STATES = ("as_trained", "aligned")
DASHES = {"train": "-", "test": (0, (4, 1.5))}


def barrier_along_training(shown: Sequence[Shown]) -> Drawing:
    """The highest loss and error on the line between two networks less the mean of the ends, epoch by epoch.

    At the right the loss along the line after the last epoch. Lines are means over pairs, seeds and splits, bands one
    standard deviation.
    """
    numbers = along_training(shown)
    return Drawing(_figure(numbers), numbers)


def along_training(shown: Sequence[Shown]) -> pd.DataFrame:
    """Columns panel (loss, error, line), state, rows, x (epoch or point), mean, sd, pairs."""
    barriers = read_barriers(shown)
    barriers = barriers[barriers["state"].isin(STATES)].rename(columns={"draw": "x", "score": "panel"})
    courses = over_pairs(barriers, ["panel", "state", "rows", "x"], "max")
    lines = read_pairs(shown, "lines")
    last = lines[(lines["draw"] == lines["draw"].max()) & lines["state"].isin(STATES)]
    ends = over_pairs(last.rename(columns={"point": "x"}), ["state", "rows", "x"], "loss").assign(panel="line")
    return pd.concat([courses, ends[courses.columns]], ignore_index=True)


def _figure(numbers: pd.DataFrame) -> Figure:
    figure = Figure(figsize=(style.TEXT_WIDTH, 2.2))
    axes = figure.subplots(1, 3)
    titles = {
        "loss": "barrier of the loss in nats",
        "error": "barrier of the error",
        "line": "loss after training in nats",
    }
    for ax, (panel, title) in zip(axes, titles.items(), strict=True):
        for (state, rows), part in numbers[numbers["panel"] == panel].groupby(["state", "rows"], sort=False):
            band(ax, part, "x", LOOKS[str(state)]["color"], DASHES[str(rows)])
        ax.set_title(title)
        ax.set_xlabel("point of the line" if panel == "line" else "epoch")
        if panel != "line":
            ax.axhline(0, color=style.BLACK, lw=0.6, zorder=0)
            ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    entries: dict[str, Artist] = {TEXTS[state]: Line2D([], [], color=LOOKS[state]["color"]) for state in STATES}
    present = [rows for rows in DASHES if rows in set(numbers["rows"])]
    entries |= {
        f"{rows}ing rows" if rows == "train" else "test rows": Line2D([], [], color=style.GREY, ls=DASHES[rows])
        for rows in present
    }
    page.legend_below(figure, entries)
    return figure
