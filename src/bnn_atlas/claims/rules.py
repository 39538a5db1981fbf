"""The rules that turn a difference d, its standard error e and the size s that matters into a verdict."""

import math
from enum import StrEnum
from typing import NamedTuple

from bnn_atlas.config.claims.claim import Relation


class Verdict(StrEnum):
    """The outcome of judging a claim by its numbers."""

    AGREES = "agrees"
    DIFFERS = "differs"
    HOLDS = "holds"
    SMALLER = "holds, smaller"
    DOES_NOT_HOLD = "does not hold"
    CANNOT_TELL = "cannot tell"
    CANNOT_SHOW = "cannot show here"
    ERRATUM = "erratum"
    TO_RUN = "to run"


HOLDS = (Verdict.AGREES, Verdict.HOLDS, Verdict.SMALLER)
NEAR = 0.2
"""A d whose error is not known is not judged if it is nearer to its limit than this fraction of `claim.width`."""
AT_LIMIT, NOT_KNOWN = "at the limit", "error not known"
"""What a note begins with."""
MANY = 1000
"""A distance of more than this many standard errors is not expressed in standard errors."""


class Decision(NamedTuple):
    """A verdict that follows from numbers only, and the reason."""

    verdict: Verdict
    reason: str = ""
    """Empty if the claim agrees or holds, the error is known, and the limit is farther away than the error."""


def decide(
    relation: Relation,
    d: float,
    error: float | None,
    size: float | None = None,
    bound: float | None = None,
    at_infinity: float | None = None,
    extrapolation_error: float = 0.0,
) -> Decision:
    """The verdict on d with the standard error e (0 if not known) and the size s that matters.

    `equals`: differs where |d| > s and |d| > 2 e, cannot tell where 2 e > s and |d| <= 2 e, and agrees otherwise.
    `above` (`below` with -d): holds where d >= s and d > 2 e; holds, smaller where 2 e < d < s; does not hold where
    d + 2 e < s; else cannot tell. `alike`, `at_least` and `at_most`: holds where the whole interval d +- 2 e is
    within -s to s, or on its side of the bound; does not hold where all of it is outside; else cannot tell.

    The reason says "at the limit" if a number, or a sign that holds, is nearer to s than e.

    With `at_infinity`, the value of d at infinitely many draws, both values are judged, the latter with
    `extrapolation_error` added to e in squares. The verdict is the one on which they agree; "holds, smaller" if one is
    "holds" and the other "holds, smaller"; otherwise "cannot tell".
    """
    here = _decide(relation, d, error, size, bound)
    beyond = math.hypot(error or 0.0, extrapolation_error)
    there = here if at_infinity is None else _decide(relation, at_infinity, beyond, size, bound)
    if here.verdict == there.verdict:
        return here
    if {here.verdict, there.verdict} == {Verdict.HOLDS, Verdict.SMALLER}:
        return here if here.verdict is Verdict.SMALLER else there
    reason = f"{d:.3g} with these draws ({here.verdict}), {at_infinity:.3g} with infinitely many ({there.verdict})"
    return Decision(Verdict.CANNOT_TELL, reason)


def _decide(relation: Relation, d: float, error: float | None, size: float | None, bound: float | None) -> Decision:
    e, s = error or 0.0, size or 0.0
    if relation == "equals":
        return _noted(_equal(d, e, s), abs(d), e, s, "inside", "outside")
    if relation in ("above", "below"):
        d = d if relation == "above" else -d
        return _noted(_signed(d, e, s), d, e, s, "short of", "beyond")
    low, high = {
        "alike": (-s, s),
        "at_least": (bound or 0.0, math.inf),
        "at_most": (-math.inf, bound or 0.0),
    }[relation]
    return _within(d, e, low, high)


def without_error(decision: Decision, relation: Relation, d: float, limit: float, width: float, why: str) -> Decision:
    """The decision if part of the error of d is unknown: "cannot tell" near the limit; the reason `why` is added.

    Near is within `NEAR` of `width`: of the size or, for a bound, of its distance from the value without any effect.
    """
    unknown = f"{NOT_KNOWN} ({why})"
    held = {"equals": abs(d), "alike": abs(d), "below": -d}.get(relation, d)
    if width and abs(held - limit) <= NEAR * width:
        return Decision(Verdict.CANNOT_TELL, f"{unknown}, and {held:.3g} is within {NEAR * width:.2g} of {limit:g}")
    return decision._replace(reason="; ".join(filter(None, (decision.reason, unknown))))


def _noted(decision: Decision, held: float, e: float, s: float, below: str, above: str) -> Decision:
    """The decision, with a note if another e would easily have made it another one."""
    if abs(held - s) >= e or decision.verdict is Verdict.CANNOT_TELL:
        return decision
    note = f"{AT_LIMIT}: {above if held > s else below} {s:g} by {abs(held - s) / e:.1g} of its standard error"
    return decision._replace(reason="; ".join(filter(None, (decision.reason, note))))


def _equal(d: float, e: float, s: float) -> Decision:
    if abs(d) > s and abs(d) > 2 * e:
        errors = f", {abs(d) / e:.1f} standard errors" if e > abs(d) / MANY else ""
        return Decision(Verdict.DIFFERS, f"by {abs(d):.2g}{errors}; up to {s:g} would agree")
    if 2 * e > s and abs(d) <= 2 * e:
        return Decision(Verdict.CANNOT_TELL, f"two standard errors, {2 * e:.2g}, are more than {s:g}")
    return Decision(Verdict.AGREES)


def _signed(d: float, e: float, s: float) -> Decision:
    if d > 2 * e:
        if d >= s:
            return Decision(Verdict.HOLDS)
        return Decision(Verdict.SMALLER, f"{d:.2g}, where {s:g} was asked")
    if d + 2 * e < 0 or (e == 0 and s == 0):
        return Decision(Verdict.DOES_NOT_HOLD, "the other sign" if d < 0 else "no difference at all")
    if d + 2 * e < s:
        return Decision(Verdict.DOES_NOT_HOLD, f"no effect of {s:g}: at most {d + 2 * e:.2g}")
    reason = f"{d:.2g} with a standard error of {e:.2g}" + (f", where {s:g} was asked" if s else "")
    return Decision(Verdict.CANNOT_TELL, reason)


def _within(d: float, e: float, low: float, high: float) -> Decision:
    if low <= d - 2 * e and d + 2 * e <= high:
        return Decision(Verdict.HOLDS)
    if d + 2 * e < low or d - 2 * e > high:
        return Decision(Verdict.DOES_NOT_HOLD, f"outside by {max(low - d, d - high):.2g}")
    return Decision(Verdict.CANNOT_TELL, f"{d:.3g} with a standard error of {e:.2g} is too near the limit")
