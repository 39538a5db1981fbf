"""Marginal distributions of some weights as sampled, aligned, and in the controls."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from bnn_atlas.figures import page, style
from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.permutation_symmetry.frames import LOOKS, Aligned, alignments
from bnn_atlas.figures.shown import Shown
from bnn_atlas.symmetry.aligned_draws import load_aligned_draws
from bnn_atlas.traces.draws import evenly

KIND = {"files": ["aligned_draws"]}

MOST, WEIGHTS = 4, 4
"""Rows of panels, and panels in each."""
FEWEST_BINS, MOST_BINS = 8, 40
"""Bins of a panel; between these, twice the cube root of the number of draws."""
TAIL = 0.002
"""Share of the draws beyond each end of a panel, over all variants."""


def aligned_marginals(shown: Sequence[Shown]) -> Drawing:
    """Histograms of some weights, one per array where there are enough, a row per alignment and a line per variant.

    Numbers are those of `marginal_table`.
    """
    table = marginal_table(shown)
    return Drawing(_figure(table), table)


def marginal_table(shown: Sequence[Shown]) -> pd.DataFrame:
    """Density of each bin from `low` to `high`, of the draws of all chains together; raises as `frames.alignments`."""
    rows = [row for one in alignments(shown, "aligned_draws", MOST) for row in _densities(one)]
    return pd.DataFrame(rows)


def _densities(one: Aligned) -> list[dict[str, object]]:
    draws, rows = load_aligned_draws(one.file), []
    for column in _chosen(draws.names):
        values = {variant: draws.values[variant][draws.finite][:, column].astype(float) for variant in LOOKS}
        together = np.concatenate(list(values.values()))
        low, high = np.quantile(together, (TAIL, 1 - TAIL))
        bins = int(np.clip(2 * np.cbrt(draws.finite.sum()), FEWEST_BINS, MOST_BINS))
        edges = np.linspace(low, high if high > low else low + 1, bins + 1)
        for variant, each in values.items():
            density = np.histogram(each, edges)[0] / (len(each) * np.diff(edges))
            common = {"label": one.label, "weight": str(draws.names[column]), "variant": variant}
            cells = zip(edges[:-1], edges[1:], density, strict=True)
            rows += [{**common, "low": a, "high": b, "density": value} for a, b, value in cells]
    return rows


def _chosen(names: np.ndarray) -> list[int]:
    """Places of one weight from the middle of each array, or of several, evenly spread."""
    arrays: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        arrays.setdefault(str(name).split("[")[0], []).append(place)
    middles = [places[len(places) // 2] for places in arrays.values()]
    if len(middles) >= WEIGHTS:
        return [middles[i] for i in evenly(len(middles), WEIGHTS)]
    others = [int(i) for i in evenly(len(names), WEIGHTS) if int(i) not in middles]
    return sorted([*middles, *others[: WEIGHTS - len(middles)]])


def _figure(table: pd.DataFrame) -> Figure:
    labels = list(dict.fromkeys(table["label"]))
    figure = Figure(figsize=(style.TEXT_WIDTH, 1.45 * len(labels) + 0.55))
    axes = figure.subplots(len(labels), WEIGHTS, squeeze=False)
    for label, row in zip(labels, axes, strict=True):
        part = table[table["label"] == label]
        names = list(dict.fromkeys(part["weight"]))
        for ax in row[len(names) :]:
            ax.set_axis_off()
        for name, ax in zip(names, row, strict=False):
            _panel(ax, part[part["weight"] == name])
            ax.set_title(name, fontsize=6.5)
        row[0].set_ylabel(f"{label}\ndensity" if len(labels) > 1 else "density", fontsize=7)
    page.legend_below(figure, {text: Line2D([], [], **look) for text, look in LOOKS.values()})
    return figure


def _panel(ax: Axes, table: pd.DataFrame) -> None:
    for variant, (_, look) in LOOKS.items():
        part = table[table["variant"] == variant]
        edges = np.append(part["low"].to_numpy(), part["high"].to_numpy()[-1])
        ax.stairs(part["density"].to_numpy(), edges, **look)
    ax.set_ylim(bottom=0)
    ax.xaxis.set_major_locator(MaxNLocator(4))
    ax.yaxis.set_major_locator(MaxNLocator(3))
