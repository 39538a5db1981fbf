"""Draws of single weights: their densities by method, lines over all of them, correlations across layers."""

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from bnn_atlas.figures import page, style
from bnn_atlas.figures.density import draw_marginals
from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.shown import Shown, panel_title
from bnn_atlas.figures.subsets import NamedDraws, layer_of, read_named, read_subset, remarks
from bnn_atlas.symmetry.aligned_draws import load_aligned_draws
from bnn_atlas.traces.draws import evenly

KINDS = {
    "weight_densities": {
        "sections": ["subset"], "files": ["table"], "repeats": ["label"], "same": ["network"],
        "columns": "label parameter x density",
    },
    "parallel_coordinates": {
        "sections": ["subset"], "files": ["table"], "apart": ["title", "dataset"], "most": 8,
        "columns": "run split parameter place line value",
    },
    "cross_layer_correlation": {
        "sections": ["subset"], "files": ["table"], "files_if_any": ["aligned_draws"],
        "columns": "run label split layers correlation independent excess draws units alignment from_first",
    },
}  # fmt: skip

SIDE = 4
"""Panels along a side."""
POINTS = 200
"""Places at which a density is drawn."""


def weight_densities(shown: Sequence[Shown]) -> Drawing:
    """Gaussian kernel density (Scott's rule) of up to 16 parameters, evenly spread over the subset, a line per label.

    The draws of a label come from all of its chains and runs; its runs may differ only in seeds and splits. A parameter
    that does not vary under a label is a vertical line. Inputs: `subset`, the draws, of the same parameters for all
    runs, and `table`, which says whose chains can be trusted.
    """
    draws = [read_named(one.files["subset"]) for one in shown]
    names = draws[0].parameters["label"].tolist()
    chosen = evenly(len(names), SIDE**2)
    pooled = pd.concat([each.tidy(chosen).assign(line=one.label) for one, each in zip(shown, draws, strict=True)])
    densities = [
        _density(own["value"].to_numpy()).assign(parameter=name, label=label)
        for name, part in pooled.groupby("label", sort=False)
        for label, own in part.groupby("line", sort=False)
    ]
    table = pd.concat(densities, ignore_index=True)
    methods = {one.label: one.drawn_as for one in reversed(shown)}
    labels = list(dict.fromkeys(one.label for one in shown))
    lines = style.lines([methods[label] for label in labels])
    looks = {
        label: {"color": line.colour, "ls": style.dash(number), "lw": 1}
        for number, (label, line) in enumerate(zip(labels, lines, strict=True))
    }
    figure, axes = page.panels(len(chosen), SIDE, 1.25, wide_from=1, more=0.35)
    draw_marginals(list(axes.flat), table, "parameter", "label", looks)
    for ax in axes[:, 0]:
        ax.set_ylabel("density")
    page.legend_below(figure, {label: Line2D([], [], **look) for label, look in looks.items()})
    left_out = remarks({one.label: each.subset for one, each in zip(shown, draws, strict=True)})
    return Drawing(figure, table[["label", "parameter", "x", "density"]], notes=[left_out])


def _density(values: np.ndarray) -> pd.DataFrame:
    """Kernel density to a standard deviation beyond the draws; if they do not vary, their place without a density."""
    from scipy.stats import gaussian_kde  # slow to import

    if np.ptp(values) == 0:
        return pd.DataFrame({"x": values[:1], "density": np.nan})
    x = np.linspace(values.min() - values.std(), values.max() + values.std(), POINTS)
    return pd.DataFrame({"x": x, "density": gaussian_kde(values)(x)})


LINES = 50
"""Largest number of draws, evenly spread."""
PRIOR = 1.96
"""Half width of the prior's band in standard deviations: it holds 95% of the prior."""


def parallel_coordinates(shown: Sequence[Shown]) -> Drawing:
    """Up to 50 draws of each run and split, a line each, over the parameters in the order of their means.

    Each run and split has a panel, with the mean as a black line, as in appendix F.3 of Shi, Sun and Zhu 2018 (Kernel
    Implicit Variational Inference), and a grey band with 95% of the prior N(0, sd^2). Inputs: `subset`, the draws, and
    `table`, which says whose chains can be trusted.
    """
    titles = [f"{panel_title(one)}, {one.dataset_title}" for one in shown]
    draws = [read_named(one.files["subset"]) for one in shown]
    tables = []
    figure = Figure(figsize=(style.TEXT_WIDTH, 1.35 * len(shown) + 0.5))
    grid = figure.subplots(len(shown), 1, squeeze=False, sharey=True)[:, 0]
    for ax, one, each, title in zip(grid, shown, draws, titles, strict=True):
        lines, names = _ordered(each)
        x = np.arange(1, len(names) + 1)
        if one.prior_sd is not None:
            ax.axhspan(-PRIOR * one.prior_sd, PRIOR * one.prior_sd, color="#E3E3E3", lw=0, zorder=0)
        ax.plot(x, lines.T, color=style.METHODS[one.drawn_as].colour, lw=0.4, alpha=0.35)
        ax.plot(x, lines.mean(0), color=style.BLACK, lw=1)
        ax.set_xlim(1, max(len(names), 2))
        ax.set_ylabel("value")
        ax.set_title(title, fontsize=7)
        table = pd.DataFrame(
            {
                "run": one.run,
                "split": one.split,
                "parameter": np.tile(names, len(lines)),
                "place": np.tile(x, len(lines)),
                "line": np.repeat(np.arange(len(lines)), len(names)),
                "value": lines.ravel(),
            }
        )
        tables.append(table)
    grid[-1].set_xlabel("parameters, in order of their means")
    entries: page.Entries = {"draw": {"color": style.GREY, "lw": 0.4}, "mean": {"color": style.BLACK, "lw": 1}}
    if any(one.prior_sd is not None for one in shown):
        entries = {**entries, "95% of the prior": Patch(color="#E3E3E3", lw=0)}
    page.legend_below(figure, entries)
    left_out = remarks({one.label: each.subset for one, each in zip(shown, draws, strict=True)})
    return Drawing(figure, pd.concat(tables, ignore_index=True), names=titles, notes=[left_out])


def _ordered(draws: NamedDraws) -> tuple[np.ndarray, np.ndarray]:
    """Draws [line, parameter] and the labels of the parameters, in the order of the means of these draws."""
    states = draws.values.reshape(-1, draws.values.shape[2])
    lines = states[evenly(len(states), LINES)]
    order = np.argsort(lines.mean(0), kind="stable")
    return lines[:, order], draws.parameters["label"].to_numpy()[order]


SHARE = 0.92
"""Share of the room of a pair of layers on the axis that its runs take up."""


def cross_layer_correlation(shown: Sequence[Shown]) -> Drawing:
    """Root mean square correlation within chains between the weights of two layers, beyond chance, a mark per run.

    Filled markers are for draws as sampled, open ones for draws in the frame of an alignment, if the run has one
    (`units` in the CSV: "as sampled" and "aligned", with the name under `alignment`). Chains that visit several orders
    of their units have less correlation as sampled than with their units in one order.

    Chance is the correlation between weights that do not belong together: one layer of a chain with the other layer of
    the next chain (after the last comes the first), whose states are held as long as the chain's own. Both are raised
    alike by few draws, rejected proposals and slow chains (1 / sqrt(n - C) for n independent draws of C chains). A
    single chain is compared with itself, shifted by half of its states, which is right only for independent draws. In
    the CSV `independent` is this chance level, `excess`, which is drawn, is sqrt(correlation^2 - independent^2), or 0
    below it, and `from_first` is its distance from the first run's. Inputs: `subset`, the draws, with the same
    parameters for all runs; `aligned_draws`, the draws of alignments; and `table`, which says whose chains can be
    trusted.
    """
    data = pd.concat([_rows(one) for one in shown], ignore_index=True)
    of_first = data[data["run"] == shown[0].run].drop_duplicates(["split", "layers", "units"])
    first = of_first.set_index(["split", "layers", "units"])["excess"]
    there = pd.MultiIndex.from_frame(data[["split", "layers", "units"]])
    data["from_first"] = (data["excess"] - first.reindex(there).to_numpy()).abs()
    pairs = list(dict.fromkeys(data["layers"]))
    lines = style.lines([one.drawn_as for one in shown])
    figure = Figure(figsize=(style.COLUMN_WIDTH, 2.7))
    ax = figure.subplots()
    entries = {}
    places = data["units"].nunique()
    for number, (one, line) in enumerate(zip(shown, lines, strict=True)):
        own = data[(data["run"] == one.run) & (data["split"] == one.split)]
        look: dict[str, Any] = {"marker": line.marker, "color": line.colour, "ms": 4, "mew": 0.7, "ls": "none"}
        entries[panel_title(one)] = Line2D([], [], **look)
        for units, part in own.groupby("units"):
            aligned = units == "aligned"
            place = (number + (0.25 + 0.5 * aligned if places > 1 else 0.5)) / len(shown) - 0.5
            x = np.array([pairs.index(pair) for pair in part["layers"]]) + SHARE * place
            ax.vlines(x, 0, part["excess"], color=line.colour, lw=0.7)
            ax.plot(x, part["excess"], **look, mfc="white" if aligned else line.colour, clip_on=False, zorder=3)
    if places > 1:
        plain: dict[str, Any] = {"marker": "o", "color": style.BLACK, "ms": 3, "mew": 0.6, "ls": "none"}
        entries["as sampled"] = Line2D([], [], **plain)
        entries["aligned"] = Line2D([], [], **plain, mfc="white")
    ax.set_xticks(range(len(pairs)), pairs)
    ax.set_xlim(-0.5, len(pairs) - 0.5)
    for between in range(1, len(pairs)):
        ax.axvline(between - 0.5, color="#E3E3E3", lw=0.5, zorder=0)
    ax.set_ylim(0, max(1.08 * float(data["excess"].max()), 0.05))
    ax.set_xlabel("layers")
    ax.set_ylabel("correlation beyond chance")
    page.legend_below(figure, entries)
    return Drawing(figure, data)


def _rows(one: Shown) -> pd.DataFrame:
    """A row for every pair of layers of a run, as sampled and in each of its alignments."""
    found = read_subset(one.files["subset"])
    tables = [_pairs(one, found.names, found.values).assign(units="as sampled", alignment="")]
    for name, file in one.parts.get("aligned_draws", {}).items():
        draws = load_aligned_draws(file)
        names = [str(text) for text in draws.names]
        weights = [place for place, text in enumerate(names) if ".weight[" in text]
        values = draws.values["aligned"][draws.finite.all(axis=1)][:, :, weights].astype(np.float64)
        table = _pairs(one, [names[place] for place in weights], values)
        tables.append(table.assign(units="aligned", alignment=name))
    return pd.concat(tables, ignore_index=True)


def _pairs(one: Shown, names: Sequence[str], values: np.ndarray) -> pd.DataFrame:
    """A row for every pair of layers, of draws [c, s, p] of the weights `names`."""
    correlation, apart = _correlations(values, one.run)
    layers = np.array([layer_of(name) for name in names])
    there = sorted(set(layers[layers > 0].tolist()))
    if len(there) < 2:
        raise ValueError(f"run '{one.run}': correlations across layers need weights of two layers; widen the subset")
    rows = []
    for first, second in combinations(there, 2):
        square, by_chance = (_mean_square(m, layers == first, layers == second) for m in (correlation, apart))
        rows.append(
            {
                "run": one.run,
                "label": one.label,
                "split": one.split,
                "layers": f"{first} and {second}",
                "correlation": math.sqrt(square),
                "independent": math.sqrt(by_chance),
                "excess": math.sqrt(max(square - by_chance, 0)) if math.isfinite(square) else math.nan,
                "draws": math.prod(values.shape[:2]),
            }
        )
    return pd.DataFrame(rows)


def _correlations(values: np.ndarray, run: str) -> tuple[np.ndarray, np.ndarray]:
    """Correlations [p, p] within chains, and between parameters of a chain and of the next (after the last, the first).

    A chain that repeats a state repeats it for all parameters at once. So the states of the next chain take the places
    of its own, each held as long as the one it replaces. A single chain is paired with its own states, shifted by half.
    NaN for parameters that do not vary.
    """
    chains, draws = values.shape[:2]
    if draws < 4:
        raise ValueError(f"run '{run}': {draws} draws of a chain have no correlations; a subset needs at least 4")
    states = [_states(chain) for chain in values]
    others = [np.roll(states[0], len(states[0]) // 2, axis=0)] if chains == 1 else [*states[1:], states[0]]
    placed = np.stack([other[_places(own) % len(other)] for own, other in zip(values, others, strict=True)])
    within, apart = (
        np.einsum("csp,csq->pq", _scaled(values), _scaled(those), optimize=True) for those in (values, placed)
    )
    return within, apart


def _places(chain: np.ndarray) -> np.ndarray:
    """Number of the state of each draw [s, p] of a chain; a draw may repeat the state before it."""
    moved: np.ndarray = (chain[1:] != chain[:-1]).any(axis=1)
    return np.concatenate([[0], np.cumsum(moved)])


def _states(chain: np.ndarray) -> np.ndarray:
    """States of a chain [s, p], each once."""
    return chain[np.unique(_places(chain), return_index=True)[1]]


def _scaled(values: np.ndarray) -> np.ndarray:
    """Draws [c, s, p] minus the mean of their chain, each parameter scaled to length 1; NaN if it does not vary."""
    centred: np.ndarray = values - values.mean(axis=1, keepdims=True)
    lengths = np.sqrt((centred**2).sum(axis=(0, 1)))
    # After rounding, a parameter that never moved still has about 1e-16 of its scale.
    return centred / np.where(lengths > 1e-7 * lengths.max(), lengths, np.nan)


def _mean_square(matrix: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> float:
    """Mean square of a matrix's two blocks between two sets of parameters, without parameters that do not vary."""
    values = np.concatenate([matrix[np.ix_(rows, columns)].ravel(), matrix[np.ix_(columns, rows)].ravel()])
    return float(np.nanmean(values**2)) if np.isfinite(values).any() else math.nan
