"""Settings of untrained networks from which chains start."""

from typing import Literal, Self

from pydantic import model_validator

from bnn_atlas.config.base import Model
from bnn_atlas.config.fields import CountOrNone, Given
from bnn_atlas.config.posterior import MLPConfig, ModelConfig


class InitialConfig(Model):
    """How the networks are drawn from which chains start without training."""

    distribution: Literal["default", "normal", "kaiming_uniform"] = "default"
    """`default`: the layers' own initialisers; `normal`: every parameter from N(0, scale^2), biases included;
    `kaiming_uniform`: weights and biases of a layer uniform within 1 / sqrt(fan_in) of 0 (He et al. 2015 with the slope
    sqrt(5), the default of PyTorch)."""
    scale: Given = None
    """Standard deviation of `normal`."""
    transpositions: tuple[CountOrNone, ...] | None = None
    """Chains in pairs: chain 2i + 1 starts from the network of chain 2i with the units of each hidden layer permuted at
    random by exactly this number of transpositions, entry i. Null starts every chain from a network of its own."""

    @model_validator(mode="after")
    def _scale_of_normal(self) -> Self:
        if self.distribution == "normal" and self.scale is None:
            raise ValueError("initial.distribution 'normal' needs initial.scale, its standard deviation")
        if self.distribution != "normal" and self.scale is not None:
            raise ValueError(
                f"initial.scale ({self.scale:g}) is for initial.distribution 'normal', not '{self.distribution}': set "
                "distribution: normal, or leave scale out"
            )
        return self

    @model_validator(mode="after")
    def _pairs(self) -> Self:
        if self.transpositions is not None and not self.transpositions:
            raise ValueError("transpositions is empty: give a number for each pair of chains, or null")
        return self

    def check(self, model: ModelConfig, chains: int) -> None:
        """Refuse a number of chains that is not two for each entry, and permutations that the network does not have.

        Raises ValueError.
        """
        if self.transpositions is None:
            return
        if chains != 2 * len(self.transpositions):
            raise ValueError(
                f"initial.transpositions has {len(self.transpositions)} entries and each is a pair of chains: set "
                f"chains to {2 * len(self.transpositions)}, not {chains}"
            )
        if not isinstance(model, MLPConfig):
            return  # how many units their groups have is known to the job
        if not model.hidden:
            raise ValueError(
                "initial.transpositions permutes hidden units, and model.hidden is empty: give hidden layers, or leave "
                "transpositions out"
            )
        if (most := max(self.transpositions)) >= (units := min(model.hidden)):
            raise ValueError(
                f"initial.transpositions = {most}: a permutation of the {units} units of the narrowest layer has "
                f"0 to {units - 1} transpositions"
            )
