"""Settings of methods whose draws come from a Gaussian: variational ones, Laplace, compact representations."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from bnn_atlas.config.language.base import Count, CountOrNone, Given, NonNegative, Positive, Share
from bnn_atlas.config.methods.base import ChainSettings, KindOfDraws, MethodSettings, PointNoise
from bnn_atlas.config.methods.optimisation import AdamConfig, OptimiserConfig


class MeanFieldConfig(ChainSettings):
    """Mean-field variational inference: the normal with independent parameters closest to the posterior in KL(q || p).

    Each chain is a fit of its own from its own warm start; its draws are independent draws from q.
    """

    title = "mean field"
    kind_of_draws = KindOfDraws.INDEPENDENT
    family = "approximation"
    builder = "bnn_atlas.methods.mean_field:build_mean_field"
    centre = "mean"

    kind: Literal["mean_field"] = "mean_field"
    epochs: Count = 1000
    """Passes over the training rows."""
    batch_size: Count | None = 80
    """Rows per mini-batch; null for the full data."""
    unscaled: bool = False
    """Whether the log-likelihood of a mini-batch is left as it is, not scaled up to all rows, as in the published
    script of Sommer et al. 2025. Then q approximates a posterior given only about `batch_size` rows. Only for
    repeating published numbers."""
    samples: Count = 1
    """Draws from q per step, shared by the rows of a mini-batch."""
    optimiser: OptimiserConfig = AdamConfig(learning_rate=0.01)
    """How the bound is maximised."""
    mean_init: Literal["warm_start", "prior"] = "warm_start"
    """Where the mean starts. `warm_start`: where the chain starts (at its warm start, or at what the run's `start`
    takes from another run); `prior`: at the location of the prior."""
    sigma_init: Positive = 0.01
    """Standard deviation of every parameter at the start."""
    noise: PointNoise = "sampled"
    """For `learned_noise`. `sampled`: log sigma is one more parameter under q; `point`: it is a number without a prior
    that maximises the evidence lower bound of the weights (type-II maximum likelihood)."""
    steps: Count = 100
    """Draws from q."""

    def _contradictions(self) -> Iterator[str]:
        yield from super()._contradictions()
        if self.unscaled and self.batch_size is None:
            yield "unscaled is about mini-batches: set batch_size, or leave unscaled out"


class LowRankConfig(ChainSettings):
    """Variational inference: the normal with covariance diag(s^2) + F F', F with few columns, closest in KL(q || p).

    Ong, Nott and Smith 2018 (Gaussian Variational Approximation With a Factor Covariance Structure). Each chain is a
    fit of its own from its own warm start; its draws are independent draws from q.
    """

    title = "low-rank normal"
    kind_of_draws = KindOfDraws.INDEPENDENT
    family = "approximation"
    variant = 2
    builder = "bnn_atlas.methods.low_rank:build_low_rank"
    centre = "mean"

    kind: Literal["low_rank"] = "low_rank"
    rank: Count = 10
    """Columns of F, at most as many as there are parameters."""
    epochs: Count = 1000
    """Passes over the training rows."""
    batch_size: Count | None = 80
    """Rows per mini-batch; null for the full data."""
    samples: Count = 1
    """Draws from q per step, shared by the rows of a mini-batch."""
    optimiser: OptimiserConfig = AdamConfig(learning_rate=0.01)
    """How the bound is maximised."""
    mean_init: Literal["warm_start", "prior"] = "warm_start"
    """Where the mean starts. `warm_start`: where the chain starts (at its warm start, or at what the run's `start`
    takes from another run); `prior`: at the location of the prior."""
    sigma_init: Positive = 0.01
    """Initial value of s for every parameter, and of the standard deviation that F adds; F itself starts at random."""
    noise: PointNoise = "sampled"
    """For `learned_noise`. `sampled`: log sigma is one more parameter under q; `point`: it is a number without a prior
    that maximises the evidence lower bound of the weights (type-II maximum likelihood)."""
    steps: Count = 100
    """Draws from q."""


class IVONConfig(ChainSettings):
    """Improved variational online Newton: a normal with independent parameters, at about the cost of Adam.

    Shen et al. 2024 (Variational Learning is Effective for Large Deep Networks), Algorithm 1. It fits the same q as
    mean-field variational inference, by natural gradients of the mean and of the precision: the mean takes
    preconditioned steps with momentum, and the precision follows an estimate of the Hessian. The paper's weight decay
    follows from the prior here, so the prior has to be normal. Each chain is a fit of its own from its own warm start;
    its draws are independent draws from q.
    """

    title = "IVON"
    kind_of_draws = KindOfDraws.INDEPENDENT
    family = "approximation"
    variant = 3
    builder = "bnn_atlas.methods.ivon:build_ivon"
    centre = "mean"

    kind: Literal["ivon"] = "ivon"
    epochs: Count = 200
    """Passes over the training rows."""
    batch_size: Count | None = 80
    """Rows per mini-batch; null for the full data."""
    samples: Count = 1
    """Draws from q per step, shared by the rows of a mini-batch."""
    learning_rate: Positive = 0.1
    """Learning rate of the mean, for a loss that is a mean over rows: 0.1 to 0.5 for networks trained from scratch, as
    for SGD. Multiplied by `hessian_init`, it is the share of a Newton step that each step takes, which has to be below
    1."""
    schedule: Literal["constant", "cosine"] = "cosine"
    """Whether the learning rate stays constant, or falls to 0 along half a cosine over all steps."""
    momentum: Share = 0.9
    """Momentum of the gradient (beta_1)."""
    hessian_momentum: Annotated[Share | None, Field(exclude_if=lambda value: value is None)] = None
    """Momentum of the Hessian of the mean loss (beta_2): the estimate has a memory of 1 / (1 - beta_2) steps, which
    should not be longer than the fit. null for a memory of a fifth of the fit's steps, at least 10 and at most 100,000
    steps, which is the paper's 0.99999."""
    hessian_init: Positive = 0.1
    """The Hessian at the start. A parameter's standard deviation is then (rows (hessian_init + weight decay) / T)^-1/2;
    too small a value lets the first draws stray far from the mean."""
    clip: Given = None
    """Largest size of a parameter's step, before it is multiplied by the learning rate; null for no limit."""
    steps: Count = 100
    """Draws from q."""

    def for_rows(self, rows: int) -> Self:
        """These settings with `hessian_momentum` as a number, 1 - 1 / min(max(steps of the fit / 5, 10), 100,000)."""
        if self.hessian_momentum is not None:
            return self
        memory = min(max(self._fit_steps(rows) / 5, 10), 100_000)
        return self.model_copy(update={"hessian_momentum": 1 - 1 / memory})

    def note(self, rows: int) -> str:
        """A warning if the memory is longer than a fit to this number of rows; else empty."""
        steps, momentum = self._fit_steps(rows), self.for_rows(rows).hessian_momentum
        if momentum is None or momentum <= 1 - 1 / max(steps, 10):
            return ""
        return f"the Hessian's memory of {1 / (1 - momentum):,.0f} steps is longer than the fit, {steps:,} steps"

    def _fit_steps(self, rows: int) -> int:
        return self.epochs * (rows // self.batch_size if self.batch_size else 1)


MOST_FACTORISED = 20_000
"""Most scalars that a posterior may have if a Laplace approximation keeps all entries of its covariance."""


class LaplaceConfig(ChainSettings):
    """Laplace approximation: a normal at a maximum of the log posterior, with the generalised Gauss-Newton curvature.

    Where the prior's log density is flat or curved upwards at the maximum (Laplace and Student-t priors, walled
    uniforms, mixtures), the precision of a normal with the same scale stands in for its curvature. The approximation
    suits likelihoods whose noise is not set by the network (`gaussian`, `learned_noise`, `categorical`): a
    heteroscedastic posterior has its maximum where the noise vanishes at rows that are fitted exactly, and little of
    its mass lies there.
    """

    title = "Laplace"
    kind_of_draws = KindOfDraws.INDEPENDENT
    family = "approximation"
    variant = 1
    builder = "bnn_atlas.methods.laplace.approximation:build_laplace"
    centre = "location"

    kind: Literal["laplace"] = "laplace"
    structure: Literal["full", "last_layer", "diagonal", "kronecker"] = "full"
    """`full`: all P x P entries; `last_layer`: the entries of the last layer and of the likelihood's own parameters,
    with all else fixed at the maximum; `diagonal`: the diagonal alone; `kronecker`: one Kronecker product per dense
    layer (Gaussian priors only)."""
    map_steps: CountOrNone = 2000
    """At most this many full-data L-BFGS steps from the warm start to the maximum."""
    map_tolerance: NonNegative = 1e-3
    """A chain counts as being at its maximum once the gradient of its log posterior is at most this long."""
    steps: Count = 1000
    """Draws from the approximation."""


class CompactConfig(MethodSettings):
    """A Gaussian with the mean and the spread of another run's draws (`start.run`); every chain is one draw from it.

    Without an alignment it is q_d of Xiao et al. 2023, with one it is q_r.
    """

    title = "compact"
    kind_of_draws = KindOfDraws.INDEPENDENT
    family = "approximation"
    variant = 4
    builder = "bnn_atlas.methods.independent:build_compact"

    kind: Literal["compact"] = "compact"
    alignment: str | None = None
    """An alignment of that run in this study, whose aligned draws give the moments. Null takes the draws as they
    are."""
    form: Literal["diagonal", "low_rank", "mean"] = "diagonal"
    """`diagonal`: independent parameters; `low_rank`: their covariance, up to `rank` directions; `mean`: no spread."""
    rank: Count | None = None
    """`low_rank`: at most this many directions, those with the largest variance, and no more than the alignment's own
    `rank`; null takes all, one fewer than the number of draws."""
    source_chains: Count | None = None
    """Without an alignment: use only this many chains of that run, the first ones; null takes all. An alignment has its
    own `chains`."""
    checkpoint_every: ClassVar[int] = 1
