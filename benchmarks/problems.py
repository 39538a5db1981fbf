"""Posteriors of our side of the benchmarks, on random data; `runtime.configure` comes before this is imported."""

from typing import NamedTuple

import numpy as np

from bnn_atlas.config.parts.posterior import (
    CategoricalLikelihood,
    HeteroscedasticLikelihood,
    LikelihoodConfig,
    MLPConfig,
)
from bnn_atlas.config.parts.priors import StandardNormalPrior
from bnn_atlas.posterior.density import Posterior, PosteriorData, build_posterior, posterior_data
from work import Work


class Problem(NamedTuple):
    """A posterior, what it is conditioned on, and starts [chain, P]."""

    posterior: Posterior
    data: PosteriorData
    starts: np.ndarray


def regression(work: Work, shards: int = 1, seed: int = 0) -> Problem:
    """The posterior of a work; `seed` gives other rows of the same shape."""
    posterior, data = _build(
        work.hidden, HeteroscedasticLikelihood(head="softplus"), *work.data(seed), 0, shards=shards
    )

    def flat(layers: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        named = {}
        for index, (weight, bias) in enumerate(layers):
            named |= {f"layer{index}.weight": weight.T, f"layer{index}.bias": bias}
        return np.asarray(posterior.layout.flatten(named))

    return Problem(posterior, data, np.stack([flat(layers) for layers in work.starts()]))


def classification(
    hidden: tuple[int, ...], features: int, classes: int, rows: int, chains: int, seed: int = 0, micro_batches: int = 1
) -> Problem:
    """A classifier of rows of pixels."""
    generator = np.random.default_rng(seed)
    x = generator.random((rows, features), np.float32)
    labels = np.resize(np.arange(classes), rows)
    posterior, data = _build(hidden, CategoricalLikelihood(), x, labels, classes, micro_batches=micro_batches)
    starts = 0.05 * generator.standard_normal((chains, posterior.layout.size), np.float32)
    return Problem(posterior, data, starts)


def _build(
    hidden: tuple[int, ...],
    likelihood: LikelihoodConfig,
    x: np.ndarray,
    y: np.ndarray,
    classes: int,
    micro_batches: int = 1,
    shards: int = 1,
) -> tuple[Posterior, PosteriorData]:
    posterior, prior = build_posterior(
        MLPConfig(hidden=hidden),
        likelihood,
        StandardNormalPrior(),
        temperature=1.0,
        shape=x.shape[1:],
        classes=classes,
        micro_batches=micro_batches,
        shards=shards,
    )
    return posterior, posterior_data(x, y, prior, shards)
