"""Settings of optimisation and of every method that runs in steps."""

from typing import Annotated, Self

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from bnn_atlas.config.base import Model


class WarmStartConfig(Model):
    """An ensemble of optimised networks from which the chains start."""

    learning_rate: PositiveFloat = 0.01
    weight_decay: Annotated[float, Field(ge=0)] = 0.005
    max_epochs: PositiveInt = 200
    batch_size: PositiveInt | None = 64
    """Rows per mini-batch; null for the full data. The last incomplete batch of an epoch is left out."""
    patience: PositiveInt | None = 10
    """Epochs without a new best validation loss after which a member stops; null trains for all epochs. Either way a
    member keeps the parameters of its best epoch, where there are validation rows."""
    permuted: NonNegativeInt | None = None
    """Number of the one member that is trained, from whose copies with randomly permuted hidden units all chains start
    (`bnn_atlas.training.permuted`; fully connected networks only); null gives every chain a member of its own."""


class ChainConfig(Model):
    """What every method that runs through the runner has."""

    steps: PositiveInt
    """Steps after warm-up, of which every `thinning`-th is kept."""
    thinning: PositiveInt = 1
    checkpoint_every: PositiveInt = 1000
    """Steps between two checkpoints (a segment); never changes a draw."""

    @property
    def draws(self) -> int:
        """States kept per chain."""
        return self.steps // self.thinning

    @model_validator(mode="after")
    def _whole_draws(self) -> Self:
        if self.steps % self.thinning:
            raise ValueError(f"steps ({self.steps}) must be a multiple of thinning ({self.thinning})")
        return self
