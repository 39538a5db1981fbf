"""Claims of a paper as data: what it states, its number, and the run that answers it."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from bnn_atlas.config.base import ConfigError, Model, read_yaml, validated
from bnn_atlas.config.studies import Study


class Claim(Model):
    """One statement of a paper that a metric can answer."""

    section: str
    statement: str
    metric: str
    """Metric of the tables, such as `rmse`."""
    runs: tuple[str, ...]
    """Runs or grids; a grid over seeds gives the uncertainty."""
    chains: int | None = None
    """Take the row for this number of chains; null takes all chains."""
    relation: Literal["equals", "at_most", "at_least"]
    paper_value: float | None = None
    """The paper's number; null for a statement without one."""
    bound: float | None = None
    """The number that `at_most` and `at_least` compare with."""
    tolerance: Annotated[float, Field(gt=0)] | None = None
    """How far from `paper_value` still `equals` it."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.relation == "equals" and (self.paper_value is None or self.tolerance is None):
            raise ValueError("relation 'equals' needs paper_value and tolerance")
        if self.relation != "equals" and self.bound is None:
            raise ValueError(f"relation '{self.relation}' needs bound")
        return self


class ClaimsConfig(Model):
    """One file in config/claims."""

    paper: str
    claims: dict[str, Claim]


def load_claims(path: Path, study: Study) -> ClaimsConfig:
    """Read the claims of a study; ConfigError where one names a run that the study does not have."""
    claims = validated(ClaimsConfig, read_yaml(path), str(path))
    for name, claim in claims.claims.items():
        for run in claim.runs:
            if not study.runs_of((run,)):
                raise ConfigError(
                    f"{path}: claims.{name}.runs: no run '{run}' in study '{study.name}'; "
                    f"it has {', '.join(sorted({r.entry for r in study.runs.values()}))}"
                )
    return claims
