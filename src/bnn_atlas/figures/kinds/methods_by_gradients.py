"""LPPD against the number of gradients that each method has spent."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bnn_atlas.config.methods.registry import METHODS
from bnn_atlas.figures import page, style
from bnn_atlas.figures.axes import fenced_limits, off_scale_remark, remark
from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.scores import NEAR_STARTS
from bnn_atlas.figures.shown import Shown

KIND = {
    "files": ["table"], "repeats": ["label", "dataset"],
    "columns": "dataset label method chains repetitions draws gradients of lppd standard_error prior_shell",
}  # fmt: skip

COLUMNS = [
    "dataset", "label", "method", "chains", "repetitions", "draws", "gradients", "of", "lppd", "standard_error",
    "prior_shell",
]  # fmt: skip
PALE = 0.35
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
    """LPPD of the first draws of all chains against the gradients that they have cost, tuning and burn-in included.

    The deep ensemble and other methods without a count are level lines. Runs of chains with `prior_shell` below
    `NEAR_STARTS` are pale. The last point has a bar of one standard error over test rows.

    The plotted numbers have the columns of `COLUMNS`. Draw k of n has cost k / n of the gradients of the sampling
    phase, after those of the phases before; `of` says what the gradients are of. Values are means over the seeds and
    splits of a label. A run without a cumulative LPPD, whose table was made before it was measured, has only its last
    point, and a note says so. Raises ValueError if a run has no LPPD either.
    """
    parts, last_only = [], []
    for one in shown:
        rows = one.table()
        values = ["chains", "draws", "value", "standard_error"]
        curve = rows.loc[rows["metric"] == "lppd_cumulative_draws", values]
        if curve.empty:
            curve = rows.loc[rows["metric"] == "lppd", values]
            last_only.append(" ".join(one.label.split()))
        if curve.empty:
            raise ValueError(
                f"{one.files['table']}: no rows lppd_cumulative_draws of run {one.run}, and no lppd; run its metrics "
                "again"
            )
        counts = _counts(rows)
        parts.append(
            curve.rename(columns={"value": "lppd"}).assign(
                dataset=one.dataset_title, label=one.label, method=one.method, of=counts.of,
                gradients=counts.before + curve["draws"] / curve["draws"].max() * counts.sampling,
                prior_shell=rows.loc[rows["metric"] == "prior_shell", "value"].mean(),
            )
        )  # fmt: skip
    keys = ["dataset", "label", "method", "of", "draws"]
    means = {each: (each, "mean") for each in ("gradients", "lppd", "standard_error", "prior_shell")}
    groups = pd.concat(parts, ignore_index=True).groupby(keys, sort=False, as_index=False)
    curves = groups.agg(chains=("chains", "max"), repetitions=("lppd", "size"), **means)[COLUMNS]
    several = len({one.dataset for one in shown}) > 1
    names = [f"{one.dataset_title}: {one.label}" if several else one.label for one in shown]
    note = (
        f"Only the last point is known of {', '.join(dict.fromkeys(last_only))}, whose metrics are older than the "
        "curve; running them again adds it."
    )
    return Drawing(_figure(curves, several), curves, names=names, notes=[note] if last_only else [])


def _figure(curves: pd.DataFrame, several: bool) -> Figure:
    lines = [curve for _, curve in curves.groupby(["dataset", "label", "method"], sort=False)]
    looks = style.lines([str(curve["method"].iloc[0]) for curve in lines])
    figure = Figure(figsize=(style.TEXT_WIDTH, 2.9))
    ax = figure.subplots()
    entries: dict[str, dict[str, Any]] = {}
    for curve, look in zip(lines, looks, strict=True):
        alpha = PALE if _is_near_starts(curve) else 1.0
        _line(ax, curve, look, alpha)
        dash = look.dash if curve["gradients"].notna().any() else LEVEL
        entries[_text(curve, several)] = {"color": look.colour, "ls": dash, "alpha": alpha}
    ax.grid(axis="y")
    limits = _limits(curves)
    ax.set(xscale="log", xlabel="gradients of all chains, tuning and burn-in included", ylim=limits)
    ax.set_ylabel("LPPD per test row")
    remark(ax, [off_scale_remark(curves.groupby(["dataset", "label"])["lppd"].last().to_numpy(), limits)])
    last = {"last draw ± 1 standard error over test rows": {"color": style.GREY, "lw": 0.7, **LAST}}
    page.legend_below(figure, entries | last)
    return figure


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


def _is_near_starts(curve: pd.DataFrame) -> bool:
    """Whether the chains of a line have not left their starts behind."""
    method = METHODS.get(str(curve["method"].iloc[0]))
    of_chains = method is not None and method.kind_of_draws.are_chain
    return of_chains and bool(curve["prior_shell"].iloc[0] < NEAR_STARTS)


def _line(ax: Axes, curve: pd.DataFrame, look: style.Line, alpha: float) -> None:
    """The curve of a method with its last point; a level line if its gradients are not counted."""
    x, y, error = (curve[name].to_numpy(dtype=float) for name in ("gradients", "lppd", "standard_error"))
    if not np.isfinite(x).any():
        ax.axhline(y[-1], color=look.colour, ls=LEVEL, lw=1.0)
        return
    ax.plot(x, y, color=look.colour, ls=look.dash, alpha=alpha)
    ax.errorbar(x[-1], y[-1], error[-1], color=look.colour, alpha=alpha, mew=1.0, elinewidth=0.7, **LAST)


def _text(curve: pd.DataFrame, several: bool) -> str:
    """A line in the legend: its name, its chains, and what a reader has to know about them."""
    first = curve.iloc[0]
    said = [f"{first['chains']} {'chain' if first['chains'] == 1 else 'chains'}"]
    said += ["mini-batches"] if "mini-batch" in str(first["of"]) else []
    said += ["near their starts"] if _is_near_starts(curve) else []
    return f"{first['dataset'] + ': ' if several else ''}{first['label']} ({', '.join(said)})"
