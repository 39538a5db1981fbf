"""Pairs of networks that are trained side by side: their transpositions, distances and barriers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from bnn_atlas.figures import page, style
from bnn_atlas.figures.axes import mark_published, published_handle
from bnn_atlas.figures.page import Drawing, check_fits
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.tables.parquet import LINE_SCHEMA, MATCH_SCHEMA, NORM_SCHEMA, read_frame
from bnn_atlas.published import published_numbers
from bnn_atlas.symmetry.barriers import barrier_frame, with_transpositions

KINDS = {
    "barrier_against_transpositions": {"files": ["lines", "matches"]},
    "barrier_along_training": {"files": ["lines", "matches"]},
    "distance_against_transpositions": {"files": ["matches"]},
    "norms_along_training": {"files": ["norms"]},
    "transpositions_stability": {"files": ["matches"]},
    "transpositions_surface": {"files": ["matches"]},
}

TEXTS = {
    "start": "before training",
    "as_trained": "as trained",
    "planted": "start's permutation undone",
    "aligned": "aligned",
}
"""State of the second network of a pair -> text in legends."""
LOOKS: dict[str, dict[str, Any]] = {
    "start": {"color": style.GREY, "marker": "x"},
    "as_trained": {"color": style.VERMILION, "marker": "o"},
    "planted": {"color": style.GREEN, "marker": "^"},
    "aligned": {"color": style.BLUE, "marker": "s"},
}
"""State -> colour and mark."""
COURSES = ("as_trained", "aligned")
"""States that are drawn along training."""
STARTED = ("start", "as_trained", "planted")
"""States that are drawn against the transpositions at the start."""
DASHES = {"train": "-", "test": (0, (4, 1.5))}
PUBLISHED_UNITS = 512
NEAR = 2
"""Largest number of transpositions by which a published pair changes."""
MOST_ARRAYS = 8


def barrier_against_transpositions(shown: Sequence[Shown]) -> Drawing:
    """Loss at the middle of the line minus the mean of its ends, on training rows, by pair and state.

    The definition is taken from the paper's code. Open black marks are the paper's numbers, if the runs have its 512
    units. Columns label, run, split, first, second, state, transpositions, units, sup, midpoint, max (training loss).
    """
    found = _read_barriers(shown)
    last = found["draw"] == found.groupby("run")["draw"].transform("max")
    found = found[last & (found["score"] == "loss") & (found["rows"] == "train")]
    columns = ["label", "run", "split", "first", "second", "state", "transpositions", "units", "sup", "midpoint", "max"]
    numbers = found[columns].reset_index(drop=True)
    figure, ax = _against(shown, numbers, "transpositions", "midpoint", ("as_trained", "planted", "aligned"), "barrier")
    ax.axhline(0, color=style.BLACK, lw=0.6, zorder=0)
    ax.set_xlabel("transpositions of the trained pair")
    ax.set_ylabel("barrier of the training loss in nats")
    if text := correlation_text(numbers[numbers["state"] == "as_trained"]):
        ax.set_title(text)
    return Drawing(figure, numbers)


def correlation_text(part: pd.DataFrame) -> str:
    """Pearson correlation over the pairs; empty for fewer than four or without variation."""
    x, y = part["transpositions"].to_numpy(float), part["midpoint"].to_numpy(float)
    kept = np.isfinite(y)
    if kept.sum() < 4 or np.ptp(x[kept]) == 0 or np.ptp(y[kept]) == 0:
        return ""
    value = f"{np.corrcoef(x[kept], y[kept])[0, 1]:.3f}".replace("-", "\N{MINUS SIGN}")
    return f"correlation {value}, {kept.sum()} pairs"


def distance_against_transpositions(shown: Sequence[Shown]) -> Drawing:
    """Squared distance of a pair before training, after it, and after it with the start's permutation undone.

    Open black marks are the paper's numbers, if the runs have its 512 units.
    """
    numbers = _planted_and_found(shown)
    numbers = numbers[numbers["state"].isin(STARTED)].reset_index(drop=True)
    figure, ax = _against(shown, numbers, "planted", "squared_distance", STARTED, "distance")
    ax.set_xlabel("transpositions at the start")
    ax.set_ylabel("squared distance")
    ax.set_ylim(bottom=-0.04 * ax.get_ylim()[1])
    return Drawing(figure, numbers)


def transpositions_stability(shown: Sequence[Shown]) -> Drawing:
    """Transpositions found by matching against those that were planted, and by how much training changed them.

    The diagonal means no change. The dotted line is the mean of random permutations.
    """
    numbers = _planted_and_found(shown)
    figure = Figure(figsize=(style.TEXT_WIDTH, 2.4))
    left, right = figure.subplots(1, 2)
    most = float(max(numbers["planted"].max(), numbers["ceiling"].max()))
    left.plot([0, most], [0, most], color=style.BLACK, lw=0.6, zorder=0)
    left.axhline(float(numbers["ceiling"].iloc[0]), color=style.GREY, lw=0.8, ls=":", zorder=0)
    right.axhspan(-NEAR, NEAR, color="#E3E3E3", lw=0, zorder=0)
    right.axhline(0, color=style.BLACK, lw=0.6, zorder=0)
    page.legend_below(figure, _marks(left, numbers, "planted", "transpositions", STARTED))
    _marks(right, numbers, "planted", "change", STARTED)
    left.set_ylabel("transpositions found by matching")
    right.set_ylabel("change in transpositions")
    for ax in (left, right):
        ax.set_xlabel("transpositions at the start")
    return Drawing(figure, numbers)


def _planted_and_found(shown: Sequence[Shown]) -> pd.DataFrame:
    """Columns label, run, split, first, second, state, planted, transpositions, change, ceiling, squared_distance.

    The state `start` is the pair before training. Raises ValueError if no pair started as permuted copies.
    """
    matches = _read(shown, "matches", MATCH_SCHEMA)
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


def _marks(ax: Axes, numbers: pd.DataFrame, x: str, y: str, states: Sequence[str]) -> dict[str, Artist]:
    """An open mark for each pair in each of the states; entries of the legend."""
    entries: dict[str, Artist] = {}
    for state in states:
        part = numbers[numbers["state"] == state]
        if len(part):
            look = {**LOOKS[state], "ls": "none", "ms": 3.5, "mew": 0.9, "mfc": "none"}
            (entries[TEXTS[state]],) = ax.plot(part[x], part[y], **look)
    return entries


def _against(
    shown: Sequence[Shown], numbers: pd.DataFrame, x: str, y: str, states: Sequence[str], group: str
) -> tuple[Figure, Axes]:
    """A mark for each pair in each of the states, and the published numbers of a group for networks of that size."""
    figure = Figure(figsize=(style.COLUMN_WIDTH, 2.7))
    ax = figure.subplots()
    entries = _marks(ax, numbers, x, y, states)
    if {sum(one.hidden) for one in shown} == {PUBLISHED_UNITS}:
        for one in published_numbers("permutation_symmetry", group):
            if one.x:
                mark_published(ax, int(one.x), float(one.value))
        entries["published"] = published_handle()
    page.legend_below(figure, entries)
    return figure, ax


def barrier_along_training(shown: Sequence[Shown]) -> Drawing:
    """The highest loss and error on the line between two networks minus the mean of its ends, epoch by epoch.

    On the right: the loss along the line after the last epoch. Lines are means over pairs, seeds and splits, bands one
    standard deviation. Columns panel (loss, error, line), state, rows, x (epoch or point), mean, sd, pairs.
    """
    barriers = _read_barriers(shown)
    barriers = barriers[barriers["state"].isin(COURSES)].rename(columns={"draw": "x", "score": "panel"})
    courses = _over_pairs(barriers, ["panel", "state", "rows", "x"], "max")
    lines = _read(shown, "lines", LINE_SCHEMA)
    last = lines[(lines["draw"] == lines["draw"].max()) & lines["state"].isin(COURSES)]
    ends = _over_pairs(last.rename(columns={"point": "x"}), ["state", "rows", "x"], "loss").assign(panel="line")
    numbers = pd.concat([courses, ends[courses.columns]], ignore_index=True)
    figure = Figure(figsize=(style.TEXT_WIDTH, 2.2))
    titles = {
        "loss": "barrier of the loss in nats",
        "error": "barrier of the error",
        "line": "loss after training in nats",
    }
    for ax, (panel, title) in zip(figure.subplots(1, 3), titles.items(), strict=True):
        for (state, rows), part in numbers[numbers["panel"] == panel].groupby(["state", "rows"], sort=False):
            _band(ax, part, "x", LOOKS[str(state)]["color"], DASHES[str(rows)])
        ax.set_title(title)
        ax.set_xlabel("position along the line" if panel == "line" else "epoch")
        if panel != "line":
            ax.axhline(0, color=style.BLACK, lw=0.6, zorder=0)
            ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    entries: dict[str, Artist] = {TEXTS[state]: Line2D([], [], color=LOOKS[state]["color"]) for state in COURSES}
    for rows, text in (("train", "training rows"), ("test", "test rows")):
        if (numbers["rows"] == rows).any():
            entries[text] = Line2D([], [], color=style.GREY, ls=DASHES[rows])
    page.legend_below(figure, entries)
    return Drawing(figure, numbers)


def norms_along_training(shown: Sequence[Shown]) -> Drawing:
    """Euclidean norm of each array after each epoch, a panel per array and a line per label, mean over networks.

    Columns label, array, draw, mean, sd, networks. Raises ValueError for more arrays than fit.
    """
    numbers = _over_pairs(_read(shown, "norms", NORM_SCHEMA), ["label", "array", "draw"], "norm")
    numbers = numbers.rename(columns={"pairs": "networks"})
    arrays, labels = list(dict.fromkeys(numbers["array"])), list(dict.fromkeys(numbers["label"]))
    check_fits(len(arrays), MOST_ARRAYS, "arrays", "show a smaller network")
    figure, axes = page.panels(len(arrays), 4, 1.5, wide_from=1, more=0.5)
    entries: dict[str, Artist] = {}
    for ax, array in zip(axes.flat, arrays, strict=False):
        for label, colour in zip(labels, style.chain_colours(len(labels)), strict=True):
            part = numbers[(numbers["array"] == array) & (numbers["label"] == label)]
            entries[label] = _band(ax, part, "draw", colour)
        ax.set_title(array)
        ax.set_xlabel("epoch")
        ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes[0, 0].set_ylabel("norm")
    page.legend_below(figure, entries)
    return Drawing(figure, numbers)


def _band(ax: Axes, part: pd.DataFrame, x: str, colour: str, dash: Any = "-") -> Line2D:
    """A line of means, with a band of one standard deviation on either side if there are several pairs."""
    ordered = part.sort_values(x)
    places, mean, sd = (ordered[name].to_numpy(float) for name in (x, "mean", "sd"))
    if np.isfinite(sd).any():
        ax.fill_between(places, mean - sd, mean + sd, color=colour, alpha=0.15, lw=0)
    return ax.plot(places, mean, color=colour, ls=dash)[0]


def transpositions_surface(shown: Sequence[Shown]) -> Drawing:
    """Transpositions between the first network of a pair and each point of the line to the second, over epochs.

    Columns state, draw, point, mean, sd, pairs, ceiling; ValueError without points inside the lines.
    """
    matches = _read(shown, "matches", MATCH_SCHEMA)
    matches = matches[matches["state"].isin(COURSES)]
    if not (matches["point"] < 1.0).any():
        raise ValueError("no points inside the lines were matched: give the run evaluate.barriers.surface: true")
    found = _over_pairs(matches, ["state", "draw", "point"], "transpositions")
    starts = found[found["point"] == 1.0].assign(point=0.0, mean=0.0, sd=0.0)
    numbers = pd.concat([starts, found], ignore_index=True).assign(ceiling=matches["ceiling"].iloc[0])
    figure = Figure(figsize=(style.TEXT_WIDTH, 2.4))
    axes = figure.subplots(1, 2, sharey=True)
    for ax, state in zip(axes, COURSES, strict=True):
        grid = numbers[numbers["state"] == state].pivot(index="point", columns="draw", values="mean").sort_index()
        ax.pcolormesh(
            grid.columns.to_numpy(float), grid.index.to_numpy(float), grid.to_numpy(float), cmap="viridis",
            vmin=0, vmax=float(np.ceil(max(numbers["ceiling"].iloc[0], numbers["mean"].max()))), shading="nearest",
            rasterized=True,
        )  # fmt: skip
        ax.set_title(TEXTS[state])
        ax.set_xlabel("epoch")
        ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes[0].set_ylabel("position along the line")
    figure.colorbar(axes[-1].collections[0], ax=axes, label="transpositions from the line's start")
    return Drawing(figure, numbers)


def _read(shown: Sequence[Shown], name: str, schema: pa.Schema) -> pd.DataFrame:
    """A table of all runs and splits, with the columns label, run and split."""
    check_fits(len(shown))
    return pd.concat([_named(one, read_frame(one.files[name], schema)) for one in shown], ignore_index=True)


def _read_barriers(shown: Sequence[Shown]) -> pd.DataFrame:
    """Barriers of all lines of all runs (`symmetry.barriers.barrier_frame`), with the transpositions of each pair."""
    check_fits(len(shown))
    parts = []
    for one in shown:
        lines, matches = read_frame(one.files["lines"], LINE_SCHEMA), read_frame(one.files["matches"], MATCH_SCHEMA)
        parts.append(_named(one, with_transpositions(barrier_frame(lines), matches)))
    return pd.concat(parts, ignore_index=True)


def _named(one: Shown, frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(label=one.label, run=one.run, split=one.split)


def _over_pairs(frame: pd.DataFrame, by: Sequence[str], value: str) -> pd.DataFrame:
    """Mean, sd (n - 1; NaN of one) and number of the pairs, runs and splits of each group; NaN and infinity stay."""
    groups = frame.groupby(list(by), sort=False)[value]
    found = groups.agg(
        mean=lambda v: v.to_numpy().mean(),
        sd=lambda v: v.to_numpy().std(ddof=1) if len(v) > 1 else np.nan,
        pairs="size",
    )
    return found.reset_index()
