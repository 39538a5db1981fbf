"""Chains that start from permuted copies of one ensemble member, and chains that start from different members."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from bnn_atlas.figures import page, style
from bnn_atlas.figures.axes import bulk_limits, count_axis, score_text
from bnn_atlas.figures.functions import (
    Functions,
    distance_bar,
    distance_map,
    names,
    pair_table,
    read_functions,
)
from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.formulas.function_distances import wasserstein_squared
from bnn_atlas.metrics.formulas.variants import wasserstein_squared_sommer
from bnn_atlas.metrics.gathering.curves import RunningLppd, lppd_of_first_draws
from bnn_atlas.metrics.gathering.summary import load

KIND = {
    "sections": ["functions"], "files": ["predictive"], "task": "regression", "most": 4,
    "columns": "panel label chain draws lppd chain_a draw_a chain_b draw_b wasserstein_squared "
    "wasserstein_squared_sommer",
}  # fmt: skip

MOST_CHAINS, MOST_DRAWS, MOST_TOGETHER = 12, 50, 300
"""Largest numbers of chains in a map (more are left out), of draws per chain and of all draws (which are evenly
spaced)."""
CHAINS, ENSEMBLE = style.Line(style.SKY, "-"), style.Line(style.VERMILION, "-")


def permuted_warmstarts(shown: Sequence[Shown]) -> Drawing:
    """A column per run: running LPPD of each chain and of the ensemble, below it distances between single functions.

    Files: `predictive` (predictions) and `functions` (function draws). The upper panels share their axes,
    set by values after the first tenth of the draws, and their titles have the last value of all chains; the maps
    share their colours; the CSV also has the distances as published. A value of -inf leaves a gap and a remark. A run
    with no chain left says so.
    """
    titles = names(shown)
    running = [lppd_of_first_draws(load(run.files["predictive"])) for run in shown]
    functions = [_few(one) for one in read_functions(shown)]
    distances = [wasserstein_squared(one.mean, one.scale) for one in functions]
    tables = [_running_table(title, curves) for title, curves in zip(titles, running, strict=True)]
    pairs = [_pairs(*parts) for parts in zip(functions, distances, strict=True)]
    tables += [table.assign(panel="distances") for table in pairs]
    data = pd.concat(tables, ignore_index=True).astype({"chain": "Int64", "draws": "Int64"})
    data = data.astype(dict.fromkeys(("chain_a", "draw_a", "chain_b", "draw_b"), "Int64"))
    columns = len(titles)
    width = style.COLUMN_WIDTH if columns == 1 else style.TEXT_WIDTH
    side = min(2.5, (width - 1.0) / columns - 0.35)
    figure = Figure(figsize=(width, 1.75 + side + 0.95))
    axes = figure.subplots(2, columns, squeeze=False, height_ratios=(1.75, side + 0.3))
    limits = _limits(running)
    largest = max(float(matrix.max()) for matrix in distances)
    for column, (title, curves, one, matrix) in enumerate(zip(titles, running, functions, distances, strict=True)):
        upper, lower = axes[:, column]
        _running_panel(upper, curves, limits, int(max(curves.counts[-1] for curves in running)))
        upper.set_title(f"{title}: LPPD {score_text(float(curves.ensemble[-1]))} at the end")
        image = distance_map(lower, one, matrix, largest)
        if one.remark:
            lower.set_title(one.remark, fontsize=6.5, color=style.GREY)
        if column:
            upper.tick_params(labelleft=False)
            lower.set_ylabel("")
    axes[0, 0].set_ylabel("LPPD per test row,\nstandardised target")
    distance_bar(axes[1, -1], image, functions)
    entries: dict[str, Artist] = {
        "one chain": Line2D([], [], color=CHAINS.colour, lw=0.9),
        "all chains": Line2D([], [], color=ENSEMBLE.colour, lw=1.8),
    }
    page.legend_below(figure, entries)
    return Drawing(figure, data, names=titles)


def _few(functions: Functions) -> Functions:
    kept = list(dict.fromkeys(functions.chain.tolist()))[:MOST_CHAINS]
    return functions.only(np.isin(functions.chain, kept)).at_most(min(MOST_DRAWS, MOST_TOGETHER // len(kept)))


def _pairs(functions: Functions, distances: np.ndarray) -> pd.DataFrame:
    published = wasserstein_squared_sommer(functions.mean, functions.scale)
    return pair_table(functions, distances, wasserstein_squared_sommer=published)


def _limits(running: Sequence[RunningLppd]) -> tuple[float, float] | None:
    """Limits of the y axis: they hold the bulk of the single chains, and all chains together.

    Only values after the first tenth of the draws count: burn-in would leave no room for the rest.
    """
    late = [curves.counts >= curves.counts[-1] / 10 for curves in running]
    alone = [curves.chains[:, of].ravel() for curves, of in zip(running, late, strict=True)]
    together = np.concatenate([curves.ensemble[of] for curves, of in zip(running, late, strict=True)])
    limits = bulk_limits(np.concatenate(alone), tail=0.1)
    together = together[np.isfinite(together)]
    if limits is None or not together.size:
        return limits
    margin = 0.06 * (limits[1] - limits[0])
    return min(limits[0], float(together.min()) - margin), max(limits[1], float(together.max()) + margin)


def _running_panel(ax: Axes, curves: RunningLppd, limits: tuple[float, float] | None, largest: int) -> None:
    ax.grid(axis="y")
    marker = "o" if len(curves.counts) <= 2 else ""
    alpha = 0.9 if len(curves.chains) <= 20 else 0.35
    for chain in _gaps(curves.chains):
        ax.plot(curves.counts, chain, color=CHAINS.colour, lw=0.7, alpha=alpha, marker=marker, ms=2)
    ax.plot(curves.counts, _gaps(curves.ensemble), color=ENSEMBLE.colour, lw=1.8, marker=marker, ms=3)
    count_axis(ax, largest)
    ax.set_xlim(0.95, max(largest, 2))
    ax.set_xlabel("draws per chain")
    ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    if limits is not None:
        ax.set_ylim(*limits)
    divergent = np.isnan(curves.chains).all(axis=1)
    infinite = np.isneginf(curves.chains).any(axis=1)
    below = np.zeros_like(divergent) if limits is None else (_gaps(curves.chains) < limits[0]).any(axis=1)
    counted = ((divergent, "left out"), (infinite, "partly \N{MINUS SIGN}\N{INFINITY}"),
               (below, "partly below the panel"))  # fmt: skip
    texts = [_chains(int(chain_mask.sum()), text) for chain_mask, text in counted if chain_mask.any()]
    if np.isneginf(curves.ensemble).any():
        count = int(curves.counts[np.isneginf(curves.ensemble)].max())
        texts.append(f"all chains: \N{MINUS SIGN}\N{INFINITY} up to {style.thousands(count)} draws")
    if texts:
        box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.9, "pad": 1.0}
        ax.text(0.985, 0.03, "\n".join(texts), transform=ax.transAxes, ha="right", va="bottom", fontsize=6.5,
                color=style.GREY, bbox=box)  # fmt: skip


def _gaps(values: np.ndarray) -> np.ndarray:
    """The values, with NaN for those that cannot be drawn."""
    return np.where(np.isfinite(values), values, np.nan)


def _chains(count: int, text: str) -> str:
    return f"{style.thousands(count)} chain{'s' if count > 1 else ''} {text}"


def _running_table(title: str, curves: RunningLppd) -> pd.DataFrame:
    """Plotted numbers: panel, label, chain (empty for all together), draws, lppd."""
    chains, points = curves.chains.shape
    return pd.DataFrame(
        {
            "panel": "running LPPD",
            "label": title,
            "chain": pd.array(np.repeat([*range(chains), pd.NA], points), dtype="Int64"),
            "draws": np.tile(curves.counts, chains + 1),
            "lppd": np.concatenate([curves.chains.ravel(), curves.ensemble]),
        }
    )
