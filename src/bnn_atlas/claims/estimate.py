"""The mean of the values that answer a claim, the difference of two means, and their errors."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bnn_atlas.claims.measured import Measured
from bnn_atlas.claims.plan import ClaimedStudy
from bnn_atlas.claims.sides import Repetition
from bnn_atlas.metrics.formulas.averages import error_of_mean
from bnn_atlas.metrics.formulas.repetitions import Repetitions, over_repetitions

PAIRED_ROWS = "rows, paired"


class Estimate(NamedTuple):
    """Mean of a value over `repetitions`, with its spread as far as known."""

    value: float
    repetitions: int
    sd: float | None
    """Standard deviation over repetitions (n - 1); None for one."""
    standard_error: float | None
    """Standard error over `over`, corrected for rows that splits share."""
    over: str = ""
    """`seeds`, `splits`, `rows`, `chains`; `rows, paired` for a difference on the same test rows."""
    monte_carlo_error: float | None = None
    """How much the value would vary with other chains of the same runs."""


def estimate(rows: Sequence[Repetition], study: ClaimedStudy, measured: Measured) -> Estimate:
    """Mean, standard deviation and standard error over repetitions; a single value has its row's own error."""
    found = [row.monte_carlo_error for row in rows]
    errors = [error for error in found if error is not None]
    monte_carlo = math.hypot(*errors) / len(rows) if len(errors) == len(rows) else None
    if len(rows) == 1:
        row = rows[0]
        return Estimate(row.value, 1, None, row.standard_error, row.over, monte_carlo)
    places = {str(number): row for number, row in enumerate(rows)}
    found_mean = _mean(np.array([row.value for row in rows]), places, study, measured)
    return found_mean._replace(monte_carlo_error=monte_carlo)


def difference(
    own: Sequence[Repetition], other: Sequence[Repetition], study: ClaimedStudy, measured: Measured
) -> Estimate:
    """Mean of `own` minus mean of `other`.

    If both sides have the same seeds and splits, the spread is the spread of the differences; otherwise the standard
    error is sqrt(se_own^2 + se_other^2) of two independent means. A single difference of two means over the same test
    rows is paired by row, sd(d) / sqrt(n), if the values of single rows are known; otherwise it has no error.
    """
    a, b = _by_repetition(own, study), _by_repetition(other, study)
    if a.keys() == b.keys() and len(a) == len(own) and len(b) == len(other):
        gaps = np.array([a[key].value - b[key].value for key in a])
        if len(a) == 1:
            error = _paired_error(own[0], other[0], measured)
            return Estimate(float(gaps[0]), 1, None, error, PAIRED_ROWS if error is not None else "")
        return _mean(gaps, a, study, measured)
    first, second = estimate(own, study, measured), estimate(other, study, measured)
    error = None
    if first.sd is not None and second.sd is not None:
        error = math.hypot(first.standard_error or 0.0, second.standard_error or 0.0)
    return Estimate(first.value - second.value, min(len(own), len(other)), None, error, first.over if error else "")


def _paired_error(own: Repetition, other: Repetition, measured: Measured) -> float | None:
    """Standard error of the difference of two means over the same test rows; None if single rows are unknown.

    Rows of other sets (`dataset/set`) are never known.
    """
    if (own.split, own.dataset) != (other.split, other.dataset) or "/" in own.dataset:
        return None
    sides = [measured.row_values(row.run, row.split, row.metric, row.chains) for row in (own, other)]
    if sides[0] is None or sides[1] is None or sides[0].shape != sides[1].shape:
        return None
    return error_of_mean(sides[0] - sides[1])


def _mean(values: np.ndarray, rows: Mapping[str, Repetition], study: ClaimedStudy, measured: Measured) -> Estimate:
    """Estimate from the values of some rows, in the same order."""
    places = [f"{study.runs[row.run].point.get('split.seed', '')}/{row.split}" for row in rows.values()]
    overlaps = [measured.overlaps.get((row.run, row.split), math.nan) for row in rows.values()]
    pooled = over_repetitions(values, Repetitions(places, float(np.mean(overlaps))))
    if not math.isfinite(pooled.mean):
        return Estimate(pooled.mean, pooled.n, None, None)
    error = None if math.isnan(pooled.standard_error) else pooled.standard_error
    return Estimate(pooled.mean, pooled.n, pooled.sd, error, pooled.over)


def _by_repetition(rows: Sequence[Repetition], study: ClaimedStudy) -> dict[str, Repetition]:
    """Rows by the split and the fields of the grid in which the runs of a side differ."""
    points = {row.run: {k: json.dumps(v) for k, v in _point(row, study).items()} for row in rows}
    fields = sorted({field for point in points.values() for field in point})
    varying = [field for field in fields if len({point.get(field) for point in points.values()}) > 1]
    return {
        " ".join((str(row.split), *(f"{field}={points[row.run].get(field)}" for field in varying))): row for row in rows
    }


def _point(row: Repetition, study: ClaimedStudy) -> Mapping[str, object]:
    """Grid point of a row's run; empty for a figure."""
    return study.runs[row.run].point if row.run in study.runs else {}
