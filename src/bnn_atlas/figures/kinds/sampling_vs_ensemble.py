"""Sampled posteriors next to the deep ensembles that they were started from."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bnn_atlas.config.methods.registry import method as method_record
from bnn_atlas.figures import page, style
from bnn_atlas.figures.axes import (
    PUBLISHED,
    PUBLISHED_LABEL,
    fenced_limits,
    mark_published,
    off_scale_remark,
    remark,
    score_text,
)
from bnn_atlas.figures.page import Drawing, Entries
from bnn_atlas.figures.scores import ENSEMBLE, ERROR, LABELS, over_repetitions, read_scores
from bnn_atlas.figures.shown import Shown

KIND = {
    "files": ["table"], "ensemble": "beside samplers", "repeats": ["row", "method"],
    "columns": "kind row task metric method run split value sd standard_error repetitions published published_sd",
}  # fmt: skip

CURVE = "lppd_cumulative_chains"
SETTING = ("model", "likelihood")
"""Fields that distinguish the rows of one data set."""
BETTER = {"lppd": "higher is better", "accuracy": "higher is better", "rmse": "lower is better"}
MEAN: dict[str, Any] = {"ls": "none", "ms": 4.5, "mfc": "none", "mew": 1.1}
SINGLE: dict[str, Any] = {"marker": "o", "ls": "none", "ms": 2, "mew": 0}
SD: dict[str, Any] = {"lw": 1.2, "solid_capstyle": "butt"}
ERROR_OF_MEAN: dict[str, Any] = {"lw": 0.6, "marker": "|", "ms": 4, "mew": 0.6}
"""Looks of means, of single runs and of the two kinds of bars."""
LIKELIHOODS = {"learned_noise": "one noise level", "heteroscedastic": "noise per row", "gaussian": "fixed noise"}


def sampling_vs_ensemble(shown: Sequence[Shown]) -> Drawing:
    """LPPD and RMSE (classification: accuracy) of sampled posteriors and of deep ensembles, a row per data set.

    A row has its own axes, so that methods are compared within it. Small dots are the runs and splits, large marks
    their mean with a bar of one standard deviation; a single run has no dot, and its bar is the standard error over
    test rows, if the table has it. Published numbers are open black marks above the method's line. The numbers come
    from `comparison_table`; a row that lacks one of the two methods says so.
    """
    runs, means = comparison_table(shown)
    rows = dict(zip(runs["run"], runs["row"], strict=True))
    names = [f"{rows[one.run]}, {method_record(one.method).title}" for one in shown]
    figure = _comparison_figure(runs, means)
    data = pd.concat([runs.assign(kind="run"), means.assign(kind="mean")], ignore_index=True)
    columns = [
        "kind", "row", "task", "metric", "method", "run", "split", "value", "sd", "standard_error", "repetitions",
        "published", "published_sd",
    ]  # fmt: skip
    data = data.reindex(columns=columns).astype({"split": "Int64", "repetitions": "Int64"})
    return Drawing(figure, data, names=names)


def comparison_table(shown: Sequence[Shown]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Scores of single runs and splits, and their means.

    Columns of the first: row, task, metric, method, run, split, value, standard_error (over test rows); of the second:
    row, task, metric, method, value, sd, standard_error (of a single run), repetitions, published, published_sd; NaN if
    there is none. `row` is the label if the run has one, else the data set, with the model or the likelihood if a data
    set has several.
    """
    scores = read_scores(shown)
    labels = {one.run: one.label for one in shown if one.label != one.run}
    scores["row"] = [
        labels.get(run, name) for run, name in zip(scores["run"], _row_names(scores), strict=True)
    ]  # fmt: skip
    keys = ["row", "task", "metric", "method"]
    groups = scores.groupby(keys, sort=False)
    means = groups["value"].apply(over_repetitions).unstack().reset_index()
    means = means.rename(columns={"mean": "value"}).astype({"repetitions": int})
    means = means.join(groups["standard_error"].first(), on=keys)
    means["standard_error"] = means["standard_error"].where(means["repetitions"] == 1)
    rows = dict(zip(scores["run"], scores["row"], strict=True))
    papers = {(rows[one.run], one.method, metric): found for one in shown for metric, found in _papers(one).items()}
    marks = [papers.get(key, (np.nan, np.nan)) for key in means[["row", "method", "metric"]].itertuples(index=False)]
    means[["published", "published_sd"]] = np.array(marks, dtype=float).reshape(-1, 2)
    return (
        scores[[*keys, "run", "split", "value", "standard_error"]],
        means[[*keys, "value", "sd", "standard_error", "repetitions", "published", "published_sd"]],
    )


def _papers(one: Shown) -> dict[str, tuple[float, float]]:
    """Metric -> what the papers give for all chains of a run, and its standard deviation (NaN if none is given).

    The LPPD of all chains is the last one of a published curve over chains.
    """
    found: dict[str, tuple[float, float]] = {}
    for number in sorted(one.published, key=lambda number: number.chains or np.inf):
        metric = "lppd" if number.metric == CURVE else number.metric
        if metric == "lppd" or number.chains is None:
            found[metric] = (number.value, np.nan if number.sd is None else number.sd)
    return found


def _row_names(scores: pd.DataFrame) -> list[str]:
    """The data set of each score, with what differs between the settings of one data set."""
    names = []
    several = {field: scores.groupby("dataset")[field].transform("nunique").to_numpy() > 1 for field in SETTING}
    settings = zip(*(scores[name] for name in ("dataset_title", "model", "hidden", "likelihood")), strict=True)
    for i, (title, model, hidden, likelihood) in enumerate(settings):
        parts = [str(title)]
        if several["model"][i]:
            parts.append("×".join(map(str, hidden)) if hidden else str(model))
        if several["likelihood"][i]:
            parts.append(LIKELIHOODS.get(likelihood, str(likelihood).replace("_", " ")))
        names.append("\n".join([parts[0], ", ".join(parts[1:])]) if parts[1:] else parts[0])
    return names


def _comparison_figure(runs: pd.DataFrame, means: pd.DataFrame) -> Figure:
    rows = runs.drop_duplicates("row")[["row", "task"]]
    rows = rows.sort_values("task", key=lambda task: task.map(list(ERROR).index), kind="stable")
    methods = sorted(dict.fromkeys(means["method"]), key=lambda method: method == ENSEMBLE)
    looks = dict(zip(methods, style.lines(methods), strict=True))
    # Each row's marks and ticks, and the axis labels below the last row of a task.
    last = ~rows["task"].duplicated(keep="last")
    lines = [means.loc[means["row"] == row, "method"].nunique() for row in rows["row"]]
    heights = [0.24 + 0.17 * max(count, 2) for count in lines]
    figure = Figure(figsize=(style.TEXT_WIDTH, sum(heights) + 0.33 * sum(last) + 0.45))
    axes = figure.subplots(len(rows), 2, squeeze=False, height_ratios=[0.17 * max(count, 2) for count in lines])
    for pair, (row, task), labelled in zip(axes, rows.itertuples(index=False), last, strict=True):
        for ax, metric in zip(pair, ("lppd", ERROR[task]), strict=True):
            singles, mean = (part[(part["row"] == row) & (part["metric"] == metric)] for part in (runs, means))
            _marks(ax, singles, mean, looks)
            if labelled:
                what, *target = LABELS[task, metric].split(",\n")
                ax.set_xlabel(f"{what}\n({', '.join([*target, BETTER[metric]])})")
        name = row.replace(", ", ",\n")
        pair[0].set_ylabel(name, rotation=0, ha="right", va="center", ma="right", labelpad=8)
    page.legend_below(figure, _legend(means, looks))
    return figure


def _marks(ax: Axes, runs: pd.DataFrame, means: pd.DataFrame, looks: Mapping[str, style.Line]) -> None:
    """Scores of one row by one metric, a line per method."""
    limits = _with_room(_limits(runs, means), means["value"].to_numpy(dtype=float))
    methods = [method for method in looks if (means["method"] == method).any()]
    for y, method in enumerate(methods):
        ax.axhline(y, color="#E3E3E3", lw=0.5, zorder=0)
        colour, _, marker = looks[method]
        fields = ["value", "sd", "standard_error", "repetitions", "published", "published_sd"]
        numbers = means.loc[means["method"] == method, fields].to_numpy(dtype=float)[0]
        value, sd, error, repetitions, paper, paper_sd = numbers
        if np.isfinite(paper):
            mark_published(ax, paper, y - 0.3, x_sd=paper_sd)
        if limits[0] <= value <= limits[1]:
            ax.plot(value, y, color=colour, marker=marker, **MEAN)
        else:
            _at_edge(ax, float(value), y, limits, colour)
        if repetitions > 1:
            x = runs.loc[runs["method"] == method, "value"].to_numpy(dtype=float)
            inside = (x >= limits[0]) & (x <= limits[1])
            ax.plot(x[inside], np.full(inside.sum(), y + 0.27), color=colour, **SINGLE)
        for bar, look in ((sd, SD), (error, ERROR_OF_MEAN)):
            if np.isfinite(bar) and limits[0] <= value <= limits[1]:
                ax.plot([value - bar, value + bar], [y, y], color=colour, **look)
    present = set(methods)
    absent = ["no ensemble run"] * (ENSEMBLE not in present) + ["no sampled run"] * (not present - {ENSEMBLE})
    if absent:
        ax.text(0.995, 0.04, absent[0], transform=ax.transAxes, fontsize=6, color=style.GREY, ha="right", va="bottom")
    ax.set_xlim(limits)
    ax.set_ylim(max(len(methods), 2) - 0.4, -0.8 if means["published"].notna().any() else -0.6)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    ax.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    remark(ax, [off_scale_remark(runs["value"].to_numpy(dtype=float), limits)])


def _limits(runs: pd.DataFrame, means: pd.DataFrame) -> tuple[float, float]:
    """Robust limits from the means with their bars, widened to hold the single runs of the methods within them."""
    values = means["value"].to_numpy(dtype=float)
    bars = means["sd"].fillna(means["standard_error"]).to_numpy(dtype=float)
    low, high = fenced_limits(values, bars)
    within = means.loc[(values >= low) & (values <= high), "method"]
    theirs = runs.loc[runs["method"].isin(within), "value"].to_numpy(dtype=float)
    margin = 0.1 * (high - low)
    around = means["published_sd"].fillna(0)
    papers = pd.concat([means["published"] - around, means["published"] + around]).dropna()
    return min([low, *theirs, *papers]) - margin, max([high, *theirs, *papers]) + margin


def _at_edge(ax: Axes, value: float, height: float, limits: tuple[float, float], colour: str) -> None:
    """Write a value that is beyond the limits, or undefined, as a number inside the nearer edge."""
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


def _legend(means: pd.DataFrame, looks: Mapping[str, style.Line]) -> Entries:
    entries: dict[str, dict[str, Any]] = {
        method_record(method).title: {"color": colour, "marker": marker, **MEAN}
        for method, (colour, _, marker) in looks.items()
    }
    grey = {"color": style.GREY}
    if (means["repetitions"] > 1).any():
        entries |= {"mean ± 1 sd over seeds and splits": grey | SD, "one of several runs": grey | SINGLE}
    if means["standard_error"].notna().any():
        entries["one run ± 1 standard error over test rows"] = grey | ERROR_OF_MEAN
    if means["published"].notna().any():
        entries[PUBLISHED_LABEL] = PUBLISHED
    return entries
