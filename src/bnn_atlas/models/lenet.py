"""LeNet in two forms of Izmailov et al. 2021 and one of Uppal et al. 2023, and the sampling study's LeNetti."""

import jax
from flax import linen as nn
from jax import Array

from bnn_atlas.models.convolution import Convolution, average_pool
from bnn_atlas.models.mlp import ACTIVATIONS, FeatureMajorDense


class LeNet(nn.Module):
    """5x5 convolutions (6, 16, 120 filters), each with 3x3 max pooling of stride 2 and relu; 84 relu units; outputs."""

    outputs: int

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """Outputs [outputs, rows] for images x [channels, height, width, rows]."""
        for index, filters in enumerate((6, 16, 120)):
            x = jax.nn.relu(Convolution(filters, 5, pool=(3, 2), name=f"conv{index}")(x))
        x = x.reshape(-1, x.shape[-1])
        x = jax.nn.relu(FeatureMajorDense(84, name="dense")(x))
        return FeatureMajorDense(self.outputs, name="output")(x)


class LeNet5(nn.Module):
    """5x5 convolutions (6; 16, unpadded), each with activation and 2x2 mean pooling; 120 and 84 units; outputs."""

    outputs: int
    activation: str = "relu"

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """Outputs [outputs, rows] for images x [channels, height, width, rows]."""
        activation = ACTIVATIONS[self.activation]
        x = average_pool(activation(Convolution(6, 5, name="conv0")(x)), 2)
        x = average_pool(activation(Convolution(16, 5, padding=0, name="conv1")(x)), 2)
        x = x.reshape(-1, x.shape[-1])
        for index, units in enumerate((120, 84)):
            x = activation(FeatureMajorDense(units, name=f"dense{index}")(x))
        return FeatureMajorDense(self.outputs, name="output")(x)


class LeNet5Max(nn.Module):
    """Unpadded 5x5 convolutions (6, 16 filters), with 2x2 max pooling and activation; 120 and 84 units; outputs.

    Pooling before an increasing activation gives the same result as pooling after it.
    """

    outputs: int
    activation: str = "relu"

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """Outputs [outputs, rows] for images x [channels, height, width, rows]."""
        activation = ACTIVATIONS[self.activation]
        for index, filters in enumerate((6, 16)):
            x = activation(Convolution(filters, 5, padding=0, pool=(2, 2), name=f"conv{index}")(x))
        x = x.reshape(-1, x.shape[-1])
        for index, units in enumerate((120, 84)):
            x = activation(FeatureMajorDense(units, name=f"dense{index}")(x))
        return FeatureMajorDense(self.outputs, name="output")(x)


class LeNetti(nn.Module):
    """One 3x3 filter with two zeros on every side, three dense layers of 8 units, and the output layer."""

    outputs: int
    activation: str = "sigmoid"

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """Outputs [outputs, rows] for images x [channels, height, width, rows]."""
        activation = ACTIVATIONS[self.activation]
        x = activation(Convolution(1, 3, padding=2, name="conv")(x))
        x = x.reshape(-1, x.shape[-1])
        for index in range(3):
            x = activation(FeatureMajorDense(8, name=f"dense{index}")(x))
        return FeatureMajorDense(self.outputs, name="output")(x)
