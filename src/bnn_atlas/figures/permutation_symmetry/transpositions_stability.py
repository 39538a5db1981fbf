"""Transpositions between the networks of a pair after training against those with which they started."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bnn_atlas.figures import page, style
from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.permutation_symmetry.pairs import LOOKS, TEXTS, read_pairs
from bnn_atlas.figures.shown import Shown

KIND = {"files": ["matches"]}

STATES = ("start", "as_trained", "planted")
NEAR = 2
"""Transpositions by which the published pairs change at most."""


def transpositions_stability(shown: Sequence[Shown]) -> Drawing:
    """Transpositions found by matching against those that were planted, and by how much training changed them.

    The diagonal is no change. The dotted line is the mean of random permutations.
    """
    numbers = planted_and_found(shown)
    return Drawing(_figure(numbers), numbers)


def planted_and_found(shown: Sequence[Shown]) -> pd.DataFrame:
    """Columns label, run, split, first, second, state, planted, transpositions, change, ceiling, squared_distance.

    The state `start` is the pair before training. Raises ValueError where no pair started as permuted copies.
    """
    matches = read_pairs(shown, "matches")
    ends = matches[(matches["point"] == 1.0) & matches["planted"].notna()]
    if ends.empty:
        raise ValueError("no pair of these runs started as permuted copies: give a run initial.transpositions")
    last = ends[ends["draw"] == ends.groupby("run")["draw"].transform("max")]
    first = ends[(ends["draw"] == 0) & (ends["state"] == "as_trained")].assign(state="start")
    found = pd.concat([first, last], ignore_index=True)
    undone = found["state"].isin(["planted", "aligned"])
    found["planted"] = found["planted"].astype(float)
    found["change"] = np.where(undone, found["transpositions"], found["transpositions"] - found["planted"])
    columns = ["label", "run", "split", "first", "second", "state", "planted", "transpositions", "change", "ceiling"]
    return found[[*columns, "squared_distance"]].sort_values(["state", "planted"], kind="stable", ignore_index=True)


def _figure(numbers: pd.DataFrame) -> Figure:
    figure = Figure(figsize=(style.TEXT_WIDTH, 2.4))
    left, right = figure.subplots(1, 2)
    most = float(max(numbers["planted"].max(), numbers["ceiling"].max()))
    left.plot([0, most], [0, most], color=style.BLACK, lw=0.6, zorder=0)
    left.axhline(float(numbers["ceiling"].iloc[0]), color=style.GREY, lw=0.8, ls=":", zorder=0)
    right.axhspan(-NEAR, NEAR, color="#E3E3E3", lw=0, zorder=0)
    right.axhline(0, color=style.BLACK, lw=0.6, zorder=0)
    for state in STATES:
        part = numbers[numbers["state"] == state]
        look = {**LOOKS[state], "ls": "none", "ms": 3.5, "mew": 0.9, "mfc": "none"}
        left.plot(part["planted"], part["transpositions"], label=TEXTS.get(state, "before training"), **look)
        right.plot(part["planted"], part["change"], **look)
    left.set_ylabel("transpositions found by matching")
    right.set_ylabel("change of transpositions")
    for ax in (left, right):
        ax.set_xlabel("transpositions of the start")
    page.legend_below(figure, dict(zip(*reversed(left.get_legend_handles_labels()), strict=True)))
    return figure
