"""Claims of a paper as data: what it states, its number, and the run that tests it."""

import math
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from bnn_atlas.config.language.base import Chains, Count, Model, Number, Positive, Text, did_you_mean
from bnn_atlas.config.metrics import METRICS, natural_scale, value_range

Source = Literal["paper", "package", "beyond"]
Relation = Literal["equals", "at_most", "at_least", "less_than", "greater_than", "changes_less_than"]
COMPARISONS = ("less_than", "greater_than", "changes_less_than")
"""Relations to another measured value; all others may also have one."""
LIMITS = ("at_most", "at_least")
HALF = 0.5
"""Share of a published number that a limit has to stay below."""


def _known_metric(name: str) -> str:
    if name not in METRICS:
        hint = did_you_mean(name, METRICS) or "; docs/metrics.md lists all"
        raise ValueError(f"there is no such metric{hint}")
    return name


MetricName = Annotated[str, AfterValidator(_known_metric)]
At = Annotated[str, BeforeValidator(lambda value: f"{value:g}" if isinstance(value, int | float) else value)]
"""Column `at` of the metric tables; YAML may give a level as a number."""


class FigureValue(Model):
    """A number in the CSV file of the claim's figure, for what no metric measures."""

    column: str
    """Column that has the number."""
    where: dict[str, str | float] = Field(default_factory=dict)
    """Column -> value: the rows that count; if left empty, all rows."""
    take: Literal["only", "mean", "median", "min", "max", "share_given"] = "only"
    """How these rows give the number: `only` needs exactly one row, and `share_given` is the share of rows that have a
    value at all."""

    @property
    def text(self) -> str:
        """The same in words."""
        chosen = ", ".join(f"{column} = {value}" for column, value in self.where.items())
        taken = "" if self.take == "only" else f"{self.take.replace('_', ' ')} of "
        return f"{taken}{self.column}{f' where {chosen}' if chosen else ''}"


class Cause(Model):
    """Why a claim is not reproduced."""

    cause: Text
    """What the difference comes from, in a few words."""
    decided_by: Text
    """The run, the calculation or the source that decided it."""
    result: Text
    """What that showed."""


class Side(NamedTuple):
    """Which rows of the metric tables, or which number of a figure, are one side of a claim."""

    metric: str
    runs: tuple[str, ...]
    dataset: str | None
    chains: int | None
    draws: int | None
    at: str = ""
    in_figure: FigureValue | None = None


class Other(Model):
    """The value that a claim compares with; keys that are left out have the claim's values, except chains and draws."""

    in_figure: FigureValue | None = None
    """Another number of the same CSV file."""
    metric: MetricName | None = None
    """Metric of the other value."""
    at: At | None = None
    """Parameter of that metric."""
    runs: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """Runs of the other value."""
    dataset: str | None = None
    """Rows of the other value."""
    chains: Chains | None = None
    """Take the row for this number of chains; null takes all. For all chains of the run, it is the row for those that
    were not excluded."""
    draws: Count | None = None
    """Take the row for this number of draws per chain; null takes all draws."""


class Claim(Model):
    """One statement of a paper that a metric can test."""

    paper: Text | None = None
    """Citation, if it is not the one of the file."""
    source: Source = "paper"
    """Who states it: `paper`, the study's paper and the files published with it; `package`, the benchmark of its
    authors' software; `beyond`, other papers, or this project."""
    section: Text
    """Where the paper says it, for readers."""
    statement: Text
    """What the paper says, in a sentence."""
    metric: MetricName | None = None
    """Metric in the tables, such as `rmse`; null if the number comes from a figure."""
    at: At = ""
    """Parameter of the metric, if it has one, such as `0.9` for `coverage`."""
    runs: tuple[str, ...] = ()
    """Runs or grids that differ in seeds only; several seeds or splits give the uncertainty. Left empty if the number
    comes from a figure: the runs are then those of the figure."""
    in_figure: FigureValue | None = None
    """A number in the CSV file of `figure`, instead of `metric` and `runs`."""
    dataset: str | None = None
    """Rows of this set, such as `cifar10/fog3`; null takes the test rows of the run's own data set."""
    chains: Chains | None = None
    """Take the row for this number of chains; null takes all. For all chains of the run, it is the row for those that
    were not excluded."""
    relation: Relation
    """`equals`: |value - paper_value| <= tolerance; `at_most`, `at_least`: the value compared with `bound`. With
    `than`, these three apply to the difference value - value of `than`: `at_least` with bound -0.1 means "not lower by
    more than 0.1". `less_than`, `greater_than`: the value is below or above the value of `than` by more than `bound` (0
    if left out); `changes_less_than`: |value - value of `than`| < bound."""
    than: Other | None = None
    """What `less_than`, `greater_than` and `changes_less_than` compare with; with it, `equals`, `at_most` and
    `at_least` apply to a difference."""
    paper_value: Number | None = None
    """The paper's number or, for a comparison, the difference between its two numbers; null if the paper gives none."""
    paper_sd: Positive | None = None
    """Standard deviation that the paper gives with its number; figures show both."""
    bound: Number | None = None
    """Limit of the relation."""
    errors: Positive | None = None
    """For `at_least` and `at_most` with `than`: by how many of its standard errors the difference has to be away from
    `bound`, on either side; nearer, the claim is not tested. Bound -0.05 with 2 errors means "not lower by more than
    0.05, with two standard errors to spare"."""
    tolerance: Positive | None = None
    """How far from `paper_value` a value may be and still count as equal."""
    basis: Text | None = None
    """Where the limit (tolerance or bound) comes from, for readers of the verdict."""
    figure: str | None = None
    """A figure of the study that shows it."""
    leans_on: tuple[str, ...] | None = None
    """Runs of Markov chains, among the claim's own or those in its figure, that have to pass the rule for references.
    Null: for a number from a figure, the runs in the figure that serve as references for others
    (`evaluate.references`). An empty list: none."""
    given: str | None = None
    """An earlier claim in the file that has to hold first; if it does not, this one is not tested."""
    full_size: bool = False
    """Whether the number holds only at the paper's own settings, so that a scale that reduces a run cannot test it."""
    cause: Cause | None = None
    """Why it is not reproduced, once that has been decided."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        relation, compares = self.relation, self.relation in COMPARISONS
        self._one_source()
        if relation == "equals" and (self.paper_value is None or self.tolerance is None):
            raise ValueError("relation 'equals' needs paper_value and tolerance")
        if relation in (*LIMITS, "changes_less_than") and self.bound is None:
            raise ValueError(f"relation '{relation}' needs bound")
        if compares and self.than is None:
            raise ValueError(f"relation '{relation}' needs than: what the value is compared with")
        if relation == "equals" and self.bound is not None:
            raise ValueError("relation 'equals' takes no bound; give tolerance")
        if relation != "equals" and self.tolerance is not None:
            raise ValueError(f"relation '{relation}' takes no tolerance; give bound")
        if self.errors is not None and (relation not in LIMITS or self.than is None or self.in_figure is not None):
            raise ValueError("errors are those of a difference of metrics: they need 'at_least' or 'at_most', and than")
        if relation == "changes_less_than" and self.bound == 0:
            raise ValueError(f"relation '{relation}' needs a bound above 0: by how much the values may differ")
        if compares and (self.bound or 0) < 0:
            raise ValueError(f"relation '{relation}' needs a bound of 0 or more: by how much the values differ")
        if self.other == self.own:
            raise ValueError("than is the same value as the claim's own; change its runs, metric, dataset or chains")
        return self

    def _one_source(self) -> None:
        """Both sides are rows of the tables, or both are numbers of the figure."""
        if self.in_figure is None:
            if self.metric is None or not self.runs:
                raise ValueError("metric and runs are needed, or figure and in_figure: what is measured")
        elif self.figure is None or self.metric is not None or self.runs:
            raise ValueError("in_figure is a number of `figure`, which has to be named; it takes no metric and no runs")
        if self.than is not None and (self.than.in_figure is None) != (self.in_figure is None):
            raise ValueError("than: both sides of a comparison need in_figure, or neither")

    @property
    def own(self) -> Side:
        """The rows that the claim is about."""
        return Side(self.measures, self.runs, self.dataset, self.chains, None, self.at, self.in_figure)

    @property
    def measures(self) -> str:
        """The metric, or which number of the figure."""
        return self.metric or f"{self.figure}.csv: {self.in_figure.text if self.in_figure else ''}"

    @property
    def other(self) -> Side | None:
        """The rows that they are compared with, if any."""
        if self.than is None:
            return None
        than = self.than
        if than.in_figure is not None:
            return self.own._replace(metric=f"{self.figure}.csv: {than.in_figure.text}", in_figure=than.in_figure)
        return Side(
            than.metric or self.measures,
            than.runs or self.runs,
            than.dataset or self.dataset,
            than.chains,
            than.draws,
            self.at if than.at is None else than.at,
        )

    @property
    def sides(self) -> dict[str, Side]:
        """Key of the claim that names the runs -> one side."""
        return {"runs": self.own} | ({"than.runs": self.other} if self.other else {})


def cannot_fail(claim: Claim, classes: bool = False) -> str:
    """Why the limit of a claim hardly lets it fail, or never lets it hold, and what to do; empty for a sound one.

    What its numbers can be comes first; `classes`: those of a classification. A difference whose size is published is
    tested against that size, to less than half of it: its sign alone, or an increase that may be zero or twice as
    large, says too little. So does a value that may be off by half of itself. Where no size is published, the natural
    scale of the metric takes its place; a limit of a metric that has none needs its basis.
    """
    if why := _decided(claim, classes):
        return why
    paper, size = claim.paper_value, abs(claim.paper_value or 0.0)
    if not size:
        return _unscaled(claim, classes)
    of_sign = claim.relation in ("less_than", "greater_than") or (claim.than and claim.relation in LIMITS)
    reach = -(claim.bound or 0.0) if claim.relation == "at_most" else claim.bound or 0.0
    if of_sign and reach < HALF * size:
        return (
            f"the sign of a difference says little where its size is published ({paper:g}): use relation "
            f"'equals' with a tolerance, or a bound of at least {HALF * size:.3g}"
        )
    if claim.relation == "equals" and (claim.tolerance or 0.0) >= HALF * size:
        what = "difference" if claim.than else "value"
        return (
            f"tolerance {claim.tolerance:g} is half of the published {what} ({paper:g}) or more, which lets it be "
            f"reached by almost anything: give one below {HALF * size:.3g}"
        )
    return ""


def _decided(claim: Claim, classes: bool) -> str:
    """Why a claim holds, or does not, whatever its runs give; empty if they decide it."""
    low, high = _values(claim.own, classes)
    if claim.other is not None:
        smallest, largest = _values(claim.other, classes)
        low, high = low - largest, high - smallest
    bound, paper, tolerance = claim.bound or 0.0, claim.paper_value or 0.0, claim.tolerance or 0.0
    least, most = {
        "equals": (paper - tolerance, paper + tolerance),
        "at_most": (-math.inf, bound),
        "at_least": (bound, math.inf),
        "less_than": (-math.inf, -bound),
        "greater_than": (bound, math.inf),
        "changes_less_than": (-bound, bound),
    }[claim.relation]
    strict = claim.relation in COMPARISONS
    what = f"the difference of two values of {claim.measures}" if claim.other else claim.measures
    between = f"{what} lies between {low:g} and {high:g}"
    if least <= low and most >= high:
        return f"{between}, so it cannot fail: give a limit inside"
    if most < low or least > high or (strict and (most <= low or least >= high)):
        return f"{between}, so it cannot hold: give a limit inside"
    return ""


def _unscaled(claim: Claim, classes: bool) -> str:
    """Why a limit, without a published size to compare it with, may be too wide to be missed; empty for a sound one."""
    bound = claim.bound or 0.0
    wide = {"equals": claim.tolerance or 0.0, "changes_less_than": bound, "at_most": bound, "at_least": -bound}
    width = wide.get(claim.relation, 0.0)
    if width <= 0 or (claim.relation in LIMITS and claim.than is None):
        return ""
    name = claim.own.metric
    scale = math.inf if claim.in_figure else natural_scale(name, classes)
    if math.isinf(scale) and not claim.basis:
        return f"{name} has no natural scale that shows whether {width:g} is much: give a published number, or basis"
    if width >= HALF * scale:
        return f"{width:g} is half of the natural scale of {name} ({scale:g}) or more: give less than {HALF * scale:g}"
    return ""


def _values(side: Side, classes: bool) -> tuple[float, float]:
    """Smallest and largest value of one side."""
    if side.in_figure is None:
        return value_range(side.metric, classes)
    return (0.0, 1.0) if side.in_figure.take == "share_given" else (-math.inf, math.inf)
