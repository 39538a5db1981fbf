"""A run's posterior with its data, from files and settings."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jax import numpy as jnp

from bnn_atlas import runtime
from bnn_atlas.config.parts.posterior import PosteriorConfig
from bnn_atlas.config.parts.priors import EmpiricalCovariancePrior
from bnn_atlas.data.splitting import SplitData, load_split
from bnn_atlas.posterior.density import Posterior, PosteriorData, build_posterior, posterior_data
from bnn_atlas.posterior.micro_batches import within_budget
from bnn_atlas.posterior.prior_densities import Prior


class Problem(NamedTuple):
    """A posterior with its data, read from a prepared data set and a split."""

    posterior: Posterior
    data: PosteriorData
    split: SplitData
    config: PosteriorConfig


def load_problem(dataset: str | Path, split: str | Path, settings: Mapping[str, Any], chains: int = 1) -> Problem:
    """The posterior with `settings` (a `PosteriorConfig` in plain values) on the rows that it is conditioned on.

    Gradients are computed in pieces, so that `chains` chains, which a GPU computes together, fit the memory budget. On
    a CPU each device has one chain at a time, and the pieces do not depend on the number of chains.

    Raises:
        ValueError: rows or labels contradict what the data set says about them.
    """
    config, rows = PosteriorConfig.model_validate(settings), load_split(dataset, split)
    posterior, prior = _built(config, rows)
    data = _data(config, rows, rows.x_fit, rows.y_fit, prior)
    at_once = 1 if runtime.on_cpu() else chains
    return Problem(within_budget(posterior, data, 1e6 * config.gradient_memory_mb / at_once), data, rows, config)


def load_without_rows(dataset: str | Path, split: str | Path, settings: Mapping[str, Any]) -> Problem:
    """The same with no rows in `data`, only their shape and type, which is enough to predict with given draws."""
    config, rows = PosteriorConfig.model_validate(settings), load_split(dataset, split)
    posterior, prior = _built(config, rows)
    nothing = rows.scaled(rows.dataset.x[:0]), rows.y_fit[:0]
    return Problem(posterior, _data(config, rows, *nothing, prior), rows, config)


def _built(config: PosteriorConfig, rows: SplitData) -> tuple[Posterior, Prior]:
    return build_posterior(
        config.model,
        config.likelihood,
        config.prior,
        temperature=config.temperature,
        shape=rows.shape,
        classes=len(rows.classes),
        vocabulary=rows.vocabulary,
        dtype=jnp.float64 if config.float64 else jnp.float32,
        shards=config.data_shards,
        kernel=config.kernel,
        rows=rows.x_fit if isinstance(config.prior, EmpiricalCovariancePrior) else None,
    )


def _data(config: PosteriorConfig, rows: SplitData, x: np.ndarray, y: np.ndarray, prior: Prior) -> PosteriorData:
    return posterior_data(x, y, prior, config.data_shards, rows.vocabulary, shape=rows.shape, classes=len(rows.classes))
