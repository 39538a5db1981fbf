"""The forms of the entropy: the exact determinant, a bound by the smallest singular value, and the published code's.

The stochastic estimate from random probes is in `lanczos`.
"""

from math import prod
from typing import NamedTuple

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods.implicit import (
    EntropyConfig,
    ExactEntropy,
    ImplicitConfig,
    LanczosEntropy,
    PublishedEntropy,
    SmallestEntropy,
)
from bnn_atlas.methods.implicit.entropy import (
    Form,
    Place,
    Products,
    Report,
    forward_product,
    products_at,
    with_slope_of,
)
from bnn_atlas.methods.implicit.generators import Generator, Tree
from bnn_atlas.methods.implicit.lanczos import Lanczos
from bnn_atlas.methods.noise import standard_normal

COPIES = 4
"""Arrays of the size of all tangents plus J'J that exist at the same time."""


class Exact(NamedTuple):
    """1/2 log det(J'J + sigma^2 I) = sum_i log L_ii for the Cholesky factor L.

    Where a pivot is zero to rounding, eigenvalues replace the factor, with negative ones set to zero, so that the value
    is finite and at least d log sigma. J'J counts as singular if its smallest eigenvalue is zero to rounding, or below
    a hundredth of sigma^2. The gradient is tr(M^-1 dM) / 2.
    """

    def start(self, key: Array, like: Array) -> None:
        """No search."""

    def shared(self, generator: Generator, values: Tree) -> Tree:
        """Products of the last layers with themselves."""
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
    """Cholesky factor, all NaN where there is none; a transposed symmetric matrix is already in LAPACK's order."""
    return jax.lax.linalg.cholesky(matrix.T, symmetrize_input=False)


def memory_of(generator: Generator, dtype: np.dtype) -> float:
    """Megabytes that the tangents and J'J take."""
    noise = prod(generator.shape)
    return COPIES * dtype.itemsize * noise * (generator.hidden + noise) / 1e6


class Smallest(NamedTuple):
    """d/2 log(theta + sigma^2) for the smallest eigenvalue theta of J'J, at most 1/2 log det(J'J + sigma^2 I).

    LOBPCG (Knyazev 2001) with one vector v: theta = |J v|^2, residual r = J'J v - theta v, and the next v is the best
    one in the span of v, r and the previous direction p; v and p carry over from step to step of the fit. An
    eigenvalue lies within |r| of theta, which approaches the smallest from above. The bracket is the drop of the value
    when theta - |r| replaces theta; the search has converged if |r| <= tolerance (theta + sigma^2). The value minus the
    bracket is a lower bound if the eigenvalue that was found is the smallest, which the residual cannot tell.
    """

    iterations: int
    tolerance: float

    def start(self, key: Array, like: Array) -> Array:
        """A random direction v, and p = 0 [2, d]."""
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
    """One iteration of LOBPCG: v and p [2, d] to the next v and p."""
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
    """The part of a vector orthogonal to a basis, normalised; zeros if nothing but rounding is left of it."""
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


class Published(NamedTuple):
    """d log(mu + sigma^2) with mu = |J v| after iterations from a random v (Uppal et al. 2023, as coded).

    The differences from LOBPCG: the residual is divided by the mean of its entries; the basis of (v, r, p) comes from a
    singular value decomposition, so its second and third vectors are not r and p; mu + sigma^2 stands for
    sqrt(mu^2 + sigma^2). For noise with m > 1 rows the decomposition is done row by row and |v| = sqrt(m), so mu is too
    large by that factor and the value by d/2 log(m). The form cannot tell the error of its value.
    """

    iterations: int

    def start(self, key: Array, like: Array) -> None:
        """No search: every step starts at random."""

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
    """The vector [d] that the published search ends with."""
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


DIRECTIONS = 3


def build_form(config: EntropyConfig, generator: Generator, dtype: np.dtype, key: str = "entropy") -> Form:
    """Build the form of the settings under `key` for a generator.

    Raises:
        ValueError: it needs more memory than is allowed, or more directions than the noise has.
    """
    match config:
        case ExactEntropy():
            _check_memory(generator, dtype, config.memory_mb, key)
            return Exact()
        case LanczosEntropy():
            if config.steps > prod(generator.shape):
                raise ValueError(
                    f"{key}.steps = {config.steps}, but the generator has only {prod(generator.shape)} noise numbers "
                    f"and Lanczos can take no more steps than that; lower {key}.steps"
                )
            return Lanczos(config.steps, config.probes)
        case SmallestEntropy():
            return Smallest(config.iterations, config.tolerance)
        case PublishedEntropy():
            if generator.shape[-1] < DIRECTIONS:
                raise ValueError(
                    f"the published entropy needs noise with at least {DIRECTIONS} columns, and this generator's has "
                    f"{generator.shape[-1]}: use more columns, or another entropy"
                )
            return Published(config.iterations)


def scoring_form(config: ImplicitConfig, form: Form, generator: Generator, dtype: np.dtype) -> Form:
    """Form that scores draws, `form` itself where both are exact. Raises ValueError as `build_form`."""
    key = "entropy" if config.scored_by is None else "scored_by"
    found = build_form(config.scoring(prod(generator.shape)), generator, dtype, key)
    return form if isinstance(form, Exact) and isinstance(found, Exact) else found


def _check_memory(generator: Generator, dtype: np.dtype, memory_mb: int, key: str) -> None:
    """Refuse an exact form if its tangents and J'J need too much memory."""
    needed = memory_of(generator, dtype)
    if needed > memory_mb:
        raise ValueError(
            f"the exact entropy of a generator with {prod(generator.shape):,} noise numbers needs about "
            f"{needed:,.0f} MB, more than {key}.memory_mb ({memory_mb:,}): raise it, or choose {key}: "
            "{ kind: lanczos }"
        )
