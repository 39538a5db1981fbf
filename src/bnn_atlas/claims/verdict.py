"""Verdicts on claims, from numbers only.

A claim is judged by the mean over its repetitions (seeds and splits). Their spread is shown but does not enter; the
distance of the mean from the limit is shown as well, so that a reader sees a close call. A value that is not finite
never passes. A claim is "not run" if something was not measured, or if it leans on a reference that has not converged.
It is "not tested" if the warm starts alone would give the same verdict, if it leans on a referee that did not mix, or
if it depends on a fit whose noise parameter did not converge. docs/verdicts.md has the order.
"""

import math
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from bnn_atlas.claims.answer import answer, row_of
from bnn_atlas.claims.estimate import Estimate, difference, estimate
from bnn_atlas.claims.measured import Measured
from bnn_atlas.claims.plan import ClaimedStudy
from bnn_atlas.claims.sides import Answer, Problem, Repetition
from bnn_atlas.config.claims.claim import COMPARISONS, Claim, Side
from bnn_atlas.config.metrics import OF_CHAINS, OF_REFEREE, OF_ROWS
from bnn_atlas.metrics.judgement.checks import NOISES
from bnn_atlas.metrics.judgement.trust import Trust, reference_word, worst

CURVES = {"lppd": "lppd_cumulative_chains"}
"""Metric of all chains -> the same metric by number of chains."""


class Verdict(StrEnum):
    """What the numbers say about a claim."""

    REPRODUCED = "reproduced"
    REDUCED = "reproduced at reduced scale"
    FAILED = "not reproduced"
    NOT_TESTED = "not tested"
    NOT_RUN = "not run"


HOLDS = (Verdict.REPRODUCED, Verdict.REDUCED)


class Judgement(NamedTuple):
    """A claim with its answer."""

    study: ClaimedStudy
    name: str
    verdict: Verdict
    reason: str
    """Why it is not reproduced, not tested or not run; else empty."""
    needed: str
    """What would settle a claim that is not tested or not run; else empty."""
    own: Estimate | None
    """The claim's value; None if it was not measured."""
    other: Estimate | None
    """The other value of a comparison."""
    difference: Estimate | None
    """Own minus other."""
    bound: float | None
    """The claim's bound; None for a claim without one."""
    margin: float | None
    """How far inside the limit (positive) or outside (negative); None without finite values."""
    reductions: dict[str, tuple[str, ...]]
    """Entry of the study's file -> what this scale reduces; only entries with reductions."""
    rows: dict[str, tuple[Repetition, ...]]
    """Side (`value`, `compared with`) -> its rows of the table."""
    trust: Trust | None = None
    """The worst trust of the runs that answer; None if no run does."""

    @property
    def claim(self) -> Claim:
        """The claim as written in config/claims."""
        return self.study.claims.claims[self.name]

    @property
    def paper(self) -> str:
        """Citation of the paper that makes the claim."""
        return self.claim.paper or self.study.claims.paper


def judge_all(
    studies: Iterable[ClaimedStudy],
    tables: Mapping[str, str | Path],
    figures: Mapping[str, str | Path] | None = None,
    predictions: Mapping[str, str | Path] | None = None,
) -> list[Judgement]:
    """Judge every claim of every study, in order.

    Args:
        studies: the studies with their claims.
        tables: study -> file of its metric table; without a table all claims of a study are "not run".
        figures: `study/figure` -> PNG, with the CSV file next to it.
        predictions: `study/run/split<n>` -> predictions of the test rows, to pair differences by row.
    """
    found = []
    for study in studies:
        files = {
            kind: {key.partition("/")[2]: path for key, path in given.items() if key.startswith(f"{study.name}/")}
            for kind, given in (("figures", figures or {}), ("predictions", predictions or {}))
        }
        measured = Measured.read(tables.get(study.name), study.runs, **files)
        found += [judge(name, study, measured) for name in study.claims.claims]
    return found


def judge(name: str, study: ClaimedStudy, measured: Measured | pd.DataFrame | None) -> Judgement:
    """Judge one claim of a study by its measurements (or its metric table alone; None if there is none).

    - `not run`: a run, metric, figure or number of chains is missing; a run uses another data set than the paper; both
      sides of a comparison are the same row; the number needs the full size and a run is reduced; or the claim leans on
      a reference that has not converged (its numbers are kept).
    - `not tested`: a value leans on a referee that did not mix, or on a fit whose noise parameter did not converge; a
      claim that has to hold first does not; the standard errors that it asks for are unknown, or the limit is within
      them; the claim leans only on its own runs and their Monte Carlo error is larger than the distance from the limit;
      or the warm starts alone give the same verdict, with values that the claim cannot distinguish from the chains'.
    - `not reproduced`: the relation does not hold, or a value is not finite.
    - `reproduced at reduced scale`: it holds and a run is reduced; `reproduced`: it holds and no run is.

    Excluded chains count as missing only if they are more than `answer.EXCLUDED_SHARE`.
    """
    if not isinstance(measured, Measured):
        measured = Measured(measured)
    claim = study.claims.claims[name]
    least = _least_chains(claim)
    own = answer(measured, claim, claim.own, study, least)
    other = answer(measured, claim, claim.other, study, least) if claim.other else None
    rows = {"value": own.rows} | ({"compared with": other.rows} if other else {})
    behind = study.runs_behind(claim)
    plans = [study.runs[run] for run in study.runs if run in behind]
    reductions = {plan.entry: plan.reductions for plan in plans if plan.reductions}
    trusts = [one for (run, _), one in measured.trusts.items() if run in behind]

    open_ = Judgement(study, name, Verdict.NOT_RUN, "", "", None, None, None, claim.bound, None, reductions, rows)
    if problem := own.problem or (other and (other.problem or _same_row(own, other, study, least))):
        return open_._replace(reason=problem.reason, needed=problem.needed)
    if claim.full_size and reductions:
        reason = f"the number is one of the paper's settings, and this scale reduces {', '.join(reductions)}"
        return open_._replace(reason=reason, needed=f"scale paper: {study.command(sorted(behind), 'paper')}")
    value = compared = estimate(own.rows, study, measured)
    of_chains = trusts and claim.own.metric not in OF_ROWS
    judged = open_._replace(own=value, trust=worst(trusts) if of_chains else None)
    if other:
        compared = difference(own.rows, other.rows, study, measured)
        judged = judged._replace(other=estimate(other.rows, study, measured), difference=compared)
    every = (*own.rows, *(other.rows if other else ()))
    words = [*(_unconverged(row, study, measured) for row in every), *_unconverged_behind(claim, study, measured)]
    if word := next(filter(None, words), ""):
        return judged._replace(reason=word, needed="a reference whose chains have converged")
    # A claim that compares both is itself about convergence.
    about_convergence = {row.metric for row in every} == set(NOISES)
    unsettled = [why for (run, _), why in measured.unsettled_noises.items() if run in behind and not about_convergence]
    if why := next(iter(unsettled), ""):
        return judged._replace(verdict=Verdict.NOT_TESTED, reason=why, needed="a fit whose noise has converged")
    of_referee = (measured.unmixed_referees.get((row.run, row.split)) for row in every if row.metric in OF_REFEREE)
    if why := next(filter(None, of_referee), ""):
        return judged._replace(verdict=Verdict.NOT_TESTED, reason=why, needed="a referee whose chains have mixed")
    for row in every:
        if not math.isfinite(row.value):
            where = f"{row.metric} of run '{row.run}', split {row.split} is {row.value}"
            return judged._replace(verdict=Verdict.FAILED, reason=where)
    if claim.given is not None and (first := judge(claim.given, study, measured)).verdict not in HOLDS:
        reason = f"{claim.given}, which has to hold first, is {first.verdict}"
        return judged._replace(verdict=Verdict.NOT_TESTED, reason=reason, needed=f"that {claim.given} holds")
    if claim.errors is not None and compared.standard_error is None:
        needed = "several splits, or predictions of both runs for the same rows"
        reason = "the standard error of the difference, which it needs, is not known"
        return judged._replace(verdict=Verdict.NOT_TESTED, reason=reason, needed=needed)
    margin, holds = _relation(claim, compared.value)
    judged = judged._replace(margin=margin)
    if same := _as_from_the_starts(claim, rows, study, measured, judged, holds):
        needed = "chains that leave their warm starts, or a claim that can tell them apart"
        return judged._replace(verdict=Verdict.NOT_TESTED, reason=same, needed=needed)
    unsure = value.monte_carlo_error if claim.leans_on and {*claim.leans_on} >= {*claim.runs} and not other else None
    if unsure is not None and abs(margin) < unsure:
        reason = f"its Monte Carlo error, {unsure:.2g}, is larger than its distance from the limit"
        return judged._replace(verdict=Verdict.NOT_TESTED, reason=reason, needed="more draws")
    if claim.errors is not None and abs(margin) < claim.errors * (compared.standard_error or 0.0):
        reason = f"its limit is less than {claim.errors:g} standard errors ({compared.standard_error:.2g} each) away"
        return judged._replace(verdict=Verdict.NOT_TESTED, reason=reason, needed="more splits or test rows")
    if not holds:
        return judged._replace(verdict=Verdict.FAILED, reason=f"outside by {abs(margin):.3g}")
    return judged._replace(verdict=Verdict.REDUCED if reductions else Verdict.REPRODUCED)


def _unconverged(row: Repetition, study: ClaimedStudy, measured: Measured) -> str:
    """The remark on the reference of a row, if it has not converged; else empty.

    A row leans on the reference that its note names. A row of a reference leans on the reference itself, unless it
    measures how its chains went.
    """
    if word := reference_word(row.note):
        return word
    if row.metric in OF_CHAINS or row.run not in study.runs or not study.runs[row.run].reference:
        return ""
    return measured.unfit_references.get((row.run, row.split), "")


def _unconverged_behind(claim: Claim, study: ClaimedStudy, measured: Measured) -> list[str]:
    """The remarks on the references that have not converged, of those that a claim as a whole leans on.

    A claim leans on the runs in its `leans_on`; without this field, a number of a figure leans on all references that
    the figure shows.
    """
    if claim.leans_on is not None:
        runs = {run for name in claim.leans_on for run in study.runs_of(name)}
    else:
        shown = study.figures[claim.figure].runs if claim.in_figure and claim.figure in study.figures else ()
        runs = {run for run in shown if run in study.runs and study.runs[run].reference}
    return [word for (run, _), word in measured.unfit_references.items() if run in runs]


def _as_from_the_starts(
    claim: Claim,
    rows: Mapping[str, tuple[Repetition, ...]],
    study: ClaimedStudy,
    measured: Measured,
    judged: Judgement,
    holds: bool,
) -> str:
    """Why a claim about chains says nothing about them: their warm starts give the same verdict and similar values.

    Values are similar if each side changes by at most the tolerance, the bound of `changes_less_than`, or else the
    margin by which the claim holds. Empty if the claim is not about chains, if the study has no run of the warm starts,
    and if these differ from the chains.
    """
    if claim.in_figure or claim.own.metric in OF_ROWS:
        return ""
    sides: dict[str, list[Repetition]] = {}
    for (name, found), side in zip(rows.items(), claim.sides.values(), strict=True):
        sides[name] = [one for row in found if (one := _start_row(row, side, study, measured)) is not None]
        if len(sides[name]) < len(found):
            return ""
    replaced = {name: estimate(found, study, measured) for name, found in sides.items()}
    if all(tuple(found) == rows[name] for name, found in sides.items()):
        return ""
    if not all(math.isfinite(one.value) for one in replaced.values()):
        return ""
    values = [one.value for one in replaced.values()]
    at_starts, holds_there = _relation(claim, values[0] - (values[1] if len(values) > 1 else 0.0))
    margin = abs(judged.margin or 0.0)
    resolution = claim.tolerance or (claim.bound if claim.relation == "changes_less_than" else margin if holds else 0.0)
    moved = [abs(estimate(rows[name], study, measured).value - one.value) for name, one in replaced.items()]
    if holds_there != holds or max(moved) > (resolution or 0.0):
        return ""
    verdict = "meet the claim, too" if holds else f"miss the claim, too, by {abs(at_starts):.3g}"
    return f"the warm starts alone have {', '.join(f'{value:.4g}' for value in values)} and {verdict}"


def _start_row(row: Repetition, side: Side, study: ClaimedStudy, measured: Measured) -> Repetition | None:
    """The row of a run's warm starts, or the run's own row if it has no chains; None if it is missing.

    If the ensemble has more members than the run has chains, the row is for that number, averaged over random orders.
    """
    starts = study.runs[row.run].starts
    if starts is None:
        return None if study.runs[row.run].chained else row
    wanted = side._replace(draws=None)
    if side.chains is None and study.runs[starts].chains > study.runs[row.run].chains:
        wanted = wanted._replace(metric=CURVES.get(side.metric, side.metric), chains=row.chains)
    found = row_of(measured, wanted, study, starts, row.split)
    return found if isinstance(found, Repetition) else None


def _relation(claim: Claim, value: float) -> tuple[float, bool]:
    """How far the value, or the difference, is inside the claim's limit, and whether the claim holds."""
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
    """Number of chains that a run needs so that the two sides of a claim differ: more than the number that it names."""
    own, other = claim.own, claim.other
    if other is None or not set(own.runs) & set(other.runs):
        return 1
    named = [side.chains for side in (own, other) if side.chains is not None]
    return max(named, default=1) + (len(named) == 1)


def _same_row(own: Answer, other: Answer, study: ClaimedStudy, least: int) -> Problem | None:
    """The problem if a measurement is compared with itself: the claim would hold or fail whatever was measured."""
    compared = {_measured(row) for row in other.rows}
    for row in own.rows:
        if _measured(row) in compared:
            more = study.scales_with(row.run, max(least, row.chains + row.excluded + 1))
            needed = f"scale {' or '.join(more)}: {study.command([row.run], more[0])}" if more else "more chains"
            return Problem(
                f"run '{row.run}' has {row.chains:,} chains of {row.draws:,} draws in all: both values are the same "
                "measurement",
                needed,
            )
    return None


def _measured(row: Repetition) -> tuple[str, int, str, str, str, int, int]:
    """What a row measures; the cumulative LPPD of all chains and draws counts as the LPPD."""
    metric = "lppd" if row.metric.startswith("lppd_cumulative_") else row.metric
    return row.run, row.split, row.dataset, metric, row.at, row.chains, row.draws
