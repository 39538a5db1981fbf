"""Convolution, pooling and filter response norm on activations [channels, height, width, rows].

On a CPU a convolution is a matrix product of the filters with all patches, which XLA computes as fast as any other
product; XLA's own convolution is 5 to 50 times as slow inside loops (jax-ml/jax issue 12868), and a chain is a loop.
"""

from collections.abc import Callable

import jax
from flax import linen as nn
from jax import Array
from jax import numpy as jnp

from bnn_atlas import runtime
from bnn_atlas.models.mlp import lecun_normal
from bnn_atlas.rounding import root

FRN_EPSILON = 1e-6

Padding = tuple[tuple[int, int], tuple[int, int]]
"""Padding before and after the pixels of an image, by axis."""


class Convolution(nn.Module):
    """y[o, p] = sum_{c, k} W[o, c, k] x[c, s p + k] + b[o], x padded by zeros; W [filters, channels, kernel, kernel].

    `padding` is the number of zeros on every side, or `SAME`: as many as make the output ceil(size / stride) wide; if
    the number is odd, the extra zero follows the pixels. With `pool` = (window, stride), `max_pool` reduces y before b
    is added, which changes no maximum and saves additions. W starts from `initialiser`, b from zero; without `use_bias`
    there is no b.
    """

    filters: int
    kernel: int
    stride: int = 1
    padding: int | str = "SAME"
    use_bias: bool = True
    pool: tuple[int, int] | None = None
    initialiser: Callable[..., Array] = lecun_normal

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """Outputs [filters, height', width', rows] of x [channels, height, width, rows]."""
        weight = self.param("weight", self.initialiser, (self.filters, x.shape[0], self.kernel, self.kernel))
        high, wide = (_padding(size, self.kernel, self.stride, self.padding) for size in x.shape[1:3])
        convolve = by_patches if runtime.on_cpu() else by_library
        out = convolve(weight, x, self.stride, (high, wide))
        if self.pool is not None:
            out = max_pool(out, *self.pool)
        if self.use_bias:
            out = out + self.param("bias", nn.initializers.zeros_init(), (self.filters,))[:, None, None, None]
        return out


def by_library(weight: Array, x: Array, stride: int, zeros: Padding) -> Array:
    """Convolution of x [channels, height, width, rows] with weight [filters, channels, kernel, kernel] by XLA."""
    layout = ("CHWN", "OIHW", "CHWN")
    return jax.lax.conv_general_dilated(x, weight, (stride, stride), zeros, dimension_numbers=layout)


def by_patches(weight: Array, x: Array, stride: int, zeros: Padding) -> Array:
    """The same convolution as one matrix product; rows are the last axis, so every slice of a patch is contiguous."""
    filters, _, kernel, _ = weight.shape

    def multiply(weight: Array, x: Array) -> Array:
        padded = jnp.pad(x, ((0, 0), *zeros, (0, 0)))
        views = [column for row in _views(padded, 1, kernel, stride) for column in _views(row, 2, kernel, stride)]
        patches = jnp.concatenate(views)
        columns = patches.reshape(len(patches), -1)
        return (weight.transpose(0, 2, 3, 1).reshape(filters, -1) @ columns).reshape(filters, *patches.shape[1:])

    # Patches are kernel^2 times as large as x: they are recomputed for the gradient, not kept.
    return jax.checkpoint(multiply)(weight, x)


def _padding(size: int, kernel: int, stride: int, padding: int | str) -> tuple[int, int]:
    if padding == "SAME":
        zeros = max((-(-size // stride) - 1) * stride + kernel - size, 0)
        return zeros // 2, zeros - zeros // 2
    return int(padding), int(padding)


def _views(x: Array, axis: int, window: int, stride: int) -> list[Array]:
    """For each position in a window along an axis, the entries of all windows at this position."""
    last = (x.shape[axis] - window) // stride * stride
    return [jax.lax.slice_in_dim(x, shift, shift + last + 1, stride, axis) for shift in range(window)]


def max_pool(x: Array, window: int, stride: int) -> Array:
    """Maxima over the windows of window x window positions that lie inside x [channels, height, width, rows].

    Computed along one axis at a time from shifted views, since the gradient of `jax.lax.reduce_window` is slow on
    a CPU. Equal maxima share the gradient.
    """

    def pool(x: Array) -> Array:
        for axis in (1, 2):
            first, *others = _views(x, axis, window, stride)
            x = first
            for view in others:
                x = jnp.maximum(x, view)
        return x

    # Only x is kept for the gradient, and the comparisons are repeated.
    return jax.checkpoint(pool)(x)


def average_pool(x: Array, size: int) -> Array:
    """Means over the blocks of size x size positions that lie inside x [channels, height, width, rows]."""
    channels, height, width, rows = x.shape
    high, wide = height // size, width // size
    blocks = x[:, : high * size, : wide * size].reshape(channels, high, size, wide, size, rows)
    return blocks.mean(axis=(2, 4))


class FilterResponseNorm(nn.Module):
    """y = max(gain x / sqrt(nu^2 + 1e-6) + bias, threshold), nu^2 the mean of x^2 over a row's positions (by channel).

    Singh and Krishnan 2020. No statistics are taken over rows, so the likelihood is a product over rows.
    """

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """Normalised values, with the shape of x [channels, height, width, rows]."""

        def parameter(name: str, init: Callable[..., Array]) -> Array:
            return self.param(name, init, (x.shape[0],))[:, None, None, None]

        gain = parameter("gain", nn.initializers.ones_init())
        bias = parameter("bias", nn.initializers.zeros_init())
        threshold = parameter("threshold", nn.initializers.zeros_init())
        response = jnp.mean(x * x, axis=(1, 2), keepdims=True)
        return jnp.maximum(x * (gain / root(response + FRN_EPSILON)) + bias, threshold)
