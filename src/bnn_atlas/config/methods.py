"""Settings of the Markov-chain methods, and the union of all methods."""

import math
from typing import Annotated, Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from bnn_atlas.config.base import ByKind, Fraction
from bnn_atlas.config.sgmcmc import (
    AdaptiveSGHMCConfig,
    PSGLDConfig,
    SGHMCCLRConfig,
    SGHMCCLRPrecConfig,
    SGHMCConfig,
    SGLDConfig,
)
from bnn_atlas.config.training import ChainConfig
from bnn_atlas.config.variational import DeepEnsembleConfig, LaplaceConfig, MAPConfig, MeanFieldConfig

SHORTEST_WARM_UP = 20
"""Transitions below which Stan's schedule has no window for variances."""


class TunedMCLMCConfig(ChainConfig):
    """What the two ways of tuning unadjusted microcanonical Langevin dynamics share."""

    warmup: PositiveInt
    steps: PositiveInt = 10000
    thinning: PositiveInt = 10
    trust_in_estimate: PositiveFloat = 1.5
    diagonal_preconditioning: bool
    phases: tuple[Fraction, Fraction, Fraction]
    energy_guard: PositiveFloat | None = None
    """A step whose energy error exceeds this times the square root of the number of parameters is undone and counted as
    `guarded`; null undoes none. The square root of the desired energy variance is one standard deviation."""

    @property
    def phase_steps(self) -> tuple[int, int, int]:
        """Steps of the three phases."""
        first, second = (round(self.warmup * share) for share in self.phases[:2])
        return first, second, self.warmup - first - second

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if abs(sum(self.phases) - 1) > 1e-9:
            raise ValueError(f"phases must add up to 1, not {sum(self.phases)}")
        if self.warmup * min(self.phases) < 10:
            raise ValueError(f"warmup ({self.warmup}) leaves fewer than 10 steps for a phase of {self.phases}")
        return self


class MCLMCConfig(TunedMCLMCConfig):
    """Unadjusted microcanonical Langevin dynamics with the three tuning phases of MILE."""

    kind: Literal["mclmc"] = "mclmc"
    warmup: PositiveInt = 50000
    """Tuning steps, divided among the phases by `phases`; preconditioning adds a third of the second phase."""
    step_size_init: PositiveFloat = 0.01
    energy_variance_start: PositiveFloat = 0.5
    """Desired variance of the energy error per dimension at the first tuning step."""
    energy_variance_end: PositiveFloat = 0.1
    """The same at the last step of the second phase."""
    num_effective_samples: Annotated[float, Field(ge=1)] = 100
    """Memory of the step-size average, in steps."""
    diagonal_preconditioning: bool = False
    phases: tuple[Fraction, Fraction, Fraction] = (0.8, 0.1, 0.1)
    """Shares of `warmup` for step size, for step size with variances, and for the autocorrelation length."""


class BlackJAXMCLMCConfig(TunedMCLMCConfig):
    """Unadjusted microcanonical Langevin dynamics with the tuning of BlackJAX's `mclmc_find_L_and_step_size`."""

    kind: Literal["mclmc_blackjax"] = "mclmc_blackjax"
    warmup: PositiveInt = 30000
    """Tuning steps, divided among the phases by `phases`; preconditioning adds a third of the second phase."""
    step_size_init: PositiveFloat | None = None
    """Null is a quarter of the square root of the number of parameters."""
    energy_variance: PositiveFloat = 5e-4
    """Desired variance of the energy error per dimension."""
    num_effective_samples: Annotated[float, Field(ge=1)] = 150
    """Memory of the step-size average, in steps."""
    diagonal_preconditioning: bool = True
    phases: tuple[Fraction, Fraction, Fraction] = (1 / 3, 1 / 3, 1 / 3)
    """Shares of `warmup` for step size, for step size with variances, and for the autocorrelation length."""


Mass = Literal["unit", "diagonal"]
"""Mass of the parameters: all alike, or the inverse of the posterior variances that warm-up estimates."""


def _refuse_short_warm_up(name: str, steps: int, needed: bool) -> None:
    if needed and steps < SHORTEST_WARM_UP:
        raise ValueError(f"{name} ({steps}) is too short to estimate variances: at least {SHORTEST_WARM_UP}")


class HMCConfig(ChainConfig):
    """Hamiltonian Monte Carlo: leapfrog steps, jittered trajectory length, Metropolis test."""

    kind: Literal["hmc"] = "hmc"
    burn_in: Annotated[int, Field(ge=0)] = 50
    """Transitions that are not kept; with `adapt_step_size` they also tune the step size."""
    steps: PositiveInt = 100
    step_size: PositiveFloat
    """Of the leapfrog; where it is adapted, the first one."""
    trajectory_length: PositiveFloat
    """Step size times leapfrog steps. A quarter of the period of a Gaussian is pi/2 times its standard deviation."""
    jitter: Annotated[float, Field(ge=0, lt=1)] = 0.2
    """Each trajectory's length is multiplied by a uniform number from [1 - jitter, 1 + jitter]."""
    max_leapfrog_steps: PositiveInt = 10000
    """A trajectory is cut after so many steps, however small the step size has become."""
    mass: Mass = "unit"
    """`diagonal`: inverse masses are the posterior variances, estimated in burn-in as Stan does it, over their mean, so
    that step size and trajectory length mean the same as with unit mass."""
    adapt_step_size: bool = False
    """Dual averaging towards `target_acceptance` in burn-in."""
    target_acceptance: Fraction = 0.8
    burn_in_metropolis: bool = True
    """Whether burn-in tests its proposals; otherwise it takes every one that is finite."""
    checkpoint_every: PositiveInt = 10

    @property
    def leapfrog_steps(self) -> float:
        """Mean leapfrog steps of a trajectory at the given step size: E ceil(a u), u ~ U(1 - jitter, 1 + jitter)."""
        mean = self.trajectory_length / self.step_size
        short, long = mean * (1 - self.jitter), mean * (1 + self.jitter)

        def integral(x: float) -> float:
            """Of ceil from 0 to x."""
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


class NUTSConfig(ChainConfig):
    """The No-U-Turn sampler, with Stan's warm-up."""

    kind: Literal["nuts"] = "nuts"
    warmup: PositiveInt = 1000
    """Transitions that tune the step size and estimate the variances, and are not kept."""
    steps: PositiveInt = 1000
    step_size: PositiveFloat
    """The first one; in units of the posterior standard deviations once these are known."""
    target_acceptance: Fraction = 0.8
    max_doublings: Annotated[int, Field(ge=1, le=20)] = 10
    """A trajectory has at most 2^max_doublings - 1 leapfrog steps."""
    mass: Mass = "diagonal"
    checkpoint_every: PositiveInt = 10

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        _refuse_short_warm_up("warmup", self.warmup, needed=self.mass == "diagonal")
        return self


class AdjustedMCLMCConfig(ChainConfig):
    """Microcanonical Hamiltonian dynamics with a Metropolis test, with Stan's warm-up."""

    kind: Literal["adjusted_mclmc"] = "adjusted_mclmc"
    warmup: PositiveInt = 1000
    """Transitions that tune the step size and estimate the variances, and are not kept."""
    steps: PositiveInt = 1000
    step_size: PositiveFloat
    """The first one: the distance of a step; in units of the posterior standard deviations once these are known."""
    target_acceptance: Fraction = 0.9
    mass: Mass = "diagonal"
    """`diagonal`: the variances are a preconditioner; `unit`: they only set the trajectory length."""
    length_factor: PositiveFloat = 1.3
    """Mean trajectory length over the square root of the sum of the posterior variances."""
    first_steps: PositiveInt = 10
    """Mean integration steps, two gradients each, of a trajectory until the first variances are known."""
    max_integration_steps: PositiveInt = 1000
    """Integration steps of the longest trajectory."""
    checkpoint_every: PositiveInt = 10

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        _refuse_short_warm_up("warmup", self.warmup, needed=True)
        return self


NOT_CHAINS = (MeanFieldConfig, LaplaceConfig, MAPConfig, DeepEnsembleConfig)
"""Methods without a Markov chain: one draw, or independent ones."""

MethodConfig = Annotated[
    MCLMCConfig
    | BlackJAXMCLMCConfig
    | AdjustedMCLMCConfig
    | HMCConfig
    | NUTSConfig
    | SGLDConfig
    | PSGLDConfig
    | SGHMCConfig
    | SGHMCCLRConfig
    | SGHMCCLRPrecConfig
    | AdaptiveSGHMCConfig
    | MeanFieldConfig
    | LaplaceConfig
    | MAPConfig
    | DeepEnsembleConfig,
    Field(discriminator="kind"),
    ByKind,
]
