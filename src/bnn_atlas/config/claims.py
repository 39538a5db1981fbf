"""Claims of a paper as data: what it states, its number, and the run that answers it."""

import difflib
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from bnn_atlas.config.base import ConfigError, Model, read_yaml, validated
from bnn_atlas.config.expansion import leaves
from bnn_atlas.config.studies import Run, Study

Relation = Literal["equals", "at_most", "at_least", "less_than", "greater_than", "changes_less_than"]
COMPARISONS = ("less_than", "greater_than", "changes_less_than")
"""Relations to another measured value; `equals` may also have one."""
REPETITION = ("seed", "split.seed")
"""Fields in which repetitions of one setting differ."""
NAMES = ("description", "chains_per_block")
"""Fields that change no result."""


class Side(NamedTuple):
    """Which rows of the metric tables are one side of a claim."""

    metric: str
    runs: tuple[str, ...]
    dataset: str | None
    chains: int | None
    draws: int | None


class Other(Model):
    """The value that a claim compares with; `metric`, `runs` and `dataset` that are left out are the claim's own."""

    metric: str | None = None
    runs: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    dataset: str | None = None
    chains: PositiveInt | None = None
    """Take the row for this number of chains (of a run of so many, all that were not excluded); null takes all."""
    draws: PositiveInt | None = None
    """Take the row for this number of draws per chain; null takes all draws."""


class Claim(Model):
    """One statement of a paper that a metric can answer."""

    paper: str | None = None
    """Citation, where it is not that of the file."""
    section: str
    statement: str
    metric: str
    """Metric of the tables, such as `rmse`."""
    runs: Annotated[tuple[str, ...], Field(min_length=1)]
    """Runs or grids that differ in seeds only; several seeds or splits give the uncertainty."""
    dataset: str | None = None
    """Rows of this set, such as `cifar10/fog3`; null takes the test rows of the run's own data set."""
    chains: PositiveInt | None = None
    """Take the row for this number of chains (of a run of so many, all that were not excluded); null takes all."""
    draws: PositiveInt | None = None
    """Take the row for this number of draws per chain; null takes all draws."""
    relation: Relation
    """`equals`: |value - paper_value| <= tolerance, or the same for value - value of `than`; `at_most`, `at_least`:
    against `bound`; `less_than`, `greater_than`: than the value of `than` by more than `bound` (0 if left out);
    `changes_less_than`: |value - value of `than`| < bound."""
    than: Other | None = None
    """What `less_than`, `greater_than` and `changes_less_than` compare with; `equals` with it is about a difference."""
    paper_value: float | None = None
    """The paper's number, for comparisons the difference of its two; null for a statement without one."""
    bound: float | None = None
    tolerance: PositiveFloat | None = None
    """How far from `paper_value` still `equals` it."""
    basis: str | None = None
    """Where the limit (tolerance or bound) comes from, for readers of the verdict."""
    figure: str | None = None
    """A figure of the study that shows it."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        relation, compares = self.relation, self.relation in COMPARISONS
        if relation == "equals" and (self.paper_value is None or self.tolerance is None):
            raise ValueError("relation 'equals' needs paper_value and tolerance")
        if relation in ("at_most", "at_least", "changes_less_than") and self.bound is None:
            raise ValueError(f"relation '{relation}' needs bound")
        if compares and self.than is None:
            raise ValueError(f"relation '{relation}' needs than: what the value is compared with")
        if not compares and relation != "equals" and self.than is not None:
            raise ValueError(f"relation '{relation}' has no than; that is for equals, {', '.join(COMPARISONS)}")
        if relation == "equals" and self.bound is not None:
            raise ValueError("relation 'equals' has no bound; give tolerance")
        if relation != "equals" and self.tolerance is not None:
            raise ValueError(f"relation '{relation}' has no tolerance; give bound")
        if compares and (self.bound or 0) < 0:
            raise ValueError(f"relation '{relation}' needs a bound of 0 or more: by how much the values differ")
        if self.other == self.own:
            raise ValueError("than is the same value as the claim's own; change its runs, metric, dataset or chains")
        return self

    @property
    def own(self) -> Side:
        """The rows that the claim is about."""
        return Side(self.metric, self.runs, self.dataset, self.chains, self.draws)

    @property
    def other(self) -> Side | None:
        """The rows that they are compared with, if any."""
        if self.than is None:
            return None
        than = self.than
        return Side(
            than.metric or self.metric, than.runs or self.runs, than.dataset or self.dataset, than.chains, than.draws
        )

    @property
    def sides(self) -> dict[str, Side]:
        """Key of the claim that names the runs -> one side."""
        return {"runs": self.own} | ({"than.runs": self.other} if self.other else {})


class ClaimsConfig(Model):
    """One file in config/claims."""

    paper: str
    """Citation of the claims that name no other."""
    claims: dict[str, Claim]


def load_claims(path: Path, study: Study) -> ClaimsConfig:
    """Read the claims of a study.

    Names are those of the scale `paper`: a run that a smaller scale leaves out is allowed, and its claims are not run
    there. Raises ConfigError where a claim names a run or a figure that the study does not have, or runs that are no
    repetitions of one setting.
    """
    claims = validated(ClaimsConfig, read_yaml(path), str(path))
    for name, claim in claims.claims.items():
        for key, side in claim.sides.items():
            _check_runs(side.runs, study, f"{path}: claims.{name}.{key}")
        figures = study.config.figures
        if claim.figure is not None and claim.figure not in figures:
            raise ConfigError(
                f"{path}: claims.{name}.figure: no figure '{claim.figure}' in study '{study.name}'; it has "
                f"{', '.join(figures) or 'none'}"
            )
    return claims


def _check_runs(names: tuple[str, ...], study: Study, where: str) -> None:
    """Refuse runs that there are not at the paper's scale, and runs that differ in more than their seeds."""
    paper = study._replace(runs=study.runs_at["paper"])
    for name in names:
        if not paper.runs_of((name,)):
            entries = sorted(study.config.runs)
            close = difflib.get_close_matches(name, [*entries, *paper.runs], n=1)
            hint = f" (did you mean '{close[0]}'?)" if close else ""
            raise ConfigError(f"{where}: no run '{name}' in study '{study.name}'{hint}; it has {', '.join(entries)}")
    for runs in (paper.runs_of(names), study.runs_of(names)):
        for run in runs[1:]:
            if fields := _differences(runs[0], run):
                raise ConfigError(
                    f"{where}: '{runs[0].name}' and '{run.name}' differ in {', '.join(fields)}; runs of a claim may "
                    f"differ in {' and '.join(REPETITION)} only"
                )


def _differences(first: Run, second: Run) -> list[str]:
    """Settings in which two runs differ, apart from those of repetitions."""
    a, b = (dict(leaves(run.config.model_dump(mode="json"))) for run in (first, second))
    return [key for key in sorted(a.keys() | b.keys()) if key not in REPETITION + NAMES and a.get(key) != b.get(key)]
