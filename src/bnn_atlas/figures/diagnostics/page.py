"""The page: a head with the verdict, and the panels that the run has."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure, SubFigure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from bnn_atlas.figures import style
from bnn_atlas.figures.diagnostics import convergence, courses, predictions
from bnn_atlas.figures.diagnostics.header import draw_header, header_texts, key_rows
from bnn_atlas.figures.diagnostics.looks import Panel
from bnn_atlas.figures.diagnostics.run import Run, RunFiles, rounded
from bnn_atlas.figures.page import Drawing
from bnn_atlas.provenance import Provenance

WIDTH = 11.69
"""Inches: A4 across; with three rows of panels the page is about as high as A4."""
ROW = 1.98
COLUMNS = 3
PANELS = (*courses.PANELS, *convergence.PANELS, *predictions.PANELS)


def diagnostics_page(files: RunFiles, outputs: Sequence[str | Path], provenance: Provenance) -> None:
    """Draw the page of one run and split from the files of the metrics rule.

    A panel that the run has nothing for is left out, and the head says why. Chains are lines for up to 20 of them and
    quantile bands beyond. The CSV holds the plotted numbers: panel, series, chain, x, value, low, high.
    """
    run = Run.read(files)
    with style.context():
        figure, numbers = draw_page(run)
        Drawing(figure, rounded(numbers)).write(outputs, (), provenance)


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
