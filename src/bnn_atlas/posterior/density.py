"""The tempered posterior density of a network over the flat parameter vector."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.posterior import CategoricalLikelihood, LikelihoodConfig, ModelConfig, PriorConfig
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
    """As the network takes it; in pieces (micro-batches) their number leads."""
    y: Array
    """[rows], or [piece, rows], and zeros for rows that the arrangement added."""
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
        pieces = self._cut(data.x, data.y, data.weights, -(-len(data.y) // self.micro_batches))
        return FullBatch(*pieces, data.prior)

    def _cut(self, x: Array, y: Array, weights: Array | None, size: int) -> tuple[Array, Array, Array | None]:
        """Arranged rows, targets and weights in pieces of `size` rows, or of the network's own where that is smaller.

        Whole, without a leading axis, if one piece holds them.
        """
        size = min(size, self.network.piece or size)
        if size >= len(y):
            return self._arranged(x, y, weights)
        pieces = -(-len(y) // size)
        missing = pieces * size - len(y)
        if missing and weights is None:
            weights = jnp.ones(len(y), _real(x))

        def cut(leaf: Array) -> Array:
            padded = jnp.pad(leaf, ((0, missing), *[(0, 0)] * (leaf.ndim - 1)))
            return padded.reshape(pieces, -1, *leaf.shape[1:])

        return jax.vmap(self._arranged)(*jax.tree.map(cut, (x, y, weights)))

    def evaluate(self, theta: Array, batch: FullBatch) -> Evaluation:
        """Densities and gradient at theta [P], in one pass over all rows."""
        likelihood, slope = self._sum(theta, batch.x, batch.y, batch.weights)
        return self._with_prior(theta, likelihood, slope, batch.prior)

    def _sum(self, theta: Array, x: Array, y: Array, weights: Array | None) -> tuple[Array, Array]:
        """Log-likelihood of rows that `_cut` gives and its gradient [P], one piece after another."""
        if y.ndim == 1:
            return self._likelihood(theta, x, y, weights)

        def add(total: tuple[Array, Array], piece: tuple[Array, Array, Array | None]) -> tuple[Any, None]:
            return jax.tree.map(jnp.add, total, self._likelihood(theta, *piece)), None

        nothing = (jnp.zeros((), theta.dtype), jnp.zeros_like(theta))
        return jax.lax.scan(add, nothing, (x, y, weights))[0]

    def estimate(self, theta: Array, data: PosteriorData, rows: Array) -> Evaluation:
        """Unbiased estimate of `evaluate` from a mini-batch: its log-likelihood times (all rows) / (rows of the batch).

        Args:
            theta: position [P].
            data: the rows.
            rows: indices [b] of the mini-batch; where devices share the rows, of this device's share in it.
        """
        weights = None if data.weights is None else data.weights[rows]
        likelihood, slope = self.likelihood_gradient(theta, data.x[rows], data.y[rows], weights)
        factor = len(data.y) / len(rows)
        return self._with_prior(theta, likelihood * factor, slope * factor, data.prior)

    def likelihood_gradient(
        self, theta: Array, x: Array, y: Array, weights: Array | None = None
    ) -> tuple[Array, Array]:
        """Untempered log-likelihood of rows x [n, ...] as they come, and its gradient [P]."""
        if self.network.piece is None:
            return self._likelihood(theta, self.network.arrange(x), y, weights)
        return self._sum(theta, *self._cut(x, y, weights, len(y)))

    def log_likelihood(self, theta: Array, x: Array, y: Array, weights: Array | None = None) -> Array:
        """Untempered log-likelihood of rows in the network's arrangement."""
        outputs, extra = self._forward(theta, x)
        return log_likelihood(self.likelihood, outputs[:, : len(y)], extra, y, weights)

    def likelihood_of(self, theta: Array, x: Array, y: Array) -> Array:
        """Untempered log-likelihood of rows x [n, ...] as they come, one of the network's pieces after another."""
        if self.network.piece is None or self.network.piece >= len(y):
            return self.log_likelihood(theta, self.network.arrange(x), y)

        def add(total: Array, piece: tuple[Array, Array, Array | None]) -> tuple[Array, None]:
            return total + self.log_likelihood(theta, *piece), None

        return jax.lax.scan(add, jnp.zeros((), theta.dtype), self._cut(x, y, None, len(y)))[0]

    def log_prior(self, theta: Array, values: PriorValues) -> Array:
        """Untempered log-prior of theta [P]."""
        return log_prior(self.family, values, theta)

    def _arranged(self, x: Array, y: Array, weights: Array | None) -> tuple[Array, Array, Array | None]:
        """Rows as the network takes them, with a target and the weight 0 for every row that it adds."""
        arranged = self.network.arrange(x)
        dtype = _real(arranged)
        theta = jax.ShapeDtypeStruct((self.network.layout.size,), dtype)
        added = jax.eval_shape(self.network.apply, theta, arranged).shape[1] - len(y)
        if added:
            weights = jnp.ones(len(y), dtype) if weights is None else weights
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
        outputs = self.network.apply(theta[:size], x)
        # Changes nothing, but keeps XLA from fusing the forward pass into the sum over its rows, which takes a CPU up
        # to 30 times as long.
        return jnp.where(outputs == outputs, outputs, jnp.nan), theta[size:]


def build_posterior(
    model: ModelConfig,
    likelihood: LikelihoodConfig,
    prior: PriorConfig,
    *,
    temperature: float,
    shape: tuple[int, ...],
    classes: int = 0,
    vocabulary: int = 0,
    dtype: jnp.dtype = jnp.float32,
    micro_batches: int = 1,
    shards: int = 1,
) -> tuple[Posterior, Prior]:
    """Posterior of the settings for rows of a shape (and so many classes and token ids), and its prior.

    Raises:
        ShapeError: the model does not take such rows.
    """
    network = build_network(model, shape, outputs_needed(likelihood, classes), vocabulary)
    layout = Layout(network.layout.parameters + extra_parameters(likelihood))
    built = build_prior(prior, layout, dtype)
    return Posterior(layout, network, likelihood, built.family, temperature, micro_batches, shards), built


def posterior_data(
    x: np.ndarray,
    y: np.ndarray,
    prior: Prior,
    shards: int = 1,
    vocabulary: int = 0,
    *,
    shape: tuple[int, ...] | None = None,
    classes: int = 0,
) -> PosteriorData:
    """Rows x [n, ...] and targets y [n] in the precision of the prior, filled up to a multiple of `shards`.

    Whole numbers (tokens, classes) stay whole numbers. `shape`, `classes` and `vocabulary` are those of
    `build_posterior`; what is left out is not checked.

    Raises:
        ValueError: rows of another shape, numbers that are not finite, labels outside [0, classes), or tokens outside
            [0, vocabulary).
    """
    dtype = prior.values.loc.dtype
    x, y = np.asarray(x), np.asarray(y)
    if len(x) != len(y) or (shape is not None and x.shape[1:] != shape):
        raise ValueError(
            f"rows of shape {list(x.shape)} and targets of shape {list(y.shape)}, but the posterior takes one target "
            f"per row{'' if shape is None else f' and rows of shape {list(shape)}'}"
        )
    for name, values in (("rows", x), ("targets", y)):
        if not np.isfinite(values).all():
            count, first = np.sum(~np.isfinite(values)), np.argwhere(~np.isfinite(values))[0].tolist()
            raise ValueError(f"{count} numbers of the {name} are not finite, the first at {first}: mend the data set")
    if vocabulary:
        _check_range("tokens", x, vocabulary, "vocabulary")
    if classes:
        _check_range("labels", y, classes, "number of classes")
    missing = -len(x) % shards
    weights = jnp.asarray(np.repeat([1.0, 0.0], [len(x), missing]), dtype) if missing else None
    if missing:
        x, y = (np.pad(leaf, ((0, missing), *[(0, 0)] * (leaf.ndim - 1))) for leaf in (x, y))
    rows, targets = (
        jnp.asarray(leaf, jnp.int32 if np.issubdtype(leaf.dtype, np.integer) else dtype) for leaf in (x, y)
    )
    return PosteriorData(rows, targets, weights, prior.values)


def _check_range(name: str, values: np.ndarray, count: int, of: str) -> None:
    """Refuse what is not one of the whole numbers below `count`; indexing would clip it silently."""
    if not np.issubdtype(values.dtype, np.integer):
        raise ValueError(f"{name} are {values.dtype}, but a {of} of {count} needs whole numbers")
    if values.size and (values.min() < 0 or values.max() >= count):
        raise ValueError(
            f"{name} from {values.min()} to {values.max()}, but a {of} of {count} goes from 0 to {count - 1}"
        )


def _real(x: Array) -> Any:
    """Number type of what is computed from rows: their own, or JAX's default for whole numbers."""
    return x.dtype if jnp.issubdtype(x.dtype, jnp.floating) else jnp.result_type(float)


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
