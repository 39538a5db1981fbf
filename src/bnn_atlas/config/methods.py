"""Settings of the Markov-chain methods, and the union of all methods."""

from typing import Annotated, Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from bnn_atlas.config.base import ByKind, Fraction
from bnn_atlas.config.training import ChainConfig


class MCLMCConfig(ChainConfig):
    """Unadjusted microcanonical Langevin dynamics with the three tuning phases of MILE."""

    kind: Literal["mclmc"] = "mclmc"
    warmup: PositiveInt = 50000
    """Tuning steps, divided among the phases by `phases`; preconditioning adds a third of the second phase."""
    steps: PositiveInt = 10000
    thinning: PositiveInt = 10
    step_size_init: PositiveFloat = 0.01
    energy_variance_start: PositiveFloat = 0.5
    """Desired variance of the energy error per dimension at the first tuning step."""
    energy_variance_end: PositiveFloat = 0.1
    """The same at the last step of the second phase."""
    trust_in_estimate: PositiveFloat = 1.5
    num_effective_samples: PositiveFloat = 100
    """Memory of the step-size average, in steps."""
    diagonal_preconditioning: bool = False
    phases: tuple[Fraction, Fraction, Fraction] = (0.8, 0.1, 0.1)
    """Shares of `warmup` for step size, for step size with variances, and for the autocorrelation length."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if abs(sum(self.phases) - 1) > 1e-9:
            raise ValueError(f"phases must add up to 1, not {sum(self.phases)}")
        if self.warmup * min(self.phases) < 10:
            raise ValueError(f"warmup ({self.warmup}) leaves fewer than 10 steps for a phase of {self.phases}")
        return self


class HMCConfig(ChainConfig):
    """Hamiltonian Monte Carlo: leapfrog steps, jittered trajectory length, Metropolis test."""

    kind: Literal["hmc"] = "hmc"
    burn_in: Annotated[int, Field(ge=0)] = 50
    """Transitions that are not kept; with `adapt_step_size` they also tune the step size."""
    steps: PositiveInt = 100
    step_size: PositiveFloat
    trajectory_length: PositiveFloat
    jitter: Annotated[float, Field(ge=0, lt=1)] = 0.2
    """Each trajectory's length is multiplied by a uniform number from [1 - jitter, 1 + jitter]."""
    max_leapfrog_steps: PositiveInt = 10000
    """A trajectory is cut after so many steps, however small the step size has become."""
    adapt_step_size: bool = False
    """Dual averaging towards `target_acceptance` in burn-in."""
    target_acceptance: Fraction = 0.8
    checkpoint_every: PositiveInt = 10

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.step_size > self.trajectory_length:
            raise ValueError(
                f"step_size ({self.step_size}) must not exceed trajectory_length ({self.trajectory_length})"
            )
        if self.adapt_step_size and not self.burn_in:
            raise ValueError("adapt_step_size needs burn_in of at least 1")
        return self


MethodConfig = Annotated[MCLMCConfig | HMCConfig, Field(discriminator="kind"), ByKind]
