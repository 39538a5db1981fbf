"""Settings of implicit variational inference and of its generators, networks that turn noise into weights."""

from collections.abc import Iterator
from functools import cache
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import Field, field_validator

from bnn_atlas.config.language.base import ByKind, Count, CountOrNone, Given, Model, NonNegative, Positive, Width
from bnn_atlas.config.methods.base import KindOfDraws, VariationalSettings
from bnn_atlas.config.methods.optimisation import AdamConfig

Shape = tuple[Width, Width]
"""Rows and columns of a matrix."""

Published = Literal["cifar100_gen_arch", "cifar_gen_architecture"]
"""Names of the published code's files for the paper's two residual networks, which are also the sections of
`architectures.yaml`."""


class _LastLayer(Model):
    """Initial values of a generator's last layer."""

    last_bias: Literal["random", "warm_start"] = "random"
    """Initial value of the last bias, around which the generated weights lie. `random`: a random value, as published;
    `warm_start`: the chain's warm start, which turns a deterministic network into a Bayesian one."""
    spread: Positive = 1.0
    """Factor on the last layer's weights at the start; less than 1 keeps the first weights near the last bias."""


class _LastMatrix(_LastLayer):
    """Last layer of generators whose output is a matrix."""

    bias_rank: Count | None = None
    """Rank of the last bias B, which is then a product of two narrow matrices; null for a full matrix, with as many
    entries as there are weights."""

    def _contradictions(self) -> Iterator[str]:
        if self.bias_rank is not None and self.last_bias == "warm_start":
            yield (
                "bias_rank and last_bias: warm_start exclude each other, since a bias of low rank cannot equal any "
                "given weights: leave one of them out"
            )


class MLPGenerator(_LastLayer):
    """A dense network with elu between its layers and as many outputs as weights are generated.

    With 60 noise numbers and 105 hidden units for 105 weights, it has 17,535 parameters. Its last matrix has (hidden
    units) x (weights) entries, so it suits networks of up to a few thousand weights.
    """

    kind: Literal["mlp"] = "mlp"
    noise: Width
    """Number of inputs, which are independent standard normal numbers."""
    hidden: tuple[Width, ...]
    """Widths of the hidden layers; if empty, the weights are a linear function of the noise and so normal with a full
    covariance."""


class MatrixGenerator(_LastMatrix):
    """A network of matrices: a layer maps X to (A X + C) W + B, with elu between layers.

    The last matrix is cut into the weights row by row.
    With noise 40 x 40, three hidden layers of 420 x 420 and the output 957 x 500 it has 3,130,380 parameters, for the
    478,410 weights of a 784-400-400-10 network.
    """

    kind: Literal["matrix"] = "matrix"
    noise: Shape
    """Rows and columns of the standard normal noise."""
    hidden: Annotated[tuple[Shape, ...], Field(min_length=1)]
    """Rows and columns of each hidden layer."""
    output: Shape | None = None
    """Rows and columns of the last matrix, which needs at least as many entries as there are generated weights; surplus
    entries are not created. Null chooses the shape that is closest to a square."""


class Part(Model):
    """One of the matrix generators at the end of a correlated generator."""

    input: Shape
    """Rows and columns of the generator's input, a part of the trunk's last matrix."""
    hidden: Annotated[tuple[Shape, ...], Field(min_length=1)]
    """Rows and columns of each hidden layer."""
    output: Shape
    """Rows and columns of the last matrix."""


@cache
def _architectures() -> dict[str, Any]:
    """The published architectures by name."""
    stored: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("architectures.yaml").read_text(encoding="utf-8"))
    return stored


class CorrelatedGenerator(_LastMatrix):
    """A trunk of matrix layers whose last matrix is cut into the inputs of several matrix generators.

    The generators' outputs are consecutive weights, so the layers of the network share noise and sizes stay moderate.
    `architecture` takes all sizes from a file of the published code.
    """

    kind: Literal["correlated"] = "correlated"
    architecture: Published | None = None
    """A published architecture, in place of the keys below. `cifar_gen_architecture` lacks a trunk (the published code
    fails for the same reason), so it also needs `trunk`."""
    noise: Shape | None = None
    """Rows and columns of the standard normal noise."""
    trunk: tuple[Shape, ...] | None = None
    """Rows and columns of the trunk's layers; with `architecture`, it replaces that file's trunk."""
    parts: tuple[Part, ...] = ()
    """Generators of consecutive weights."""

    def _contradictions(self) -> Iterator[str]:
        yield from super()._contradictions()
        if self.architecture is not None and (self.noise is not None or self.parts):
            yield "architecture already sets noise and parts: leave these out, or leave architecture out"
        if self.architecture is None and (self.noise is None or not self.parts):
            yield "noise and parts are missing: give them, or the name of a published architecture"
        whole = self.written_out()
        taken = sum(prod(part.input) for part in whole.parts)
        if not whole.trunk:
            yield f"trunk is missing: give one whose last matrix has the {taken:,} entries that the parts take"
        elif taken != (there := prod(whole.trunk[-1])):
            yield f"the trunk ends in {there:,} entries, but the parts take {taken:,}: change the trunk or the inputs"

    def written_out(self) -> Self:
        """A copy with the sizes of the published architecture filled in; the trunk stays None if its file has none."""
        if self.architecture is None:
            return self
        stored = _architectures()[self.architecture]
        sizes = {
            "noise": tuple(stored["noise"]),
            "trunk": self.trunk or tuple(map(tuple, stored.get("trunk", ()))) or None,
            "parts": tuple(Part.model_validate(part) for part in stored["parts"]),
        }
        return self.model_copy(update={"architecture": None, **sizes})


class FactorisedGenerator(Model):
    """A generator for each layer of the network, each with its own noise, so that layers are independent.

    The published class of this name feeds the same noise to all generators and does not run.
    """

    kind: Literal["factorised"] = "factorised"
    parts: Annotated[
        tuple[Annotated[MLPGenerator | MatrixGenerator, Field(discriminator="kind"), ByKind], ...], Field(min_length=1)
    ]
    """Generators of the layers, in order from the input; a single generator is used for every layer."""


GeneratorConfig = Annotated[
    MLPGenerator | MatrixGenerator | CorrelatedGenerator | FactorisedGenerator, Field(discriminator="kind"), ByKind
]


LearnedSigma = Literal["one", "layer", "weight"]
Objective = Literal["elbo", "published_2023_10", "published_2023_12"]
STEPS_OF_SCORES = 20
"""Default number of Lanczos steps for scoring draws."""


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number > 1 else ''}"


class ExactEntropy(Model):
    """The full matrix J'J, of the dimension of the noise, and its Cholesky factor: exact up to rounding."""

    kind: Literal["exact"] = "exact"
    memory_mb: Count = 1000
    """Memory limit for J'J and the tangents from which it is computed; a generator that needs more is rejected."""

    @property
    def words(self) -> str:
        """Text for this form of the entropy in tables."""
        return "exact"


class LanczosEntropy(Model):
    """Stochastic Lanczos quadrature (Ubaru, Chen and Saad 2017), with the gradient from one solve in the same space."""

    kind: Literal["lanczos"] = "lanczos"
    steps: Count = 10
    """Products with J'J; at most as many as there are noise numbers."""
    probes: Count = 1
    """Number of random directions (probes) to average over for each sample of weights."""

    @property
    def words(self) -> str:
        """Text for this form of the entropy in tables, with its steps."""
        return f"Lanczos, {_counted(self.steps, 'step')}, {_counted(self.probes, 'probe')}"


class SmallestEntropy(Model):
    """The smallest singular value in place of all singular values: d/2 log of its square, by LOBPCG (Knyazev 2001).

    Each search starts from the direction found in the previous step; the residual shows whether the search has
    converged to a singular value.
    """

    kind: Literal["smallest"] = "smallest"
    iterations: Count = 3
    """Iterations in each step of the fit."""
    tolerance: Positive = 0.1
    """Largest residual, relative to the eigenvalue of J'J + sigma^2 I, at which the search counts as converged; the
    value minus the residual is then used as a bound."""

    @property
    def words(self) -> str:
        """Text for this form of the entropy in tables, with its iterations."""
        return f"smallest singular value, {_counted(self.iterations, 'iteration')} from that of the step before"


class PublishedEntropy(Model):
    """d log(mu + sigma^2) with mu from the published search for the smallest singular value.

    The search starts from a random direction in every step, and its result is neither an estimate nor a bound. Use it
    only to reproduce published settings.
    """

    kind: Literal["published"] = "published"
    iterations: Count = 5
    """Iterations in each step: 3 in the code of October 2023 (classification), 5 in the code of December 2023 and in
    all regressions."""

    @property
    def words(self) -> str:
        """Text for this form of the entropy in tables, with its iterations."""
        return f"as published, {_counted(self.iterations, 'iteration')}"


EntropyConfig = Annotated[
    ExactEntropy | LanczosEntropy | SmallestEntropy | PublishedEntropy, Field(discriminator="kind"), ByKind
]
ScoringConfig = Annotated[ExactEntropy | LanczosEntropy, Field(discriminator="kind"), ByKind]


class AMSGradConfig(Model):
    """Adam with amsgrad (Reddi, Kale and Kumar 2018): the largest running square so far divides the gradient."""

    kind: Literal["amsgrad"] = "amsgrad"
    learning_rate: Positive = 7e-5
    """About how far a parameter moves in one step, whatever the size of the gradient."""
    schedule: Literal["constant", "cosine"] = "cosine"
    """Whether the learning rate stays constant, or falls to `end` along half a cosine over all steps."""
    end: NonNegative = 1e-9
    """Learning rate at the end of the cosine; at most `learning_rate`."""

    def _contradictions(self) -> Iterator[str]:
        if self.schedule == "cosine" and self.end > self.learning_rate:
            yield (
                f"end ({self.end:g}) is above learning_rate ({self.learning_rate:g}), from which the cosine falls: "
                "lower end, or raise learning_rate"
            )


class GeneratedConfig(Model):
    """Which parameters are generated: the ones that meet every condition given here; all others are optimised."""

    layers: Annotated[tuple[CountOrNone, ...], Field(min_length=1)] | None = None
    """Indices of layers, from 0 at the input; null for all."""
    roles: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """Roles of parameters, such as weight and bias; null for all."""
    names: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """Names of whole parameters, such as layer0.weight; null for all."""


class ImplicitConfig(VariationalSettings):
    """Implicit variational inference: weights are a generator's output for Gaussian noise, plus a small noise term.

    theta = g(z) + sigma e with z and e standard normal; the entropy of this distribution is computed from a linear
    approximation of g around z, a normal with covariance J J' + sigma^2 I; `learned_sigma` learns sigma.
    Uppal et al. 2023 (Implicit Variational Inference for High-Dimensional Posteriors). Each chain is a separate fit;
    its draws are independent draws from that fit.
    """

    title = "implicit"
    kind_of_draws = KindOfDraws.INDEPENDENT
    family = "implicit"
    builder = "bnn_atlas.methods.implicit.fitting:build_implicit"

    kind: Literal["implicit"] = "implicit"
    generator: GeneratorConfig
    """Network that generates the weights; its kinds are listed below."""
    generated: GeneratedConfig = GeneratedConfig()
    """Which parameters are generated; by default, all."""
    noise: Literal["generated", "point"] = "generated"
    """For `learned_noise`. `generated`: log sigma is generated with the weights; `point`: log sigma is a single number
    without a prior, chosen to maximise the objective (type-II maximum likelihood), as in the paper."""
    noise_init: Given = None
    """For `noise: point`: initial standard deviation of the targets' noise; null uses the noise level at which the
    chain starts."""
    sigma: Annotated[Positive, Field(lt=0.5)] = 0.05
    """Standard deviation of the noise on the weights. 0.001 is the default of the published script; its evaluations of
    image models use 0.05."""
    learned_sigma: Annotated[LearnedSigma | None, Field(exclude_if=lambda value: value is None)] = None
    """Whether the standard deviation of the noise on the weights is learned with the generator, starting at `sigma`:
    one number for all generated weights, one for each layer, or one for each weight. null keeps it at `sigma`. With
    `weight`, mean-field inference is the special case of a generator that does not vary."""
    entropy: EntropyConfig = LanczosEntropy()
    """How the entropy is computed in the fit."""
    scored_by: ScoringConfig | None = None
    """How the entropy of the draws is computed for the metric `elbo`; null takes the exact form if the fit uses it, and
    otherwise Lanczos with 20 steps (or as many as there are noise numbers, if fewer). The error from too few Lanczos
    steps is bounded on both sides, and `elbo` uses the lower bound."""
    objective: Objective = "elbo"
    """`elbo`, with the weights below, or an objective of the published code: either the version of October 2023, which
    is closest to the paper, or the version of December 2023."""
    prior_weight: NonNegative = 1.0
    """Weight of the log prior in the objective `elbo`; it is 1 in the evidence lower bound."""
    entropy_weight: NonNegative = 1.0
    """Weight of the entropy in the objective `elbo`; it is 1 in the evidence lower bound."""
    samples: Count = 10
    """Draws of weights per step, shared by the rows of a mini-batch."""
    entropy_samples: Annotated[Count | None, Field(exclude_if=lambda value: value is None)] = None
    """Draws of a step at which the entropy is computed, at most `samples`; null for all. With many noise numbers, the
    entropy takes longer than the likelihood."""
    epochs: Count = 100
    """Passes over the training rows."""
    batch_size: Count | None = 256
    """Rows per mini-batch; null for the full data."""
    optimiser: Annotated[AdamConfig | AMSGradConfig, Field(discriminator="kind"), ByKind] = AMSGradConfig()
    """How the generator is trained."""
    point_learning_rate: Given = None
    """Learning rate of parameters that are not generated, and of the logarithm of a learned spread; null takes the
    generator's learning rate or, if a spread is learned, at least 0.01."""
    steps: Count = 100
    """Draws from the fit."""

    def scoring(self, noise: int) -> ScoringConfig:
        """The form of the entropy for scoring draws, for a generator with this many noise numbers."""
        if self.scored_by is not None:
            return self.scored_by
        if isinstance(self.entropy, ExactEntropy):
            return self.entropy
        return LanczosEntropy(steps=min(STEPS_OF_SCORES, noise))

    @property
    def has_matrices(self) -> bool:
        """Whether any generator is not a dense network."""
        one = self.generator
        parts = one.parts if isinstance(one, FactorisedGenerator) else (one,)
        return not all(isinstance(part, MLPGenerator) for part in parts)

    @field_validator("sigma", mode="before")
    @classmethod
    def _sigma_above_zero(cls, value: Any) -> Any:
        if isinstance(value, (int, float)) and value <= 0:
            raise ValueError(
                "must be greater than 0: without noise on the weights they have no density; 0.001 is the "
                "published default"
            )
        return value

    def _contradictions(self) -> Iterator[str]:
        yield from super()._contradictions()
        if self.objective != "elbo" and (self.prior_weight != 1 or self.entropy_weight != 1):
            yield (
                f"objective: {self.objective} has its own weights: leave prior_weight and entropy_weight out, or the "
                "objective"
            )
        if self.entropy_samples is not None and self.entropy_samples > self.samples:
            yield (
                f"entropy_samples ({self.entropy_samples}) must be at most samples ({self.samples}): the entropy is "
                "computed at draws of the step"
            )
        if self.learned_sigma is not None and isinstance(self.entropy, PublishedEntropy):
            yield (
                "the published entropy has no learned spread: leave learned_sigma out, or choose another entropy, such "
                "as { kind: lanczos }"
            )
        forms = {"entropy": self.entropy, "scored_by": self.scored_by}
        exact = next((name for name, form in forms.items() if isinstance(form, ExactEntropy)), None)
        if self.learned_sigma in ("layer", "weight") and exact and self.has_matrices:
            yield (
                f"{exact}: {{ kind: exact }} with learned_sigma: {self.learned_sigma} needs generators of kind mlp, "
                "since J'J of matrix generators has no short form if weights differ in their spread: choose "
                f"{exact}: {{ kind: lanczos }}, or learned_sigma: one"
            )
        if self.noise_init is not None and self.noise != "point":
            yield "noise_init is the initial value for noise: point: set noise: point, or leave noise_init out"
