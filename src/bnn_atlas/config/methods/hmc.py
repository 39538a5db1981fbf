"""Settings of the methods with a Metropolis test: HMC, NUTS and adjusted microcanonical dynamics."""

import math
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from bnn_atlas.config.fields import Count, CountOrNone, Fraction, Positive, Share
from bnn_atlas.config.methods.base import ChainSettings, KindOfDraws

SHORTEST_WARM_UP = 20
"""Transitions below which Stan's schedule has no window for variances."""

Mass = Literal["unit", "diagonal"]
"""Mass of the parameters: all alike, or the inverse of the posterior variances that warm-up estimates."""


def _refuse_short_warm_up(name: str, steps: int, needed: bool) -> None:
    if needed and steps < SHORTEST_WARM_UP:
        raise ValueError(f"{name} ({steps}) is too short to estimate variances: at least {SHORTEST_WARM_UP}")


class HMCConfig(ChainSettings):
    """Hamiltonian Monte Carlo: leapfrog steps, jittered trajectory length, Metropolis test."""

    title = "HMC"
    kind_of_draws = KindOfDraws.EXACT_CHAIN
    family = "hamiltonian"
    builder = "bnn_atlas.methods.hmc:build_hmc"

    kind: Literal["hmc"] = "hmc"
    burn_in: CountOrNone = 50
    """Transitions that are not kept; with `adapt_step_size` they also tune the step size."""
    steps: Count = 100
    step_size: Positive
    """Step size of the leapfrog integrator; the initial one if it is adapted."""
    trajectory_length: Positive
    """Step size times leapfrog steps. A quarter of the period of a Gaussian is pi/2 times its standard deviation."""
    jitter: Share = 0.2
    """Each trajectory's length is multiplied by a uniform number from [1 - jitter, 1 + jitter]."""
    max_leapfrog_steps: Count = 10000
    """A trajectory is cut after this many steps, however small the step size has become."""
    mass: Mass = "unit"
    """`diagonal`: inverse masses are the posterior variances, estimated in burn-in as Stan does it, over their mean, so
    that step size and trajectory length mean the same as with unit mass."""
    adapt_step_size: bool = False
    """Dual averaging towards `target_acceptance` in burn-in."""
    target_acceptance: Fraction = 0.8
    burn_in_metropolis: bool = True
    """Whether burn-in tests its proposals; otherwise it takes every one that is finite."""
    checkpoint_every: Count = 10

    @property
    def leapfrog_steps(self) -> float:
        """Mean leapfrog steps of a trajectory at the given step size: E ceil(a u), u ~ U(1 - jitter, 1 + jitter)."""
        mean = self.trajectory_length / self.step_size
        short, long = mean * (1 - self.jitter), mean * (1 + self.jitter)

        def integral(x: float) -> float:
            """Integral of ceil from 0 to x."""
            return math.ceil(x) * x - math.ceil(x) * (math.ceil(x) - 1) / 2

        steps = (integral(long) - integral(short)) / (long - short) if self.jitter else math.ceil(mean)
        return min(steps, self.max_leapfrog_steps)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.step_size > self.trajectory_length:
            raise ValueError(
                f"step_size ({self.step_size}) must not exceed trajectory_length ({self.trajectory_length})"
            )
        longest = self.trajectory_length * (1 + self.jitter) / self.step_size
        if not self.adapt_step_size and longest > self.max_leapfrog_steps:
            raise ValueError(
                f"max_leapfrog_steps ({self.max_leapfrog_steps}) would cut trajectories of up to {math.ceil(longest)} "
                "steps, trajectory_length (1 + jitter) / step_size: raise it, or shorten the trajectories"
            )
        if self.adapt_step_size and not self.burn_in:
            raise ValueError("adapt_step_size needs burn_in of at least 1")
        _refuse_short_warm_up("burn_in", self.burn_in, needed=self.mass == "diagonal")
        return self


class NUTSConfig(ChainSettings):
    """The No-U-Turn sampler, with Stan's warm-up."""

    title = "NUTS"
    kind_of_draws = KindOfDraws.EXACT_CHAIN
    family = "hamiltonian"
    variant = 1
    builder = "bnn_atlas.methods.nuts:build_nuts"

    kind: Literal["nuts"] = "nuts"
    warmup: Count = 1000
    """Transitions that tune the step size and estimate the variances, and are not kept."""
    steps: Count = 1000
    step_size: Positive
    """Initial step size; in units of the posterior standard deviations once these are known."""
    target_acceptance: Fraction = 0.8
    max_doublings: Annotated[int, Field(ge=1, le=20)] = 10
    """A trajectory has at most 2^max_doublings - 1 leapfrog steps."""
    mass: Mass = "diagonal"
    checkpoint_every: Count = 10

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        _refuse_short_warm_up("warmup", self.warmup, needed=self.mass == "diagonal")
        return self


class AdjustedMCLMCConfig(ChainSettings):
    """Microcanonical Hamiltonian dynamics with a Metropolis test, with Stan's warm-up."""

    title = "adjusted MCLMC"
    kind_of_draws = KindOfDraws.EXACT_CHAIN
    family = "microcanonical"
    variant = 2
    builder = "bnn_atlas.methods.adjusted_mclmc:build_adjusted_mclmc"

    kind: Literal["adjusted_mclmc"] = "adjusted_mclmc"
    warmup: Count = 1000
    """Transitions that tune the step size and estimate the variances, and are not kept."""
    steps: Count = 1000
    step_size: Positive
    """Initial length of a step; in units of the posterior standard deviations once these are known."""
    target_acceptance: Fraction = 0.9
    mass: Mass = "diagonal"
    """`diagonal`: the variances are a preconditioner; `unit`: they only set the trajectory length."""
    length_factor: Positive = 1.3
    """Mean trajectory length over the square root of the sum of the posterior variances."""
    first_steps: Count = 10
    """Mean integration steps, two gradients each, of a trajectory until the first variances are known."""
    max_integration_steps: Count = 1000
    """Integration steps of the longest trajectory."""
    checkpoint_every: Count = 10

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        _refuse_short_warm_up("warmup", self.warmup, needed=True)
        return self
