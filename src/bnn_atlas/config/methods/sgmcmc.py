"""Settings of the stochastic-gradient Markov-chain methods.

Lengths are in epochs, as the papers give them: an epoch is one pass over the rows in mini-batches of `batch_size`. A
last, incomplete mini-batch is left out, so an epoch has (rows // batch_size) steps; with the full data it has one.
"""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from bnn_atlas.config.language.base import ByKind, Count, CountOrNone, Fraction, Model, Positive, Share
from bnn_atlas.config.methods.base import (
    AugmentationConfig,
    ChainSettings,
    KindOfDraws,
    MethodSettings,
    without_batches,
)

Decay = Share


class ConstantSchedule(Model):
    """The step size falls along a cosine from `step_size` to `final_step_size` in burn-in, and then stays constant."""

    kind: Literal["constant"] = "constant"
    final_step_size: Positive | None = None
    """Step size after burn-in; null takes `step_size` throughout."""


class CyclicalSchedule(Model):
    """`step_size` in burn-in, then cycles from `step_size` to nearly 0 along half a cosine (Zhang et al. 2020)."""

    kind: Literal["cyclical"] = "cyclical"
    cycle_epochs: Count = 50
    """Epochs of a cycle."""


class PolynomialSchedule(Model):
    """step_size (1 + t / offset_epochs)^-power after t epochs (Welling and Teh 2011)."""

    kind: Literal["polynomial"] = "polynomial"
    offset_epochs: Positive = 1.0
    """Number of epochs after which the step size begins to fall noticeably."""
    power: Annotated[float, Field(gt=0.5, le=1)] = 0.55
    """Between 1/2 and 1, for step sizes whose sum diverges and whose squares have a finite sum."""


ScheduleConfig = Annotated[
    ConstantSchedule | CyclicalSchedule | PolynomialSchedule, Field(discriminator="kind"), ByKind
]


class RMSpropConfig(Model):
    """A diagonal mass M = epsilon + sqrt(e) with the moving average e <- decay e + (1 - decay) g^2."""

    decay: Fraction = 0.99
    """Fraction of the average e that each step keeps."""
    epsilon: Positive = 1e-7
    """Smallest mass."""
    per_row: bool = False
    """Whether g is the gradient of the log posterior divided by the number of rows, instead of the gradient itself."""
    adapt_after_burn_in: bool = True
    """Whether to keep averaging after burn-in. This leaves a bias, since M then changes with the position; false fixes
    M at its value at the end of burn-in."""


class SGMCMCConfig(MethodSettings):
    """Settings common to stochastic-gradient Langevin and Hamiltonian dynamics."""

    kind_of_draws = KindOfDraws.STOCHASTIC_GRADIENT_CHAIN
    builder = "bnn_atlas.methods.sgmcmc:build_sgmcmc"

    epochs: Count = 10000
    """All epochs, burn-in included."""
    burn_in_epochs: CountOrNone = 1000
    """Epochs at the start that are discarded."""
    ensemble_every: Count = 10
    """Epochs between two kept draws."""
    batch_size: Count | None = 80
    """Rows per mini-batch; null for the full data."""
    augmentation: AugmentationConfig | None = None
    """Random flips and crops of the images in a mini-batch; null for none."""
    step_size: Positive
    """Multiplies the gradient of the log posterior, which is a sum over all rows and not a mean, so step sizes are
    small: about 1e-6 for 50,000 rows."""
    checkpoint_every: Count = 1000
    """Steps between two checkpoints; raised to the number of steps between two draws if that is larger. Never changes a
    draw."""

    @property
    def draws(self) -> int:
        """States kept per chain."""
        return (self.epochs - self.burn_in_epochs) // self.ensemble_every

    def _contradictions(self) -> Iterator[str]:
        yield from without_batches(self.augmentation, self.batch_size)
        sampling = self.epochs - self.burn_in_epochs
        if sampling < self.ensemble_every or sampling % self.ensemble_every:
            yield (
                f"epochs ({self.epochs}) minus burn_in_epochs ({self.burn_in_epochs}) must be a positive multiple of "
                f"ensemble_every ({self.ensemble_every})"
            )


class SGLDConfig(SGMCMCConfig):
    """Stochastic-gradient Langevin dynamics (Welling and Teh 2011)."""

    title = "SGLD"
    family = "langevin"

    kind: Literal["sgld"] = "sgld"
    schedule: ScheduleConfig = ConstantSchedule()
    """How the step size changes."""


class PSGLDConfig(SGMCMCConfig):
    """Preconditioned SGLD (Li et al. 2016), without the small term for the change of the preconditioner."""

    title = "pSGLD"
    family = "langevin"
    variant = 1

    kind: Literal["psgld"] = "psgld"
    schedule: ScheduleConfig = ConstantSchedule()
    """How the step size changes."""
    preconditioner: RMSpropConfig = RMSpropConfig(epsilon=1e-5, per_row=True)
    """The mass of the parameters."""


class SGHMCConfig(SGMCMCConfig):
    """Stochastic-gradient Hamiltonian Monte Carlo (Chen et al. 2014)."""

    title = "SGHMC"
    family = "stochastic_hamiltonian"

    kind: Literal["sghmc"] = "sghmc"
    momentum_decay: Decay = 0.9
    """Fraction of the momentum that each step keeps; 0 is SGLD."""
    schedule: ScheduleConfig = ConstantSchedule()
    """How the step size changes."""


class SGHMCCLRConfig(SGMCMCConfig):
    """SGHMC with cyclical step sizes; set `ensemble_every` to whole cycles for draws at cycle ends only."""

    title = "SGHMC-CLR"
    family = "stochastic_hamiltonian"
    variant = 1

    kind: Literal["sghmc_clr"] = "sghmc_clr"
    ensemble_every: Count = 50
    momentum_decay: Decay = 0.95
    """Fraction of the momentum that each step keeps; 0 is cyclical SGLD."""
    schedule: CyclicalSchedule = CyclicalSchedule()
    """How the step size changes."""


class SGHMCCLRPrecConfig(SGMCMCConfig):
    """SGHMC with cyclical step sizes and the mass of RMSprop."""

    title = "SGHMC-CLR-Prec"
    family = "stochastic_hamiltonian"
    variant = 2

    kind: Literal["sghmc_clr_prec"] = "sghmc_clr_prec"
    ensemble_every: Count = 50
    momentum_decay: Decay = 0.95
    """Fraction of the momentum that each step keeps."""
    schedule: CyclicalSchedule = CyclicalSchedule()
    """How the step size changes."""
    preconditioner: RMSpropConfig = RMSpropConfig()
    """The mass of the parameters."""


class SGHMCPrecConfig(SGMCMCConfig):
    """SGHMC with the mass of RMSprop."""

    title = "SGHMC-Prec"
    family = "stochastic_hamiltonian"
    variant = 4

    kind: Literal["sghmc_prec"] = "sghmc_prec"
    momentum_decay: Decay = 0.95
    """Fraction of the momentum that each step keeps."""
    schedule: ScheduleConfig = ConstantSchedule()
    """How the step size changes."""
    preconditioner: RMSpropConfig = RMSpropConfig()
    """The mass of the parameters."""


class AdaptiveSGHMCConfig(ChainSettings):
    """SGHMC that estimates its mass and the noise of its gradients in burn-in (Springenberg et al. 2016).

    It was designed for gradients that are mostly noise: with little noise, the mass is just the gradient at the end of
    burn-in. Lengths are in steps, as in the study that uses this method.
    """

    title = "adaptive SGHMC"
    kind_of_draws = KindOfDraws.STOCHASTIC_GRADIENT_CHAIN
    family = "stochastic_hamiltonian"
    variant = 3
    builder = "bnn_atlas.methods.adaptive_sghmc:build_adaptive_sghmc"

    kind: Literal["adaptive_sghmc"] = "adaptive_sghmc"
    burn_in: Count = 10000
    """Steps that adapt the mass and are discarded."""
    steps: Count = 10000
    thinning: Count = 100
    batch_size: Count = 256
    """Rows per mini-batch."""
    step_size: Positive = 1e-4
    """eps: each step adds eps^2 times the gradient, in units of its root mean square, to the change in position."""
    friction: Fraction = 0.05
    """Fraction of the momentum that each step loses."""
    momentum_zeroing: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Probability that a step of burn-in begins by setting the whole momentum to 0 (not to a new draw); steps after
    burn-in never do. This cools burn-in, since the noise is still matched to the friction only."""
    rest_after_burn_in: bool = False
    """Whether sampling begins with momentum 0 instead of the momentum at the end of burn-in."""
