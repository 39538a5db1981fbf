"""Claims of a paper as data: the statement, the published number, and the runs that test the claim."""

import math
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from bnn_atlas.config.language.base import Chains, Count, Model, NonNegative, Number, Text, did_you_mean
from bnn_atlas.config.metrics import METRICS, natural_scale, value_range

ReadIn = Literal["text", "table", "figure", "file", "notebook", "follow_up", "own"]
Relation = Literal["equals", "above", "below", "alike", "at_least", "at_most"]
COMPARISONS = ("above", "below", "alike")
"""Relations that need another measured value; with all other relations it is optional."""
LIMITS = ("at_most", "at_least")
HALF = 0.5
"""A size has to be below this fraction of the published number."""


def _known_metric(name: str) -> str:
    if name not in METRICS:
        hint = did_you_mean(name, METRICS) or "; docs/metrics.md lists all"
        raise ValueError(f"there is no such metric{hint}")
    return name


MetricName = Annotated[str, AfterValidator(_known_metric)]
At = Annotated[str, BeforeValidator(lambda value: f"{value:g}" if isinstance(value, int | float) else value)]
"""Column `at` of the metric tables (text); in YAML, a level may be written as a number."""


class FigureValue(Model):
    """A number in the CSV file of the claim's figure, for quantities that no metric measures."""

    column: str
    """Column that holds the number."""
    where: dict[str, str | float] = Field(default_factory=dict)
    """Column -> value: the rows to use; if left empty, all rows."""
    take: Literal["only", "mean", "median", "min", "max", "share_given"] = "only"
    """How the number is computed from these rows: `only` needs exactly one row, and `share_given` is the fraction of
    rows in which the column is not empty."""
    percent: bool = False
    """Whether the column is in %; the claim is then about the fraction."""

    @property
    def text(self) -> str:
        """Description in words of the number that is taken."""
        chosen = ", ".join(f"{column} = {value}" for column, value in self.where.items())
        taken = "" if self.take == "only" else f"{self.take.replace('_', ' ')} of "
        return f"{taken}{self.column}{f' where {chosen}' if chosen else ''}"


class Cause(Model):
    """Why a claim does not hold, or differs from the published number."""

    cause: Text
    """The reason in a few words."""
    certainty: Literal["proved", "likely", "unknown"]
    """How certain the cause is; `proved` and `likely` need `decided_by`."""
    decided_by: Text | None = None
    """The evidence for the cause: something that a target of this repository makes."""
    result: Text | None = None
    """What that showed."""

    @model_validator(mode="after")
    def _decided(self) -> Self:
        if self.certainty != "unknown" and self.decided_by is None:
            raise ValueError(f"a cause that is {self.certainty} needs decided_by: the evidence for it")
        return self


class Published(Model):
    """A published number, or the difference of two."""

    value: Number
    error: NonNegative | None = None
    """The printed error; for a difference, the root of the sum of both squared errors."""
    of_mean: NonNegative | None = None
    """Standard error: each printed error divided by sqrt(repetitions), or unchanged if `repetitions` is not known."""
    reading: NonNegative | None = None
    """Error from reading the number off a picture; null for printed digits."""
    text: str
    """The number with its published digits, as shown everywhere: `~` before a number read off a picture, the error
    after `±`, or as `(sd ...)` if it is known to be a standard deviation over repetitions."""


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
    """The value to compare with. Keys left out, except chains and draws, are taken from the claim."""

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
    """Take the row for this number of chains; null takes all. If this is the run's total, the row without
    excluded chains is taken."""
    draws: Count | None = None
    """Take the row for this number of draws per chain; null takes all draws."""


class Claim(Model):
    """One statement of a paper that a metric can test."""

    paper: Text | None = None
    """Citation, if it differs from the `paper` of the file. What stands before its first comma is its short name."""
    read_in: ReadIn
    """Where the claim comes from. `file`: files that were published with the paper; `own`: not from the paper, but a
    question of this project."""
    place: Text | None = None
    """The section, table, figure or file; not needed for `own`."""
    statement: Text
    """The statement, in a sentence."""
    metric: MetricName | None = None
    """Metric in the tables, such as `rmse`; null if the number comes from a figure."""
    at: At = ""
    """Parameter of the metric, if it has one, such as `0.9` for `coverage`."""
    runs: tuple[str, ...] = ()
    """Runs or grids that differ only in seeds, or in the sample of the data (`name_1`, `name_2`); several seeds,
    samples or splits give the uncertainty. Left empty if the number comes from a figure: the runs are then those of the
    figure."""
    in_figure: FigureValue | None = None
    """A number in the CSV file of `figure`, instead of `metric` and `runs`."""
    dataset: str | None = None
    """Evaluation set whose rows are scored, such as `cifar10/fog3`; null: the test rows of the run's own data set."""
    chains: Chains | None = None
    """Take the row for this number of chains; null takes all. If this is the run's total, the row without
    excluded chains is taken."""
    relation: Relation
    """`equals`: the value is the published number (or `value`); with `than`, the value minus the value of `than` equals
    that number. `above`, `below`: the value is above or below the value of `than`. `alike`: the two are the same.
    `at_least`, `at_most`: the value, or with `than` the difference, is at least or at most `bound`; `at_least` with
    `than` and bound -0.1 means "not lower by more than 0.1"."""
    than: Other | None = None
    """The other value; `above`, `below` and `alike` need one."""
    published: Published | None = None
    """The published number or, with `than`, the published difference; null if there is none."""
    value: Number | None = None
    """The number that the value has to equal, if it follows from theory instead of a publication, such as the level of
    an interval."""
    size: NonNegative | None = None
    """The size that matters: a smaller difference would not be worth mentioning. `equals` and `alike` need a size above
    0; without a size, `above` and `below` test only the sign."""
    bound: Number | None = None
    """Limit of `at_least` and `at_most`."""
    basis: Text | None = None
    """Why this size or bound was chosen, for readers of the verdict; needed unless the size or bound is 0."""
    same_rows: bool = False
    """Whether the published number was computed on the same test rows, so that errors over rows do not count."""
    unaffected_by: tuple[str, ...] = ()
    """Fields of a run that a smaller scale may reduce without affecting the claim, such as `seed`. If the claim names a
    number of chains, any chains beyond that number need not be listed."""
    figure: str | None = None
    """A figure of the study that shows the claim."""
    leans_on: tuple[str, ...] | None = None
    """Runs of Markov chains, among the claim's own or those in its figure, that have to pass the rule for references.
    Null: for a number from a figure, the runs in the figure that serve as references for others
    (`evaluate.references`). An empty list: none."""
    given: str | None = None
    """An earlier claim in the file that has to hold; if the earlier claim does not hold, this claim is not tested."""
    full_size: bool = False
    """Whether the claim can be judged only from full-size runs, because its number belongs to the paper's settings."""
    erratum: Text | None = None
    """Why a published digit is wrong, and the evidence."""
    cause: Cause | None = None
    """Why the claim does not hold or differs, as far as known."""
    finding: str | None = None
    """The finding that the claim supports."""
    step: str | None = None
    """The first step that checks the claim. This step makes the claim's runs, and the figure that holds its number."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        relation = self.relation
        self._one_source()
        if (self.place is None) != (self.read_in == "own"):
            raise ValueError("place is missing: name the section, table, figure or file (not needed for read_in 'own')")
        if self.published is not None and self.read_in == "own":
            raise ValueError("a question of this project (read_in 'own') has no published number; give `value`")
        if relation == "equals" and (self.published is None) == (self.value is None):
            raise ValueError("relation 'equals' needs the number to equal: give published or value")
        if relation != "equals" and self.value is not None:
            raise ValueError(f"relation '{relation}' takes no value")
        if relation in LIMITS and (self.bound is None or self.size is not None):
            raise ValueError(f"relation '{relation}' needs bound, and takes no size")
        if relation not in LIMITS and self.bound is not None:
            raise ValueError(f"relation '{relation}' takes no bound; give size")
        if relation in COMPARISONS and self.than is None:
            raise ValueError(f"relation '{relation}' needs than: the value to compare with")
        if relation in ("equals", "alike") and not self.size:
            raise ValueError(f"relation '{relation}' needs a size above 0: by how much the values may differ")
        if (self.size or self.bound) and self.basis is None:
            raise ValueError("basis is missing: say why this size or bound matters")
        if self.erratum is not None and self.published is None:
            raise ValueError("erratum: there is no published number that could be wrong")
        if self.other == self.own:
            raise ValueError("than is the claim's own value; change the runs, metric, dataset or chains of than")
        return self

    def _one_source(self) -> None:
        """Both sides are rows of the tables, or both are numbers of the figure."""
        if self.in_figure is None:
            if self.metric is None or not self.runs:
                raise ValueError("nothing to measure: give metric and runs, or figure and in_figure")
        elif self.figure is None or self.metric is not None or self.runs:
            raise ValueError("in_figure is a number of `figure`: give figure, and leave out metric and runs")
        if self.than is not None and (self.than.in_figure is None) != (self.in_figure is None):
            raise ValueError("than: both sides of a comparison need in_figure, or neither")

    @property
    def target(self) -> float:
        """The number that the value has to equal; 0 for relations other than `equals`."""
        if self.value is not None:
            return self.value
        return self.published.value if self.relation == "equals" and self.published is not None else 0.0

    @property
    def own(self) -> Side:
        """The rows that the claim is about."""
        return Side(self.measures, self.runs, self.dataset, self.chains, None, self.at, self.in_figure)

    @property
    def measures(self) -> str:
        """Text that says what is measured: the metric, or the number of the figure."""
        return self.metric or f"{self.figure}.csv: {self.in_figure.text if self.in_figure else ''}"

    @property
    def other(self) -> Side | None:
        """The rows that the claim's own rows are compared with, if any."""
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
        """The sides of the claim, keyed by the claim's key that names their runs."""
        return {"runs": self.own} | ({"than.runs": self.other} if self.other else {})


def width(claim: Claim, classes: bool = False) -> float:
    """The size of a claim or, for a bound, its distance from the value without any effect.

    That value is the nearer end of the values that are possible, or 0 where there is none or two values are compared.
    """
    if claim.bound is None:
        return claim.size or 0.0
    ends = [end for end in _values(claim.own, classes) if math.isfinite(end)] if claim.than is None else []
    return min((abs(claim.bound - end) for end in ends), default=abs(claim.bound))


def cannot_fail(claim: Claim, classes: bool = False) -> str:
    """Why a claim's limit makes it unable to fail or to hold, and what to do; empty for a sound claim.

    The range of values that the metric can take is checked first (`classes`: for classification). A value that may be
    off by half of the published number is not tested. If no number is published, the natural scale of the metric is
    used instead of it.
    """
    if why := _decided(claim, classes):
        return why
    size, published = claim.size or 0.0, abs(claim.published.value) if claim.published else 0.0
    if claim.relation == "equals" and published and size >= HALF * published:
        what = "difference" if claim.than else "value"
        return (
            f"size {size:g} is half of the published {what} ({published:g}) or more, so almost any value would pass: "
            f"give a size below {HALF * published:.3g}"
        )
    return "" if published else _unscaled(claim, classes)


def cannot_agree(claim: Claim) -> str:
    """Why even a correct value would rarely agree with the published number, and what to do; empty for a sound claim.

    The size has to be at least four standard errors of the published number, including the error of reading it off a
    picture: half of the size is then left for the errors of the measured value. Rounding by up to a hundredth does not
    matter.
    """
    if claim.relation != "equals" or claim.published is None:
        return ""
    error = math.hypot(claim.published.of_mean or 0.0, claim.published.reading or 0.0)
    if 4 * error <= 1.01 * (claim.size or 0.0):
        return ""
    return (
        f"the published number has an error of {error:.2g}, and four times that is more than the size {claim.size:g}: "
        f"even a correct value would rarely agree; give a size of {4 * error:.2g} or more"
    )


def _decided(claim: Claim, classes: bool) -> str:
    """Why a claim holds or fails whatever its runs yield; empty if the runs decide it."""
    low, high = _values(claim.own, classes)
    if claim.other is not None:
        smallest, largest = _values(claim.other, classes)
        low, high = low - largest, high - smallest
    size, target, bound = claim.size or 0.0, claim.target, claim.bound or 0.0
    least, most = {
        "equals": (target - size, target + size),
        "above": (size, math.inf),
        "below": (-math.inf, -size),
        "alike": (-size, size),
        "at_least": (bound, math.inf),
        "at_most": (-math.inf, bound),
    }[claim.relation]
    what = f"the difference of two values of {claim.measures}" if claim.other else claim.measures
    between = f"{what} lies between {low:g} and {high:g}"
    if least <= low and most >= high:
        return f"{between}, so it cannot fail: give a limit inside"
    strict = claim.relation in COMPARISONS
    if most < low or least > high or (strict and (most <= low or least >= high)):
        return f"{between}, so it cannot hold: give a limit inside"
    return ""


def _unscaled(claim: Claim, classes: bool) -> str:
    """Why a limit without a published number is so wide that any value meets it; empty for a sound limit."""
    size, bound = claim.size or 0.0, claim.bound or 0.0
    width = {"equals": size, "alike": size, "at_most": bound, "at_least": -bound}.get(claim.relation, 0.0)
    if width <= 0 or claim.in_figure or (claim.relation in LIMITS and claim.than is None):
        return ""
    name, scale = claim.own.metric, natural_scale(claim.own.metric, classes)
    if width >= HALF * scale:
        return f"{width:g} is half of the natural scale of {name} ({scale:g}) or more: give less than {HALF * scale:g}"
    return ""


def _values(side: Side, classes: bool) -> tuple[float, float]:
    """Smallest and largest value of one side."""
    if side.in_figure is None:
        return value_range(side.metric, classes)
    return (0.0, 1.0) if side.in_figure.take == "share_given" else (-math.inf, math.inf)
