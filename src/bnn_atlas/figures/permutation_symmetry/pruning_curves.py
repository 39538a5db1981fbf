"""Accuracy of networks as more and more of their parameters are set to 0, in different orders."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bnn_atlas.figures import page, style
from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.tables.parquet import PRUNING_SCHEMA, read_frame
from bnn_atlas.published import published_numbers

KINDS = {
    "pruning_controls": {
        "files": ["pruning_curves"],
        "runs": "one",
        "columns": "dead_inputs network of rank kept accuracy standard_error orders",
    },
    "pruning_curves": {
        "files": ["pruning_curves"],
        "runs": "one",
        "columns": "network of rank kept accuracy standard_error orders whose published",
    },
}

PUBLISHED_DATA = "mnist"
TITLES = {"kept": "all parameters", "removed": "weights of inputs that never vary are 0 from the start"}
OWN, FIRST = "own", "first"
"""Whose standard deviations order the parameters: the network's own, or those of the first network."""
CURVES: dict[tuple[str, str], dict[str, Any]] = {
    ("mean", OWN): {"color": style.BLUE, "ls": "-"},
    ("mean", FIRST): {"color": style.BLACK, "ls": "-"},
    ("draw", OWN): {"color": style.GREEN, "ls": (0, (4, 1.5))},
    ("mean as sampled", OWN): {"color": style.VERMILION, "ls": (0, (1, 1))},
}
"""What is pruned, by whose standard deviations -> how it is drawn."""
ORDERS: dict[str, dict[str, Any]] = {
    "random": {"color": "#9A9A9A", "ls": "-"},
    "sd of prior draws": {"color": style.BLACK, "ls": (0, (1, 1))},
    "signal to noise": {"color": style.SKY, "ls": (0, (4, 1.5))},
    "magnitude": {"color": style.GREEN, "ls": (0, (4, 1.5))},
}
"""Order by anything but the standard deviations of a network's draws -> how it is drawn."""


def pruning_curves(shown: Sequence[Shown]) -> Drawing:
    """Accuracy against the share of parameters kept, a panel per network, by order of standard deviations over draws.

    The draws are the network's own, or those of the first network. Thin lines with marks in the same colours are the
    published curves, for runs on MNIST. Columns network, of, rank, kept, accuracy (%), standard_error, orders, whose,
    published (%).
    """
    (one,) = shown
    found = _numbers(one)
    first = found["network"].iloc[0]
    found["whose"] = np.where(found["rank"] == f"sd of {first}", FIRST, "")
    found.loc[found["rank"].isin(["its own sd"]) | (found["rank"] == "sd of " + found["network"]), "whose"] = OWN
    chosen = np.array([pair in CURVES for pair in zip(found["of"], found["whose"], strict=True)])
    numbers = found[chosen & (found["dead_inputs"] == "kept")].drop(columns="dead_inputs")
    theirs = {
        (each.label, float(each.x)): float(100 * each.value)
        for each in published_numbers("permutation_symmetry", "pruning")
        if one.dataset == PUBLISHED_DATA
    }
    rows = numbers[["network", "of", "rank", "kept"]].itertuples(index=False)
    numbers["published"] = [theirs.get((f"{net}, {of} by {rank}", kept), np.nan) for net, of, rank, kept in rows]
    texts = {
        pair: f"{of} by {'its own sd' if by == OWN else f'sd of {first}'}" for pair in CURVES for of, by in (pair,)
    }
    networks = list(dict.fromkeys(numbers["network"]))
    figure, axes = page.panels(len(networks), 3, 2.0, wide_from=1, more=0.6, sharey=True)
    for ax, network in zip(axes.flat, networks, strict=False):
        of_network = numbers[numbers["network"] == network]
        for pair, part in of_network.groupby(["of", "whose"], sort=False):
            ax.plot(part["kept"], part["accuracy"], lw=1.6, **CURVES[pair])
            ax.plot(part["kept"], part["published"], lw=0.6, marker="d", ms=2.5, mfc="white", mew=0.6, **CURVES[pair])
        ax.set_title(network)
    _axes(axes)
    entries: dict[str, Any] = {texts[pair]: look for pair, look in CURVES.items()}
    if theirs:
        entries["published"] = {"color": style.GREY, "lw": 0.6, "marker": "d", "ms": 2.5, "mfc": "white", "mew": 0.6}
    page.legend_below(figure, entries)
    return Drawing(figure, numbers)


def pruning_controls(shown: Sequence[Shown]) -> Drawing:
    """Accuracy of each network's aligned mean against the share kept, a column per network, by all orders.

    In the second row, the weights of inputs that never vary are 0 from the start. Repeated orders are shown by the mean
    of their curves. Columns dead_inputs, network, of, rank, kept, accuracy (%), standard_error, orders.
    """
    (one,) = shown
    numbers = _numbers(one)
    numbers = numbers[numbers["of"] == "mean"]
    networks, kinds = (list(dict.fromkeys(numbers[name])) for name in ("network", "dead_inputs"))
    colours = (style.BLUE, style.VERMILION, style.PURPLE, style.ORANGE)
    sds = {f"sd of {name}": {"color": colour} for name, colour in zip(networks, colours, strict=False)}
    looks = {rank: look for rank, look in {**sds, **ORDERS}.items() if (numbers["rank"] == rank).any()}
    figure = Figure(figsize=(style.TEXT_WIDTH, 0.9 + 1.9 * len(kinds)))
    axes = figure.subplots(len(kinds), len(networks), squeeze=False, sharex=True, sharey=True)
    for row, dead in zip(axes, kinds, strict=True):
        for ax, network in zip(row, networks, strict=True):
            part = numbers[(numbers["network"] == network) & (numbers["dead_inputs"] == dead)]
            for rank, look in looks.items():
                line = part[part["rank"] == rank]
                ax.plot(line["kept"], line["accuracy"], **look)
            ax.set_title(network if dead == kinds[0] else "", loc="right")
        row[0].set_title(TITLES[dead], fontsize=6.5, color=style.GREY)
    _axes(axes)
    page.legend_below(
        figure, {f"by {rank}" if rank != "random" else "in random order": each for rank, each in looks.items()}
    )
    return Drawing(figure, numbers)


def _numbers(one: Shown) -> pd.DataFrame:
    """All curves of a run in percent; repeated orders are averaged."""
    frame = read_frame(one.files["pruning_curves"], PRUNING_SCHEMA)
    groups = frame.groupby(["dead_inputs", "network", "of", "rank", "kept"], sort=False)
    means: pd.DataFrame = groups[["accuracy", "standard_error"]].mean().mul(100).assign(orders=groups.size())
    return means.reset_index()


def _axes(axes: np.ndarray) -> None:
    for ax in axes.flat:
        ax.set_xlim(102, 0)
    for ax in axes[:, 0]:
        ax.set_ylabel("accuracy in %")
    for ax in axes[-1]:
        ax.set_xlabel("parameters kept in %")
