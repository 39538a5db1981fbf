"""Settings of mean-field variational inference."""

from typing import Literal, Self

from pydantic import model_validator

from bnn_atlas.config.fields import Count, Positive
from bnn_atlas.config.methods.base import ChainSettings, KindOfDraws, PointNoise
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
    batch_size: Count | None = 80
    """Rows per mini-batch; null for the full data."""
    unscaled: bool = False
    """The log-likelihood of a mini-batch counts as it is and not for all rows, as in the published script of Sommer et
    al. 2025: q approximates a posterior that knows about `batch_size` rows. Only to repeat published numbers."""
    samples: Count = 1
    """Draws from q per step, shared by the rows of a mini-batch."""
    optimiser: OptimiserConfig = AdamConfig(learning_rate=0.01)
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

    @model_validator(mode="after")
    def _has_batches(self) -> Self:
        if self.unscaled and self.batch_size is None:
            raise ValueError("unscaled is about mini-batches: set batch_size, or leave unscaled out")
        return self
