"""Squared distances between the networks of a pair against the transpositions with which they started."""

from collections.abc import Sequence

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bnn_atlas.figures import page, style
from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.permutation_symmetry.pairs import LOOKS, TEXTS
from bnn_atlas.figures.permutation_symmetry.transpositions_stability import STATES, planted_and_found
from bnn_atlas.figures.published import mark_published, published_handle
from bnn_atlas.figures.shown import Shown
from bnn_atlas.published import published_numbers

KIND = {"files": ["matches"]}

PUBLISHED_UNITS = 512


def distance_against_transpositions(shown: Sequence[Shown]) -> Drawing:
    """Squared distance of a pair before training, after it, and after it with the start's permutation undone.

    Open black marks are the paper's, where the runs have its 512 units.
    """
    numbers = planted_and_found(shown)
    numbers = numbers[numbers["state"].isin(STATES)].reset_index(drop=True)
    widths = {sum(one.hidden) for one in shown}
    return Drawing(_figure(numbers, widths == {PUBLISHED_UNITS}), numbers)


def _figure(numbers: pd.DataFrame, as_published: bool) -> Figure:
    figure = Figure(figsize=(style.COLUMN_WIDTH, 2.7))
    ax = figure.subplots()
    entries: dict[str, Artist] = {}
    for state in STATES:
        part = numbers[numbers["state"] == state]
        look = {**LOOKS[state], "ls": "none", "ms": 3.5, "mew": 0.9, "mfc": "none"}
        ax.plot(part["planted"], part["squared_distance"], **look)
        entries[TEXTS.get(state, "before training")] = Line2D([], [], **look)
    if as_published:
        for one in published_numbers("permutation_symmetry", "distance"):
            if one.x:
                mark_published(ax, int(one.x), float(one.value))
        entries["published"] = published_handle()
    ax.set_xlabel("transpositions of the start")
    ax.set_ylabel("squared distance")
    ax.set_ylim(bottom=-0.04 * ax.get_ylim()[1])
    page.legend_below(figure, entries)
    return figure
