"""Settings of unadjusted microcanonical Langevin dynamics, on all rows and on mini-batches."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from bnn_atlas.config.language.base import LARGEST, Count, Fraction, Model, Positive
from bnn_atlas.config.methods.base import AugmentationConfig, ChainSettings, KindOfDraws


class TunedMCLMCConfig(ChainSettings):
    """Settings common to the two ways of tuning unadjusted microcanonical Langevin dynamics."""

    kind_of_draws = KindOfDraws.BIASED_CHAIN
    family = "microcanonical"

    warmup: Count
    steps: Count = 10000
    thinning: Count = 10
    trust_in_estimate: Positive = 1.5
    """The larger this value, the less a large energy error reduces the weight of a step in the average of the step
    size."""
    diagonal_preconditioning: bool
    """Scale parameters by their standard deviations, from the second phase of tuning on."""
    phases: tuple[Fraction, Fraction, Fraction]
    energy_guard: Positive | None = None
    """A step is undone and counted as `guarded` if its energy error exceeds this value times the square root of the
    number of parameters; null never undoes a step. For a limit of k standard deviations, give k times the square root
    of the desired energy variance."""

    @property
    def phase_steps(self) -> tuple[int, int, int]:
        """Steps of the three phases."""
        first, second = (round(self.warmup * share) for share in self.phases[:2])
        return first, second, self.warmup - first - second

    def _contradictions(self) -> Iterator[str]:
        yield from super()._contradictions()
        if abs(sum(self.phases) - 1) > 1e-9:
            yield f"phases must add up to 1, not {sum(self.phases)}"
        if self.warmup * min(self.phases) < 10:
            yield f"warmup ({self.warmup}) leaves fewer than 10 steps for a phase of {self.phases}"


class MCLMCConfig(TunedMCLMCConfig):
    """Unadjusted microcanonical Langevin dynamics with the three tuning phases of MILE."""

    title = "MCLMC"
    builder = "bnn_atlas.methods.mclmc_tuning:build_mile"

    kind: Literal["mclmc"] = "mclmc"
    warmup: Count = 50000
    """Tuning steps, divided among the phases by `phases`; preconditioning adds a third as many steps as the second
    phase has."""
    step_size_init: Positive = 0.01
    """Step size at which tuning begins."""
    energy_variance_start: Positive = 0.5
    """Desired variance of the energy error per dimension at the first tuning step."""
    energy_variance_end: Positive = 0.1
    """Desired variance of the energy error per dimension at the last step of the second phase."""
    num_effective_samples: Annotated[float, Field(ge=1, le=LARGEST)] = 100
    """Memory of the step-size average, in steps."""
    diagonal_preconditioning: bool = False
    phases: tuple[Fraction, Fraction, Fraction] = (0.8, 0.1, 0.1)
    """Fractions of `warmup` for tuning the step size, the step size and variances together, and the autocorrelation
    length."""

    @property
    def desired_energy_variance(self) -> float:
        """The variance desired at the end of tuning."""
        return self.energy_variance_end


class BlackJAXMCLMCConfig(TunedMCLMCConfig):
    """Unadjusted microcanonical Langevin dynamics with the tuning of BlackJAX's `mclmc_find_L_and_step_size`."""

    title = "MCLMC (BlackJAX)"
    variant = 1
    builder = "bnn_atlas.methods.mclmc_tuning:build_mclmc_blackjax"

    kind: Literal["mclmc_blackjax"] = "mclmc_blackjax"
    warmup: Count = 30000
    """Tuning steps, divided among the phases by `phases`; preconditioning adds a third as many steps as the second
    phase has."""
    step_size_init: Positive | None = None
    """Step size at which tuning begins; null takes a quarter of the square root of the number of parameters."""
    energy_variance: Positive = 5e-4
    """Desired variance of the energy error per dimension."""
    num_effective_samples: Annotated[float, Field(ge=1, le=LARGEST)] = 150
    """Memory of the step-size average, in steps."""
    diagonal_preconditioning: bool = True
    phases: tuple[Fraction, Fraction, Fraction] = (1 / 3, 1 / 3, 1 / 3)
    """Fractions of `warmup` for tuning the step size, the step size and variances together, and the autocorrelation
    length."""

    @property
    def desired_energy_variance(self) -> float:
        """The desired variance, which is the same throughout tuning."""
        return self.energy_variance


class EnergyTunerConfig(Model):
    """A step size that follows the distribution of the energy errors |dE|, which is taken for a Gamma distribution."""

    reset: Fraction = 0.99
    """A step whose |dE| is above this quantile is undone and counted as `guarded`."""
    tails: Fraction = 0.05
    """Probability of the two tails in which |dE| changes the step size: the upper two thirds of it shrink, the lower
    third grows."""
    change: Fraction = 0.02
    """Fraction by which a step in a tail changes the step size."""
    memory: Fraction = 0.99
    """Fraction of the averages of |dE| that each step keeps."""


class SMILEConfig(ChainSettings):
    """Microcanonical Langevin dynamics whose only noise is in the gradients of mini-batches (Sommer et al. 2026).

    With `noise_preconditioning` it is the paper's pSMILE, and without a tuner its naive variant.
    """

    title = "SMILE"
    kind_of_draws = KindOfDraws.STOCHASTIC_GRADIENT_CHAIN
    family = "microcanonical"
    variant = 3
    builder = "bnn_atlas.methods.smile:build_smile"

    kind: Literal["smile"] = "smile"
    burn_in: Count = 50000
    """Steps that adapt the step size and the scales, and are discarded."""
    steps: Count = 10000
    thinning: Count = 10
    batch_size: Count = 256
    """Rows per mini-batch; fewer than all rows."""
    augmentation: AugmentationConfig | None = None
    """Random flips and crops of the images in a mini-batch; null for none."""
    step_size: Positive = 0.001
    """Distance that a step covers, at the start."""
    noise_preconditioning: bool = True
    """Scale parameters so that the noise of their gradients is equal."""
    tuner: EnergyTunerConfig | None = EnergyTunerConfig()
    """How energy errors change the step size and undo steps; null keeps `step_size`."""
    adapt_after_burn_in: bool = False
    """Whether the step size and the scales keep changing while draws are kept, as in the published code; scales that
    change with the position bias the draws."""
