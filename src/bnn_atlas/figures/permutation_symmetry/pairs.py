"""Pairs of networks that are trained side by side: their transpositions, distances and barriers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from bnn_atlas.figures import page, style
from bnn_atlas.figures.axes import colour_bar, log_ticks, remark
from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.tables.parquet import LINE_SCHEMA, MATCH_SCHEMA, read_frame
from bnn_atlas.published import Number, published_numbers
from bnn_atlas.symmetry.barriers import barrier_frame, with_transpositions

KINDS = {
    "barrier_against_transpositions": {
        "files": ["lines", "matches"],
        "columns": "label run split first second state planted transpositions units sup midpoint max",
    },
    "barrier_along_training": {
        "files": ["lines", "matches"],
        "repeats": ["figure"],
        "columns": "panel state rows x mean sd pairs",
    },
    "distance_against_transpositions": {
        "files": ["matches"],
        "some": ["permuted copies"],
        "columns": "label run split first second state planted transpositions change ceiling squared_distance",
    },
    "loss_surface": {"files": ["lines"], "repeats": ["figure"], "columns": "state draw point mean sd pairs"},
    "transpositions_along_line": {
        "files": ["matches"],
        "some": ["points inside lines"],
        "repeats": ["figure"],
        "columns": "state draw point mean sd pairs ceiling",
    },
    "transpositions_stability": {
        "files": ["matches"],
        "some": ["permuted copies"],
        "columns": "label run split first second state planted transpositions change ceiling squared_distance",
    },
}

TEXTS = {
    "start": "before training",
    "as_trained": "as trained",
    "planted": "initial permutation undone",
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
PUBLISHED_UNITS, THEIR_PAIRS = 512, "published, 50 epochs"
"""Hidden units of the published networks, and how the pairs with known permutations are named in legends."""
THEIRS: dict[str, Any] = {"color": style.BLACK, "lw": 0.7}
"""Look of published curves."""
NEAR = 2
"""Largest number of transpositions by which training changes a published pair."""


def barrier_against_transpositions(shown: Sequence[Shown]) -> Drawing:
    """Loss at the middle of the line minus the mean of its ends, on training rows, for each pair and state.

    The definition is taken from the paper's code. The black line with its band is the paper's mean and standard
    deviation of five runs, if the runs have its 512 units. Columns label, run, split, first, second, state,
    planted, transpositions, units, sup, midpoint, max (training loss).
    """
    found = _read_barriers(shown)
    last = found["draw"] == found.groupby("run")["draw"].transform("max")
    found = found[last & (found["score"] == "loss") & (found["rows"] == "train")]
    columns = ["label", "run", "split", "first", "second", "state", "planted", "transpositions", "units", "sup"]
    numbers = found[[*columns, "midpoint", "max"]].reset_index(drop=True)
    figure = Figure(figsize=(style.COLUMN_WIDTH, 2.7))
    ax = figure.subplots()
    entries = _marks(ax, numbers, "transpositions", "midpoint", ("as_trained", "planted", "aligned"))
    entries |= _published_lines(ax, [one for one in _published(shown, "barrier") if one.x], THEIR_PAIRS)
    page.legend_below(figure, entries)
    ax.axhline(0, color=style.BLACK, lw=0.6, zorder=0)
    ax.set_xlabel("transpositions after training")
    ax.set_ylabel("barrier of the training loss (nats)")
    if text := correlation_text(numbers[numbers["state"] == "as_trained"]):
        ax.set_title(text)
    return Drawing(figure, numbers)


def correlation_text(part: pd.DataFrame) -> str:
    """Pearson correlation over the pairs; empty if they are fewer than four or do not vary."""
    x, y = part["transpositions"].to_numpy(float), part["midpoint"].to_numpy(float)
    kept = np.isfinite(y)
    if kept.sum() < 4 or np.ptp(x[kept]) == 0 or np.ptp(y[kept]) == 0:
        return ""
    value = f"{np.corrcoef(x[kept], y[kept])[0, 1]:.3f}".replace("-", "\N{MINUS SIGN}")
    return f"correlation {value}, {kept.sum()} pairs"


def distance_against_transpositions(shown: Sequence[Shown]) -> Drawing:
    """Squared distance of a pair before training, after training, and then with the initial permutation undone.

    The third, smaller by orders of magnitude, has its own panel with a logarithmic axis. Black lines are the
    paper's numbers, if the runs have its 512 units.
    """
    numbers = _planted_and_found(shown)
    numbers = numbers[numbers["state"].isin(STARTED)].reset_index(drop=True)
    theirs = _published(shown, "distance")
    figure = Figure(figsize=(style.COLUMN_WIDTH, 3.2))
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    entries = _marks(upper, numbers, "planted", "squared_distance", ("start", "as_trained"))
    entries |= _marks(lower, numbers, "planted", "squared_distance", ("planted",))
    entries |= _published_lines(upper, [one for one in theirs if one.x], THEIR_PAIRS)
    for one in (one for one in theirs if one.label == "permutation undone"):
        lower.axhline(float(one.value), **THEIRS)
    page.legend_below(figure, entries)
    lower.set_yscale("log")
    low, high = lower.get_ylim()
    log_ticks(lower, low / 2, high * 2)
    lower.set_xlabel("transpositions before training")
    upper.set_ylabel("squared distance")
    return Drawing(figure, numbers)


def transpositions_stability(shown: Sequence[Shown]) -> Drawing:
    """Number of transpositions found by matching, against the number planted, and by how much training changed it.

    The diagonal means no change. The dotted line is the mean number for random permutations.
    """
    numbers = _planted_and_found(shown)
    figure = Figure(figsize=(style.COLUMN_WIDTH, 2.7))
    ax = figure.subplots()
    most = float(max(numbers["planted"].max(), numbers["ceiling"].max()))
    ax.plot([0, most], [0, most], color=style.BLACK, lw=0.6, zorder=0)
    ax.axhline(float(numbers["ceiling"].iloc[0]), color=style.GREY, lw=0.8, ls=":", zorder=0)
    page.legend_below(figure, _marks(ax, numbers, "planted", "transpositions", STARTED))
    ax.set_xlabel("transpositions before training")
    ax.set_ylabel("transpositions found by matching")
    inset = ax.inset_axes((0.58, 0.2, 0.4, 0.26))
    inset.axhspan(-NEAR, NEAR, color="#E3E3E3", lw=0, zorder=0)
    _marks(inset, numbers, "planted", "change", ("as_trained",))
    inset.set_ylim(-2 * NEAR, 2 * NEAR)
    inset.tick_params(labelsize=6)
    inset.set_xticks([])
    inset.set_title("change by training", fontsize=6)
    return Drawing(figure, numbers)


def _planted_and_found(shown: Sequence[Shown]) -> pd.DataFrame:
    """Columns label, run, split, first, second, state, planted, transpositions, change, ceiling, squared_distance.

    The state `start` is the pair before training.
    """
    matches = _read(shown, "matches", MATCH_SCHEMA)
    ends = matches[(matches["point"] == 1.0) & matches["planted"].notna()]
    last = ends[ends["draw"] == ends.groupby("run")["draw"].transform("max")]
    first = ends[(ends["draw"] == 0) & (ends["state"] == "as_trained")].assign(state="start")
    found = pd.concat([first, last], ignore_index=True)
    undone = found["state"].isin(["planted", "aligned"])
    found["planted"] = found["planted"].astype(float)
    found["change"] = np.where(undone, found["transpositions"], found["transpositions"] - found["planted"])
    columns = ["label", "run", "split", "first", "second", "state", "planted", "transpositions", "change", "ceiling"]
    return found[[*columns, "squared_distance"]].sort_values(["state", "planted"], kind="stable", ignore_index=True)


def _marks(ax: Axes, numbers: pd.DataFrame, x: str, y: str, states: Sequence[str]) -> dict[str, Artist]:
    """Draw an open mark for each pair in each of the states; returns the entries of the legend."""
    entries: dict[str, Artist] = {}
    for state in states:
        part = numbers[numbers["state"] == state]
        if len(part):
            look = {**LOOKS[state], "ls": "none", "ms": 3.5, "mew": 0.9, "mfc": "none"}
            (entries[TEXTS[state]],) = ax.plot(part[x], part[y], **look)
    return entries


def _published(shown: Sequence[Shown], group: str) -> list[Number]:
    """The paper's numbers of a group; none for networks of another size, or if the paper has no such group."""
    if {sum(one.hidden) for one in shown} != {PUBLISHED_UNITS}:
        return []
    try:
        return published_numbers("permutation_symmetry", group)
    except KeyError:
        return []


def _published_lines(ax: Axes, numbers: Sequence[Number], text: str = "published") -> dict[str, Artist]:
    """Draw a line over x for each label, with a band of the published standard deviation; returns legend entries."""
    entries: dict[str, Artist] = {}
    for label in dict.fromkeys(one.label for one in numbers):
        part = [one for one in numbers if one.label == label]
        x, y, sd = np.array([[float(n.x), float(n.value), float(n.error or 0)] for n in part]).T
        (line,) = ax.plot(x, y, **THEIRS)
        if sd.any():
            ax.fill_between(x, y - sd, y + sd, color=style.BLACK, alpha=0.12, lw=0)
        entries[f"{text} ± sd" if sd.any() else text] = line
    return entries


def barrier_along_training(shown: Sequence[Shown]) -> Drawing:
    """The highest loss and error on the line between two networks minus the mean of its ends, epoch by epoch.

    On the right: the loss along the line after the last epoch. Lines are means over pairs, seeds and splits, bands one
    standard deviation. Thin black lines are the paper's pair, if the runs have its 512 units.

    Columns panel (loss, error, line), state, rows, x (epoch or point), mean, sd, pairs.
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
        "loss": "barrier of the loss (nats)",
        "error": "barrier of the error",
        "line": "loss after training (nats)",
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
    last_epoch = numbers.loc[numbers["panel"] == "loss", "x"].max()
    on_training = [one for one in _published(shown, "figure 1") if float(one.x) <= last_epoch]
    entries |= _published_lines(figure.axes[0], on_training)
    entries |= _published_lines(figure.axes[2], _published(shown, f"figure 1, epoch {last_epoch:g}"))
    remark(figure.axes[1], [_number_of_pairs(numbers)])
    page.legend_below(figure, entries)
    return Drawing(figure, numbers)


def _band(ax: Axes, part: pd.DataFrame, x: str, colour: str, dash: Any = "-") -> Line2D:
    """A line of means, with a band of one standard deviation on either side if there are several pairs."""
    ordered = part.sort_values(x)
    places, mean, sd = (ordered[name].to_numpy(float) for name in (x, "mean", "sd"))
    if np.isfinite(sd).any():
        ax.fill_between(places, mean - sd, mean + sd, color=colour, alpha=0.15, lw=0)
    return ax.plot(places, mean, color=colour, ls=dash)[0]


def transpositions_along_line(shown: Sequence[Shown]) -> Drawing:
    """Transpositions between the first network of a pair and each point of the line to the second, at three epochs.

    The dotted line is the mean number for random permutations. Open marks are the paper's pair at the same epoch, if
    the runs have its 512 units. Columns state, draw, point, mean, sd, pairs, ceiling. Raises ValueError without points
    inside the lines.
    """
    matches = _read(shown, "matches", MATCH_SCHEMA)
    matches = matches[matches["state"].isin(COURSES)]
    found = _over_pairs(matches, ["state", "draw", "point"], "transpositions")
    starts = found[found["point"] == 1.0].assign(point=0.0, mean=0.0, sd=0.0)
    numbers = pd.concat([starts, found], ignore_index=True).assign(ceiling=matches["ceiling"].iloc[0])
    numbers["point"] = numbers["point"].round(6)  # so that claims can name points
    last = int(numbers["draw"].max())
    figure = Figure(figsize=(style.COLUMN_WIDTH, 2.7))
    ax = figure.subplots()
    ax.axhline(float(numbers["ceiling"].iloc[0]), color=style.GREY, lw=0.8, ls=":", zorder=0)
    entries: dict[str, Artist] = {}
    epochs = sorted({min(1, last), last // 20 * 10 or last // 2, last})
    for epoch, colour in zip(epochs, style.CYCLE, strict=False):
        part = numbers[numbers["draw"] == epoch]
        entries[f"epoch {epoch}"] = _band(ax, part[part["state"] == "as_trained"], "point", colour)
        _band(ax, part[part["state"] == "aligned"], "point", colour, DASHES["test"])
        mark: dict[str, Any] = {"marker": "d", "ls": "none", "ms": 3.5, "mfc": "none"}
        for one in _published(shown, f"figure 2 right, epoch {epoch}"):
            ax.plot(float(one.x), float(one.value), mec=colour, **mark)
            entries["published"] = Line2D([], [], mec=style.GREY, **mark)
    entries["aligned"] = Line2D([], [], color=style.GREY, ls=DASHES["test"])
    ax.set_xlabel("position along the line")
    ax.set_ylabel("transpositions from\nthe first network")
    page.legend_below(figure, entries)
    return Drawing(figure, numbers)


def loss_surface(shown: Sequence[Shown]) -> Drawing:
    """Training loss on the line between two networks, over epochs, before and after alignment.

    Figure 1 of Xiao et al. 2023. Means over pairs, seeds and splits. Columns state, draw, point, mean, sd, pairs.
    """
    lines = _read(shown, "lines", LINE_SCHEMA)
    lines = lines[lines["state"].isin(COURSES) & (lines["rows"] == "train") & (lines["draw"] > 0)]
    lines = lines.assign(point=lines["point"].round(6))  # so that claims can name points
    numbers = _over_pairs(lines, ["state", "draw", "point"], "loss")
    figure = Figure(figsize=(style.TEXT_WIDTH, 2.2))
    axes = figure.subplots(1, 2, sharey=True)
    for ax, state in zip(axes, COURSES, strict=True):
        grid = numbers[numbers["state"] == state].pivot(index="point", columns="draw", values="mean").sort_index()
        mesh = ax.pcolormesh(
            grid.columns.to_numpy(float), grid.index.to_numpy(float), grid.to_numpy(float), shading="nearest",
            norm=LogNorm(numbers["mean"].min(), numbers["mean"].max()), rasterized=True,
        )  # fmt: skip
        ax.set_title(TEXTS[state])
        ax.set_xlabel("epoch")
        ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes[0].set_ylabel("position along the line")
    remark(axes[0], [_number_of_pairs(numbers)])
    colour_bar(mesh, axes[1], "training loss (nats)")
    return Drawing(figure, numbers)


def _read(shown: Sequence[Shown], name: str, schema: pa.Schema) -> pd.DataFrame:
    """A table of all runs and splits, with the columns label, run and split."""
    return pd.concat([_named(one, read_frame(one.files[name], schema)) for one in shown], ignore_index=True)


def _read_barriers(shown: Sequence[Shown]) -> pd.DataFrame:
    """Barriers of all lines of all runs (`symmetry.barriers.barrier_frame`), with the transpositions of each pair."""
    parts = []
    for one in shown:
        lines, matches = read_frame(one.files["lines"], LINE_SCHEMA), read_frame(one.files["matches"], MATCH_SCHEMA)
        parts.append(_named(one, with_transpositions(barrier_frame(lines), matches)))
    return pd.concat(parts, ignore_index=True)


def _named(one: Shown, frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(label=one.label, run=one.run, split=one.split)


def _number_of_pairs(numbers: pd.DataFrame) -> str:
    most = int(numbers["pairs"].max())
    return f"{most} pair{'s' if most > 1 else ''}"


def _over_pairs(frame: pd.DataFrame, by: Sequence[str], value: str) -> pd.DataFrame:
    """Mean, sd (n - 1; NaN for one value) and number of values (pairs, runs, splits) by group; keeps NaN, infinity."""
    groups = frame.groupby(list(by), sort=False)[value]
    found = groups.agg(
        mean=lambda v: v.to_numpy().mean(),
        sd=lambda v: v.to_numpy().std(ddof=1) if len(v) > 1 else np.nan,
        pairs="size",
    )
    return found.reset_index()
