"""LPPD of the model average as chains are added."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from bnn_atlas.figures import page, style
from bnn_atlas.figures.axes import PUBLISHED, PUBLISHED_LABEL, count_axis, mark_published
from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.formulas.repetitions import over_repetitions

KIND = {
    "files": ["table"], "repeats": ["label", "dataset"],
    "columns": "kind dataset label method chains mean sd standard_error repetitions",
}  # fmt: skip

METRIC = "lppd_cumulative_chains"
CHAIN_MEAN = "lppd_chain_mean"
"""LPPD of single chains, which is the value of one chain averaged over orders."""
ORDER_SD = "lppd_cumulative_chains_order_sd"
POINT = ["run", "split", "dataset", "chains"]
"""Columns that tell the rows of a metric apart."""
COLUMNS = ["dataset", "label", "method", "chains", "mean", "sd", "standard_error", "repetitions"]
ORDERED = 0.5
"""Share of the chains up to which the spread of orders counts; beyond it, orders share most chains."""
LEAST_HEIGHT = 3.0
"""Smallest span of an axis, in standard errors over test rows."""
MAX_COLUMNS = 4
MANY, HALF_HEIGHT = 10, 0.02
"""The number of chains from which a second panel shows where curves level off, and half of its height in nats."""


def cumulative_lppd(shown: Sequence[Shown]) -> Drawing:
    """LPPD of the model average against the number of chains (log scale), a panel per data set, a line per label.

    Numbers, bands and errors come from `lppd_curves`. An infinite value leaves a gap and a remark in its panel.
    Published numbers are open black marks. An axis spans at least `LEAST_HEIGHT` standard errors of the LPPD over test
    rows, so that noise does not fill it. Where a line or a published number has ten times `MANY` chains or more, a
    panel below shows the line that ends highest from `MANY` chains on, within `HALF_HEIGHT` of the end.
    """
    frame = pd.concat([run.table().assign(run=run.run) for run in shown], ignore_index=True)
    files = dict.fromkeys(str(run.files["table"]) for run in shown)
    curves = lppd_curves(frame, {run.run: run.label for run in shown}, ", ".join(files))
    titles = {run.dataset: run.dataset_title for run in shown}
    papers = _papers(shown)
    classification = {run.dataset for run in shown if run.task == "classification"}
    figure = _lppd_figure(curves, papers, classification, titles)
    data = pd.concat([curves.assign(kind="run"), papers.assign(kind="published")], ignore_index=True)
    data["repetitions"] = data["repetitions"].astype("Int64")
    return Drawing(figure, data[["kind", *curves.columns]])


def _papers(shown: Sequence[Shown]) -> pd.DataFrame:
    """Published numbers: dataset, label, chains, mean, sd (NaN where none is given).

    The mean LPPD of single chains counts as that of one chain; if a curve has this number, too, the curve's mark is
    used.
    """
    rows = []
    for run in shown:
        points = {one.chains: one for one in run.published if one.metric == METRIC and one.chains is not None}
        alone = [one for one in run.published if one.metric == CHAIN_MEAN]
        if alone:
            points.setdefault(1, alone[0])
        rows += [
            {"dataset": run.dataset, "label": run.label, "chains": chains, "mean": one.value, "sd": one.sd}
            for chains, one in sorted(points.items())
        ]
    table = pd.DataFrame(rows, columns=["dataset", "label", "chains", "mean", "sd"]).drop_duplicates()
    return table.astype({"mean": float, "sd": float})


def lppd_curves(frame: pd.DataFrame, labels: Mapping[str, str] | None, source: str) -> pd.DataFrame:
    """Plotted numbers, with the columns of `COLUMNS`.

    `frame` is a metric table with rows `lppd_cumulative_chains` and `lppd_cumulative_chains_order_sd` (its standard
    deviation over random orders of the chains). `labels` maps the runs to plot, in order, to their labels; None takes
    all runs under their names. Runs and splits of one data set and label are repetitions: `mean` is the mean over them,
    and sd^2 = mean of the variances over orders (up to the share `ORDERED` of the chains) + variance between
    repetitions; `standard_error` is the mean of the standard errors over test rows. Numbers of chains that some
    repetition lacks are left out. Raises ValueError if a run has no such rows or a value is NaN.
    """
    rows = frame[frame["metric"] == METRIC].copy()
    if rows.empty:
        raise ValueError(f"{source}: no rows with metric {METRIC}; run the metrics of a run with several chains")
    found = list(dict.fromkeys(rows["run"]))
    chosen = {run: run for run in found} if labels is None else labels
    if missing := [run for run in chosen if run not in found]:
        raise ValueError(f"{source}: no cumulative LPPD of {', '.join(missing)}; it has {', '.join(found)}")
    rows = rows[rows["run"].isin(list(chosen))]
    if rows["value"].isna().any():
        bad = rows.loc[rows["value"].isna()].iloc[0]
        raise ValueError(
            f"{source}: {METRIC} of run {bad['run']}, split {bad['split']} at {bad['chains']} chains is NaN; "
            "look at its predictions before you plot them"
        )
    rows["label"] = rows["run"].map(chosen)
    deviations = frame[frame["metric"] == ORDER_SD].set_index(POINT)["value"]
    known = pd.MultiIndex.from_frame(rows[POINT])
    last = rows.groupby(["run", "split", "dataset"])["chains"].transform("max")
    differ = rows["chains"] <= ORDERED * last
    rows["order_variance"] = np.where(differ, deviations.reindex(known).to_numpy() ** 2, np.nan)
    rows["place"] = rows["run"].map({run: i for i, run in enumerate(chosen)})
    keys = ["dataset", "label", "chains"]
    with np.errstate(invalid="ignore"):  # the variance of repetitions that hold -inf is NaN: no band there
        curves = rows.groupby(keys, sort=False, as_index=False).agg(
            method=("method", "first"), mean=("value", "mean"), order_variance=("order_variance", "mean"),
            between=("value", lambda values: over_repetitions(values).sd ** 2), repetitions=("value", "size"),
            standard_error=("standard_error", "mean"), place=("place", "min"),
        )  # fmt: skip
    complete = curves.groupby(["dataset", "label"])["repetitions"].transform("max")
    curves = curves[curves["repetitions"] == complete].sort_values(["place", "chains"], kind="stable")
    variance = curves[["order_variance", "between"]].sum(axis=1, min_count=1)
    curves = curves.assign(sd=np.sqrt(variance.where(np.isfinite(curves["mean"]))))
    return curves[COLUMNS].reset_index(drop=True)


def _lppd_figure(
    curves: pd.DataFrame, papers: pd.DataFrame, classification: Collection[str], titles: Mapping[str, str]
) -> Figure:
    datasets = list(dict.fromkeys(curves["dataset"]))
    ends = pd.concat([curves, papers]).groupby("dataset")["chains"].max()
    closer = [dataset for dataset in datasets if ends[dataset] >= 10 * MANY]
    columns = min(len(datasets), MAX_COLUMNS)
    height = 2 if closer else 1
    rows = math.ceil(len(datasets) / columns) * height
    width = style.COLUMN_WIDTH if columns == 1 else style.TEXT_WIDTH
    panel_height = {1: 1.9, 2: 1.8, 3: 1.55, 4: 1.45}[columns]
    legend = bool(curves["sd"].notna().any()) or _lines_per_panel(curves) > 1 or len(papers) > 0
    figure = Figure(figsize=(width, panel_height * rows + 0.3 * legend))
    axes = figure.subplots(rows, columns, squeeze=False)
    looks = _line_styles(curves)
    for place, dataset in enumerate(datasets):
        block, column = divmod(place, columns)
        ax = axes[block * height, column]
        part, mine = curves[curves["dataset"] == dataset], papers[papers["dataset"] == dataset]
        _lppd_panel(ax, part, looks)
        _published(ax, mine)
        _at_least_high(ax, part)
        ax.set_title(titles[dataset])
        unit = "" if dataset in classification else ",\nstandardised target"
        if column == 0 or (datasets[place - 1] in classification) != (dataset in classification):
            ax.set_ylabel(f"LPPD per test row{unit}")
        if dataset in closer:
            _closer(axes[block * height + 1, column], part, mine, looks)
            axes[block * height + 1, 0].set_ylabel(f"the same,\nfrom {MANY} chains on")
    for ax in axes.flat:
        ax.set_visible(ax.has_data())
    for column in axes.T:
        [ax for ax in column if ax.has_data()][-1].set_xlabel("number of chains")
    if legend:
        _legend(figure, curves, looks, bool(len(papers)))
    return figure


def _closer(ax: Axes, part: pd.DataFrame, papers: pd.DataFrame, looks: Mapping[str, style.Line]) -> None:
    """The line that ends highest, from `MANY` chains on."""
    best = part.loc[part.groupby("label")["chains"].transform("max") == part["chains"]].nlargest(1, "mean")
    line = part[(part["label"] == best["label"].item()) & (part["chains"] >= MANY)]
    marks = papers[papers["chains"] >= MANY]
    if len(line):
        _lppd_panel(ax, line, looks)
    _published(ax, marks)
    values = np.concatenate([line["mean"], marks["mean"]])
    values = values[np.isfinite(values)]
    middle, half = (values.max() + values.min()) / 2, max(HALF_HEIGHT, 0.6 * np.ptp(values))
    ax.set_ylim(middle - half, middle + half)
    ax.set_xlim(left=MANY * 0.8)


def _published(ax: Axes, papers: pd.DataFrame) -> None:
    """Marks of one panel, and an axis that holds them."""
    for chains, mean, sd in papers[["chains", "mean", "sd"]].itertuples(index=False):
        mark_published(ax, chains, mean, y_sd=sd)
    if len(papers) and papers["chains"].max() > ax.get_xlim()[1]:
        _count_limits(ax, int(papers["chains"].max()))


def _at_least_high(ax: Axes, part: pd.DataFrame) -> None:
    """Widen an axis that is lower than `LEAST_HEIGHT` standard errors over test rows."""
    error = part.loc[part["chains"] == part["chains"].max(), "standard_error"].max()
    low, high = ax.get_ylim()
    if np.isfinite(error) and high - low < (least := LEAST_HEIGHT * error):
        ax.set_ylim((low + high - least) / 2, (low + high + least) / 2)


def _lines_per_panel(curves: pd.DataFrame) -> int:
    return int(curves.groupby("dataset")["label"].nunique().max())


def _line_styles(curves: pd.DataFrame) -> dict[str, style.Line]:
    """Look of each label, the same in all panels; its method's look if that tells the lines of a panel apart."""
    labels = curves.drop_duplicates("label")
    looks = [style.METHODS.get(method) for method in labels["method"]]
    lines = curves.drop_duplicates(["dataset", "label"])
    if None in looks or lines.duplicated(["dataset", "method"]).any():
        looks = list(style.lines(list(labels["method"])))
    return {label: look for label, look in zip(labels["label"], looks, strict=True) if look is not None}


def _lppd_panel(ax: Axes, part: pd.DataFrame, looks: Mapping[str, style.Line]) -> None:
    ax.grid(axis="y")
    infinite = []
    for label, curve in part.groupby("label", sort=False):
        line = looks[str(label)]
        x, mean = curve["chains"].to_numpy(), curve["mean"].to_numpy(dtype=float, copy=True)
        infinite += [f"{style.thousands(chains)}" for chains in x[~np.isfinite(mean)]]
        mean[~np.isfinite(mean)] = np.nan
        sd = curve["sd"].to_numpy(dtype=float)
        ax.fill_between(x, mean - sd, mean + sd, color=line.colour, alpha=0.25, linewidth=0)
        few = len(x) <= 12
        ax.plot(x, mean, color=line.colour, linestyle=line.dash, marker="o" if few else "", markersize=2.5)
    if infinite:
        ax.text(0.98, 0.04, f"not finite at {', '.join(dict.fromkeys(infinite))}", transform=ax.transAxes, ha="right",
                fontsize=6.5, color=style.GREY)  # fmt: skip
    _count_limits(ax, int(part["chains"].max()))
    ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))


def _count_limits(ax: Axes, largest: int) -> None:
    count_axis(ax, largest, powers_from=100, steps_from=10)
    margin = max(largest, 2) ** 0.03
    ax.set_xlim(1 / margin, largest * margin)


def _legend(figure: Figure, curves: pd.DataFrame, looks: Mapping[str, style.Line], published: bool) -> None:
    """Labels (if a panel has several lines) and the meaning of the band, below the panels."""
    entries: dict[str, Any] = {}
    if _lines_per_panel(curves) > 1:
        entries = {label: {"color": line.colour, "ls": line.dash} for label, line in looks.items()}
    if curves["sd"].notna().any():
        repeats = " and repeats" if curves["repetitions"].max() > 1 else ""
        entries[f"±1 sd over chain orders{repeats}"] = Patch(color=style.GREY, alpha=0.3, linewidth=0)
    if published:
        entries[PUBLISHED_LABEL] = PUBLISHED
    page.legend_below(figure, entries)
