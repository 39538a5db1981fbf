"""Measurements as rows of a metric table, with notes on excluded chains."""

from collections.abc import Iterable, Sequence

import numpy as np

from bnn_atlas.config.metrics import METRICS
from bnn_atlas.metrics.gathering.summary import PredictiveSummary
from bnn_atlas.metrics.tables.measurement import Measurement, PredictionError, Row, RunIdentity, joined

NOT_FINITE, NEVER_MOVED = "not finite", "never moved"
"""Why a chain is excluded."""
OVER_ROWS = "rows"
"""The default: standard errors are over test rows."""


def average(summary: PredictiveSummary) -> np.ndarray:
    """Class probabilities [n, k] averaged over all draws of the non-divergent chains."""
    if not len(summary.kept):
        raise PredictionError("no chain is left to average: all diverged or never moved")
    return summary.probabilities[summary.kept].mean(axis=0)


def exclusion_measurements(summary: PredictiveSummary) -> list[Measurement]:
    """How many chains there are and how many were left out."""
    total = len(summary.divergent)
    return [Measurement("chains_excluded", float(summary.divergent.sum()), note=_exclusion_note(summary), chains=total)]


def as_rows(identity: RunIdentity, measurements: Iterable[Measurement], summary: PredictiveSummary) -> list[Row]:
    """The measurements as table rows; the note of a row says if chains were excluded.

    Raises ValueError for a name that is not in the list of metrics.
    """
    excluded, rows = _exclusion_note(summary), []
    for m in measurements:
        note = joined(m.note, excluded if m.chains != len(summary.divergent) else "")
        over = (m.over or OVER_ROWS) if m.standard_error is not None else ""
        rows.append(m._replace(note=note, over=over))
    return listed(identity, rows, len(summary.kept), summary.draws)


def listed(identity: RunIdentity, measurements: Iterable[Measurement], chains: int, draws: int) -> list[Row]:
    """Table rows for measurements of networks, which exclude no chain because they use no predictions.

    Raises ValueError for a name that is not in the list of metrics.
    """
    rows = []
    for m in measurements:
        if m.metric not in METRICS:
            raise ValueError(f"'{m.metric}' is not in the list of metrics; add it to src/bnn_atlas/config/metrics.py")
        number, each = chains if m.chains is None else m.chains, draws if m.draws is None else m.draws
        value = (m.metric, m.value, m.standard_error, m.note, m.at, m.over, m.monte_carlo_error)
        rows.append(Row(*identity, number, each, *value))
    return rows


def marked(rows: Sequence[Row], marks: Sequence[str]) -> list[Row]:
    """The rows, with the marks of their run added to their notes."""
    return [row._replace(note=joined(row.note, *marks)) for row in rows]


def _exclusion_note(summary: PredictiveSummary) -> str:
    """How many chains are excluded, and why."""
    count, total = int(summary.divergent.sum()), len(summary.divergent)
    never_moved = int(summary.stuck.sum())
    reasons = [f"{n:,} {why}" for n, why in ((count - never_moved, NOT_FINITE), (never_moved, NEVER_MOVED)) if n]
    return f"{count:,} of {total:,} chains excluded: {', '.join(reasons)}" if count else ""
