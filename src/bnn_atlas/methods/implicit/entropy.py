"""What the forms of the entropy share.

Linearised at z, the generator g gives the normal N(g - J z, J J' + sigma^2 I) with J = dg/dz [D, d]; by the matrix
determinant lemma its entropy is

    H = 1/2 log det(J'J + sigma^2 I_d) + (D - d) log sigma + D/2 log(2 pi e).

The forms differ in the first term; the rest does not depend on the generator.
"""

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

import jax
from jax import Array

from bnn_atlas.methods.implicit.generators import Generator, Tree


class Report(NamedTuple):
    """How accurate a value is."""

    error: Array
    """Estimated standard deviation of the value over random probes; 0 for exact forms, NaN where it is not known."""
    bracket: Array
    """How far the value may lie above what its probes would give without truncation; NaN where it is not known."""
    singular: Array
    """Whether J'J was singular to rounding, so that sigma^2 alone bounds its smallest eigenvalues from below."""
    converged: Array
    """Whether the search for the smallest singular value has converged; the value minus the bracket is then a lower
    bound, provided that the search has found the smallest one."""
    search: Array | None
    """Where the search continues in the next step; None for forms without a search."""


class Place(NamedTuple):
    """Where an entropy is computed."""

    generator: Generator
    values: Tree
    """Parameters of the generator."""
    shared: Tree
    """`Form.shared` of these parameters."""
    z: Array
    """[d]."""
    sigma: float


class Form(Protocol):
    """A way to compute 1/2 log det(J'J + sigma^2 I)."""

    def start(self, key: Array, like: Array) -> Array | None:
        """The search before the first step, for noise `like` [d]; None for forms without a search."""

    def shared(self, generator: Generator, values: Tree) -> Tree:
        """What depends on the parameters alone, computed once for all z of a step; () where nothing does."""

    def half_log_det(self, key: Array, place: Place, search: Array | None) -> tuple[Array, Report]:
        """Value at z, differentiable in the generator's parameters and in `shared`, and a report."""


def constant(size: int, noise: int, sigma: float) -> float:
    """(D - d) log sigma + D/2 log(2 pi e) for D = `size` weights and d = `noise` noise numbers."""
    return (size - noise) * math.log(sigma) + 0.5 * size * math.log(2 * math.pi * math.e)


@jax.custom_jvp
def with_slope_of(value: Array, surrogate: Array) -> Array:
    """`value` with the derivatives of `surrogate`, which is itself never computed."""
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


def products_at(generator: Generator, values: Tree, z: Array) -> Products:
    """Products with the derivative of the generator at z; no gradient flows through them."""
    fixed = jax.lax.stop_gradient(values)
    _, forward = jax.linearize(lambda z: generator(fixed, z), z)
    transposed = jax.linear_transpose(forward, z)
    return Products(forward, lambda w: transposed(w)[0])


def forward_product(generator: Generator, values: Tree, z: Array, v: Array) -> Array:
    """J v [D], differentiable in the generator's parameters."""
    return jax.jvp(lambda z: generator(values, z), (z,), (v,))[1]
