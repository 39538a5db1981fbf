"""Settings of where chains start and when they end."""

from collections.abc import Iterator
from typing import Literal

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
    """Epochs without a new best validation loss after which a member stops; null trains for all epochs. Either way a
    member keeps the parameters of its best epoch, if there are validation rows."""
    permuted: CountOrNone | None = None
    """Only the member with this number is trained, and all chains start from copies of it with randomly permuted hidden
    units (`bnn_atlas.warmstart.initial`; fully connected networks only); null gives every chain a member of its
    own."""


class StartConfig(Model):
    """Positions of another run from which the chains start, instead of optimised networks of their own.

    For example the optimum of a run by `map`, the draws of a chain, or the mean of a mean-field approximation.
    """

    run: str
    """A run of this study, or `study/run`; it must have the same data, splits, network and likelihood."""
    draw: Literal["last", "best", "start", "mean"] = "last"
    """What is taken from each chain of that run. `last`: its last draw (for `map`, its optimum); `best`: the draw with
    the highest log posterior; `start`: the network that it started from; `mean`: the mean of what it has fitted
    (`mean_field`, `laplace`). Chain k starts from chain k modulo the number of chains in that run."""


class InitialConfig(Model):
    """How networks are drawn for chains that start without training."""

    distribution: Literal["default", "normal", "kaiming_uniform"] = "default"
    """`default`: the layers' own initialisers; `normal`: every parameter from N(0, scale^2), biases included;
    `kaiming_uniform`: weights and biases of a layer uniform within 1 / sqrt(fan_in) of 0 (He et al. 2015 with the slope
    sqrt(5), the default of PyTorch)."""
    scale: Given = None
    """Standard deviation of `normal`."""
    transpositions: tuple[CountOrNone, ...] | None = None
    """Chains in pairs: chain 2i + 1 starts from the network of chain 2i with the units of each hidden layer permuted at
    random by exactly this number of transpositions, entry i. Null starts every chain from a network of its own."""

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
        """A number of chains that is not two for each entry, and permutations that the network does not have."""
        if self.transpositions is None:
            return
        if chains != 2 * len(self.transpositions):
            yield (
                f"initial.transpositions has {len(self.transpositions)} entries and each is a pair of chains: set "
                f"chains to {2 * len(self.transpositions)}, not {chains}"
            )
        if not isinstance(model, MLPConfig):
            return  # how many units their groups have is known to the job
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


class StoppingConfig(Model):
    """A block of chains ends with the first draw by which every chain's E-value has reached 1 / alpha.

    The E-value says how much better a chain's draws so far have predicted the validation rows than its own warm start
    (`bnn_atlas.runner.stopping`). A block with a chain that never gets there takes all draws.
    """

    alpha: Fraction = 0.01
    """Largest probability that a chain ever gets there if its draws predict no better than its warm start. "No better"
    means that the expected likelihood ratio of each draw on these rows, given the draws before it, is at most 1."""
