"""A figure of one sweep, with its panels side by side."""

from collections.abc import Callable, Sequence

import pandas as pd
from matplotlib.figure import Figure

from bnn_atlas.config.methods.base import KindOfDraws
from bnn_atlas.figures import page
from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.shown import Shown
from bnn_atlas.figures.xy.panels import Panel, draw_panel, legend_entries, looks_of, published_looks, published_rows
from bnn_atlas.figures.xy.table import AT_INFINITY, Field, line_name, sweep_table
from bnn_atlas.published import published_numbers

MOST_COLUMNS = 3
HEIGHT = 1.95
"""Height of a row of panels in inches."""
LEGEND = 0.08
"""Inches of height for each entry of the legend; a row holds about two entries."""
LEVELS = (KindOfDraws.POINT,)
"""Optima are drawn as horizontal lines: they do not depend on the field, or serve for comparison."""
LIMIT = "dotted: with infinitely many draws"
SCORES = {
    "classification": (
        Panel("accuracy", "accuracy"),
        Panel("lppd", "LPPD per test row", AT_INFINITY, LIMIT),
        Panel("ece", "expected\ncalibration error"),
    ),
    "regression": (
        Panel("rmse", "RMSE, standardised target"),
        Panel("lppd", "LPPD per test row,\nstandardised target", AT_INFINITY, LIMIT),
    ),
}
"""Task -> the panels of its scores."""


def sweep(
    field: Field,
    *,
    before: Sequence[Panel] = (),
    after: Sequence[Panel] = (),
    published: str = "",
    scores: bool = True,
    levels: Sequence[KindOfDraws] = LEVELS,
) -> Callable[[Sequence[Shown]], Drawing]:
    """A kind of figure: scores against a field, a line per label, between the panels `before` and `after`.

    Methods whose draws are of a kind in `levels` are horizontal lines. The numbers come from `table.sweep_table`. After
    them come published ones (`kind` is `published`): the group `published` of the study `hmc_posteriors`, in panels of
    its own.
    """

    def draw(shown: Sequence[Shown]) -> Drawing:
        panels = [*before, *(SCORES[shown[0].task] if shown and scores else ()), *after]
        metrics = [metric for panel in panels for metric in panel.metrics]
        table = sweep_table(shown, field, metrics, levels=levels)
        numbers = published_numbers("hmc_posteriors", published) if published else ()
        theirs = published_rows(numbers, field.name, metrics)
        figure = sweep_figure(table, field, panels, theirs, levels)
        return Drawing(figure, joined(table, theirs), names=[line_name(one) for one in shown])

    return draw


def joined(table: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """All plotted numbers, first the runs' and then the published ones."""
    parts = [table.assign(kind="run"), published.assign(kind="published")]
    data = pd.concat([part for part in parts if len(part)], ignore_index=True)
    return data.reindex(columns=["kind", *table.columns, "approximate"]).astype({"repetitions": "Int64"})


def sweep_figure(
    table: pd.DataFrame,
    field: Field,
    panels: Sequence[Panel],
    published: pd.DataFrame,
    levels: Sequence[KindOfDraws] = LEVELS,
) -> Figure:
    """The panels in rows of up to `MOST_COLUMNS`, then those of the published numbers, and one legend.

    Published numbers are for other data, so they would only stretch the axes of the runs.
    """
    looks = looks_of(table, levels)
    entries = legend_entries(panels, table, looks) | published_looks(published)
    theirs = [Panel(panel.metric, panel.label) for panel in panels if panel.metric in set(published["metric"])]
    count = len(panels) + len(theirs)
    figure, axes = page.panels(count, MOST_COLUMNS, HEIGHT, wide_from=1, more=LEGEND * len(entries), even=True)
    for ax, panel in zip(axes.flat, panels, strict=False):
        draw_panel(ax, panel, field, table, published[:0], looks)
    for ax, panel in zip(axes.flat[len(panels) :], theirs, strict=False):
        draw_panel(ax, panel, field, table[:0], published, looks)
        ax.set_title("as published")
    page.legend_below(figure, entries)
    return figure
