"""The entropy of generated weights, in four forms.

Linearised at z, the generator g gives the normal N(g - J z, J J' + S^2) with J = dg/dz [D, d] and S = diag(s); by the
matrix determinant lemma its entropy is

    H = 1/2 log det(J'S^-2 J + I_d) + sum_i log s_i + D/2 log(2 pi e).

If all s_i are sigma, as they are unless the spread is learned, this is

    H = 1/2 log det(J'J + sigma^2 I_d) + (D - d) log sigma + D/2 log(2 pi e).

The forms differ in the first term: `Exact` computes it, `Smallest` bounds it by the smallest singular value, `Lanczos`
estimates it by stochastic Lanczos quadrature, and `Published` follows the published code. All compute the second
expression; with a learned spread its first term is taken for the map g / s (`generators.Scaled`), at sigma = 1.
"""

import math
from collections.abc import Callable
from math import prod
from typing import NamedTuple, Protocol

import jax
import jax.scipy
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
from bnn_atlas.methods.implicit.generators import Generator, Map, Tree
from bnn_atlas.methods.noise import standard_normal
from bnn_atlas.rounding import norm


class Report(NamedTuple):
    """Accuracy of a value."""

    error: Array
    """Estimated standard deviation of the value over random probes; 0 for exact forms, NaN if unknown."""
    bracket: Array
    """Largest amount by which truncation may have increased the value for these probes; NaN if unknown."""
    singular: Array
    """Whether J'J was singular to within rounding, so that only sigma^2 keeps J'J + sigma^2 I from being singular."""
    converged: Array
    """Whether the search for the smallest singular value has converged; the value minus the bracket is then a lower
    bound, provided that the search has found the smallest singular value."""
    search: Array | None
    """Vectors from which the search continues in the next step; None for forms without a search."""


class Place(NamedTuple):
    """A point at which an entropy is computed."""

    generator: Map
    values: Tree
    """Parameters of the generator."""
    shared: Tree
    """The result of `Form.shared` for these parameters."""
    z: Array
    """[d]."""
    sigma: float


class Form(Protocol):
    """A way to compute 1/2 log det(J'J + sigma^2 I)."""

    def start(self, key: Array, like: Array) -> Array | None:
        """The search before the first step, for noise `like` [d]; None for forms without a search."""

    def shared(self, generator: Map, values: Tree) -> Tree:
        """Quantities that depend only on the parameters, computed once for all z of a step; () if there are none."""

    def half_log_det(self, key: Array, place: Place, search: Array | None) -> tuple[Array, Report]:
        """Value at z, differentiable in the generator's parameters and in `shared`, and a report."""


def constant(size: int, noise: int, sigma: float) -> float:
    """(D - d) log sigma + D/2 log(2 pi e) for D = `size` weights and d = `noise` noise numbers."""
    return (size - noise) * math.log(sigma) + 0.5 * size * math.log(2 * math.pi * math.e)


@jax.custom_jvp
def with_slope_of(value: Array, surrogate: Array) -> Array:
    """`value` with the derivatives of `surrogate`, whose value is never computed."""
    return value


@with_slope_of.defjvp
def _slope_of_surrogate(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    return primals[0], tangents[1]


class Products(NamedTuple):
    """Products with J = dg/dz at z, without forming J."""

    forward: Callable[[Array], Array]
    """v [d] -> J v [D]."""
    backward: Callable[[Array], Array]
    """w [D] -> J'w [d]."""

    def square(self, v: Array) -> Array:
        """J'J v [d]."""
        return self.backward(self.forward(v))


def products_at(generator: Map, values: Tree, z: Array) -> Products:
    """Products with the derivative of the generator at z; no gradient flows through these products."""
    fixed = jax.lax.stop_gradient(values)
    _, forward = jax.linearize(lambda z: generator(fixed, z), z)
    transposed = jax.linear_transpose(forward, z)
    return Products(forward, lambda w: transposed(w)[0])


def forward_product(generator: Map, values: Tree, z: Array, v: Array) -> Array:
    """J v [D], differentiable in the generator's parameters."""
    return jax.jvp(lambda z: generator(values, z), (z,), (v,))[1]


class _Quadrature(NamedTuple):
    """Result for one probe."""

    value: Array
    """Estimate of 1/2 log det M."""
    variance: Array
    """Variance of this estimate over probes."""
    bracket: Array
    """Largest amount by which the value may exceed v' log(M) v / 2."""
    probe: Array
    """v [d], of length sqrt(d)."""
    solution: Array
    """M^-1 v [d], approximated in the Krylov space."""


class Lanczos(NamedTuple):
    """1/2 log det M = 1/2 tr log M for M = J'J + sigma^2 I (Ubaru, Chen and Saad 2017, section 3).

    For a probe v, uniform on the sphere of radius sqrt(d), E[v' log(M) v] = tr log M. Lanczos steps give
    T = V diag(theta) V' and the Gauss quadrature v' log(M) v = d sum_k V_1k^2 log(theta_k), which is never below the
    exact value; the variance over probes is estimated by 2 d times the variance of log(theta) under the weights V_1k^2.
    With one more node, fixed at the lower bound sigma^2 of M's eigenvalues, the Gauss-Radau quadrature is never above
    the exact value (Golub and Meurant 2010, Matrices, Moments and Quadrature, section 6.2); the two quadratures bracket
    the value for the probe. The gradient tr(M^-1 dM) / 2 is estimated by <J M^-1 v, J v>' / 2, with M^-1 v from the
    same Krylov space.
    """

    steps: int
    probes: int

    def start(self, key: Array, like: Array) -> None:
        """No search."""

    def shared(self, generator: Map, values: Tree) -> tuple[()]:
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
        first = noise / norm(noise)
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
    """Results for one probe after different numbers of steps."""

    value: Array
    """Estimates of 1/2 log det M [count], by Gauss quadrature."""
    variance: Array
    """[count], as `_Quadrature.variance`."""
    bracket: Array
    """Gauss minus Gauss-Radau quadrature [count]."""
    solution: Array
    """M^-1 times the first vector of the basis, in the basis [count, step]."""


def quadratures(projected: Projected, counts: tuple[int, ...], d: int, sigma: float) -> Quadratures:
    """Quadratures after each of `counts` steps, from a result of `krylov` with enough steps, for noise of d numbers."""
    places, ends = np.arange(len(projected.diagonal)), np.array(counts)[:, None]
    # Later steps are decoupled from the first steps, so that they have no weight.
    vectors, ritz = _eigen(projected.diagonal, jnp.where(places < ends - 1, projected.beside, 0))
    first, raised = vectors[:, 0], jnp.maximum(ritz, 0) + sigma**2
    shares, logs = first**2, 0.5 * jnp.log(raised)
    means = jnp.sum(shares * logs, axis=1)
    spread = jnp.sum(shares * (logs - means[:, None]) ** 2, axis=1)
    solution = jnp.einsum("cij,cj->ci", vectors, first / raised)
    bracket = jnp.maximum(means - _radau(projected, ends, vectors, ritz, sigma), 0)
    return Quadratures(d * means, 2 * d * spread, d * bracket, solution)


def _radau(projected: Projected, ends: np.ndarray, vectors: Array, ritz: Array, sigma: float) -> Array:
    """Means [count] of log(theta + sigma^2) / 2 by the quadrature with one more node at theta = 0.

    T after k steps gets one more row, beta_k off the diagonal and beta_k^2 (T^-1)_kk on it, so that 0 is an eigenvalue.
    If the space was exhausted earlier, beta_k is the entry that was set to 0 at that step.
    """
    places = np.arange(len(projected.diagonal) + 1)
    padded = jnp.append(projected.beside, 0)
    last = jnp.minimum(ends - 1, jnp.argmax(padded == 0))
    beside = jnp.append(projected.left, 0)[last]
    largest = jnp.max(ritz, axis=1, keepdims=True)
    shares = jnp.take_along_axis(vectors, last[..., None], axis=1)[:, 0] ** 2
    above_rounding = jnp.maximum(ritz, jnp.finfo(ritz.dtype).eps * largest)
    corner = beside**2 * jnp.sum(shares / above_rounding, axis=1, keepdims=True)
    # No node may be above the spectrum, even if rounding has distorted a small pivot.
    corner = jnp.minimum(corner, largest + beside)
    linked = jnp.where(places < last, padded, jnp.where(places == last, beside, 0))
    diagonal = jnp.where(places == last + 1, corner, jnp.append(projected.diagonal, 0))
    vectors, nodes = _eigen(diagonal[:, None], linked)
    return jnp.sum(vectors[:, 0] ** 2 * 0.5 * jnp.log(jnp.maximum(nodes, 0) + sigma**2), axis=1)


def _eigen(diagonal: Array, beside: Array) -> tuple[Array, Array]:
    """Eigenvectors and eigenvalues of tridiagonal matrices with one or several diagonals, off-diagonals [count, n]."""
    n = beside.shape[-1]
    lower = jnp.eye(n, k=-1) * beside[:, None]
    return jax.lax.linalg.eigh(jnp.eye(n) * diagonal + lower, symmetrize_input=False)


def values_after(counts: tuple[int, ...], key: Array, like: Array, products: Products, sigma: float) -> Quadratures:
    """Estimates after each of `counts` steps with one random probe, for noise `like` [d]."""
    noise = standard_normal(key, like)
    _, projected = krylov(noise / norm(noise), products, max(counts))
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


COPIES = 4
"""Number of arrays of the size of all tangents plus J'J that exist at the same time."""


class Exact(NamedTuple):
    """1/2 log det(J'J + sigma^2 I) = sum_i log L_ii for the Cholesky factor L.

    If a pivot is zero to within rounding, r = d eps max(J'J) is added to the diagonal, so that the factor exists: the
    value is then finite, at least d log sigma, and too large by about log(1 + r / sigma^2) / 2 for each missing
    direction. J'J counts as singular if its smallest eigenvalue is zero to within rounding, or below a hundredth of
    sigma^2. The gradient is tr(M^-1 dM) / 2.
    """

    def start(self, key: Array, like: Array) -> None:
        """No search."""

    def shared(self, generator: Map, values: Tree) -> Tree:
        """Products of each last layer with itself."""
        return generator.squares(values)

    def half_log_det(self, key: Array, place: Place, search: Array | None) -> tuple[Array, Report]:
        """As `Form.half_log_det`."""
        gram = place.generator.gram(place.values, place.shared, place.z)
        value, inverse, singular = _decomposed(jax.lax.stop_gradient(gram), place.sigma)
        found = with_slope_of(value, 0.5 * jnp.vdot(inverse, gram))
        zero = jnp.zeros_like(value)
        return found, Report(zero, zero, singular, jnp.bool_(False), search)


def _decomposed(gram: Array, sigma: float) -> tuple[Array, Array, Array]:
    """1/2 log det of M = gram + sigma^2 I, M^-1, and whether `gram` is singular to within rounding."""
    unit = jnp.eye(len(gram), dtype=gram.dtype)
    whole = gram + sigma**2 * unit
    factor = _factor(whole)
    # No entry of J'J is larger than the largest diagonal entry.
    rounding = len(gram) * jnp.finfo(gram.dtype).eps * jnp.max(gram)
    regular = jnp.all(jnp.sum(factor * unit, axis=0) ** 2 > rounding)  # never without a factor
    # Both sides are computed if chains are batched, so neither may take longer than a factor.
    factor = jax.lax.cond(regular, lambda: factor, lambda: _factor(whole + rounding * unit))
    root = jax.lax.linalg.triangular_solve(factor, unit, left_side=True, lower=True)
    # The factor does not exist if an eigenvalue is below the subtracted amount.
    off = rounding + 0.01 * sigma**2
    singular = jnp.isnan(_factor(gram - off * unit)[0, 0]) & jnp.isfinite(off)
    return jnp.sum(jnp.log(jnp.sum(factor * unit, axis=0))), root.T @ root, singular


def _factor(matrix: Array) -> Array:
    """Cholesky factor, all NaN if it does not exist; a transposed symmetric matrix is already in LAPACK's order."""
    return jax.lax.linalg.cholesky(matrix.T, symmetrize_input=False)


def memory_of(generator: Generator, dtype: np.dtype) -> float:
    """Megabytes that the tangents and J'J take."""
    noise = prod(generator.shape)
    return COPIES * dtype.itemsize * noise * (generator.hidden + noise) / 1e6


class Smallest(NamedTuple):
    """d/2 log(theta + sigma^2) for the smallest eigenvalue theta of J'J, at most 1/2 log det(J'J + sigma^2 I).

    LOBPCG (Knyazev 2001) with one vector v: theta = |J v|^2, residual r = J'J v - theta v, and the next v is the best
    vector in the span of v, r and the previous direction p; v and p are carried over between steps of the fit. An
    eigenvalue lies within |r| of theta, which approaches the smallest from above. The bracket is the decrease of the
    value when theta - |r| replaces theta; the search has converged if |r| <= tolerance (theta + sigma^2). The value
    minus the bracket is a lower bound if the eigenvalue found is the smallest, which the residual cannot show.
    """

    iterations: int
    tolerance: float

    def start(self, key: Array, like: Array) -> Array:
        """A random direction v, and p = 0 [2, d]."""
        return jnp.stack([standard_normal(key, like), jnp.zeros_like(like)])

    def shared(self, generator: Map, values: Tree) -> tuple[()]:
        """Nothing."""
        return ()

    def half_log_det(self, key: Array, place: Place, search: Array | None) -> tuple[Array, Report]:
        """As `Form.half_log_det`."""
        generator, values, _, z, sigma = place
        assert search is not None
        products = products_at(generator, values, z)
        search = jax.lax.fori_loop(0, self.iterations, lambda _, search: improved(search, products), search)
        v = search[0] / norm(search[0])
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
    """One iteration of LOBPCG, from v and p [2, d] to the next v and p."""
    v, p = search
    v = v / norm(v)
    image = products.square(v)
    residual = image - jnp.vdot(v, image) * v
    basis = [v]
    for vector in (residual, p):
        basis.append(orthogonal(vector, basis))
    space = jnp.stack(basis)
    images = jax.lax.map(products.forward, space)
    projected = images @ images.T
    # Dropped directions must not be chosen.
    dropped = jnp.sum(space**2, axis=1) < 0.5
    projected = projected + jnp.diag(jnp.where(dropped, 2 * jnp.trace(projected) + 1, 0))
    weights = jnp.linalg.eigh(projected)[1][:, 0]
    return jnp.stack([weights @ space, weights[1:] @ space[1:]])


def orthogonal(vector: Array, basis: list[Array]) -> Array:
    """The part of a vector orthogonal to a basis, normalised; zeros if only rounding errors remain."""
    length = jnp.linalg.norm(vector)
    unit = vector / jnp.where(length > 0, length, 1)
    for _ in range(2):
        for other in basis:
            unit = unit - jnp.vdot(other, unit) * other
    left = jnp.linalg.norm(unit)
    kept = left > 10 * jnp.finfo(vector.dtype).eps
    # A second pass, since the remainder of a nearly dependent vector is not orthogonal yet.
    unit = jnp.where(kept, unit / jnp.where(kept, left, 1), 0)
    for other in basis:
        unit = unit - jnp.vdot(other, unit) * other
    length = jnp.linalg.norm(unit)
    # A vector that shrinks again consisted of rounding errors.
    kept = length > 0.5
    return jnp.where(kept, unit / jnp.where(kept, length, 1), 0)


class Published(NamedTuple):
    """d log(mu + sigma^2) with mu = |J v| after iterations from a random v (Uppal et al. 2023, as coded).

    The differences from LOBPCG: the residual is divided by the mean of its entries; the basis of (v, r, p) comes from a
    singular value decomposition, so its second and third vectors are not r and p; mu + sigma^2 is used in place of
    sqrt(mu^2 + sigma^2). For noise with m > 1 rows the decomposition is done row by row and |v| = sqrt(m), so mu is too
    large by a factor of sqrt(m), and the value is too large by d/2 log(m). The form does not report the error of its
    value.
    """

    iterations: int
    rows: int
    """Rows of the noise (`Generator.noise_rows`)."""

    def start(self, key: Array, like: Array) -> None:
        """No search: every step starts from a random vector."""

    def shared(self, generator: Map, values: Tree) -> tuple[()]:
        """Nothing."""
        return ()

    def half_log_det(self, key: Array, place: Place, search: Array | None) -> tuple[Array, Report]:
        """As `Form.half_log_det`."""
        generator, values, _, z, sigma = place
        products = products_at(generator, values, z)
        v = found_direction(key, z, products, self.rows, self.iterations)
        change = forward_product(generator, values, z, v)
        length = jnp.linalg.norm(jax.lax.stop_gradient(change))
        value = len(z) * jnp.log(length + sigma**2)
        slope = len(z) * 0.5 * jnp.vdot(change, change) / (length * (length + sigma**2))
        unknown, never = jnp.full_like(value, jnp.nan), jnp.bool_(False)
        return with_slope_of(value, slope), Report(unknown, unknown, never, never, search)


def found_direction(key: Array, like: Array, products: Products, rows: int, iterations: int) -> Array:
    """The final vector [d] of the published search."""
    v, p = standard_normal(key, jnp.concatenate([like, like])).reshape(2, -1)
    mu = jnp.linalg.norm(products.forward(v)) / norm(v)

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


MOST_INTEGRATED = 100
"""Most noise numbers for which draws have a linearisation gap."""
PREIMAGES, CLIMBS, PROPOSALS = 4, 10, 32
"""Starts of the search for noise vectors that lead to the same weights, its steps, and proposals around each end."""


def linearisation_gap(key: Array, place: Place, e: Array) -> Array:
    """How much the linearised entropy at z exceeds -log q, for the draw theta = g(z) + S e; its mean is the gap.

    H is E[1/2 log det(J'J + sigma^2 I)] and constants, with J at z, and the entropy of q is -E[log q(theta)] with

        q(theta) = int N(z'; 0, I) N(theta; g(z'), S^2) dz',

    an integral by importance sampling: proposals are normals with the precision L = I + J'S^-2 J and mean
    z' + L^-1 (J'S^-2 (theta - g(z')) - z'), one at z and the others where damped Newton steps end that start at -z and
    at random z', so that other noise vectors with the same weights are found. With the linearised density q_z in
    place of q the expectation is known, which leaves little noise:

        gap = log q(theta) - log q_z(theta) - (tr L^-1 - z'L^-1 z) / 2,

    0 on average for a linear g. The logarithm of an average is too small on average, and noise vectors that are not
    found make it smaller: a positive gap shows that H is too large, a gap of 0 does not show that it is right.

    Args:
        key: for proposals.
        place: the map g / s with sigma = 1, or g with sigma, at z.
        e: [D], the noise on the weights.
    """
    generator, values, squares, z, sigma = place
    unit = jnp.eye(len(z), dtype=z.dtype)

    def centre(z: Array) -> Array:
        return generator(values, z) / sigma

    theta = centre(z) + e

    def joint(z: Array) -> Array:
        return -0.5 * (jnp.vdot(z, z) + jnp.sum((theta - centre(z)) ** 2))

    def precision(z: Array) -> Array:
        return unit + generator.gram(values, squares, z) / sigma**2

    def climb(_: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        z, damping = carry
        new = z + jnp.linalg.solve(precision(z) + damping * unit, jax.grad(joint)(z))
        better = joint(new) > joint(z)
        return jnp.where(better, new, z), jnp.where(better, damping / 4, 4 * damping)

    def proposal(z: Array) -> tuple[Array, Array]:
        whole = precision(z)
        rounding = len(z) * jnp.finfo(z.dtype).eps * jnp.max(whole)
        factor = jnp.linalg.cholesky(whole)
        factor = jnp.where(jnp.all(jnp.isfinite(factor)), factor, jnp.linalg.cholesky(whole + rounding * unit))
        return z + jax.scipy.linalg.cho_solve((factor, True), jax.grad(joint)(z)), factor

    def log_density(x: Array, mean: Array, factor: Array) -> Array:
        return jnp.sum(jnp.log(jnp.diagonal(factor))) - 0.5 * jnp.sum((factor.T @ (x - mean)) ** 2)

    starts_key, noise_key = jax.random.split(key)
    others = standard_normal(starts_key, jnp.zeros((PREIMAGES - 2) * len(z), z.dtype)).reshape(PREIMAGES - 2, -1)
    begin = jnp.concatenate([-z[None], others])
    ends = jax.lax.map(lambda z: jax.lax.fori_loop(0, CLIMBS, climb, (z, jnp.ones((), z.dtype)))[0], begin)
    means, factors = jax.lax.map(proposal, jnp.concatenate([z[None], ends]))
    noise = standard_normal(noise_key, jnp.zeros(PREIMAGES * PROPOSALS * len(z), z.dtype))

    def log_weight(one: tuple[Array, Array]) -> Array:
        which, noise = one
        x = means[which] + jax.scipy.linalg.solve_triangular(factors[which].T, noise, lower=False)
        mixture = jax.nn.logsumexp(jax.vmap(lambda m, f: log_density(x, m, f))(means, factors)) - math.log(PREIMAGES)
        return joint(x) - mixture

    which = jnp.repeat(jnp.arange(PREIMAGES), PROPOSALS)
    weights = jax.lax.map(log_weight, (which, noise.reshape(len(which), -1)))
    found = jax.nn.logsumexp(weights) - math.log(len(which))
    linear = joint(z) - log_density(z, means[0], factors[0])
    inverse = jax.scipy.linalg.cho_solve((factors[0], True), unit)
    return found - linear - 0.5 * (jnp.trace(inverse) - z @ inverse @ z)


DIRECTIONS = 3


def build_form(config: EntropyConfig, generator: Generator, dtype: np.dtype, key: str = "entropy") -> Form:
    """Build the form of the settings under `key` for a generator.

    Raises:
        ValueError: the form needs more memory than allowed, or more directions than the noise has.
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
            if (columns := prod(generator.shape) // generator.noise_rows) < DIRECTIONS:
                raise ValueError(
                    f"the published entropy needs noise with at least {DIRECTIONS} columns, and this generator's has "
                    f"{columns}: use more columns, or a different entropy"
                )
            return Published(config.iterations, generator.noise_rows)


def scoring_form(config: ImplicitConfig, form: Form, generator: Generator, dtype: np.dtype) -> Form:
    """The form that scores draws; `form` itself if both are exact. Raises ValueError like `build_form`."""
    key = "entropy" if config.scored_by is None else "scored_by"
    found = build_form(config.scoring(prod(generator.shape)), generator, dtype, key)
    return form if isinstance(form, Exact) and isinstance(found, Exact) else found


def _check_memory(generator: Generator, dtype: np.dtype, memory_mb: int, key: str) -> None:
    """Raise ValueError if the tangents and J'J of an exact form need too much memory."""
    needed = memory_of(generator, dtype)
    if needed > memory_mb:
        raise ValueError(
            f"the exact entropy of a generator with {prod(generator.shape):,} noise numbers needs about "
            f"{needed:,.0f} MB, more than {key}.memory_mb ({memory_mb:,}): raise it, or choose {key}: "
            "{ kind: lanczos }"
        )
