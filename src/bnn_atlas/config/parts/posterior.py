"""Settings of a posterior: network, likelihood, prior and temperature."""

from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
)

from bnn_atlas.config.language.base import ByKind, Count, Depth, Model, Positive, Width
from bnn_atlas.config.methods.base import AugmentationConfig
from bnn_atlas.config.parts.priors import PriorConfig, StandardNormalPrior

MOST_WEIGHTS = 10**9
"""Largest number of weights between hidden layers: 4 GB for each copy of one network."""


class MLPConfig(Model):
    """A fully connected network; input and output widths follow from the data and the likelihood."""

    kind: Literal["mlp"] = "mlp"
    hidden: Annotated[tuple[Width, ...], Field(max_length=1000)]
    """Widths of the hidden layers; empty for a linear model."""
    activation: Literal["relu", "tanh", "sigmoid", "silu", "gelu", "elu", "identity"] = "relu"
    """`gelu` is x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))); `elu` is x for x > 0 and exp(x) - 1 otherwise."""
    bias: bool = True
    """Whether layers add biases."""

    @field_validator("hidden")
    @classmethod
    def _fits_memory(cls, hidden: tuple[int, ...]) -> tuple[int, ...]:
        weights = sum(a * b for a, b in pairwise(hidden))
        if weights > MOST_WEIGHTS:
            raise ValueError(f"{weights:,} weights between hidden layers; at most {MOST_WEIGHTS:,} are allowed")
        return hidden

    @property
    def layers(self) -> int:
        """Number of layers."""
        return len(self.hidden) + 1

    @property
    def label(self) -> str:
        """Short name for tables, such as `mlp 16x16 relu`."""
        return " ".join([self.kind, "x".join(map(str, self.hidden)) or "linear", self.activation])


class _Convolutional(Model):
    """Small networks for images that differ only in kind and activation."""

    layers: ClassVar[int] = 5
    """Number of layers."""

    @property
    def label(self) -> str:
        """Short name for tables, such as `lenet5 relu`."""
        return " ".join(getattr(self, part) for part in ("kind", "activation") if hasattr(self, part))


class LeNetConfig(_Convolutional):
    """LeNet of Izmailov et al. 2021: three 5x5 convolutions, each with pooling, and two dense layers.

    For images of at least 15x15 pixels.
    """

    kind: Literal["lenet"] = "lenet"


class LeNet5Config(_Convolutional):
    """LeNet of the follow-up (Izmailov et al. 2021, Dangers of Bayesian Model Averaging), with average pooling.

    Two 5x5 convolutions, each followed by 2x2 average pooling, and three dense layers (120 units, 84 units and the
    outputs): 61,706 parameters on MNIST. For images of at least 12x12 pixels.
    """

    kind: Literal["lenet5"] = "lenet5"
    activation: Literal["relu", "silu", "sigmoid", "tanh", "elu"] = "relu"
    """Activation of the hidden units."""


class LeNet5MaxConfig(_Convolutional):
    """LeNet of Uppal et al. 2023 and of Laplace Redux (Daxberger et al. 2021), with max pooling and no padding.

    Two 5x5 convolutions with 6 and 16 filters, each followed by 2x2 max pooling, and three dense layers (120 units, 84
    units and the outputs): 44,426 parameters on MNIST. For images of at least 16x16 pixels.
    """

    kind: Literal["lenet5_max"] = "lenet5_max"
    activation: Literal["relu", "sigmoid", "tanh", "elu"] = "relu"
    """Activation of the hidden units; each choice is increasing, so it may be applied before or after the pooling."""


class LeNettiConfig(_Convolutional):
    """The small convolutional network of the sampling study: one 3x3 filter and three dense layers of 8 units."""

    kind: Literal["lenetti"] = "lenetti"
    activation: Literal["sigmoid", "tanh", "relu", "silu", "elu"] = "sigmoid"
    """Activation of the hidden units."""


def _blocks(other: int) -> AfterValidator:
    """Reject a depth that is not `other` layers plus an equal number of two-layer blocks in each of three stacks."""

    def checked(depth: int) -> int:
        if depth < 6 + other or (depth - other) % 6:
            allowed = f"{6 + other}, {12 + other}, {18 + other}, ..."
            raise ValueError(f"must be 6 n + {other} with n at least 1: {allowed}")
        return depth

    return AfterValidator(checked)


class ResNetFRNConfig(Model):
    """A residual network for small images (He et al. 2016) with filter response norm."""

    kind: Literal["resnet_frn"] = "resnet_frn"
    depth: Annotated[Depth, _blocks(2)] = 20
    """6 n + 2 for n blocks in each of the three stacks."""
    activation: Literal["silu", "relu", "elu"] = "silu"
    """Activation of the hidden units."""

    @property
    def layers(self) -> int:
        """Number of layers, norms included: the stem has two, each block four, each shortcut two, and the end one."""
        return 2 * self.depth + 3

    @property
    def label(self) -> str:
        """Short name for tables, such as `resnet20 frn silu`."""
        return f"resnet{self.depth} frn {self.activation}"


class WideResNetFRNConfig(Model):
    """A wide residual network (Zagoruyko and Komodakis 2016) with filter response norm."""

    kind: Literal["wide_resnet_frn"] = "wide_resnet_frn"
    depth: Annotated[Depth, _blocks(4)]
    """6 n + 4 for n blocks in each of the three stacks."""
    widen: Depth
    """Factor on the widths 16, 32 and 64 of the stacks."""
    activation: Literal["relu", "silu", "elu"] = "relu"
    """Activation of the hidden units."""

    @property
    def layers(self) -> int:
        """Number of layers, norms included: each block has four, and the first stack has a shortcut if it is wider."""
        return 2 * self.depth - (3 if self.widen == 1 else 2)

    @property
    def label(self) -> str:
        """Short name for tables, such as `wrn-16-4 frn relu`."""
        return f"wrn-{self.depth}-{self.widen} frn {self.activation}"


class CNNLSTMConfig(Model):
    """An embedding, one convolution with pooling, and an LSTM whose last state is classified (Izmailov et al. 2021).

    `activation: silu` with `pool: 1` is the smooth variant of the published code.
    """

    layers: ClassVar[int] = 4
    """Number of layers."""

    kind: Literal["cnn_lstm"] = "cnn_lstm"
    embedding: Width = 128
    """Length of the vector that represents a word."""
    filters: Width = 64
    """Number of filters."""
    kernel: Width = 5
    """Number of words that a filter spans."""
    pool: Width = 4
    """Number of positions in a pooling window, of which only the largest response is kept; 1 keeps every response."""
    cells: Width = 128
    """Width of the LSTM's state."""
    activation: Annotated[Literal["relu", "silu", "elu"], Field(exclude_if=lambda value: value == "relu")] = "relu"
    """Activation after the convolution; `silu` needs `pool: 1`."""

    @field_validator("activation")
    @classmethod
    def _commutes_with_pooling(cls, activation: str, info: ValidationInfo) -> str:
        if activation == "silu" and info.data.get("pool", 1) != 1:
            raise ValueError("silu and the maximum of pooling do not commute: use relu or elu, or set model.pool: 1")
        return activation

    @property
    def label(self) -> str:
        """Short name for tables, such as `cnn_lstm 128-64-128`."""
        smooth = "" if self.activation == "relu" else f" {self.activation}"
        return f"{self.kind} {self.embedding}-{self.filters}-{self.cells}{smooth}"


ModelConfig = Annotated[
    MLPConfig
    | LeNetConfig
    | LeNet5Config
    | LeNet5MaxConfig
    | LeNettiConfig
    | ResNetFRNConfig
    | WideResNetFRNConfig
    | CNNLSTMConfig,
    Field(discriminator="kind"),
    BeforeValidator(lambda data: {"kind": "mlp", **data} if isinstance(data, dict) else data),
]
"""Settings of a network; a section without a `kind` is a fully connected network."""


class GaussianLikelihood(Model):
    """y ~ N(f(x), sigma^2) with known sigma."""

    kind: Literal["gaussian"] = "gaussian"
    sigma: Positive = 1.0
    """Standard deviation of the noise, in units of the standardised target."""


class LearnedNoiseLikelihood(Model):
    """y ~ N(f(x), sigma^2); log sigma is one more parameter, starts at 0 and has the prior of the biases.

    Under `normal_flat_bias`, log sigma has the prior of the weights.
    """

    kind: Literal["learned_noise"] = "learned_noise"


class HeteroscedasticLikelihood(Model):
    """y ~ N(f_0(x), sigma(f_1(x))^2); the network's second output sets the noise."""

    kind: Literal["heteroscedastic"] = "heteroscedastic"
    head: Literal["exp", "softplus"] = "exp"
    """sigma = clip(exp(f_1), 1e-6, 1e6), or softplus(f_1) + 1e-6."""


class CategoricalLikelihood(Model):
    """y ~ Categorical(softmax f(x)), or the mean of these probabilities over an orbit of each image.

    With an orbit, p(y | x, theta) = (1 / K) sum_k p(y | g_k x, theta), where g_1, ..., g_K are all flips and shifts
    that an augmentation with the same settings can draw. Unlike random augmentation of mini-batches, this defines a
    likelihood of the data set. Predictions are averaged in the same way, and every row costs K forward passes. Nabarro
    et al. 2022, Data Augmentation in Bayesian Neural Networks and the Cold Posterior Effect (finite orbits).
    """

    kind: Literal["categorical"] = "categorical"
    orbit: AugmentationConfig | None = None
    """Flips and shifts over which probabilities are averaged; null for none."""

    @model_serializer(mode="wrap")
    def _without_default(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave `orbit` out of addresses and fingerprints if it is not given."""
        found: dict[str, Any] = written(self)
        return {name: value for name, value in found.items() if name != "orbit" or value is not None}


LikelihoodConfig = Annotated[
    GaussianLikelihood | LearnedNoiseLikelihood | HeteroscedasticLikelihood | CategoricalLikelihood,
    Field(discriminator="kind"),
    ByKind,
]


class PosteriorConfig(Model):
    """Settings that define a posterior, apart from its data."""

    model: ModelConfig
    """The network."""
    likelihood: LikelihoodConfig
    """How targets follow from the network's outputs."""
    prior: PriorConfig = StandardNormalPrior()
    """Prior of the network's parameters; if left out, `standard_normal`."""
    temperature: Positive = 1.0
    """The target is (likelihood x prior)^(1 / temperature)."""
    float64: bool = False
    """Compute in double precision."""
    gradient_memory_mb: Count = 4000
    """Memory that full-data gradients may take on one device: the gradient of one chain on a CPU, the gradients of all
    chains of a block on a GPU. Larger gradients are accumulated over micro-batches, which changes rounding."""
    data_shards: Count = 1
    """Number of devices among which each chain's rows are divided, for single chains on large data; this changes
    rounding, too."""
    kernel: Literal["auto", "xla"] = "auto"
    """Code that computes log-likelihoods and gradients on a CPU. `auto`: compiled C++ code for dense networks of at
    most 64 inputs and units in single precision, if this code has been built (`make setup` builds it if there is a C++
    compiler), and XLA for all other networks. `xla`: always XLA. The two round differently, and each trace records
    which one was used."""
