"""The values that a metric table holds for one side of a claim, and their mean over repetitions."""

import difflib
import json
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from bnn_atlas.claims.plan import ClaimedStudy
from bnn_atlas.config.claims import Side

EXCLUDED_SHARE = 0.05
"""Share of a run's chains that may be excluded where a claim is about all of them: the rest is another sample."""


class ClaimError(ValueError):
    """A claim does not say which row of the table it means."""


class Repetition(NamedTuple):
    """The row that answers for one run and split."""

    run: str
    split: int
    dataset: str
    metric: str
    chains: int
    excluded: int
    """Chains of the run that are missing from a row for all its chains."""
    draws: int
    value: float
    standard_error: float | None
    note: str


class Problem(NamedTuple):
    """Why a side is not answered."""

    reason: str
    needed: str


class Answer(NamedTuple):
    """The rows of one side, as far as the table has them."""

    rows: tuple[Repetition, ...]
    problem: Problem | None


class Estimate(NamedTuple):
    """Mean of a value over `repetitions`, with what is known of its spread."""

    value: float
    repetitions: int
    sd: float | None
    """Standard deviation over repetitions (n - 1); None for one."""
    standard_error: float | None
    """sd / sqrt(n); for one repetition the row's own, if it has one."""


def answer(table: pd.DataFrame | None, side: Side, study: ClaimedStudy, least: int = 1) -> Answer:
    """Rows of `table` for one side of a claim: one for each of its runs and their splits.

    A claim about as many chains as a run has is answered by all that were not excluded, if those are no more than
    `EXCLUDED_SHARE`. The problem is the first of a run that this scale does not have, a table, metric or number of
    chains or draws that is missing, too many excluded chains, and a run on another data set than the paper's; a scale
    that is named as the way out has `least` chains or more. Raises ClaimError where several rows fit.
    """
    least = max(least, side.chains or 1)
    rows: list[Repetition] = []
    problems: list[Problem] = []
    for name in side.runs:
        runs = study.runs_of(name)
        if not runs:
            problems.append(Problem(f"scale {study.scale} does not run '{name}'", _scales(study, name, least)))
        for run in runs:
            if change := study.runs[run].other_data:
                problems.append(
                    Problem(f"scale {study.scale} runs it on other data ({change})", _scales(study, name, least))
                )
            for split in range(study.runs[run].splits):
                found = _row(table, side, study, run, split, least)
                if isinstance(found, Repetition):
                    rows.append(found)
                else:
                    problems.append(found)
    return Answer(tuple(dict.fromkeys(rows)), problems[0] if problems else None)


def estimate(rows: Sequence[Repetition]) -> Estimate:
    """Mean, standard deviation and standard error over repetitions; of one, the value with the row's own error."""
    if len(rows) == 1:
        return Estimate(rows[0].value, 1, None, rows[0].standard_error)
    return _mean(np.array([row.value for row in rows]))


def difference(own: Sequence[Repetition], other: Sequence[Repetition], study: ClaimedStudy) -> Estimate:
    """Mean of `own` minus mean of `other`.

    Where both sides have the same seeds and splits, the spread is that of the differences; else the standard error is
    sqrt(se_own^2 + se_other^2) of two independent means. Values of one repetition give no error of their difference:
    their own ones come from the same test rows.
    """
    a, b = _by_repetition(own, study), _by_repetition(other, study)
    if a.keys() == b.keys() and len(a) == len(own) and len(b) == len(other):
        if len(a) == 1:
            return Estimate(own[0].value - other[0].value, 1, None, None)
        return _mean(np.array([a[key] - b[key] for key in a]))
    first, second = estimate(own), estimate(other)
    error = None
    if first.sd is not None and second.sd is not None:
        error = math.hypot(first.standard_error or 0.0, second.standard_error or 0.0)
    return Estimate(first.value - second.value, min(len(own), len(other)), None, error)


def _row(
    table: pd.DataFrame | None, side: Side, study: ClaimedStudy, run: str, split: int, least: int
) -> Repetition | Problem:
    """The row of one run and split, or why there is none."""
    if table is None:
        return Problem(f"there is no table of the study {study.name}", "its table: snakemake claims makes it")
    dataset = side.dataset or study.runs[run].dataset
    where = f"run '{run}', split {split}"
    measured = table[(table["run"] == run) & (table["split"] == split) & (table["dataset"] == dataset)]
    rows = measured[measured["metric"] == side.metric]
    if rows.empty:
        return _no_metric(f"{where} has no metric '{side.metric}' for '{dataset}'", side.metric, measured)
    planned = study.runs[run].chains
    excluded = 0
    for column, wanted in (("chains", side.chains), ("draws", side.draws)):
        counts = sorted(rows[column].unique())
        if column == "chains" and wanted in (None, planned):
            excluded = max(planned - int(counts[-1]), 0)
            wanted = None if excluded else wanted
            if excluded > EXCLUDED_SHARE * planned:
                kept = planned - int(EXCLUDED_SHARE * planned)
                needed = f"a run that keeps at least {kept:,} of its {planned:,} chains"
                return Problem(f"{where}: {excluded:,} of {planned:,} chains were excluded", needed)
        if wanted is not None and wanted not in counts:
            needed = _scales(study, run, max(wanted, least)) if column == "chains" else f"{wanted:,} {column}"
            at = ", ".join(f"{count:,}" for count in counts[:2]) + (f", ..., {counts[-1]:,}" if len(counts) > 2 else "")
            return Problem(f"{where} has no '{side.metric}' at {wanted:,} {column}, only at {at}", needed)
        rows = rows[rows[column] == (counts[-1] if wanted is None else wanted)]
    if len(rows) > 1:
        raise ClaimError(
            f"{where}: {len(rows)} rows of '{side.metric}' for '{dataset}' fit a claim; it means one value"
        )
    row = rows.iloc[0]
    error = None if pd.isna(row["standard_error"]) else float(row["standard_error"])
    return Repetition(
        run=run,
        split=split,
        dataset=dataset,
        metric=side.metric,
        chains=int(row["chains"]),
        excluded=excluded,
        draws=int(row["draws"]),
        value=float(row["value"]),
        standard_error=error,
        note=row["note"],
    )


def _no_metric(reason: str, metric: str, measured: pd.DataFrame) -> Problem:
    """A metric that the rows of a run do not have, and the one that may be meant."""
    close = difflib.get_close_matches(metric, sorted(measured["metric"].unique()), n=1, cutoff=0.8)
    if not close:
        return Problem(reason, "a run that measures it")
    return Problem(f"{reason}; did you mean '{close[0]}'?", "a metric of the table, or a run that measures this one")


def _scales(study: ClaimedStudy, name: str, chains: int) -> str:
    """Which scales would answer."""
    found = study.scales_with(name, chains)
    if not found:
        return f"a run with {chains:,} chains or more" if chains > 1 else "a run on the paper's data set"
    return f"scale {' or '.join(found)}: snakemake claims --config scale={found[0]}"


def _mean(values: np.ndarray) -> Estimate:
    mean = float(values.mean())
    if not math.isfinite(mean):
        return Estimate(mean, len(values), None, None)
    sd = float(values.std(ddof=1))
    return Estimate(mean, len(values), sd, sd / math.sqrt(len(values)))


def _by_repetition(rows: Sequence[Repetition], study: ClaimedStudy) -> dict[tuple[str, ...], float]:
    """Values by the split and the fields of the grid in which the runs of a side differ."""
    points = {row.run: {k: json.dumps(v) for k, v in study.runs[row.run].point.items()} for row in rows}
    fields = sorted({field for point in points.values() for field in point})
    varying = [field for field in fields if len({point.get(field) for point in points.values()}) > 1]
    return {
        (str(row.split), *(f"{field}={points[row.run].get(field)}" for field in varying)): row.value for row in rows
    }
