"""Settings of HMC, NUTS, adjusted microcanonical dynamics, and of two Hamiltonian methods without a Metropolis test."""

import math
from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import Field

from bnn_atlas.config.language.base import Count, CountOrNone, Fraction, Given, GivenCount, Positive, Share
from bnn_atlas.config.methods.base import ChainSettings, KindOfDraws

ROUNDING = 1 + 1e-6
"""Factor on step sizes that are computed from a number of leapfrog steps, so that rounding does not add a step."""
SHORTEST_WARM_UP = 20
"""Smallest number of transitions for which Stan's schedule has a window for estimating variances."""

Mass = Literal["unit", "diagonal"]
"""Mass of the parameters: 1 for all, or the inverse of the posterior variances estimated in warm-up."""


def _too_short(name: str, steps: int, mass: Mass = "diagonal") -> Iterator[str]:
    if mass == "diagonal" and steps < SHORTEST_WARM_UP:
        yield f"{name} ({steps}) is too short to estimate variances: at least {SHORTEST_WARM_UP}"


class LeapfrogSettings(ChainSettings):
    """Settings of leapfrog trajectories.

    Trajectory length and step size are either numbers or relative to the prior: `quarter_periods` and `leapfrog_steps`
    mean the same for every prior width and temperature, so that one entry can have a grid over widths or temperatures.
    """

    family = "hamiltonian"
    builder = "bnn_atlas.methods.hmc:build_hmc"

    burn_in: CountOrNone = 50
    """Transitions at the start that are discarded."""
    steps: Count = 100
    step_size: Given = None
    """Step size of the leapfrog integrator."""
    leapfrog_steps: GivenCount = None
    """Number of steps in a trajectory without jitter; determines the step size, in place of `step_size`."""
    trajectory_length: Given = None
    """Step size times leapfrog steps."""
    quarter_periods: Given = None
    """Trajectory length in units of a quarter period, pi / 2 sd sqrt(T), of the tempered prior; used in place of
    `trajectory_length`. Here sd is the standard deviation of the prior (Gaussian or not), and T the temperature."""
    jitter: Share = 0.2
    """Each trajectory's length is multiplied by a uniform number from [1 - jitter, 1 + jitter]."""
    max_leapfrog_steps: Count = 10000
    """A trajectory is cut after this many steps, however small the step size has become."""
    checkpoint_every: Count = 10

    @property
    def adapts(self) -> bool:
        """Whether the step size is tuned during burn-in."""
        return False

    @property
    def lengths(self) -> tuple[float, float]:
        """Step size and trajectory length.

        Raises:
            ValueError: they are given relative to a prior; call `resolved` first to turn them into numbers.
        """
        if self.step_size is None or self.trajectory_length is None:
            raise ValueError(
                "quarter_periods and leapfrog_steps are relative to a prior: give step_size and trajectory_length, or "
                "call resolved(prior_sd, temperature) first"
            )
        return self.step_size, self.trajectory_length

    @property
    def mean_leapfrog_steps(self) -> float:
        """Mean leapfrog steps of a trajectory at the given step size: E ceil(a u), u ~ U(1 - jitter, 1 + jitter)."""
        step_size, length = self.lengths
        mean = length / step_size
        short, long = mean * (1 - self.jitter), mean * (1 + self.jitter)

        def integral(x: float) -> float:
            """Integral of ceil from 0 to x."""
            return math.ceil(x) * x - math.ceil(x) * (math.ceil(x) - 1) / 2

        steps = (integral(long) - integral(short)) / (long - short) if self.jitter else math.ceil(mean)
        return min(steps, self.max_leapfrog_steps)

    def resolved(self, prior_sd: float | None, temperature: float) -> Self:
        """A copy of these settings with `step_size` and `trajectory_length` as numbers.

        Args:
            prior_sd: standard deviation of all parameters under the prior; None if it differs between them.
            temperature: T of the target, (likelihood x prior)^(1 / T).

        Raises:
            ValueError: `quarter_periods` is given but the parameters have no common standard deviation, or there are
            too many leapfrog steps.
        """
        length, step_size = self.trajectory_length, self.step_size
        if self.quarter_periods is not None:
            if prior_sd is None:
                raise ValueError(
                    "quarter_periods needs a prior with one finite standard deviation for all parameters: give "
                    "trajectory_length instead"
                )
            length = self.quarter_periods * math.pi / 2 * prior_sd * math.sqrt(temperature)
        assert length is not None
        if self.leapfrog_steps is not None:
            step_size = length / self.leapfrog_steps * ROUNDING
        numbers = {"step_size": step_size, "trajectory_length": length, "leapfrog_steps": None, "quarter_periods": None}
        found = self.model_copy(update=numbers)
        found.check_lengths()
        return found

    def check_lengths(self) -> None:
        """Raise ValueError if step size and trajectory length, both given as numbers, are incompatible."""
        if self.step_size is None or self.trajectory_length is None:
            return
        if self.step_size > self.trajectory_length * ROUNDING:
            raise ValueError(
                f"step_size ({self.step_size}) must not exceed trajectory_length ({self.trajectory_length})"
            )
        longest = self.trajectory_length * (1 + self.jitter) / self.step_size
        if not self.adapts and longest > self.max_leapfrog_steps:
            raise ValueError(
                f"max_leapfrog_steps ({self.max_leapfrog_steps}) would cut trajectories of up to {math.ceil(longest)} "
                "steps, trajectory_length (1 + jitter) / step_size: raise it, or shorten the trajectories"
            )

    def _contradictions(self) -> Iterator[str]:
        yield from super()._contradictions()
        for number, relative in (("step_size", "leapfrog_steps"), ("trajectory_length", "quarter_periods")):
            given = [name for name in (number, relative) if getattr(self, name) is not None]
            if len(given) != 1:
                yield f"give {number} or {relative}{', not both' if given else ''}"
        self.check_lengths()


class HMCConfig(LeapfrogSettings):
    """Hamiltonian Monte Carlo: leapfrog steps, jittered trajectory length, Metropolis test."""

    title = "HMC"
    kind_of_draws = KindOfDraws.EXACT_CHAIN

    kind: Literal["hmc"] = "hmc"
    mass: Mass = "unit"
    """`diagonal`: inverse masses are the posterior variances divided by their mean, so that step size and trajectory
    length keep the meaning that they have with unit mass; the variances are estimated in burn-in, as in Stan."""
    adapt_step_size: bool = False
    """Dual averaging towards `target_acceptance` in burn-in, starting at the given step size."""
    target_acceptance: Fraction = 0.8
    """Acceptance rate to which the step size is tuned."""
    burn_in_metropolis: bool = True
    """Whether burn-in has the Metropolis test too; if false, burn-in accepts every finite proposal."""

    @property
    def adapts(self) -> bool:
        """Whether the step size is tuned during burn-in."""
        return self.adapt_step_size

    def _contradictions(self) -> Iterator[str]:
        yield from super()._contradictions()
        if self.adapt_step_size and not self.burn_in:
            yield "adapt_step_size needs burn_in of at least 1"
        yield from _too_short("burn_in", self.burn_in, self.mass)


class UnadjustedHMCConfig(LeapfrogSettings):
    """Hamiltonian dynamics without a Metropolis test: every proposal that is finite and not divergent is accepted.

    The sampled distribution differs from the posterior, and the difference grows with the step size: along a direction
    in which the posterior is Gaussian with standard deviation s, the variance of the draws is s^2 / (1 - (step_size / 2
    s)^2).
    """

    title = "unadjusted HMC"
    kind_of_draws = KindOfDraws.BIASED_CHAIN
    variant = 2

    kind: Literal["unadjusted_hmc"] = "unadjusted_hmc"


class BAOABConfig(ChainSettings):
    """Underdamped Langevin dynamics by the BAOAB splitting (Leimkuhler and Matthews 2013), without a Metropolis test.

    Along a direction in which the posterior is Gaussian, draws have its variance whatever the step size, up to the
    limit of stability at twice its standard deviation; elsewhere their bias is of the second order in the step size.
    """

    title = "BAOAB"
    kind_of_draws = KindOfDraws.BIASED_CHAIN
    family = "langevin"
    variant = 2
    builder = "bnn_atlas.methods.baoab:build_baoab"

    kind: Literal["baoab"] = "baoab"
    burn_in: CountOrNone = 1000
    """Steps at the start that are discarded."""
    steps: Count = 10000
    thinning: Count = 10
    step_size: Positive
    """Below twice the smallest standard deviation of the posterior, beyond which the dynamics are unstable."""
    friction: Positive = 1.0
    """Each step keeps the fraction exp(-friction step_size) of the momentum."""

    @property
    def decay(self) -> float:
        """The fraction of the momentum that a step keeps."""
        return math.exp(-self.friction * self.step_size)


class NUTSConfig(ChainSettings):
    """The No-U-Turn sampler, with Stan's warm-up."""

    title = "NUTS"
    kind_of_draws = KindOfDraws.EXACT_CHAIN
    family = "hamiltonian"
    variant = 1
    builder = "bnn_atlas.methods.nuts:build_nuts"

    kind: Literal["nuts"] = "nuts"
    warmup: Count = 1000
    """Transitions used to tune the step size and estimate the variances, then discarded."""
    steps: Count = 1000
    step_size: Positive
    """Initial step size; in units of the posterior standard deviations once these are known."""
    target_acceptance: Fraction = 0.8
    """Acceptance rate to which the step size is tuned."""
    max_doublings: Annotated[int, Field(ge=1, le=20)] = 10
    """A trajectory has at most 2^max_doublings - 1 leapfrog steps."""
    mass: Mass = "diagonal"
    """`diagonal`: inverse masses are the posterior variances, estimated in warm-up; `unit`: all are 1."""
    checkpoint_every: Count = 10

    def _contradictions(self) -> Iterator[str]:
        yield from super()._contradictions()
        yield from _too_short("warmup", self.warmup, self.mass)


class AdjustedMCLMCConfig(ChainSettings):
    """Microcanonical Hamiltonian dynamics with a Metropolis test, with Stan's warm-up."""

    title = "adjusted MCLMC"
    kind_of_draws = KindOfDraws.EXACT_CHAIN
    family = "microcanonical"
    variant = 2
    builder = "bnn_atlas.methods.adjusted_mclmc:build_adjusted_mclmc"

    kind: Literal["adjusted_mclmc"] = "adjusted_mclmc"
    warmup: Count = 1000
    """Transitions used to tune the step size and estimate the variances, then discarded."""
    steps: Count = 1000
    step_size: Positive
    """Initial length of a step; in units of the posterior standard deviations once these are known."""
    target_acceptance: Fraction = 0.9
    """Acceptance rate to which the step size is tuned."""
    mass: Mass = "diagonal"
    """`diagonal`: the estimated variances serve as a preconditioner; `unit`: they only set the trajectory length."""
    length_factor: Positive = 1.3
    """Mean trajectory length, divided by the square root of the sum of the posterior variances."""
    first_steps: Count = 10
    """Mean number of integration steps per trajectory (two gradients each) until the variances are first estimated."""
    max_integration_steps: Count = 1000
    """Largest number of integration steps in a trajectory."""
    checkpoint_every: Count = 10

    def _contradictions(self) -> Iterator[str]:
        yield from super()._contradictions()
        yield from _too_short("warmup", self.warmup)
