"""Predictive bands of methods on data of one input, a panel each."""

from collections.abc import Sequence

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
    function_panels,
    line,
    names,
    read_functions,
    target_limits,
    training_points,
)
from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.shown import Shown

KIND = {"sections": ["functions"], "files": ["table"]}

SHARES = {0.95: 0.22, 0.5: 0.45}
"""Share of the draws that a band holds -> how opaque it is."""
ROOM = 0.6
"""How far beyond the targets the axis reaches, as a share of their range."""


def synthetic_bands(shown: Sequence[Shown]) -> Drawing:
    """Mean of the functions of all draws along the only input, and bands that hold 50 and 95 % of them at each input.

    File: `functions` along a line of inputs. Noise of the observations is not in the bands; a method of one point per
    chain with a single chain has no band. All panels have the same axes. Raises ValueError for a classification, a
    data set of several inputs, and more panels than fit.
    """
    functions = read_functions(shown, fewest=1)
    data = pd.concat([_table(one, run) for one, run in zip(functions, shown, strict=True)], ignore_index=True)
    figure = _page(functions, shown)
    return Drawing(figure, data, names=names(shown))


def band(functions: Functions, share: float) -> np.ndarray:
    """Lower and upper edge [2, n] of the central band with a share of the draws at each input."""
    return np.quantile(functions.mean, [(1 - share) / 2, (1 + share) / 2], axis=0)


def _page(functions: Sequence[Functions], shown: Sequence[Shown]) -> Figure:
    figure, axes = function_panels(functions, shown, _panel, height=1.5)
    axes[0, 0].set_ylim(*target_limits(functions, [band(one, max(SHARES)) for one in functions], ROOM))
    page.legend_below(figure, _legend())
    return figure


def _panel(ax: Axes, functions: Functions, run: Shown) -> None:
    x, colour = line(functions), style.METHODS[run.method].colour
    if len(functions.mean) > 1:
        for share, opacity in SHARES.items():
            ax.fill_between(x, *band(functions, share), color=colour, alpha=opacity, lw=0)
    ax.plot(x, functions.mean.mean(axis=0), color=colour, lw=1.1)
    draw_points(ax, functions)
    ax.set_xlim(x[0], x[-1])
    draws = len(functions.mean)
    texts = [f"{draws:,} draw{'s' if draws > 1 else ''}", functions.remark]
    ax.text(
        0.03, 0.03, "\n".join(text for text in texts if text), transform=ax.transAxes, fontsize=5.5, color=style.GREY
    )


def _table(functions: Functions, run: Shown) -> pd.DataFrame:
    """Plotted numbers: label, method, draws, series, x, value, high.

    Series are `mean`, `50 %` and `95 %` (bands, their lower edge in `value`) and `training row`.
    """
    x = line(functions)
    points, targets = training_points(functions)
    parts = [pd.DataFrame({"series": "mean", "x": x, "value": functions.mean.mean(axis=0)})]
    for share in SHARES if len(functions.mean) > 1 else ():
        low, high = band(functions, share)
        parts.append(pd.DataFrame({"series": f"{share:.0%}".replace("%", " %"), "x": x, "value": low, "high": high}))
    parts.append(pd.DataFrame({"series": "training row", "x": points, "value": targets}))
    table = pd.concat(parts, ignore_index=True).assign(
        label=functions.name, method=run.method, draws=len(functions.mean)
    )
    return table.reindex(columns=["label", "method", "draws", "series", "x", "value", "high"])


def _legend() -> dict[str, Artist]:
    return {
        "mean": Line2D([], [], color=style.GREY, lw=1.1),
        **{f"{share:.0%} of the draws": Patch(color=style.GREY, alpha=alpha, lw=0) for share, alpha in SHARES.items()},
        "training rows": Line2D([], [], color=style.BLACK, marker="o", ms=2.5, ls=""),
    }
