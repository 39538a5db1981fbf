"""Settings of variational inference with a low-rank and a diagonal part."""

from typing import Literal

from bnn_atlas.config.fields import Count, Positive
from bnn_atlas.config.methods.base import ChainSettings, KindOfDraws, PointNoise
from bnn_atlas.config.methods.optimisation import AdamConfig, OptimiserConfig


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
    batch_size: Count | None = 80
    """Rows per mini-batch; null for the full data."""
    samples: Count = 1
    """Draws from q per step, shared by the rows of a mini-batch."""
    optimiser: OptimiserConfig = AdamConfig(learning_rate=0.01)
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
