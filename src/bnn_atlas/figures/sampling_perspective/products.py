"""Products of the weights into and out of a hidden unit."""

import re
from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from bnn_atlas.figures import style
from bnn_atlas.figures.shown import Shown
from bnn_atlas.figures.smoothing import contour_table, mass_levels, smooth, smooth_pair
from bnn_atlas.figures.style import FigureOutputs
from bnn_atlas.figures.subsets import Subset, locate, read_subset
from bnn_atlas.provenance import Provenance

UNITS = 5
"""Units shown at most, the first ones."""
CHAINS = 20
"""Chains shown at most, the first ones."""
SHARE = 0.8
"""Share of a chain's draws inside its contour."""
TAIL = 0.001
"""Share of all draws beyond the limits at each end."""
BINS = 200


def product_weights(shown: Sequence[Shown], outputs: FigureOutputs, provenance: Provenance) -> None:
    """Density of u_i = w2_i w1_i for the hidden units of a network with one input, one hidden layer and one output.

    On the diagonal the density of each product, a line per chain and all chains in black; below it, for each pair of
    units, a contour per chain. The figure's subset holds layer0.weight[i,0] and layer1.weight[0,i] of the units to
    show. Raises ValueError where it holds both of no unit, or the network is another.
    """
    run = shown[0]
    if len(run.hidden) > 1:
        raise ValueError(f"run {run.run} has {len(run.hidden)} hidden layers; products of two weights need one")
    subset = read_subset(run.files["draws"])
    units = _units(subset, run)
    products = _products(subset, units, run)
    with style.context():
        figure, data = _triangle(products, units, subset, run)
        style.save(figure, data, outputs, provenance)


def _units(subset: Subset, run: Shown) -> list[int]:
    """The first units whose two weights are in the subset."""
    found = {int(m[1]) for name in subset.names if (m := re.fullmatch(r"layer0\.weight\[(\d+),0\]", name))}
    units = sorted(unit for unit in found if f"layer1.weight[0,{unit}]" in subset.names)
    if not units:
        raise ValueError(
            f"{run.files['draws']}: no unit has both weights (layer0.weight[i,0] and layer1.weight[0,i]); "
            "choose both in the figure's subset"
        )
    return units[:UNITS]


def _products(subset: Subset, units: Sequence[int], run: Shown) -> np.ndarray:
    """Products [c, s, unit]."""
    into = locate(subset, tuple(f"layer0.weight[{unit},0]" for unit in units), run.files["draws"])
    out = locate(subset, tuple(f"layer1.weight[0,{unit}]" for unit in units), run.files["draws"])
    return into * out


def _triangle(products: np.ndarray, units: Sequence[int], subset: Subset, run: Shown) -> tuple[Figure, pd.DataFrame]:
    """Densities on the diagonal, pairs below it."""
    k = len(units)
    width = style.COLUMN_WIDTH if k == 1 else style.TEXT_WIDTH * min(1.0, 0.28 + 0.24 * k)
    figure = Figure(figsize=(width, 0.95 * width + 0.3 if k > 1 else 2.4))
    axes = figure.subplots(k, k, squeeze=False, sharex="col")
    limits = _limits(products)
    chains = subset.chains[:CHAINS]
    colours = _colours(len(chains))
    tables = []
    for (row, column), ax in np.ndenumerate(axes):
        if column > row:
            ax.set_visible(False)
            continue
        names = {"x_unit": units[column] + 1, "y_unit": units[row] + 1}
        if row == column:
            part = _densities(ax, products[:, :, row], limits, chains, colours)
        else:
            part = _contours(ax, products[:, :, [column, row]], limits, chains, colours)
        tables.append(part.assign(**names))
        ax.set_xlim(limits)
        ax.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10], prune="both"))
        if row == k - 1:
            ax.set_xlabel(f"$u_{{{units[column] + 1}}}$")
        if column == 0 and row > 0:
            ax.set_ylabel(f"$u_{{{units[row] + 1}}}$")
        ax.tick_params(labelleft=column == 0 and row > 0)
    axes[0, 0].set_ylabel("density")
    _remarks(figure, axes, products, subset, run, limits)
    if entries := _legend(chains, colours):
        style.legend_below(figure, entries)
    columns = ["x_unit", "y_unit", "chain", "line", "x", "y"]
    data = pd.concat(tables, ignore_index=True).reindex(columns=columns)
    return figure, data.astype({"line": "Int64"})


def _densities(
    ax: Axes, values: np.ndarray, limits: tuple[float, float], chains: np.ndarray, colours: Sequence[str]
) -> pd.DataFrame:
    """Density of a product [c, s] by chain and of all chains; y is the density."""
    cell = (limits[1] - limits[0]) / BINS
    x = limits[0] + cell * (np.arange(BINS) + 0.5)
    curves = {str(chain): smooth(values[i], limits, BINS) for i, chain in enumerate(chains)}
    if len(values) > 1:
        for curve, colour in zip(curves.values(), colours, strict=True):
            ax.plot(x, curve, color=colour, lw=0.7, alpha=0.85)
    # A mixture of the chains' own estimates: one bandwidth for all would smear chains that differ.
    curves["all"] = np.mean([smooth(chain, limits, BINS) for chain in values], axis=0)
    ax.plot(x, curves["all"], color=style.BLACK, lw=1.4)
    # The pooled density sets the height: a chain that hardly moves is a spike.
    ax.set_ylim(
        0, max(1.25 * curves["all"].max(), min(2.5 * curves["all"].max(), max(c.max() for c in curves.values())))
    )
    ax.set_yticks([])
    parts = [pd.DataFrame({"chain": chain, "x": x.round(6), "y": curve.round(6)}) for chain, curve in curves.items()]
    return pd.concat(parts, ignore_index=True)


def _contours(
    ax: Axes, values: np.ndarray, limits: tuple[float, float], chains: np.ndarray, colours: Sequence[str]
) -> pd.DataFrame:
    """For each chain the outline of the smallest region that holds `SHARE` of its draws [c, s, 2]."""
    parts = []
    for i, (chain, colour) in enumerate(zip(chains, colours, strict=True)):
        surface = smooth_pair(values[i], np.array([limits, limits]), BINS)
        levels = mass_levels(surface, (SHARE,))
        if levels:
            ax.contour(
                surface.x, surface.y, surface.density.T, levels=list(levels.values()), colors=[colour], linewidths=0.8
            )
        parts.append(contour_table(surface, levels).assign(chain=str(chain)))
    ax.set_ylim(limits)
    ax.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10], prune="both"))
    return pd.concat(parts, ignore_index=True)


def _limits(products: np.ndarray) -> tuple[float, float]:
    """Limits of all axes: all draws but the outermost, and 0."""
    low, high = np.quantile(products, (TAIL, 1 - TAIL))
    low, high = min(float(low), 0.0), max(float(high), 0.0)
    margin = 0.1 * (high - low) or 1.0
    return low - margin, high + margin


def _colours(count: int) -> list[str]:
    """One colour per chain; black is for all chains."""
    distinct = [colour for colour in style.CYCLE if colour != style.BLACK]
    if count <= len(distinct):
        return distinct[:count]
    return [mpl.colors.to_hex(mpl.colormaps["viridis"](place)) for place in np.linspace(0, 0.92, count)]


def _remarks(
    figure: Figure, axes: np.ndarray, products: np.ndarray, subset: Subset, run: Shown, limits: tuple[float, float]
) -> None:
    """What is shown and what is not, in the empty corner or above the only panel."""
    chains, draws, shown = *products.shape[:2], products.shape[2]
    outside = float(((products < limits[0]) | (products > limits[1])).any(axis=2).mean())
    lines = [
        "$u_i = w_{1,i} \\cdot w_{2,i}$",
        f"{style.thousands(draws)} draws of {'one chain' if chains == 1 else f'each of {chains} chains'}",
        f"{min(chains, CHAINS)} of them drawn" if chains > CHAINS else "",
        f"first {shown} of {run.hidden[0]} units" if run.hidden and run.hidden[0] > shown else "",
        f"{100 * outside:.2g} % of the draws outside" if outside else "",
        subset.remark,
        f"below the diagonal: {SHARE:.0%} of a chain's draws" if shown > 1 else "",
    ]
    text = [line for line in lines if line]
    if products.shape[2] > 1:
        figure.text(0.98, 0.97, "\n".join(text), ha="right", va="top", fontsize=7)
    else:
        axes[0, 0].set_title("\n".join([", ".join(text[:2]), *text[2:]]), fontsize=7)


def _legend(chains: np.ndarray, colours: Sequence[str]) -> dict[str, Artist]:
    """Colours of the chains, or what a colour is where there are many; nothing for one chain."""
    if len(chains) == 1:
        return {}
    entries: dict[str, Artist] = {"all chains": Line2D([], [], color=style.BLACK, lw=1.4)}
    if len(chains) > 6:
        return entries | {"one chain (a colour each)": Line2D([], [], color=colours[len(colours) // 2], lw=0.8)}
    lines = [Line2D([], [], color=colour, lw=0.8) for colour in colours]
    return entries | {f"chain {chain}": line for chain, line in zip(chains, lines, strict=True)}
