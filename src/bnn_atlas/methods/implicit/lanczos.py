"""Stochastic Lanczos quadrature of the log determinant (Ubaru, Chen and Saad 2017, section 3)."""

from typing import NamedTuple

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp

from bnn_atlas.methods.implicit.entropy import Place, Products, Report, forward_product, products_at, with_slope_of
from bnn_atlas.methods.implicit.generators import Generator, Tree
from bnn_atlas.methods.noise import standard_normal


class _Quadrature(NamedTuple):
    """Result of one probe."""

    value: Array
    """Estimate of 1/2 log det M."""
    variance: Array
    """Variance of this estimate over probes."""
    bracket: Array
    """How far the value may lie above v' log(M) v / 2."""
    probe: Array
    """v [d], of length sqrt(d)."""
    solution: Array
    """M^-1 v [d], as far as the Krylov space has it."""


class Lanczos(NamedTuple):
    """1/2 log det M = 1/2 tr log M for M = J'J + sigma^2 I, from products with J'J.

    For a probe v, uniform on the sphere of radius sqrt(d), E[v' log(M) v] = tr log M. Lanczos steps give
    T = V diag(theta) V' and the Gauss quadrature v' log(M) v = d sum_k V_1k^2 log(theta_k), which is never too small;
    its variance over probes is estimated by 2 d times the variance of log(theta) under the weights V_1k^2. With one
    more node, fixed at the lower bound sigma^2 of M's eigenvalues, the Gauss-Radau quadrature is never too large (Golub
    and Meurant 2010, Matrices, Moments and Quadrature, section 6.2); the two bracket the value of the probe. The
    gradient tr(M^-1 dM) / 2 is estimated by <J M^-1 v, J v>' / 2, with M^-1 v from the same space.
    """

    steps: int
    probes: int

    def start(self, key: Array, like: Array) -> None:
        """No search."""

    def shared(self, generator: Generator, values: Tree) -> tuple[()]:
        """Nothing."""
        return ()

    def half_log_det(self, key: Array, place: Place, search: Array | None) -> tuple[Array, Report]:
        """As `Form.half_log_det`."""
        generator, values, _, z, sigma = place
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
        report = Report(error, jnp.mean(probes.bracket), never, never, search)
        return with_slope_of(jnp.mean(probes.value), surrogate), report

    def _probe(self, noise: Array, products: Products, sigma: float) -> _Quadrature:
        d = len(noise)
        first = noise / jnp.linalg.norm(noise)
        basis, projected = krylov(first, products, self.steps)
        found = quadratures(projected, (self.steps,), d, sigma)
        root = jnp.asarray(d, noise.dtype) ** 0.5
        solution = root * (basis.T @ found.solution[0])
        return _Quadrature(found.value[0], found.variance[0], found.bracket[0], root * first, solution)


class Projected(NamedTuple):
    """J'J in an orthonormal basis: a tridiagonal matrix."""

    diagonal: Array
    """[steps]."""
    beside: Array
    """Off-diagonal entries [steps]; 0 once the space is exhausted."""
    left: Array
    """Off-diagonal entries before rounding errors were set to 0 [steps]."""


class Quadratures(NamedTuple):
    """Results of one probe after several numbers of steps."""

    value: Array
    """Estimates of 1/2 log det M [count], by Gauss quadrature."""
    variance: Array
    """[count], as `_Quadrature.variance`."""
    bracket: Array
    """Gauss minus Gauss-Radau quadrature [count]."""
    solution: Array
    """M^-1 times the first vector of the basis, in the basis [count, step]."""


def quadratures(projected: Projected, counts: tuple[int, ...], d: int, sigma: float) -> Quadratures:
    """Quadratures after each of `counts` steps, from `krylov` with at least as many, for noise of d numbers."""
    places, ends = np.arange(len(projected.diagonal)), np.array(counts)[:, None]
    # Cut off from the first ones, later steps have no weight.
    vectors, ritz = _eigen(projected.diagonal, jnp.where(places < ends - 1, projected.beside, 0))
    first, raised = vectors[:, 0], jnp.maximum(ritz, 0) + sigma**2
    shares, logs = first**2, 0.5 * jnp.log(raised)
    means = jnp.sum(shares * logs, axis=1)
    spread = jnp.sum(shares * (logs - means[:, None]) ** 2, axis=1)
    solution = jnp.einsum("cij,cj->ci", vectors, first / raised)
    bracket = jnp.maximum(means - _radau(projected, ends, vectors, ritz, sigma), 0)
    return Quadratures(d * means, 2 * d * spread, d * bracket, solution)


def _radau(projected: Projected, ends: np.ndarray, vectors: Array, ritz: Array, sigma: float) -> Array:
    """Means of log(theta + sigma^2) / 2 by the quadrature with one more node at theta = 0 [count].

    T after k steps gets one more row, beta_k off the diagonal and beta_k^2 (T^-1)_kk on it, so that 0 is an eigenvalue.
    Where the space was exhausted earlier, beta_k is the entry that was set to 0 there.
    """
    places = np.arange(len(projected.diagonal) + 1)
    padded = jnp.append(projected.beside, 0)
    last = jnp.minimum(ends - 1, jnp.argmax(padded == 0))
    beside = jnp.append(projected.left, 0)[last]
    largest = jnp.max(ritz, axis=1, keepdims=True)
    shares = jnp.take_along_axis(vectors, last[..., None], axis=1)[:, 0] ** 2
    above_rounding = jnp.maximum(ritz, jnp.finfo(ritz.dtype).eps * largest)
    corner = beside**2 * jnp.sum(shares / above_rounding, axis=1, keepdims=True)
    # No node is above the spectrum, whatever rounding has made of a small pivot.
    corner = jnp.minimum(corner, largest + beside)
    linked = jnp.where(places < last, padded, jnp.where(places == last, beside, 0))
    diagonal = jnp.where(places == last + 1, corner, jnp.append(projected.diagonal, 0))
    vectors, nodes = _eigen(diagonal[:, None], linked)
    return jnp.sum(vectors[:, 0] ** 2 * 0.5 * jnp.log(jnp.maximum(nodes, 0) + sigma**2), axis=1)


def _eigen(diagonal: Array, beside: Array) -> tuple[Array, Array]:
    """Vectors and values of tridiagonal matrices with one diagonal or several, and off-diagonals [count, n]."""
    n = beside.shape[-1]
    lower = jnp.eye(n, k=-1) * beside[:, None]
    return jax.lax.linalg.eigh(jnp.eye(n) * diagonal + lower, symmetrize_input=False)


def values_after(counts: tuple[int, ...], key: Array, like: Array, products: Products, sigma: float) -> Quadratures:
    """Estimates after each of `counts` steps with one random probe, for noise `like` [d]."""
    noise = standard_normal(key, like)
    _, projected = krylov(noise / jnp.linalg.norm(noise), products, max(counts))
    return quadratures(projected, counts, len(like), sigma)


def krylov(first: Array, products: Products, steps: int) -> tuple[Array, Projected]:
    """Lanczos steps with J'J from a unit vector [d], with full orthogonalisation.

    Returns:
        an orthonormal basis [steps, d] (zeros once the space is exhausted), and J'J in it.
    """
    d, dtype = len(first), first.dtype

    def step(index: Array, carry: tuple[Array, Projected]) -> tuple[Array, Projected]:
        basis, (diagonal, beside, left) = carry
        here = basis[index]
        new = products.square(here)
        on_diagonal = jnp.vdot(here, new)
        for _ in range(2):
            new = new - basis.T @ (basis @ new)
        rest = jnp.linalg.norm(new)
        diagonal = diagonal.at[index].set(on_diagonal)
        exhausted = rest <= 10 * d * jnp.finfo(dtype).eps * jnp.max(jnp.abs(diagonal))
        length = jnp.where(exhausted, 0, rest)
        new = jnp.where(exhausted, 0, new / jnp.where(exhausted, 1, length))
        projected = Projected(diagonal, beside.at[index].set(length), left.at[index].set(rest))
        return basis.at[index + 1].set(new), projected

    zeros = jnp.zeros(steps, dtype)
    begin = jnp.zeros((steps + 1, d), dtype).at[0].set(first), Projected(zeros, zeros, zeros)
    basis, projected = jax.lax.fori_loop(0, steps, step, begin)
    return basis[:-1], projected
