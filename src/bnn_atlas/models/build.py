"""A network as plain functions of one flat parameter vector."""

import re
from collections.abc import Callable
from typing import NamedTuple, cast

import jax
from flax import linen as nn
from flax import traverse_util
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.posterior import MLPConfig
from bnn_atlas.models.layout import Layout, Parameter
from bnn_atlas.models.mlp import MLP

CACHE_LINE = 16
"""Single-precision numbers per cache line."""


class Network(NamedTuple):
    """A network whose parameters are one flat vector in the order of `layout`."""

    layout: Layout
    arrange: Callable[[Array], Array]
    """Rows [n, ...] -> x in the arrangement that `apply` takes, which may add rows of zeros behind."""
    apply: Callable[[Array, Array], Array]
    """(parameters [layout.size], arranged x) -> outputs [outputs, rows]."""
    initialise: Callable[[Array], Array]
    """key -> parameters [layout.size], by the layers' own initialisers."""


def build_network(config: MLPConfig, inputs: int, outputs: int) -> Network:
    """Network of a model's settings for `inputs` features and `outputs` outputs."""
    module = MLP(config.hidden, outputs, config.activation, config.bias)
    return functional(module, jax.ShapeDtypeStruct((inputs, 1), jnp.float32))


def functional(module: nn.Module, example: jax.ShapeDtypeStruct) -> Network:
    """Flat-vector form of a stateless Flax module with `weight` and `bias` parameters in modules named `layer<i>`."""
    shapes = traverse_util.flatten_dict(jax.eval_shape(module.init, jax.random.key(0), example)["params"], sep=".")
    parameters = (_parameter(name, shape.shape) for name, shape in shapes.items())
    layout = Layout(tuple(sorted(parameters, key=lambda p: (p.layer is None, p.layer or 0))))

    def cut(vector: Array) -> dict[str, Array]:
        # The gradient of a split joins the pieces; that of slices would add up padded vectors, which is slower.
        pieces = jax.lax.split(vector, [p.size for p in layout.parameters])
        return {p.name: piece.reshape(p.shape) for p, piece in zip(layout.parameters, pieces, strict=True)}

    def apply(vector: Array, x: Array) -> Array:
        params = traverse_util.unflatten_dict(cut(vector), sep=".")
        return cast(Array, module.apply({"params": params}, x))

    def initialise(key: Array) -> Array:
        params = module.init(key, jnp.zeros(example.shape, example.dtype))["params"]
        return layout.flatten(traverse_util.flatten_dict(params, sep="."))

    return Network(layout, feature_major, apply, initialise)


def feature_major(x: Array) -> Array:
    """Rows [n, features] as [features, rows and up to 15 columns of zeros]: every feature starts at a cache line."""
    return jnp.pad(x.T, ((0, 0), (0, -len(x) % CACHE_LINE)))


def _parameter(name: str, shape: tuple[int, ...]) -> Parameter:
    role = name.rpartition(".")[2]
    layer = re.search(r"layer(\d+)", name)
    fan_out, fan_in = shape if role == "weight" else (shape[0], shape[0])
    return Parameter(name, shape, role, int(layer.group(1)) if layer else None, fan_in, fan_out)
