"""The determinant itself, from J'J on the side of the noise."""

from math import prod
from typing import NamedTuple

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp

from bnn_atlas.methods.implicit.entropy.base import Place, Report, with_slope_of
from bnn_atlas.methods.implicit.generators.base import Generator, Tree

COPIES = 4
"""Arrays of the size of all tangents, and of J'J, that exist at once."""


class Exact(NamedTuple):
    """1/2 log det(J'J + sigma^2 I) = sum_i log L_ii for the Cholesky factor L.

    Where a pivot is below what rounding leaves of zero, eigenvalues take the place of the factor, with negative ones at
    zero, so that the value is finite and at least d log sigma. J'J is called singular where its smallest eigenvalue is
    zero to rounding, or less than a hundredth of sigma^2. The gradient is tr(M^-1 dM) / 2.
    """

    def start(self, key: Array, like: Array) -> None:
        """No search."""

    def shared(self, generator: Generator, values: Tree) -> Tree:
        """Squares of the last layers."""
        return generator.squares(values)

    def half_log_det(self, key: Array, place: Place, search: Array | None) -> tuple[Array, Report]:
        """As `Form.half_log_det`."""
        gram = place.generator.gram(place.values, place.shared, place.z)
        value, inverse, singular = _decomposed(jax.lax.stop_gradient(gram), place.sigma)
        found = with_slope_of(value, 0.5 * jnp.vdot(inverse, gram))
        zero = jnp.zeros_like(value)
        return found, Report(zero, zero, singular, jnp.bool_(False), search)


def _decomposed(gram: Array, sigma: float) -> tuple[Array, Array, Array]:
    """1/2 log det of M = gram + sigma^2 I, M^-1, and whether `gram` is singular to rounding."""
    unit = jnp.eye(len(gram), dtype=gram.dtype)
    factor = _factor(gram + sigma**2 * unit)
    root = jax.lax.linalg.triangular_solve(factor, unit, left_side=True, lower=True)
    pivots = jnp.sum(factor * unit, axis=0)
    # No entry of J'J is larger than the largest of its diagonal.
    rounding = len(gram) * jnp.finfo(gram.dtype).eps * jnp.max(gram)
    regular = jnp.all(pivots**2 > rounding)  # never where one is NaN
    by_factor = pivots, root.T @ root

    def by_eigenvalues() -> tuple[Array, Array]:
        vectors, eigenvalues = jax.lax.linalg.eigh(gram, symmetrize_input=False)
        raised = jnp.maximum(eigenvalues, 0) + sigma**2
        return jnp.sqrt(raised), (vectors / raised) @ vectors.T

    roots, inverse = jax.lax.cond(regular, lambda: by_factor, by_eigenvalues)
    # There is no factor where an eigenvalue is below what is taken off.
    off = rounding + 0.01 * sigma**2
    singular = jnp.isnan(_factor(gram - off * unit)[0, 0]) & jnp.isfinite(off)
    return jnp.sum(jnp.log(roots)), inverse, singular


def _factor(matrix: Array) -> Array:
    """Cholesky factor, all NaN where there is none; transposed, a symmetric matrix is in LAPACK's order already."""
    return jax.lax.linalg.cholesky(matrix.T, symmetrize_input=False)


def memory_of(generator: Generator, dtype: np.dtype) -> float:
    """MB that the tangents and J'J take."""
    noise = prod(generator.shape)
    return COPIES * dtype.itemsize * noise * (generator.hidden + noise) / 1e6
