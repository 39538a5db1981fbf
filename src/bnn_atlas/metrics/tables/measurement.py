"""Records of measured values and of their runs, and the error raised if a value cannot be measured."""

from typing import NamedTuple


class Measurement(NamedTuple):
    """A measured value, not yet assigned to a run; `config.metrics` lists the names of metrics."""

    metric: str
    value: float
    standard_error: float | None = None
    note: str = ""
    """Information that a reader of the number needs."""
    chains: int | None = None
    """Number of chains used; None for all that are not excluded."""
    draws: int | None = None
    """Draws per chain; None for all."""
    at: str = ""
    """The parameter of the metric, if it has one: a level, the right edge of a bin, a phase, a reference."""
    over: str = ""
    """The units over which the standard error is taken; empty means test rows, if there is an error."""
    monte_carlo_error: float | None = None
    """How much the value would vary with other chains of the same run (`judgement.monte_carlo`); None if unknown."""


class RunIdentity(NamedTuple):
    """The run and split that were measured: the first seven columns of every row."""

    study: str
    run: str
    scale: str
    split: int
    dataset: str
    model: str
    method: str


class Row(NamedTuple):
    """A row of the metric table: an identity, and a measurement with its numbers of chains and draws per chain."""

    study: str
    run: str
    scale: str
    split: int
    dataset: str
    model: str
    method: str
    chains: int
    draws: int
    metric: str
    value: float
    standard_error: float | None = None
    note: str = ""
    at: str = ""
    over: str = ""
    monte_carlo_error: float | None = None


def joined(*notes: str) -> str:
    """The notes that are not empty, as one."""
    return "; ".join(filter(None, notes))


class PredictionError(ValueError):
    """The predictions or the data do not have the shape or content that the scores need."""
