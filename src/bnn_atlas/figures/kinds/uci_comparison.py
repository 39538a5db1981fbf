"""Methods on regression data sets: RMSE and log-likelihood in the original units of the targets."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bnn_atlas.figures import page, style
from bnn_atlas.figures.axes import fence
from bnn_atlas.figures.method_looks import Look, draw_mark, label_rows, method_looks
from bnn_atlas.figures.page import Drawing, Entries, is_distrusted, trusted
from bnn_atlas.figures.set_scores import averaged, read_sets
from bnn_atlas.figures.shown import Shown

KIND = {
    "repeats": ["label", "dataset"], "files": ["table"], "task": "regression", "most_datasets": 6,
    "columns": "kind dataset metric label method run split value error over sd repetitions distrusted",
}  # fmt: skip

METRICS = {
    "rmse_original_units": "RMSE\n(lower is better)",
    "lppd_original_units": "log-likelihood\n(higher is better)",
}
FENCE = 4.0
"""Interquartile ranges from the quartiles within which a value sets the axis."""
COLUMNS = [
    "kind", "dataset", "metric", "label", "method", "run", "split", "value", "error", "over", "sd", "repetitions",
    "distrusted",
]  # fmt: skip


def uci_comparison(shown: Sequence[Shown]) -> Drawing:
    """RMSE and log-likelihood per test row in original units, a column per data set and a line per method (a label).

    Large marks are means over splits and seeds, with their standard error: over splits, it allows for the rows that
    they share (Nadeau and Bengio 2003); for a single split, it is over test rows, if the table has it. Small dots are
    the splits. A mark is white if a split has chains that should not be trusted. The numbers have a row of kind `mean`
    for each label, data set and metric, and one of kind `run` for each run and split; `distrusted` counts the runs and
    splits whose chains should not be trusted. Raises ValueError if a run lacks these metrics, which only regressions
    have.
    """
    titles, looks = {one.dataset: one.dataset_title for one in shown}, method_looks(shown)
    rows = read_sets(shown, list(METRICS))
    bad = {(one.run, one.split): is_distrusted(one.label, trusted([one])) for one in shown}
    singles = rows.assign(
        kind="run", error=rows["standard_error"], repetitions=1,
        distrusted=[int(bad[key]) for key in zip(rows["run"], rows["split"], strict=True)],
    )  # fmt: skip
    counts = singles.groupby(["label", "dataset", "metric"])["distrusted"].sum()
    means = averaged(shown, rows)
    keys = zip(means["label"], means["dataset"], means["metric"], strict=True)
    means = means.assign(kind="mean", distrusted=[counts[key] for key in keys])
    numbers = pd.concat([means, singles], ignore_index=True).reindex(columns=COLUMNS).astype({"split": "Int64"})
    width = style.COLUMN_WIDTH if len(titles) < 3 else style.TEXT_WIDTH
    figure = Figure(figsize=(width, 1.25 + 2 * 0.19 * (len(looks) + 1)))
    axes = figure.subplots(len(METRICS), len(titles), squeeze=False, sharey=True)
    for (metric, text), line in zip(METRICS.items(), axes, strict=True):
        for ax, dataset in zip(line, titles, strict=True):
            _panel(ax, numbers[(numbers["dataset"] == dataset) & (numbers["metric"] == metric)], looks)
        line[0].set_ylabel(text)
    # An empty line keeps the names of data sets above their panels' remarks.
    room = any(ax.get_title(loc="right") for ax in axes[0])
    for ax, title in zip(axes[0], titles.values(), strict=True):
        ax.set_title(title + "\n " * room)
    page.legend_below(figure, _legend(means))
    return Drawing(figure, numbers)


def _panel(ax: Axes, part: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    means = part[part["kind"] == "mean"]
    several = means.loc[means["repetitions"] > 1, "label"]
    singles = part[(part["kind"] == "run") & part["label"].isin(several)]
    values = np.concatenate([means["value"], singles["value"]])
    limits = fence(ax, values, np.concatenate([means["error"], np.zeros(len(singles))]), FENCE, along="x")
    label_rows(ax, looks)
    for y, (label, look) in enumerate(looks.items()):
        dots = singles.loc[singles["label"] == label, "value"].to_numpy()
        inside = dots[(dots >= limits[0]) & (dots <= limits[1])]
        ax.plot(inside, np.full(len(inside), y + 0.27), "o", ms=1.8, mew=0, color=look.colour)
        fields = ["value", "error", "distrusted"]
        for value, error, distrusted in means.loc[means["label"] == label, fields].itertuples(index=False):
            draw_mark(ax, value, y, error, look, is_open=bool(distrusted))
    ax.xaxis.set_major_locator(MaxNLocator(3))


def _legend(means: pd.DataFrame) -> Entries:
    look: dict[str, Any] = {"color": style.GREY, "marker": "o"}
    several = means["repetitions"].max() > 1
    text = "mean over splits ± 1 standard error" if several else "value ± 1 standard error over test rows"
    entries = {text: {**look, "ms": 4, "lw": 0.9}}
    if several:
        entries["single splits"] = {**look, "ms": 1.8, "mew": 0, "ls": "none"}
    if means["distrusted"].any():
        entries["chains of a split should not be trusted"] = {**look, "ms": 4, "mfc": "white", "ls": "none"}
    return entries
