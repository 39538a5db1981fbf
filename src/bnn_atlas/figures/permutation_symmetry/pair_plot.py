"""Means and standard deviations of every weight by different methods, in one frame, against each other."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bnn_atlas.figures import style
from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.permutation_symmetry.frames import alignments
from bnn_atlas.figures.shown import Shown
from bnn_atlas.symmetry.frame import Frame, load_frame

KIND = {"files": ["frames"]}

MOST = 4
"""Alignments in one figure."""
BINS = 60
TAIL = 0.0005
"""Share of the weights beyond each end of an axis; they are counted in the outermost bins."""


def pair_plot(shown: Sequence[Shown]) -> Drawing:
    """Counts of weights by their means (above the diagonal) and standard deviations (below), for each pair of methods.

    All alignments have to be in one frame: that of the first. Numbers are those of `pair_table`.
    """
    table = pair_table(shown)
    return Drawing(_figure(table), table)


def pair_table(shown: Sequence[Shown]) -> pd.DataFrame:
    """Rows of a `moment`: count of weights in each bin that has some, by `x_label` and `y_label`, and `correlation`.

    Raises ValueError as `frames.alignments` does, for a single alignment, and for networks that differ.
    """
    found = alignments(shown, "frames", MOST)
    if len(found) < 2:
        raise ValueError("one alignment in this figure; it compares two to 4: choose more by `runs` and `alignments`")
    moments = {one.label: _moments(load_frame(one.file)) for one in found}
    if len({len(each["mean"]) for each in moments.values()}) > 1:
        raise ValueError("the alignments of this figure are of networks of different sizes; show those of one network")
    rows, labels = [], list(moments)
    edges = {name: {label: _edges(moments[label][name]) for label in labels} for name in ("mean", "sd")}
    for i, y_label in enumerate(labels):
        for j, x_label in enumerate(labels):
            if i == j:
                continue
            name = "mean" if i < j else "sd"
            x, y = moments[x_label][name], moments[y_label][name]
            x_edges, y_edges = edges[name][x_label], edges[name][y_label]
            clipped = np.clip(x, x_edges[0], x_edges[-1]), np.clip(y, y_edges[0], y_edges[-1])
            counts = np.histogram2d(*clipped, bins=(x_edges, y_edges))[0]
            both = bool(x.std() > 0 and y.std() > 0)
            correlation = float(np.corrcoef(x, y)[0, 1]) if both else float("nan")
            for a, b in np.argwhere(counts > 0):
                rows.append(
                    {
                        "moment": name, "x_label": x_label, "y_label": y_label, "x_low": x_edges[a],
                        "x_high": x_edges[a + 1], "y_low": y_edges[b], "y_high": y_edges[b + 1],
                        "count": int(counts[a, b]), "correlation": correlation,
                    }
                )  # fmt: skip
    return pd.DataFrame(rows)


def _moments(frame: Frame) -> dict[str, np.ndarray]:
    """Mean and sd [P] of each weight: of the first fit of an approximation, else of the aligned draws."""
    if frame.fit_mean is not None and frame.fit_sd is not None:
        return {"mean": frame.fit_mean[0].astype(float), "sd": frame.fit_sd[0].astype(float)}
    return {"mean": frame.mean, "sd": frame.moment("aligned", "sd").astype(float)}


def _edges(values: np.ndarray) -> np.ndarray:
    low, high = np.quantile(values, (TAIL, 1 - TAIL))
    if high <= low:
        low, high = float(low) - 0.5, float(low) + 0.5
    return np.linspace(low, high, BINS + 1)


def _figure(table: pd.DataFrame) -> Figure:
    labels = list(dict.fromkeys([*table["y_label"], *table["x_label"]]))
    size = len(labels)
    figure = Figure(figsize=(style.TEXT_WIDTH, style.TEXT_WIDTH * 0.86))
    axes = figure.subplots(size, size, squeeze=False)
    largest = int(table["count"].max())
    mesh = None
    for i, y_label in enumerate(labels):
        for j, x_label in enumerate(labels):
            ax = axes[i][j]
            if i == j:
                ax.set_axis_off()
                ax.text(0.5, 0.5, x_label, ha="center", va="center", fontsize=8, transform=ax.transAxes, wrap=True)
                continue
            part = table[(table["x_label"] == x_label) & (table["y_label"] == y_label)]
            mesh = _panel(ax, part, largest)
            what = "mean" if i < j else "sd"
            ax.set_xlabel(f"{what}, {x_label}", fontsize=6.5)
            ax.set_ylabel(f"{what}, {y_label}", fontsize=6.5)
    assert mesh is not None
    figure.colorbar(mesh, ax=axes, label="weights in a bin", shrink=0.6, aspect=30)
    return figure


def _panel(ax: Axes, table: pd.DataFrame, largest: int) -> QuadMesh:
    """Counts of one pair; the diagonal is where the two agree."""
    x_edges = np.unique(np.append(table["x_low"], table["x_high"]))
    y_edges = np.unique(np.append(table["y_low"], table["y_high"]))
    counts = np.full((len(y_edges) - 1, len(x_edges) - 1), np.nan)
    across = np.searchsorted(x_edges, table["x_low"].to_numpy())
    up = np.searchsorted(y_edges, table["y_low"].to_numpy())
    counts[up, across] = table["count"].to_numpy()
    mesh = ax.pcolormesh(x_edges, y_edges, counts, norm=LogNorm(1, max(2, largest)), rasterized=True)
    low, high = max(x_edges[0], y_edges[0]), min(x_edges[-1], y_edges[-1])
    if low < high:
        ax.plot([low, high], [low, high], color=style.GREY, lw=0.7, ls="--")
    correlation = table["correlation"].iloc[0]
    if np.isfinite(correlation):
        ax.set_title(f"r = {correlation:.2f}".replace("-", "\N{MINUS SIGN}"), fontsize=6.5)
    ax.xaxis.set_major_locator(MaxNLocator(3))
    ax.yaxis.set_major_locator(MaxNLocator(3))
    ax.tick_params(labelsize=6)
    return mesh
