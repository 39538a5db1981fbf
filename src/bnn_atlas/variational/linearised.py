"""The network linearised at a maximum of the posterior: the predictive that belongs to a Gauss-Newton Laplace fit.

Immer et al. 2021 (Improving Predictions of Bayesian Neural Nets via Local Linearization): the curvature is exact for
the model whose outputs are f(x; c) + J(x) (theta - c), so its draws should predict with that model. Predictions are
distributions of a target given the outputs, as for any draw: the noise of a regression enters there, as a standard
deviation and once, and is no part of the outputs' covariance.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.posterior import CategoricalLikelihood
from bnn_atlas.posterior.density import Posterior
from bnn_atlas.posterior.likelihoods import noise
from bnn_atlas.posterior.predictive import Predictive


class OutputMoments(NamedTuple):
    """Normal distribution of the network's outputs at n rows: mean [n, outputs], covariance [n, outputs, outputs]."""

    mean: Array
    covariance: Array


def predict_linearised(posterior: Posterior, centre: Array, theta: Array, x: Array) -> Predictive:
    """Predictive distributions of draws theta [b, P] at rows x [n, ...] with the network linearised at centre [P].

    A drop-in for `Posterior.predict`; one draw after another.
    """
    size = posterior.network.layout.size
    outputs, push = jax.linearize(lambda vector: _outputs(posterior, vector, x), centre)

    def one(vector: Array) -> Predictive:
        moved = outputs + push(vector - centre)
        if isinstance(posterior.likelihood, CategoricalLikelihood):
            return Predictive(log_probs=jax.nn.log_softmax(moved.T, axis=-1))
        log_sigma = noise(posterior.likelihood, moved, vector[size:]).log_sigma
        return Predictive(mean=moved[0], scale=jnp.broadcast_to(jnp.exp(log_sigma), moved[0].shape))

    return jax.lax.map(one, theta)


def output_moments(
    posterior: Posterior, centre: Array, root: Callable[[Array], Array], size: int, temperature: float, x: Array
) -> OutputMoments:
    """Closed form of the linearised outputs, N(f(x; c), T J H^-1 J^T).

    Args:
        posterior: network and likelihood.
        centre: c [P], the maximum.
        root: noise [size] -> S noise [P] with S S^T = H^-1, zero at scalars that the fit leaves fixed.
        size: length of the noise.
        temperature: T.
        x: rows [n, ...].
    """
    back = jax.linear_transpose(root, jnp.zeros(size, centre.dtype))

    def one(row: Array) -> tuple[Array, Array]:
        outputs, pull = jax.vjp(lambda vector: _outputs(posterior, vector, row[None])[:, 0], centre)
        columns = jax.vmap(lambda unit: back(pull(unit)[0])[0])(jnp.eye(len(outputs), dtype=outputs.dtype))
        return outputs, temperature * jnp.matmul(columns, columns.T, precision=jax.lax.Precision.HIGHEST)

    return OutputMoments(*jax.lax.map(one, x))


def _outputs(posterior: Posterior, vector: Array, x: Array) -> Array:
    """Outputs [outputs, n] of the network at rows x [n, ...]."""
    network = posterior.network
    return network.apply(vector[: network.layout.size], network.arrange(x))[:, : len(x)]
