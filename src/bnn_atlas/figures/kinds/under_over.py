"""Posterior functions of networks with too few and with many more parameters than a data set of one input needs."""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from bnn_atlas.figures import page, style
from bnn_atlas.figures.functions import (
    Functions,
    draw_points,
    line,
    names,
    read_functions,
    target_limits,
    training_points,
)
from bnn_atlas.figures.page import Drawing, check_fits
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.formulas.distances import mixture_quantile

KIND = {"sections": ["functions"]}

MOST_NETWORKS = 6
MOST_DRAWS = 1000
"""Largest number of draws of each chain."""
SAMPLED = 5
"""Functions drawn one by one, evenly chosen among the draws."""
LEVELS = (0.05, 0.95)
FUNCTION, NOISE, SINGLE = style.BLUE, style.SKY, style.GREY


class Bands(NamedTuple):
    """What a panel shows at each input [n]."""

    x: np.ndarray
    mean: np.ndarray
    """Predictive mean."""
    function: np.ndarray
    """[2, n] 5 and 95 percent of the mean functions."""
    total: np.ndarray
    """[2, n] 5 and 95 percent of the predictive distribution, noise included."""
    sampled: np.ndarray
    """[k, n]."""

    @classmethod
    def of(cls, functions: Functions) -> Self:
        """From up to MOST_DRAWS draws of each chain."""
        functions = functions.at_most(MOST_DRAWS)
        chosen = np.unique(np.linspace(0, len(functions.mean) - 1, SAMPLED).round().astype(np.int64))
        return cls(
            line(functions), functions.mean.mean(axis=0), np.quantile(functions.mean, LEVELS, axis=0),
            np.stack([mixture_quantile(functions.mean, functions.scale, level) for level in LEVELS]),
            functions.mean[chosen],
        )  # fmt: skip


def under_over(shown: Sequence[Shown]) -> Drawing:
    """A panel per network: predictive mean, 90 % bands of the function and with noise, some functions, training points.

    File: `functions` along a line of inputs (function draws). All panels have the same axes. Raises ValueError for
    more than six networks, a classification and a data set with several inputs.
    """
    check_fits(len(shown), MOST_NETWORKS, "networks")
    functions = read_functions(shown)
    bands = [Bands.of(one) for one in functions]
    data = pd.concat([_table(one, band) for one, band in zip(functions, bands, strict=True)], ignore_index=True)
    figure = _page(functions, bands)
    return Drawing(figure, data, names=names(shown))


def _page(functions: Sequence[Functions], bands: Sequence[Bands]) -> Figure:
    figure, axes = page.panels(len(functions), 3, 2.05, more=0.45, sharex=True, sharey=True)
    columns = axes.shape[1]
    limits = target_limits(functions, [band.total for band in bands], 0.6)
    for i, (ax, one, band) in enumerate(zip(axes.flat, functions, bands, strict=False)):
        _panel(ax, one, band)
        ax.set_ylim(*limits)
        if i % columns == 0:
            ax.set_ylabel("target, standardised")
        if i + columns >= len(functions):
            ax.set_xlabel("input, standardised")
            ax.tick_params(labelbottom=True)
    entries: dict[str, Artist] = {
        "mean": Line2D([], [], color=FUNCTION, lw=1.6),
        "90 % of functions": Patch(color=FUNCTION, alpha=0.35, lw=0),
        "90 % with noise": Patch(color=NOISE, alpha=0.3, lw=0),
        "single draws": Line2D([], [], color=SINGLE, lw=0.6),
        "training rows": Line2D([], [], color="black", marker="o", ms=2.5, ls=""),
    }
    page.legend_below(figure, entries)
    return figure


def _panel(ax: Axes, functions: Functions, band: Bands) -> None:
    ax.fill_between(band.x, *band.total, color=NOISE, alpha=0.3, lw=0)
    ax.fill_between(band.x, *band.function, color=FUNCTION, alpha=0.35, lw=0)
    for single in band.sampled:
        ax.plot(band.x, single, color=SINGLE, lw=0.5, alpha=0.9)
    ax.plot(band.x, band.mean, color=FUNCTION, lw=1.6)
    draw_points(ax, functions)
    ax.set_xlim(band.x[0], band.x[-1])
    ax.set_title(functions.name)
    if functions.remark:
        ax.text(0.02, 0.02, functions.remark, transform=ax.transAxes, fontsize=6, color=style.GREY)


def _table(functions: Functions, band: Bands) -> pd.DataFrame:
    """Plotted numbers: label, series, number, x, value, high.

    Series are `mean`, `functions` and `with noise` (bands, their lower edge in `value`), `draw` (counted by `number`)
    and `training row`.
    """
    points, targets = training_points(functions)
    parts = [
        pd.DataFrame({"series": "mean", "x": band.x, "value": band.mean}),
        pd.DataFrame({"series": "functions", "x": band.x, "value": band.function[0], "high": band.function[1]}),
        pd.DataFrame({"series": "with noise", "x": band.x, "value": band.total[0], "high": band.total[1]}),
        *(
            pd.DataFrame({"series": "draw", "number": i, "x": band.x, "value": single})
            for i, single in enumerate(band.sampled)
        ),
        pd.DataFrame({"series": "training row", "x": points, "value": targets}),
    ]
    table = pd.concat(parts, ignore_index=True).assign(label=functions.name).astype({"number": "Int64"})
    return table[["label", "series", "number", "x", "value", "high"]]
