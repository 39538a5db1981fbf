"""Accuracy of networks as more and more of their parameters are set to 0, by the order in which this happens."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bnn_atlas.figures import page, style
from bnn_atlas.figures.axes import mark_published, published_handle
from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.tables.parquet import PRUNING_SCHEMA, read_frame
from bnn_atlas.published import published_numbers

KIND = {"files": ["pruning_curves"], "runs": "one"}

PUBLISHED_DATA = "mnist"
DASHES: dict[str, Any] = {"mean": "-", "draw": (0, (4, 1.5)), "mean as sampled": (0, (1, 1))}
CONTROLS = {"random": "#9A9A9A", "sd of prior draws": style.BLACK, "magnitude": style.GREEN}
ORDERS = {"random": "in random order"}
"""Order -> text in the legend, if it is not `by <order>`."""
TITLES = {"kept": "all parameters", "removed": "weights of inputs that never vary are 0 from the start"}


def pruning_curves(shown: Sequence[Shown]) -> Drawing:
    """Accuracy against the share of parameters kept, a column per network and a row each with and without dead inputs.

    Lines of repeated orders are means. Open black marks are the published curves; they are shown for runs on MNIST.

    Columns dead_inputs, network, of, rank, kept, accuracy (%), standard_error, orders, published (%).
    """
    (one,) = shown
    frame = read_frame(one.files["pruning_curves"], PRUNING_SCHEMA)
    keys = ["dead_inputs", "network", "of", "rank", "kept"]
    groups = frame.groupby(keys, sort=False)
    found = groups[["accuracy", "standard_error"]].mean().mul(100).assign(orders=groups.size()).reset_index()
    theirs = published_numbers("permutation_symmetry", "pruning")
    at = {(one.label, float(one.x)): float(100 * one.value) for one in theirs}
    rows = zip(found["network"], found["of"], found["rank"], found["kept"], strict=True)
    found["published"] = [at.get((f"{network}, {of} by {rank}", kept)) for network, of, rank, kept in rows]
    found.loc[(found["dead_inputs"] != "kept") | (one.dataset != PUBLISHED_DATA), "published"] = None
    numbers = found.astype({"published": float})
    networks, kinds = (list(dict.fromkeys(numbers[name])) for name in ("network", "dead_inputs"))
    figure = Figure(figsize=(style.TEXT_WIDTH, 0.9 + 1.9 * len(kinds)))
    axes = figure.subplots(len(kinds), len(networks), squeeze=False, sharex=True, sharey=True)
    colours = {
        **{
            f"sd of {name}": colour
            for name, colour in zip(networks, (style.BLUE, style.VERMILION, style.PURPLE, style.ORANGE), strict=False)
        },
        "signal to noise": style.SKY,
        **CONTROLS,
    }
    for row, dead in zip(axes, kinds, strict=True):
        for ax, network in zip(row, networks, strict=True):
            part = numbers[(numbers["network"] == network) & (numbers["dead_inputs"] == dead)]
            _panel(ax, part, {**colours, "its own sd": colours[f"sd of {network}"]})
        row[0].set_ylabel("accuracy in %")
        row[0].set_title(TITLES[dead], fontsize=6.5, color=style.GREY)
    for ax, network in zip(axes[0], networks, strict=True):
        ax.set_title(network, loc="right")
    for ax in axes[-1]:
        ax.set_xlabel("parameters kept in %")
    axes[0, 0].set_xlim(102, 0)
    page.legend_below(figure, _legend(numbers, colours))
    return Drawing(figure, numbers)


def _panel(ax: Axes, part: pd.DataFrame, colours: dict[str, str]) -> None:
    for (of, rank), line in part.groupby(["of", "rank"], sort=False):
        width = 0.9 if of == "draw" else 1.3
        ax.plot(line["kept"], line["accuracy"], color=colours[str(rank)], ls=DASHES[str(of)], lw=width)
        for kept, value in line.loc[line["published"].notna(), ["kept", "published"]].itertuples(index=False):
            mark_published(ax, kept, value)


def _legend(numbers: pd.DataFrame, colours: dict[str, str]) -> dict[str, Artist]:
    present, of = set(numbers["rank"]), set(numbers["of"])
    entries: dict[str, Artist] = {
        ORDERS.get(name, f"by {name}"): Line2D([], [], color=c) for name, c in colours.items() if name in present
    }
    entries |= {name: Line2D([], [], color=style.GREY, ls=dash) for name, dash in DASHES.items() if name in of}
    if numbers["published"].notna().any():
        entries["published"] = published_handle()
    return entries
