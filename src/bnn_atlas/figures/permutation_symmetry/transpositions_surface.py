"""Transpositions between a network and those on a line that starts from it, along training."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bnn_atlas.figures import style
from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.permutation_symmetry.pairs import TEXTS, over_pairs, read_pairs
from bnn_atlas.figures.shown import Shown

KIND = {"files": ["matches"]}

STATES = ("as_trained", "aligned")


def transpositions_surface(shown: Sequence[Shown]) -> Drawing:
    """Transpositions between the first network of a pair and each point of the line to the second, over epochs."""
    numbers = surface(shown)
    return Drawing(_figure(numbers), numbers)


def surface(shown: Sequence[Shown]) -> pd.DataFrame:
    """Columns state, draw, point, mean, sd, pairs, ceiling; ValueError without points inside the lines."""
    matches = read_pairs(shown, "matches")
    matches = matches[matches["state"].isin(STATES)]
    if not (matches["point"] < 1.0).any():
        raise ValueError("no points inside the lines were matched: give the run evaluate.barriers.surface: true")
    found = over_pairs(matches, ["state", "draw", "point"], "transpositions")
    starts = found[found["point"] == 1.0].assign(point=0.0, mean=0.0, sd=0.0)
    return pd.concat([starts, found], ignore_index=True).assign(ceiling=matches["ceiling"].iloc[0])


def _figure(numbers: pd.DataFrame) -> Figure:
    figure = Figure(figsize=(style.TEXT_WIDTH, 2.4))
    axes = figure.subplots(1, 2, sharey=True)
    for ax, state in zip(axes, STATES, strict=True):
        grid = numbers[numbers["state"] == state].pivot(index="point", columns="draw", values="mean").sort_index()
        ax.pcolormesh(
            grid.columns.to_numpy(float), grid.index.to_numpy(float), grid.to_numpy(float), cmap="viridis",
            vmin=0, vmax=float(np.ceil(max(numbers["ceiling"].iloc[0], numbers["mean"].max()))), shading="nearest",
            rasterized=True,
        )  # fmt: skip
        ax.set_title(TEXTS[state])
        ax.set_xlabel("epoch")
        ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes[0].set_ylabel("point of the line")
    figure.colorbar(axes[-1].collections[0], ax=axes, label="transpositions to the line's start")
    return figure
