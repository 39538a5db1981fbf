"""One long chain against several short ones, with the same total number of draws."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bnn_atlas.figures import page, style
from bnn_atlas.figures.axes import PUBLISHED, count_axis, log_ticks
from bnn_atlas.figures.page import Drawing, Entries
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.formulas.averages import extrapolation
from bnn_atlas.metrics.judgement.trust import FIT
from bnn_atlas.published import published_numbers

KIND = {
    "files": ["table"], "runs": "one", "task": "classification", "needs": ["several draws", "one split"],
    "columns": "metric of chains draws value error converged kind",
}  # fmt: skip

LABELS = {"accuracy": "accuracy", "lppd": "LPPD per test row", "ece": "expected\ncalibration error"}
"""Score -> text at its axis."""
MISSING = "LPPD still to gain by\ninfinitely many draws"
ALONE, TOGETHER = "_chain_mean_cumulative_draws", "_cumulative_draws"
"""Suffixes of the names of metrics over the first k draws: of one chain alone, and of all chains together."""
ONE, ALL = style.ORANGE, style.BLUE
THEIRS = "published, CIFAR-10 (~), with the number of chains"


def chains_against_length(shown: Sequence[Shown]) -> Drawing:
    """Accuracy, LPPD and ECE of one chain alone and of all chains together, against the number of draws averaged.

    The first k draws of all C chains are shown at C k draws; the line of one chain is the mean over chains with its
    standard error. The bar of the last point is its Monte Carlo error. The LPPD is shown by what it lacks
    (`averages.extrapolation`, from all chains together), on logarithmic axes, where c / draws is a straight line.
    Published numbers are in a row of their own. Izmailov et al. 2021, section 4.3. The numbers come from
    `length_table`.
    """
    table, words = length_table(shown)
    theirs = _published()
    figure = Figure(figsize=(style.TEXT_WIDTH, 4.2))
    for column, (metric, label) in zip(figure.subplots(2, len(LABELS)).T, LABELS.items(), strict=True):
        _panel(column[0], table[table["metric"] == metric], metric)
        column[0].set_ylabel(MISSING if metric == "lppd" else label)
        _as_published(column[1], theirs[theirs["metric"] == metric])
        column[1].set_ylabel(label)
    page.legend_below(figure, _legend(table))
    theirs = theirs.assign(kind="published", of="CIFAR-10")
    data = pd.concat([table.assign(kind="run"), theirs], ignore_index=True)
    return Drawing(figure, data, notes=[words])


def length_table(shown: Sequence[Shown]) -> tuple[pd.DataFrame, str]:
    """Plotted numbers, and what the run's table says about its chains as a reference, with the numbers that decide.

    Columns: metric (accuracy, lppd, ece), of (`one chain`, `all chains`), chains (of the average), draws (all that are
    averaged), value, error, converged. Raises ValueError for several splits, and if the run lacks the metrics.
    """
    (run,) = shown
    rows = run.table()
    judged = rows[rows["metric"] == FIT]
    if judged.empty:
        raise ValueError(f"{run.files['table']}: run {run.run} has no {FIT}; run its metrics again")
    converged, words = bool(judged["value"].iloc[0] == 1), str(judged["note"].iloc[0])
    parts = []
    for metric in LABELS:
        alone, together = (rows[rows["metric"] == f"{metric}{name}"] for name in (ALONE, TOGETHER))
        if alone.empty or together.empty:
            raise ValueError(
                f"{run.files['table']}: run {run.run} has no {metric}{ALONE} and {metric}{TOGETHER}: the figure is for "
                "classifications with several draws per chain; if this run is one, run its metrics again"
            )
        last = rows.loc[rows["metric"] == metric, "monte_carlo_error"].astype(float)
        error = float(last.iloc[0]) if len(last) else np.nan
        is_last = together["draws"] == together["draws"].max()
        errors = pd.Series(np.where(is_last, error, np.nan), index=together.index)
        parts += [
            _part(metric, "one chain", 1, alone, alone["standard_error"].astype(float)),
            _part(metric, "all chains", int(together["chains"].max()), together, errors),
        ]
    table = pd.concat(parts, ignore_index=True).assign(converged=converged)
    return table, words


def _part(metric: str, of: str, chains: int, rows: pd.DataFrame, errors: pd.Series) -> pd.DataFrame:
    draws = rows["draws"].astype(int) * chains
    columns = {"metric": metric, "of": of, "chains": chains, "draws": draws, "value": rows["value"], "error": errors}
    return pd.DataFrame(columns).sort_values("draws", kind="stable")


def _published() -> pd.DataFrame:
    """Izmailov et al. 2021, section 4.3, CIFAR-10; `draws` counts the draws of all chains together."""
    rows = []
    for one in published_numbers("hmc_posteriors", "chains_against_length"):
        at = one.metric, int(one.label.partition(" ")[0]), int(one.x)
        rows.append((*at, float(one.value)))
    return pd.DataFrame(rows, columns=["metric", "chains", "draws", "value"])


def _as_published(ax: Axes, theirs: pd.DataFrame) -> None:
    """The paper's numbers, with the number of chains at each."""
    ax.grid(axis="y")
    ax.plot(theirs["draws"], theirs["value"], **PUBLISHED)
    for chains, draws, value in theirs[["chains", "draws", "value"]].itertuples(index=False):
        side = 1 if chains % 2 else -1  # marks that lie close to each other have different numbers of chains
        ax.annotate(
            f"{chains:.0f}", (draws, value), xytext=(4 * side, 0), textcoords="offset points",
            ha="left" if chains % 2 else "right", va="center", fontsize=6,
        )  # fmt: skip
    ax.margins(0.12)
    ax.set_xticks(sorted(theirs["draws"].unique()))
    ax.set_xlabel("number of draws averaged")
    ax.set_title("as published")


def _panel(ax: Axes, rows: pd.DataFrame, metric: str) -> None:
    ax.grid(axis="y")
    if metric == "lppd":
        every = rows[rows["of"] == "all chains"].sort_values("draws")
        fit = extrapolation(every["draws"].to_numpy(float), every["value"].to_numpy(float))
        limit = np.nan if fit is None else every["value"].iloc[-1] + fit.shift
        lacks = limit - rows["value"]
        rows = rows.assign(value=lacks.where(lacks > 0))
    for of, colour in (("one chain", ONE), ("all chains", ALL)):
        part = rows[rows["of"] == of]
        x, value, error = (part[name].to_numpy(dtype=float) for name in ("draws", "value", "error"))
        value = np.where(np.isfinite(value), value, np.nan)
        ax.plot(x, value, color=colour)
        if of == "one chain":
            ax.fill_between(x, value - error, value + error, color=colour, alpha=0.25, linewidth=0)
        fill = colour if part["converged"].all() else "white"
        ax.errorbar(x[-1], value[-1], error[-1], color=colour, marker="o", ms=3.6, mfc=fill, mew=0.9, elinewidth=0.8)
    count_axis(ax, int(rows["draws"].max()), powers_from=100)
    ax.set_xlabel("number of draws averaged")
    if metric == "lppd" and rows["value"].notna().any():
        log_ticks(ax, rows["value"].min() / 1.3, rows["value"].max() * 1.3)
        ax.invert_yaxis()


def _legend(table: pd.DataFrame) -> Entries:
    chains = int(table["chains"].max())
    entries = {
        "one chain: mean ± 1 standard error over chains": {"color": ONE},
        f"{chains} chains of a {_share(chains)} of the length; bar: Monte Carlo error": {"color": ALL},
        THEIRS: PUBLISHED,
    }
    if table["converged"].all():
        return entries
    mark = {"color": style.GREY, "marker": "o", "ls": "none", "ms": 3.6, "mfc": "white", "mew": 0.9}
    return entries | {"open: not converged": mark}


def _share(chains: int) -> str:
    return {2: "half", 3: "third", 4: "quarter"}.get(chains, f"{chains}th")
