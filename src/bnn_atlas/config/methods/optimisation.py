"""Settings of optimisers, and of methods that only optimise: maxima, deep ensembles, paths."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from bnn_atlas.config.language.base import ByKind, Count, Model, Positive, Share
from bnn_atlas.config.methods.base import AugmentationConfig, KindOfDraws, MethodSettings, without_batches


class SGDConfig(Model):
    """Stochastic gradient descent with heavy-ball momentum: m <- momentum m + g, theta <- theta - learning_rate m."""

    kind: Literal["sgd"] = "sgd"
    learning_rate: Positive
    """Multiplies the gradient of the whole objective, which is a sum over all rows and not a mean, so learning rates
    are small: about 1e-7 for 50,000 rows."""
    momentum: Share = 0.9
    """Fraction of m that each step keeps; 0 is plain gradient descent."""
    schedule: Literal["constant", "cosine"] = "cosine"
    """Whether the learning rate stays constant, or falls to 0 along half a cosine over all steps."""


class AdamConfig(Model):
    """Adam with its usual constants (0.9, 0.999, 1e-8)."""

    kind: Literal["adam"] = "adam"
    learning_rate: Positive = 0.001
    """Approximate distance that a parameter moves in one step, whatever the size of the gradient."""
    schedule: Literal["constant", "cosine"] = "cosine"
    """Whether the learning rate stays constant, or falls to 0 along half a cosine over all steps."""


OptimiserConfig = Annotated[SGDConfig | AdamConfig, Field(discriminator="kind"), ByKind]


class MAPConfig(MethodSettings):
    """A maximum of the log posterior, found by stochastic gradients from the warm start; one draw per chain.

    Unlike in the warm start, the objective includes the prior, and there is no early stopping. The
    untempered log posterior is optimised, since the temperature does not move a maximum.
    """

    title = "MAP"
    kind_of_draws = KindOfDraws.POINT
    family = "optimised"
    variant = 1
    builder = "bnn_atlas.methods.optimise:build_map"

    kind: Literal["map"] = "map"
    epochs: Count = 500
    """Passes over the training rows."""
    batch_size: Count | None = 80
    """Rows per mini-batch; null for the full data."""
    augmentation: AugmentationConfig | None = None
    """Random flips and crops of the images in a mini-batch; null for none."""
    optimiser: OptimiserConfig = AdamConfig()
    """How the log posterior is maximised."""
    checkpoint_every: Count = 1000
    """Steps between two checkpoints; never changes the result."""

    def _contradictions(self) -> Iterator[str]:
        yield from without_batches(self.augmentation, self.batch_size)


class DeepEnsembleConfig(MethodSettings):
    """The warm starts themselves, one draw per chain; a learned noise level is fitted to their residuals."""

    title = "deep ensemble"
    kind_of_draws = KindOfDraws.POINT
    family = "optimised"
    builder = "bnn_atlas.methods.independent:build_deep_ensemble"

    kind: Literal["deep_ensemble"] = "deep_ensemble"
    checkpoint_every: ClassVar[int] = 1


class MeanSGDConfig(SGDConfig):
    """Stochastic gradient descent with heavy-ball momentum: m <- momentum m + g, theta <- theta - learning_rate m."""

    learning_rate: Positive = 0.001
    """Multiplies the gradient of the mean loss per row."""
    schedule: Literal["constant", "cosine"] = "constant"


class MeanAdamConfig(AdamConfig):
    """Adam with its usual constants (0.9, 0.999, 1e-8)."""

    schedule: Literal["constant", "cosine"] = "constant"


class PathConfig(MethodSettings):
    """Training without a prior; the draws are the initial network and the network after every epoch.

    Each chain has its own order of the rows, and starts from its own network or, with `initial.transpositions`, from a
    permuted copy of another chain's network. Predictions and scores are those of the last network of each chain.
    """

    title = "path"
    kind_of_draws = KindOfDraws.POINT
    family = "optimised"
    variant = 2
    builder = "bnn_atlas.methods.optimise:build_path"

    kind: Literal["path"] = "path"
    epochs: Count
    """Passes over the training rows."""
    batch_size: Count | None = 64
    """Rows per mini-batch; null for the full data. The last incomplete batch of an epoch is left out."""
    optimiser: Annotated[MeanSGDConfig | MeanAdamConfig, Field(discriminator="kind"), ByKind] = MeanSGDConfig()
    """How the networks are trained."""
    checkpoint_every: Count = 1000
    """Steps between two checkpoints; never changes a draw."""

    @property
    def draws(self) -> int:
        """States kept per chain: the start and one for each epoch."""
        return self.epochs + 1
