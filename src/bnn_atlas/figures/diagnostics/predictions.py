"""Panel of the test log density as draws, or chains, are added."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from bnn_atlas.figures import axes, style
from bnn_atlas.figures.diagnostics import looks
from bnn_atlas.figures.diagnostics.looks import Panel
from bnn_atlas.figures.diagnostics.run import Run, by_chain, plotted
from bnn_atlas.metrics.gathering.curves import QUANTILES

PANEL = "test log density"


def _lppd(ax: Axes, run: Run) -> pd.DataFrame:
    """LPPD of all chains together and of each alone after their first draws; with one draw each, by chains."""
    ax.set_ylabel("LPPD per test row")
    return _over_draws(ax, run) if run.draws > 1 else _over_chains(ax, run)


def _over_draws(ax: Axes, run: Run) -> pd.DataFrame:
    single = run.chains[run.chains["chain"].isin(run.kept)]
    together = run.table[run.table["metric"] == "lppd_cumulative_draws"]
    if run.lines:
        colours = style.chain_colours(run.count)
        for chain, part in by_chain(single):
            ax.plot(part["draws"], _gaps(part["lppd"]), color=colours[chain], lw=0.8, alpha=0.8)
        rows = plotted(PANEL, "chain alone", single["draws"], single["lppd"], chain=single["chain"])
    else:
        curve = _quantiles(single)
        looks.bands(ax, curve, style.ORANGE)
        rows = looks.band_rows(PANEL, curve)
    ax.plot(together["draws"], _gaps(together["value"]), color=style.BLACK, lw=1.8)
    shown = [single["lppd"].to_numpy(), together["value"].to_numpy()]
    if not run.lines:
        shown[0] = curve.loc[curve["quantile"].isin([0.05, 0.95]), "value"].to_numpy()
    if limits := axes.bulk_limits(np.concatenate(shown).astype(np.float64), 0.02):
        ax.set_ylim(*limits)
    axes.count_axis(ax, run.draws)
    ax.set_xlabel("draws per chain (black: all chains; colour: chains alone)")
    return pd.concat([rows, plotted(PANEL, "all chains", together["draws"], together["value"])])


def _over_chains(ax: Axes, run: Run) -> pd.DataFrame:
    rows = run.table[run.table["metric"] == "lppd_cumulative_chains"]
    x, mean = rows["chains"].to_numpy(), _gaps(rows["value"])
    deviations = run.table[run.table["metric"] == "lppd_cumulative_chains_order_sd"].set_index("chains")["value"]
    sd = rows["chains"].map(deviations).fillna(0.0).to_numpy(dtype=np.float64)
    ax.fill_between(x, mean - sd, mean + sd, color=style.BLACK, alpha=0.15, lw=0)
    ax.plot(x, mean, color=style.BLACK, marker="o" if len(x) < 15 else "", ms=2.5)
    axes.count_axis(ax, int(x.max()))
    ax.set_xlabel("number of chains (band: \N{PLUS-MINUS SIGN}1 sd over orders of the chains)")
    return plotted(PANEL, "chains together", x, rows["value"], low=rows["value"] - sd, high=rows["value"] + sd)


def _quantiles(single: pd.DataFrame) -> pd.DataFrame:
    """Quantiles over chains at each number of draws, as curves have them."""
    finite = single[np.isfinite(single["lppd"])]
    levels = finite.groupby("draws")["lppd"].quantile(list(QUANTILES)).reset_index()
    return levels.set_axis(["x", "quantile", "value"], axis=1)


def _gaps(values: pd.Series) -> np.ndarray:
    """Values with gaps where they are infinite."""
    array = values.to_numpy(dtype=np.float64, copy=True)
    array[~np.isfinite(array)] = np.nan
    return array


def _no_lppd(run: Run) -> str:
    metric = "lppd_cumulative_draws" if run.draws > 1 else "lppd_cumulative_chains"
    rows = run.table[run.table["metric"] == metric]
    if run.draws == 1 and len(rows) == 1:
        return "one chain and draw"
    return "" if np.isfinite(rows["value"]).any() else "nowhere finite"


PANELS = (Panel("Test log density", _no_lppd, _lppd),)
