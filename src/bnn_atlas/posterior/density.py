"""The tempered posterior density of a network over the flat parameter vector."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.posterior import CategoricalLikelihood, LikelihoodConfig, MLPConfig, PriorConfig
from bnn_atlas.models.build import Network, build_network
from bnn_atlas.models.layout import Layout
from bnn_atlas.placement import BY_ROWS, DATA_AXIS, EVERYWHERE
from bnn_atlas.posterior.likelihoods import extra_parameters, log_likelihood, noise, outputs_needed
from bnn_atlas.posterior.predictive import Predictive
from bnn_atlas.posterior.priors import Family, Prior, PriorValues, build_prior, log_prior


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
    """[rows, ...], a row's own shape behind."""
    y: Array
    """[rows]."""
    weights: Array | None
    """[rows], 1, and 0 for rows that only fill up the last shard; None where every row counts."""
    prior: PriorValues


class FullBatch(NamedTuple):
    """All rows in the network's own arrangement, for gradients of the full data."""

    x: Array
    """As the network takes it; with micro-batches their number leads."""
    y: Array
    """[rows], or [micro-batch, rows], and zeros for rows that the arrangement added."""
    weights: Array | None
    """1 for rows and 0 for added ones; None where none was added."""
    prior: PriorValues


class Posterior(NamedTuple):
    """log p(theta | data) = (log p(data | theta) + log p(theta)) / temperature + constant."""

    layout: Layout
    network: Network
    likelihood: LikelihoodConfig
    family: Family
    temperature: float
    micro_batches: int = 1
    """Pieces in which the full-data gradient is accumulated, to bound its memory."""
    shards: int = 1
    """Devices that share the rows; above 1, densities are summed over the mesh axis `data`."""

    def arrange(self, data: PosteriorData) -> FullBatch:
        """The rows as `evaluate` takes them; to be done once, outside of loops."""
        if self.micro_batches == 1:
            return FullBatch(*self._arranged(data.x, data.y, data.weights), data.prior)
        missing = -len(data.y) % self.micro_batches
        weights = data.weights
        if missing and weights is None:
            weights = jnp.ones(len(data.y), data.prior.loc.dtype)

        def cut(leaf: Array) -> Array:
            padded = jnp.pad(leaf, ((0, missing), *[(0, 0)] * (leaf.ndim - 1)))
            return padded.reshape(self.micro_batches, -1, *leaf.shape[1:])

        return FullBatch(*jax.vmap(self._arranged)(*jax.tree.map(cut, (data.x, data.y, weights))), data.prior)

    def evaluate(self, theta: Array, batch: FullBatch) -> Evaluation:
        """Densities and gradient at theta [P], in one pass over all rows."""
        if self.micro_batches == 1:
            likelihood, slope = self._likelihood(theta, batch.x, batch.y, batch.weights)
        else:

            def add(total: tuple[Array, Array], piece: tuple[Array, Array, Array | None]) -> tuple[Any, None]:
                return jax.tree.map(jnp.add, total, self._likelihood(theta, *piece)), None

            nothing = (jnp.zeros((), theta.dtype), jnp.zeros_like(theta))
            (likelihood, slope), _ = jax.lax.scan(add, nothing, (batch.x, batch.y, batch.weights))
        return self._with_prior(theta, likelihood, slope, batch.prior)

    def estimate(self, theta: Array, data: PosteriorData, rows: Array) -> Evaluation:
        """Unbiased estimate of `evaluate` from a mini-batch: its log-likelihood times (all rows) / (rows of the batch).

        Args:
            theta: position [P].
            data: the rows.
            rows: indices [b] of the mini-batch; where devices share the rows, of this device's share in it.
        """
        weights = None if data.weights is None else data.weights[rows]
        likelihood, slope = self._likelihood(theta, self.network.arrange(data.x[rows]), data.y[rows], weights)
        factor = len(data.y) / len(rows)
        return self._with_prior(theta, likelihood * factor, slope * factor, data.prior)

    def log_likelihood(self, theta: Array, x: Array, y: Array, weights: Array | None = None) -> Array:
        """Untempered log-likelihood of rows in the network's arrangement."""
        outputs, extra = self._forward(theta, x)
        return log_likelihood(self.likelihood, outputs[:, : len(y)], extra, y, weights)

    def log_prior(self, theta: Array, values: PriorValues) -> Array:
        """Untempered log-prior of theta [P]."""
        return log_prior(self.family, values, theta)

    def _arranged(self, x: Array, y: Array, weights: Array | None) -> tuple[Array, Array, Array | None]:
        """Rows as the network takes them, with a target and the weight 0 for every row that it adds."""
        arranged = self.network.arrange(x)
        theta = jax.ShapeDtypeStruct((self.network.layout.size,), arranged.dtype)
        added = jax.eval_shape(self.network.apply, theta, arranged).shape[1] - len(y)
        if added:
            weights = jnp.ones(len(y), arranged.dtype) if weights is None else weights
            y, weights = jnp.pad(y, (0, added)), jnp.pad(weights, (0, added))
        return arranged, y, weights

    def _likelihood(self, theta: Array, x: Array, y: Array, weights: Array | None) -> tuple[Array, Array]:
        """Log-likelihood of some rows and its gradient [P]."""
        return jax.value_and_grad(self.log_likelihood)(theta, x, y, weights)

    def _with_prior(self, theta: Array, likelihood: Array, slope: Array, values: PriorValues) -> Evaluation:
        """Sum over the devices that share the rows, then the prior, then the temperature, each once."""
        if self.shards > 1:
            likelihood, slope = jax.lax.psum((likelihood, slope), DATA_AXIS)
        prior, prior_slope = jax.value_and_grad(self.log_prior)(theta, values)
        return Evaluation(LogDensity(likelihood, prior), (slope + prior_slope) / self.temperature)

    def predict(self, theta: Array, x: Array) -> Predictive:
        """Predictive distribution of draws theta [b, P] at rows x [n, ...]; one draw after another."""

        def one(vector: Array) -> Predictive:
            outputs, extra = self._forward(vector, self.network.arrange(x))
            outputs = outputs[:, : len(x)]
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
    micro_batches: int = 1,
    shards: int = 1,
) -> tuple[Posterior, Prior]:
    """Posterior of the settings for data with `features` columns (and `classes` classes), and its prior."""
    network = build_network(model, features, outputs_needed(likelihood, classes))
    layout = Layout(network.layout.parameters + extra_parameters(likelihood))
    built = build_prior(prior, layout, dtype)
    return Posterior(layout, network, likelihood, built.family, temperature, micro_batches, shards), built


def posterior_data(x: np.ndarray, y: np.ndarray, prior: Prior, shards: int = 1) -> PosteriorData:
    """Rows x [n, ...] and targets y [n] in the precision of the prior, filled up to a multiple of `shards`."""
    dtype = prior.values.loc.dtype
    missing = -len(x) % shards
    weights = jnp.asarray(np.repeat([1.0, 0.0], [len(x), missing]), dtype) if missing else None
    x, y = (np.pad(leaf, ((0, missing), *[(0, 0)] * (leaf.ndim - 1))) for leaf in (np.asarray(x), np.asarray(y)))
    target = jnp.asarray(y, jnp.int32 if np.issubdtype(y.dtype, np.integer) else dtype)
    return PosteriorData(jnp.asarray(x, dtype), target, weights, prior.values)


def data_specs(data: PosteriorData) -> Any:
    """How the arrays are shared out among the devices of a chain: rows are, the prior is not."""
    rows: Any = BY_ROWS
    weights = None if data.weights is None else rows
    return PosteriorData(rows, rows, weights, jax.tree.map(lambda _: EVERYWHERE, data.prior))


class Target(NamedTuple):
    """A posterior bound to its data: what a step of a method may ask."""

    evaluate: Evaluate
    """Position [P] -> densities and tempered gradient on all rows."""
    estimate: Callable[[Array, Array], Evaluation]
    """(position [P], row indices [b]) -> the same, estimated without bias from a mini-batch."""
    posterior: Posterior
    data: PosteriorData

    @property
    def rows(self) -> int:
        """Rows on this device; where `posterior.shards` devices share the data, each takes as many of a mini-batch."""
        return len(self.data.y)


def binder(posterior: Posterior) -> Callable[[PosteriorData], Target]:
    """Makes targets; whatever asks them, the posterior's functions are traced once for each shape."""
    evaluate, estimate = jax.jit(posterior.evaluate), jax.jit(posterior.estimate)

    def bind(data: PosteriorData) -> Target:
        batch = posterior.arrange(data)
        return Target(
            lambda theta: evaluate(theta, batch),
            lambda theta, rows: estimate(theta, data, rows),
            posterior,
            data,
        )

    return bind
