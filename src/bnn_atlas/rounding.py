"""Square roots that something is divided by, with the same bits on every processor.

XLA turns a / sqrt(x) into a * rsqrt(x). On x86 it computes rsqrt in single precision by refining the result of an
instruction that only has to be right to about twelve bits, and whose further bits differ between Intel's and AMD's
processors. A chain is then another one from its first step on. Square roots and divisions themselves are correctly
rounded everywhere (IEEE 754). XLA's products of matrices still depend on the processor (docs/accuracy.md).
"""

import jax
from jax import Array
from jax import numpy as jnp


@jax.custom_jvp
def root(x: Array) -> Array:
    """The square root of x >= 0, which XLA keeps apart from a division by it."""
    return jax.lax.optimization_barrier(jnp.sqrt(x))


@root.defjvp
def _root_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    value = root(*primals)
    return value, tangents[0] * (0.5 / value)


def norm(v: Array, axis: int | None = None, keepdims: bool = False) -> Array:
    """The Euclidean norm of v, or of its parts along an axis."""
    return root(jnp.sum(v * v, axis=axis, keepdims=keepdims))
