"""Square roots as divisors, with the same bits on every processor.

XLA turns a / sqrt(x) into a * rsqrt(x). On x86 it computes rsqrt in single precision by refining the result of an
instruction that is required to be accurate only to about twelve bits; its further bits differ between Intel's and AMD's
processors, so that chains would differ from the first step on. Square roots and divisions themselves are correctly
rounded everywhere (IEEE 754). XLA's products of matrices still depend on the processor (docs/accuracy.md).
"""

import jax
from jax import Array
from jax import numpy as jnp


@jax.custom_jvp
def root(x: Array) -> Array:
    """The square root of x >= 0, which XLA does not merge with a division by this root."""
    return jax.lax.optimization_barrier(jnp.sqrt(x))


@root.defjvp
def _root_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    value = root(*primals)
    return value, tangents[0] * (0.5 / value)


def norm(v: Array, axis: int | None = None, keepdims: bool = False) -> Array:
    """The Euclidean norm of v, or of its parts along an axis."""
    return root(jnp.sum(v * v, axis=axis, keepdims=keepdims))
