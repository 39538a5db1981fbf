"""A network as plain functions of one flat parameter vector."""

import math
from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple, cast

import jax
import numpy as np
from flax import linen as nn
from flax import traverse_util
from jax import Array
from jax import numpy as jnp
from jax.scipy.special import logsumexp

from bnn_atlas import runtime
from bnn_atlas.config.methods.base import AugmentationConfig
from bnn_atlas.config.parts.posterior import (
    CNNLSTMConfig,
    LeNet5Config,
    LeNet5MaxConfig,
    LeNetConfig,
    LeNettiConfig,
    MLPConfig,
    ModelConfig,
    ResNetFRNConfig,
    WideResNetFRNConfig,
)
from bnn_atlas.models.cnn_lstm import CNNLSTM
from bnn_atlas.models.layout import Layout, Parameter
from bnn_atlas.models.lenet import LeNet, LeNet5, LeNet5Max, LeNetti
from bnn_atlas.models.mlp import MLP
from bnn_atlas.models.resnet_frn import ResNetFRN, WideResNetFRN

CACHE_LINE = 16
"""Single-precision numbers per cache line."""
PIECE = 16
"""Number of images that a convolutional network processes together on a CPU, so that activations stay in the caches."""
PIECE_BYTES = 2**19
"""Bytes of hidden activations, in single precision, that a dense network computes together on a CPU."""
ROWS_PER_UNIT = 4
"""Smallest number of rows computed together per unit of the widest layer; with fewer, reading the weights dominates."""


class ShapeError(ValueError):
    """Raised for a model that cannot take rows of this shape."""


class Network(NamedTuple):
    """A network whose parameters are one flat vector in the order of `layout`."""

    layout: Layout
    arrange: Callable[[Array], Array]
    """Rows [n, ...] -> x in the form that `apply` takes, possibly with rows of zeros appended."""
    apply: Callable[[Array, Array], Array]
    """(parameters [layout.size], arranged x) -> outputs [outputs, rows]."""
    initialise: Callable[[Array], Array]
    """key -> parameters [layout.size], from the layers' initialisers."""
    piece: int | None = None
    """Number of rows that are computed together, chosen to fit a CPU's caches; None for all rows."""


def build_network(config: ModelConfig, shape: tuple[int, ...], outputs: int, vocabulary: int = 0) -> Network:
    """Build a network from its settings for rows of this shape.

    Args:
        config: the model.
        shape: shape of one row: (features,), (height, width, channels), or (length,) for tokens.
        outputs: width of the last layer.
        vocabulary: number of token ids; 0 for rows of numbers.

    Raises:
        ShapeError: the model cannot take rows of this kind or size.
    """
    _check(config, shape, vocabulary)
    match config:
        case MLPConfig():
            module = MLP(config.hidden, outputs, config.activation, config.bias)
            example = jax.ShapeDtypeStruct((math.prod(shape), 1), jnp.float32)
            return functional(module, example, feature_major, on_cpu(piece_of(config.hidden)))
        case LeNetConfig():
            return _of_images(LeNet(outputs), shape)
        case LeNet5Config():
            return _of_images(LeNet5(outputs, config.activation), shape)
        case LeNet5MaxConfig():
            return _of_images(LeNet5Max(outputs, config.activation), shape)
        case LeNettiConfig():
            return _of_images(LeNetti(outputs, config.activation), shape)
        case ResNetFRNConfig():
            return _of_images(ResNetFRN(outputs, config.depth, config.activation), shape)
        case WideResNetFRNConfig():
            return _of_images(WideResNetFRN(outputs, config.depth, config.widen, config.activation), shape)
        case CNNLSTMConfig():
            sizes = config.model_dump(exclude={"kind"})
            tokens = jax.ShapeDtypeStruct((*shape, 1), jnp.int32)
            return functional(CNNLSTM(outputs, vocabulary, **sizes), tokens, token_major)


def _of_images(module: nn.Module, shape: tuple[int, ...]) -> Network:
    height, width, channels = shape
    example = jax.ShapeDtypeStruct((channels, height, width, 1), jnp.result_type(float))
    return functional(module, example, image_major, on_cpu(PIECE))


def on_cpu(piece: int | None) -> int | None:
    """`piece` on a CPU; None elsewhere."""
    return piece if runtime.on_cpu() else None


def piece_of(hidden: tuple[int, ...]) -> int | None:
    """Rows that a dense network computes together on a CPU; None for a linear model, which has no activations.

    The number has `PIECE_BYTES` of hidden activations, but at least `ROWS_PER_UNIT` rows for each unit of the widest
    layer, and is rounded up to whole cache lines. The number depends on the widths and not on the machine, since
    rounding depends on the number.
    """
    if not hidden:
        return None
    rows = max(PIECE_BYTES // (4 * sum(hidden)), ROWS_PER_UNIT * max(hidden))
    return -(-rows // CACHE_LINE) * CACHE_LINE


def _check(config: ModelConfig, shape: tuple[int, ...], vocabulary: int) -> None:
    """Raise ShapeError for rows that the model cannot take."""
    tokens, image = vocabulary > 0, vocabulary == 0 and len(shape) == 3
    match config:
        case MLPConfig():
            allowed, fits = "tables (features,) and images (height, width, channels)", not tokens
        case LeNetConfig():
            allowed, fits = "images (height, width, channels) of at least 15x15", image and min(shape[:2]) >= 15
        case LeNet5Config():
            allowed, fits = "images (height, width, channels) of at least 12x12", image and min(shape[:2]) >= 12
        case LeNet5MaxConfig():
            allowed, fits = "images (height, width, channels) of at least 16x16", image and min(shape[:2]) >= 16
        case LeNettiConfig():
            allowed, fits = "images (height, width, channels)", image
        case ResNetFRNConfig() | WideResNetFRNConfig():
            allowed, fits = "images (height, width, channels) of at least 4x4", image and min(shape[:2]) >= 4
        case CNNLSTMConfig():
            shortest = config.kernel + config.pool - 1
            allowed = f"tokens (length,) of a vocabulary, at least {shortest} per row (kernel + pool - 1)"
            fits = tokens and len(shape) == 1 and shape[0] >= shortest
    if not fits or not shape or min(shape) < 1:
        kind = f"tokens of a vocabulary of {vocabulary}" if tokens else "numbers"
        raise ShapeError(f"model '{config.kind}' needs {allowed}, but a row of the data has {kind} of shape {shape}")


def functional(
    module: nn.Module,
    example: jax.ShapeDtypeStruct,
    arrange: Callable[[Array], Array],
    piece: int | None = None,
) -> Network:
    """A stateless Flax module as functions of a flat vector.

    Layers (modules with their own parameters) are numbered and ordered by their first call, and parameters within a
    layer by name. Roles and fans follow from the parameters' names; see `_parameter`.

    Args:
        module: returns outputs [outputs, rows].
        example: an arranged x with any number of rows.
        arrange: as in `Network`; the rows come last.
        piece: as in `Network`.
    """
    layout = _layout(module, example)

    def cut(vector: Array) -> dict[str, Array]:
        # The gradient of a split joins the pieces; the gradient of slices would sum padded vectors, which is slower.
        pieces = jax.lax.split(vector, [p.size for p in layout.parameters])
        return {p.name: piece.reshape(p.shape) for p, piece in zip(layout.parameters, pieces, strict=True)}

    def apply(vector: Array, x: Array) -> Array:
        params = traverse_util.unflatten_dict(cut(vector), sep=".")
        return _in_pieces(lambda part: cast(Array, module.apply({"params": params}, part)), x, piece)

    def initialise(key: Array) -> Array:
        params = module.init(key, jnp.zeros(example.shape, example.dtype))["params"]
        return layout.flatten(traverse_util.flatten_dict(params, sep="."))

    return Network(layout, arrange, apply, initialise, piece)


def _in_pieces(function: Callable[[Array], Array], x: Array, piece: int | None) -> Array:
    """function(x) [outputs, rows] for x [..., rows], with at most `piece` rows at a time."""
    rows = x.shape[-1]
    if piece is None or rows <= piece:
        return function(x)
    count = -(-rows // piece)
    padded = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, -rows % piece)])
    parts = jax.lax.map(function, jnp.moveaxis(padded.reshape(*x.shape[:-1], count, piece), -2, 0))
    return jnp.moveaxis(parts, 0, 1).reshape(parts.shape[1], -1)[:, :rows]


def feature_major(x: Array) -> Array:
    """Rows [n, ...] as [features, n + up to 15 columns of zeros], so that every feature starts on a cache line."""
    flat = x.reshape(len(x), -1).T
    return jnp.pad(flat, ((0, 0), (0, -len(x) % CACHE_LINE)))


def image_major(x: Array) -> Array:
    """Images [n, height, width, channels] as [channels, height, width, rows]."""
    return x.transpose(3, 1, 2, 0)


def token_major(x: Array) -> Array:
    """Tokens [n, length] as [length, rows]."""
    return x.T


def _layout(module: nn.Module, example: jax.ShapeDtypeStruct) -> Layout:
    called: list[str] = []

    def watch(call: Callable[..., Any], args: Any, kwargs: Any, context: nn.module.InterceptorContext) -> Any:
        called.append(".".join(context.module.path))
        return call(*args, **kwargs)

    with nn.intercept_methods(watch):
        shapes = jax.eval_shape(lambda x: module.init(jax.random.key(0), x), example)["params"]
    flat = traverse_util.flatten_dict(shapes, sep=".")
    owners = {name.rpartition(".")[0] for name in flat}
    layers = [path for path in dict.fromkeys(called) if path in owners]
    parameters = (_parameter(name, leaf.shape, layers.index(name.rpartition(".")[0])) for name, leaf in flat.items())
    return Layout(tuple(sorted(parameters, key=lambda p: (p.layer, p.name))))


def _parameter(name: str, shape: tuple[int, ...], layer: int) -> Parameter:
    """Role and fans of a parameter.

    `weight` is [out, in, *kernel], with fans that count the kernel's positions (an LSTM's four gates all count as out).
    `table` has one row per token; an output is one entry and not a sum, so fan_in is 1. All other parameters have one
    entry per output.
    """
    kind = name.rpartition(".")[2]
    match kind:
        case "weight":
            out, into, *kernel = shape
            area = math.prod(kernel)
            return Parameter(name, shape, "weight", layer, into * area, out * area)
        case "table":
            return Parameter(name, shape, "weight", layer, 1, shape[1])
        case _:
            return Parameter(name, shape, kind, layer, shape[0], shape[0])


def over_orbit(network: Network, orbit: AugmentationConfig, shape: tuple[int, ...]) -> Network:
    """The network with outputs log (1 / K) sum_k softmax f(g_k x), over the K changes of `orbit_of`.

    The softmax of these outputs is the mean of the probabilities. Raises ShapeError for rows that are not images.
    """
    if len(shape) != 3:
        raise ShapeError(f"an orbit needs images (height, width, channels), but a row of the data has shape {shape}")

    def arrange(x: Array) -> Array:
        return jax.vmap(network.arrange)(orbit_of(x, orbit))

    def apply(vector: Array, x: Array) -> Array:
        log_probs = jax.vmap(lambda view: jax.nn.log_softmax(network.apply(vector, view), axis=0))(x)
        return logsumexp(log_probs, axis=0) - math.log(len(x))

    return network._replace(arrange=arrange, apply=apply)


def orbit_of(images: Array, orbit: AugmentationConfig) -> Array:
    """Images [n, height, width, channels] after each of the K possible changes of an augmentation, [K, n, ...].

    The changes are (2 crop + 1)^2 shifts by whole pixels, with the outermost pixels repeated; with `flip`, each shift
    also appears mirrored left to right, as in `methods.minibatch.augmented`.
    """
    height, width = images.shape[1:3]
    moves = range(-orbit.crop, orbit.crop + 1)
    changes = np.array(list(product(moves, moves, (False, True) if orbit.flip else (False,))))
    down, right, flipped = (changes[:, [column]] for column in range(3))
    rows = np.clip(np.arange(height) + down, 0, height - 1)
    columns = np.clip(np.arange(width) + right, 0, width - 1)
    columns = np.where(flipped, width - 1 - columns, columns)
    return jnp.moveaxis(images[:, rows[:, :, None], columns[:, None, :]], 1, 0)
