"""LPPD of the model average as chains and draws are added."""

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

KIND = {"files": ["table"], "repeats": ["label", "dataset"]}

OVER = {"lppd_cumulative_chains": "chains", "lppd_cumulative_draws": "draws"}
"""Metric -> the column with the number of chains or draws that it accumulates."""
CHAIN_MEAN = "lppd_chain_mean"
"""LPPD of single chains, which is the value of one chain averaged over orders."""
ORDER_SD = "lppd_cumulative_chains_order_sd"
POINT = ["run", "split", "dataset", "chains"]
"""Columns that tell the rows of a metric apart."""
COLUMNS = ["dataset", "label", "method", "over", "count", "mean", "sd", "standard_error", "repetitions"]
ORDERED = 0.5
"""Share of the chains up to which the spread of orders counts; beyond it, orders share most chains."""
LEAST_HEIGHT = 3.0
"""Smallest span of an axis, in standard errors over test rows."""
AXES = {"chains": "number of chains", "draws": "draws per chain"}
MAX_COLUMNS = 4


def cumulative_lppd(shown: Sequence[Shown]) -> Drawing:
    """LPPD of the model average against the number of chains (log scale), and below it against the draws per chain.

    One column of panels per data set, one line per label. Numbers, bands and errors come from `lppd_curves`. An
    infinite value leaves a gap and a remark in its panel. Published numbers are open black marks. An axis spans at
    least `LEAST_HEIGHT` standard errors of the LPPD over test rows, so that noise does not fill it.
    """
    page.check_fits(len(shown))
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
    """Published numbers: dataset, label, over, count, mean, sd (NaN where none is given).

    The mean LPPD of single chains counts as that of one chain; if a curve has this number, too, the curve's mark is
    used.
    """
    rows = []
    for run in shown:
        points = {
            (over, count): one
            for one in run.published
            if (over := OVER.get(one.metric)) and (count := getattr(one, over)) is not None
        }
        alone = [one for one in run.published if one.metric == CHAIN_MEAN]
        if alone:
            points.setdefault(("chains", 1), alone[0])
        rows += [
            {"dataset": run.dataset, "label": run.label, "over": over, "count": count, "mean": one.value, "sd": one.sd}
            for (over, count), one in sorted(points.items(), key=lambda item: item[0])
        ]
    table = pd.DataFrame(rows, columns=["dataset", "label", "over", "count", "mean", "sd"]).drop_duplicates()
    return table.astype({"mean": float, "sd": float})


def lppd_curves(frame: pd.DataFrame, labels: Mapping[str, str] | None, source: str) -> pd.DataFrame:
    """Plotted numbers, with the columns of `COLUMNS`; `over` is `chains` or `draws`.

    `frame` is a metric table with rows `lppd_cumulative_chains`, `lppd_cumulative_chains_order_sd` (its standard
    deviation over random orders of the chains) and, where wanted, `lppd_cumulative_draws`. `labels` maps the runs to
    plot, in order, to their labels; None takes all runs under their names. Runs and splits of one data set and label
    are repetitions: `mean` is the mean over them, and sd^2 = mean of the variances over orders (up to the share
    `ORDERED` of the chains) + variance between repetitions; `standard_error` is the mean of the standard errors over
    test rows. Counts that some repetition lacks are left out. Raises ValueError if a run has no such rows or a value is
    NaN.
    """
    rows = frame[frame["metric"].isin(list(OVER))].copy()
    if rows.empty:
        raise ValueError(
            f"{source}: no rows with metric {' or '.join(OVER)}; run the metrics of a run with several chains"
        )
    found = list(dict.fromkeys(rows["run"]))
    chosen = {run: run for run in found} if labels is None else labels
    if missing := [run for run in chosen if run not in found]:
        raise ValueError(f"{source}: no cumulative LPPD of {', '.join(missing)}; it has {', '.join(found)}")
    rows = rows[rows["run"].isin(list(chosen))]
    if rows["value"].isna().any():
        bad = rows.loc[rows["value"].isna()].iloc[0]
        raise ValueError(
            f"{source}: {bad['metric']} of run {bad['run']}, split {bad['split']} at {bad['chains']} chains and "
            f"{bad['draws']} draws is NaN; look at its predictions before you plot them"
        )
    rows["over"] = rows["metric"].map(OVER)
    rows["count"] = np.where(rows["over"] == "chains", rows["chains"], rows["draws"])
    rows["label"] = rows["run"].map(chosen)
    deviations = frame[frame["metric"] == ORDER_SD].set_index(POINT)["value"]
    known = pd.MultiIndex.from_frame(rows[POINT])
    last = rows.groupby(["run", "split", "dataset", "over"])["count"].transform("max")
    differ = (rows["over"] == "chains") & (rows["count"] <= ORDERED * last)
    rows["order_variance"] = np.where(differ, deviations.reindex(known).to_numpy() ** 2, np.nan)
    rows["place"] = rows["run"].map({run: i for i, run in enumerate(chosen)})
    keys = ["dataset", "label", "over", "count"]
    with np.errstate(invalid="ignore"):  # the variance of repetitions that hold -inf is NaN: no band there
        curves = rows.groupby(keys, sort=False, as_index=False).agg(
            method=("method", "first"), mean=("value", "mean"), order_variance=("order_variance", "mean"),
            between=("value", lambda values: over_repetitions(values).sd ** 2), repetitions=("value", "size"),
            standard_error=("standard_error", "mean"), place=("place", "min"),
        )  # fmt: skip
    complete = curves.groupby(["dataset", "label", "over"])["repetitions"].transform("max")
    curves = curves[curves["repetitions"] == complete].sort_values(["place", "over", "count"], kind="stable")
    variance = curves[["order_variance", "between"]].sum(axis=1, min_count=1)
    curves = curves.assign(sd=np.sqrt(variance.where(np.isfinite(curves["mean"]))))
    return curves[COLUMNS].reset_index(drop=True)


def _lppd_figure(
    curves: pd.DataFrame, papers: pd.DataFrame, classification: Collection[str], titles: Mapping[str, str]
) -> Figure:
    datasets = list(dict.fromkeys(curves["dataset"]))
    overs = [over for over in AXES if over in set(curves["over"])]
    columns = min(len(datasets), MAX_COLUMNS)
    rows = math.ceil(len(datasets) / columns) * len(overs)
    width = style.COLUMN_WIDTH if columns == 1 else style.TEXT_WIDTH
    panel_height = {1: 1.9, 2: 1.8, 3: 1.55, 4: 1.45}[columns]
    legend = bool(curves["sd"].notna().any()) or _lines_per_panel(curves) > 1 or len(papers) > 0
    figure = Figure(figsize=(width, panel_height * rows + 0.3 * legend))
    axes = figure.subplots(rows, columns, squeeze=False)
    looks = _line_styles(curves)
    for place, dataset in enumerate(datasets):
        block, column = divmod(place, columns)
        for i, over in enumerate(overs):
            ax = axes[block * len(overs) + i, column]
            part = curves[(curves["dataset"] == dataset) & (curves["over"] == over)]
            mine = papers[(papers["dataset"] == dataset) & (papers["over"] == over)]
            _lppd_panel(ax, part, over, looks)
            _published(ax, mine)
            _at_least_high(ax, part)
            unit = "" if dataset in classification else ",\nstandardised target"
            if column == 0 or (datasets[place - 1] in classification) != (dataset in classification):
                ax.set_ylabel(f"LPPD per test row{unit}")
            if i == 0:
                ax.set_title(titles[dataset])
    for ax in axes.flat:
        ax.set_visible(ax.has_data())
    if legend:
        _legend(figure, curves, looks, bool(len(papers)))
    return figure


def _published(ax: Axes, papers: pd.DataFrame) -> None:
    """Marks of one panel, and an axis that holds them."""
    for count, mean, sd in papers[["count", "mean", "sd"]].itertuples(index=False):
        mark_published(ax, count, mean, y_sd=sd)
    if len(papers) and papers["count"].max() > ax.get_xlim()[1]:
        _count_limits(ax, int(papers["count"].max()))


def _at_least_high(ax: Axes, part: pd.DataFrame) -> None:
    """Widen an axis that is lower than `LEAST_HEIGHT` standard errors over test rows."""
    error = part.loc[part["count"] == part["count"].max(), "standard_error"].max()
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


def _lppd_panel(ax: Axes, part: pd.DataFrame, over: str, looks: Mapping[str, style.Line]) -> None:
    ax.grid(axis="y")
    infinite = []
    for label, curve in part.groupby("label", sort=False):
        line = looks[str(label)]
        x, mean = curve["count"].to_numpy(), curve["mean"].to_numpy(dtype=float, copy=True)
        infinite += [f"{style.thousands(count)}" for count in x[~np.isfinite(mean)]]
        mean[~np.isfinite(mean)] = np.nan
        sd = curve["sd"].to_numpy(dtype=float)
        ax.fill_between(x, mean - sd, mean + sd, color=line.colour, alpha=0.25, linewidth=0)
        few = len(x) <= 12
        ax.plot(x, mean, color=line.colour, linestyle=line.dash, marker="o" if few else "", markersize=2.5)
    if part["label"].nunique() == 1 and np.isfinite(mean[-1]):
        text = f"{mean[-1]:.3f}".replace("-", "\N{MINUS SIGN}")
        ax.annotate(
            text, (x[-1], mean[-1]), xytext=(0, 4), textcoords="offset points", ha="right", va="bottom", fontsize=7,
            annotation_clip=False,
        )  # fmt: skip
        ax.margins(y=0.2)
    if infinite:
        ax.text(0.98, 0.04, f"not finite at {', '.join(dict.fromkeys(infinite))}", transform=ax.transAxes, ha="right",
                fontsize=6.5, color=style.GREY)  # fmt: skip
    _count_limits(ax, int(part["count"].max()))
    ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    ax.set_xlabel(AXES[over])


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
