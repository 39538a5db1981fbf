"""Functions of single draws in figures: panels of functions, and the map of distances between them."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator

from bnn_atlas.figures.axes import colour_bar
from bnn_atlas.figures.page import rounded
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.tables.arrays import FunctionDraws, load_functions
from bnn_atlas.traces.draws import evenly

DISTANCES = "Blues"
"""Colour map of distances: white for none."""


class Functions(NamedTuple):
    """Draws of a regression by chain and then by draw, in units of the standardised target."""

    name: str
    mean: np.ndarray
    """[m, n] float64: mean function."""
    scale: np.ndarray
    """[m, n] float64: standard deviation of the noise."""
    chain: np.ndarray
    """[m] number of the chain."""
    draw: np.ndarray
    """[m] number of the draw."""
    left_out: tuple[int, ...]
    """Chains with a function that is not finite."""
    source: FunctionDraws

    @property
    def remark(self) -> str:
        """Which chains are missing, in words; empty if none is."""
        return f"not finite, left out: {_numbered('chain', self.left_out)}" if self.left_out else ""

    def only(self, draw_idx: np.ndarray) -> "Functions":
        """Some of the draws."""
        return self._replace(
            mean=self.mean[draw_idx], scale=self.scale[draw_idx], chain=self.chain[draw_idx], draw=self.draw[draw_idx]
        )

    def at_most(self, draws: int) -> "Functions":
        """At most `draws` of each chain, evenly spaced."""
        chosen = [
            np.flatnonzero(self.chain == chain)[evenly(int(np.sum(self.chain == chain)), draws)]
            for chain in dict.fromkeys(self.chain.tolist())
        ]
        return self.only(np.concatenate(chosen))


def read_functions(shown: Sequence[Shown], fewest: int = 2) -> list[Functions]:
    """The functions of each run, without chains that hold a function that is not finite.

    Raises ValueError for a classification, and where fewer than `fewest` draws are left.
    """
    return [_regression(run, name, fewest) for run, name in zip(shown, names(shown), strict=True)]


def names(shown: Sequence[Shown]) -> list[str]:
    """Labels, with the split or else the run if several share a label."""
    labels = [run.label for run in shown]
    by_split = [f"{run.label}, split {run.split}" for run in shown]
    by_run = [run.run for run in shown]
    by_both = [f"{run.run}, split {run.split}" for run in shown]
    wanted = next((texts for texts in (by_split, by_run) if len(set(texts)) == len(shown)), by_both)
    return [label if labels.count(label) == 1 else text for label, text in zip(labels, wanted, strict=True)]


def line(functions: Functions) -> np.ndarray:
    """The inputs [n] of functions of one input, ascending; ValueError for other functions and without training rows."""
    x = functions.source.x
    if functions.source.train_x is None or functions.source.train_y is None:
        raise ValueError(f"{functions.name}: the file of functions has no training rows; make it again")
    if x.ndim != 2 or x.shape[1] != 1 or (np.diff(x[:, 0]) <= 0).any():
        raise ValueError(
            f"{functions.name}: the functions are at inputs of shape {x.shape}, not along a line; the figure needs a "
            "data set with one input, and `inputs: line` in its section `functions`"
        )
    along: np.ndarray = x[:, 0]
    return along


def training_points(functions: Functions, most: int = 1000) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets of up to `most` training rows, evenly chosen."""
    x, y = functions.source.train_x, functions.source.train_y
    assert x is not None
    assert y is not None
    chosen = evenly(len(y), most)
    return x[chosen, 0], y[chosen]


def draw_points(ax: Axes, functions: Functions) -> None:
    """Training rows as dots, smaller ones where there are many."""
    x, y = training_points(functions)
    ax.plot(x, y, "o", color="black", ms=2 if len(y) <= 200 else 1, mew=0, alpha=1 if len(y) <= 200 else 0.6, zorder=3)


def target_limits(functions: Sequence[Functions], drawn: Sequence[np.ndarray], room: float) -> tuple[float, float]:
    """Limits of the y axis: all that is drawn, up to `room` times the range of the targets beyond them."""
    y = np.concatenate([training_points(one)[1] for one in functions])
    beyond = room * (np.ptp(y) or 1.0)
    low = max(min(float(part.min()) for part in (*drawn, y)), float(y.min() - beyond))
    high = min(max(float(part.max()) for part in (*drawn, y)), float(y.max() + beyond))
    margin = 0.04 * (high - low)
    return low - margin, high + margin


def distance_map(ax: Axes, functions: Functions, distances: np.ndarray, largest: float) -> AxesImage:
    """Squared distances [m, m], coloured by their root; borders between chains, ticks at chains or round draws."""
    image = ax.imshow(
        distances, cmap=DISTANCES, norm=PowerNorm(0.5, 0.0, largest or 1.0), interpolation="nearest", origin="upper"
    )
    starts = np.flatnonzero(np.diff(functions.chain, prepend=functions.chain[0] - 1))
    ax.spines[:].set_visible(True)
    if len(starts) > 1:
        ax.tick_params(length=0)
        middles = (starts + np.append(starts[1:], len(functions.chain)) - 1) / 2
        texts = [str(chain) for chain in functions.chain[starts]]
        shown = evenly(len(starts), 12)
        for axis, borders in ((ax.xaxis, ax.axvline), (ax.yaxis, ax.axhline)):
            axis.set_ticks(middles[shown], [texts[place] for place in shown])
            for start in starts[1:]:
                borders(start - 0.5, color="black", lw=0.6)
        word = "chain"
    else:
        ends = int(functions.draw[0]), int(functions.draw[-1])
        numbers = [n for n in MaxNLocator(6, integer=True).tick_values(*ends) if ends[0] <= n <= ends[1]]
        places = np.interp(numbers, functions.draw, np.arange(len(functions.draw)))
        texts = [f"{number:,.0f}" for number in numbers]
        ax.set_xticks(places, texts)
        ax.set_yticks(places, texts)
        word = "draw"
    ax.set_xlabel(word)
    ax.set_ylabel(word)
    return image


def distance_bar(ax: Axes, image: AxesImage, functions: Sequence[Functions]) -> None:
    """A colour bar as high as the map next to it."""
    rows = {one.mean.shape[1] for one in functions}
    number = f"{rows.pop():,} " if len(rows) == 1 else ""
    word = "inputs" if functions[0].source.y is None else "test rows"
    colour_bar(image, ax, f"squared 2-Wasserstein distance,\nsum over {number}{word}")


def pair_table(functions: Functions, distances: np.ndarray, **columns: np.ndarray) -> pd.DataFrame:
    """A row per pair of different draws: label, chain_a, draw_a, chain_b, draw_b, wasserstein_squared, `columns`.

    `columns` are further matrices [m, m]; numbers keep five significant digits, finer than any colour map.
    """
    a, b = np.triu_indices(len(distances), 1)
    values = {"wasserstein_squared": distances, **columns}
    return pd.DataFrame(
        {
            "label": functions.name,
            "chain_a": functions.chain[a], "draw_a": functions.draw[a],
            "chain_b": functions.chain[b], "draw_b": functions.draw[b],
            **{name: rounded(matrix[a, b]) for name, matrix in values.items()},
        }
    )  # fmt: skip


def _regression(run: Shown, name: str, fewest: int) -> Functions:
    path: Path = run.files["functions"]
    source = load_functions(path)
    if source.mean is None or source.scale is None:
        raise ValueError(f"{path}: {name} is a classification; these figures show Gaussian predictions of a regression")
    finite = (np.isfinite(source.mean) & np.isfinite(source.scale) & (source.scale > 0)).all(axis=(1, 2))
    chains, draws, rows = source.mean.shape
    mean, scale = (array[finite].reshape(-1, rows).astype(np.float64) for array in (source.mean, source.scale))
    if len(mean) < fewest:
        raise ValueError(
            f"{path}: {name} has {len(mean)} finite draws ({chains} chains of {draws}, {int((~finite).sum())} of them "
            f"not finite); at least {fewest} {'is' if fewest == 1 else 'are'} needed"
        )
    return Functions(
        name, mean, scale, np.repeat(source.chains[finite], draws), np.tile(source.draws, int(finite.sum())),
        tuple(source.chains[~finite].tolist()), source,
    )  # fmt: skip


def _numbered(word: str, numbers: Sequence[int]) -> str:
    """`chain 3` or `chains 1, 3 and 2 more`."""
    first = ", ".join(str(number) for number in numbers[:4])
    more = f" and {len(numbers) - 4} more" if len(numbers) > 4 else ""
    return f"{word}{'s' if len(numbers) > 1 else ''} {first}{more}"
