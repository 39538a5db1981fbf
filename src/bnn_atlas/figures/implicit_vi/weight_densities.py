"""Densities of single weights under several methods."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.ticker import MaxNLocator

from bnn_atlas.figures import page, style
from bnn_atlas.figures.page import Drawing, check_fits
from bnn_atlas.figures.shown import Shown, check_repetitions
from bnn_atlas.figures.subsets import NamedDraws, read_named, remarks

KIND = {"sections": ["subset"], "files": ["table"]}

SIDE = 4
"""Panels along a side."""
POINTS = 200
"""Places at which a density is drawn."""


def weight_densities(shown: Sequence[Shown]) -> Drawing:
    """Gaussian kernel density (Scott's rule) of up to 16 parameters, evenly spread over the subset, a line per label.

    Draws of all chains of a label together, and of its runs that differ in seeds and splits alone; others are refused.
    A parameter that does not vary under a label is a vertical line. Inputs: `subset`, the draws, of the same parameters
    for all runs, and `table`, which says whose chains can be trusted.
    """
    check_fits(len(shown))
    check_repetitions(shown, [f"the line '{one.label}'" for one in shown])
    draws = [read_named(one.files["subset"]) for one in shown]
    chosen = _spread(draws, [one.run for one in shown])
    pooled = _pooled(shown, draws)
    looks = dict(zip(pooled, _lines(shown, list(pooled)), strict=True))
    tables = []
    figure, grid = page.panels(len(chosen), SIDE, 1.25, wide_from=1, more=0.35)
    entries: dict[str, Artist] = {}
    for ax, name in zip(grid.flat, chosen, strict=False):
        for label, values in pooled.items():
            look, own = looks[label], values[name]
            if np.ptp(own) == 0:
                entries[label] = ax.axvline(own[0], color=look.colour, ls=look.dash, lw=1)
                tables.append(pd.DataFrame({"label": label, "parameter": name, "x": own[:1]}))
                continue
            x, density = _density(own)
            (entries[label],) = ax.plot(x, density, color=look.colour, ls=look.dash, lw=1)
            tables.append(pd.DataFrame({"label": label, "parameter": name, "x": x, "density": density}))
        ax.set_title(name, fontsize=7)
        ax.set_yticks([])
        ax.set_ylim(bottom=0)
        ax.xaxis.set_major_locator(MaxNLocator(4))
        ax.tick_params(labelsize=6)
    for ax in grid[:, 0]:
        ax.set_ylabel("density")
        page.legend_below(figure, entries)
    left_out = remarks({one.label: each.subset for one, each in zip(shown, draws, strict=True)})
    return Drawing(figure, pd.concat(tables, ignore_index=True), notes=[left_out])


def _spread(draws: Sequence[NamedDraws], runs: Sequence[str]) -> list[str]:
    """Labels of up to SIDE x SIDE parameters of the first run, which all others must have."""
    names = draws[0].parameters["label"].tolist()
    for run, each in zip(runs, draws, strict=True):
        if each.parameters["label"].tolist() != names:
            raise ValueError(f"the runs '{runs[0]}' and '{run}' have other parameters; show runs of one network")
    places = np.linspace(0, len(names) - 1, min(len(names), SIDE**2)).round().astype(int)
    return [names[place] for place in places]


def _pooled(shown: Sequence[Shown], draws: Sequence[NamedDraws]) -> dict[str, dict[str, np.ndarray]]:
    """Label of a run -> label of a parameter -> all its draws."""
    found: dict[str, dict[str, np.ndarray]] = {}
    for one, each in zip(shown, draws, strict=True):
        before = found.setdefault(one.label, {})
        for place, name in enumerate(each.parameters["label"]):
            before[name] = np.concatenate([before.get(name, np.empty(0)), each.values[:, :, place].ravel()])
    return found


def _lines(shown: Sequence[Shown], labels: Sequence[str]) -> list[style.Line]:
    """Colour by method, with further colours where several labels have one, and a dash of its own for each label."""
    methods = {one.label: one.method for one in reversed(shown)}
    lines = style.lines([methods[label] for label in labels])
    return [style.Line(line.colour, style.dash(number)) for number, line in enumerate(lines)]


def _density(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places and kernel density, to a standard deviation beyond the draws."""
    from scipy.stats import gaussian_kde  # takes long to import

    x = np.linspace(values.min() - values.std(), values.max() + values.std(), POINTS)
    return x, gaussian_kde(values)(x)
