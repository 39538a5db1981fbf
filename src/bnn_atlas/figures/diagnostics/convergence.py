"""Panels on convergence: R-hat, effective sample size, autocorrelation, ranks, and test log density by draws."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator

from bnn_atlas.config.methods.base import KindOfDraws
from bnn_atlas.config.methods.registry import method
from bnn_atlas.figures import axes, style
from bnn_atlas.figures.diagnostics.courses import SHARES, Panel, bands, course, finite
from bnn_atlas.figures.diagnostics.run import Run, by_chain, plotted
from bnn_atlas.metrics.gathering.curves import QUANTILES
from bnn_atlas.metrics.judgement.checks import ESS, RHAT

RHAT_EDGES = 1 + 10.0 ** np.linspace(-4, 1, 41)
"""Values of R-hat below the first edge count in the first bin, values above the last edge in the last bin."""
RHAT_TICKS = (1.0001, 1.001, 1.01, 1.1, 2.0, 11.0)
MOST_GROUPS = 14
"""Largest number of groups of parameters by layer and role; more are shown by layer only."""
MOST_LABELS = 10
"""Largest number of groups that are labelled if there are too many to label all."""


def _rhat(ax: Axes, run: Run) -> pd.DataFrame:
    """Histograms of R-hat on a logarithmic scale of R-hat - 1."""
    kinds: tuple[tuple[str, pd.Series, dict[str, Any]], ...] = (
        ("function values", run.functions["rhat"], {"color": style.BLUE, "fill": True, "alpha": 0.45}),
        ("weights", run.parameters["rhat"], {"color": style.ORANGE, "lw": 1.3}),
        ("weights, each chain alone", run.parameters["rhat_chainwise_median"],
         {"color": style.BLACK, "lw": 1.0, "ls": (0, (3, 1.5))}),
    )  # fmt: skip
    place, parts = np.log10(RHAT_EDGES - 1), []
    for name, column, look in kinds:
        values = column.to_numpy(dtype=np.float64)
        values = values[~np.isnan(values)]
        if not len(values):
            continue
        shares = np.histogram(values.clip(RHAT_EDGES[0], RHAT_EDGES[-1]), bins=RHAT_EDGES)[0] / len(values)
        ax.stairs(shares, place, label=name, **look)
        parts.append(
            plotted("R-hat", name, (RHAT_EDGES[:-1] + RHAT_EDGES[1:]) / 2, shares, low=RHAT_EDGES[:-1],
                    high=RHAT_EDGES[1:])
        )  # fmt: skip
    for limit, dash in ((RHAT.fine, ":"), (RHAT.look, "--")):
        ax.axvline(np.log10(limit - 1), color=style.GREY, lw=0.8, ls=dash)
    ax.xaxis.set_major_locator(FixedLocator([float(np.log10(tick - 1)) for tick in RHAT_TICKS]))
    ax.set_xticklabels([f"{tick:g}" for tick in RHAT_TICKS])
    ax.set_xlim(place[0], place[-1])
    ax.set_ylim(0, 1.5 * ax.get_ylim()[1])
    ax.set_xlabel(f"R-hat (dotted {RHAT.fine:g}, dashed {RHAT.look:g})")
    ax.set_ylabel("share")
    ax.legend(loc="upper left", borderaxespad=0.1, labelspacing=0.25)
    return pd.concat(parts)


def _ess(ax: Axes, run: Run) -> pd.DataFrame:
    """Bulk ESS of the parameters of each layer and of function values: median, quartiles, 5 and 95 percent."""
    groups = _groups(run.parameters)
    groups["function values"] = run.functions["ess_bulk"].to_numpy(dtype=np.float64)
    rows, labels = [], []
    for place, (label, found) in enumerate(groups.items()):
        values = found[np.isfinite(found)]
        labels.append("f(x)" if label == "function values" else label)
        if not len(values):
            continue
        levels = np.quantile(values, SHARES)
        colour = style.BLUE if label == "function values" else style.ORANGE
        ax.vlines(place, levels[0], levels[4], color=colour, lw=1.0)
        ax.vlines(place, levels[1], levels[3], color=colour, lw=3.5)
        ax.plot(place, levels[2], "o", ms=3.2, mfc="white", mec=colour, mew=0.9)
        for share, level in zip(SHARES, levels, strict=True):
            rows.append(plotted("ESS", f"{label}, quantile {share:g}", np.array([place]), np.array([level])))
    frame = pd.concat(rows)
    total = len(run.kept) * run.draws
    low, high = frame["value"].min() / 1.6, max(frame["value"].max() * 1.6, total * 1.3)
    axes.log_ticks(ax, low, high)
    for level, dash in ((ESS.fine, ":"), (ESS.look, "--"), (total, "-")):
        if low < level < high:
            ax.axhline(level, color=style.GREY, lw=0.8, ls=dash, zorder=0)
    last = len(labels) - 1
    step = 1 if last < MOST_GROUPS + 2 else -(-last // MOST_LABELS)
    labelled = [*range(0, last if step == 1 else last - step, step), last]
    ax.xaxis.set_major_locator(FixedLocator(labelled))
    ax.set_xticklabels([labels[place] for place in labelled])
    ax.set_xlim(-0.6, len(labels) - 0.4)
    ax.set_xlabel(f"dotted {ESS.fine:g}, dashed {ESS.look:g}, solid: draws of all chains")
    ax.set_ylabel("effective sample size")
    seconds = run.value("seconds_sampling")
    if seconds > 0:
        right = ax.twinx()
        right.spines["right"].set_visible(True)
        axes.log_ticks(right, low / seconds, high / seconds)
        right.set_ylabel("ESS per second of sampling")
    return frame


def _groups(parameters: pd.DataFrame) -> dict[str, np.ndarray]:
    """ESS of the parameters by layer and role, such as `W1` and `b1`; only by layer if there are many groups."""
    layer, role = parameters["layer"].astype("Int64"), parameters["role"].astype(str)
    short = role.map({"weight": "W", "bias": "b"}).fillna(role)
    labels = pd.Series(np.where(layer.isna(), role, short + (layer + 1).astype("string").fillna("")))
    if labels.nunique() > MOST_GROUPS:
        labels = pd.Series(np.where(layer.isna(), role, (layer + 1).astype("string").fillna("")))
    ess = parameters["ess_bulk"].to_numpy(dtype=np.float64)
    return {str(label): ess[np.asarray(labels == label)] for label in labels.unique()}


def _autocorrelation(ax: Axes, run: Run) -> pd.DataFrame:
    """Autocorrelation of the most telling function values."""
    curve = run.curve("autocorrelation")
    looks_of = zip((style.VERMILION, style.BLUE, style.BLACK), ("-", "--", ":"), strict=True)
    for (label, part), (colour, dash) in zip(curve.groupby("label", sort=False), looks_of, strict=False):
        ax.plot(part["x"], part["value"], color=colour, ls=dash, lw=1.1, label=label)
    ax.axhline(0, color=style.GREY, lw=0.5)
    ax.set_ylim(min(-0.1, 1.1 * curve["value"].min()), 1.38)
    ax.yaxis.set_major_locator(FixedLocator([0, 0.25, 0.5, 0.75, 1.0]))
    axes.whole_numbers(ax)
    ax.set_xlabel("lag (draws)")
    ax.set_ylabel("autocorrelation")
    ax.legend(loc="upper right", borderaxespad=0.1, labelspacing=0.25)
    return plotted("autocorrelation", curve["label"], curve["x"], curve["value"])


def _ranks(ax: Axes, run: Run) -> pd.DataFrame:
    """How each chain's draws rank among all draws, relative to equal shares."""
    curve = run.curve("rank")
    bins = curve["x"].nunique()
    curve = curve.assign(value=curve["value"] * bins)
    if curve["chain"].notna().any():
        colours = style.chain_colours(run.count)
        for chain, part in by_chain(curve):
            ax.stairs(part["value"], np.linspace(0, 1, bins + 1), color=colours[chain], lw=0.9, alpha=0.85)
        rows = plotted("ranks", curve["label"], curve["x"], curve["value"], chain=curve["chain"])
    else:
        curve = curve[curve["quantile"].isin(SHARES)]
        rows = bands(ax, "ranks", curve)
    ax.axhline(1, color=style.GREY, lw=0.8, ls=":")
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1.08 * max(2.0, curve["value"].max()))
    ax.xaxis.set_major_locator(FixedLocator([0, 0.25, 0.5, 0.75, 1.0]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel(f"rank among all draws: {curve['label'].iloc[0]}")
    ax.set_ylabel("chain's share / equal share")
    return rows


LPPD = "test log density"


def _lppd(ax: Axes, run: Run) -> pd.DataFrame:
    """LPPD over the first draws of all chains and of each alone; over chains if each has a single draw."""
    ax.set_ylabel("LPPD per test row")
    return _over_draws(ax, run) if run.draws > 1 else _over_chains(ax, run)


def _over_draws(ax: Axes, run: Run) -> pd.DataFrame:
    single = run.chains[run.chains["chain"].isin(run.kept)]
    together = run.table[run.table["metric"] == "lppd_cumulative_draws"]
    curve = single.rename(columns={"draws": "x", "lppd": "value"}) if run.lines else _quantiles(single)
    rows = course(ax, run, LPPD, curve, series="chain alone", colour=style.ORANGE, lw=0.8, alpha=0.8)
    ax.plot(together["draws"], finite(together["value"]), color=style.BLACK, lw=1.8)
    alone = curve["value"] if run.lines else curve.loc[curve["quantile"].isin([0.05, 0.95]), "value"]
    if limits := axes.bulk_limits(np.concatenate([alone, together["value"]]).astype(np.float64), 0.02):
        ax.set_ylim(*limits)
    axes.count_axis(ax, run.draws)
    ax.set_xlabel("draws per chain (black: all chains; colour: chains alone)")
    return pd.concat([rows, plotted(LPPD, "all chains", together["draws"], together["value"])])


def _over_chains(ax: Axes, run: Run) -> pd.DataFrame:
    rows = run.table[run.table["metric"] == "lppd_cumulative_chains"]
    x, mean = rows["chains"].to_numpy(), finite(rows["value"]).to_numpy()
    deviations = run.table[run.table["metric"] == "lppd_cumulative_chains_order_sd"].set_index("chains")["value"]
    sd = rows["chains"].map(deviations).fillna(0.0).to_numpy(dtype=np.float64)
    ax.fill_between(x, mean - sd, mean + sd, color=style.BLACK, alpha=0.15, lw=0)
    ax.plot(x, mean, color=style.BLACK, marker="o" if len(x) < 15 else "", ms=2.5)
    axes.count_axis(ax, int(x.max()))
    ax.set_xlabel("number of chains (band: \N{PLUS-MINUS SIGN}1 sd over orders of the chains)")
    return plotted(LPPD, "chains together", x, rows["value"], low=rows["value"] - sd, high=rows["value"] + sd)


def _quantiles(single: pd.DataFrame) -> pd.DataFrame:
    """Quantiles over chains at each number of draws, in the form of a curve."""
    finite = single[np.isfinite(single["lppd"])]
    levels = finite.groupby("draws")["lppd"].quantile(list(QUANTILES)).reset_index()
    return levels.set_axis(["x", "quantile", "value"], axis=1)


def _no_lppd(run: Run) -> str:
    metric = "lppd_cumulative_draws" if run.draws > 1 else "lppd_cumulative_chains"
    rows = run.table[run.table["metric"] == metric]
    if run.draws == 1 and len(rows) == 1:
        return "one chain and draw"
    return "" if np.isfinite(rows["value"]).any() else "nowhere finite"


def _no_rhat(run: Run) -> str:
    found = [*run.functions["rhat"], *run.parameters["rhat"], *run.parameters["rhat_chainwise_median"]]
    return run.reason("rhat_function_max") if np.isnan(np.array(found, dtype=np.float64)).all() else ""


def _no_ess(run: Run) -> str:
    found = [*run.functions["ess_bulk"], *run.parameters["ess_bulk"]]
    return run.reason("ess_bulk_function_min") if np.isnan(np.array(found, dtype=np.float64)).all() else ""


def _no_autocorrelation(run: Run) -> str:
    return "" if len(run.curve("autocorrelation")) else "needs 4 draws that are not all the same"


def _no_ranks(run: Run) -> str:
    return "" if len(run.curve("rank")) else "needs 2 chains of 4 draws that are not all the same"


def _of_chains(missing: Callable[[Run], str]) -> Callable[[Run], str]:
    """Why a run does not have a panel: as `missing` says, or because its draws are independent."""

    def why(run: Run) -> str:
        independent = method(run.identity["method"]).kind_of_draws is KindOfDraws.INDEPENDENT
        return "draws are independent" if independent else missing(run)

    return why


PANELS = (
    Panel("R-hat", _of_chains(_no_rhat), _rhat),
    Panel("Effective sample size by layer", _of_chains(_no_ess), _ess),
    Panel("Autocorrelation of function values", _of_chains(_no_autocorrelation), _autocorrelation),
    Panel("Ranks of the least mixed function value", _of_chains(_no_ranks), _ranks),
    Panel("Test log density", _no_lppd, _lppd),
)
