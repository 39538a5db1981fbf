"""Barriers of pairs against the transpositions between them."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bnn_atlas.figures import page, style
from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.permutation_symmetry.pairs import LOOKS, TEXTS, read_barriers
from bnn_atlas.figures.published import mark_published, published_handle
from bnn_atlas.figures.shown import Shown
from bnn_atlas.published import published_numbers

KIND = {"files": ["lines", "matches"]}

PUBLISHED_UNITS = 512


def barrier_against_transpositions(shown: Sequence[Shown]) -> Drawing:
    """Loss at the middle of the line less the mean of the ends, on training rows, by pair and state.

    The definition is that of the paper's code. Open black marks are the paper's, where the runs have its 512 units.
    """
    numbers = barriers_by_pair(shown)
    return Drawing(_figure(numbers), numbers)


def barriers_by_pair(shown: Sequence[Shown]) -> pd.DataFrame:
    """Columns label, run, split, first, second, state, transpositions, units, sup, midpoint, max; training loss."""
    found = read_barriers(shown)
    last = found["draw"] == found.groupby("run")["draw"].transform("max")
    found = found[last & (found["score"] == "loss") & (found["rows"] == "train")]
    columns = ["label", "run", "split", "first", "second", "state", "transpositions", "units", "sup", "midpoint", "max"]
    return found[columns].reset_index(drop=True)


def _figure(numbers: pd.DataFrame) -> Figure:
    figure = Figure(figsize=(style.COLUMN_WIDTH, 2.7))
    ax = figure.subplots()
    ax.axhline(0, color=style.BLACK, lw=0.6, zorder=0)
    entries: dict[str, Artist] = {}
    for state in ("as_trained", "planted", "aligned"):
        part = numbers[numbers["state"] == state]
        if part.empty:
            continue
        look = {**LOOKS[state], "ls": "none", "ms": 3.5, "mew": 0.9, "mfc": "none"}
        ax.plot(part["transpositions"], part["midpoint"], **look)
        entries[TEXTS[state]] = Line2D([], [], **look)
    if (numbers["units"] == PUBLISHED_UNITS).all():
        for one in published_numbers("permutation_symmetry", "barrier"):
            if one.x:
                mark_published(ax, int(one.x), float(one.value))
        entries["published"] = published_handle()
    ax.set_xlabel("transpositions of the trained pair")
    ax.set_ylabel("barrier of the training loss in nats")
    if text := correlation_text(numbers[numbers["state"] == "as_trained"]):
        ax.set_title(text)
    page.legend_below(figure, entries)
    return figure


def correlation_text(part: pd.DataFrame) -> str:
    """Pearson correlation over the pairs; empty for fewer than four or without variation."""
    x, y = part["transpositions"].to_numpy(float), part["midpoint"].to_numpy(float)
    kept = np.isfinite(y)
    if kept.sum() < 4 or np.ptp(x[kept]) == 0 or np.ptp(y[kept]) == 0:
        return ""
    value = f"{np.corrcoef(x[kept], y[kept])[0, 1]:.3f}".replace("-", "\N{MINUS SIGN}")
    return f"correlation {value}, {kept.sum()} pairs"
