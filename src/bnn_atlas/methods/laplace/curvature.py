"""Generalised Gauss-Newton curvature of a log-likelihood: sum_i J_i^T Lambda_i J_i.

J_i [outputs, P] is the Jacobian of a row's outputs (with the likelihood's own parameters as further outputs), and
Lambda_i is the Fisher information of the likelihood in those outputs. Lambda_i is positive semi-definite; for the
categorical likelihood, and for the Gaussian likelihood with known noise, Lambda_i is the Hessian itself (Martens 2020,
New Insights and Perspectives on the Natural Gradient Method). With Lambda_i = L_i L_i^T, everything is computed from
the rows of L_i^T J_i.

The Fisher information of a user's likelihood is not known. Lambda_i is then the negative Hessian at the observed target
without its negative eigenvalues, which is the Hessian itself if the log density is concave in the outputs.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from flax import linen as nn
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.parts.posterior import CategoricalLikelihood
from bnn_atlas.config.parts.user import AnyLikelihood, UserLikelihoodConfig
from bnn_atlas.models.layout import Layout
from bnn_atlas.models.mlp import FeatureMajorDense
from bnn_atlas.placement import DATA_AXIS
from bnn_atlas.posterior.density import Posterior, PosteriorData
from bnn_atlas.posterior.likelihoods import log_density, noise

PIECE_BYTES = 32 * 2**20
"""Bytes of memory for the Jacobians of rows that are computed together."""


class WeightedRows(NamedTuple):
    """Rows: x [n, ...] and weights [n], 0 for rows that do not count."""

    x: Array
    weights: Array


def fisher_root(config: AnyLikelihood, outputs: Array, extra: Array) -> Array:
    """L [outputs, column, rows] with L L^T the Fisher information of every row's target in outputs [outputs, rows].

    The likelihood's own parameters count as outputs after the network's. Gaussian: diag(1 / sigma, sqrt(2) d log
    sigma), where the second column belongs to a learned log sigma or to a second output; mean and noise do not mix, and
    the noise's entry is the expectation of the Hessian, which can be negative for a single row. Categorical: diag(sqrt
    p) - p sqrt(p)^T, which gives diag(p) - p p^T.
    """
    if isinstance(config, CategoricalLikelihood):
        p = jax.nn.softmax(outputs, axis=0)
        root = jnp.sqrt(p)
        return jnp.eye(len(p), dtype=p.dtype)[:, :, None] * root[None] - p[:, None] * root[None]
    _, precision_root, slope = noise(config, outputs, extra)
    shape = outputs[0].shape
    diagonal = [jnp.broadcast_to(precision_root, shape)]
    if len(outputs) + len(extra) == 2:
        diagonal.append(jnp.broadcast_to(math.sqrt(2.0) * slope, shape).astype(outputs.dtype))
    return jnp.eye(len(diagonal), dtype=outputs.dtype)[:, :, None] * jnp.stack(diagonal)[None]


def gauss_newton(
    posterior: Posterior, data: PosteriorData, theta: Array, select: np.ndarray, piece: int | None = None
) -> Array:
    """Curvature [p, p] in the chosen scalars, with all other scalars fixed.

    Args:
        posterior: likelihood and network.
        data: the rows (of this device).
        theta: position [P].
        select: indices [p] of the scalars.
        piece: number of rows at a time; None for as many as fit `PIECE_BYTES`.
    """
    if isinstance(posterior.likelihood, UserLikelihoodConfig):
        return _observed(posterior, data, theta, select, piece, lambda rows: rows.T @ rows)

    def add(rows: WeightedRows) -> Array:
        jacobian = _scaled_jacobian(posterior, theta, select, rows)
        flat = jacobian.reshape(-1, len(select))
        return jnp.matmul(flat.T, flat, precision=jax.lax.Precision.HIGHEST)

    return _sum_over_rows(posterior, data, add, piece or _piece(posterior, theta, len(select)))


def gauss_newton_diagonal(posterior: Posterior, data: PosteriorData, theta: Array, piece: int | None = None) -> Array:
    """Diagonal [P] of the curvature; arguments as for `gauss_newton`."""
    select = np.arange(posterior.layout.size)
    if isinstance(posterior.likelihood, UserLikelihoodConfig):
        return _observed(posterior, data, theta, select, piece, lambda rows: jnp.sum(rows**2, axis=0))

    def add(rows: WeightedRows) -> Array:
        return jnp.sum(_scaled_jacobian(posterior, theta, select, rows) ** 2, axis=(0, 1))

    return _sum_over_rows(posterior, data, add, piece or _piece(posterior, theta, len(select)))


class Factors(NamedTuple):
    """Kronecker factors of one dense layer: its curvature is about kron(outputs, inputs).

    Scalars are in the order W[o, i]; the bias comes after the inputs' columns, as the weight of an input 1.
    """

    inputs: Array
    """Mean over rows of h h^T [fan_in (+ 1), fan_in (+ 1)], where h is the layer's input."""
    outputs: Array
    """Sum over rows and columns of L_i of d d^T [fan_out, fan_out], where d is the gradient in the layer's output."""


class KroneckerCurvature(NamedTuple):
    """Factors by layer, and the curvature [e] in the likelihood's own parameters."""

    layers: tuple[Factors, ...]
    extra: Array


def dense_layers(layout: Layout) -> tuple[int, ...]:
    """Indices of the layers of a network in which all layers are dense.

    Raises:
        ValueError: there are parameters outside of dense layers.
    """
    dense = {("weight", 2), ("bias", 1)}
    others = [p.name for p in layout.parameters if p.layer is None or (p.role, len(p.shape)) not in dense]
    if others:
        raise ValueError(
            f"structure kronecker needs a network of dense layers, and this network has {', '.join(others)}: "
            "choose full, last_layer or diagonal"
        )
    return tuple(dict.fromkeys(p.layer for p in layout.parameters if p.layer is not None))


def kronecker(posterior: Posterior, data: PosteriorData, theta: Array, piece: int | None = None) -> KroneckerCurvature:
    """Kronecker-factored curvature (Martens and Grosse 2015; exact over the outputs as in Botev et al. 2017).

    The result equals the diagonal blocks of the full curvature if a layer's inputs and output gradients are independent
    over rows, and always for a single layer with equal Lambda_i. Arguments as for `gauss_newton`.
    """
    layout = posterior.network.layout
    numbers = dense_layers(layout)
    biased = {p.layer for p in layout.parameters if p.role == "bias"}
    extra = theta[layout.size :]

    def add(rows: WeightedRows) -> Any:
        n = len(rows.x)
        arranged = posterior.network.arrange(rows.x)
        shapes = jax.eval_shape(lambda: _with_inputs(posterior, theta, arranged, {})[2])
        shifts = {name: jnp.zeros(shape.shape, theta.dtype) for name, shape in shapes.items()}

        def run(shifts: dict[str, Array]) -> tuple[Array, dict[str, Array]]:
            outputs, inputs, _ = _with_inputs(posterior, theta, arranged, shifts)
            return outputs, inputs

        outputs, pull, inputs = jax.vjp(run, shifts, has_aux=True)
        root = fisher_root(posterior.likelihood, outputs[:, :n], extra) * jnp.sqrt(rows.weights)
        padding = ((0, 0), (0, outputs.shape[1] - n))
        cotangents = [jnp.pad(root[: len(outputs), column], padding) for column in range(root.shape[1])]
        gradients = [pull(cotangent)[0] for cotangent in cotangents]
        layers = []
        for number in numbers:
            h = inputs[f"layer{number}"][:, :n]
            if number in biased:
                h = jnp.concatenate([h, jnp.ones_like(h[:1])])
            d = jnp.concatenate([gradient[f"layer{number}"] for gradient in gradients], axis=1)
            layers.append(Factors(_gram(h * jnp.sqrt(rows.weights)), _gram(d)))
        of_extra = jnp.sum(root[len(outputs) :] ** 2, axis=(1, 2))
        return KroneckerCurvature(tuple(layers), of_extra), jnp.sum(rows.weights)

    widest = max(p.fan_in + p.fan_out for p in layout.parameters)
    rows_at_once = piece or _piece(posterior, theta, widest * len(numbers))
    curvature, count = _sum_over_rows(posterior, data, add, rows_at_once)
    return curvature._replace(layers=tuple(f._replace(inputs=f.inputs / count) for f in curvature.layers))


def _gram(columns: Array) -> Array:
    return jnp.matmul(columns, columns.T, precision=jax.lax.Precision.HIGHEST)


def _with_inputs(
    posterior: Posterior, theta: Array, x: Array, shifts: dict[str, Array]
) -> tuple[Array, dict[str, Array], dict[str, Array]]:
    """The network's outputs with `shifts` added to its dense layers' outputs, and the layers' inputs and outputs."""
    inputs: dict[str, Array] = {}
    results: dict[str, Array] = {}

    def watch(call: Callable[..., Any], args: Any, kwargs: Any, context: nn.module.InterceptorContext) -> Any:
        result = call(*args, **kwargs)
        name = context.module.name
        if isinstance(context.module, FeatureMajorDense) and context.method_name == "__call__" and name:
            inputs[name] = args[0]
            results[name] = result = result + shifts[name] if name in shifts else result
        return result

    with nn.intercept_methods(watch):
        outputs = posterior.network.apply(theta[: posterior.network.layout.size], x)
    return outputs, inputs, results


def _scaled_jacobian(posterior: Posterior, theta: Array, select: np.ndarray, rows: WeightedRows) -> Array:
    """sqrt(w_i) L_i^T J_i [rows, column, p]."""
    size = posterior.network.layout.size

    def one(x: Array, weight: Array) -> Array:
        arranged = posterior.network.arrange(x[None])

        def respond(part: Array) -> Array:
            vector = theta.at[select].set(part)
            return jnp.concatenate([posterior.network.apply(vector[:size], arranged)[:, 0], vector[size:]])

        outputs, pull = jax.vjp(respond, theta[select])
        network, extra = jnp.split(outputs, [len(outputs) - len(theta) + size])
        root = fisher_root(posterior.likelihood, network[:, None], extra)[:, :, 0]
        return jax.vmap(lambda column: pull(column)[0], in_axes=1)(root) * jnp.sqrt(weight)

    return jax.vmap(one)(rows.x, rows.weights)


def _observed(
    posterior: Posterior,
    data: PosteriorData,
    theta: Array,
    select: np.ndarray,
    piece: int | None,
    square: Callable[[Array], Array],
) -> Array:
    """Sum over rows of `square` of L_i^T J_i [column, p], L_i L_i^T the negative Hessian without its negative part."""
    size = posterior.network.layout.size

    def one(x: Array, y: Array, weight: Array) -> Array:
        arranged = posterior.network.arrange(x[None])

        def respond(part: Array) -> Array:
            vector = theta.at[select].set(part)
            return jnp.concatenate([posterior.network.apply(vector[:size], arranged)[:, 0], vector[size:]])

        def density(outputs: Array) -> Array:
            network, extra = jnp.split(outputs, [len(outputs) - len(theta) + size])
            return log_density(posterior.likelihood, network[:, None], extra, y[None])[0]

        outputs, pull = jax.vjp(respond, theta[select])
        values, vectors = jnp.linalg.eigh(-jax.hessian(density)(outputs))
        root = vectors * jnp.sqrt(jnp.maximum(values, 0) * weight)
        return jax.vmap(lambda column: pull(column)[0], in_axes=1)(root)

    def add(rows: WeightedRows) -> Array:
        jacobian = jax.vmap(one)(data.x[rows.x], data.y[rows.x], rows.weights)
        return square(jacobian.reshape(-1, len(select)))

    numbered = data._replace(x=jnp.arange(len(data.y)))
    return _sum_over_rows(posterior, numbered, add, piece or _piece(posterior, theta, len(select)))


def _piece(posterior: Posterior, theta: Array, numbers: int) -> int:
    """Number of rows whose Jacobians fit `PIECE_BYTES`, for a given size of the Jacobian per output."""
    outputs = posterior.network.layout.parameters[-1].fan_out + len(theta) - posterior.network.layout.size
    return max(1, PIECE_BYTES // (numbers * outputs * theta.dtype.itemsize))


def _sum_over_rows(
    posterior: Posterior, data: PosteriorData, function: Callable[[WeightedRows], Any], piece: int
) -> Any:
    """Sum of `function` over all rows, a piece at a time, and over the devices that share the rows."""
    count = len(data.y)
    piece = min(piece, count)
    weights = jnp.ones(count, data.prior.loc.dtype) if data.weights is None else data.weights
    missing = -count % piece

    def cut(leaf: Array) -> Array:
        padded = jnp.pad(leaf, ((0, missing), *[(0, 0)] * (leaf.ndim - 1)))
        return padded.reshape(-1, piece, *leaf.shape[1:])

    pieces = WeightedRows(cut(data.x), cut(weights))
    shapes = jax.eval_shape(function, jax.tree.map(lambda leaf: leaf[0], pieces))
    zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
    total, _ = jax.lax.scan(lambda sums, rows: (jax.tree.map(jnp.add, sums, function(rows)), None), zeros, pieces)
    return jax.lax.psum(total, DATA_AXIS) if posterior.shards > 1 else total
