"""Settings of a model, its posterior and the methods that explore it."""

from typing import Annotated, Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from bnn_atlas.config.base import ByKind, Model

Fraction = Annotated[float, Field(gt=0, lt=1)]
Seed = Annotated[int, Field(ge=0, lt=2**31)]


class MLPConfig(Model):
    """A fully connected network; input and output widths follow from the data and the likelihood."""

    kind: Literal["mlp"] = "mlp"
    hidden: tuple[PositiveInt, ...]
    """Widths of the hidden layers; empty for a linear model."""
    activation: Literal["relu", "tanh", "sigmoid", "silu", "identity"] = "relu"
    bias: bool = True

    @property
    def label(self) -> str:
        """Short name for tables, such as `mlp 16x16 relu`."""
        return " ".join([self.kind, "x".join(map(str, self.hidden)) or "linear", self.activation])


class GaussianLikelihood(Model):
    """y ~ N(f(x), sigma^2) with known sigma."""

    kind: Literal["gaussian"] = "gaussian"
    sigma: PositiveFloat = 1.0


class LearnedNoiseLikelihood(Model):
    """y ~ N(f(x), sigma^2); log sigma is one more parameter, starts at 0 and has the prior of the biases."""

    kind: Literal["learned_noise"] = "learned_noise"


class HeteroscedasticLikelihood(Model):
    """y ~ N(f_0(x), sigma(f_1(x))^2); the network's second output sets the noise."""

    kind: Literal["heteroscedastic"] = "heteroscedastic"
    head: Literal["exp", "softplus"] = "exp"
    """sigma = clip(exp(f_1), 1e-6, 1e6), or softplus(f_1) + 1e-6."""


class CategoricalLikelihood(Model):
    """y ~ Categorical(softmax f(x))."""

    kind: Literal["categorical"] = "categorical"


LikelihoodConfig = Annotated[
    GaussianLikelihood | LearnedNoiseLikelihood | HeteroscedasticLikelihood | CategoricalLikelihood,
    Field(discriminator="kind"),
    ByKind,
]


class StandardNormalPrior(Model):
    """N(0, 1) on every parameter."""

    kind: Literal["standard_normal"] = "standard_normal"


class NormalPrior(Model):
    """N(loc, scale^2) on every parameter."""

    kind: Literal["normal"] = "normal"
    loc: float = 0.0
    scale: PositiveFloat = 1.0


class LaplacePrior(Model):
    """Laplace(loc, scale) on every parameter."""

    kind: Literal["laplace"] = "laplace"
    loc: float = 0.0
    scale: PositiveFloat = 1.0


class GlorotPrior(Model):
    """Weights N(0, factor^2 / fan_avg), all else N(0, 1)."""

    kind: Literal["glorot"] = "glorot"
    factor: PositiveFloat = 1.0


class HePrior(Model):
    """Weights N(0, 2 / fan_in), all else N(0, 1)."""

    kind: Literal["he"] = "he"


class GlorotLaplacePrior(Model):
    """Weights Laplace(0, 1 / sqrt(2 fan_avg)), all else Laplace(0, 1 / sqrt 2)."""

    kind: Literal["glorot_laplace"] = "glorot_laplace"


class GlorotUniformPrior(Model):
    """Weights U(-a, a) with a = sqrt(3 / fan_avg), all else a = sqrt 3.

    The log density falls by log(1000) per unit outside, so that gradients bring a chain back.
    """

    kind: Literal["glorot_uniform"] = "glorot_uniform"


class EpsStandardNormalPrior(Model):
    """N(eps_m, (scale softplus(s_m))^2) with eps_m ~ N(0, var_eps) and s_m ~ N(1, var_eps) drawn once by `seed`.

    A different Gaussian for each parameter breaks the permutation symmetry.
    """

    kind: Literal["eps_standard_normal"] = "eps_standard_normal"
    scale: PositiveFloat = 1.0
    var_eps: PositiveFloat = 0.1
    seed: Seed = 0


PriorConfig = Annotated[
    StandardNormalPrior
    | NormalPrior
    | LaplacePrior
    | GlorotPrior
    | HePrior
    | GlorotLaplacePrior
    | GlorotUniformPrior
    | EpsStandardNormalPrior,
    Field(discriminator="kind"),
    ByKind,
]


class PosteriorConfig(Model):
    """What defines a posterior apart from its data."""

    model: MLPConfig
    likelihood: LikelihoodConfig
    prior: PriorConfig = StandardNormalPrior()
    temperature: PositiveFloat = 1.0
    """The target is (likelihood x prior)^(1 / temperature)."""
    float64: bool = False


class WarmStartConfig(Model):
    """An ensemble of optimised networks from which the chains start."""

    learning_rate: PositiveFloat = 0.01
    weight_decay: Annotated[float, Field(ge=0)] = 0.005
    max_epochs: PositiveInt = 200
    batch_size: PositiveInt | None = 64
    """Rows per mini-batch; null for the full data. The last incomplete batch of an epoch is left out."""
    patience: PositiveInt | None = 10
    """Epochs without a new best validation loss after which a member stops; null trains for all epochs."""


class _Chain(Model):
    steps: PositiveInt
    """Steps after warm-up, of which every `thinning`-th is kept."""
    thinning: PositiveInt = 1
    checkpoint_every: PositiveInt = 1000
    """Steps between two checkpoints (a segment); never changes a draw."""

    @property
    def draws(self) -> int:
        """States kept per chain."""
        return self.steps // self.thinning

    @model_validator(mode="after")
    def _whole_draws(self) -> Self:
        if self.steps % self.thinning:
            raise ValueError(f"steps ({self.steps}) must be a multiple of thinning ({self.thinning})")
        return self


class MCLMCConfig(_Chain):
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


class HMCConfig(_Chain):
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
