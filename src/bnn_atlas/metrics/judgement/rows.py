"""Measurements as rows of a metric table, which say what excluded chains are missing from."""

from collections.abc import Iterable, Sequence

import numpy as np

from bnn_atlas.config.metrics import METRICS
from bnn_atlas.metrics.gathering.summary import PredictiveSummary
from bnn_atlas.metrics.tables.measurement import Measurement, PredictionError, Row, RunIdentity

NOT_FINITE, NEVER_MOVED = "not finite", "never moved"
"""Why a chain is excluded."""
OVER_ROWS = "rows"
"""What most standard errors are over: the test rows."""


def average(summary: PredictiveSummary) -> np.ndarray:
    """Class probabilities [n, k] averaged over all draws of the chains that are not divergent."""
    if not len(summary.kept):
        raise PredictionError("no chain is left to average: all diverged or never moved")
    return summary.probabilities[summary.kept].mean(axis=0)


def exclusion_measurements(summary: PredictiveSummary) -> list[Measurement]:
    """How many chains there are and how many were left out."""
    total = len(summary.divergent)
    return [Measurement("chains_excluded", float(summary.divergent.sum()), note=_exclusion_note(summary), chains=total)]


def as_rows(identity: RunIdentity, measurements: Iterable[Measurement], summary: PredictiveSummary) -> list[Row]:
    """Table rows; every one that an excluded chain is missing from says so.

    Raises ValueError for a name that is not in the list of metrics.
    """
    excluded, rows = _exclusion_note(summary), []
    for m in measurements:
        if m.metric not in METRICS:
            raise ValueError(f"'{m.metric}' is not in the list of metrics; add it to src/bnn_atlas/config/metrics.py")
        chains = len(summary.kept) if m.chains is None else m.chains
        draws = summary.draws if m.draws is None else m.draws
        note = joined([m.note, excluded if m.chains != len(summary.divergent) else ""])
        over = (m.over or OVER_ROWS) if m.standard_error is not None else ""
        of_value = (m.metric, m.value, m.standard_error, note, m.at, over, m.monte_carlo_error)
        rows.append(Row(*identity, chains, draws, *of_value))
    return rows


def listed(identity: RunIdentity, measurements: Iterable[Measurement], chains: int, draws: int) -> list[Row]:
    """Table rows of measurements of networks themselves, from no predictions that could exclude a chain.

    Raises ValueError for a name that is not in the list of metrics.
    """
    rows = []
    for m in measurements:
        if m.metric not in METRICS:
            raise ValueError(f"'{m.metric}' is not in the list of metrics; add it to src/bnn_atlas/config/metrics.py")
        number = chains if m.chains is None else m.chains
        rows.append(Row(*identity, number, m.draws or draws, m.metric, m.value, m.standard_error, m.note, m.at, m.over))
    return rows


def marked(rows: Sequence[Row], marks: Sequence[str]) -> list[Row]:
    """The rows with the marks of their run in their notes."""
    return [row._replace(note=joined([row.note, *marks])) for row in rows]


def joined(notes: Sequence[str]) -> str:
    """Notes in one, without the empty ones."""
    return "; ".join(note for note in notes if note)


def _exclusion_note(summary: PredictiveSummary) -> str:
    """How many chains are excluded, and why."""
    count, total = int(summary.divergent.sum()), len(summary.divergent)
    never_moved = int(summary.stuck.sum())
    reasons = [f"{n:,} {why}" for n, why in ((count - never_moved, NOT_FINITE), (never_moved, NEVER_MOVED)) if n]
    return f"{count:,} of {total:,} chains excluded: {', '.join(reasons)}" if count else ""
