"""Verdicts on claims, from numbers only: a difference d, its standard error e, and the size s that matters.

Claims without measurements are sorted out first ("to run"), then claims measured by fits or chains that prove nothing
("cannot tell"); the rules of `rules.decide` apply to the rest. docs/verdicts.md lists all rules, each with a test which
shows that the rule can fail.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from bnn_atlas.claims.answer import answer, row_of
from bnn_atlas.claims.estimate import (
    FINITE,
    PAIRED_ROWS,
    UNPAIRED,
    Estimate,
    Part,
    difference,
    estimate,
    is_same,
    total,
)
from bnn_atlas.claims.measured import Measured
from bnn_atlas.claims.plan import IDENTITIES, ClaimedStudy
from bnn_atlas.claims.rules import HOLDS, Decision, Verdict, decide, without_error
from bnn_atlas.claims.sides import Answer, Problem, Repetition
from bnn_atlas.config.claims.claim import Claim, Side, width
from bnn_atlas.config.metrics import OF_CHAINS, OF_REFEREE, OF_ROWS, value_range
from bnn_atlas.metrics.formulas.repetitions import SPLITS
from bnn_atlas.metrics.gathering.marginals import OF_MARGINALS
from bnn_atlas.metrics.judgement.checks import DIVERGED, DIVERGENT, NOISES
from bnn_atlas.metrics.judgement.trust import Trust, reference_word, worst

CURVES = {"lppd": "lppd_cumulative_chains"}
"""Metric of all chains -> the same metric by number of chains."""
CEILINGS = ("agreement", "total_variation")
"""Metrics against a reference; the best possible value, `<metric>_ceiling`, is that between the reference's chains."""
EXACT = OF_ROWS | {"gradients_sampling", "gradients_total", "transpositions_ceiling", "pair_transpositions_ceiling"}
"""Metrics without an error: from fits without a network, from counts, or in closed form."""
BINNED = ("ece", "mce", "sce", "fpr95")
"""Beginnings of the names of metrics that are no means over rows: calibration errors over bins, and rates at a
threshold."""
OF_MEAN = {"rmse", "rmse_original_units"}
"""Metrics that depend only on the predictive mean."""
TO_MEASURE, ONE_FIT, ONE_SET = "to measure again", "one fit", "one set of chains"
FEW, OF_TEST = "two equal values", "rows"
"""Why an error is not known."""
CHAINS = "chains: "
"""What a reason begins with if chains have not converged on which a claim depends."""
SAME_SHELL = 0.1
"""Largest relative change of theta^2 up to which chains count as having stayed at their warm starts."""


class Judgement(NamedTuple):
    """A claim with its answer."""

    study: ClaimedStudy
    name: str
    verdict: Verdict
    reason: str
    """Why the verdict was reached; empty if the claim agrees or holds with a known error, not at the limit."""
    needed: str
    """What would decide a claim with the verdict "cannot tell" or "to run"; else empty."""
    identity: str
    """How the runs behind the claim relate to the paper (`plan.IDENTITIES`)."""
    own: Estimate | None
    """The claim's value; None if it was not measured."""
    other: Estimate | None
    """The other value of a comparison."""
    difference: Estimate | None
    """Own minus other."""
    d: float | None
    """The number that is compared with the size (the difference from the published number, or between the two values)
    or with the bound. None without finite values."""
    parts: tuple[Part, ...]
    """The errors of d, including those of the published number."""
    reductions: dict[str, tuple[str, ...]]
    """Entry of the study's file -> the reductions at this scale that affect the claim; only entries with reductions."""
    rows: dict[str, tuple[Repetition, ...]]
    """Side (`value`, `compared with`) -> the side's rows of the table."""
    trust: Trust | None = None
    """The worst trust of the runs that answer the claim; None if no run answers it."""

    @property
    def claim(self) -> Claim:
        """The claim as written in config/claims."""
        return self.study.claims.claims[self.name]

    @property
    def paper(self) -> str:
        """Citation of the paper that makes the claim."""
        return self.claim.paper or self.study.claims.paper

    @property
    def error(self) -> float | None:
        """Standard error of d; None if not known."""
        return total(self.parts)

    @property
    def d_at_infinity(self) -> float | None:
        """The value of d at infinitely many draws; None if not known."""
        found = self.measured
        return None if found is None or found.at_infinity is None else found.at_infinity - self.claim.target

    @property
    def extrapolation_error(self) -> float:
        """Standard error that the extrapolation to infinitely many draws adds to `error`."""
        return self.measured.infinity_error if self.measured else 0.0

    @property
    def measured(self) -> Estimate | None:
        """The estimate that the claim is about: the difference, or the value."""
        return self.difference or self.own


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
    """Judge one claim of a study by its measurements (or only by its metric table; None if there is no table).

    - to run: a run, metric, figure or number of chains is missing; both sides of a comparison are the same row; or the
      claim needs runs of full size and a run is reduced (the value is shown, but not judged).
    - cannot tell: a fit has diverged, or its noise has not converged; the chains, the reference or the referee on which
      a value depends have not converged; the claim in `given` does not hold; the warm starts alone give the same
      result; or the errors are too large (`rules.decide`).
    - cannot show here: the claim does not hold, and the difference could not have been as large as required.
    - erratum: the value differs from the published number, and the claim explains why that number is wrong.
    - agrees, differs, holds, "holds, smaller", "does not hold": `rules.decide`.

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
    reductions = study.reductions_of(claim)
    trusts = [one for (run, _), one in measured.trusts.items() if run in behind]

    nothing = Judgement(
        study, name, Verdict.TO_RUN, "", "", study.identity(claim), None, None, None, None, (), reductions, rows
    )
    small = bool(claim.full_size and reductions)
    if small:
        reason = f"the number is one of the paper's settings, and this scale reduces {', '.join(reductions)}"
        nothing = nothing._replace(reason=reason, needed=f"scale paper: {study.command(_made(claim), 'paper')}")
    if problem := own.problem or (other and (other.problem or _same_row(own, other, study, claim))):
        return nothing if small else nothing._replace(reason=problem.reason, needed=problem.needed)
    every = (*own.rows, *(other.rows if other else ()))
    if why := _diverged(every, behind, measured):
        if small:
            return nothing
        unknown = nothing._replace(verdict=Verdict.CANNOT_TELL, trust=worst(trusts) if trusts else None)
        return unknown._replace(reason=f"{DIVERGED}: {why}", needed="a fit that does not diverge")
    judged = nothing._replace(
        own=estimate(own.rows, study, measured, claim.same_rows),
        trust=worst(trusts) if trusts and claim.own.metric not in OF_ROWS else None,
    )
    if other:
        judged = judged._replace(
            other=estimate(other.rows, study, measured, claim.same_rows),
            difference=difference(own.rows, other.rows, study, measured, claim.same_rows),
        )
    found = judged.measured
    assert found is not None
    judged = judged._replace(d=found.value - claim.target, parts=(*found.parts, *_of_published(claim)))
    if small:
        return judged
    if unsaid := _says_nothing(claim, every, study, measured):
        return judged._replace(verdict=Verdict.CANNOT_TELL, reason=unsaid.reason, needed=unsaid.needed)
    d = found.value - claim.target
    at_infinity = judged.d_at_infinity, judged.extrapolation_error
    decision = decide(claim.relation, d, judged.error, claim.size, claim.bound, *at_infinity)
    if why := _without_error(judged):
        limit = claim.size if claim.bound is None else claim.bound
        classes = any(measured.metric(row.run, row.split, "accuracy") is not None for row in own.rows)
        decision = without_error(decision, claim.relation, d, limit or 0.0, width(claim, classes), why)
    return _settled(judged, decision, measured)


def _without_error(judged: Judgement) -> str:
    """Why the error of a claim's value is not known; empty if it is known on both sides, or is 0 by nature."""
    if judged.measured and judged.measured.error is not None and judged.measured.repetitions > 1:
        return ""
    study = judged.study
    sides = [(one, rows) for one, rows in zip((judged.own, judged.other), judged.rows.values(), strict=False) if one]
    lacking = [row for one, rows in sides if one.error is None for row in rows if not _is_exact(row, study)]
    if not lacking:
        return OF_TEST if not judged.claim.same_rows and any(_without_rows(*side) for side in sides) else ""
    if any(is_same(row) for row in lacking) or any(one.sd == 0 for one, _ in sides):
        return FEW
    runs = {lacking[0].run} if lacking[0].run in study.runs else study.runs_behind(judged.claim)
    if not any(study.runs[run].chained for run in runs):
        return ONE_FIT
    return TO_MEASURE if lacking[0].metric in OF_MARGINALS else ONE_SET


def _without_rows(one: Estimate, rows: Sequence[Repetition]) -> bool:
    """Whether a calibration error of classes, or a rate, has other errors, but not that over test rows."""
    known = {part.of for part in one.parts} & {"rows", SPLITS}
    return not known and any(row.metric.startswith(BINNED) for row in rows)


def _is_exact(row: Repetition, study: ClaimedStudy) -> bool:
    """Whether a value has no error by nature: counted, fitted without a network, or calculated without a run."""
    return row.metric in EXACT or (row.run in study.figures and not study.figures[row.run].runs)


def _settled(judged: Judgement, decision: Decision, measured: Measured) -> Judgement:
    """The rule's judgement, unless the warm starts give the same result or there is no room for another verdict."""
    claim, study = judged.claim, judged.study
    judged = judged._replace(verdict=decision.verdict, reason=decision.reason)
    if same := _as_from_the_starts(judged, measured):
        needed = "chains that leave their warm starts, or a claim that can tell them apart"
        return judged._replace(verdict=Verdict.CANNOT_TELL, reason=same, needed=needed)
    unsure = decision.verdict is Verdict.SMALLER and judged.error is None
    if (unsure or decision.verdict in (Verdict.DOES_NOT_HOLD, Verdict.CANNOT_TELL)) and (
        why := _no_room(claim, judged.rows, study, measured)
    ):
        return judged._replace(verdict=Verdict.CANNOT_SHOW, reason=why, needed="another problem")
    if decision.verdict is Verdict.CANNOT_TELL:
        return judged._replace(needed=_deciding(judged))
    if decision.verdict is Verdict.DIFFERS and claim.erratum:
        return judged._replace(verdict=Verdict.ERRATUM, reason=claim.erratum)
    return judged


def leading(claims: Sequence[tuple[str, str]]) -> int:
    """Index of the claim that decides a finding, from the (verdict, identity) of each claim, the main claim first.

    This is the main claim or, if the main claim is still to run, the claim with the nearest identity that was run.
    """
    if claims[0][0] != Verdict.TO_RUN:
        return 0
    run = [number for number, (verdict, _) in enumerate(claims) if verdict != Verdict.TO_RUN]
    return min(run, key=lambda number: IDENTITIES.index(claims[number][1]), default=0)


def _of_published(claim: Claim) -> list[Part]:
    """The errors of the number that the claim should equal."""
    if claim.relation != "equals" or claim.published is None:
        return []
    given = {"published": claim.published.of_mean, "reading": claim.published.reading}
    return [Part(of, error) for of, error in given.items() if error]


def _deciding(judged: Judgement) -> str:
    """What would decide a claim that the errors leave open, such as the smallest sufficient number of chains.

    This is more repetitions of the kind that reduces the largest part of the error or, if these do not suffice, more of
    every kind whose part is at least a tenth of the variance. If no number suffices, the answer names what limits the
    remaining error. More splits bring more test rows, unless the run already has all of the publisher's test rows.
    """
    if why := _without_error(judged):
        if why == OF_TEST:
            return "the values of single test rows, for their error"
        return "measuring it again, for an error" if why == TO_MEASURE else "its spread over other seeds, for an error"
    behind = [judged.study.runs[name] for name in judged.study.runs_behind(judged.claim)]
    if any(plan.all_rows for plan in behind):
        fixed_rows = [part._replace(number=0) if part.of in ROWS else part for part in judged.parts]
        judged = judged._replace(parts=tuple(fixed_rows))
    parts = judged.parts
    ours = sorted((part for part in parts if part.number), key=lambda part: -part.error)
    variance = sum(part.error**2 for part in ours)
    for more in (ours[:1], [part for part in ours if part.error**2 >= variance / 10]):
        for factor in FACTORS:
            if _decides(judged, more, factor):
                return " and ".join(_more(part, factor) for part in more)
    fixed = {part.of: part.error for part in parts if not part.number}
    now, wanted = judged.error or 0.0, next((factor for factor in FACTORS if _decides(judged, parts, factor)), None)
    error = f"an error below {now / math.sqrt(wanted):.2g} (now {now:.2g})" if wanted else ""
    for found, needed in FIXED.items():
        if found in fixed:
            return "; ".join(filter(None, (needed, error)))
    if not fixed or not judged.claim.size:
        return error or "a value farther from the limit"
    return f"a published number with an error below {judged.claim.size / 2:.2g} (now {math.hypot(*fixed.values()):.2g})"


def _decides(judged: Judgement, more: Sequence[Part], factor: float) -> bool:
    """Whether the rule decides once the variances of some parts are divided by a factor.

    With more draws, d moves on to its value at infinitely many as the bias falls, and the variance of the extrapolation
    falls in the same proportion.
    """
    claim, d, at_infinity, added = judged.claim, judged.d or 0.0, judged.d_at_infinity, judged.extrapolation_error
    if at_infinity is not None and any(part.of == FINITE for part in more):
        d = at_infinity + (d - at_infinity) / math.sqrt(factor)
        added /= factor**0.25
    parts = [part._replace(error=part.error / math.sqrt(factor)) if part in more else part for part in judged.parts]
    found = decide(claim.relation, d, total(parts), claim.size, claim.bound, at_infinity, added)
    return found.verdict is not Verdict.CANNOT_TELL


def _more(part: Part, factor: float) -> str:
    """The number (of chains, rows, ...) that divides the variance of a part by a factor."""
    now = 1 if part.of in ROWS else part.number
    rounded = math.ceil(float(f"{now * (math.sqrt(factor) if part.of == FINITE else factor):.2g}"))
    return f"about {max(rounded, now + 1):,} {NAMES[part.of]} (now {now:,})"


FACTORS = [1.005**step for step in range(1, 1847)]
"""Factors by which a variance is divided, up to 10,000: beyond that, advice would be useless."""
ROWS = ("rows", PAIRED_ROWS)
FIXED = {
    UNPAIRED: "the values of single test rows, to pair both sides",
    FINITE: "more draws of the reference",
    **dict.fromkeys(ROWS, "more test rows than there are"),
}
"""Part of an error that does not fall with chains, draws, seeds or splits -> what would reduce this part."""
NAMES = {
    "rows": "splits",
    PAIRED_ROWS: "splits",
    "orders": "random orders",
    FINITE: "draws per chain",
    "draws": "draws per chain",
    "pairs": "chains",
    "pairs of networks": "pairs of networks",
    "triples": "chains",
    "chains": "chains",
    "seeds": "seeds",
    "splits": "splits",
}
"""What a part of an error is over -> the name shown to readers."""


def _diverged(rows: Sequence[Repetition], behind: Iterable[str], measured: Measured) -> str:
    """Why the values mean nothing: one is not finite, or a run behind the claim has diverged; empty if neither.

    How chains behaved can be told even if too many of their steps diverged.
    """
    for row in rows:
        if not math.isfinite(row.value):
            return f"{row.metric} of run '{row.run}', split {row.split} is {row.value}"
    runs = {*behind}
    gone = measured.exploded if _about_chains(rows) else measured.diverged
    return next((f"run '{run}', split {split}: {why}" for (run, split), why in gone.items() if run in runs), "")


def _about_chains(rows: Sequence[Repetition]) -> bool:
    """Whether all values describe how the chains behaved."""
    return {row.metric for row in rows} <= OF_CHAINS


def _says_nothing(claim: Claim, rows: Sequence[Repetition], study: ClaimedStudy, measured: Measured) -> Problem | None:
    """Why finite values prove nothing: their chains or fit have not converged, or the claim in `given` fails."""
    behind = study.runs_behind(claim)
    words = [*(_unconverged(row, study, measured) for row in rows), *_unconverged_behind(claim, study, measured)]
    if word := next(filter(None, words), ""):
        return Problem(CHAINS + word, "chains that have converged")
    divergent = [why for (run, _), why in measured.divergent.items() if run in behind and not _about_chains(rows)]
    if why := next(iter(divergent), ""):
        return Problem(CHAINS + why, f"chains in which at most {DIVERGENT.look:.0%} of the steps diverge")
    unsettled = [why for (run, _), why in measured.unsettled_noises.items() if run in behind]
    if (why := next(iter(unsettled), "")) and not _whatever_the_noise(claim, rows, study):
        return Problem(why, "a fit whose noise has converged")
    of_referee = (measured.unmixed_referees.get((row.run, row.split)) for row in rows if row.metric in OF_REFEREE)
    if why := next(filter(None, of_referee), ""):
        return Problem(CHAINS + why, "a referee whose chains have mixed")
    if claim.given is not None and (first := judge(claim.given, study, measured)).verdict not in HOLDS:
        return Problem(f"{claim.given}, which has to hold first: {first.verdict}", f"that {claim.given} holds")
    return None


def _whatever_the_noise(claim: Claim, rows: Sequence[Repetition], study: ClaimedStudy) -> bool:
    """Whether a claim is judged even if the noise has not converged.

    This is so if the claim compares both noises, or is about the predictive mean, which does not depend on the noise,
    or is about a number that the paper published for this same fit, stopped at the same point.
    """
    metrics = {row.metric for row in rows}
    of_paper = claim.relation == "equals" and claim.published and study.identity(claim) in IDENTITIES[:2]
    return bool(of_paper) or metrics == set(NOISES) or metrics <= OF_MEAN


def _unconverged(row: Repetition, study: ClaimedStudy, measured: Measured) -> str:
    """The remark on the reference of a row, if that reference has not converged; else empty.

    A row depends on the reference that its note names. A row of a reference depends on that reference itself, unless
    the row measures how the chains behaved.
    """
    if word := reference_word(row.note):
        return word
    if row.metric in OF_CHAINS or row.run not in study.runs or not study.runs[row.run].reference:
        return ""
    return measured.unfit_references.get((row.run, row.split), "")


def _unconverged_behind(claim: Claim, study: ClaimedStudy, measured: Measured) -> list[str]:
    """The remarks on all references of a claim that have not converged.

    These are the references in the claim's `leans_on`; without this field, a number of a figure depends on all
    references that the figure shows.
    """
    if claim.leans_on is not None:
        runs = {run for name in claim.leans_on for run in study.runs_of(name)}
    else:
        shown = study.figures[claim.figure].runs if claim.in_figure and claim.figure in study.figures else ()
        runs = {run for run in shown if run in study.runs and study.runs[run].reference}
    return [word for (run, _), word in measured.unfit_references.items() if run in runs]


def _no_room(claim: Claim, rows: Mapping[str, tuple[Repetition, ...]], study: ClaimedStudy, measured: Measured) -> str:
    """Why a difference (`above`, `below`) could not be as large as required; empty if it could.

    The room is the distance from the compared value to the end of the metric, or to the value between the reference's
    own chains; on corrupted rows, the total harm done by the corruption; and if both values are near the same end, such
    as two fractions near 0, the distance of the farther value from this end.
    """
    if claim.relation not in ("above", "below") or not claim.size or claim.in_figure:
        return ""
    own, other = (sum(row.value for row in found) / len(found) for found in rows.values())
    first = rows["compared with"][0]
    classes = measured.metric(first.run, first.split, "accuracy") is not None
    low, high = value_range(first.metric, classes)
    end = high if claim.relation == "above" else low
    shifted = "/" in first.dataset
    named = f"{first.metric}_ceiling" if first.metric in CEILINGS and not shifted else ""
    ceiling = measured.metric(first.at, first.split, named)
    rooms = {f"the compared value, {other:.3g}, leaves to {end:g}": abs(end - other)}
    if ceiling is not None:
        best = max(other, ceiling) if claim.relation == "above" else min(other, ceiling)
        rooms[f"the compared value leaves to that of the reference's own chains, {ceiling:.3g}"] = abs(best - other)
    clean = measured.metric(first.run, first.split, first.metric)
    if shifted and claim.than is not None and claim.than.dataset is None and clean is not None:
        rooms["the corruption does in all to the compared run"] = abs(clean - other)
    for limit in (low, high):
        rooms[f"the farther of the two values is away from {limit:g}"] = max(abs(own - limit), abs(other - limit))
    what, room = min(rooms.items(), key=lambda item: item[1])
    return f"the room is {room:.2g}, smaller than {claim.size:g}: what {what}" if room < claim.size else ""


def _as_from_the_starts(judged: Judgement, measured: Measured) -> str:
    """Why a claim proves nothing about its chains: their warm starts give the same verdict with similar values.

    Values are similar if each side changes by at most the size or, without a size, by the distance from the limit. A
    claim that does not hold is excused only if the chains have stayed at their starts, so that theta^2 has not changed.
    Empty if the claim is not about chains, if the study has no run of the warm starts, or if their values differ.
    """
    claim, study, rows = judged.claim, judged.study, judged.rows
    if claim.in_figure or claim.own.metric in OF_ROWS or judged.verdict is Verdict.CANNOT_TELL:
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
    d = values[0] - (values[1] if len(values) > 1 else claim.target)
    holds = judged.verdict in HOLDS
    at_starts = decide(claim.relation, d, judged.error, claim.size, claim.bound).verdict
    reached = abs((judged.d or 0.0) - (claim.bound or 0.0))
    moved = [abs(estimate(rows[name], study, measured).value - one.value) for name, one in replaced.items()]
    if at_starts != judged.verdict or max(moved) > (claim.size or reached):
        return ""
    chained = [row for found in rows.values() for row in found if study.runs[row.run].starts]
    if not holds and not all(_stayed(row, study, measured) for row in chained):
        return ""
    return f"the warm starts alone have {', '.join(f'{value:.4g}' for value in values)}, with which it {at_starts}, too"


def _stayed(row: Repetition, study: ClaimedStudy, measured: Measured) -> bool:
    """Whether theta^2 shows that the chains of a row have stayed at their warm starts."""
    starts = study.runs[row.run].starts
    shells = [measured.metric(run, row.split, "prior_shell") for run in (row.run, starts or "")]
    if shells[0] is None or not shells[1]:
        return False
    return abs(shells[0] / shells[1] - 1) <= SAME_SHELL


def _start_row(row: Repetition, side: Side, study: ClaimedStudy, measured: Measured) -> Repetition | None:
    """The row of a run's warm starts, or the run's own row if it has no chains; None if the row is missing.

    If the ensemble has more members than the run has chains, the row is for as many members as there are chains,
    averaged over random orders.
    """
    starts = study.runs[row.run].starts
    if starts is None:
        return None if study.runs[row.run].chained else row
    wanted = side._replace(draws=None)
    if side.chains is None and study.runs[starts].chains > study.runs[row.run].chains:
        wanted = wanted._replace(metric=CURVES.get(side.metric, side.metric), chains=row.chains)
    found = row_of(measured, wanted, study, starts, row.split)
    return found if isinstance(found, Repetition) else None


def _made(claim: Claim) -> list[str]:
    """The targets to make to answer a claim: its figure, or all runs that the claim names."""
    named = [name for side in claim.sides.values() for name in side.runs]
    return [claim.figure or ""] if claim.in_figure else named


def _least_chains(claim: Claim) -> int:
    """Number of chains that a run needs so that the two sides of a claim differ: more than the claim names."""
    own, other = claim.own, claim.other
    if other is None or not set(own.runs) & set(other.runs):
        return 1
    named = [side.chains for side in (own, other) if side.chains is not None]
    return max(named, default=1) + (len(named) == 1)


def _same_row(own: Answer, other: Answer, study: ClaimedStudy, claim: Claim) -> Problem | None:
    """The problem if a measurement is compared with itself: the claim would hold or fail whatever was measured."""
    compared = {_measured(row) for row in other.rows}
    for row in own.rows:
        if _measured(row) in compared:
            more = study.scales_with(row.run, max(_least_chains(claim), row.chains + row.excluded + 1))
            needed = f"scale {' or '.join(more)}: {study.command(_made(claim), more[0])}" if more else "more chains"
            return Problem(
                f"run '{row.run}' has {row.chains:,} chains of {row.draws:,} draws in all: both values are the same "
                "measurement",
                needed,
            )
    return None


def _measured(row: Repetition) -> tuple[str, int, str, str, str, int, int]:
    """Key of the quantity that a row measures; the cumulative LPPD of all chains and draws counts as the LPPD."""
    metric = "lppd" if row.metric.startswith("lppd_cumulative_") else row.metric
    return row.run, row.split, row.dataset, metric, row.at, row.chains, row.draws
