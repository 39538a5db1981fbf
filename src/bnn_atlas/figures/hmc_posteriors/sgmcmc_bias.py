"""How far stochastic-gradient chains are from the exact posterior's predictions, by step size and by temperature."""

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from bnn_atlas.config.methods.base import KindOfDraws
from bnn_atlas.config.methods.registry import method
from bnn_atlas.figures import page, style
from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.shown import Shown
from bnn_atlas.figures.xy.panels import Panel, draw_panel, legend_entries, looks_of, published_rows
from bnn_atlas.figures.xy.table import Field, common_reference, line_name, sweep_table, value_of
from bnn_atlas.metrics.judgement.trust import UNCONVERGED

KIND = {"files": ["table", "against"]}

STEP_SIZE = Field("method.step_size", "step size")
TEMPERATURE = Field("temperature", "temperature", marks=(1 / 8, 1.0))
PANELS = (
    Panel("agreement", "agreement with\nthe reference"),
    Panel("total_variation", "total variation from\nthe reference"),
    Panel("elpd_diff", "LPPD minus that\nof the reference", limit=0.0),
)
LEVELS = (KindOfDraws.EXACT_CHAIN,)
"""Chains with a Metropolis test on the same posterior: they show what another run of the reference would give."""


def sgmcmc_bias(shown: Sequence[Shown]) -> Drawing:
    """Agreement and total variation with the runs' common reference, and the difference in LPPD from it.

    The left column is against the step size, the right one against the temperature: a run is in the column of what its
    entry varies, and in both if it stands alone. Chains with a Metropolis test are level lines. T = 1/8 is the target
    of a sampler that sums the gradient over eight devices once too often. The numbers come from
    `xy.table.sweep_table`, with the reference's name as `against`.
    """
    columns = {field: runs for field in (STEP_SIZE, TEMPERATURE) if (runs := _runs_of(shown, field))}
    reference = common_reference(shown)
    metrics = [panel.metric for panel in PANELS]
    tables = [sweep_table(runs, field, metrics, levels=LEVELS, reference=reference) for field, runs in columns.items()]
    table = pd.concat(tables, ignore_index=True)
    figure, words = _figure(table, list(columns)), _said(table)
    data = table.assign(against=reference).astype({"repetitions": "Int64"})
    return Drawing(figure, data, names=[line_name(one) for one in shown], notes=words)


def _runs_of(shown: Sequence[Shown], field: Field) -> list[Shown]:
    """Runs of entries that vary this field, or no field; empty if no entry varies it.

    An entry that varies both counts as varying the temperature, since each temperature has its own step size. Raises
    ValueError if no entry varies anything.
    """
    sampled = [one for one in shown if method(one.method).kind_of_draws not in LEVELS]
    varied = {entry: _varied([one for one in sampled if one.entry == entry]) for entry in {o.entry for o in sampled}}
    if not any(varied.values()):
        raise ValueError(
            "no entry of this figure's runs varies method.step_size or temperature; list one with a grid over it"
        )
    if field.name not in varied.values():
        return []
    return [one for one in shown if varied.get(one.entry) in (None, field.name)]


def _varied(runs: Sequence[Shown]) -> str | None:
    """Name of the field in which the runs of an entry differ; None if they differ in neither."""
    for field in (TEMPERATURE, STEP_SIZE):
        if len({value_of(one, field) for one in runs}) > 1:
            return field.name
    return None


def _figure(table: pd.DataFrame, fields: Sequence[Field]) -> Figure:
    width = style.TEXT_WIDTH if len(fields) > 1 else style.COLUMN_WIDTH
    figure = Figure(figsize=(width, 1.5 * len(PANELS) + 0.5))
    axes = figure.subplots(len(PANELS), len(fields), squeeze=False)
    looks = looks_of(table, LEVELS)
    nothing = published_rows((), "", ())
    for panel, row in zip(PANELS, axes, strict=True):
        for field, ax in zip(fields, row, strict=True):
            draw_panel(ax, panel, field, table[table["field"] == field.name], nothing, looks, spans=table)
        for ax in row[1:]:
            ax.tick_params(labelleft=False)
            ax.set_ylabel("")
        if panel is not PANELS[-1]:
            for ax in row:
                ax.set_xlabel("")
    figure.align_ylabels(axes[:, 0])
    page.legend_below(figure, legend_entries(PANELS, table, looks, against=True))
    return figure


def _said(table: pd.DataFrame) -> list[str]:
    """One sentence about the reference for all runs; if it has not converged for any of them, the sentence says so."""
    return sorted(filter(None, table["reference"].unique()), key=lambda text: not text.startswith(UNCONVERGED))[:1]
