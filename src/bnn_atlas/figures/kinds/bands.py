"""Functions of one input by method or network: means and bands with the training rows, a panel each."""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from bnn_atlas.config.data.synthetic import SinusoidsGenerator
from bnn_atlas.config.parts.evaluation import INTERVAL
from bnn_atlas.data.synthetic_rows import sinusoids_at
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
from bnn_atlas.figures.page import Drawing, lost, rounded
from bnn_atlas.figures.set_scores import read_sets
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.formulas.function_distances import mixture_quantile

KINDS = {
    "synthetic_bands": {
        "sections": ["functions"], "files": ["table"], "task": "regression", "needs": ["one input"], "inputs": "line",
        "diverged": "panel", "most": 15, "columns": "label method draws series x value high",
    },
    "toy_bands": {
        "sections": ["functions"], "files": ["table", "sets"], "generated": "sinusoids", "inputs": "line", "most": 15,
        "diverged": "panel",
        "columns": "label method draws series x value high",
    },
    "under_over": {
        "sections": ["functions"], "files": ["table"], "task": "regression", "needs": ["one input"], "inputs": "line",
        "diverged": "panel", "most": 6,
        "columns": "label series number x value high",
    },
}  # fmt: skip

ROOM = 0.6
"""How far beyond the targets the axis reaches, as a share of their range."""
LEVELS = (0.05, 0.95)
"""Lower and upper quantile of the bands."""

Looks = Mapping[str, dict[str, Any]]
"""Series -> its look; a series with a line width is a line, any other a band."""


class Curve(NamedTuple):
    """A line along the input, or a band."""

    series: str
    value: np.ndarray
    """The line, or the lower edge."""
    high: np.ndarray | None = None
    number: int | None = None
    """Which of several lines of a series it is."""


SHARES = {0.95: 0.22, 0.5: 0.45}
"""Share of the draws that a band holds -> its opacity."""


def synthetic_bands(shown: Sequence[Shown]) -> Drawing:
    """Mean of the functions of all draws along the only input, and bands that hold 50 and 95 % of them at each input.

    File: `functions` along a line of inputs. The bands do not include observation noise; a method with one point per
    chain has no band if it has a single chain. All panels have the same axes. A run that diverged has a panel that says
    so, and no numbers. Columns: label, method, draws,
    series (`mean`, `50 %`, `95 %`, `training row`), x, value (for a band, its lower edge), high. Raises ValueError for
    a classification.
    """
    every, shown, missing = shown, *_apart(shown)
    functions = read_functions(shown, fewest=1)
    bands = [{share: band(one, share) for share in SHARES if len(one.mean) > 1} for one in functions]
    curves = [
        [_mean(one), *(Curve(f"{100 * share:.0f} %", *edges) for share, edges in of.items())]
        for one, of in zip(functions, bands, strict=True)
    ]

    def looks(colour: str) -> Looks:
        shares = {f"{100 * share:.0f} %": {"color": colour, "alpha": alpha} for share, alpha in SHARES.items()}
        return {"mean": {"color": colour, "lw": 1.1}, **shares}

    figure, axes = _panels(
        functions, curves, [looks(style.METHODS[one.drawn_as].colour) for one in shown], 1.5, missing=missing
    )
    for ax, one in zip(axes, functions, strict=True):
        draws = f"{len(one.mean):,} draw{'s' if len(one.mean) > 1 else ''}"
        ax.text(0.03, 0.03, _lines(draws, one.remark), transform=ax.transAxes, fontsize=5.5, color=style.GREY)
    axes[0].set_ylim(
        *target_limits(
            functions, [of[max(of)] if of else one.mean for one, of in zip(functions, bands, strict=True)], ROOM
        )
    )
    texts = {series: f"{series} of the draws".replace(" %", "%") for series in looks("") if series != "mean"}
    _legend(figure, looks(style.GREY), texts)
    return Drawing(figure, _table(functions, curves, shown), names=names(every))


def band(functions: Functions, share: float) -> np.ndarray:
    """Lower and upper edge [2, n] of the central band with a share of the draws at each input."""
    return np.quantile(functions.mean, [(1 - share) / 2, (1 + share) / 2], axis=0)


X_LIMITS, Y_LIMITS = (-1.5, 1.5), (-5.0, 5.0)
"""Limits of Figure 1 of Uppal et al. 2023."""
FUNCTION, WITH_NOISE = "function", "function and noise"
SHARE = "share of the first run"
"""Of the first run on the same data set."""


def toy_bands(shown: Sequence[Shown]) -> Drawing:
    """Bands from the 5 % to the 95 % quantile along the input: for the functions of all draws, and for new targets.

    The toy regression of Uppal et al. 2023 as in their Figure 1. The band for targets comes from the quantiles of the
    mixture of N(f(x), sigma^2) over draws. A run with a single point has only that band. Runs on several data sets
    have a column for each. File: `functions` along a line, and function_sd on the intervals of each run. The numbers
    are as in `synthetic_bands`, with the series `truth`, and from `spread_table`.
    """
    every, shown, missing = shown, *_apart(shown)
    functions = read_functions(shown, fewest=1)
    curves = []
    for one, run in zip(functions, shown, strict=True):
        truth = Curve("truth", true_function(run, line(one)))
        of_functions = [Curve(FUNCTION, *np.quantile(one.mean, LEVELS, axis=0))] if len(one.mean) > 1 else []
        curves.append([_mean(one), truth, Curve(WITH_NOISE, *noisy(one)), *of_functions])

    def looks(colour: str) -> Looks:
        return {
            "mean": {"color": colour, "lw": 1.1},
            FUNCTION: {"color": colour, "alpha": 0.35},
            WITH_NOISE: {"color": colour, "alpha": 0.15},
            "truth": {"color": style.BLACK, "lw": 0.7, "ls": "--"},
        }

    seeds = len({one.dataset for one in every})
    figure, axes = _panels(
        functions, curves, [looks(style.METHODS[one.drawn_as].colour) for one in shown], 1.55 if seeds == 1 else 1.25,
        columns=4 if seeds == 1 else seeds, missing=missing,
    )  # fmt: skip
    for ax, one in zip(axes, functions, strict=True):
        noise = f"noise {math.sqrt(float(np.square(one.scale).mean())):.2f}"
        ax.text(
            0.97, 0.03, _lines(noise, one.remark), transform=ax.transAxes, fontsize=5.5, color=style.GREY, ha="right",
            bbox={"fc": "white", "ec": "none", "alpha": 0.8, "pad": 0.8},
        )  # fmt: skip
    axes[0].set_xlim(*X_LIMITS)
    axes[0].set_ylim(*Y_LIMITS)
    texts = {name: f"{name}, 5% to 95%" for name in (FUNCTION, WITH_NOISE)}
    _legend(figure, looks(style.GREY), {**texts, "truth": "true function"})
    data = pd.concat([_table(functions, curves, shown), spread_table(shown)], ignore_index=True)
    for column in ("x", "value", "high"):
        data[column] = rounded(data[column].to_numpy(float))
    return Drawing(figure, data, names=names(every))


def true_function(run: Shown, x: np.ndarray) -> np.ndarray:
    """The targets of a run without noise, at inputs of its data set."""
    return sinusoids_at(SinusoidsGenerator.model_validate(run.generator), x)


def noisy(functions: Functions) -> np.ndarray:
    """Quantiles [2, n] of new targets, from the mixture over draws."""
    return np.stack([mixture_quantile(functions.mean, functions.scale, level) for level in LEVELS])


def spread_table(shown: Sequence[Shown]) -> pd.DataFrame:
    """Series `sd <interval>` (function_sd on it) and `sd <interval>, share of the first run`: label, method, value."""
    found = read_sets(shown, ["function_sd"])
    rows = []
    for _, part in found.groupby("dataset", sort=False):
        first = part[part["label"] == part["label"].iloc[0]].set_index("set")["value"]
        for label, method, name, value in part[["label", "method", "set", "value"]].itertuples(index=False):
            series = {"label": label, "method": method, "series": f"sd {name.removeprefix(INTERVAL)}"}
            rows.append({**series, "value": value})
            if name in first.index:
                rows.append({**series, "series": f"{series['series']}, {SHARE}", "value": value / first[name]})
    return pd.DataFrame(rows)


MOST_DRAWS = 1000
"""Largest number of draws used per chain."""
SAMPLED = 5
"""Functions drawn one by one, evenly chosen among the draws."""
NETWORK: Looks = {
    "mean": {"color": style.BLUE, "lw": 1.6},
    "functions": {"color": style.BLUE, "alpha": 0.35},
    "with noise": {"color": style.SKY, "alpha": 0.3},
    "draw": {"color": style.GREY, "lw": 0.5, "alpha": 0.9},
}


def under_over(shown: Sequence[Shown]) -> Drawing:
    """A panel per network: predictive mean, 90 % bands of the function and with noise, some functions, training points.

    For networks with too few parameters, and networks with many more than the data need. File: `functions` along a line
    of inputs (function draws). All panels have the same axes. Columns: label, series (`mean`, `functions`,
    `with noise`, `draw`, counted by `number`, and `training row`), number, x, value (for a band, its lower edge), high.
    Raises ValueError for a classification.
    """
    asked, shown, missing = shown, *_apart(shown)
    every = read_functions(shown)
    figure, curves = draw_networks(every, missing=missing)
    columns = ["label", "series", "number", "x", "value", "high"]
    return Drawing(figure, _table(every, curves, shown)[columns].astype({"number": "Int64"}), names=names(asked))


def _apart(shown: Sequence[Shown]) -> tuple[list[Shown], dict[int, tuple[str, str]]]:
    """The runs that did not diverge, and the place of each other panel -> its name, and why it is not shown.

    Raises ValueError if nothing is left.
    """
    reasons = [lost(one) for one in shown]
    missing = {place: (name, why) for place, (name, why) in enumerate(zip(names(shown), reasons, strict=True)) if why}
    if len(missing) == len(shown):
        whole = "; ".join(f"{name} ({why})" for name, why in missing.values())
        raise ValueError(f"no run is left to draw, all diverged: {whole}; give them smaller steps or a better start")
    return [one for one, why in zip(shown, reasons, strict=True) if not why], missing


def draw_networks(
    every: Sequence[Functions], unit: str = ", standardised", *, with_noise: bool = True,
    missing: Mapping[int, tuple[str, str]] = MappingProxyType({}),
) -> tuple[Figure, list[list[Curve]]]:  # fmt: skip
    """The panels of `under_over`, and what they draw; without noise, only the functions."""
    thinned = [functions.at_most(MOST_DRAWS) for functions in every]
    looks = NETWORK if with_noise else {series: look for series, look in NETWORK.items() if series != "with noise"}
    limits, curves = [], []
    for one in thinned:
        chosen = np.unique(np.linspace(0, len(one.mean) - 1, SAMPLED).round().astype(np.int64))
        edges = np.quantile(one.mean, LEVELS, axis=0)
        bands = [Curve("functions", *edges)]
        if with_noise:
            edges = noisy(one)
            bands.append(Curve("with noise", *edges))
        draws = [Curve("draw", single, number=i) for i, single in enumerate(one.mean[chosen])]
        curves.append([_mean(one), *bands, *draws])
        limits.append(edges)
    figure, axes = _panels(every, curves, [looks] * len(every), 2.05, columns=3, unit=unit, missing=missing)
    for ax, one in zip(axes, every, strict=True):
        ax.text(0.02, 0.02, one.remark, transform=ax.transAxes, fontsize=6, color=style.GREY)
    axes[0].set_ylim(*target_limits(every, limits, ROOM))
    _legend(figure, looks, {"functions": "90% of functions", "with noise": "90% with noise", "draw": "single draws"})
    return figure, curves


def _mean(functions: Functions) -> Curve:
    return Curve("mean", functions.mean.mean(axis=0))


def _lines(*texts: str) -> str:
    return "\n".join(filter(None, texts))


def _panels(
    functions: Sequence[Functions], curves: Sequence[Sequence[Curve]], looks: Sequence[Looks], height: float,
    columns: int = 4, unit: str = "", missing: Mapping[int, tuple[str, str]] = MappingProxyType({}),
) -> tuple[Figure, list[Axes]]:  # fmt: skip
    """A panel for each run, with common axes: its curves, the first one on top, and the training rows.

    Panels in `missing`, by place, only say that their run diverged; the axes of all others are returned.
    """
    total = len(functions) + len(missing)
    figure, grid = page.panels(
        total, columns, height, wide_from=columns - 1, more=0.7, even=True, sharex=True, sharey=True
    )
    axes = [ax for place, ax in enumerate(grid.flat[:total]) if place not in missing]
    for ax, one, of, look in zip(axes, functions, curves, looks, strict=True):
        x = line(one)
        for curve in reversed(of):
            if curve.high is None:
                ax.plot(x, curve.value, **look[curve.series])
            else:
                ax.fill_between(x, curve.value, curve.high, lw=0, **look[curve.series])
        draw_points(ax, one)
        ax.set_xlim(x[0], x[-1])
        ax.set_title(one.name, fontsize=7)
    for place, ax in enumerate(grid.flat[:total]):
        if place in missing:
            page.not_shown(ax, *missing[place])
        if place % grid.shape[1] == 0:
            ax.set_ylabel(f"target{unit}")
        if place + grid.shape[1] >= total:
            ax.set_xlabel(f"input{unit}")
            ax.tick_params(labelbottom=True)
    return figure, axes


def _legend(figure: Figure, looks: Looks, texts: Mapping[str, str]) -> None:
    entries: dict[str, Artist] = {
        texts.get(series, series): Line2D([], [], **look) if "lw" in look else Patch(lw=0, **look)
        for series, look in looks.items()
    }
    training = Line2D([], [], color=style.BLACK, marker="o", ms=2.5, ls="")
    page.legend_below(figure, {**entries, "training rows": training})


def _table(functions: Sequence[Functions], curves: Sequence[Sequence[Curve]], shown: Sequence[Shown]) -> pd.DataFrame:
    """Plotted numbers: label, method, draws, series, x, value, high, and `number` if lines are counted."""
    parts = []
    for one, of, run in zip(functions, curves, shown, strict=True):
        points, targets = training_points(one)
        rows = [(*curve, line(one)) for curve in of] + [("training row", targets, None, None, points)]
        common = {"label": one.name, "method": run.method, "draws": len(one.mean)}
        for series, value, high, number, x in rows:
            counted = {} if number is None else {"number": number}
            parts.append(pd.DataFrame({**common, "series": series, "x": x, "value": value, "high": high, **counted}))
    columns = ["label", "method", "draws", "series", "x", "value", "high"]
    table = pd.concat([part.astype({"high": float}) for part in parts], ignore_index=True)
    return table[[*columns, *(["number"] if "number" in table else [])]]
