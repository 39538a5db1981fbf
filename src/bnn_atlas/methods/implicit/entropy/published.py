"""The search of the published code, with its defects."""

from typing import NamedTuple

import jax
from jax import Array
from jax import numpy as jnp

from bnn_atlas.methods.implicit.entropy.base import (
    Place,
    Products,
    Report,
    forward_product,
    products_at,
    with_slope_of,
)
from bnn_atlas.methods.implicit.generators.base import Generator, Tree
from bnn_atlas.methods.noise import standard_normal


class Published(NamedTuple):
    """d log(mu + sigma^2) with mu = |J v| after iterations from a random v (Uppal et al. 2023, as coded).

    Beside an iteration of LOBPCG: the residual is divided by the mean of its entries; the basis of (v, r, p) is that of
    a singular value decomposition, so that its second and third vector are not r and p; mu + sigma^2 stands for
    sqrt(mu^2 + sigma^2). For a noise of m > 1 rows the decomposition is by row, |v| = sqrt(m), and mu is too large by
    that factor: the value by d/2 log(m). The error of the value is not known to the form itself.
    """

    iterations: int

    def start(self, key: Array, like: Array) -> None:
        """No search: every step begins at random."""

    def shared(self, generator: Generator, values: Tree) -> tuple[()]:
        """Nothing."""
        return ()

    def half_log_det(self, key: Array, place: Place, search: Array | None) -> tuple[Array, Report]:
        """As `Form.half_log_det`."""
        generator, values, _, z, sigma = place
        products = products_at(generator, values, z)
        # Noise that is a vector is one row, and so is that of several generators.
        rows = generator.shape[0] if len(generator.shape) > 1 else 1
        v = found_direction(key, z, products, rows, self.iterations)
        change = forward_product(generator, values, z, v)
        length = jnp.linalg.norm(jax.lax.stop_gradient(change))
        value = len(z) * jnp.log(length + sigma**2)
        slope = len(z) * 0.5 * jnp.vdot(change, change) / (length * (length + sigma**2))
        unknown, never = jnp.full_like(value, jnp.nan), jnp.bool_(False)
        return with_slope_of(value, slope), Report(unknown, unknown, never, never, search)


def found_direction(key: Array, like: Array, products: Products, rows: int, iterations: int) -> Array:
    """The vector [d] in which the published search ends."""
    v, p = standard_normal(key, jnp.concatenate([like, like])).reshape(2, -1)
    mu = jnp.linalg.norm(products.forward(v)) / jnp.linalg.norm(v)

    def iteration(_: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        v, p, mu = carry
        residual = products.square(v) - mu**2 * v
        stacked = jnp.stack([v, residual / jnp.mean(residual), p], axis=-1).reshape(rows, -1, 3)
        basis = jnp.linalg.svd(stacked, full_matrices=False)[0].reshape(-1, 3)
        images = jax.lax.map(products.forward, basis.T)
        weights = jnp.linalg.svd(images, full_matrices=False)[0][:, -1]
        new, direction = basis @ weights, basis[:, 1:] @ weights[1:]
        v, p = (jnp.where(jnp.all(jnp.isfinite(a)), a, b) for a, b in ((new, v), (direction, p)))
        return v, p, jnp.linalg.norm(products.forward(v))

    return jax.lax.fori_loop(0, iterations, iteration, (v, p, mu))[0]
