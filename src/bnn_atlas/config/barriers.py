"""Settings of what is measured between networks of two chains of a run: permutations, distances and barriers."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from bnn_atlas.config.base import Model
from bnn_atlas.config.fields import Count


class BarrierConfig(Model):
    """Loss and error along straight lines between networks of two chains, as they are and after alignment.

    Also the number of transpositions (NoT) of the permutation that aligns them, their squared distance, and the norms
    of all arrays along the draws.
    """

    pairs: Literal["neighbours", "first", "all"] = "neighbours"
    """`neighbours`: chains 0 and 1, 2 and 3, and so on; `first`: chain 0 and each other; `all`: every two chains."""
    draws: Count | None = 1
    """Draws of each chain at which pairs are compared: 1 is the last one; more are evenly spaced from the first to the
    last; null takes all."""
    points: Annotated[int, Field(ge=3, le=1001)] = 11
    """Points of a line, from one network to the other; an odd number, so that its middle is one of them."""
    criterion: Literal["weights", "cosine", "activations", "centred", "correlation"] = "activations"
    """What matches units: `weights` by the inner product of all that a unit has; `cosine` of the incoming weights of
    the only hidden layer; `activations` by the inner product of activations over rows, as published, `centred` by their
    covariance, `correlation` by their correlation."""
    matching_rows: Count | None = 5000
    """Training rows, evenly spread, whose activations are compared; null takes all."""
    training_rows: Count | None = None
    """Training rows, the first ones, on which loss and error are computed; null takes all."""
    surface: bool = False
    """Whether every network of a line is matched to the line's start, too."""

    @model_validator(mode="after")
    def _has_a_middle(self) -> Self:
        if self.points % 2 == 0:
            raise ValueError(f"points ({self.points}) must be odd, so that the middle of a line is one of them")
        return self

    def check(self, chains: int, hidden: bool) -> None:
        """Refuse a run without two chains or hidden units; raises ValueError."""
        if chains < 2 or (self.pairs == "neighbours" and chains % 2):
            needed = "an even number" if self.pairs == "neighbours" else "at least two"
            raise ValueError(
                f"evaluate.barriers.pairs = '{self.pairs}' needs {needed} of chains, and chains is {chains}: change one"
            )
        if not hidden:
            raise ValueError(
                "evaluate.barriers aligns hidden units, and the model has none: give model.hidden, or leave them out"
            )

    def pairs_of(self, chains: int) -> list[tuple[int, int]]:
        """Positions of the two chains of each pair."""
        if self.pairs == "neighbours":
            return [(first, first + 1) for first in range(0, chains, 2)]
        firsts = range(1) if self.pairs == "first" else range(chains)
        return [(first, second) for first in firsts for second in range(first + 1, chains)]
