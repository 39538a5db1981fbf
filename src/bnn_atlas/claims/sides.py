"""The values that answer one side of a claim, or the reason why there are none."""

from typing import NamedTuple


class ClaimError(ValueError):
    """A claim does not determine a single row of the table, or its figure's file cannot be used."""


class MissingRowError(ClaimError):
    """The CSV file of a figure has no row that matches a claim."""


class Repetition(NamedTuple):
    """The row that answers a claim for one run and split, or the number of a figure (no split, no chains)."""

    run: str
    split: int
    dataset: str
    metric: str
    chains: int
    excluded: int
    """Number of excluded chains of the run, if the row is about all its chains."""
    draws: int
    value: float
    standard_error: float | None
    note: str
    at: str = ""
    """The parameter of the metric, if it has one."""
    over: str = ""
    """What the standard error is over."""
    monte_carlo_error: float | None = None
    at_infinity: float | None = None
    """The value extrapolated to infinitely many draws; None if not known."""
    infinity_error: float | None = None
    """Standard error that the extrapolation adds to that of the value."""
    trust: str = ""
    """Whether the draws of the run can be trusted (`metrics.judgement.trust`)."""


class Problem(NamedTuple):
    """Why a side is not answered."""

    reason: str
    needed: str


class Answer(NamedTuple):
    """The rows that the table has for one side."""

    rows: tuple[Repetition, ...]
    problem: Problem | None
