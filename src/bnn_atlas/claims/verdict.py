"""Verdicts on claims, from numbers only.

A claim is judged by the mean over its repetitions (seeds and splits). Their spread is shown and does not enter; how
far the mean is inside or outside the limit is given beside it, so that a reader sees a close call. A value that is not
finite never passes, and what was not measured is not run.
"""

import math
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from bnn_atlas.claims.answer import Answer, Estimate, Problem, Repetition, answer, difference, estimate
from bnn_atlas.claims.plan import ClaimedStudy
from bnn_atlas.config.claims import COMPARISONS, Claim
from bnn_atlas.metrics.tables import read_table


class Verdict(StrEnum):
    """What the numbers say of a claim."""

    REPRODUCED = "reproduced"
    REDUCED = "reproduced at reduced scale"
    FAILED = "not reproduced"
    NOT_RUN = "not run"


class Judgement(NamedTuple):
    """A claim with its answer."""

    study: ClaimedStudy
    name: str
    verdict: Verdict
    reason: str
    """Why it is not reproduced or not run; else empty."""
    needed: str
    """What would answer a claim that is not run; else empty."""
    own: Estimate | None
    """The claim's value; None where it is not run."""
    other: Estimate | None
    """The value that a comparison compares with."""
    difference: Estimate | None
    """Own minus other."""
    margin: float | None
    """How far inside the limit (positive) or outside (negative); None without finite values."""
    reductions: dict[str, tuple[str, ...]]
    """Entry of the study's file -> what this scale reduced; entries with nothing reduced are left out."""
    rows: dict[str, tuple[Repetition, ...]]
    """Side (`value`, `compared with`) -> the rows of the table that were found for it."""

    @property
    def claim(self) -> Claim:
        """The claim as it stands in config/claims."""
        return self.study.claims.claims[self.name]

    @property
    def paper(self) -> str:
        """Citation of the paper that makes the claim."""
        return self.claim.paper or self.study.claims.paper


def judge_all(studies: Iterable[ClaimedStudy], tables: Mapping[str, str | Path]) -> list[Judgement]:
    """Judge every claim of every study, in order; `tables` has the file of a study's metric table by its name.

    A study without a table has its claims not run.
    """
    found = []
    for study in studies:
        path = tables.get(study.name)
        table = None
        if path is not None and Path(path).is_file():
            table = read_table(path)
            table = table[table["run"].isin(list(study.runs))]
        found += [judge(name, study, table) for name in study.claims.claims]
    return found


def judge(name: str, study: ClaimedStudy, table: pd.DataFrame | None) -> Judgement:
    """Judge one claim of a study by its metric table; None where there is none.

    `reproduced` where the relation holds and none of the runs is reduced, `reproduced at reduced scale` where one is,
    `not reproduced` where it does not hold or a value is not finite, `not run` where a run, metric or number of chains
    is missing, a run uses another data set than the paper, or both sides of a comparison are the same row. Chains that
    were run and excluded are not missing, unless they are more than `answer.EXCLUDED_SHARE`.
    """
    claim = study.claims.claims[name]
    least = _least_chains(claim)
    own = answer(table, claim.own, study, least)
    other = answer(table, claim.other, study, least) if claim.other else None
    rows = {"value": own.rows} | ({"compared with": other.rows} if other else {})
    used = {run for names in claim.sides.values() for wanted in names.runs for run in study.runs_of(wanted)}
    plans = [study.runs[run] for run in study.runs if run in used]
    reductions = {plan.entry: plan.reductions for plan in plans if plan.reductions}

    open_ = Judgement(study, name, Verdict.NOT_RUN, "", "", None, None, None, None, reductions, rows)
    if problem := own.problem or (other and (other.problem or _same_row(own, other, study, least))):
        return open_._replace(reason=problem.reason, needed=problem.needed)
    value = compared = estimate(own.rows)
    judged = open_._replace(own=value)
    if other:
        compared = difference(own.rows, other.rows, study)
        judged = judged._replace(other=estimate(other.rows), difference=compared)
    for row in (*own.rows, *(other.rows if other else ())):
        if not math.isfinite(row.value):
            where = f"{row.metric} of run '{row.run}', split {row.split} is {row.value}"
            return judged._replace(verdict=Verdict.FAILED, reason=where)
    margin, holds = _relation(claim, compared.value)
    if not holds:
        return judged._replace(verdict=Verdict.FAILED, margin=margin, reason=f"outside by {abs(margin):.3g}")
    return judged._replace(verdict=Verdict.REDUCED if reductions else Verdict.REPRODUCED, margin=margin)


def _relation(claim: Claim, value: float) -> tuple[float, bool]:
    """How far the value, or the difference of the two, is inside the claim's limit, and whether the claim holds."""
    bound = claim.bound or 0.0
    match claim.relation:
        case "equals":
            margin = (claim.tolerance or 0.0) - abs(value - (claim.paper_value or 0.0))
        case "at_most":
            margin = bound - value
        case "at_least":
            margin = value - bound
        case "less_than":
            margin = -value - bound
        case "greater_than":
            margin = value - bound
        case "changes_less_than":
            margin = bound - abs(value)
    strict = claim.relation in COMPARISONS
    return margin, margin > 0 if strict else margin >= 0


def _least_chains(claim: Claim) -> int:
    """Chains that a run needs where both sides of a claim take rows of it: all must be more than those of a part."""
    own, other = claim.own, claim.other
    if other is None or not set(own.runs) & set(other.runs):
        return 1
    named = [side.chains for side in (own, other) if side.chains is not None]
    return max(named, default=1) + (len(named) == 1)


def _same_row(own: Answer, other: Answer, study: ClaimedStudy, least: int) -> Problem | None:
    """A comparison of a measurement with itself would hold, or fail, whatever was measured."""
    compared = {_measured(row) for row in other.rows}
    for row in own.rows:
        if _measured(row) in compared:
            more = study.scales_with(row.run, max(least, row.chains + row.excluded + 1))
            needed = f"scale {' or '.join(more)}: snakemake claims --config scale={more[0]}" if more else "more chains"
            return Problem(
                f"run '{row.run}' has {row.chains:,} chains of {row.draws:,} draws in all: both values are the same "
                "measurement",
                needed,
            )
    return None


def _measured(row: Repetition) -> tuple[str, int, str, str, int, int]:
    """What a row measures; the cumulative LPPD of all chains and draws is the LPPD."""
    metric = "lppd" if row.metric.startswith("lppd_cumulative_") else row.metric
    return row.run, row.split, row.dataset, metric, row.chains, row.draws
