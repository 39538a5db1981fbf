"""Residual networks with filter response norm: no statistics over rows and no state."""

from flax import linen as nn
from jax import Array
from jax import numpy as jnp

from bnn_atlas.models.convolution import Convolution, FilterResponseNorm
from bnn_atlas.models.mlp import ACTIVATIONS, FeatureMajorDense

he_normal = nn.initializers.variance_scaling(2.0, "fan_in", "truncated_normal", in_axis=1, out_axis=0)


class ResNetFRN(nn.Module):
    """Residual network for small images, as in Izmailov et al. 2021 (depth 20, silu).

    A 3x3 convolution of 16 filters with norm and activation; three stacks of (depth - 2) / 6 blocks with 16, 32 and 64
    filters; the mean over all positions; outputs. The second and third stacks begin with stride 2. All convolutions
    have biases; weights start He-normal.
    """

    outputs: int
    depth: int = 20
    activation: str = "silu"

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """Outputs [outputs, rows] for images x [channels, height, width, rows]."""
        x = Convolution(16, 3, initialiser=he_normal, name="stem_conv")(x)
        x = ACTIVATIONS[self.activation](FilterResponseNorm(name="stem_norm")(x))
        for stack, filters in enumerate((16, 32, 64)):
            for block in range((self.depth - 2) // 6):
                first = stack > 0 and block == 0
                x = Block(filters, 2 if first else 1, first, self.activation, name=f"stack{stack}_block{block}")(x)
        return FeatureMajorDense(self.outputs, initialiser=he_normal, name="output")(jnp.mean(x, axis=(1, 2)))


class Block(nn.Module):
    """act(h(x) + norm(conv(act(norm(conv(x)))))), with h the identity or, with `project`, norm(1x1 convolution)."""

    filters: int
    stride: int
    project: bool
    activation: str

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """Outputs [filters, height / stride, width / stride, rows]."""
        activation = ACTIVATIONS[self.activation]
        y = Convolution(self.filters, 3, self.stride, initialiser=he_normal, name="conv0")(x)
        y = activation(FilterResponseNorm(name="norm0")(y))
        y = Convolution(self.filters, 3, initialiser=he_normal, name="conv1")(y)
        y = FilterResponseNorm(name="norm1")(y)
        if self.project:
            x = Convolution(self.filters, 1, self.stride, initialiser=he_normal, name="shortcut_conv")(x)
            x = FilterResponseNorm(name="shortcut_norm")(x)
        return activation(x + y)


class WideResNetFRN(nn.Module):
    """Wide residual network: norm and activation before each convolution, widths 16, 32, 64 times `widen`.

    A 3x3 convolution of 16 filters; three stacks of (depth - 4) / 6 blocks, the second and third with stride 2; norm
    and activation; the mean over all positions; outputs. Convolutions have no biases; weights start He-normal.
    """

    outputs: int
    depth: int
    widen: int
    activation: str = "relu"

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """Outputs [outputs, rows] for images x [channels, height, width, rows]."""
        x = Convolution(16, 3, use_bias=False, initialiser=he_normal, name="stem_conv")(x)
        for stack in range(3):
            for block in range((self.depth - 4) // 6):
                stride = 2 if stack > 0 and block == 0 else 1
                filters = 16 * 2**stack * self.widen
                x = WideBlock(filters, stride, self.activation, name=f"stack{stack}_block{block}")(x)
        x = ACTIVATIONS[self.activation](FilterResponseNorm(name="norm")(x))
        return FeatureMajorDense(self.outputs, initialiser=he_normal, name="output")(jnp.mean(x, axis=(1, 2)))


class WideBlock(nn.Module):
    """h(x) + conv(act(norm(conv(z)))) with z = act(norm(x)).

    h is the identity, or a 1x1 convolution of z where the width changes.
    """

    filters: int
    stride: int
    activation: str

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """Outputs [filters, height / stride, width / stride, rows]."""
        activation = ACTIVATIONS[self.activation]
        z = activation(FilterResponseNorm(name="norm0")(x))
        y = Convolution(self.filters, 3, self.stride, use_bias=False, initialiser=he_normal, name="conv0")(z)
        y = activation(FilterResponseNorm(name="norm1")(y))
        y = Convolution(self.filters, 3, use_bias=False, initialiser=he_normal, name="conv1")(y)
        if self.filters != x.shape[0]:
            x = Convolution(self.filters, 1, self.stride, use_bias=False, initialiser=he_normal, name="shortcut")(z)
        return x + y
