"""What the library records about a user's network, prior and density, which the files in config/ cannot describe."""

from typing import Literal

from bnn_atlas.config.language.base import Model
from bnn_atlas.config.parts.posterior import PosteriorConfig
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
    prior: PriorConfig | PriorsByName | UserPriorConfig = StandardNormalPrior()  # type: ignore[assignment]
