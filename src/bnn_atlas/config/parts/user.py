"""What the library records of a user's network, likelihood and prior, which the files in config/ cannot describe."""

from collections.abc import Callable
from typing import Any, Literal

from pydantic import Field

from bnn_atlas.config.language.base import Model
from bnn_atlas.config.parts.posterior import LikelihoodConfig, PosteriorConfig
from bnn_atlas.config.parts.priors import PriorConfig, StandardNormalPrior


class UserNetworkConfig(Model):
    """A user's network."""

    kind: Literal["user"] = "user"
    name: str
    """Name of the network's class or function."""
    digest: str
    """SHA-256 of the computation."""

    @property
    def label(self) -> str:
        """Short name for tables."""
        return self.name


class UserLikelihoodConfig(Model):
    """A user's likelihood: a function of outputs and targets that returns the log density of every row."""

    kind: Literal["user"] = "user"
    name: str
    digest: str
    """SHA-256 of the computation, with that of the mean."""
    parameters: tuple[str, ...] = ()
    """Names of the likelihood's own parameters, which are numbers."""
    log_density: Callable[..., Any] = Field(exclude=True, repr=False)
    """(outputs [n, outputs], targets [n], own parameters by name) -> log density [n]; not recorded."""
    mean: Callable[..., Any] | None = Field(default=None, exclude=True, repr=False)
    """(outputs, own parameters by name) -> predictive mean [n]; not recorded."""


AnyLikelihood = LikelihoodConfig | UserLikelihoodConfig


class UserPriorConfig(Model):
    """A user's prior: a function of the parameters that returns their log density."""

    kind: Literal["user"] = "user"
    name: str
    digest: str
    """SHA-256 of the computation."""


class PriorsByName(Model):
    """Priors by patterns of names; a parameter has the prior of the first pattern that it matches."""

    kind: Literal["by_name"] = "by_name"
    priors: dict[str, PriorConfig]


class UserPosteriorConfig(PosteriorConfig):
    """A posterior of a user's network."""

    model: UserNetworkConfig  # type: ignore[assignment]
    likelihood: AnyLikelihood  # type: ignore[assignment]
    prior: PriorConfig | PriorsByName | UserPriorConfig = StandardNormalPrior()  # type: ignore[assignment]
