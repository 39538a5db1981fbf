"""What a Metropolis test changes in chains of unadjusted MCLMC, against the energy variance that they were tuned to."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bnn_atlas.config.methods.registry import METHODS
from bnn_atlas.figures import page, style
from bnn_atlas.figures.axes import fence
from bnn_atlas.figures.page import Drawing, Entries, check_fits
from bnn_atlas.figures.shown import Shown
from bnn_atlas.files import read_parquet
from bnn_atlas.metrics.judgement.referee import MIXED

KIND = {
    "files": ["table", "referee", "referee_chains"], "needs": ["energy variance"],
    "repeats": ["column", "energy variance"],
    "columns": "kind column run split energy_variance shift shift_error prior_shift prior_shift_error "
    "together_before together_before_error together_after together_after_error together_change "
    "together_change_error alone_before alone_before_error alone_after alone_after_error "
    "realised_energy_variance mixed note chain",
}  # fmt: skip

MOST_COLUMNS = 4
VALUES = {
    "shift": ("referee", "referee_log_likelihood_shift"),
    "prior_shift": ("referee", "referee_log_prior_shift"),
    "together_before": ("table", "lppd"),
    "together_after": ("referee", "referee_lppd"),
    "together_change": ("referee", "referee_lppd_change"),
    "alone_before": ("table", "lppd_chain_mean"),
    "alone_after": ("referee", "referee_lppd_chain_mean"),
}
"""Column of the plotted numbers -> file and metric; the column `<name>_error` has its standard error."""
CHAINS = {
    "chain": "chain",
    "log_likelihood_shift": "shift",
    "log_prior_shift": "prior_shift",
    "lppd_before": "alone_before",
    "lppd_after": "alone_after",
}
"""Column of the file by chain -> column of the plotted numbers."""
REALISED = "energy_change_mean_square_per_dimension"
DEFAULTS = {"mclmc": ("energy_variance_end", ":"), "mclmc_blackjax": ("energy_variance", "-.")}
"""Method -> its setting whose default is marked, and the style of the line."""


def step_size_bias(shown: Sequence[Shown]) -> Drawing:
    """Shift of the log-likelihood from runs to their referees, and the LPPD before and after, a column per data set.

    x is the desired energy variance per dimension of the run's tuning. Upper panels: mean log-likelihood of the referee
    minus that of the run, in standard deviations of the run's draws, as the mean over chains with its standard error;
    dots are chains. Lower panels: LPPD of all chains together by the run and by its referee. Marks are open if the
    referee did not mix.

    Numbers: a row per run and split (`kind` is `run`), and one per chain (`chain`) with its shift and LPPDs. `column`
    is the label if the run has one, else the data set. Raises ValueError for more columns than fit.
    """
    columns = [_column(one) for one in shown]
    check_fits(len(set(columns)), MOST_COLUMNS, "data sets")
    rows: list[dict[str, Any]] = []
    for one, column in zip(shown, columns, strict=True):
        found = {name: one.table(name).set_index("metric") for name in ("table", "referee")}
        common = {"column": column, "run": one.run, "split": one.split, "energy_variance": one.energy_variance}
        rows.append({"kind": "run", **common, **_of_run(one, found)})
        chains = read_parquet(one.files["referee_chains"], list(CHAINS))
        rows += [
            {"kind": "chain", **common, **dict(zip(CHAINS.values(), chain, strict=True))}
            for chain in chains.itertuples(index=False, name=None)
        ]
    table = pd.DataFrame(rows).astype({"chain": "Int64"})
    names = [f"{_column(one)} at {one.energy_variance:g}" for one in shown]
    return Drawing(_figure(table), table, names=names)


def _figure(table: pd.DataFrame) -> Figure:
    names = list(dict.fromkeys(table["column"]))
    figure = Figure(figsize=(style.TEXT_WIDTH, 4.0 if len(names) > 1 else 2.7))
    # One data set has its two panels side by side.
    panels = figure.subplots(2, len(names), sharex=True) if len(names) > 1 else figure.subplots(1, 2, sharex=True)
    axes = panels.reshape(2, len(names))
    for (upper, lower), name in zip(axes.T, names, strict=True):
        of_column = table[table["column"] == name]
        _shifts(upper, of_column)
        _scores(lower, of_column)
        upper.set_title(name)
    for ax in axes.flat:
        ax.set_xscale("log")
        for method, (setting, look) in DEFAULTS.items():
            ax.axvline(_default(method, setting), color=style.GREY, lw=0.6, ls=look, zorder=0)
    for ax in panels.flat[-max(len(names), 2) :]:
        ax.set_xlabel("desired energy variance\nper dimension")
    axes[0, 0].set_ylabel("shift of log-likelihood,\nsd of the run's draws")
    axes[1, 0].set_ylabel("LPPD per test row,\nall chains")
    figure.align_ylabels(axes[:, 0])
    page.legend_below(figure, _legend(table))
    return figure


def _column(one: Shown) -> str:
    """Title of a run's panels: its label if it has one, else the data set."""
    return one.label if one.label != one.run else one.dataset_title


def _of_run(one: Shown, found: dict[str, pd.DataFrame]) -> dict[str, Any]:
    """Values of a run and split from its tables by metric; NaN where all chains are excluded."""
    if MIXED not in found["referee"].index:
        raise ValueError(
            f"{one.files['referee']}: no row '{MIXED}' of run {one.run}; run the rule score_referee for it again"
        )
    values: dict[str, Any] = {}
    for name, (file, metric) in VALUES.items():
        values[name] = found[file]["value"].get(metric, np.nan)
        values[f"{name}_error"] = found[file]["standard_error"].get(metric, np.nan)
    values["realised_energy_variance"] = found["table"]["value"].get(REALISED, np.nan)
    mixed = found["referee"].loc[MIXED]
    return {**values, "mixed": bool(mixed["value"] == 1), "note": mixed["note"]}


def _shifts(ax: Axes, table: pd.DataFrame) -> None:
    ax.axhline(0, color=style.BLACK, lw=0.6, zorder=0)
    chains, runs = table[table["kind"] == "chain"], table[table["kind"] == "run"]
    ax.plot(chains["energy_variance"], chains["shift"], "o", ms=1.8, mew=0, color=style.SKY, zorder=1)
    _line(ax, runs, "shift", style.BLUE, "-")
    fence(ax, np.concatenate([runs["shift"], chains["shift"], [0.0]]))


def _scores(ax: Axes, table: pd.DataFrame) -> None:
    """Lower panel; the error over test rows is common to all its marks and not drawn."""
    runs = table[table["kind"] == "run"].assign(together_before_error=np.nan, together_after_error=np.nan)
    _line(ax, runs.assign(mixed=True), "together_before", style.BLUE, "-")
    _line(ax, runs, "together_after", style.ORANGE, "--")
    fence(ax, runs[["together_before", "together_after"]].to_numpy().ravel(), reach=10.0)


def _line(ax: Axes, runs: pd.DataFrame, name: str, colour: str, dash: str) -> None:
    """Marks with bars, filled if the referee has mixed, and a line through the means at each energy variance."""
    means = runs.groupby("energy_variance")[name].mean()
    ax.plot(means.index, means, color=colour, ls=dash, lw=0.9, zorder=2)
    for x, value, error, mixed in runs[["energy_variance", name, f"{name}_error", "mixed"]].itertuples(index=False):
        ax.errorbar(x, value, error, color=colour, elinewidth=0.8, **_mark(dash, bool(mixed)), zorder=3)


def _mark(dash: str, mixed: bool) -> dict[str, Any]:
    """Circles for runs, squares for the scores of their referees; open if the referee did not mix."""
    return {"marker": "o" if dash == "-" else "s", "ms": 3.6, "mew": 0.9} | ({} if mixed else {"mfc": "white"})


def _default(method: str, setting: str) -> float:
    return float(METHODS[method].model_fields[setting].default)


def _legend(table: pd.DataFrame) -> Entries:
    entries: dict[str, dict[str, Any]] = {
        "run": {"color": style.BLUE, "lw": 0.9, "ls": "-", **_mark("-", True)},
        "referee": {"color": style.ORANGE, "lw": 0.9, "ls": "--", **_mark("--", True)},
    }
    entries["shift of a chain"] = {"color": style.SKY, "marker": "o", "ms": 1.8, "mew": 0, "ls": "none"}
    if not table.loc[table["kind"] == "run", "mixed"].all():
        entries["open: the referee has not mixed"] = {"color": style.GREY, "ls": "none", **_mark("--", False)}
    for method, (setting, look) in DEFAULTS.items():
        text = f"{METHODS[method].title}: {_default(method, setting):g} by default"
        entries[text] = {"color": style.GREY, "lw": 0.6, "ls": look}
    return entries
