"""Products of the weights into and out of a hidden unit."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from bnn_atlas.figures import page, style
from bnn_atlas.figures.density import draw_regions, round_ticks, smooth, smooth_pair, square
from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.shown import Shown
from bnn_atlas.figures.subsets import Subset, locate, read_subset

KIND = {
    "sections": ["subset"], "runs": "one", "needs": ["one hidden layer"],
    "columns": "x_unit y_unit chain share line x y",
}  # fmt: skip

UNITS = 5
"""Largest number of units shown: the first ones."""
CHAINS = 20
"""Largest number of chains shown: the first ones."""
SHARE = 0.8
"""Share of a chain's draws inside its contour."""
SHARES = (0.95, 0.8, 0.5)
FILLS = ("#DDE6EE", "#A9C2D8", "#6C95BA")
"""Shares of all draws inside the filled regions, and their colours."""
TAIL = 0.001
"""Share of all draws beyond the limits at each end."""
BINS = 200
COLOURS = [colour for colour in style.CYCLE if colour != style.BLACK]
"""Colours of few chains; black is for all chains."""


def product_weights(shown: Sequence[Shown]) -> Drawing:
    """Density of u_i = w2_i w1_i for the hidden units of a network with one input, one hidden layer and one output.

    On the diagonal the density of each product, a line per chain and all chains in black; below it, for each pair of
    units, filled regions of all chains and faint contours of each. The figure's subset holds layer0.weight[i,0] and
    layer1.weight[0,i] of the units to show. Raises ValueError if it holds both weights of no unit, or the network has
    another shape.
    """
    run = shown[0]
    subset = read_subset(run.files["subset"])
    units = _units(subset, run)
    into, out = (
        locate(subset, tuple(name.format(unit) for unit in units), run.files["subset"])
        for name in ("layer0.weight[{},0]", "layer1.weight[0,{}]")
    )
    return Drawing(*_triangle(into * out, units, subset, run))


def _units(subset: Subset, run: Shown) -> list[int]:
    """The first units whose two weights are in the subset."""
    incoming = {int(m[1]) for name in subset.names if (m := re.fullmatch(r"layer0\.weight\[(\d+),0\]", name))}
    units = sorted(unit for unit in incoming if f"layer1.weight[0,{unit}]" in subset.names)
    if not units:
        raise ValueError(
            f"{run.files['subset']}: no unit has both weights (layer0.weight[i,0] and layer1.weight[0,i]); "
            "choose both in the figure's subset"
        )
    return units[:UNITS]


def _triangle(products: np.ndarray, units: Sequence[int], subset: Subset, run: Shown) -> tuple[Figure, pd.DataFrame]:
    """Densities on the diagonal, pairs below it."""
    k = len(units)
    width = style.COLUMN_WIDTH if k == 1 else style.TEXT_WIDTH * min(1.0, 0.28 + 0.24 * k)
    figure = Figure(figsize=(width, 0.95 * width + 0.3 if k > 1 else 2.4))
    axes = figure.subplots(k, k, squeeze=False, sharex="col")
    limits = _limits(products)
    chains = subset.chains[:CHAINS]
    colours = style.chain_colours(len(chains), COLOURS)
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
        round_ticks(ax.xaxis)
        if row == k - 1:
            ax.set_xlabel(f"$u_{{{units[column] + 1}}}$")
        if column == 0 and row > 0:
            ax.set_ylabel(f"$u_{{{units[row] + 1}}}$")
        ax.tick_params(labelleft=column == 0 and row > 0)
    axes[0, 0].set_ylabel("density")
    _remarks(figure, axes, products, subset, run, limits)
    page.legend_below(figure, _legend(k > 1, len(products) > 1))
    columns = ["x_unit", "y_unit", "chain", "share", "line", "x", "y"]
    data = pd.concat(tables, ignore_index=True).reindex(columns=columns)
    return figure, data.astype({"line": "Int64"})


def _densities(
    ax: Axes, values: np.ndarray, limits: tuple[float, float], chains: np.ndarray, colours: Sequence[Any]
) -> pd.DataFrame:
    """Density of a product [c, s] by chain and of all chains; y is the density."""
    cell = (limits[1] - limits[0]) / BINS
    x = limits[0] + cell * (np.arange(BINS) + 0.5)
    curves = {str(chain): smooth(values[i], limits, BINS) for i, chain in enumerate(chains)}
    if len(values) > 1:
        for curve, colour in zip(curves.values(), colours, strict=True):
            ax.plot(x, curve, color=colour, lw=0.6, alpha=0.3)
    # A mixture of the chains' own estimates, since one bandwidth for all would smear chains that differ.
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
    ax: Axes, values: np.ndarray, limits: tuple[float, float], chains: np.ndarray, colours: Sequence[Any]
) -> pd.DataFrame:
    """Smallest regions that hold shares of all draws [c, s, 2], filled, and the outline of one region per chain."""
    box = np.array([limits, limits])
    surfaces = [smooth_pair(chain, box, BINS) for chain in values]
    pooled = surfaces[0]._replace(density=np.mean([surface.density for surface in surfaces], axis=0))
    parts = [draw_regions(ax, pooled, dict(zip(SHARES, FILLS, strict=True))).assign(chain="all")]
    alpha = 0.3 if len(values) > 1 else 0.0
    for chain, colour, surface in zip(chains, colours, surfaces, strict=False):
        lines = draw_regions(ax, surface, {SHARE: colour}, filled=False, linewidths=0.6, alpha=alpha)
        parts.append(lines.assign(chain=str(chain)))
    square(ax, limits)
    return pd.concat(parts, ignore_index=True)


def _limits(products: np.ndarray) -> tuple[float, float]:
    """Limits of all axes: they hold all draws except the outermost, and 0."""
    low, high = np.quantile(products, (TAIL, 1 - TAIL))
    low, high = min(float(low), 0.0), max(float(high), 0.0)
    margin = 0.1 * (high - low) or 1.0
    return low - margin, high + margin


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
        f"{100 * outside:.2g}% of the draws outside" if outside else "",
        subset.remark,
    ]
    text = [line for line in lines if line]
    if products.shape[2] > 1:
        figure.text(0.98, 0.97, "\n".join(text), ha="right", va="top", fontsize=7)
    else:
        axes[0, 0].set_title("\n".join([", ".join(text[:2]), *text[2:]]), fontsize=7)


def _legend(pairs: bool, many: bool) -> dict[str, Artist]:
    """Regions and lines for all chains, and for each if there are several."""
    entries: dict[str, Artist] = {"all chains": Line2D([], [], color=style.BLACK, lw=1.4)}
    if pairs:
        for share, fill in zip(SHARES, FILLS, strict=True):
            entries[f"{share:.0%} of all draws"] = Patch(color=fill, lw=0)
    if many:
        text = f"one chain (below the diagonal: {SHARE:.0%} of its draws)" if pairs else "one chain"
        entries[text] = Line2D([], [], color=COLOURS[0], lw=0.6, alpha=0.5)
    return entries
