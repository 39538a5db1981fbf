"""A run's posterior with its data, from files and settings."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from jax import numpy as jnp

from bnn_atlas.config.posterior import PosteriorConfig
from bnn_atlas.data.splits import SplitData, load_split
from bnn_atlas.posterior.density import Posterior, PosteriorData, build_posterior, posterior_data
from bnn_atlas.posterior.micro_batches import micro_batches


class Problem(NamedTuple):
    """A posterior with its data, read from a prepared data set and a split."""

    posterior: Posterior
    data: PosteriorData
    split: SplitData
    config: PosteriorConfig


def load_problem(dataset: str | Path, split: str | Path, settings: Mapping[str, Any]) -> Problem:
    """Posterior of `settings` (a `PosteriorConfig` in plain values) on the rows that it conditions on."""
    config = PosteriorConfig.model_validate(settings)
    rows = load_split(dataset, split)
    posterior, prior = build_posterior(
        config.model,
        config.likelihood,
        config.prior,
        temperature=config.temperature,
        shape=rows.x_fit.shape[1:],
        classes=len(rows.classes),
        vocabulary=rows.vocabulary,
        dtype=jnp.float64 if config.float64 else jnp.float32,
        shards=config.data_shards,
    )
    data = posterior_data(rows.x_fit, rows.y_fit, prior, config.data_shards, rows.vocabulary)
    pieces = micro_batches(posterior, data, 1e6 * config.gradient_memory_mb)
    return Problem(posterior._replace(micro_batches=pieces), data, rows, config)
