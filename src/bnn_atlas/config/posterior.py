"""Settings of a posterior: network, likelihood, prior and temperature."""

from typing import Annotated, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from bnn_atlas.config.base import ByKind, Model, Seed


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
