"""Settings of a posterior: network, likelihood, prior and temperature."""

import math
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from bnn_atlas.config.base import ByKind, Model
from bnn_atlas.config.fields import Count, Depth, Number, Positive, Seed, Width
from bnn_atlas.config.methods.augmentation import AugmentationConfig

MOST_WEIGHTS = 10**9
"""Bound of the weights between hidden layers: 4 GB for each copy of one network."""


class MLPConfig(Model):
    """A fully connected network; input and output widths follow from the data and the likelihood."""

    kind: Literal["mlp"] = "mlp"
    hidden: Annotated[tuple[Width, ...], Field(max_length=1000)]
    """Widths of the hidden layers; empty for a linear model."""
    activation: Literal["relu", "tanh", "sigmoid", "silu", "gelu", "identity"] = "relu"
    """`gelu` is x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""
    bias: bool = True

    @field_validator("hidden")
    @classmethod
    def _fits_memory(cls, hidden: tuple[int, ...]) -> tuple[int, ...]:
        weights = sum(a * b for a, b in pairwise(hidden))
        if weights > MOST_WEIGHTS:
            raise ValueError(f"{weights:,} weights between hidden layers; at most {MOST_WEIGHTS:,} are allowed")
        return hidden

    @property
    def label(self) -> str:
        """Short name for tables, such as `mlp 16x16 relu`."""
        return " ".join([self.kind, "x".join(map(str, self.hidden)) or "linear", self.activation])


class LeNetConfig(Model):
    """LeNet of Izmailov et al. 2021: three 5x5 convolutions, each with pooling, and two dense layers.

    For images of at least 15x15 pixels.
    """

    kind: Literal["lenet"] = "lenet"

    @property
    def label(self) -> str:
        """Short name for tables."""
        return self.kind


class LeNettiConfig(Model):
    """The small convolutional network of the sampling study: one 3x3 filter and three dense layers of 8 units."""

    kind: Literal["lenetti"] = "lenetti"
    activation: Literal["sigmoid", "tanh", "relu", "silu"] = "sigmoid"

    @property
    def label(self) -> str:
        """Short name for tables, such as `lenetti sigmoid`."""
        return f"{self.kind} {self.activation}"


class ResNetFRNConfig(Model):
    """A residual network for small images (He et al. 2016) with filter response norm."""

    kind: Literal["resnet_frn"] = "resnet_frn"
    depth: Depth = 20
    """6 n + 2 for n blocks in each of the three stacks."""
    activation: Literal["silu", "relu"] = "silu"

    @field_validator("depth")
    @classmethod
    def _whole_blocks(cls, depth: int) -> int:
        return _depth(depth, 2)

    @property
    def label(self) -> str:
        """Short name for tables, such as `resnet20 frn silu`."""
        return f"resnet{self.depth} frn {self.activation}"


class WideResNetFRNConfig(Model):
    """A wide residual network (Zagoruyko and Komodakis 2016) with filter response norm."""

    kind: Literal["wide_resnet_frn"] = "wide_resnet_frn"
    depth: Depth
    """6 n + 4 for n blocks in each of the three stacks."""
    widen: Depth
    """Factor on the widths 16, 32 and 64 of the stacks."""
    activation: Literal["relu", "silu"] = "relu"

    @field_validator("depth")
    @classmethod
    def _whole_blocks(cls, depth: int) -> int:
        return _depth(depth, 4)

    @property
    def label(self) -> str:
        """Short name for tables, such as `wrn-16-4 frn relu`."""
        return f"wrn-{self.depth}-{self.widen} frn {self.activation}"


def _depth(depth: int, other: int) -> int:
    """The depth, if beside `other` layers it has the same number of two-layer blocks in three stacks."""
    if depth < 6 + other or (depth - other) % 6:
        raise ValueError(f"6 n + {other} with n at least 1 is allowed: {6 + other}, {12 + other}, {18 + other}, ...")
    return depth


class CNNLSTMConfig(Model):
    """Embedding, one convolution with pooling, an LSTM whose last state is classified (Izmailov et al. 2021)."""

    kind: Literal["cnn_lstm"] = "cnn_lstm"
    embedding: Width = 128
    """Numbers per word."""
    filters: Width = 64
    kernel: Width = 5
    """Words under a filter."""
    pool: Width = 4
    """Positions of which the largest response is kept."""
    cells: Width = 128
    """Width of the LSTM's state."""

    @property
    def label(self) -> str:
        """Short name for tables, such as `cnn_lstm 128-64-128`."""
        return f"{self.kind} {self.embedding}-{self.filters}-{self.cells}"


ModelConfig = Annotated[
    MLPConfig | LeNetConfig | LeNettiConfig | ResNetFRNConfig | WideResNetFRNConfig | CNNLSTMConfig,
    Field(discriminator="kind"),
    BeforeValidator(lambda data: {"kind": "mlp", **data} if isinstance(data, dict) else data),
]
"""A section without a `kind` is a fully connected network."""


class GaussianLikelihood(Model):
    """y ~ N(f(x), sigma^2) with known sigma."""

    kind: Literal["gaussian"] = "gaussian"
    sigma: Positive = 1.0


class LearnedNoiseLikelihood(Model):
    """y ~ N(f(x), sigma^2); log sigma is one more parameter, starts at 0 and has the prior of the biases.

    Under `normal_flat_bias` it has that of the weights.
    """

    kind: Literal["learned_noise"] = "learned_noise"


class HeteroscedasticLikelihood(Model):
    """y ~ N(f_0(x), sigma(f_1(x))^2); the network's second output sets the noise."""

    kind: Literal["heteroscedastic"] = "heteroscedastic"
    head: Literal["exp", "softplus"] = "exp"
    """sigma = clip(exp(f_1), 1e-6, 1e6), or softplus(f_1) + 1e-6."""


class CategoricalLikelihood(Model):
    """y ~ Categorical(softmax f(x)), or the mean of these probabilities over an orbit of each image.

    With an orbit, p(y | x, theta) = (1 / K) sum_k p(y | g_k x, theta) over all K flips and moves g_k that an
    augmentation of the same settings draws from. It is a likelihood of the data set, where random changes in
    mini-batches have none; predictions are averaged in the same way, and every row costs K forward passes. Nabarro et
    al. 2022, Data Augmentation in Bayesian Neural Networks and the Cold Posterior Effect (finite orbits).
    """

    kind: Literal["categorical"] = "categorical"
    orbit: AugmentationConfig | None = None
    """Flips and moves over which probabilities are averaged; null takes each image as it is."""

    @model_serializer(mode="wrap")
    def _without_default(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """What came later is part of addresses and fingerprints only where it is given."""
        found: dict[str, Any] = written(self)
        return {name: value for name, value in found.items() if name != "orbit" or value is not None}


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
    loc: Number = 0.0
    scale: Positive = 1.0


class NormalFlatBiasPrior(Model):
    """N(0, scale^2) on every parameter except the biases, whose log density is 0 everywhere.

    Such a prior is improper, and so is the posterior wherever the data do not hold every bias: a relu unit that is off
    at all rows leaves its bias free to run away. Whether a posterior can be normalised is for the user to see to.
    Biases start at 0, as the networks initialise them, and draws from the prior have them at 0.
    """

    kind: Literal["normal_flat_bias"] = "normal_flat_bias"
    scale: Positive = 1.0


class LaplacePrior(Model):
    """Laplace(loc, scale) on every parameter."""

    kind: Literal["laplace"] = "laplace"
    loc: Number = 0.0
    scale: Positive = 1.0


class GlorotPrior(Model):
    """Weights N(0, factor^2 / fan_avg), all else N(0, 1)."""

    kind: Literal["glorot"] = "glorot"
    factor: Positive = 1.0


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
    scale: Positive = 1.0
    var_eps: Positive = 0.1
    seed: Seed = 0


class _ScaledPrior(Model):
    """A prior whose width is given as its scale or as its standard deviation."""

    loc: Number = 0.0
    scale: Positive = 1.0
    standard_deviation: Positive | None = None
    """Sets the scale instead of `scale`, to compare priors of equal variance."""

    @model_validator(mode="after")
    def _one_width(self) -> Self:
        if self.standard_deviation is not None and self.scale != 1.0:
            raise ValueError("give scale or standard_deviation, not both")
        return self


class LogisticPrior(_ScaledPrior):
    """Logistic(loc, scale) on every parameter; its standard deviation is pi / sqrt(3) scale."""

    kind: Literal["logistic"] = "logistic"

    @property
    def unit(self) -> float:
        """The scale, however it is given."""
        return _unit(self.scale, self.standard_deviation, math.pi / math.sqrt(3))


class StudentTPrior(_ScaledPrior):
    """Student's t on every parameter; its standard deviation is sqrt(nu / (nu - 2)) scale, for nu > 2 only."""

    kind: Literal["student_t"] = "student_t"
    degrees_of_freedom: Positive
    """nu: 1 is the Cauchy distribution; the larger, the nearer to the normal."""

    @property
    def unit(self) -> float:
        """The scale, however it is given."""
        if self.standard_deviation is None:
            return self.scale
        return _unit(self.scale, self.standard_deviation, math.sqrt(1 + 2 / (self.degrees_of_freedom - 2)))

    @model_validator(mode="after")
    def _finite_variance(self) -> Self:
        if self.standard_deviation is not None and self.degrees_of_freedom <= 2:
            raise ValueError(
                f"with {self.degrees_of_freedom} degrees of freedom the variance is infinite: "
                "give scale instead of standard_deviation"
            )
        return self


class MixturePrior(Model):
    """sum_k w_k N(loc_k, scale_k^2) on every parameter."""

    kind: Literal["mixture"] = "mixture"
    weights: tuple[Positive, ...]
    """w_k, which add up to 1."""
    scales: tuple[Positive, ...]
    locs: tuple[Number, ...] = ()
    """Empty for components that are all centred at 0."""
    standard_deviation: Positive | None = None
    """Stretches the whole mixture about 0 to this standard deviation, to compare priors of equal variance."""

    @property
    def all_locs(self) -> tuple[Number, ...]:
        """One location per component."""
        return self.locs or (0.0,) * len(self.weights)

    @property
    def unit(self) -> float:
        """Factor on locations and scales."""
        mean = sum(w * m for w, m in zip(self.weights, self.all_locs, strict=True))
        squares = sum(w * (s * s + m * m) for w, s, m in zip(self.weights, self.scales, self.all_locs, strict=True))
        return _unit(1.0, self.standard_deviation, math.sqrt(squares - mean * mean))

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        lengths = {"weights": len(self.weights), "scales": len(self.scales), "locs": len(self.all_locs)}
        if not self.weights or len(set(lengths.values())) > 1:
            counts = ", ".join(f"{count} {name}" for name, count in lengths.items())
            raise ValueError(f"a mixture needs as many weights, scales and locs as it has components, not {counts}")
        if abs(sum(self.weights) - 1) > 1e-6:
            raise ValueError(f"weights must add up to 1, not {sum(self.weights)}")
        return self


def _unit(scale: float, standard_deviation: float | None, ratio: float) -> float:
    """Scale of a distribution whose standard deviation is `ratio` times its scale."""
    return scale if standard_deviation is None else standard_deviation / ratio


PriorConfig = Annotated[
    StandardNormalPrior
    | NormalPrior
    | NormalFlatBiasPrior
    | LaplacePrior
    | GlorotPrior
    | HePrior
    | GlorotLaplacePrior
    | GlorotUniformPrior
    | EpsStandardNormalPrior
    | LogisticPrior
    | StudentTPrior
    | MixturePrior,
    Field(discriminator="kind"),
    ByKind,
]


class PosteriorConfig(Model):
    """What defines a posterior apart from its data."""

    model: ModelConfig
    likelihood: LikelihoodConfig
    prior: PriorConfig = StandardNormalPrior()
    temperature: Positive = 1.0
    """The target is (likelihood x prior)^(1 / temperature)."""
    float64: bool = False
    gradient_memory_mb: Count = 4000
    """Memory that a full-data gradient may take on one device, of one chain on a CPU and of all chains of a block on a
    GPU; it is accumulated over micro-batches if it needs more, which changes its rounding."""
    data_shards: Count = 1
    """Devices that share the rows of each chain, for single chains with large data; changes the rounding too."""
    kernel: Literal["auto", "xla"] = "auto"
    """What computes log-likelihoods and gradients on a CPU. `auto`: compiled code for dense networks of at most 64
    inputs and units in single precision, where it has been built (`make setup` does with a C++ compiler), and XLA for
    all others. `xla`: XLA always. The two round differently, and a trace records which one made it."""
