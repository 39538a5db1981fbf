"""Sampled posteriors beside the deep ensembles that they were started from."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, MaxNLocator

from bnn_atlas.figures import style
from bnn_atlas.figures.scores import (
    ENSEMBLE,
    ERROR,
    LABELS,
    method_name,
    off_scale_remark,
    over_repetitions,
    read_scores,
    remark,
    robust_limits,
    score_text,
)
from bnn_atlas.figures.shown import Shown
from bnn_atlas.figures.style import FigureOutputs
from bnn_atlas.provenance import Provenance

SETTING = ("model", "likelihood")
"""What tells rows of one data set apart."""
BETTER = {"lppd": "higher is better", "accuracy": "higher is better", "rmse": "lower is better"}
LIKELIHOODS = {"learned_noise": "one noise level", "heteroscedastic": "noise per row", "gaussian": "fixed noise"}


def sampling_vs_ensemble(shown: Sequence[Shown], outputs: FigureOutputs, provenance: Provenance) -> None:
    """LPPD and RMSE (classification: accuracy) of sampled posteriors and of deep ensembles, a row per data set.

    Small dots are the runs and splits, large ones their mean with a bar of one standard deviation. Numbers are those
    of `comparison_table`; a row that lacks one of the two says so.
    """
    runs, means = comparison_table(shown)
    with style.context():
        figure = _comparison_figure(runs, means)
        each = runs.assign(kind="run")
        data = pd.concat([each, means.assign(kind="mean")], ignore_index=True)
        columns = ["kind", "row", "task", "metric", "method", "run", "split", "value", "sd", "repetitions"]
        data = data.reindex(columns=columns).astype({"split": "Int64", "repetitions": "Int64"})
        style.save(figure, data, outputs, provenance)


def comparison_table(shown: Sequence[Shown]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Scores of single runs and splits, and their means.

    The first has row, task, metric, method, run, split, value; the second row, task, metric, method, value, sd,
    repetitions. `row` is the data set, with the model or the likelihood where one data set has several. Raises
    ValueError where no deep ensemble or nothing else is among the runs.
    """
    scores = read_scores(shown)
    ensembles = scores["method"] == ENSEMBLE
    if ensembles.all() or not ensembles.any():
        raise ValueError(
            "the figure compares sampled posteriors with deep ensembles, and its runs hold "
            f"{'no ensemble' if not ensembles.any() else 'ensembles only'}; list both"
        )
    scores["row"] = _row_names(scores)
    keys = ["row", "task", "metric", "method"]
    means = scores.groupby(keys, sort=False)["value"].apply(over_repetitions).unstack().reset_index()
    means = means.rename(columns={"mean": "value"}).astype({"repetitions": int})
    return scores[[*keys, "run", "split", "value"]], means[[*keys, "value", "sd", "repetitions"]]


def _row_names(scores: pd.DataFrame) -> list[str]:
    """The data set of each score, with what differs between the settings of one data set."""
    names = []
    several = {field: scores.groupby("dataset")[field].transform("nunique").to_numpy() > 1 for field in SETTING}
    settings = zip(*(scores[name] for name in ("dataset", "model", "hidden", "likelihood")), strict=True)
    for i, (dataset, model, hidden, likelihood) in enumerate(settings):
        parts = [str(dataset)]
        if several["model"][i]:
            parts.append("×".join(map(str, hidden)) if hidden else str(model))
        if several["likelihood"][i]:
            parts.append(LIKELIHOODS.get(likelihood, str(likelihood).replace("_", " ")))
        names.append("\n".join([parts[0], ", ".join(parts[1:])]) if parts[1:] else parts[0])
    return names


def _comparison_figure(runs: pd.DataFrame, means: pd.DataFrame) -> Figure:
    tasks = [task for task in ERROR if (means["task"] == task).any()]
    rows = {task: list(dict.fromkeys(means.loc[means["task"] == task, "row"])) for task in tasks}
    methods = sorted(dict.fromkeys(means["method"]), key=lambda method: method == ENSEMBLE)
    looks = _looks(methods)
    step = 0.16 + 0.12 * len(methods)
    heights = [step * len(rows[task]) + 0.65 for task in tasks]
    figure = Figure(figsize=(style.TEXT_WIDTH, sum(heights) + 0.4))
    axes = figure.subplots(len(tasks), 2, squeeze=False, height_ratios=heights)
    for line, task in zip(axes, tasks, strict=True):
        for ax, metric in zip(line, ("lppd", ERROR[task]), strict=True):
            which = [frame[(frame["task"] == task) & (frame["metric"] == metric)] for frame in (runs, means)]
            _dots(ax, which[0], which[1], rows[task], looks)
            what, *target = LABELS[task, metric].split(",\n")
            ax.set_xlabel(f"{what}\n({', '.join([*target, BETTER[metric]])})")
            ax.tick_params(labelleft=metric == "lppd")
    style.legend_below(figure, _legend(means, looks))
    return figure


def _looks(methods: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Colour and marker of each method."""
    markers = iter(("o", "s", "^", "v", "P", "X", "*", "<", ">"))
    lines = style.lines(methods)
    return {
        method: (line.colour, "D" if method == ENSEMBLE else next(markers))
        for method, line in zip(methods, lines, strict=True)
    }


def _dots(
    ax: Axes, runs: pd.DataFrame, means: pd.DataFrame, rows: Sequence[str], looks: Mapping[str, tuple[str, str]]
) -> None:
    """Scores of one task and metric; the first row is on top."""
    points = pd.concat([runs, means])[["value", "sd"]].to_numpy(dtype=float)
    limits = _with_room(robust_limits(*points.T), means["value"].to_numpy(dtype=float))
    methods = [method for method in looks if (means["method"] == method).any()]
    offsets = dict(zip(methods, np.linspace(-0.24, 0.24, len(methods)), strict=True))
    for y in range(len(rows)):
        ax.axhline(y, color="#E3E3E3", lw=0.5, zorder=0)
    for method in methods:
        colour, marker = looks[method]
        mine = runs[runs["method"] == method]
        y = np.array([rows.index(row) for row in mine["row"]]) + offsets[method] + 0.09
        x = mine["value"].to_numpy(dtype=float)
        inside = (x >= limits[0]) & (x <= limits[1])
        ax.plot(x[inside], y[inside], marker="o", ls="none", ms=2, color=colour, mew=0)
        ours = means[means["method"] == method]
        for row, value, sd in zip(ours["row"], ours["value"].to_numpy(float), ours["sd"].to_numpy(float), strict=True):
            height = rows.index(row) + offsets[method]
            if limits[0] <= value <= limits[1]:
                bar = sd if np.isfinite(sd) else 0.0
                ax.errorbar(
                    value, height, xerr=bar, color=colour, marker=marker, ms=4.5, elinewidth=0.9, mfc="none", mew=1.1
                )
            else:
                _at_edge(ax, float(value), height, limits, colour)
    for y, name in enumerate(rows):
        present = set(means.loc[means["row"] == name, "method"])
        absent = [] if ENSEMBLE in present else ["no ensemble run"]
        absent += [] if present - {ENSEMBLE} else ["no sampled run"]
        if absent:
            ax.text(0.995, y + 0.02, absent[0], transform=ax.get_yaxis_transform(), fontsize=6, color=style.GREY,
                    ha="right", va="bottom")  # fmt: skip
    ax.set_xlim(limits)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.yaxis.set_major_locator(FixedLocator(list(range(len(rows)))))
    ax.set_yticklabels(rows)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    remark(ax, [off_scale_remark(runs["value"].to_numpy(dtype=float), limits)])


def _at_edge(ax: Axes, value: float, height: float, limits: tuple[float, float], colour: str) -> None:
    """A value beyond the limits, or one that is not defined, as a number inside the nearer edge."""
    low = not value > limits[1]
    edge, towards = (limits[0], "<") if low else (limits[1], ">")
    if not np.isnan(value):
        ax.plot(edge, height, color=colour, marker=towards, ms=4.5, clip_on=False, zorder=5)
    ax.annotate(
        "NaN" if np.isnan(value) else score_text(value), (edge, height), xytext=(5 if low else -5, 0),
        textcoords="offset points", ha="left" if low else "right", va="center", fontsize=6, color=colour,
    )  # fmt: skip


def _with_room(limits: tuple[float, float], values: np.ndarray) -> tuple[float, float]:
    """Limits with room for the numbers of values beyond them or undefined, which stand inside the edge."""
    room = 0.16 * (limits[1] - limits[0])
    low = limits[0] - room if (values < limits[0]).any() or np.isnan(values).any() else limits[0]
    return low, limits[1] + room if (values > limits[1]).any() else limits[1]


def _legend(means: pd.DataFrame, looks: Mapping[str, tuple[str, str]]) -> dict[str, Artist]:
    entries: dict[str, Artist] = {
        method_name(method): Line2D([], [], color=colour, marker=marker, ls="none", ms=4.5, mfc="none", mew=1.1)
        for method, (colour, marker) in looks.items()
    }
    if means["sd"].notna().any():
        entries["mean ± 1 sd over seeds and splits"] = Line2D([], [], color=style.GREY, lw=0.9)
        entries["one run"] = Line2D([], [], color=style.GREY, marker="o", ls="none", ms=2, mew=0)
    return entries
