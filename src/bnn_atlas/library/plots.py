"""Plots of draws in the common look of the figures."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from bnn_atlas.data import DataError
from bnn_atlas.library.posteriors import NetworkPosterior, rows_like, targets_like
from bnn_atlas.library.predictions import check_rows, facts_of, predict, predict_draws
from bnn_atlas.metrics.gathering.chain_statistics import DIVERGENT, LOG_DENSITIES
from bnn_atlas.traces.draws import Draws, evenly

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_TRACES, MOST_IN_PAIRS = 12, 6
"""Largest numbers of parameters in a plot."""
MOST_DRAWS = 2000
"""Largest number of draws of a chain in a line."""
POINTS = 200
"""Inputs of bands, unless they are given."""
BEYOND = 0.1
"""How far bands reach beyond the rows, as a share of their range."""
BINS = 15
"""Largest number of bins of a calibration curve."""
SHARES = {0.95: 0.15, 0.8: 0.35, 0.5: 0.7}
"""Share of the draws that a region holds -> how much colour it has."""


@contextmanager
def _drawing() -> Iterator[None]:
    """The look of all figures; tells how to install Matplotlib."""
    try:
        from bnn_atlas.figures import style
    except ModuleNotFoundError as error:
        install = "`pip install 'bnn-atlas[plots]'`, or `pip install '.[plots]'` in a clone"
        raise ModuleNotFoundError(f"{error.name} is not installed: run {install}", name=error.name) from None
    with style.context():
        yield


def trace(draws: Draws, parameters: Collection[str] | None) -> "Figure":
    """See `PosteriorDraws.plot_trace`."""
    with _drawing():
        from matplotlib.figure import Figure

        from bnn_atlas.figures import style

        if parameters is None:
            firsts = list(dict.fromkeys(p.name for p in draws.arrays))
            parameters = [next(n for n in draws.parameter_names if n.partition("[")[0] == one) for one in firsts]
            parameters = [parameters[place] for place in evenly(len(parameters), 6)]
        names, values = _chosen(draws, parameters, 1, MOST_TRACES)
        series = [values[..., place] for place in range(len(names))]
        if set(LOG_DENSITIES) <= set(draws.statistics):
            names = ["log posterior", *names]
            series.insert(0, np.sum([draws.statistic(name).astype(float) for name in LOG_DENSITIES], axis=0))
        figure = Figure(figsize=(style.TEXT_WIDTH, 0.35 + 0.85 * len(names)))
        axes = figure.subplots(len(names), 2, squeeze=False, width_ratios=(1, 2.6))
        for (left, right), name, one in zip(axes, names, series, strict=True):
            _density_of_chains(left, one, name)
            _lines_of_chains(right, one)
        if DIVERGENT in draws.statistics:
            _mark_divergent(axes[0, 1], draws)
        axes[-1, 1].set_xlabel("draw")
        axes[0, 0].set_title("density of each chain", fontsize=7)
        axes[0, 1].set_title("draws", fontsize=7)
        return figure


def pair(draws: Draws, parameters: Collection[str] | None) -> "Figure":
    """See `PosteriorDraws.plot_pair`."""
    with _drawing():
        from matplotlib.figure import Figure

        from bnn_atlas.figures import density, style
        from bnn_atlas.figures.page import legend_below

        if parameters is None:
            parameters = [draws.parameter_names[place] for place in evenly(draws.size, 4)]
        names, values = _chosen(draws, parameters, 2, MOST_IN_PAIRS)
        points = values.reshape(-1, len(names)).astype(np.float64)
        points = points[np.isfinite(points).all(axis=1)]
        wrong = _divergent(draws).ravel()
        limits = [_limits(column) for column in points.T]
        colours = {share: style.mixed(style.BLUE, 1 - strength) for share, strength in SHARES.items()}
        figure = Figure(figsize=(min(style.TEXT_WIDTH, 0.5 + 1.4 * len(names)),) * 2)
        axes = figure.subplots(len(names), len(names), squeeze=False)
        for (row, column), ax in np.ndenumerate(axes):
            if column > row:
                ax.set_visible(False)
                continue
            ax.set_xlim(limits[column])
            if row == column:
                _density_of_chains(ax, values[..., row], "")
            else:
                two = [column, row]
                window = np.array([limits[place] for place in two])
                density.draw_regions(ax, density.smooth_pair(points[:, two], window), colours)
                marked = values.reshape(-1, len(names))[wrong][:, two]
                ax.plot(*marked.T, "x", color=style.VERMILION, ms=3, mew=0.8)
                ax.set_ylim(limits[row])
                density.round_ticks(ax.yaxis, 3)
            density.round_ticks(ax.xaxis, 3)
            ax.tick_params(labelbottom=row == len(names) - 1, labelleft=column == 0 and row > 0)
            if row == len(names) - 1:
                ax.set_xlabel(names[column], fontsize=6.5)
            if column == 0 and row > 0:
                ax.set_ylabel(names[row], fontsize=6.5)
        entries: dict[str, Any] = {
            f"{share:.0%} of draws": {"color": colour, "lw": 5} for share, colour in colours.items()
        }
        if wrong.any():
            entries["after a divergent step"] = {"color": style.VERMILION, "marker": "x", "ls": "", "ms": 3}
        legend_below(figure, entries)
        return figure


def reliability(posterior: NetworkPosterior, draws: Draws, x: Any, y: Any) -> "Figure":
    """See `PosteriorDraws.plot_reliability`."""
    import pandas as pd

    from bnn_atlas.library.predictions import score

    check_rows(posterior)
    rows = rows_like(posterior, x)
    targets = targets_like(posterior, y, len(rows))
    if posterior.classes:
        return _calibration_of_classes(predict(posterior, draws, rows).probabilities, targets)
    if posterior.config.likelihood.kind == "user":
        raise DataError(
            "the calibration of a likelihood of your own is not known, since only its density is: take a named "
            "likelihood for this plot"
        )
    table, facts = score(posterior, draws, rows, targets), facts_of(posterior, draws)
    with _drawing():
        from bnn_atlas.figures.kinds.calibration import METRICS, draw_calibration

        found = table[table["metric"].isin(METRICS)]
        numbers = pd.DataFrame(
            {
                "label": facts.identity.model,
                "run": "",
                "split": 0,
                "metric": found["metric"],
                "chains": draws.chains,
                "at": found["at"].astype(float),
                "value": found["value"],
                "rows": len(rows),
            }
        )
        return draw_calibration(numbers)


def bands(posterior: NetworkPosterior, draws: Draws, x: Any) -> "Figure":
    """See `PosteriorDraws.plot_bands`."""
    check_rows(posterior)
    if posterior.classes:
        raise DataError("bands are of a regression, and this posterior is of classes: use plot_reliability")
    known, targets = (np.asarray(array) for array in posterior.rows)
    if known.shape[1:] != (1,):
        raise DataError(
            f"bands need one input, and the rows have the shape {list(known.shape[1:])}: `predict` gives means at rows"
        )
    if x is None:
        low, high = float(known.min()), float(known.max())
        beyond = BEYOND * (high - low) or 1.0
        x = np.linspace(low - beyond, high + beyond, POINTS)[:, None]
    rows = rows_like(posterior, x)
    if (np.diff(rows[:, 0]) <= 0).any():
        raise DataError("x has inputs that are not ascending: sort them, and leave out those that are there twice")
    found = predict_draws(posterior, draws, rows)
    mean = np.asarray(found.mean, np.float64)
    scale = np.ones_like(mean) if found.scale is None else np.asarray(found.scale, np.float64)
    finite = np.isfinite(mean).all(axis=(1, 2))
    if not finite.any():
        raise DataError("no chain has finite predictions: see `summary`")
    with _drawing():
        from bnn_atlas.figures.functions import Functions
        from bnn_atlas.figures.kinds.bands import draw_networks
        from bnn_atlas.metrics.tables.arrays import FunctionDraws

        chains, steps = np.indices(mean.shape[:2])
        wrong = np.asarray(~np.isfinite(mean).all(axis=2))
        source = FunctionDraws(rows, draws.chain_ids, draws.draw_ids, wrong, train_x=known, train_y=targets)
        means, scales = (array[finite].reshape(-1, len(rows)) for array in (mean, scale))
        chain, step = (array[finite].ravel() for array in (draws.chain_ids[chains], draws.draw_ids[steps]))
        left_out = tuple(draws.chain_ids[~finite].tolist())
        functions = Functions(posterior.config.model.label, means, scales, chain, step, left_out, source)
        return draw_networks([functions], "", with_noise=found.scale is not None)[0]


def _chosen(draws: Draws, names: Collection[str], fewest: int, most: int) -> tuple[list[str], np.ndarray]:
    """Names of the scalars of these arrays and scalars, in the given order, and their draws [chain, draw, scalar]."""
    wanted = [names] if isinstance(names, str) else list(names)
    scalars: list[str] = []
    for name in wanted:
        scalars += draws.select(parameters=[name]).parameter_names
    scalars = list(dict.fromkeys(scalars))
    if not fewest <= len(scalars) <= most:
        raise DataError(
            f"parameters are {len(scalars)} numbers, but {fewest} to {most} can be drawn: name single ones, such as "
            f"'{draws.parameter_names[0]}'"
        )
    return scalars, draws.read(parameters=draws.locate(scalars))


def _limits(values: np.ndarray) -> tuple[float, float]:
    from bnn_atlas.figures.axes import bulk_limits

    return bulk_limits(values) or (0.0, 1.0)


def _density_of_chains(ax: "Axes", values: np.ndarray, name: str) -> None:
    from bnn_atlas.figures import density, style

    limits = _limits(values)
    centres = np.linspace(*limits, 257)[:-1] + (limits[1] - limits[0]) / 512
    for chain, colour in zip(values.astype(np.float64), style.chain_colours(len(values)), strict=True):
        if np.isfinite(chain).all() and np.ptp(chain) > 0:
            ax.plot(centres, density.smooth(chain, limits, bins=256), color=colour, lw=0.8)
    ax.set_xlim(limits)
    ax.set_ylim(bottom=0)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    density.round_ticks(ax.xaxis, 4)
    if name:
        ax.set_ylabel(name, fontsize=6.5)


def _lines_of_chains(ax: "Axes", values: np.ndarray) -> None:
    from bnn_atlas.figures import style

    shown = evenly(values.shape[1], MOST_DRAWS)
    for chain, colour in zip(values, style.chain_colours(len(values)), strict=True):
        ax.plot(shown, chain[shown], color=colour, lw=0.5, alpha=0.8)
    ax.set_ylim(_limits(values))
    ax.set_xlim(0, max(1, values.shape[1] - 1))


def _divergent(draws: Draws) -> np.ndarray:
    """Whether a step before each draw [chain, draw] diverged."""
    if DIVERGENT not in draws.statistics:
        return np.zeros((draws.chains, draws.draws), dtype=bool)
    return draws.statistic(DIVERGENT) > 0


def _mark_divergent(ax: "Axes", draws: Draws) -> None:
    from bnn_atlas.figures import style

    places = np.flatnonzero(_divergent(draws).any(axis=0))
    ax.plot(places, np.full(len(places), 0.02), "|", ms=5, color=style.VERMILION, transform=ax.get_xaxis_transform())


def _calibration_of_classes(by_chain: np.ndarray, labels: np.ndarray) -> "Figure":
    """Accuracy against confidence of the average over chains, and of single chains."""
    from bnn_atlas.metrics.formulas.reliability import calibration_bins

    finite = by_chain[np.isfinite(by_chain).all(axis=(1, 2))]
    if not len(finite):
        raise DataError("no chain has finite predictions: see `summary`")
    with _drawing():
        from matplotlib.figure import Figure

        from bnn_atlas.figures import style
        from bnn_atlas.figures.page import legend_below

        bins = max(2, min(BINS, len(labels) // 10))
        figure = Figure(figsize=(style.COLUMN_WIDTH, 2.9))
        ax = figure.subplots()
        for chain in finite if len(finite) > 1 else ():
            one = calibration_bins(chain, labels, bins)
            ax.plot(one.confidence, one.accuracy, color=style.SKY, lw=0.6, alpha=0.7)
        found = calibration_bins(finite.mean(axis=0), labels, bins)
        error = np.sqrt(found.accuracy * (1 - found.accuracy) / found.rows)
        line: dict[str, Any] = {"color": style.BLUE, "marker": "o", "ms": 4, "mfc": "white", "lw": 1.0}
        ax.errorbar(found.confidence, found.accuracy, error, elinewidth=0.8, **line)
        ax.plot([0, 1], [0, 1], color=style.BLACK, lw=0.8, zorder=0)
        low = float(np.nanmin([np.nanmin(found.confidence), np.nanmin(found.accuracy)]))
        ax.set(xlim=(max(0, low - 0.05), 1.01), ylim=(max(0, low - 0.1), 1.02))
        ax.set(xlabel="confidence: largest probability of a row", ylabel="accuracy")
        entries: dict[str, Any] = {
            "calibrated": {"color": style.BLACK, "lw": 0.8},
            "all chains, with standard error": line,
        }
        if len(finite) > 1:
            entries["one chain"] = {"color": style.SKY, "lw": 0.6}
        legend_below(figure, entries)
        return figure
