"""Correlations of all weights of a network within chains, one by one and by layer.

Covariances are computed from a table of draws that need not fit in memory.
"""

import math
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import FixedLocator, FuncFormatter

from bnn_atlas.figures import style
from bnn_atlas.figures.axes import colour_bar
from bnn_atlas.figures.page import Drawing, check_fits, rounded
from bnn_atlas.figures.shown import Shown
from bnn_atlas.figures.subsets import layer_of, left_out_remark, parameter_label, states

LARGEST = 1500
"""Largest number p of parameters; a matrix has p^2 entries."""


class Covariances(NamedTuple):
    """Covariance matrices [p, p] of the parameters `names`.

    `pooled` is the covariance of all N draws of C chains together, scatter about the common mean / (N - 1); `within` is
    the mean of the chains' own covariances, weighted by their length: scatter about the chains' means / (N - C).
    """

    names: tuple[str, ...]
    pooled: np.ndarray
    within: np.ndarray
    chains: int
    draws: int
    """Number of draws of all chains."""
    left_out: int
    """Number of chains with a value that is not finite; they are left out."""


def covariances(path: str | Path) -> Covariances:
    """Both covariances of a subset table, in two passes over it.

    Raises ValueError for a table without draws or finite chains, with one draw per chain, or too many parameters.
    """
    bad, seen, names = _survey(path)
    kept = sorted(seen - bad)
    if not kept:
        why = "every chain holds values that are not finite" if seen else "there are no draws"
        raise ValueError(f"{path}: {why}; look at the run's diagnostics")
    if len(names) > LARGEST:
        raise ValueError(f"{path}: {len(names)} parameters; at most {LARGEST} fit in a covariance matrix, choose fewer")
    row = {chain: i for i, chain in enumerate(kept)}
    counts, sums = np.zeros(len(kept)), np.zeros((len(kept), len(names)))
    products = np.zeros((len(names), len(names)))
    origin: np.ndarray | None = None
    for part in states(path):
        good = np.isin(part.chain, kept)
        values = part.values[good].astype(np.float64)
        if not len(values):
            continue
        # Products relative to a point among the draws lose no digits to a mean far from 0.
        origin = values[0] if origin is None else origin
        centred = values - origin
        place = np.array([row[int(chain)] for chain in part.chain[good]], dtype=int)
        np.add.at(sums, place, centred)
        counts += np.bincount(place, minlength=len(kept))
        products += centred.T @ centred
    total = counts.sum()
    if total == len(kept):
        raise ValueError(f"{path}: one draw per chain has no covariance; a subset needs at least 2")
    mean = sums.sum(axis=0)
    pooled = (products - np.outer(mean, mean) / total) / (total - 1)
    within = (products - (sums / counts[:, None]).T @ sums) / (total - len(kept))
    return Covariances(names, pooled, within, len(kept), int(total), len(bad))


def correlations(covariance: np.ndarray) -> np.ndarray:
    """Correlation matrix of a covariance matrix; NaN in the rows and columns of parameters that do not vary."""
    deviation = np.sqrt(np.clip(np.diag(covariance), 0, None))
    # After rounding, a parameter that never moved still has about 1e-16 of its scale.
    deviation = np.where(deviation > 1e-7 * np.nanmax(deviation, initial=0.0), deviation, np.nan)
    return np.clip(covariance / np.outer(deviation, deviation), -1, 1)


def _survey(path: str | Path) -> tuple[set[int], set[int], tuple[str, ...]]:
    """Chains with a value that is not finite, all chains, and the parameters."""
    bad: set[int] = set()
    seen: set[int] = set()
    names: tuple[str, ...] = ()
    for part in states(path):
        names = part.names
        seen |= set(np.unique(part.chain).tolist())
        bad |= set(np.unique(part.chain[~np.isfinite(part.values).all(axis=1)]).tolist())
    return bad, seen, names


KIND = {"sections": ["subset"], "most": 12}

DIVERGING = "RdBu_r"
BLOCKS = "Blues"
ENOUGH = 100
"""Fewest chains with which correlations between chains are more than noise: with c chains, their rank is c - 1."""
LEAST = 3.3
"""Smallest side of a matrix in inches; it gets more if a parameter would have less than a pixel."""
QUANTILE = 0.995
"""Share of the absolute correlations that the colours span."""
MOST = 12
"""Largest number of runs, a row each."""
LEFT = 2.4
"""Inches: side of the block means."""


def weight_covariance(shown: Sequence[Shown]) -> Drawing:
    """Correlations of the parameters within chains: mean absolute values by layer, and the matrix, a row for each run.

    The matrix comes from the mean of the chains' own covariances, with at least one pixel for a parameter. Runs with at
    least `ENOUGH` chains also have block means of all draws together, below. The CSV has the values on and above the
    diagonal, and the block means.
    """
    check_fits(len(shown), MOST, "runs")
    matrices = [covariances(run.files["subset"]) for run in shown]
    sides = [max(LEAST, len(each.names) / style.DPI) for each in matrices]
    figure = Figure(figsize=(LEFT + max(sides) + 0.9, sum(sides) + 0.75 * len(sides)))
    parts = figure.subfigures(len(shown), 1, squeeze=False, height_ratios=[side + 0.75 for side in sides])
    tables = []
    for run, covariance, side, part in zip(shown, matrices, sides, parts[:, 0], strict=True):
        part.suptitle(_title(run, covariance), fontsize=7.5, x=0.03, ha="left")
        tables.append(_run(part, covariance, side).assign(run=run.run, split=run.split))
    data = pd.concat(tables, ignore_index=True)
    return Drawing(figure, data[["run", "split", *data.columns[:-2]]])


def _run(part: SubFigure, matrices: Covariances, side: float) -> pd.DataFrame:
    name = "within chains" if matrices.chains > 1 else "one chain"
    pairs = {name: matrices.within} | ({"all draws": matrices.pooled} if matrices.chains >= ENOUGH else {})
    left, right = part.subfigures(1, 2, squeeze=False, width_ratios=[LEFT, side + 0.9])[0]
    blocks = left.subplots(len(pairs), 1, squeeze=False)[:, 0]
    upper = np.triu_indices(len(matrices.names))
    labels = pd.Index([parameter_label(each) for each in matrices.names])
    table = pd.DataFrame({key: labels[upper[i]] for i, key in enumerate(("row", "column"))}).assign(kind="pair")
    layers: list[str] = []
    means: dict[str, np.ndarray] = {}
    for ax, (text, covariance) in zip(blocks, pairs.items(), strict=True):
        correlation = correlations(covariance)
        key = f"correlation_{text.replace(' ', '_')}"
        table[key] = rounded(correlation[upper], 4)
        layers, means[key] = block_means(np.abs(correlation), matrices.names)
        _blocks(ax, means[key], layers, f"mean |correlation|, {text}")
    _matrix(right.subplots(), correlations(matrices.within), matrices.names, f"correlation, {name}")
    corners = np.triu_indices(len(layers))
    found = {key: rounded(values[corners], 4) for key, values in means.items()}
    rows = pd.DataFrame({"row": np.array(layers)[corners[0]], "column": np.array(layers)[corners[1]], **found})
    return pd.concat([rows.assign(kind="mean of absolute values"), table], ignore_index=True)[
        ["kind", "row", "column", *found]
    ]


def block_means(sizes: np.ndarray, names: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """Layers in order, and the mean of `sizes` [p, p] over each pair of layers.

    The diagonal of `sizes` and NaN do not count; NaN if nothing is left.
    """
    of = np.array([f"layer {layer}" if (layer := layer_of(name)) else "other" for name in names])
    layers = list(dict.fromkeys(of.tolist()))
    counted = np.isfinite(sizes) & ~np.eye(len(names), dtype=bool)
    member = (of[:, None] == np.array(layers)).astype(float)
    total, count = (member.T @ values @ member for values in (np.where(counted, sizes, 0.0), counted.astype(float)))
    return layers, np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)


def _blocks(ax: Axes, means: np.ndarray, layers: Sequence[str], title: str) -> None:
    """Block means as coloured cells with their numbers."""
    top = float(np.nanmax(means)) if np.isfinite(means).any() else 1.0
    ax.imshow(means, cmap=BLOCKS, vmin=0, vmax=1.15 * top)
    for (row, column), value in np.ndenumerate(means):
        if np.isfinite(value):
            ink = "white" if value > 0.75 * top else style.BLACK
            ax.text(column, row, f"{value:.2f}".lstrip("0"), ha="center", va="center", fontsize=5.5, color=ink)
    numbers = [layer.removeprefix("layer ") for layer in layers]
    ax.set_xticks(range(len(layers)), numbers, fontsize=6)
    ax.set_yticks(range(len(layers)), numbers, fontsize=6)
    ax.tick_params(length=0)
    ax.set_xlabel("layer")
    ax.set_ylabel("layer")
    ax.set_title(title, fontsize=7)


def _matrix(ax: Axes, correlation: np.ndarray, names: Sequence[str], title: str) -> None:
    """The correlations in diverging colours, with the layers; entries that are not defined are grey."""
    colours = mpl.colormaps[DIVERGING].with_extremes(bad="#B0B0B0")
    off = np.abs(correlation[~np.eye(len(names), dtype=bool)])
    off = off[np.isfinite(off)]
    span = max(float(np.quantile(off, QUANTILE)), 0.05) if off.size else 1.0
    image = ax.imshow(correlation, cmap=colours, vmin=-span, vmax=span, interpolation="nearest")
    ends, labels = _layers(names)
    for end in ends[:-1]:
        ax.axhline(end - 0.5, color=style.GREY, lw=0.3)
        ax.axvline(end - 0.5, color=style.GREY, lw=0.3)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(FixedLocator(list(labels)))
        axis.set_ticklabels(list(labels.values()), fontsize=6)
        axis.set_tick_params(length=0)
    ax.spines[:].set_visible(True)
    ax.set_xlabel("layer")
    ax.set_title(title, fontsize=7)
    bar = colour_bar(image, ax, shrink=0.6, aspect=24, pad=0.02, extend="both")
    bar.ax.tick_params(labelsize=6, pad=1.5)
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}".replace("-", "\N{MINUS SIGN}")))


def _layers(names: Sequence[str]) -> tuple[list[int], dict[float, str]]:
    """Ends of the layers along the axes, and the middle of each layer -> its number, if there is room for it."""
    ends: list[int] = []
    labels: dict[float, str] = {}
    start, last = 0, -math.inf
    for layer, members in groupby(names, key=layer_of):
        end = start + len(list(members))
        middle = (start + end - 1) / 2
        if layer and middle - last >= 0.05 * len(names):
            labels[middle] = str(layer)
            last = middle
        ends.append(end)
        start = end
    return ends, labels


def _title(run: Shown, matrices: Covariances) -> str:
    chains = f"{matrices.chains} chain{'s' if matrices.chains > 1 else ''}"
    lines = [run.label, f"{len(matrices.names)} parameters, {style.thousands(matrices.draws)} draws of {chains}"]
    noise = math.sqrt(2 / (math.pi * max(matrices.draws - matrices.chains, 1)))
    lines[-1] += f"; a mean |correlation| of {noise:.2g} is what independent draws would give"
    return "\n".join([*lines, *filter(None, [left_out_remark(matrices.left_out, matrices.chains + matrices.left_out)])])
