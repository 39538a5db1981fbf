"""Likelihoods of targets given a network's outputs [outputs, rows]."""

import math
from typing import NamedTuple

import jax
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods import (
    CategoricalLikelihood,
    GaussianLikelihood,
    HeteroscedasticLikelihood,
    LearnedNoiseLikelihood,
    LikelihoodConfig,
)
from bnn_atlas.models.layout import Parameter

LOG_SIGMA = Parameter("log_sigma", (), "scale", None, 1, 1)
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class Noise(NamedTuple):
    """Mean, log sigma and 1 / sigma of a Gaussian likelihood, each [rows] or scalar."""

    mean: Array
    log_sigma: Array
    precision_root: Array


def outputs_needed(config: LikelihoodConfig, classes: int) -> int:
    """Width of the network's last layer."""
    match config:
        case HeteroscedasticLikelihood():
            return 2
        case CategoricalLikelihood():
            return classes
        case _:
            return 1


def extra_parameters(config: LikelihoodConfig) -> tuple[Parameter, ...]:
    """Parameters that the likelihood adds behind the network's."""
    return (LOG_SIGMA,) if isinstance(config, LearnedNoiseLikelihood) else ()


def noise(config: LikelihoodConfig, outputs: Array, extra: Array) -> Noise:
    """Gaussian noise model of outputs [outputs, rows]; `extra` holds the likelihood's own parameters."""
    mean = outputs[0]
    match config:
        case GaussianLikelihood():
            sigma = jnp.asarray(config.sigma, mean.dtype)
            return Noise(mean, jnp.log(sigma), 1 / sigma)
        case LearnedNoiseLikelihood():
            return Noise(mean, extra[0], jnp.exp(-extra[0]))
        case HeteroscedasticLikelihood(head="exp"):
            log_sigma = jnp.clip(outputs[1], math.log(1e-6), math.log(1e6))
            return Noise(mean, log_sigma, jnp.exp(-log_sigma))
        case HeteroscedasticLikelihood(head="softplus"):
            sigma = jax.nn.softplus(outputs[1]) + 1e-6
            return Noise(mean, jnp.log(sigma), 1 / sigma)
        case _:
            raise TypeError(f"{config.kind} has no Gaussian noise")


def log_density(config: LikelihoodConfig, outputs: Array, extra: Array, y: Array) -> Array:
    """Log density log p(y_i | outputs_i) of every row [rows]."""
    if isinstance(config, CategoricalLikelihood):
        log_probs = jax.nn.log_softmax(outputs, axis=0)
        return jnp.take_along_axis(log_probs, y[None, :], axis=0)[0]
    mean, log_sigma, precision_root = noise(config, outputs, extra)
    z = (y - mean) * precision_root
    return -0.5 * z * z - log_sigma - _HALF_LOG_2PI


def log_likelihood(config: LikelihoodConfig, outputs: Array, extra: Array, y: Array) -> Array:
    """sum_i log p(y_i | outputs_i); a NaN row makes the sum NaN."""
    return jnp.sum(log_density(config, outputs, extra, y))
