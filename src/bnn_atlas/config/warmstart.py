"""Settings of where the chains start: at optimised networks of their own, or at positions of another run."""

from typing import Literal

from bnn_atlas.config.base import Model
from bnn_atlas.config.fields import Count, CountOrNone, NonNegative, Positive


class WarmStartConfig(Model):
    """An ensemble of optimised networks from which the chains start."""

    learning_rate: Positive = 0.01
    weight_decay: NonNegative = 0.005
    max_epochs: Count = 200
    batch_size: Count | None = 64
    """Rows per mini-batch; null for the full data. The last incomplete batch of an epoch is left out."""
    patience: Count | None = 10
    """Epochs without a new best validation loss after which a member stops; null trains for all epochs. Either way a
    member keeps the parameters of its best epoch, where there are validation rows."""
    permuted: CountOrNone | None = None
    """Number of the one member that is trained, from whose copies with randomly permuted hidden units all chains start
    (`bnn_atlas.warmstart.permuted`; fully connected networks only); null gives every chain a member of its own."""


class StartConfig(Model):
    """Positions of another run from which the chains start, instead of optimised networks of their own.

    Such as the optimum of a run by `map`, the draws of a chain, or the mean of a mean-field approximation.
    """

    run: str
    """A run of this study, or `study/run`; it has the same data, splits, network and likelihood."""
    draw: Literal["last", "best", "start", "mean"] = "last"
    """Of each chain of that run: its last draw (that of `map` is its optimum), the one with the highest log posterior,
    the network that it started from, or the mean of what it has fitted (`mean_field`, `laplace`). Chain k starts from
    chain k modulo their number."""
