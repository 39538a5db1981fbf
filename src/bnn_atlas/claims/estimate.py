"""The mean of the values that answer a claim, the difference of two means, and the parts of their errors."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bnn_atlas.claims.measured import Measured
from bnn_atlas.claims.plan import ClaimedStudy
from bnn_atlas.claims.sides import Repetition
from bnn_atlas.metrics.formulas.averages import error_of_mean
from bnn_atlas.metrics.formulas.repetitions import SPLITS, Repetitions, over_repetitions

PAIRED_ROWS, UNPAIRED = "rows, paired", "rows, not paired"
FINITE = "finite draws"
COUNTED = re.compile(r"mean of (\d+) (orders|pairs of networks|seeds|splits|chains)")
"""Note of a value whose standard error is over the named items; random orders share test rows, so the error over rows
is included."""
FEWEST = 3
"""An error of 0 is known only from this many equal repetitions or more."""
ROWS = ("", "rows")
"""Names under which the standard error of a table row counts as an error over test rows."""


class Part(NamedTuple):
    """One of the errors whose squares are added."""

    of: str
    """The source of the error. `rows`, `rows, paired`, `orders`, `seeds`, `splits`, `chains`, `draws`: the error falls
    as 1 / sqrt(n) with their number n. `rows, not paired`: two values on the same rows, an overestimate. `published`,
    `reading`: errors of the published number. `finite draws`: a bias that falls as 1 / n; it has a sign and is left out
    of the sum of squares."""
    error: float
    number: int = 0
    """The current n; 0 for errors of the published number, for rows that are not paired, and for a bias that comes only
    from the draws of the reference."""


class Estimate(NamedTuple):
    """Mean of a value over `repetitions`, with the errors that are known."""

    value: float
    repetitions: int
    sd: float | None
    """Standard deviation over repetitions (n - 1); None for a single repetition."""
    standard_error: float | None
    """Standard error over `over`, corrected for rows that splits share."""
    over: str = ""
    """`seeds`, `splits`, `rows`, `chains`; `rows, paired` or `rows, not paired` for a difference on the same rows."""
    monte_carlo_error: float | None = None
    """Monte Carlo error: how much the value would vary with other chains of the same runs."""
    at_infinity: float | None = None
    """The value with infinitely many draws; None if not known."""
    infinity_error: float = 0.0
    """Standard error that the extrapolation to infinitely many draws adds to that of the value."""
    parts: tuple[Part, ...] = ()

    @property
    def error(self) -> float | None:
        """Root of the sum of squares of all parts except the bias; None if no part is known."""
        return total(self.parts)


def total(parts: Sequence[Part]) -> float | None:
    """Root of the sum of squares of all errors except the bias of finite draws; None if no error is known."""
    errors = [part.error for part in parts if part.of != FINITE]
    return math.hypot(*errors) if errors else None


def is_same(row: Repetition) -> bool:
    """Whether the error of a row is 0 because fewer than `FEWEST` repetitions are equal by chance, so not known."""
    counted = COUNTED.match(row.note)
    return counted is not None and int(counted[1]) < FEWEST and row.standard_error == 0


def estimate(rows: Sequence[Repetition], study: ClaimedStudy, measured: Measured, same_rows: bool = False) -> Estimate:
    """Mean, spread and errors of the rows of one side of a claim.

    A single row has an error over test rows and a Monte Carlo error. Several repetitions have the error of their mean,
    which contains the Monte Carlo error; for seeds on the same test rows, the error over these rows is added. With
    `same_rows`, errors over test rows do not count.
    """
    found = [row.monte_carlo_error for row in rows]
    errors = [error for error in found if error is not None]
    monte_carlo = math.hypot(*errors) / len(rows) if len(errors) == len(rows) else None
    shifts = [row.at_infinity - row.value for row in rows if row.at_infinity is not None]
    of_rows = [row.standard_error for row in rows if row.standard_error is not None and row.over in ROWS]
    if len(rows) == 1:
        row = rows[0]._replace(standard_error=None) if is_same(rows[0]) else rows[0]
        counted = COUNTED.match(row.note)
        of_rows = [] if counted else of_rows
        over = counted[2] if counted else row.over
        whole = Estimate(row.value, 1, None, row.standard_error, over or "rows" * bool(of_rows), monte_carlo)
        parts = [Part("rows", of_rows[0], measured.test_rows(row.run, row.split))] if of_rows and not same_rows else []
        if row.standard_error is not None and not of_rows:
            parts.append(Part(over, row.standard_error, int(counted[1]) if counted else row.chains))
        elif monte_carlo is not None:
            parts.append(_of_chains(monte_carlo, row))
    else:
        places = {str(number): row for number, row in enumerate(rows)}
        whole = _mean(np.array([row.value for row in rows]), places, study, measured)
        parts = _repeated(whole, monte_carlo, rows, same_rows)
        if whole.over != SPLITS and len(of_rows) == len(rows) and not same_rows:
            parts.append(Part("rows", float(np.mean(of_rows)), measured.test_rows(rows[0].run, rows[0].split)))
    infinity = None
    if shifts and math.isfinite(whole.value):
        shift = sum(shifts) / len(rows)
        infinity = whole.value + shift
        parts.append(Part(FINITE, abs(shift), _fewest(rows)))
    added = math.hypot(*(row.infinity_error or 0.0 for row in rows)) / len(rows) if infinity is not None else 0.0
    return whole._replace(monte_carlo_error=monte_carlo, at_infinity=infinity, infinity_error=added, parts=tuple(parts))


def difference(
    own: Sequence[Repetition],
    other: Sequence[Repetition],
    study: ClaimedStudy,
    measured: Measured,
    same_rows: bool = False,
) -> Estimate:
    """Mean of `own` minus mean of `other`.

    If both sides have the same seeds and splits, the spread is computed from the differences. Means over the same test
    rows are paired by row, sd(d) / sqrt(n), if the values of single rows are known; otherwise a single difference has
    the errors of two independent means, which overestimates the error on the same rows. Monte Carlo errors are
    independent. A finite number of draws biases both sides alike, so only the bias of the difference counts. This bias
    is unknown if one side is an average over draws whose value at infinitely many draws is unknown.
    """
    sides = [estimate(rows, study, measured, same_rows) for rows in (own, other)]
    a, b = _by_repetition(own, study), _by_repetition(other, study)
    infinity = None
    unbiased = [all(row.draws == 1 for row in rows) for rows in (own, other)]
    unknown = [side.at_infinity is None for side in sides]
    if not all(unknown) and all(one or not lacks for one, lacks in zip(unbiased, unknown, strict=True)):
        first, second = (side.value if side.at_infinity is None else side.at_infinity for side in sides)
        infinity = first - second
    independent = [part for side in sides for part in side.parts if part.of != FINITE]
    if a.keys() == b.keys() and len(a) == len(own) and len(b) == len(other):
        gaps = np.array([a[key].value - b[key].value for key in a])
        error = None if same_rows else _paired_error([(a[key], b[key]) for key in a], measured)
        if error is None and len(a) == 1 and not same_rows:
            error = measured.elpd_error(own[0], other[0])
        paired = [] if error is None else [Part(PAIRED_ROWS, *error)]
        if len(a) == 1:
            found = Estimate(float(gaps[0]), 1, None, error[0] if error else None, PAIRED_ROWS if error else "")
            (one, two), kept = next(iter((a[key], b[key]) for key in a)), independent
            both = all(any(part.of == "rows" and part.error for part in side.parts) for side in sides)
            if paired or (both and (one.split, one.dataset) == (two.split, two.dataset)):
                kept = [part._replace(of=UNPAIRED, number=0) if part.of == "rows" else part for part in independent]
            parts = [part for part in kept if part.of != UNPAIRED or not paired] + paired
            if any(part.of == UNPAIRED for part in parts):
                found = found._replace(over=UNPAIRED)
        else:
            found = _mean(gaps, a, study, measured)
            errors = [side.monte_carlo_error for side in sides]
            monte_carlo = None if None in errors else math.hypot(*(one or 0.0 for one in errors))
            parts = _repeated(found, monte_carlo, own, same_rows) + (paired if found.over != SPLITS else [])
    else:
        value = sides[0].value - sides[1].value
        found = Estimate(value, min(len(own), len(other)), None, None)
        parts = independent
        if parts:
            found = found._replace(standard_error=total(parts), over=max(parts, key=lambda part: part.error).of)
    if infinity is not None:
        parts = [*parts, Part(FINITE, abs(infinity - found.value), _fewest([*own, *other]))]
    added = math.hypot(*(side.infinity_error for side in sides)) if infinity is not None else 0.0
    return found._replace(at_infinity=infinity, infinity_error=added, parts=_joined(parts))


def _fewest(rows: Sequence[Repetition]) -> int:
    """The smallest number of draws in any row's average; 0 for optima, where only the reference has draws."""
    return min((row.draws for row in rows if row.draws > 1), default=0)


def _repeated(found: Estimate, monte_carlo: float | None, rows: Sequence[Repetition], same_rows: bool) -> list[Part]:
    """The error over repetitions; on the paper's own splits, only the Monte Carlo error remains."""
    if same_rows and found.over == SPLITS and monte_carlo is not None:
        return [_of_chains(monte_carlo, rows[0])]
    if found.standard_error is not None:
        return [Part(found.over, found.standard_error, found.repetitions)]
    return [] if monte_carlo is None else [_of_chains(monte_carlo, rows[0])]


def _of_chains(error: float, row: Repetition) -> Part:
    return Part("chains", error, row.chains) if row.chains > 1 else Part("draws", error, row.draws)


def _joined(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Merge the parts that are over the same thing: root of the sum of squares, with the smaller n."""
    kinds = dict.fromkeys(part.of for part in parts)
    same = [[part for part in parts if part.of == kind] for kind in kinds]
    return tuple(Part(s[0].of, math.hypot(*(p.error for p in s)), min(p.number for p in s)) for s in same)


def _paired_error(pairs: Sequence[tuple[Repetition, Repetition]], measured: Measured) -> tuple[float, int] | None:
    """Standard error of the mean difference over shared test rows, and the number of rows; None if they are unknown.

    The values of single rows are never known for other evaluation sets (`dataset/set`).
    """
    differences = []
    for own, other in pairs:
        if (own.split, own.dataset) != (other.split, other.dataset) or "/" in own.dataset:
            return None
        sides = [measured.row_values(row.run, row.split, row.metric, row.chains) for row in (own, other)]
        if sides[0] is None or sides[1] is None or sides[0].shape != sides[1].shape:
            return None
        differences.append(sides[0] - sides[1])
    if len({(own.split, values.shape) for (own, _), values in zip(pairs, differences, strict=True)}) > 1:
        return None
    mean = np.mean(differences, axis=0)
    error = error_of_mean(mean)
    return None if error is None else (error, len(mean))


def _mean(values: np.ndarray, rows: Mapping[str, Repetition], study: ClaimedStudy, measured: Measured) -> Estimate:
    """Estimate from the values of some rows, in the same order."""
    places = [f"{study.runs[row.run].point.get('split.seed', '')}/{row.split}" for row in rows.values()]
    overlaps = [measured.overlaps.get((row.run, row.split), math.nan) for row in rows.values()]
    pooled = over_repetitions(values, Repetitions(places, float(np.mean(overlaps))))
    if not math.isfinite(pooled.mean):
        return Estimate(pooled.mean, pooled.n, None, None)
    equal = pooled.standard_error == 0 and pooled.n < FEWEST
    error = None if equal or math.isnan(pooled.standard_error) else pooled.standard_error
    return Estimate(pooled.mean, pooled.n, pooled.sd, error, pooled.over)


def _by_repetition(rows: Sequence[Repetition], study: ClaimedStudy) -> dict[str, Repetition]:
    """Rows keyed by split and by the grid fields in which the runs of a side differ."""
    points = {row.run: {k: json.dumps(v) for k, v in _point(row, study).items()} for row in rows}
    fields = sorted({field for point in points.values() for field in point})
    varying = [field for field in fields if len({point.get(field) for point in points.values()}) > 1]
    return {
        " ".join((str(row.split), *(f"{field}={points[row.run].get(field)}" for field in varying))): row for row in rows
    }


def _point(row: Repetition, study: ClaimedStudy) -> Mapping[str, object]:
    """Grid point of a row's run; empty for a figure."""
    return study.runs[row.run].point if row.run in study.runs else {}
