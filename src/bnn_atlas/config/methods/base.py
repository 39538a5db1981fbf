"""What the settings of all methods share: the record of what is true of a method, and the lengths of a chain."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from bnn_atlas.config.language.base import Count, CountOrNone, Model

Family = Literal[
    "hamiltonian", "microcanonical", "langevin", "stochastic_hamiltonian", "optimised", "approximation", "implicit"
]  # fmt: skip
"""Methods of one family have shades of one colour in figures."""
PointNoise = Annotated[Literal["sampled", "point"], Field(exclude_if=lambda value: value == "sampled")]
"""How a variational method treats a learned noise; left out of stored settings at its default."""


class KindOfDraws(StrEnum):
    """Kind of draws that a method makes; it decides how these draws may be judged."""

    EXACT_CHAIN = "Markov chain, exact in the limit"
    BIASED_CHAIN = "Markov chain, biased by its step size"
    STOCHASTIC_GRADIENT_CHAIN = "Markov chain, biased by its step size and by mini-batches"
    INDEPENDENT = "independent draws from an approximation"
    POINT = "one point per chain"

    @property
    def are_chain(self) -> bool:
        """Whether each draw depends on the previous draw."""
        return self not in (KindOfDraws.INDEPENDENT, KindOfDraws.POINT)


class MethodSettings(Model):
    """Settings of a method, and what is true of the method whatever its settings."""

    title: ClassVar[str]
    """Name in texts, tables and legends."""
    kind_of_draws: ClassVar[KindOfDraws]
    family: ClassVar[Family]
    variant: ClassVar[int] = 0
    """Index of the shade, marker and line style within the family; 0 is the family's own colour with a solid line."""
    builder: ClassVar[str]
    """`module:function` with the signature (settings, posterior, data) -> Method; imported when a run needs it."""

    centre: ClassVar[str | None] = None
    """Name of the array in an approximation's fit that holds its mean, from which chains of other runs may start."""

    @property
    def desired_energy_variance(self) -> float | None:
        """Variance of the energy error per dimension to which the step size is tuned; None without such tuning."""
        return None

    @property
    def builders(self) -> tuple[str, ...]:
        """`builder`, and functions `module:function` that change what it builds: (method, settings) -> Method."""
        return (self.builder,)

    def for_rows(self, rows: int) -> Self:
        """A copy in which settings that depend on the number of rows are given as numbers."""
        return self


class ChainSettings(MethodSettings):
    """Settings of methods whose length is given in steps and whose draws are every `thinning`-th state."""

    steps: Count
    """Steps after warm-up, of which every `thinning`-th is kept."""
    thinning: Count = 1
    """Every n-th state is kept."""
    checkpoint_every: Count = 1000
    """Steps between two checkpoints (one segment); never changes a draw."""

    @property
    def draws(self) -> int:
        """States kept per chain."""
        return self.steps // self.thinning

    def _contradictions(self) -> Iterator[str]:
        if self.steps % self.thinning:
            yield f"steps ({self.steps}) must be a multiple of thinning ({self.thinning})"


class VariationalSettings(ChainSettings):
    """Settings of methods that fit a density to the posterior, and then draw from it."""

    starts: Annotated[Count, Field(exclude_if=lambda value: value == 1)] = 1
    """Fits from different random starts, of which the one with the highest evidence lower bound is kept; the metric
    `elbo_of_starts` has the bounds of all. What starts at the chain's warm start does so in all fits, and then the
    fits differ only by the noise of their steps and by what starts at random (a generator, a low-rank factor). Time and
    memory grow with the number of fits."""

    @property
    def builders(self) -> tuple[str, ...]:
        """With several starts, the best of the fits is chosen."""
        several = ("bnn_atlas.methods.restarts:best_of_starts",) if self.starts > 1 else ()
        return (*super().builders, *several)


class AugmentationConfig(Model):
    """Images of a mini-batch are flipped and cropped at random in every step; images in predictions are left unchanged.

    The chain or optimiser then follows gradients of E log p(y | g(x), theta) over the random changes g, which is not
    the log-likelihood of any data set; the full-data log-likelihood in the trace is that of the unchanged rows.
    """

    flip: bool = True
    """Each image is flipped left to right with probability 1/2."""
    crop: CountOrNone = 4
    """Each image is shifted by up to this many whole pixels along both axes, as if it were padded by this many copies
    of its outermost pixels and cropped to its original size at a random position; 0 means no shift."""

    def _contradictions(self) -> Iterator[str]:
        if not self.flip and not self.crop:
            yield "flip: false and crop: 0 change nothing; leave the augmentation out"


def without_batches(augmentation: AugmentationConfig | None, batch_size: int | None) -> Iterator[str]:
    """An error message if there is an augmentation but no mini-batches."""
    if augmentation is not None and batch_size is None:
        yield "augmentation is for mini-batches: give batch_size, or leave augmentation out"
