"""LPPD and RMSE over prior scales and depths."""

import math
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from bnn_atlas.config.methods.registry import method as method_record
from bnn_atlas.figures import page, style
from bnn_atlas.figures.axes import remark
from bnn_atlas.figures.page import Drawing, Entries
from bnn_atlas.figures.scores import ENSEMBLE, LABELS, NEAR_STARTS, over_repetitions, read_scores
from bnn_atlas.figures.shown import Shown
from bnn_atlas.figures.xy.panels import Look, Panel, draw_panel, published_rows
from bnn_atlas.figures.xy.table import Field

KIND = {
    "files": ["table"], "ensemble": "beside one sampler", "needs": ["prior scale"],
    "repeats": ["dataset", "method", "depth", "prior scale"],
    "columns": "dataset task metric method depth scale mean sd standard_error low high repetitions prior_shell",
}  # fmt: skip

SCALE = "prior.scale"
MAX_COLUMNS = 4
MARKERS = ("o", "s", "D", "h", "p", "X", "P")
"""Marks of the depths; triangles are for infinite values."""
ENSEMBLE_DASH = (0, (3, 1.5))
APART = 0.01
"""Shift between the marks of neighbouring depths, as a power of the range of scales, so that no bar hides another."""


def prior_depth(shown: Sequence[Shown]) -> Drawing:
    """LPPD and RMSE (or accuracy) against the scale of the prior, a column per data set, a line per number of layers.

    Solid lines are the sampled posterior, dashed ones the deep ensemble, if the figure has such runs; an ensemble at a
    single prior scale is a level line, since its loss does not contain the prior. Marks of chains that are near their
    starts (`prior_shell` below `NEAR_STARTS`) are white. Bars are one standard deviation over seeds and splits or, for
    a single run, one standard error over test rows. Settings of the grid that were not run leave gaps and are counted,
    and so are values far from all others; a panel without any runs says so.

    Numbers: dataset, task, metric, method, depth, scale, mean, sd, standard_error, low, high, repetitions, prior_shell
    (theta^2 over the prior's variance, mean over seeds and splits; NaN where the tables have none). `depth` is
    the number of hidden layers, `scale` the scale of the prior from the run's grid, or else its standard deviation.
    Settings of the full grid without a sampled run on a data set are rows with 0 repetitions.
    """
    scores = read_scores(shown)
    scores["depth"] = [len(hidden) for hidden in scores["hidden"]]
    given = {(run.run, run.split): _scale(run) for run in shown}
    scores["scale"] = [given[key] for key in zip(scores["run"], scores["split"], strict=True)]
    methods = [method for method in dict.fromkeys(scores["method"]) if method != ENSEMBLE]
    keys = ["dataset", "task", "metric", "method", "depth", "scale"]
    table = scores.groupby(keys, sort=False)["value"].apply(over_repetitions).unstack().reset_index()
    table = table.join(scores.groupby(keys)["standard_error"].mean(), on=keys)
    table["standard_error"] = table["standard_error"].where(table["repetitions"] == 1)
    shells = {one.run: one.table().query("metric == 'prior_shell'")["value"].mean() for one in shown}
    scores["prior_shell"] = scores["run"].map(shells)
    table = table.join(scores.groupby(keys)["prior_shell"].mean(), on=keys)
    sampled = table[table["method"] == methods[0]]
    full = pd.MultiIndex.from_product([sampled["depth"].unique(), sampled["scale"].unique()], names=["depth", "scale"])
    parts = []
    for values, _ in table.groupby(keys[:3], sort=False):
        names = dict(zip(keys[:4], (*values, methods[0]), strict=True))
        part = sampled[(sampled["dataset"] == names["dataset"]) & (sampled["metric"] == names["metric"])]
        parts.append(part.set_index(["depth", "scale"]).reindex(full).reset_index().assign(**names))
    joined = pd.concat([*parts, table[table["method"] == ENSEMBLE]], ignore_index=True)
    joined["repetitions"] = joined["repetitions"].fillna(0).astype(int)
    order = {dataset: i for i, dataset in enumerate(dict.fromkeys(scores["dataset"]))}
    joined = joined.assign(place=joined["dataset"].map(order), error=joined["metric"] != "lppd")
    joined = joined.sort_values(["place", "error", "method", "depth", "scale"], kind="stable")
    table = joined[[*keys, "mean", "sd", "standard_error", "low", "high", "repetitions", "prior_shell"]].reset_index(
        drop=True
    )
    titles = {run.dataset: run.dataset_title for run in shown}
    datasets = list(dict.fromkeys(table["dataset"]))
    columns = min(len(datasets), MAX_COLUMNS)
    blocks = math.ceil(len(datasets) / columns)
    width = style.COLUMN_WIDTH if columns == 1 else style.TEXT_WIDTH
    figure = Figure(figsize=(width, 3.3 * blocks + 0.35))
    axes = figure.subplots(2 * blocks, columns, squeeze=False)
    looks, scales = _looks(table), np.sort(table["scale"].unique())
    for place, dataset in enumerate(datasets):
        block, column = divmod(place, columns)
        part = table[table["dataset"] == dataset]
        for i, metric in enumerate(dict.fromkeys(part["metric"])):
            ax = axes[2 * block + i, column]
            task = str(part["task"].iloc[0])
            _panel(ax, part[part["metric"] == metric], Panel(str(metric), LABELS[task, str(metric)]), looks, scales)
            if column and task == table.loc[table["dataset"] == datasets[place - 1], "task"].iloc[0]:
                ax.set_ylabel("")
            if i == 0:
                ax.tick_params(labelbottom=False)
                ax.set_xlabel("")
    for ax in axes.flat:
        ax.set_visible(ax.has_data())
    for block in range(blocks):
        heads = [ax for ax in axes[2 * block] if ax.has_data()]
        # Empty lines keep a data set's name above its panel's remarks, and the names in a row at the same height.
        depth = max(len(ax.get_title(loc="right").splitlines()) for ax in heads)
        for ax, dataset in zip(heads, datasets[block * columns :], strict=False):
            ax.set_title(titles[str(dataset)] + "\n " * depth)
    page.legend_below(figure, _legend(table, looks))
    return Drawing(figure, table, names=[_name(one) for one in shown])


def _name(one: Shown) -> str:
    """A run and split in words."""
    layers = f"{len(one.hidden)} hidden layer{'s' if len(one.hidden) != 1 else ''}"
    return f"{one.dataset_title} by {method_record(one.method).title}, {layers}, scale {_scale(one):g}"


def _scale(one: Shown) -> float | None:
    """Scale of a run's prior: the value in its grid, or else the prior's standard deviation."""
    return one.point.get(SCALE, one.prior_sd)


def _looks(table: pd.DataFrame) -> dict[int, dict[str, Any]]:
    """Colour and marker of each depth, from dark to light as the networks get deeper."""
    depths = sorted(int(depth) for depth in table["depth"].unique())
    places = np.linspace(0.0, 0.82, len(depths)) if len(depths) > 1 else [0.35]
    return {
        depth: {"color": to_hex(mpl.colormaps["viridis"](place)), "marker": MARKERS[i % len(MARKERS)]}
        for i, (depth, place) in enumerate(zip(depths, places, strict=True))
    }


def _panel(ax: Axes, part: pd.DataFrame, panel: Panel, looks: dict[int, dict[str, Any]], scales: np.ndarray) -> None:
    """A line per method and depth; ensembles have white marks, or level lines if they have a single scale."""
    lines = {}
    for (method, depth), own in part.groupby(["method", "depth"], sort=False):
        look, is_ensemble = looks[own["depth"].iloc[0]], method == ENSEMBLE
        line = style.Line(look["color"], ENSEMBLE_DASH if is_ensemble else "-", look["marker"])
        is_level = is_ensemble and len(own) == 1 < len(scales) and bool(np.isfinite(own["mean"].iloc[0]))
        lines[f"{method} {depth}"] = Look(line, is_level)
    places = part["depth"].map(list(looks).index) - (len(looks) - 1) / 2
    rows = part.assign(
        label=[f"{method} {depth}" for method, depth in zip(part["method"], part["depth"], strict=True)],
        x=part["scale"] * (scales[-1] / scales[0]) ** (APART * places), value=part["mean"],
        error=part["sd"].fillna(part["standard_error"]), error_over="",
        converged=(part["method"] != ENSEMBLE) & ~(part["prior_shell"] < NEAR_STARTS),
    )  # fmt: skip
    draw_panel(ax, panel, Field(SCALE, "prior scale"), rows, published_rows((), "", ()), lines)
    ax.set_xticks(scales, [f"{scale:g}" for scale in scales])
    ax.minorticks_off()
    counts = {
        "not run": (part["repetitions"] == 0).sum(),
        "NaN": (part["mean"].isna() & (part["repetitions"] > 0)).sum(),
        "infinite": np.isinf(part["mean"].to_numpy(dtype=float)).sum(),
    }
    if not part.loc[part["method"] != ENSEMBLE, "repetitions"].any():
        ax.text(0.5, 0.5, "not run", transform=ax.transAxes, ha="center", va="center", color=style.GREY)
    off_scale = ax.get_title(loc="right")
    remark(ax, [off_scale, ", ".join(f"{count} {text}" for text, count in counts.items() if count)])


def _legend(table: pd.DataFrame, looks: dict[int, dict[str, Any]]) -> Entries:
    entries: dict[str, dict[str, Any]] = {}
    for depth, look in looks.items():
        layers = "linear" if depth == 0 else f"{depth} hidden layer{'s' if depth > 1 else ''}"
        entries[layers] = {**look, "ms": 3, "lw": 1.0}
    for method in dict.fromkeys(table["method"]):
        dash = ENSEMBLE_DASH if method == ENSEMBLE else "-"
        entries[method_record(str(method)).title] = {"color": style.GREY, "ls": dash, "lw": 1.0}
    if ((table["method"] != ENSEMBLE) & (table["prior_shell"] < NEAR_STARTS)).any():
        entries["white: still near their starts"] = {
            "color": style.GREY,
            "marker": "o",
            "mfc": "white",
            "ls": "none",
            "ms": 3,
        }
    bar = {"color": style.GREY, "marker": "|", "ls": "none", "ms": 7}
    if table["sd"].notna().any():
        entries["bars: ±1 sd over seeds and splits"] = bar
    elif table["standard_error"].notna().any():
        entries["bars: ±1 standard error over test rows"] = bar
    return entries
