"""Stochastic Lanczos quadrature of the log determinant (Ubaru, Chen and Saad 2017, section 3)."""

from typing import NamedTuple

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp

from bnn_atlas.methods.implicit.entropy.base import (
    Products,
    Report,
    forward_product,
    products_at,
    with_slope_of,
)
from bnn_atlas.methods.implicit.generators.base import Generator, Tree
from bnn_atlas.methods.noise import standard_normal


class _Quadrature(NamedTuple):
    """What one probe gives."""

    value: Array
    """Estimate of 1/2 log det M."""
    variance: Array
    """Of that estimate over probes, and the square of what the last step has changed."""
    probe: Array
    """v [d], of length sqrt(d)."""
    solution: Array
    """M^-1 v [d], as far as the Krylov space has it."""


class Lanczos(NamedTuple):
    """1/2 log det M = 1/2 tr log M for M = J'J + sigma^2 I, from products with J'J.

    For a probe v, uniform on the sphere of radius sqrt(d), E[v' log(M) v] = tr log M. Steps of Lanczos give
    T = V diag(theta) V' and v' log(M) v = d sum_k V_1k^2 log(theta_k); its variance over probes is estimated without
    bias by 2 d times the variance of log(theta) under the weights V_1k^2. The gradient tr(M^-1 dM) / 2 is estimated by
    <J M^-1 v, J v>' / 2, with M^-1 v from the same space (conjugate gradients).
    """

    steps: int
    probes: int

    def start(self, key: Array, like: Array) -> None:
        """No search."""

    def half_log_det(
        self, key: Array, generator: Generator, values: Tree, z: Array, sigma: float, search: Array | None
    ) -> tuple[Array, Report]:
        """As `Form.half_log_det`."""
        products = products_at(generator, values, z)
        probes = jax.lax.map(
            lambda key: self._probe(standard_normal(key, z), products, sigma), jax.random.split(key, self.probes)
        )

        def slope(pair: tuple[Array, Array]) -> Array:
            solution, probe = jax.lax.map(lambda v: forward_product(generator, values, z, v), jnp.stack(pair))
            return jnp.vdot(solution, probe)

        surrogate = 0.5 * jnp.mean(jax.lax.map(slope, (probes.solution, probes.probe)))
        error = jnp.sqrt(jnp.sum(probes.variance)) / self.probes
        never = jnp.bool_(False)
        return with_slope_of(jnp.mean(probes.value), surrogate), Report(error, never, never, search)

    def _probe(self, noise: Array, products: Products, sigma: float) -> _Quadrature:
        d = len(noise)
        first = noise / jnp.linalg.norm(noise)
        basis, diagonal, beside = krylov(first, products, self.steps)
        found = quadratures(diagonal, beside, (self.steps,), d, sigma)
        root = jnp.asarray(d, noise.dtype) ** 0.5
        solution = root * (basis.T @ found.solution[0])
        return _Quadrature(found.value[0], found.variance[0], root * first, solution)


class Quadratures(NamedTuple):
    """What one probe gives after several numbers of steps."""

    value: Array
    """Estimates of 1/2 log det M [count]."""
    variance: Array
    """[count], as `_Quadrature.variance`."""
    solution: Array
    """M^-1 times the first vector of the basis, in the basis [count, step]."""


def quadratures(diagonal: Array, beside: Array, counts: tuple[int, ...], d: int, sigma: float) -> Quadratures:
    """Quadratures after each of `counts` steps, from `krylov` with at least as many, for noise of d numbers."""
    steps = len(diagonal)
    ends = np.array([*counts, *(max(1, count - 1) for count in counts)])
    # Cut off from the first ones, later steps have no weight.
    linked = np.arange(steps) < ends[:, None] - 1
    lower = jnp.eye(steps, k=-1) * jnp.where(linked, beside, 0)[:, None]
    vectors, ritz = jax.lax.linalg.eigh(jnp.eye(steps) * diagonal + lower, symmetrize_input=False)
    first, raised = vectors[:, 0], jnp.maximum(ritz, 0) + sigma**2
    shares, logs = first**2, 0.5 * jnp.log(raised)
    means = jnp.sum(shares * logs, axis=1)
    spread = jnp.sum(shares * (logs - means[:, None]) ** 2, axis=1)[: len(counts)]
    solution = jnp.einsum("cij,cj->ci", vectors, first / raised)[: len(counts)]
    mean, fewer = jnp.split(means, 2)
    return Quadratures(d * mean, 2 * d * spread + (d * (mean - fewer)) ** 2, solution)


def values_after(counts: tuple[int, ...], key: Array, like: Array, products: Products, sigma: float) -> Quadratures:
    """Estimates from the first steps of one probe, random by its key, for noise `like` [d]."""
    noise = standard_normal(key, like)
    _, diagonal, beside = krylov(noise / jnp.linalg.norm(noise), products, max(counts))
    return quadratures(diagonal, beside, counts, len(like), sigma)


def krylov(first: Array, products: Products, steps: int) -> tuple[Array, Array, Array]:
    """Steps of Lanczos with J'J from a unit vector [d], with full orthogonalisation.

    Returns:
        an orthonormal basis [steps, d] (zeros once the space is exhausted), diagonal and off-diagonal [steps] of the
        projected matrix.
    """
    d, dtype = len(first), first.dtype

    def step(index: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        basis, diagonal, beside = carry
        here = basis[index]
        new = products.square(here)
        on_diagonal = jnp.vdot(here, new)
        for _ in range(2):
            new = new - basis.T @ (basis @ new)
        length = jnp.linalg.norm(new)
        exhausted = length <= 10 * d * jnp.finfo(dtype).eps * jnp.max(jnp.abs(diagonal.at[index].set(on_diagonal)))
        length = jnp.where(exhausted, 0, length)
        new = jnp.where(exhausted, 0, new / jnp.where(exhausted, 1, length))
        return basis.at[index + 1].set(new), diagonal.at[index].set(on_diagonal), beside.at[index].set(length)

    begin = jnp.zeros((steps + 1, d), dtype).at[0].set(first), jnp.zeros(steps, dtype), jnp.zeros(steps, dtype)
    basis, diagonal, beside = jax.lax.fori_loop(0, steps, step, begin)
    return basis[:-1], diagonal, beside
