"""Settings of methods whose draws come from a Gaussian: variational ones, Laplace, compact representations."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from bnn_atlas.config.language.base import Count, CountOrNone, Given, NonNegative, Positive, Share
from bnn_atlas.config.methods.base import ChainSettings, KindOfDraws, MethodSettings, PointNoise, VariationalSettings
from bnn_atlas.config.methods.optimisation import AdamConfig, OptimiserConfig


class MeanFieldConfig(VariationalSettings):
    """Mean-field variational inference: the normal with independent parameters closest to the posterior in KL(q || p).

    Each chain is a separate fit from its own warm start; the draws are independent draws from q.
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
    """Whether the log-likelihood of a mini-batch is left unscaled, as in the published script of Sommer et al. 2025,
    instead of being scaled up to all rows. Then q approximates a posterior given only about `batch_size` rows. Use it
    only to reproduce published numbers."""
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
    """For `learned_noise`. `sampled`: log sigma is one more parameter under q; `point`: log sigma is a single number
    without a prior, chosen to maximise the evidence lower bound of the weights (type-II maximum likelihood)."""
    steps: Count = 100
    """Draws from q."""

    def _contradictions(self) -> Iterator[str]:
        yield from super()._contradictions()
        if self.unscaled and self.batch_size is None:
            yield "unscaled is about mini-batches: set batch_size, or leave unscaled out"


class LowRankConfig(VariationalSettings):
    """Variational inference: the normal with covariance diag(s^2) + F F', F with few columns, closest in KL(q || p).

    Ong, Nott and Smith 2018 (Gaussian Variational Approximation With a Factor Covariance Structure). Each chain is a
    separate fit from its own warm start; the draws are independent draws from q.
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
    """For `learned_noise`. `sampled`: log sigma is one more parameter under q; `point`: log sigma is a single number
    without a prior, chosen to maximise the evidence lower bound of the weights (type-II maximum likelihood)."""
    steps: Count = 100
    """Draws from q."""


class IVONConfig(VariationalSettings):
    """Improved variational online Newton: a normal with independent parameters, at about the cost of Adam.

    Shen et al. 2024 (Variational Learning is Effective for Large Deep Networks), Algorithm 1. It fits the same q as
    mean-field variational inference, using natural gradients for the mean and the precision: the mean takes
    preconditioned steps with momentum, and the precision follows an estimate of the Hessian. The paper's weight decay
    follows from the prior here, so the prior has to be normal. Each chain is a separate fit from its own warm start;
    the draws are independent draws from q.
    """

    title = "IVON"
    kind_of_draws = KindOfDraws.INDEPENDENT
    family = "approximation"
    variant = 3
    builder = "bnn_atlas.methods.ivon:build_ivon"
    centre = "mean"

    unlearned: ClassVar[float] = 0.1
    """Mean change of the log curvature since the start below which a fit has learned nothing of it: a Hessian that
    follows the data is not within 10 % of the number at which every parameter starts."""

    kind: Literal["ivon"] = "ivon"
    epochs: Count = 200
    """Passes over the training rows."""
    batch_size: Count | None = 80
    """Rows per mini-batch; null for the full data."""
    samples: Count = 1
    """Draws from q per step, shared by the rows of a mini-batch."""
    learning_rate: Positive = 0.1
    """Learning rate of the mean, for a loss that is a mean over rows: 0.1 to 0.5 for networks trained from scratch, as
    for SGD. Its product with `hessian_init` is the fraction of a Newton step that each step takes, which must be below
    1."""
    schedule: Literal["constant", "cosine"] = "cosine"
    """Whether the learning rate stays constant, or falls to 0 along half a cosine over all steps."""
    momentum: Share = 0.9
    """Momentum of the gradient (beta_1)."""
    hessian_momentum: Annotated[Share | None, Field(exclude_if=lambda value: value is None)] = None
    """Momentum of the Hessian of the mean loss (beta_2): the estimate has a memory of 1 / (1 - beta_2) steps, which
    should not be longer than the fit. null sets the memory to a fifth of the fit's steps, but at least 10 and at most
    100,000 steps (the paper's 0.99999)."""
    hessian_init: Positive = 0.1
    """The Hessian at the start. A parameter's standard deviation is then (rows (hessian_init + weight decay) / T)^-1/2;
    too small a value lets the first draws stray far from the mean."""
    clip: Given = None
    """Largest size of a parameter's gradient divided by its Hessian and weight decay, as `clip_radius` in the authors'
    code: before it is multiplied by `hessian_init` + weight decay, and by the learning rate. null for no limit."""
    steps: Count = 100
    """Draws from q."""

    def for_rows(self, rows: int) -> Self:
        """These settings with `hessian_momentum` as a number, 1 - 1 / min(max(steps of the fit / 5, 10), 100,000)."""
        if self.hessian_momentum is not None:
            return self
        memory = min(max(self._fit_steps(rows) / 5, 10), 100_000)
        return self.model_copy(update={"hessian_momentum": 1 - 1 / memory})

    def note(self, rows: int) -> str:
        """A warning if the Hessian's memory is longer than a fit to this number of rows; otherwise empty."""
        steps, momentum = self._fit_steps(rows), self.for_rows(rows).hessian_momentum
        if momentum is None or momentum <= 1 - 1 / max(steps, 10):
            return ""
        return f"the Hessian's memory of {1 / (1 - momentum):,.0f} steps is longer than the fit, {steps:,} steps"

    def _fit_steps(self, rows: int) -> int:
        return self.epochs * (rows // self.batch_size if self.batch_size else 1)


MOST_FACTORISED = 20_000
"""Largest number of parameters for which a Laplace approximation may keep all entries of the covariance."""


class LaplaceConfig(ChainSettings):
    """Laplace approximation: a normal at a maximum of the log posterior, with the generalised Gauss-Newton curvature.

    Where the prior's log density is flat or curved upwards at the maximum (Laplace and Student-t priors, uniforms with
    walls, mixtures), its curvature is replaced by the precision of a normal with the same scale. The approximation
    suits likelihoods whose noise is not set by the network (`gaussian`, `learned_noise`, `categorical`): a
    heteroscedastic posterior has its maximum where some rows are fitted exactly with vanishing noise, and little of the
    posterior mass lies there.
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
    with all other parameters fixed at the maximum; `diagonal`: only the diagonal; `kronecker`: one Kronecker product
    per dense layer (Gaussian priors only)."""
    map_steps: CountOrNone = 2000
    """At most this many full-data L-BFGS steps from the warm start to the maximum."""
    map_tolerance: NonNegative = 1e-3
    """A chain has reached its maximum once the norm of the gradient of its log posterior is at most this value."""
    steps: Count = 1000
    """Draws from the approximation."""


class CompactConfig(MethodSettings):
    """A Gaussian with the mean and spread of another run's draws (`start.run`); every chain is one draw.

    Without an alignment, this is q_d of Xiao et al. 2023; with an alignment, it is q_r.
    """

    title = "compact"
    kind_of_draws = KindOfDraws.INDEPENDENT
    family = "approximation"
    variant = 4
    builder = "bnn_atlas.methods.independent:build_compact"

    kind: Literal["compact"] = "compact"
    alignment: str | None = None
    """An alignment of that run in this study; the moments are computed from its aligned draws. Null uses the draws
    without alignment."""
    form: Literal["diagonal", "low_rank", "mean"] = "diagonal"
    """`diagonal`: independent parameters; `low_rank`: a covariance with up to `rank` directions; `mean`: no spread."""
    rank: Count | None = None
    """`low_rank`: keep at most this many directions, the ones with the largest variance, and no more than the
    alignment's own `rank`; null keeps all (one fewer than the number of draws)."""
    source_chains: Count | None = None
    """Without an alignment: use only the first chains of that run, this many; null uses all. With an alignment, its own
    setting `chains` applies."""
    checkpoint_every: ClassVar[int] = 1
