"""How many draws a chain needs until it predicts like its posterior: single draws, and averages from the start."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bnn_atlas.figures import page, style
from bnn_atlas.figures.axes import log_ticks, remark, whole_numbers
from bnn_atlas.figures.page import Drawing, Entries
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.formulas.averages import LOG_2PI, rmse
from bnn_atlas.metrics.tables.arrays import FunctionDraws, load_functions

KIND = {
    "sections": ["functions"], "runs": "one", "needs": ["chains", "one split"], "inputs": "test",
    "columns": "average metric chain draw value",
}  # fmt: skip

SINGLE, RUNNING, AFTER = "a draw alone", "all draws so far", "the next draws"
COLOURS = {SINGLE: style.SKY, RUNNING: style.ORANGE, AFTER: style.BLUE}
LABELS = {"accuracy": "accuracy", "rmse": "RMSE, standardised target", "lppd": "LPPD below the best"}
"""Score -> text at its axis."""
FEWEST = 10
"""Smallest number of draws per chain for which a course is drawn."""
SMALLEST = float(np.finfo(np.float32).tiny)
"""Value used for a probability that single precision rounds to 0."""


class Course(NamedTuple):
    """Predictions of a chain's draws for n rows."""

    density: np.ndarray
    """[S, n] density (probability) of the target."""
    mean: np.ndarray
    """[S, n, k] class probabilities; regression: [S, n, 1] mean function."""
    y: np.ndarray
    task: str

    def scores(self, density: np.ndarray, mean: np.ndarray) -> dict[str, float]:
        """Scores of an average with this density [n] and mean [n, k]."""
        lppd = float(np.log(density).mean())
        if self.task == "classification":
            return {"accuracy": float((mean.argmax(axis=1) == self.y).mean()), "lppd": lppd}
        return {"rmse": rmse(mean[None, :, 0], self.y), "lppd": lppd}


def burn_in(shown: Sequence[Shown]) -> Drawing:
    """Accuracy (or RMSE) and LPPD of a chain's single draws, of the average so far, and of the average to come.

    The run must keep its draws from the start. x is the number of the draw; at x = b, the average to come shows what
    the chain gives if its first b draws are dropped; it always takes half as many draws as the chain has. Thin lines
    are chains, thick ones their mean (Izmailov et al. 2021, section 5.3). The LPPD is shown by its distance from the
    largest in the panel, on a logarithmic axis. The numbers come from `burn_in_table`.
    """
    table, remarks = burn_in_table(shown)
    metrics = list(dict.fromkeys(table["metric"]))
    figure = Figure(figsize=(style.TEXT_WIDTH, 2.5))
    for ax, metric in zip(figure.subplots(1, len(metrics)), metrics, strict=True):
        part = table[table["metric"] == metric]
        _panel(ax, part.assign(value=part["value"].max() - part["value"]) if metric == "lppd" else part)
        if metric == "lppd":
            _from_the_best(ax)
        ax.set_ylabel(LABELS[metric])
    remark(figure.axes[-1], [remarks])
    page.legend_below(figure, _legend(table))
    return Drawing(figure, table)


def burn_in_table(shown: Sequence[Shown]) -> tuple[pd.DataFrame, str]:
    """Plotted numbers and a remark on chains that are left out: columns average, metric, chain, draw, value.

    `draw` counts transitions from the start, including a burn-in. Raises ValueError for chains of
    fewer than `FEWEST` draws.
    """
    (run,) = shown
    source = load_functions(run.files["functions"])
    if len(source.draws) < FEWEST:
        raise ValueError(f"run {run.run} has {len(source.draws)} draws per chain; a course needs at least {FEWEST}")
    kept = np.flatnonzero(~source.divergent.any(axis=1))
    if not len(kept):
        raise ValueError(f"run {run.run}: every chain has a draw that is not finite")
    numbers = _dropped(run.settings) + source.draws + 1
    rows = [
        {"average": average, "metric": metric, "chain": int(source.chains[chain]), "draw": int(draw), "value": value}
        for chain in kept
        for average, draw, scores in _course(_of_chain(source, int(chain)), numbers)
        for metric, value in scores.items()
    ]
    left_out = len(source.divergent) - len(kept)
    return pd.DataFrame(rows), f"{left_out} of {len(source.divergent)} chains not finite" if left_out else ""


def _dropped(settings: Mapping[str, object]) -> int:
    """Number of transitions before the first kept draw."""
    method = settings.get("method")
    found = method.get("burn_in", 0) if isinstance(method, Mapping) else 0
    return int(found)


def _of_chain(source: FunctionDraws, chain: int) -> Course:
    assert source.y is not None
    if source.probabilities is not None:
        p = source.probabilities[chain].astype(np.float64)
        labels = source.y.astype(np.int64)
        density = np.maximum(np.take_along_axis(p, labels[None, :, None], axis=2)[..., 0], SMALLEST)
        return Course(density, p, labels, source.task)
    assert source.mean is not None
    assert source.scale is not None
    mean, scale = (array[chain].astype(np.float64) for array in (source.mean, source.scale))
    log_density = -0.5 * (LOG_2PI + ((source.y - mean) / scale) ** 2) - np.log(scale)
    return Course(np.maximum(np.exp(log_density), SMALLEST), mean[..., None], source.y, source.task)


def _course(course: Course, numbers: np.ndarray) -> Iterator[tuple[str, int, dict[str, float]]]:
    """(average, number of the draw, scores) of a chain."""
    draws = len(numbers)
    window = draws // 2
    totals = np.concatenate([np.zeros_like(course.mean[:1]), np.cumsum(course.mean, axis=0)])

    def of(start: int, stop: int) -> dict[str, float]:
        # Densities are averaged anew, since differences of sums would lose small ones.
        mean = (totals[stop] - totals[start]) / (stop - start)
        return course.scores(course.density[start:stop].mean(axis=0), mean)

    for draw, number in enumerate(numbers.tolist()):
        yield SINGLE, number, of(draw, draw + 1)
        yield RUNNING, number, of(0, draw + 1)
    for dropped in range(draws - window + 1):
        yield AFTER, int(numbers[dropped]) - 1, of(dropped, dropped + window)


def _panel(ax: Axes, table: pd.DataFrame) -> None:
    ax.grid(axis="y")
    for average, colour in COLOURS.items():
        by_draw = table[table["average"] == average].pivot(index="draw", columns="chain", values="value")
        x = by_draw.index.to_numpy()
        ax.plot(x, by_draw.to_numpy(), color=colour, lw=0.4, alpha=0.7)
        ax.plot(x, by_draw.mean(axis=1), color=colour, lw=1.5)
    whole_numbers(ax)
    ax.set_xlabel("draws from the start")


def _from_the_best(ax: Axes) -> None:
    """A logarithmic axis that rises to the best, which is not on it; the lines between are down to 1 / 1,000."""
    values = np.concatenate([line.get_ydata() for line in ax.lines])
    log_ticks(ax, max(values[values > 0].min(initial=np.inf), 1e-3) / 1.3, values.max() * 1.3)
    ax.invert_yaxis()


def _legend(table: pd.DataFrame) -> Entries:
    window = table.loc[table["average"] == RUNNING, "draw"].nunique() // 2
    texts = {SINGLE: SINGLE, RUNNING: f"average of {RUNNING}", AFTER: f"average of the next {window} draws"}
    entries: Entries = {texts[of]: {"color": colour, "lw": 1.5} for of, colour in COLOURS.items()}
    several = table["chain"].nunique() > 1
    return {**entries, "one chain": {"color": style.GREY, "lw": 0.4}} if several else entries
