"""One record for a measured value, the run that it belongs to, and the error of what cannot be measured."""

from typing import NamedTuple


class Measurement(NamedTuple):
    """A measured value, not yet assigned to a run.

    `config.metrics` lists the names of metrics.
    """

    metric: str
    value: float
    standard_error: float | None = None
    """None where there is none."""
    note: str = ""
    """What a reader of the number has to know."""
    chains: int | None = None
    """Number of chains that it was computed from; None for all that are not excluded."""
    draws: int | None = None
    """Draws per chain; None for all."""
    at: str = ""
    """What a metric with a parameter is taken at: a level, the right edge of a bin, a phase, a reference."""
    over: str = ""
    """What the standard error is over; empty stands for rows, where there is an error."""
    monte_carlo_error: float | None = None
    """How much the value would vary with other chains of the same run (`judgement.monte_carlo`); None if not known."""


class RunIdentity(NamedTuple):
    """What was measured: the first seven columns of every row."""

    study: str
    run: str
    scale: str
    split: int
    dataset: str
    model: str
    method: str


class Row(NamedTuple):
    """A row of the metric table: an identity and a measurement, of a stated number of chains and draws per chain."""

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


class PredictionError(ValueError):
    """The predictions or the data do not have the shape or the meaning that the scores need."""
