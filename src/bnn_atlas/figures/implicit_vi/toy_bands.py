"""The toy regression of Uppal et al. 2023 as in their Figure 1: a panel per method, without and with noise."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from bnn_atlas.config.data.synthetic import SinusoidsGenerator
from bnn_atlas.config.parts.evaluation import INTERVAL
from bnn_atlas.data.synthetic import sinusoids_at
from bnn_atlas.figures import page, style
from bnn_atlas.figures.functions import (
    Functions,
    draw_points,
    function_panels,
    line,
    names,
    read_functions,
    training_points,
)
from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.set_scores import read_sets
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.formulas.distances import mixture_quantile

KIND = {"sections": ["functions"], "files": ["table", "sets"], "generated": "sinusoids"}

X_LIMITS, Y_LIMITS = (-1.5, 1.5), (-5.0, 5.0)
"""Those of the paper's figure."""
LEVELS = (0.05, 0.95)
"""Quantiles that the bands reach from and to."""
FUNCTION, WITH_NOISE = "function", "function and noise"
OPACITY = {FUNCTION: 0.5, WITH_NOISE: 0.2}
SHARE = "share of the first run"


def toy_bands(shown: Sequence[Shown]) -> Drawing:
    """Bands from the 5 to the 95 % quantile along the input: of the functions of all draws, and of new targets.

    The band of targets has the quantiles of the mixture over draws of N(f(x), sigma^2). A run of one point has only
    that one. File: `functions` along a line, and function_sd on the intervals of each run. Numbers are those of
    `band_table` and `spread_table`. Raises ValueError for more panels than fit.
    """
    functions = read_functions(shown, fewest=1)
    parts = [band_table(one, run) for one, run in zip(functions, shown, strict=True)]
    data = pd.concat([*parts, spread_table(shown)], ignore_index=True)
    figure = _page(functions, shown)
    return Drawing(figure, data, names=names(shown))


def true_function(run: Shown, x: np.ndarray) -> np.ndarray:
    """What the targets of a run are, but for their noise, at inputs of its data set."""
    return sinusoids_at(SinusoidsGenerator.model_validate(run.generator), x)


def bands(functions: Functions) -> dict[str, np.ndarray]:
    """Name of a band -> its edges [2, n]; the band of functions needs more than one draw."""
    mean, scale = functions.mean, functions.scale
    found = {WITH_NOISE: np.stack([mixture_quantile(mean, scale, level) for level in LEVELS])}
    if len(functions.mean) > 1:
        found[FUNCTION] = np.quantile(functions.mean, LEVELS, axis=0)
    return found


def band_table(functions: Functions, run: Shown) -> pd.DataFrame:
    """Plotted numbers: label, method, draws, series, x, value, high.

    Series are `mean`, the bands (their lower edge in `value`), `truth` and `training row`.
    """
    x = line(functions)
    parts = [("mean", x, functions.mean.mean(axis=0), None), ("truth", x, true_function(run, x), None)]
    parts += [(name, x, low, high) for name, (low, high) in bands(functions).items()]
    parts.append(("training row", *training_points(functions), None))
    rows = [pd.DataFrame({"series": s, "x": at, "value": value, "high": high}) for s, at, value, high in parts]
    table = pd.concat(rows, ignore_index=True)
    table = table.assign(label=functions.name, method=run.method, draws=len(functions.mean))
    return table.reindex(columns=["label", "method", "draws", "series", "x", "value", "high"])


def spread_table(shown: Sequence[Shown]) -> pd.DataFrame:
    """Series `sd <interval>`, function_sd there, and `sd <interval>, share of the first run`: label, method, value."""
    found = read_sets(shown, ["function_sd"])
    first = found[found["label"] == shown[0].label].set_index("set")["value"]
    rows = []
    for label, method, name, value in found[["label", "method", "set", "value"]].itertuples(index=False):
        series = f"sd {name.removeprefix(INTERVAL)}"
        rows.append({"label": label, "method": method, "series": series, "value": value})
        if name in first.index:
            rows.append(
                {"label": label, "method": method, "series": f"{series}, {SHARE}", "value": value / first[name]}
            )
    return pd.DataFrame(rows)


def _page(functions: Sequence[Functions], shown: Sequence[Shown]) -> Figure:
    figure, axes = function_panels(functions, shown, _panel, height=1.55)
    axes[0, 0].set_xlim(*X_LIMITS)
    axes[0, 0].set_ylim(*Y_LIMITS)
    page.legend_below(figure, _legend())
    return figure


def _panel(ax: Axes, functions: Functions, run: Shown) -> None:
    x, colour = line(functions), style.METHODS[run.method].colour
    for name, edges in bands(functions).items():
        ax.fill_between(x, *edges, color=colour, alpha=OPACITY[name], lw=0)
    ax.plot(x, true_function(run, x), color=style.BLACK, lw=0.7, ls="--")
    ax.plot(x, functions.mean.mean(axis=0), color=colour, lw=1.1)
    draw_points(ax, functions)
    noise = math.sqrt(float(np.square(functions.scale).mean()))
    texts = [f"noise {noise:.2f}", functions.remark]
    ax.text(
        0.97, 0.03, "\n".join(text for text in texts if text), transform=ax.transAxes, fontsize=5.5,
        color=style.GREY, ha="right", bbox={"fc": "white", "ec": "none", "alpha": 0.8, "pad": 0.8},
    )  # fmt: skip


def _legend() -> dict[str, Artist]:
    return {
        "mean": Line2D([], [], color=style.GREY, lw=1.1),
        **{f"{name}, 5 to 95 %": Patch(color=style.GREY, alpha=alpha, lw=0) for name, alpha in OPACITY.items()},
        "true function": Line2D([], [], color=style.BLACK, lw=0.7, ls="--"),
        "training rows": Line2D([], [], color=style.BLACK, marker="o", ms=2.5, ls=""),
    }
