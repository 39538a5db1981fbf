"""Covariance and correlation of all weights of a network."""

import math
import re
from collections.abc import Sequence
from itertools import groupby

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, MaxNLocator

from bnn_atlas.figures import style
from bnn_atlas.figures.covariances import Covariances, correlations, covariances
from bnn_atlas.figures.labels import parameter_label
from bnn_atlas.figures.shown import Shown
from bnn_atlas.figures.style import FigureOutputs
from bnn_atlas.figures.subsets import left_out_remark
from bnn_atlas.provenance import Provenance

DIVERGING = "RdBu_r"
BLOCK = 16
"""Neighbouring parameters that the inset enlarges."""
PER_LINE = 2
"""Runs beside each other."""
QUANTILE = 0.999
"""Share of the absolute covariances that the colours span."""


def weight_covariance(shown: Sequence[Shown], outputs: FigureOutputs, provenance: Provenance) -> None:
    """Heat maps of the covariance and correlation of the parameters, pooled over chains and, below, within chains.

    Colours are centred at 0. Layers are marked on the axes. The inset lies over the lower triangle, which repeats the
    upper one, and enlarges the framed block: the neighbouring parameters with the largest correlations within chains.
    A run of one chain has one row. Matrices are those of `bnn_atlas.figures.covariances`.
    """
    if not shown:
        raise ValueError("there are no runs to draw; list at least one in the figure's runs")
    found = [covariances(run.files["draws"]) for run in shown]
    with style.context():
        columns = min(len(shown), PER_LINE)
        lines = math.ceil(len(shown) / columns)
        rows = 1 if all(each.chains == 1 for each in found) else 2
        width = style.TEXT_WIDTH if columns > 1 else 4.6
        panel = width / (2 * columns)
        figure = Figure(figsize=(width, lines * (rows * (panel + 0.22) + 0.5)))
        parts = figure.subfigures(lines, columns, squeeze=False)
        tables = []
        for k, (run, covariance) in enumerate(zip(shown, found, strict=True)):
            part = parts[k // columns, k % columns]
            part.suptitle(_title(run, covariance), fontsize=7.5, x=0.03, ha="left")
            axes = part.subplots(rows, 2, squeeze=False)
            tables.append(_run(axes, covariance).assign(run=run.run, split=run.split))
        data = pd.concat(tables, ignore_index=True)
        style.save(figure, data[["run", "split", *data.columns[:-2]]], outputs, provenance)


def _run(axes: np.ndarray, found: Covariances) -> pd.DataFrame:
    """Draw the matrices of one run; the values on and above their diagonals."""
    pairs = {"pooled": found.pooled, "within chains": found.within}
    if found.chains == 1:
        pairs = {"one chain": found.within}
    place = _block(correlations(found.within if found.chains > 1 else found.pooled))
    for ax in axes[len(pairs) :].flat:
        ax.set_visible(False)
    upper = np.triu_indices(len(found.names))
    labels = pd.Index([parameter_label(name) for name in found.names])
    table = pd.DataFrame(
        {name: pd.Categorical.from_codes(upper[i], labels) for i, name in enumerate(("row", "column"))}
    )
    for row, (name, covariance) in enumerate(pairs.items()):
        correlation = correlations(covariance)
        _panel(axes[row, 0], covariance, _span(covariance), place, found.names, extend="both")
        _panel(axes[row, 1], correlation, 1.0, place, found.names, extend="neither")
        axes[row, 0].set_title(f"covariance, {name}", fontsize=7)
        axes[row, 1].set_title(f"correlation, {name}", fontsize=7)
        axes[row, 0].set_ylabel("layer")
        for ax in axes[row]:
            ax.tick_params(labelleft=ax is axes[row, 0], labelbottom=row == len(pairs) - 1)
        for ax in axes[len(pairs) - 1]:
            ax.set_xlabel("layer")
        key = name.replace(" ", "_")
        table[f"covariance_{key}"] = _rounded(covariance[upper])
        table[f"correlation_{key}"] = _rounded(correlation[upper])
    return table


def _panel(ax: Axes, matrix: np.ndarray, span: float, place: slice | None, names: Sequence[str], extend: str) -> None:
    """One heat map with its colour bar, layers and inset."""
    image = _heat(ax, matrix, span)
    ends, labels = _layers(names)
    for end in ends[:-1]:
        ax.axhline(end - 0.5, color=style.GREY, lw=0.3)
        ax.axvline(end - 0.5, color=style.GREY, lw=0.3)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(FixedLocator(list(labels)))
        axis.set_ticklabels(list(labels.values()), fontsize=6)
        axis.set_tick_params(length=0)
    ax.spines[:].set_visible(True)
    figure = ax.get_figure()
    assert figure is not None
    bar = figure.colorbar(image, ax=ax, orientation="horizontal", shrink=0.85, aspect=24, pad=0.02, extend=extend)
    bar.outline.set_visible(False)
    bar.locator = MaxNLocator(2, steps=[1, 2, 5, 10], symmetric=True)
    bar.update_ticks()
    bar.ax.tick_params(labelsize=6, pad=1.5)
    if place is not None:
        ax.add_patch(
            Rectangle((place.start - 0.5, place.start - 0.5), BLOCK, BLOCK, fill=False, ec=style.BLACK, lw=0.5)
        )
        inset = ax.inset_axes((0, 0, 0.4, 0.4))
        _heat(inset, matrix[place, place], span)
        inset.set_xticks([])
        inset.set_yticks([])
        inset.spines[:].set_visible(True)


def _heat(ax: Axes, matrix: np.ndarray, span: float) -> AxesImage:
    """A matrix in diverging colours; entries that are not defined are grey."""
    colours = mpl.colormaps[DIVERGING].with_extremes(bad="#B0B0B0")
    return ax.imshow(matrix, cmap=colours, vmin=-span, vmax=span, interpolation="antialiased")


def _span(covariance: np.ndarray) -> float:
    """Value of the darkest colour."""
    return float(np.quantile(np.abs(covariance), QUANTILE)) or 1.0


def _layers(names: Sequence[str]) -> tuple[list[int], dict[float, str]]:
    """Ends of the layers along the axes, and the middle of each with its number, where there is room for one."""
    ends: list[int] = []
    labels: dict[float, str] = {}
    start, last = 0, -math.inf
    for layer, members in groupby(names, key=_layer):
        end = start + len(list(members))
        middle = (start + end - 1) / 2
        if layer and middle - last >= 0.05 * len(names):
            labels[middle] = layer
            last = middle
        ends.append(end)
        start = end
    return ends, labels


def _layer(name: str) -> str:
    """Number of a parameter's layer, counted from 1; empty outside the layers."""
    match = re.match(r"layer(\d+)\.", name)
    return str(int(match[1]) + 1) if match else ""


def _block(correlation: np.ndarray) -> slice | None:
    """The `BLOCK` neighbouring parameters with the largest mean absolute correlation; None for a small matrix."""
    size = len(correlation)
    if size < 3 * BLOCK:
        return None
    absolute = np.nan_to_num(np.abs(correlation))
    np.fill_diagonal(absolute, 0)
    sums = np.pad(absolute.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
    starts = np.arange(size - BLOCK + 1)
    ends = starts + BLOCK
    held = sums[ends, ends] - sums[starts, ends] - sums[ends, starts] + sums[starts, starts]
    best = int(np.argmax(held))
    return slice(best, best + BLOCK)


def _title(run: Shown, found: Covariances) -> str:
    chains = f"{found.chains} chain{'s' if found.chains > 1 else ''}"
    lines = [run.label, f"{len(found.names)} parameters, {style.thousands(found.draws)} draws of {chains}"]
    return "\n".join([*lines, *filter(None, [left_out_remark(found.left_out, found.chains + found.left_out)])])


def _rounded(values: np.ndarray) -> np.ndarray:
    """Four significant digits, more than colours show; the file stays small."""
    with np.errstate(divide="ignore", invalid="ignore"):
        digits = np.where(values == 0, 0, 3 - np.floor(np.log10(np.abs(values))))
    scale = 10.0 ** np.nan_to_num(digits)
    return np.round(values * scale) / scale
