"""Networks computed with rows last: the same values and derivatives, and products of the faster form."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from flax import linen as nn
from jax import numpy as jnp
from jax.extend import core

import bnn_atlas as atlas
from bnn_atlas.library.networks import user_network
from bnn_atlas.library.rows_last import rows_last

KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(size=(11, 3)).astype(np.float32)


class Mixed(nn.Module):
    """Operations that keep rows last, and others between them."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        h = nn.silu(nn.Dense(5)(nn.LayerNorm()(nn.gelu(nn.Dense(7)(x)))))
        h = nn.relu(nn.Dense(6, use_bias=False)(nn.softmax(h)))
        h = nn.elu(jnp.where(h > 0.5, h, jnp.sin(jnp.clip(h, -1, 1) + h[:, :1])))
        return nn.Dense(2)(jnp.concatenate([nn.leaky_relu(h), x], axis=1))


class Dense(nn.Module):
    width: int = 16

    @nn.compact
    def __call__(self, x: Any) -> Any:
        return nn.Dense(1)(nn.relu(nn.Dense(self.width)(nn.tanh(nn.Dense(self.width)(x)))))


def vector(params: Any, x: Any) -> Any:
    """Outputs [rows], without an axis of units."""
    return jnp.tanh(x @ params["w"]) @ params["v"]


def convolution(params: Any, x: Any) -> Any:
    return jnp.stack([jnp.convolve(row, params["w"], "valid") for row in x])


CASES: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "mixed": (Mixed().apply, Mixed().init(KEY, X)),
    "dense": (Dense().apply, Dense().init(KEY, X)),
    "vector": (vector, {"w": jnp.asarray(X[:3, :3]), "v": jnp.ones(3)}),
    "no product of rows": (lambda params, x: jnp.outer(x[:, 0], params["w"]), {"w": jnp.ones(2)}),
    "a loop": (lambda params, x: jax.lax.fori_loop(0, 3, lambda _, h: jnp.sin(h @ params["w"]), x), {"w": jnp.eye(3)}),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_derivatives_are_the_same(name: str) -> None:
    function, params = CASES[name]
    last = rows_last(function)

    def first_again(params: Any, x: Any) -> Any:
        return jnp.moveaxis(last(params, jnp.moveaxis(x, 0, -1)), -1, 0)

    def found(of: Callable[[Any, Any], Any]) -> Any:
        def total(params: Any) -> Any:
            return jnp.sum(jnp.sin(of(params, X)))

        slope = jax.grad(total)
        return jax.jit(lambda params: (of(params, X), *jax.jvp(slope, (params,), (params,))))(params)

    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), found(first_again), found(function)
    )


def operations(program: Any) -> list[Any]:
    inner = [op for op in program.eqns for part in core.jaxprs_in_params(op.params) for op in operations(part)]
    return [*program.eqns, *inner]


def test_a_dense_network_never_has_rows_first() -> None:
    function, params = CASES["dense"]
    found = operations(jax.make_jaxpr(rows_last(function))(params, X.T).jaxpr)
    shapes = [op.outvars[0].aval.shape for op in found if op.primitive.name == "dot_general"]
    assert shapes == [(16, 11), (16, 11), (1, 11)]
    assert not [op for op in found if op.primitive.name == "transpose" and len(X) in op.outvars[0].aval.shape]


def test_products_have_the_form_that_is_fast_forwards_and_backwards() -> None:
    """Contracting the first axis of both factors takes up to a third longer."""
    function, params = CASES["dense"]
    slope = jax.grad(lambda params, x: rows_last(function)(params, x).sum(), argnums=(0, 1))
    found = [op for op in operations(jax.make_jaxpr(slope)(params, X.T).jaxpr) if op.primitive.name == "dot_general"]
    over = [op.params["dimension_numbers"][0] for op in found]
    assert len(found) == 9
    assert ((0,), (0,)) not in over


def test_units_start_on_cache_lines() -> None:
    numbers = np.random.default_rng(1)
    x, y = numbers.normal(size=(50, 3)), numbers.normal(size=50)
    density, data = atlas.posterior_of(Dense(), x, y, likelihood="gaussian")[:2]
    turned = density._replace(network=density.network._replace(arrange=lambda rows: rows.T))
    padded, whole = density.arrange(data), turned.arrange(data)
    assert (padded.x.shape, whole.x.shape) == ((3, 64), (3, 50))
    theta = jnp.asarray(0.3 * numbers.normal(size=density.layout.size), jnp.float32)
    ours, expected = density.evaluate(theta, padded), turned.evaluate(theta, whole)
    np.testing.assert_allclose(ours.density.log_likelihood, expected.density.log_likelihood, rtol=1e-5)
    np.testing.assert_allclose(ours.gradient, expected.gradient, rtol=1e-3, atol=1e-3 * np.abs(expected.gradient).max())


def test_many_rows_are_computed_in_pieces() -> None:
    numbers = np.random.default_rng(1)
    x, y = numbers.normal(size=(9001, 2)), numbers.normal(size=9001)
    posterior = atlas.posterior_of(Dense(), x, y, likelihood="gaussian")
    whole = posterior.density._replace(network=posterior.density.network._replace(piece=None))
    assert posterior.density.network.piece is not None
    (theta,) = atlas.starting_points(posterior, 1)
    batches = posterior.density.arrange(posterior.data), whole.arrange(posterior.data)
    assert batches[0].y.ndim > batches[1].y.ndim
    ours, expected = (
        density.evaluate(theta, batch) for density, batch in zip((posterior.density, whole), batches, strict=True)
    )
    np.testing.assert_allclose(ours.density.log_likelihood, expected.density.log_likelihood, rtol=1e-5)
    np.testing.assert_allclose(ours.gradient, expected.gradient, rtol=1e-3, atol=1e-3 * np.abs(expected.gradient).max())


@pytest.mark.parametrize(
    "function",
    [
        lambda params, x: (x / jnp.linalg.norm(x, axis=1, keepdims=True)) @ params["w"],
        lambda params, x: jnp.sqrt(jnp.abs(x @ params["w"])),
        convolution,
    ],
)
def test_networks_that_rows_of_zeros_or_pieces_do_not_suit_are_computed_whole(function: Any) -> None:
    """Rows of zeros fill up the last piece; some networks have no finite value or slope there."""
    network = user_network(function, X, {"w": np.ones(3)}).network
    assert network.piece is None
    assert network.arrange(jnp.asarray(X)).shape == (3, len(X))
