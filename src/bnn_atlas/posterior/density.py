"""The tempered posterior density of a network over the flat parameter vector."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods import CategoricalLikelihood, LikelihoodConfig, MLPConfig, PriorConfig
from bnn_atlas.models.build import Network, build_network
from bnn_atlas.models.layout import Layout
from bnn_atlas.posterior.likelihoods import extra_parameters, log_likelihood, noise, outputs_needed
from bnn_atlas.posterior.predictive import Predictive
from bnn_atlas.posterior.priors import Family, Prior, PriorValues, build_prior, log_prior

CACHE_LINE = 16
"""Single-precision numbers per cache line."""


class LogDensity(NamedTuple):
    """Untempered log-likelihood and log-prior at one parameter vector, kept apart for accurate differences."""

    log_likelihood: Array
    log_prior: Array


class Evaluation(NamedTuple):
    """Densities and the gradient [P] of the tempered log posterior, (log-likelihood + log-prior) / temperature."""

    density: LogDensity
    gradient: Array


Evaluate = Callable[[Array], Evaluation]


class PosteriorData(NamedTuple):
    """Arrays that a posterior is conditioned on; arguments of compiled functions, so that one program serves all."""

    x: Array
    """[features, rows and up to 15 columns of zeros], so that every feature starts at a cache line."""
    y: Array
    """[rows]."""
    prior: PriorValues


class Posterior(NamedTuple):
    """log p(theta | data) = (log p(data | theta) + log p(theta)) / temperature + constant."""

    layout: Layout
    network: Network
    likelihood: LikelihoodConfig
    family: Family
    temperature: float

    def log_density(self, theta: Array, data: PosteriorData) -> LogDensity:
        """Log-likelihood and log-prior of theta [P]."""
        outputs, extra = self._forward(theta, data.x)
        likelihood = log_likelihood(self.likelihood, outputs[:, : len(data.y)], extra, data.y)
        return LogDensity(likelihood, log_prior(self.family, data.prior, theta))

    def evaluate(self, theta: Array, data: PosteriorData) -> Evaluation:
        """Densities and gradient at theta [P], in one pass."""

        def tempered(theta: Array) -> tuple[Array, LogDensity]:
            density = self.log_density(theta, data)
            return (density.log_likelihood + density.log_prior) / self.temperature, density

        (_, density), gradient = jax.value_and_grad(tempered, has_aux=True)(theta)
        return Evaluation(density, gradient)

    def predict(self, theta: Array, x: Array) -> Predictive:
        """Predictive distribution of draws theta [b, P] at rows x [n, features]; one draw after another."""

        def one(vector: Array) -> Predictive:
            outputs, extra = self._forward(vector, x.T)
            if isinstance(self.likelihood, CategoricalLikelihood):
                return Predictive(log_probs=jax.nn.log_softmax(outputs.T, axis=-1))
            log_sigma = noise(self.likelihood, outputs, extra).log_sigma
            return Predictive(mean=outputs[0], scale=jnp.broadcast_to(jnp.exp(log_sigma), outputs[0].shape))

        return jax.lax.map(one, theta)

    def _forward(self, theta: Array, x: Array) -> tuple[Array, Array]:
        """Network outputs [outputs, rows] and the likelihood's own parameters."""
        size = self.network.layout.size
        return self.network.apply(theta[:size], x), theta[size:]


def build_posterior(
    model: MLPConfig,
    likelihood: LikelihoodConfig,
    prior: PriorConfig,
    *,
    temperature: float,
    features: int,
    classes: int = 0,
    dtype: jnp.dtype = jnp.float32,
) -> tuple[Posterior, Prior]:
    """Posterior of the settings for data with `features` columns (and `classes` classes), and its prior."""
    network = build_network(model, features, outputs_needed(likelihood, classes))
    layout = Layout(network.layout.parameters + extra_parameters(likelihood))
    built = build_prior(prior, layout, dtype)
    return Posterior(layout, network, likelihood, built.family, temperature), built


def posterior_data(x: np.ndarray, y: np.ndarray, prior: Prior) -> PosteriorData:
    """Rows x [n, features] and targets y [n] in the form and precision that `Posterior` takes."""
    dtype = prior.values.loc.dtype
    target = jnp.asarray(y, jnp.int32 if np.issubdtype(np.asarray(y).dtype, np.integer) else dtype)
    columns = np.pad(np.asarray(x).T, ((0, 0), (0, -len(x) % CACHE_LINE)))
    return PosteriorData(jnp.asarray(columns, dtype), target, prior.values)
