"""Settings of methods whose draws come from a Gaussian: variational ones, Laplace, compact representations."""

from collections.abc import Iterator
from typing import ClassVar, Literal

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
    """The log-likelihood of a mini-batch counts as it is and not for all rows, as in the published script of Sommer et
    al. 2025: q approximates a posterior that knows about `batch_size` rows. Only to repeat published numbers."""
    samples: Count = 1
    """Draws from q per step, shared by the rows of a mini-batch."""
    optimiser: OptimiserConfig = AdamConfig(learning_rate=0.01)
    """How the bound is maximised."""
    mean_init: Literal["warm_start", "prior"] = "warm_start"
    """Where the mean starts: where the chain starts (its warm start, or what the run's `start` takes from another run),
    or at the location of the prior."""
    sigma_init: Positive = 0.01
    """Standard deviation of every parameter at the start."""
    noise: PointNoise = "sampled"
    """Of `learned_noise`: log sigma is one more parameter of q, or one number without a prior (`point`) that maximises
    the evidence lower bound of the weights (type-II maximum likelihood)."""
    steps: Count = 100
    """Draws from q."""

    def _contradictions(self) -> Iterator[str]:
        yield from super()._contradictions()
        if self.unscaled and self.batch_size is None:
            yield "unscaled is about mini-batches: set batch_size, or leave unscaled out"


class LowRankConfig(ChainSettings):
    """Variational inference with normals of covariance diag(s^2) + F F', F of few columns, nearest in KL(q || p).

    Ong, Nott and Smith 2018 (Gaussian Variational Approximation With a Factor Covariance Structure). Each chain is a
    fit of its own from its own warm start; its draws are independent draws from q.
    """

    title = "low-rank normal"
    kind_of_draws = KindOfDraws.INDEPENDENT
    family = "approximation"
    variant = 4
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
    """Where the mean starts: where the chain starts (its warm start, or what the run's `start` takes from another run),
    or at the location of the prior."""
    sigma_init: Positive = 0.01
    """s of every parameter at the start, and the standard deviation that F adds to it; F starts at random."""
    noise: PointNoise = "sampled"
    """Of `learned_noise`: log sigma is one more parameter of q, or one number without a prior (`point`) that maximises
    the evidence lower bound of the weights (type-II maximum likelihood)."""
    steps: Count = 100
    """Draws from q."""


class IVONConfig(ChainSettings):
    """Improved variational online Newton: a normal with independent parameters, at about the cost of Adam.

    Shen et al. 2024 (Variational Learning is Effective for Large Deep Networks), Algorithm 1. It fits what mean-field
    variational inference fits, by natural gradients of the mean and of the precision: the mean takes preconditioned
    steps with momentum, the precision follows an estimate of the Hessian. The weight decay of the paper is that of the
    prior, which has to be normal. Each chain is a fit of its own from its own warm start; its draws are independent
    draws from q.
    """

    title = "IVON"
    kind_of_draws = KindOfDraws.INDEPENDENT
    family = "approximation"
    variant = 5
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
    """Of the mean, for a loss that is a mean over rows: 0.1 to 0.5 for networks from scratch, as for SGD. Times
    `hessian_init` it is the share of a Newton step that a step takes, which has to be below 1."""
    schedule: Literal["constant", "cosine"] = "cosine"
    """Whether the learning rate stays, or falls to 0 along half a cosine over all steps."""
    momentum: Share = 0.9
    """Of the gradient (beta_1)."""
    hessian_momentum: Share = 0.99999
    """Of the Hessian of the mean loss (beta_2): the estimate has a memory of 1 / (1 - beta_2) steps, which should not
    be longer than the fit."""
    hessian_init: Positive = 0.1
    """The Hessian at the start. A parameter's standard deviation is then (rows (hessian_init + weight decay) / T)^-1/2;
    too small a value lets the first draws stray far from the mean."""
    clip: Given = None
    """Largest size of one parameter's step before the learning rate; null for none."""
    steps: Count = 100
    """Draws from q."""


class LaplaceConfig(ChainSettings):
    """Laplace approximation: a normal at a maximum of the log posterior, with the generalised Gauss-Newton curvature.

    Where the prior's log density is flat or curved upwards at the maximum (Laplace and Student-t priors, walled
    uniforms, mixtures), the precision of a normal with its scale stands in for its curvature. It suits likelihoods
    whose noise the network does not set (`gaussian`, `learned_noise`, `categorical`): the maximum of a heteroscedastic
    posterior is where the noise vanishes at rows that are fitted exactly, with little of the mass around it.
    """

    title = "Laplace"
    kind_of_draws = KindOfDraws.INDEPENDENT
    family = "approximation"
    variant = 1
    builder = "bnn_atlas.methods.laplace.approximation:build_laplace"
    centre = "location"

    kind: Literal["laplace"] = "laplace"
    structure: Literal["full", "last_layer", "diagonal", "kronecker"] = "full"
    """`full`: all P x P entries; `last_layer`: those of the last layer and of the likelihood's own parameters, all else
    fixed at the maximum; `diagonal`; `kronecker`: one Kronecker product per dense layer (Gaussian priors only)."""
    map_steps: CountOrNone = 2000
    """Most full-data L-BFGS steps from the warm start to the maximum."""
    map_tolerance: NonNegative = 1e-3
    """Length of the gradient of the log posterior at which a chain is at its maximum."""
    steps: Count = 1000
    """Draws from the approximation."""


class CompactConfig(MethodSettings):
    """A Gaussian with mean and spread of the draws of another run, `start.run`; every chain is one draw of it.

    Without an alignment it is q_d of Xiao et al. 2023, with one it is q_r.
    """

    title = "compact"
    kind_of_draws = KindOfDraws.INDEPENDENT
    family = "approximation"
    variant = 6
    builder = "bnn_atlas.methods.independent:build_compact"

    kind: Literal["compact"] = "compact"
    alignment: str | None = None
    """An alignment of this study, of that run: the moments are those of its aligned draws. Null takes the draws as they
    are."""
    form: Literal["diagonal", "low_rank", "mean"] = "diagonal"
    """`diagonal`: independent parameters; `low_rank`: their covariance, up to `rank` directions; `mean`: no spread."""
    rank: Count | None = None
    """`low_rank`: most directions, those of the largest variance, at most `rank` of the alignment; null takes all, one
    less than the number of draws."""
    source_chains: Count | None = None
    """Without an alignment, the first this many chains of that run count; null takes all. An alignment has `chains`."""
    checkpoint_every: ClassVar[int] = 1
