"""Activations of all units that can be exchanged, from the network's forward pass."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from flax import linen as nn
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.parts.posterior import ModelConfig
from bnn_atlas.models.mlp import ACTIVATIONS
from bnn_atlas.models.networks import build_network
from bnn_atlas.symmetry.groups import Group, Symmetry

MOST_ROWS = 2048
"""Rows that are computed together if the network sets no number."""


def activation_function(
    config: ModelConfig, symmetry: Symmetry, shape: tuple[int, ...], x: np.ndarray, *, outputs: int, vocabulary: int = 0
) -> tuple[Callable[[np.ndarray], list[np.ndarray]], list[int]]:
    """A function from parameters [P] to the activations [n, samples] of each group, and the numbers of samples.

    The samples of a unit are its values for all rows x, at all positions and in all layers that share it.
    """
    network = build_network(config, shape, outputs, vocabulary)
    at_once = network.piece or MOST_ROWS
    parts = (x[start : start + at_once] for start in range(0, len(x), at_once))
    pieces = [(network.arrange(jnp.asarray(part)), len(part)) for part in parts]

    def values(theta: Array, piece: Array, rows: int) -> list[Array]:
        found: dict[str, Array] = {}

        def watch(call: Callable[..., Any], args: Any, kwargs: Any, context: nn.module.InterceptorContext) -> Any:
            result = call(*args, **kwargs)
            if context.method_name == "__call__":
                found[".".join(context.module.path)] = result
            return result

        with nn.intercept_methods(watch):
            network.apply(theta, piece)
        return [jnp.concatenate(list(_samples(group, found, rows)), axis=1) for group in symmetry.groups]

    compiled = jax.jit(values, static_argnums=2)

    def forward(theta: np.ndarray) -> list[np.ndarray]:
        parts = [compiled(theta, piece, rows) for piece, rows in pieces]
        return [
            np.concatenate([np.asarray(part) for part in of_group], axis=1) for of_group in zip(*parts, strict=True)
        ]

    def of_one_row(theta: Array) -> list[Array]:
        return values(theta, network.arrange(jnp.asarray(x[:1])), 1)

    shapes = jax.eval_shape(of_one_row, jnp.zeros(symmetry.layout.size, jnp.float32))
    return forward, [each.shape[1] * len(x) for each in shapes]


def _samples(group: Group, found: dict[str, Array], rows: int) -> Iterator[Array]:
    """Values [n, positions rows] of a group in each of its layers, for the first `rows` rows; the rest is padding."""
    for value in group.values:
        output = ACTIVATIONS[value.activation](found[value.layer])
        if value.layer == "embedding":
            output = jnp.moveaxis(output, -1, 0)
        yield output[..., :rows].reshape(group.size, -1)
