"""Settings of where chains start, when they end, and which of their draws are kept."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from bnn_atlas.config.language.base import Count, CountOrNone, Fraction, Given, Model, NonNegative, Positive
from bnn_atlas.config.parts.posterior import MLPConfig, ModelConfig


class WarmStartConfig(Model):
    """An ensemble of optimised networks from which the chains start."""

    learning_rate: Positive = 0.01
    """Learning rate of AdamW."""
    weight_decay: NonNegative = 0.005
    """Weight decay of AdamW."""
    max_epochs: Count = 200
    """At most this many passes over the training rows."""
    batch_size: Count | None = 64
    """Rows per mini-batch; null for the full data. The last incomplete batch of an epoch is left out."""
    patience: Count | None = 10
    """Training of a member stops after this many epochs without a new best validation loss; null trains for all epochs.
    Either way, a member keeps the parameters of its best epoch, if there are validation rows."""
    permuted: CountOrNone | None = None
    """Train only the member with this index, and start all chains from copies of it with randomly permuted hidden units
    (`bnn_atlas.warmstart.initial`; fully connected networks only); null trains a separate member for each chain."""


class StartConfig(Model):
    """Positions taken from another run as starting points of the chains, in place of a warm start.

    Examples are the optimum of a `map` run, the draws of a chain, and the mean of a mean-field approximation.
    """

    run: str
    """A run of this study, or `study/run`; it must have the same data, splits, network and likelihood."""
    draw: Literal["last", "best", "start", "mean"] = "last"
    """Position to take from each chain of that run. `last`: the last draw (for `map`, the optimum); `best`: the draw
    with the highest log posterior; `start`: the network that the chain started from; `mean`: the mean of the fitted
    approximation (`mean_field`, `laplace`). Chain k starts from chain k modulo the number of chains in that run."""


class InitialConfig(Model):
    """Distribution of the initial networks for chains that start without training."""

    distribution: Literal["default", "normal", "kaiming_uniform"] = "default"
    """`default`: the layers' own initialisers; `normal`: every parameter from N(0, scale^2), biases included;
    `kaiming_uniform`: weights and biases of a layer uniform within 1 / sqrt(fan_in) of 0 (He et al. 2015 with the slope
    sqrt(5), the default of PyTorch)."""
    scale: Given = None
    """Standard deviation of `normal`."""
    transpositions: tuple[CountOrNone, ...] | None = None
    """For chains in pairs: chain 2i + 1 starts from the network of chain 2i, with the units of each hidden layer
    permuted at random by exactly as many transpositions as entry i states. Null starts every chain from a different
    network."""

    def _contradictions(self) -> Iterator[str]:
        if self.distribution == "normal" and self.scale is None:
            yield "initial.distribution 'normal' needs initial.scale, its standard deviation"
        if self.distribution != "normal" and self.scale is not None:
            yield (
                f"initial.scale ({self.scale:g}) is for initial.distribution 'normal', not '{self.distribution}': set "
                "distribution: normal, or leave scale out"
            )
        if self.transpositions is not None and not self.transpositions:
            yield "transpositions is empty: give a number for each pair of chains, or null"

    def misfits(self, model: ModelConfig, chains: int) -> Iterator[str]:
        """Error messages if there are not two chains per entry, or if the network cannot have these permutations."""
        if self.transpositions is None:
            return
        if chains != 2 * len(self.transpositions):
            yield (
                f"initial.transpositions has {len(self.transpositions)} entries, each for a pair of chains: set "
                f"chains to {2 * len(self.transpositions)}, not {chains}"
            )
        if not isinstance(model, MLPConfig):
            return  # the job knows the number of units in their groups
        if not model.hidden:
            yield (
                "initial.transpositions permutes hidden units, and model.hidden is empty: give hidden layers, or leave "
                "transpositions out"
            )
        if (most := max(self.transpositions)) >= (units := min(model.hidden)):
            yield (
                f"initial.transpositions = {most}: a permutation of the {units} units of the narrowest layer has "
                f"0 to {units - 1} transpositions"
            )


class ThinnedConfig(Model):
    """Draws that a run keeps of a trace that is reduced while the run is sampled."""

    every: Count
    """The first draw of a chain and every `every`-th after it are kept."""


KeptDraws = Annotated[Literal["all", "none"] | ThinnedConfig, Field(exclude_if=lambda value: value == "all")]
"""Draws that stay on disk; left out of stored settings at its default."""


class StoppingConfig(Model):
    """A block of chains ends at the first draw at which the E-values of all its chains have reached 1 / alpha.

    The E-value measures how much better a chain's draws so far have predicted the validation rows than its own warm
    start (`bnn_atlas.runner.stopping`). If some chain never reaches this value, the block takes all draws.
    """

    alpha: Fraction = 0.01
    """Largest probability that a chain ever reaches 1 / alpha if its draws predict no better than its warm start. "No
    better" means that the expected likelihood ratio of each draw on these rows, given the draws before it, is at most
    1."""
