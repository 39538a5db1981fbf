"""Settings of optimisation and variational methods: MAP, deep ensembles, mean-field VI, Laplace approximation."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from bnn_atlas.config.base import ByKind, Model
from bnn_atlas.config.training import ChainConfig


class SGDConfig(Model):
    """Stochastic gradient descent with heavy-ball momentum: m <- momentum m + g, theta <- theta - learning_rate m."""

    kind: Literal["sgd"] = "sgd"
    learning_rate: PositiveFloat
    """Multiplies the gradient of the whole objective, a sum over all rows and no mean: about 1e-7 for 50,000 rows."""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    schedule: Literal["constant", "cosine"] = "cosine"
    """Whether the learning rate stays, or falls to 0 along half a cosine over all steps."""


class AdamConfig(Model):
    """Adam with its usual constants (0.9, 0.999, 1e-8)."""

    kind: Literal["adam"] = "adam"
    learning_rate: PositiveFloat = 0.001
    """About how far a parameter moves in one step, whatever the size of the gradient."""
    schedule: Literal["constant", "cosine"] = "cosine"
    """Whether the learning rate stays, or falls to 0 along half a cosine over all steps."""


OptimiserConfig = Annotated[SGDConfig | AdamConfig, Field(discriminator="kind"), ByKind]


class MAPConfig(Model):
    """A maximum of the log posterior by stochastic gradients from the warm start; one draw per chain.

    Unlike the warm start, the objective is the posterior with its prior and there is no early stopping. The temperature
    moves no maximum: the untempered log posterior is optimised.
    """

    kind: Literal["map"] = "map"
    epochs: PositiveInt = 500
    batch_size: PositiveInt | None = 80
    """Rows per mini-batch; null for the full data."""
    optimiser: OptimiserConfig = AdamConfig()
    checkpoint_every: PositiveInt = 1000
    """Steps between two checkpoints; never changes the result."""


class DeepEnsembleConfig(Model):
    """The warm starts themselves, one draw per chain; a learned noise is fitted to their residuals."""

    kind: Literal["deep_ensemble"] = "deep_ensemble"
    checkpoint_every: ClassVar[int] = 1


class MeanFieldConfig(ChainConfig):
    """Mean-field variational inference: the normal with independent parameters closest to the posterior in KL(q || p).

    Each chain is a fit of its own from its own warm start; its draws are independent draws from q.
    """

    kind: Literal["mean_field"] = "mean_field"
    epochs: PositiveInt = 1000
    batch_size: PositiveInt | None = 80
    """Rows per mini-batch; null for the full data."""
    samples: PositiveInt = 1
    """Draws from q per step, shared by the rows of a mini-batch."""
    optimiser: OptimiserConfig = AdamConfig(learning_rate=0.01)
    mean_init: Literal["warm_start", "prior"] = "warm_start"
    """Where the mean starts: at the chain's warm start, or at the location of the prior."""
    sigma_init: PositiveFloat = 0.01
    """Standard deviation of every parameter at the start."""
    steps: PositiveInt = 100
    """Draws from q."""


class LaplaceConfig(ChainConfig):
    """Laplace approximation: a normal at a maximum of the log posterior, with the generalised Gauss-Newton curvature.

    Where the prior's log density is flat or curved upwards at the maximum (Laplace and Student-t priors, walled
    uniforms, mixtures), the precision of a normal with its scale stands in for its curvature. It suits likelihoods
    whose noise the network does not set (`gaussian`, `learned_noise`, `categorical`): the maximum of a heteroscedastic
    posterior is where the noise vanishes at rows that are fitted exactly, with little of the mass around it.
    """

    kind: Literal["laplace"] = "laplace"
    structure: Literal["full", "last_layer", "diagonal", "kronecker"] = "full"
    """`full`: all P x P entries; `last_layer`: those of the last layer and of the likelihood's own parameters, all else
    fixed at the maximum; `diagonal`; `kronecker`: one Kronecker product per dense layer (Gaussian priors only)."""
    map_steps: NonNegativeInt = 2000
    """At most so many full-data L-BFGS steps from the warm start to the maximum."""
    map_tolerance: Annotated[float, Field(ge=0)] = 1e-3
    """Length of the gradient of the log posterior at which a chain is at its maximum."""
    steps: PositiveInt = 1000
    """Draws from the approximation."""
