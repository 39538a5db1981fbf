"""The tempered posterior density of a network over the flat parameter vector."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.parts.posterior import CategoricalLikelihood, LikelihoodConfig, ModelConfig
from bnn_atlas.config.parts.priors import PriorConfig
from bnn_atlas.config.parts.user import AnyLikelihood, UserLikelihoodConfig
from bnn_atlas.models.layout import Layout
from bnn_atlas.models.networks import CACHE_LINE, Network, build_network, over_orbit
from bnn_atlas.placement import BY_ROWS, DATA_AXIS, EVERYWHERE
from bnn_atlas.posterior import Predictive
from bnn_atlas.posterior.compiled import Kernel, kernel_for
from bnn_atlas.posterior.likelihoods import extra_parameters, log_likelihood, noise, outputs_needed
from bnn_atlas.posterior.prior_densities import Family, Prior, PriorValues, build_prior, log_prior, log_prior_gain

Sum = TypeVar("Sum")


class LogDensity(NamedTuple):
    """Untempered log-likelihood and log-prior at one parameter vector, separate so that differences are accurate."""

    log_likelihood: Array
    log_prior: Array


class Evaluation(NamedTuple):
    """Densities and the gradient [P] of the tempered log posterior, (log-likelihood + log-prior) / temperature."""

    density: LogDensity
    gradient: Array


Evaluate = Callable[[Array], Evaluation]


class Place(NamedTuple):
    """A position [P] and the densities at that position."""

    position: Array
    density: LogDensity


Gain = Callable[[Place, Place], Array]
"""(new place, old place) -> change of the tempered log density, for a Metropolis test."""


def tempered_gain(new: LogDensity, old: LogDensity, temperature: float) -> Array:
    """Change of the tempered log density; the two parts are subtracted separately, which keeps float32 accurate."""
    return ((new.log_likelihood - old.log_likelihood) + (new.log_prior - old.log_prior)) / temperature


class PosteriorData(NamedTuple):
    """Arrays that a posterior is conditioned on; arguments of compiled functions, so one function serves all data."""

    x: Array
    """[rows, ...], each row with the shape that the model takes."""
    y: Array
    """[rows]."""
    weights: Array | None
    """[rows]: 1, or 0 for rows that only fill up the last shard; None if every row counts."""
    prior: PriorValues


class FullBatch(NamedTuple):
    """All rows in the form that the network takes, for gradients of the full data."""

    x: Array
    """Arranged rows; if they are cut into pieces (micro-batches), the first axis counts the pieces."""
    y: Array
    """[rows] or [piece, rows], with zeros for rows that the arrangement added."""
    weights: Array | None
    """1 for rows and 0 for added rows; None if no row was added."""
    prior: PriorValues


class Posterior(NamedTuple):
    """log p(theta | data) = (log p(data | theta) + log p(theta)) / temperature + constant."""

    layout: Layout
    network: Network
    likelihood: AnyLikelihood
    family: Family
    temperature: float
    micro_batches: int = 1
    """Number of pieces in which the full-data gradient is accumulated, to limit memory."""
    shards: int = 1
    """Number of devices that share the rows; if it is above 1, densities are summed over the mesh axis `data`."""
    most_rows: int | None = None
    """Largest number of rows (of any data) whose gradient fits the memory of one device; None for no limit."""
    kernel: Kernel | None = None
    """Computes log-likelihoods and gradients in place of XLA; second derivatives are still computed by XLA."""

    def arrange(self, data: PosteriorData) -> FullBatch:
        """The rows in the form that `evaluate` takes; call this once, outside loops."""
        if self.kernel:
            return FullBatch(self.network.arrange(data.x), data.y, data.weights, data.prior)
        pieces = self._cut(data.x, data.y, data.weights, -(-len(data.y) // self.micro_batches))
        return FullBatch(*pieces, data.prior)

    def _cut(self, x: Array, y: Array, weights: Array | None, size: int) -> tuple[Array, Array, Array | None]:
        """Arranged rows, targets and weights, cut into pieces of `size` rows (`network.piece` rows if that is smaller).

        The network's pieces are made equal, in whole cache lines. If one piece holds all rows, there is no axis of
        pieces.
        """
        most = self.network.piece or size
        if most < size:
            even = -(-len(y) // -(-len(y) // most))
            size = min(most, -(-even // CACHE_LINE) * CACHE_LINE)
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
        value, gradient = self._summed_gradient(theta, batch.x, batch.y, batch.weights)
        return self._with_prior(theta, value, gradient, batch.prior)

    def log_density(self, theta: Array, batch: FullBatch) -> LogDensity:
        """Densities at theta [P] without a gradient, in one pass over all rows, one micro-batch at a time."""
        return LogDensity(self._over_rows(self._value, theta, batch), self.log_prior(theta, batch.prior))

    def squared_error(self, theta: Array, batch: FullBatch) -> Array:
        """sum_i (y_i - mu_i)^2 with a Gaussian likelihood's means mu at theta [P], in one pass over all rows."""

        def of_rows(theta: Array, x: Array, y: Array, weights: Array | None) -> Array:
            squares = (y - self._forward(theta, x)[0][0, : len(y)]) ** 2
            return jnp.sum(squares if weights is None else weights * squares)

        return self._over_rows(of_rows, theta, batch)

    def _over_rows(self, function: Callable[..., Array], theta: Array, batch: FullBatch) -> Array:
        """Sum of a function of theta and rows over all rows, on all devices that share the rows."""
        zero = jnp.zeros((), theta.dtype)
        value = self._over_pieces(function, zero, theta, batch.x, batch.y, batch.weights)
        return jax.lax.psum(value, DATA_AXIS) if self.shards > 1 else value

    def estimate(self, theta: Array, data: PosteriorData, rows: Array, images: Array | None = None) -> Evaluation:
        """Unbiased estimate of `evaluate`: a mini-batch's log-likelihood times (all rows) / (rows of the batch).

        Args:
            theta: position [P].
            data: the rows.
            rows: indices [b] of the mini-batch; if devices share the rows, the indices for this device.
            images: replacements [b, ...] for these rows, such as augmented images; None to use the rows themselves.
        """
        if images is None:
            value, gradient = self._gradient_of_rows(theta, data.x, data.y, data.weights, rows)
        else:
            y, weights = jax.tree.map(lambda leaf: leaf[rows], (data.y, data.weights))
            value, gradient = self._gradient_of_rows(theta, images, y, weights)
        factor = len(data.y) / len(rows)
        return self._with_prior(theta, value * factor, gradient * factor, data.prior)

    def log_likelihood_and_gradient(
        self, theta: Array, x: Array, y: Array, weights: Array | None = None
    ) -> tuple[Array, Array]:
        """Untempered log-likelihood of unarranged rows x [n, ...], and its gradient [P], within the memory budget."""
        return self._gradient_of_rows(theta, x, y, weights)

    def log_likelihood_of(self, theta: Array, x: Array, y: Array) -> Array:
        """Untempered log-likelihood of unarranged rows x [n, ...], within the memory budget, without a gradient."""
        if kernel := self._kernel_for(theta):
            value = partial(kernel.value, by_feature=False)
            return _with_slopes_of(value, self._value_through_xla)(theta, x.reshape(len(x), -1), y, None)
        return self._value_through_xla(theta, x, y)

    def _gradient_of_rows(
        self, theta: Array, x: Array, y: Array, weights: Array | None, rows: Array | None = None
    ) -> tuple[Array, Array]:
        """Log-likelihood and its gradient [P] for the rows of x [n, ...] at the indices `rows`, or for all rows."""
        if kernel := self._kernel_for(theta):
            gradient = partial(kernel.gradient, by_feature=False)
            call = _with_slopes_of(gradient, self._gradient_through_xla)
            return call(theta, x.reshape(len(x), -1), y, weights, rows)
        return self._gradient_through_xla(theta, x, y, weights, rows)

    def _gradient_through_xla(
        self, theta: Array, x: Array, y: Array, weights: Array | None, rows: Array | None = None
    ) -> tuple[Array, Array]:
        if rows is not None:
            x, y, weights = jax.tree.map(lambda leaf: leaf[rows], (x, y, weights))
        posterior, together = self._replace(kernel=None), self._together(len(y))
        if min(together, self.network.piece or together) >= len(y):
            return posterior._gradient(theta, self.network.arrange(x), y, weights)
        return posterior._summed_gradient(theta, *self._cut(x, y, weights, together))

    def _value_through_xla(self, theta: Array, x: Array, y: Array, weights: Array | None = None) -> Array:
        together = self._together(len(y))
        if min(together, self.network.piece or together) >= len(y):
            return self.log_likelihood(theta, self.network.arrange(x), y, weights)
        zero = jnp.zeros((), theta.dtype)
        return self._over_pieces(self.log_likelihood, zero, theta, *self._cut(x, y, weights, together))

    def _together(self, rows: int) -> int:
        """Number of rows per piece, for as few pieces as the memory budget allows."""
        return -(-rows // -(-rows // self.most_rows)) if self.most_rows and rows else rows

    def _kernel_for(self, theta: Array) -> Kernel | None:
        """The compiled kernel, if theta is in single precision, as the kernel requires."""
        return self.kernel if theta.dtype == jnp.float32 else None

    def log_likelihood(self, theta: Array, x: Array, y: Array, weights: Array | None = None) -> Array:
        """Untempered log-likelihood of rows in the network's arrangement."""
        outputs, extra = self._forward(theta, x)
        return log_likelihood(self.likelihood, outputs[:, : len(y)], extra, y, weights)

    def _value(self, theta: Array, x: Array, y: Array, weights: Array | None) -> Array:
        if kernel := self._kernel_for(theta):
            return _with_slopes_of(partial(kernel.value, by_feature=True), self.log_likelihood)(theta, x, y, weights)
        return self.log_likelihood(theta, x, y, weights)

    def _gradient(self, theta: Array, x: Array, y: Array, weights: Array | None) -> tuple[Array, Array]:
        gradient = jax.value_and_grad(self.log_likelihood)
        if kernel := self._kernel_for(theta):
            return _with_slopes_of(partial(kernel.gradient, by_feature=True), gradient)(theta, x, y, weights)
        return gradient(theta, x, y, weights)

    def _summed_gradient(self, theta: Array, x: Array, y: Array, weights: Array | None) -> tuple[Array, Array]:
        """Log-likelihood and gradient [P] of rows from `_cut`, one piece at a time."""
        zeros = (jnp.zeros((), theta.dtype), jnp.zeros_like(theta))
        return self._over_pieces(self._gradient, zeros, theta, x, y, weights)

    @staticmethod
    def _over_pieces(
        function: Callable[..., Sum], zero: Sum, theta: Array, x: Array, y: Array, weights: Array | None
    ) -> Sum:
        """Sum, starting from `zero`, of a function of theta and rows from `_cut`, one piece at a time."""
        if y.ndim == 1:
            return function(theta, x, y, weights)

        def add(total: Sum, piece: tuple[Array, Array, Array | None]) -> tuple[Sum, None]:
            return jax.tree.map(jnp.add, total, function(theta, *piece)), None

        total, _ = jax.lax.scan(add, zero, (x, y, weights))
        return total

    def log_prior(self, theta: Array, values: PriorValues) -> Array:
        """Untempered log-prior of theta [P]."""
        return log_prior(self.family, values, theta)

    def gain(self, new: Place, old: Place, values: PriorValues) -> Array:
        """Change of the tempered log density, with the log-prior's change summed parameter by parameter."""
        prior = log_prior_gain(self.family, values, new.position, old.position)
        return ((new.density.log_likelihood - old.density.log_likelihood) + prior) / self.temperature

    def _arranged(self, x: Array, y: Array, weights: Array | None) -> tuple[Array, Array, Array | None]:
        """Rows in the form that the network takes, with zero target and weight for every row that the network adds."""
        arranged = self.network.arrange(x)
        dtype = _real(arranged)
        theta = jax.ShapeDtypeStruct((self.network.layout.size,), dtype)
        added = jax.eval_shape(self.network.apply, theta, arranged).shape[1] - len(y)
        if added:
            weights = jnp.ones(len(y), dtype) if weights is None else weights
            y, weights = jnp.pad(y, (0, added)), jnp.pad(weights, (0, added))
        return arranged, y, weights

    def _with_prior(self, theta: Array, value: Array, gradient: Array, values: PriorValues) -> Evaluation:
        """Sum over the devices that share the rows, add the prior and divide by the temperature, each exactly once."""
        if self.shards > 1:
            value, gradient = jax.lax.psum((value, gradient), DATA_AXIS)
        prior, prior_gradient = jax.value_and_grad(self.log_prior)(theta, values)
        return Evaluation(LogDensity(value, prior), (gradient + prior_gradient) / self.temperature)

    def predict(self, theta: Array, x: Array) -> Predictive:
        """Predictive distribution of draws theta [b, P] at rows x [n, ...], one draw at a time.

        With a user's likelihood, `mean` has the network's outputs [b, n, outputs] and there is no scale.
        """

        def one(vector: Array) -> Predictive:
            outputs, extra = self._forward(vector, self.network.arrange(x))
            outputs = outputs[:, : len(x)]
            if isinstance(self.likelihood, UserLikelihoodConfig):
                return Predictive(mean=outputs.T)
            if isinstance(self.likelihood, CategoricalLikelihood):
                return Predictive(log_probs=jax.nn.log_softmax(outputs.T, axis=-1))
            log_sigma = noise(self.likelihood, outputs, extra).log_sigma
            return Predictive(mean=outputs[0], scale=jnp.broadcast_to(jnp.exp(log_sigma), outputs[0].shape))

        return jax.lax.map(one, theta)

    def _forward(self, theta: Array, x: Array) -> tuple[Array, Array]:
        """Network outputs [outputs, rows] and the likelihood's own parameters."""
        size = self.network.layout.size
        outputs = self.network.apply(theta[:size], x)
        # This leaves values unchanged, but prevents XLA from fusing the forward pass into the sum over rows, which
        # would take up to 30 times as long on a CPU.
        return jnp.where(outputs == outputs, outputs, jnp.nan), theta[size:]


def _with_slopes_of(kernel: Callable[..., Sum], through_xla: Callable[..., Sum]) -> Callable[..., Sum]:
    """The kernel, which JAX cannot differentiate, with the derivatives of the same function computed by XLA."""

    @jax.custom_jvp
    def function(*arguments: Any) -> Sum:
        return kernel(*arguments)

    @function.defjvp
    def _(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Sum, Sum]:
        return kernel(*primals), jax.jvp(through_xla, primals, tangents)[1]

    return function


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
    kernel: Literal["auto", "xla"] = "auto",
    rows: np.ndarray | None = None,
) -> tuple[Posterior, Prior]:
    """Build a posterior and its prior for rows of this shape (and these numbers of classes and token ids).

    `kernel` is as in `PosteriorConfig`; `rows` [n, ...] are the rows of the data, for a prior that depends on them.

    Raises:
        ShapeError: the model, or the likelihood's orbit, cannot take such rows.
        ValueError: the prior depends on rows that are not given.
    """
    network = build_network(model, shape, outputs_needed(likelihood, classes), vocabulary)
    if isinstance(likelihood, CategoricalLikelihood) and likelihood.orbit is not None:
        network = over_orbit(network, likelihood.orbit, shape)
    layout = Layout(network.layout.parameters + extra_parameters(likelihood))
    built = build_prior(prior, layout, dtype, rows)
    posterior = Posterior(layout, network, likelihood, built.family, temperature, micro_batches, shards)
    return posterior._replace(kernel=kernel_for(model, likelihood, shape, classes, np.dtype(dtype), kernel)), built


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

    Whole numbers (tokens, classes) stay whole numbers. `shape`, `classes` and `vocabulary` are as in `build_posterior`;
    arguments that are left out are not checked.

    Raises:
        ValueError: rows of the wrong shape, numbers that are not finite, labels outside [0, classes), or tokens outside
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
            raise ValueError(f"{count} numbers in the {name} are not finite, the first at {first}: repair the data set")
    if vocabulary:
        _check_range("tokens", x, vocabulary, "vocabulary")
    if classes:
        _check_range("labels", y, classes, "number of classes")
    missing = -len(x) % shards
    weights = jnp.asarray(np.repeat(np.array([1, 0], dtype), [len(x), missing])) if missing else None
    if missing:
        x, y = (np.pad(leaf, ((0, missing), *[(0, 0)] * (leaf.ndim - 1))) for leaf in (x, y))
    x, y = (np.asarray(leaf, np.int32 if np.issubdtype(leaf.dtype, np.integer) else dtype) for leaf in (x, y))
    return PosteriorData(jnp.asarray(x), jnp.asarray(y), weights, prior.values)


def _check_range(name: str, values: np.ndarray, count: int, of: str) -> None:
    """Raise ValueError for values that are not whole numbers below `count`; indexing would clip them silently."""
    if not np.issubdtype(values.dtype, np.integer):
        raise ValueError(f"{name} are {values.dtype}, but must be whole numbers (the {of} is {count})")
    if values.size and (values.min() < 0 or values.max() >= count):
        raise ValueError(
            f"{name} go from {values.min()} to {values.max()}, but must be 0 to {count - 1} (the {of} is {count})"
        )


def _real(x: Array) -> Any:
    """Number type for computing with rows: the type of the rows, or JAX's default if the rows are whole numbers."""
    return x.dtype if jnp.issubdtype(x.dtype, jnp.floating) else jnp.result_type(float)


def data_specs(data: PosteriorData) -> Any:
    """Placement of the arrays on the devices of a chain: rows are divided, and the prior is copied."""
    rows: Any = BY_ROWS
    weights = None if data.weights is None else rows
    return PosteriorData(rows, rows, weights, jax.tree.map(lambda _: EVERYWHERE, data.prior))


class Target(NamedTuple):
    """A posterior bound to its data: the functions that a step of a method can call."""

    evaluate: Evaluate
    """Position [P] -> densities and tempered gradient on all rows."""
    log_density: Callable[[Array], LogDensity]
    """Position [P] -> densities on all rows, without a gradient."""
    squared_error: Callable[[Array], Array]
    """Position [P] -> sum of a Gaussian likelihood's squared residuals on all rows."""
    gain: Gain
    """Change of the tempered log density between two positions, accurate in single precision."""
    estimate: Callable[..., Evaluation]
    """(position [P], row indices [b]) -> an unbiased estimate of `evaluate` from a mini-batch; a third argument
    [b, ...] replaces the rows of the mini-batch."""
    posterior: Posterior
    data: PosteriorData

    @property
    def rows(self) -> int:
        """Number of rows on this device, which is equal for all `posterior.shards` devices that share the data."""
        return len(self.data.y)


def binder(posterior: Posterior) -> Callable[[PosteriorData], Target]:
    """A function that turns data into targets; the posterior's functions are traced only once for each shape."""
    evaluate, estimate = jax.jit(posterior.evaluate), jax.jit(posterior.estimate)
    log_density, squared_error = jax.jit(posterior.log_density), jax.jit(posterior.squared_error)
    gain = jax.jit(posterior.gain)

    def bind(data: PosteriorData) -> Target:
        batch = posterior.arrange(data)
        return Target(
            lambda theta: evaluate(theta, batch),
            lambda theta: log_density(theta, batch),
            lambda theta: squared_error(theta, batch),
            lambda new, old: gain(new, old, data.prior),
            lambda theta, rows, images=None: estimate(theta, data, rows, images),
            posterior,
            data,
        )

    return bind
