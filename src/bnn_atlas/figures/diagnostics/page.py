"""The page: a head with what was run, the verdict and the key numbers, and the panels that the run has."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure, SubFigure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from bnn_atlas.figures import style
from bnn_atlas.figures.diagnostics import convergence, courses
from bnn_atlas.figures.diagnostics.courses import Panel
from bnn_atlas.figures.diagnostics.run import Run, RunFiles, plotted
from bnn_atlas.figures.page import Drawing, rounded
from bnn_atlas.metrics.judgement.checks import Status
from bnn_atlas.metrics.judgement.trust import overall, sentence
from bnn_atlas.provenance import Provenance

WIDTH = 11.69
"""Inches: the width of A4 landscape; with three rows of panels, the page is about as high as A4 landscape, too."""
ROW = 1.98
COLUMNS = 3
PANELS = (*courses.PANELS, *convergence.PANELS)


def diagnostics_page(files: RunFiles, outputs: Sequence[str | Path], provenance: Provenance) -> None:
    """Draw the page of one run and split from the files of the metrics rule.

    A panel for which the run has nothing is left out, and the head says why. Up to 20 chains are drawn as lines, more
    than 20 as quantile bands. The CSV holds the plotted numbers: panel, series, chain, x, value, low, high.
    """
    run = Run.read(files)
    with style.context():
        figure, numbers = draw_page(run)
        # Seven digits are finer than any line that is drawn, and the CSV stays small.
        few = {name: rounded(numbers[name].to_numpy(), 7) for name in ("x", "value", "low", "high")}
        Drawing(figure, numbers.assign(**few)).write(outputs, (), provenance)


def draw_page(run: Run) -> tuple[Figure, pd.DataFrame]:
    """The page of a run and its plotted numbers; call it inside `style.context`."""
    missing = [(panel, panel.missing(run)) for panel in PANELS]
    shown = [panel for panel, reason in missing if not reason]
    texts, height = header_texts(run, [f"{panel.title} ({reason})" for panel, reason in missing if reason])
    rows = -(-len(shown) // COLUMNS)
    body_height = ROW * rows + 0.2
    figure = Figure(figsize=(WIDTH, height + body_height))
    if isinstance(engine := figure.get_layout_engine(), ConstrainedLayoutEngine):
        engine.set(w_pad=0.09, h_pad=0.05)
    head, body = figure.subfigures(2, 1, height_ratios=[height, body_height], squeeze=False).ravel()
    draw_header(head, texts, height)
    numbers = [key_rows(run), *(_draw_panels(body, rows, shown, run) if shown else [])]
    return figure, pd.concat(numbers, ignore_index=True)


def _draw_panels(body: SubFigure, rows: int, shown: list[Panel], run: Run) -> list[pd.DataFrame]:
    """Draw the panels side by side and return their plotted numbers."""
    axes = body.subplots(rows, COLUMNS, squeeze=False).ravel()
    numbers = []
    for ax, panel in zip(axes, shown, strict=False):
        ax.set_title(panel.title, weight="bold")
        numbers.append(panel.draw(ax, run))
    for ax in axes[len(shown) :]:
        ax.set_visible(False)
    return numbers


LOOKS = {
    Status.FINE: ("\N{CHECK MARK}", style.GREEN),
    Status.LOOK: ("\N{BLACK UP-POINTING TRIANGLE}", style.ORANGE),
    Status.DISTRUST: ("\N{BALLOT X}", style.VERMILION),
    Status.UNKNOWN: ("?", style.GREY),
}
"""Sign and colour of a status."""
LINE = 0.135
"""Inches from line to line of small print."""
LINE_WIDTH = 180
"""Characters per line across the page."""
CHECK_WIDTH = 124
"""Characters per line in the text of a check."""
NOTE_WIDTH = 200
LEFT, INDENT, SIDE = 0.012, 0.032, 0.645
"""Where lines, indented lines and the key numbers begin, as shares of the page's width."""


class Key(NamedTuple):
    """A key number, or two side by side."""

    name: str
    metrics: tuple[str, ...]
    form: str
    factor: float = 1.0
    at: str = ""


COUNT = "count"
"""Form of a number of any size: three digits, with k for thousands."""
ESS = "ess_bulk_function_median"
KEYS = (
    Key("chains excluded", ("chains_excluded",), "{:,.0f}"),
    Key("LPPD per test row", ("lppd",), "{:.4f}"),
    Key("accuracy", ("accuracy",), "{:.4f}"),
    Key("RMSE (standardised)", ("rmse",), "{:.4f}"),
    Key("largest R-hat: functions, weights", ("rhat_function_max", "rhat_weight_max"), "{:.2f}"),
    Key(
        "R-hat above 1.01: functions, weights",
        ("rhat_function_share_above", "rhat_weight_share_above"),
        "{:.0%}",
        at="1.01",
    ),
    Key("median bulk ESS: functions, weights", (ESS, "ess_bulk_weight_median"), "{:,.0f}"),
    Key(
        "ESS of functions per 1,000 gradients: sampling, all",
        (f"{ESS}_per_gradient", f"{ESS}_per_gradient_total"),
        COUNT,
        1000,
    ),
    Key("ESS of functions per second: sampling, all", (f"{ESS}_per_second", f"{ESS}_per_second_total"), COUNT),
    Key("gradients of all chains: sampling, all", ("gradients_sampling", "gradients_total"), COUNT),
    Key("seconds: sampling, all", ("seconds_sampling", "seconds_total"), COUNT),
    Key("effective temperature", ("effective_temperature",), "{:.3g}"),
    Key("acceptance", ("acceptance_mean",), "{:.3f}"),
    Key("trajectories cut short", ("cut_short_share",), "{:.1%}"),
    Key("energy variance per dimension", ("energy_change_mean_square_per_dimension",), "{:.2g}"),
    Key("step size (median)", ("step_size_median",), "{:.3g}"),
)


class Text(NamedTuple):
    """A line of the head: inches from the top, share of the width, and how it is set."""

    y: float
    x: float
    text: str
    size: float = 7.5
    colour: str = style.BLACK
    weight: str = "normal"
    align: str = "left"


def header_texts(run: Run, missing: list[str]) -> tuple[list[Text], float]:
    """All lines of the head and its height in inches; `missing` says what the page does not show."""
    about = run.identity
    line = (
        f"study {about['study']}  |  data set {about['dataset']}  |  model {about['model']}  |  "
        f"method {about['method']}  |  scale {about['scale']}  |  {_counted(run.count, 'chain')} "
        f"\N{MULTIPLICATION SIGN} {_counted(run.draws, 'draw')}, {_counted(len(run.parameters), 'parameter')}"
    )
    texts = [Text(0.24, LEFT, f"{about['run']}, split {about['split']}", 12, weight="bold")]
    y = 0.44
    for part in textwrap.wrap(line, LINE_WIDTH):
        texts.append(Text(y, LEFT, part, 7.5, style.GREY))
        y += LINE
    y = side = y + 0.125
    sign, colour = LOOKS[overall(run.checks)]
    texts.append(Text(y, LEFT, sign, 11, colour, "bold"))
    texts.append(Text(y, INDENT, sentence(run.checks), 9.5, weight="bold"))
    y += 0.22
    for check in run.checks:
        sign, colour = LOOKS[check.status]
        texts.append(Text(y, LEFT + 0.002, sign, 8, colour, "bold"))
        for part in textwrap.wrap(check.text, CHECK_WIDTH):
            texts.append(Text(y, INDENT, part))
            y += LINE
    for name, value in key_numbers(run):
        texts.append(Text(side, SIDE, name, 7.0, style.GREY))
        texts.append(Text(side, 0.99, value, 7.0, align="right"))
        side += 0.96 * LINE
    y = max(y, side) + 0.02
    if missing:
        for part in textwrap.wrap(f"Not shown: {'; '.join(missing)}.", NOTE_WIDTH):
            texts.append(Text(y, LEFT, part, 6.5, style.GREY))
            y += 0.9 * LINE
    return texts, y - 0.02


def draw_header(area: SubFigure, texts: list[Text], height: float) -> None:
    """Set the lines in an area `height` inches high."""
    for text in texts:
        area.text(
            text.x, 1 - text.y / height, text.text, fontsize=text.size, color=text.colour, weight=text.weight,
            ha=text.align, va="baseline",
        )  # fmt: skip


def key_numbers(run: Run) -> list[tuple[str, str]]:
    """Names and values of the numbers that a reader looks for first; what is not known is left out."""
    found = []
    for key in KEYS:
        values = [key.factor * run.value(metric, key.at) for metric in key.metrics]
        if not np.isnan(values).all():
            found.append((key.name, ", ".join(_number(value, key.form) for value in values)))
    return found


def key_rows(run: Run) -> pd.DataFrame:
    """The key numbers for the CSV."""
    numbers = {metric: run.value(metric, key.at) for key in KEYS for metric in key.metrics}
    metrics = [metric for metric, value in numbers.items() if not np.isnan(value)]
    values = np.array([numbers[metric] for metric in metrics])
    return plotted("head", np.array(metrics, dtype=object), np.full(len(metrics), np.nan), values)


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _number(value: float, form: str) -> str:
    if np.isnan(value):
        return "\N{EN DASH}"
    text = style.short_count(float(f"{value:.3g}")) if form == COUNT else form.format(value)
    return text.replace("-", "\N{MINUS SIGN}", 1) if text.startswith("-") else text
