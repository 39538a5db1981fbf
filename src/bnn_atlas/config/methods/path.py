"""Settings of paths: networks along their training."""

from typing import Annotated, Literal

from pydantic import Field

from bnn_atlas.config.base import ByKind
from bnn_atlas.config.fields import Count, Positive
from bnn_atlas.config.methods.base import KindOfDraws, MethodSettings
from bnn_atlas.config.methods.optimisation import AdamConfig, SGDConfig


class MeanSGDConfig(SGDConfig):
    """Stochastic gradient descent with heavy-ball momentum: m <- momentum m + g, theta <- theta - learning_rate m."""

    learning_rate: Positive = 0.001
    """Multiplies the gradient of the mean loss of a row."""
    schedule: Literal["constant", "cosine"] = "constant"
    """Whether the learning rate stays, or falls to 0 along half a cosine over all steps."""


class MeanAdamConfig(AdamConfig):
    """Adam with its usual constants (0.9, 0.999, 1e-8)."""

    schedule: Literal["constant", "cosine"] = "constant"
    """Whether the learning rate stays, or falls to 0 along half a cosine over all steps."""


class PathConfig(MethodSettings):
    """Training without a prior whose draws are the networks along the way: the start, then one after every epoch.

    Each chain has its own order of the rows, and starts from its own network or, with `initial.transpositions`, from a
    permuted copy of that of another chain. Predictions and scores are those of the last network of each chain.
    """

    title = "path"
    kind_of_draws = KindOfDraws.POINT
    family = "optimised"
    variant = 2
    builder = "bnn_atlas.methods.optimise:build_path"

    kind: Literal["path"] = "path"
    epochs: Count
    batch_size: Count | None = 64
    """Rows per mini-batch; null for the full data. The last incomplete batch of an epoch is left out."""
    optimiser: Annotated[MeanSGDConfig | MeanAdamConfig, Field(discriminator="kind"), ByKind] = MeanSGDConfig()
    checkpoint_every: Count = 1000
    """Steps between two checkpoints; never changes a draw."""

    @property
    def draws(self) -> int:
        """States kept per chain: the start and one for each epoch."""
        return self.epochs + 1
