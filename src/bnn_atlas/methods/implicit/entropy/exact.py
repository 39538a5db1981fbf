"""The determinant itself, from J'J on the side of the noise."""

from math import prod
from typing import NamedTuple

import jax
import jax.scipy
import numpy as np
from jax import Array
from jax import numpy as jnp

from bnn_atlas.methods.implicit.entropy.base import Report, with_slope_of, without_search
from bnn_atlas.methods.implicit.generators.base import Generator, Tree

COPIES = 4
"""Arrays of the size of all tangents, and of J'J, that exist at once."""


class Exact(NamedTuple):
    """1/2 log det(J'J + sigma^2 I) = sum_i log L_ii for the Cholesky factor L.

    Where a pivot is below what rounding leaves of zero, J'J is singular: eigenvalues take the place of the factor, with
    negative ones at zero, so that the value is finite and at least d log sigma. The gradient is tr(M^-1 dM) / 2.
    """

    def start(self, key: Array, like: Array) -> Array:
        """No search."""
        return without_search(key, like)

    def half_log_det(
        self, key: Array, generator: Generator, values: Tree, z: Array, sigma: float, search: Array
    ) -> tuple[Array, Report]:
        """As `Form.half_log_det`."""
        gram = generator.gram(values, z)
        value, inverse, singular = _decomposed(jax.lax.stop_gradient(gram), sigma)
        found = with_slope_of(value, 0.5 * jnp.vdot(inverse, gram))
        return found, Report(jnp.zeros_like(value), singular, jnp.bool_(False), search)


def _decomposed(gram: Array, sigma: float) -> tuple[Array, Array, Array]:
    """1/2 log det of M = gram + sigma^2 I, M^-1, and whether `gram` is singular to rounding."""
    unit = jnp.eye(len(gram), dtype=gram.dtype)
    factor = jnp.linalg.cholesky(gram + sigma**2 * unit)
    pivots = jnp.diagonal(factor)
    least = jnp.sqrt(len(gram) * jnp.finfo(gram.dtype).eps * jnp.max(jnp.diagonal(gram)))
    regular = jnp.all(pivots > least)  # never where one is NaN

    def by_factor() -> tuple[Array, Array]:
        return jnp.sum(jnp.log(pivots)), jax.scipy.linalg.cho_solve((factor, True), unit)

    def by_eigenvalues() -> tuple[Array, Array]:
        eigenvalues, vectors = jnp.linalg.eigh(gram)
        raised = jnp.maximum(eigenvalues, 0) + sigma**2
        return 0.5 * jnp.sum(jnp.log(raised)), (vectors / raised) @ vectors.T

    return *jax.lax.cond(regular, by_factor, by_eigenvalues), ~regular


def check_memory(generator: Generator, dtype: np.dtype, memory_mb: int) -> None:
    """Refuse an exact form whose tangents and J'J take more memory than is allowed."""
    noise = prod(generator.shape)
    needed = COPIES * dtype.itemsize * noise * (generator.hidden + noise) / 1e6
    if needed > memory_mb:
        raise ValueError(
            f"the exact entropy of a generator with {noise:,} noise numbers needs about {needed:,.0f} MB, more than "
            f"memory_mb ({memory_mb:,}): raise it, or choose entropy: {{ kind: lanczos }}"
        )
