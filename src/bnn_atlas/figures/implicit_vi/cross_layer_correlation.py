"""Correlations of weights of different layers, by method."""

import math
import re
from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bnn_atlas.figures import style
from bnn_atlas.figures.covariances import correlations, covariances
from bnn_atlas.figures.shown import Shown
from bnn_atlas.figures.style import FigureOutputs
from bnn_atlas.provenance import Provenance

KIND = {"sections": ["subset"]}

MARKERS = ("o", "s", "^", "v", "D", "P", "X", "*")


def cross_layer_correlation(shown: Sequence[Shown], outputs: FigureOutputs, provenance: Provenance) -> None:
    """Root mean square correlation within chains of the weights of every two layers, a marker per run and split.

    With n draws of C chains, independent draws have the root mean square 1 / sqrt(n - C), a line for each run; what is
    above it is correlation, sqrt(r^2 - 1 / (n - C)) in the CSV as `excess`, 0 where it is below. Input `subset`: the
    draws, of the same parameters for all runs.
    """
    if not shown:
        raise ValueError("there are no runs to draw; list at least one in the figure's runs")
    data = pd.concat([_rows(one) for one in shown], ignore_index=True)
    pairs = list(dict.fromkeys(data["layers"]))
    lines = style.lines([one.method for one in shown])
    if len(shown) > len(MARKERS):
        raise ValueError(f"{len(shown)} runs and splits, at most {len(MARKERS)} can be told apart; show fewer")
    with style.context():
        figure = Figure(figsize=(style.COLUMN_WIDTH, 2.3))
        ax = figure.subplots()
        entries = {}
        for number, (one, line) in enumerate(zip(shown, lines, strict=True)):
            own = data[(data["run"] == one.run) & (data["split"] == one.split)]
            x = np.array([pairs.index(pair) for pair in own["layers"]]) + 0.6 * ((number + 0.5) / len(shown) - 0.5)
            width = 0.25 / len(shown)
            ax.hlines(own["independent"], x - width, x + width, color=line.colour, lw=0.8)
            label = f"{one.label}{f', split {one.split}' if one.split else ''}"
            (entries[label],) = ax.plot(x, own["correlation"], MARKERS[number], color=line.colour, ms=4, ls="none")
        ax.set_xticks(range(len(pairs)), pairs)
        ax.set_xlim(-0.5, len(pairs) - 0.5)
        ax.set_ylim(0, 1.12 * float(np.nanmax(data[["correlation", "independent"]].to_numpy(float))))
        ax.set_xlabel("layers")
        ax.set_ylabel("r.m.s. correlation")
        style.legend_below(figure, entries)
        style.save(figure, data, outputs, provenance)


def _rows(one: Shown) -> pd.DataFrame:
    """A row for every pair of layers of a run."""
    found = covariances(one.files["subset"])
    correlation = correlations(found.within)
    layers = np.array([_layer(name) for name in found.names])
    there = sorted(set(layers[layers > 0].tolist()))
    if len(there) < 2:
        raise ValueError(f"run '{one.run}': correlations across layers need weights of two layers; widen the subset")
    free = found.draws - found.chains
    rows = []
    for i, first in enumerate(there):
        for second in there[i + 1 :]:
            block = correlation[np.ix_(layers == first, layers == second)]
            square = float(np.nanmean(block**2)) if np.isfinite(block).any() else math.nan
            rows.append(
                {
                    "run": one.run,
                    "label": one.label,
                    "split": one.split,
                    "layers": f"{first} and {second}",
                    "correlation": math.sqrt(square),
                    "independent": 1 / math.sqrt(free),
                    "excess": math.sqrt(max(square - 1 / free, 0)) if math.isfinite(square) else math.nan,
                    "draws": found.draws,
                }
            )
    return pd.DataFrame(rows)


def _layer(name: str) -> int:
    """Number of a parameter's layer, counted from 1; 0 outside the layers."""
    match = re.match(r"layer(\d+)\.", name)
    return int(match[1]) + 1 if match else 0
