"""The smallest singular value of J in place of all."""

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


class Smallest(NamedTuple):
    """d/2 log(theta + sigma^2) for the smallest eigenvalue theta of J'J, at most 1/2 log det(J'J + sigma^2 I).

    LOBPCG (Knyazev 2001) with one vector v: theta = |J v|^2, residual r = J'J v - theta v, and the next v is the best
    one in the span of v, r and the direction p of the step before; v and p go on from step to step of the fit. An
    eigenvalue lies within |r| of theta, which approaches the smallest from above. The bracket is what the value falls
    by where theta - |r| takes the place of theta; converged is |r| <= tolerance (theta + sigma^2). The value less the
    bracket is a lower bound if the eigenvalue that was found is the smallest, which the residual cannot tell.
    """

    iterations: int
    tolerance: float

    def start(self, key: Array, like: Array) -> Array:
        """A random direction, and no direction of an earlier step [2, d]."""
        return jnp.stack([standard_normal(key, like), jnp.zeros_like(like)])

    def shared(self, generator: Generator, values: Tree) -> tuple[()]:
        """Nothing."""
        return ()

    def half_log_det(self, key: Array, place: Place, search: Array | None) -> tuple[Array, Report]:
        """As `Form.half_log_det`."""
        generator, values, _, z, sigma = place
        assert search is not None
        products = products_at(generator, values, z)
        search = jax.lax.fori_loop(0, self.iterations, lambda _, search: improved(search, products), search)
        v = search[0] / jnp.linalg.norm(search[0])
        change = forward_product(generator, values, z, v)
        square = jnp.vdot(change, change)
        smallest, fixed = jax.lax.stop_gradient((square, change))
        residual = jnp.linalg.norm(products.backward(fixed) - smallest * v)
        half = 0.5 * len(z)
        value = half * jnp.log(smallest + sigma**2)
        below = half * jnp.log(jnp.maximum(smallest - residual, 0) + sigma**2)
        converged = residual <= self.tolerance * (smallest + sigma**2)
        found = with_slope_of(value, half * square / (smallest + sigma**2))
        return found, Report(jnp.full_like(value, jnp.nan), value - below, jnp.bool_(False), converged, search)


def improved(search: Array, products: Products) -> Array:
    """An iteration of LOBPCG from v and p [2, d] to the next."""
    v, p = search
    v = v / jnp.linalg.norm(v)
    image = products.square(v)
    residual = image - jnp.vdot(v, image) * v
    basis = [v]
    for vector in (residual, p):
        basis.append(_orthogonal(vector, basis))
    space = jnp.stack(basis)
    images = jax.lax.map(products.forward, space)
    projected = images @ images.T
    # Directions that were dropped must not win.
    dropped = jnp.sum(space**2, axis=1) < 0.5
    projected = projected + jnp.diag(jnp.where(dropped, 2 * jnp.trace(projected) + 1, 0))
    weights = jnp.linalg.eigh(projected)[1][:, 0]
    return jnp.stack([weights @ space, weights[1:] @ space[1:]])


def _orthogonal(vector: Array, basis: list[Array]) -> Array:
    """A unit vector orthogonal to a basis in the span of both, or zeros where rounding leaves nothing of it."""
    length = jnp.linalg.norm(vector)
    unit = vector / jnp.where(length > 0, length, 1)
    for _ in range(2):
        for other in basis:
            unit = unit - jnp.vdot(other, unit) * other
    left = jnp.linalg.norm(unit)
    kept = left > 10 * jnp.finfo(vector.dtype).eps
    # A second normalisation, since what is left of a nearly dependent vector is not orthogonal yet.
    unit = jnp.where(kept, unit / jnp.where(kept, left, 1), 0)
    for other in basis:
        unit = unit - jnp.vdot(other, unit) * other
    return jnp.where(kept, unit / jnp.where(kept, jnp.linalg.norm(unit), 1), 0)
