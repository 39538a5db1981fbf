"""LPPD against the number of gradients that each method has spent."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bnn_atlas.figures import page, style
from bnn_atlas.figures.axes import fenced_limits, off_scale_remark, remark
from bnn_atlas.figures.page import Drawing, Entries, check_fits
from bnn_atlas.figures.shown import Shown, check_repetitions

KIND = {"files": ["table"], "repeats": ["label", "dataset"]}

COLUMNS = [
    "dataset", "label", "method", "chains", "repetitions", "draws", "gradients_sampling", "gradients_all", "of", "lppd",
    "standard_error",
]  # fmt: skip
PHASES = {
    "sampling": "gradients of all chains,\nsampling alone",
    "all": "gradients of all chains,\nwith tuning and burn-in",
}
"""Phases in which gradients are counted -> text at the axis."""
LEVEL = (0, (1, 1.5))
"""Dashes of a level line."""
LAST: dict[str, Any] = {"marker": "o", "ms": 3.5, "mfc": "white"}
"""Mark of the last point of a curve."""


class Counts(NamedTuple):
    """Gradient evaluations of all chains of a run."""

    sampling: float
    """NaN if the method takes no gradients or has not counted them."""
    before: float
    """Gradients before the first kept draw; NaN if they were not counted."""
    of: str
    """In words, whether the gradients are of the full data or of mini-batches."""


def methods_by_gradients(shown: Sequence[Shown]) -> Drawing:
    """LPPD of the first draws of all chains against the gradient evaluations that these draws have cost.

    The left panel counts the sampling phase, the right one all phases (for methods that count them); the deep ensemble
    and other methods without a count are level lines. The last point has a bar of one standard error over test rows.

    The plotted numbers have the columns of `COLUMNS`. Draw k of n has cost k / n of the gradients of the
    sampling phase, and `gradients_all` also counts the phases before; `of` says what the gradients are of. Values are
    means over the seeds and splits of a label. Raises ValueError if a run has no cumulative LPPD, or the runs of a
    label differ in more than their seeds.
    """
    check_repetitions(shown, [f"the line '{one.label}' on '{one.dataset}'" for one in shown])
    parts = []
    for one in shown:
        rows = one.table()
        curve = rows.loc[rows["metric"] == "lppd_cumulative_draws", ["chains", "draws", "value", "standard_error"]]
        if curve.empty:
            raise ValueError(
                f"{one.files['table']}: no rows lppd_cumulative_draws of run {one.run}; add it to the run's metrics"
            )
        counts = _counts(rows)
        cost = curve["draws"] / curve["draws"].max() * counts.sampling
        parts.append(
            curve.rename(columns={"value": "lppd"}).assign(
                dataset=one.dataset_title, label=one.label, method=one.method, gradients_sampling=cost,
                gradients_all=cost + counts.before, of=counts.of,
            )
        )  # fmt: skip
    check_fits(len(parts))
    keys = ["dataset", "label", "method", "of", "draws"]
    means = pd.concat(parts, ignore_index=True).groupby(keys, sort=False, as_index=False).agg(
        chains=("chains", "max"), repetitions=("lppd", "size"), lppd=("lppd", "mean"),
        standard_error=("standard_error", "mean"), gradients_sampling=("gradients_sampling", "mean"),
        gradients_all=("gradients_all", "mean"),
    )  # fmt: skip
    curves = means[COLUMNS]
    several = len({one.dataset for one in shown}) > 1
    names = [f"{one.dataset_title}: {one.label}" if several else one.label for one in shown]
    labels = list(dict.fromkeys(zip(curves["dataset"], curves["label"], curves["method"], strict=True)))
    looks = dict(zip(labels, style.lines([method for _, _, method in labels]), strict=True))
    figure = Figure(figsize=(style.TEXT_WIDTH, 3.0))
    axes = figure.subplots(1, len(PHASES), sharey=True)
    limits = _limits(curves)
    for ax, (phase, text) in zip(axes, PHASES.items(), strict=True):
        ax.grid(axis="y")
        ax.set_xscale("log")
        for (dataset, label, method), curve in curves.groupby(["dataset", "label", "method"], sort=False):
            _line(ax, curve, f"gradients_{phase}", looks[str(dataset), str(label), str(method)])
        ax.set_xlabel(text)
        ax.set_ylim(limits)
    axes[0].set_ylabel("LPPD per test row")
    remark(axes[1], [off_scale_remark(curves.groupby(["dataset", "label"])["lppd"].last().to_numpy(), limits)])
    page.legend_below(figure, _legend(curves, looks, several))
    return Drawing(figure, curves, names=names)


def _counts(rows: pd.DataFrame) -> Counts:
    found = rows[rows["metric"].isin(["gradients_sampling", "gradients_total"])].drop_duplicates("metric")
    values = found.set_index("metric")["value"]
    sampling = float(values.get("gradients_sampling", np.nan))
    notes = [str(note).removeprefix("of all chains, ") for note in found["note"]]
    return Counts(sampling, float(values.get("gradients_total", np.nan)) - sampling, notes[0] if notes else "")


def _limits(curves: pd.DataFrame) -> tuple[float, float]:
    """Limits from the last points with their errors, widened to hold the curves that end within them."""
    last = curves.groupby(["dataset", "label"], sort=False).last()
    low, high = fenced_limits(last["lppd"].to_numpy(dtype=float), last["standard_error"].to_numpy(dtype=float))
    ends = curves.groupby(["dataset", "label"])["lppd"].transform("last")
    within = curves.loc[ends.between(low, high) & np.isfinite(curves["lppd"]), "lppd"]
    # First draws may be far off: the axis gives them as much room again as the ends have.
    return max(min(low, within.min()), low - (high - low)), max(high, within.max())


def _line(ax: Axes, curve: pd.DataFrame, column: str, look: style.Line) -> None:
    """The curve of a method with its last point; a level line if its gradients are not counted."""
    x, y, error = (curve[name].to_numpy(dtype=float) for name in (column, "lppd", "standard_error"))
    if not np.isfinite(curve["gradients_sampling"]).any():
        ax.axhline(y[-1], color=look.colour, ls=LEVEL, lw=1.0)
    elif np.isfinite(x).any():
        ax.plot(x, y, color=look.colour, ls=look.dash)
        ax.errorbar(x[-1], y[-1], error[-1], color=look.colour, mew=1.0, elinewidth=0.7, **LAST)


def _legend(curves: pd.DataFrame, looks: dict[tuple[str, str, str], style.Line], several: bool) -> Entries:
    entries: dict[str, dict[str, Any]] = {}
    firsts = curves.drop_duplicates(["dataset", "label", "method"])
    for row, counted in zip(firsts.itertuples(), firsts["gradients_sampling"].notna(), strict=True):
        look = looks[str(row.dataset), str(row.label), str(row.method)]
        batches = ", mini-batches" if "mini-batch" in str(row.of) else ""
        unit = "chain" if row.chains == 1 else "chains"
        text = f"{row.dataset}: {row.label}" if several else str(row.label)
        dash = look.dash if counted else LEVEL
        entries[f"{text} ({row.chains} {unit}{batches})"] = {"color": look.colour, "ls": dash}
    return entries | {"last draw ± 1 standard error over test rows": {"color": style.GREY, "lw": 0.7, **LAST}}
