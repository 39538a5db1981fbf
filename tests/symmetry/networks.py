"""A small network of every model with random parameters, and its function by plain formulas.

Besides the models there are two that only these tests have: a LLaMA-like block and a grouped convolution.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import numpy as np
from flax import linen as nn
from jax import numpy as jnp

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
from bnn_atlas.models.cnn_lstm import Embedding
from bnn_atlas.models.layout import Layout
from bnn_atlas.models.networks import Network, build_network, functional, image_major, token_major
from bnn_atlas.symmetry.groups import FreeGroup, Group, InnerGroup, Part, Place, Symmetry, Value
from bnn_atlas.symmetry.layers import free_symmetry

from ..models import reference

Function = Callable[[reference.Arrays, np.ndarray], np.ndarray]


def mlp(p: reference.Arrays, x: np.ndarray, activation: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    names = [name for name in p if name.endswith(".weight")]
    for name in names[:-1]:
        x = activation(p[name] @ x + p.get(name.replace("weight", "bias"), 0.0))
    return p[names[-1]] @ x + p.get(names[-1].replace("weight", "bias"), 0.0)


CASES: dict[str, tuple[ModelConfig, tuple[int, ...], Function]] = {
    "mlp": (MLPConfig(hidden=(7, 5, 6)), (4,), partial(mlp, activation=reference.relu)),
    "mlp_tanh": (MLPConfig(hidden=(6, 5), activation="tanh"), (4,), partial(mlp, activation=np.tanh)),
    "mlp_no_bias": (MLPConfig(hidden=(6,), bias=False), (4,), partial(mlp, activation=reference.relu)),
    "lenet": (LeNetConfig(), (28, 28, 1), reference.lenet),
    "lenet5": (LeNet5Config(activation="tanh"), (16, 16, 3), partial(reference.lenet5, activation=np.tanh)),
    "lenet5_max": (LeNet5MaxConfig(), (16, 16, 1), reference.lenet5_max),
    "lenetti": (LeNettiConfig(), (6, 6, 1), reference.lenetti),
    "resnet_frn": (ResNetFRNConfig(depth=8), (7, 7, 3), reference.resnet),
    "wide_resnet_frn": (WideResNetFRNConfig(depth=10, widen=1), (6, 6, 3), reference.wide_resnet),
    "wide_resnet_frn_2": (WideResNetFRNConfig(depth=16, widen=2), (6, 6, 3), reference.wide_resnet),
    "cnn_lstm": (
        CNNLSTMConfig(embedding=5, filters=4, kernel=3, pool=2, cells=6),
        (12,),
        partial(reference.cnn_lstm, size=2),
    ),
}


class Dense(nn.Module):
    """W x for x [inputs, length, rows]; W [outputs, inputs], with a bias if asked for."""

    outputs: int
    bias: bool = False

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        weight = self.param("weight", nn.initializers.normal(1.0), (self.outputs, x.shape[0]))
        y = jnp.einsum("oi,ilr->olr", weight, x)
        return y + self.param("bias", nn.initializers.zeros, (self.outputs,))[:, None, None] if self.bias else y


class Norm(nn.Module):
    """Root-mean-square norm over the features, with gains."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        gain = self.param("gain", nn.initializers.ones, (x.shape[0],))
        return x / jnp.sqrt((x**2).mean(axis=0) + 1e-6) * gain[:, None, None]


class Llama(nn.Module):
    """A decoder block: grouped-query attention, with or without rotary embedding, and a gated layer, on a stream."""

    outputs: int = 3
    vocabulary: int = 40
    width: int = 12
    heads: int = 6
    shared: int = 3
    head_width: int = 6
    hidden: int = 9
    rotary: bool = True

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = jnp.moveaxis(Embedding(self.vocabulary, self.width, name="embedding")(tokens), -1, 0)
        length, d, kept = len(tokens), self.head_width, self.heads // self.shared
        h = Norm(name="norm0")(x)
        q = Dense(self.heads * d, True, name="query")(h).reshape(kept, self.shared, d, length, -1)
        k = Dense(kept * d, True, name="key")(h).reshape(kept, d, length, -1)
        v = Dense(kept * d, True, name="value")(h).reshape(kept, d, length, -1)
        if self.rotary:
            q, k = turn(q, 2), turn(k, 1)
        scores = jnp.einsum("ksdtr,kdur->kstur", q, k) / np.sqrt(d)
        scores = jnp.where(np.tri(length)[:, :, None] > 0, scores, -jnp.inf)
        mixed = jnp.einsum("kstur,kdur->ksdtr", jax.nn.softmax(scores, axis=3), v)
        x = x + Dense(self.width, name="out")(mixed.reshape(self.heads * d, length, -1))
        h = Norm(name="norm1")(x)
        gated = jax.nn.silu(Dense(self.hidden, name="gate")(h)) * Dense(self.hidden, name="up")(h)
        x = x + Dense(self.width, name="down")(gated)
        return Dense(self.outputs, name="output")(Norm(name="norm2")(x))[:, -1]


def turn(x: jax.Array, axis: int) -> jax.Array:
    """Units i and i + d / 2 of an axis [d], turned by the angle t 100^(-2 i / d) at position t along the next axis."""
    half, length = x.shape[axis] // 2, x.shape[axis + 1]
    angles = (100.0 ** -(np.arange(half) / half))[:, None] * np.arange(length)
    shape = (half, length, *(1,) * (x.ndim - axis - 2))
    cos, sin = np.cos(angles).reshape(shape), np.sin(angles).reshape(shape)
    low, high = jnp.split(x, 2, axis=axis)
    return jnp.concatenate([low * cos - high * sin, low * sin + high * cos], axis=axis)


def llama(p: reference.Arrays, tokens: np.ndarray, rotary: bool = True, heads: int = 6, shared: int = 3) -> np.ndarray:
    """`Llama` for one row by loops over heads and positions; a pair of units is a complex number that is rotated."""

    def norm(name: str, x: np.ndarray) -> np.ndarray:
        return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + 1e-6) * p[f"{name}.gain"]

    x = p["embedding.table"][tokens]
    h, d = norm("norm0", x), p["query.weight"].shape[0] // heads

    def units(name: str, head: int) -> np.ndarray:
        rows = slice(head * d, (head + 1) * d)
        values: np.ndarray = h @ p[f"{name}.weight"][rows].T + p[f"{name}.bias"][rows]
        return values

    def pairs(values: np.ndarray) -> np.ndarray:
        steps = np.arange(len(values))[:, None] * 100.0 ** -(np.arange(d // 2) / (d // 2))
        turned: np.ndarray = (values[:, : d // 2] + 1j * values[:, d // 2 :]) * np.exp(1j * steps)
        return turned

    mixed = np.zeros((len(x), heads * d))
    for head in range(heads):
        q, k, v = units("query", head), units("key", head // shared), units("value", head // shared)
        scores = (pairs(q) @ pairs(k).conj().T).real if rotary else q @ k.T
        for t in range(len(x)):
            weights = np.exp(scores[t, : t + 1] / np.sqrt(d))
            mixed[t, head * d : (head + 1) * d] = weights / weights.sum() @ v[: t + 1]
    x = x + mixed @ p["out.weight"].T
    h = norm("norm1", x)
    x = x + (reference.silu(h @ p["gate.weight"].T) * (h @ p["up.weight"].T)) @ p["down.weight"].T
    last: np.ndarray = p["output.weight"] @ norm("norm2", x)[-1]
    return last


NORMS = {"norm0": ("query", "key", "value"), "norm1": ("gate", "up"), "norm2": ("output",)}


def outputs_of(layout: Layout, layer: str, inner: int = 1) -> list[Place]:
    """The first axis of a layer's weight and bias, in blocks of `inner`."""
    there = {p.name for p in layout.parameters}
    return [Place(name, 0, True, inner=inner) for name in (f"{layer}.weight", f"{layer}.bias") if name in there]


def parts_of(
    layout: Layout, layer: str, slots: int, between: int = 1, inner: int = 1, *, incoming: bool = True
) -> list[Part]:
    """The same of units inside `slots` others."""
    places = outputs_of(layout, layer)
    return [Part(p.array, 0, incoming, inner=inner, slots=slots, between=between) for p in places]


def attention_groups(
    layout: Layout, query: str, key: str, value: str, output: str, heads: int, slots: int, rotary: bool = False
) -> list[Group]:
    """Key-value heads with their query heads (Ainslie et al. 2023), and what can be exchanged inside them.

    With H heads on K = `slots` key-value heads, scores q'k and outputs W_o [sum_s a_s v_s] stay the same if one changes
    the order of key-value heads; of the query heads of one; of the units of v, with columns of W_o; and of the units of
    q and k. With rotary embedding (Su et al. 2021) units i and i + d / 2 of a head turn together, by an angle that
    depends on i: pairs keep their order, and have a sign and a scale.
    """
    widths = {p.name: p.shape[0] for p in layout.parameters}
    shared, d, e = heads // slots, widths[f"{key}.weight"] // slots, widths[f"{value}.weight"] // slots
    leaving, halves = f"{output}.weight", 2 if rotary else 1
    outer = [
        *outputs_of(layout, query, shared * d),
        *outputs_of(layout, key, d),
        *outputs_of(layout, value, e),
        Place(leaving, 1, False, inner=shared * e),
    ]
    of_values = (*parts_of(layout, value, slots), Part(leaving, 1, False, slots=slots, between=shared))
    of_keys = (
        *parts_of(layout, query, slots, shared * halves),
        *parts_of(layout, key, slots, halves, incoming=False),
    )
    free = {"inside": "heads"}
    groups: list[Group] = [
        Group("heads", slots, tuple(outer), values=(Value(query), Value(key), Value(value))),
        InnerGroup("heads.values", slots * e, of_values, signs=of_values, scales=(of_values,), **free),
        InnerGroup(
            "heads.keys",
            slots * d // halves,
            of_keys,
            signs=of_keys,
            scales=(of_keys,),
            exchangeable=not rotary,
            **free,
        ),
    ]
    if shared > 1:
        of_queries = (*parts_of(layout, query, slots, inner=d), Part(leaving, 1, False, inner=e, slots=slots))
        groups.append(InnerGroup("heads.queries", heads, of_queries, **free))
    return groups


def gated_group(layout: Layout) -> Group:
    """Hidden units of down (silu(gate x) * up x) (Shazeer 2020); signs and scales are those of up and down."""
    free = (*outputs_of(layout, "up"), Place("down.weight", 1, False))
    size = next(p.shape[0] for p in layout.parameters if p.name == "up.weight")
    places = (*outputs_of(layout, "gate"), *free)
    return FreeGroup("hidden", size, places, values=(Value("up"),), signs=free, scales=(free,))


def grouped_symmetry(layout: Layout, activations: tuple[str, str]) -> Symmetry:
    """Three groups of a grouped convolution, and the channels in them, between two layers that are not grouped."""
    shapes = {p.name: p.shape for p in layout.parameters}
    (size, per_group), columns = shapes["grouped.weight"][:2], shapes["output.weight"][1]
    size, positions = size // 3, columns // size
    outer = (
        *outputs_of(layout, "before", per_group),
        *outputs_of(layout, "grouped", size),
        Place("output.weight", 1, False, inner=size * positions),
    )
    entering = (*parts_of(layout, "before", 3), Part("grouped.weight", 1, False, slots=3, slot_axis=0))
    leaving = (*parts_of(layout, "grouped", 3), Part("output.weight", 1, False, inner=positions, slots=3))

    def inner(name: str, count: int, places: tuple[Place, ...], activation: str) -> Group:
        signs = places if activation == "tanh" else ()
        scales = (places,) if activation == "relu" else ()
        return InnerGroup(name, 3 * count, places, signs=signs, scales=scales, inside="groups")

    values = (Value("before", activations[0]), Value("grouped", activations[1]))
    groups = (
        Group("groups", 3, outer, values=values),
        inner("groups.inputs", per_group, entering, activations[0]),
        inner("groups.outputs", size, leaving, activations[1]),
    )
    return Symmetry(layout, groups)


def llama_symmetry(layout: Layout, rotary: bool) -> Symmetry:
    """A norm is the same for -x up to its sign: units of the stream have a sign, and those of each norm one more."""
    gains = [Place(f"{norm}.gain", 0, True) for norm in NORMS]
    written = [Place("embedding.table", 1, True), *(Place(f"{name}.weight", 0, True) for name in ("out", "down"))]
    read = [Place(f"{name}.weight", 1, False) for names in NORMS.values() for name in names]
    after_norms = []
    for norm, layers in NORMS.items():
        free = (
            Part(f"{norm}.gain", 0, True, slots=12),
            *(Part(f"{layer}.weight", 1, False, slots=12) for layer in layers),
        )
        after_norms.append(InnerGroup(norm, 12, free, signs=free, scales=(free,), inside="stream", exchangeable=False))
    stream = (*written, *gains, *read)
    values = (Value("embedding"),)
    groups = (
        FreeGroup("stream", 12, stream, values=values, signs=(*written, *read)),
        *after_norms,
        *attention_groups(layout, "query", "key", "value", "out", heads=6, slots=2, rotary=rotary),
        gated_group(layout),
    )
    return Symmetry(layout, groups)


class Grouped(nn.Module):
    """Three convolutions of kernel 3 on images, the second one in groups, each followed by `activation`; outputs."""

    activations: tuple[str, str]
    outputs: int = 3
    groups: int = 3

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for name, filters, groups, activation in (
            ("before", 9, 1, self.activations[0]),
            ("grouped", 12, self.groups, self.activations[1]),
        ):
            x = GroupedConvolution(filters, groups, name=name)(x)
            x = {"relu": jax.nn.relu, "tanh": jnp.tanh}[activation](x)
        return Dense(self.outputs, True, name="output")(x.reshape(-1, 1, x.shape[-1]))[:, 0]


class GroupedConvolution(nn.Module):
    filters: int
    groups: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        shape = (self.filters, x.shape[0] // self.groups, 3, 3)
        weight = self.param("weight", nn.initializers.normal(1.0), shape)
        bias = self.param("bias", nn.initializers.zeros, (self.filters,))
        layout = ("CHWN", "OIHW", "CHWN")
        y = jax.lax.conv_general_dilated(
            x, weight, (1, 1), "SAME", dimension_numbers=layout, feature_group_count=self.groups
        )
        return y + bias[:, None, None, None]


def grouped(p: reference.Arrays, x: np.ndarray, activations: tuple[str, str], groups: int = 3) -> np.ndarray:
    """`Grouped` for one image, group by group."""
    first, second = ({"relu": reference.relu, "tanh": np.tanh}[name] for name in activations)
    x = first(reference.conv(p, "before", x))
    parts = []
    for inputs, weight, bias in zip(
        np.split(x, groups, axis=2),
        np.split(p["grouped.weight"], groups),
        np.split(p["grouped.bias"], groups),
        strict=True,
    ):
        parts.append(reference.conv({"part.weight": weight, "part.bias": bias}, "part", inputs))
    return reference.dense(p, "output", reference.flat(second(np.concatenate(parts, axis=2))))


TOKENS = jax.ShapeDtypeStruct((7, 1), jnp.int32)
IMAGES = jax.ShapeDtypeStruct((2, 5, 5, 1), jnp.float32)
Described = tuple[Callable[[], Network], Callable[[Layout], Symmetry], tuple[int, ...], Function]
DESCRIBED: dict[str, Described] = {
    **{
        name: (
            partial(functional, Llama(rotary=rotary), TOKENS, token_major),
            partial(llama_symmetry, rotary=rotary),
            (7,),
            partial(llama, rotary=rotary),
        )
        for name, rotary in (("llama", True), ("attention", False))
    },
    **{
        f"grouped_{first}_{second}": (
            partial(functional, Grouped((first, second)), IMAGES, image_major),
            partial(grouped_symmetry, activations=(first, second)),
            (5, 5, 2),
            partial(grouped, activations=(first, second)),
        )
        for first, second in (("relu", "tanh"), ("tanh", "relu"))
    },
}
"""Networks whose symmetries are described by hand: the network, its symmetry, the shape of a row, its formula."""


class Example(NamedTuple):
    network: ModelConfig | Network
    layout: Layout
    symmetry: Symmetry
    theta: np.ndarray
    x: np.ndarray
    function: Function
    vocabulary: int = 0

    @property
    def config(self) -> Any:
        """Settings, or the network as functions where there are none."""
        return self.network

    def outputs(self, theta: np.ndarray) -> np.ndarray:
        """Outputs [m, rows, outputs] of parameters [m, P]."""
        arrays = [self.layout.unflatten(one) for one in theta]
        return np.array([[self.function(each, row) for row in self.x] for each in arrays])

    def rows(self, count: int) -> np.ndarray:
        """Random rows as the network takes them."""
        return _rows(np.random.default_rng(0), (count, *self.x.shape[1:]), self.vocabulary)


def _rows(numbers: np.random.Generator, shape: tuple[int, ...], vocabulary: int) -> np.ndarray:
    if vocabulary:
        return numbers.integers(vocabulary, size=shape).astype(np.int32)
    return numbers.normal(size=shape)


@cache
def example(name: str) -> Example:
    numbers = np.random.default_rng(0)
    network: ModelConfig | Network
    if name in DESCRIBED:
        build, described, shape, function = DESCRIBED[name]
        network, vocabulary = build(), 40 if len(DESCRIBED[name][2]) == 1 else 0
        layout = network.layout
        symmetry = described(layout)
    else:
        network, shape, function = CASES[name]
        vocabulary = 9 if network.kind == "cnn_lstm" else 0
        layout = build_network(network, shape, 3, vocabulary).layout
        symmetry = free_symmetry(network, layout)
    scale = [np.full(p.size, 1.5 / np.sqrt(p.fan_in) if p.role == "weight" else 0.3) for p in layout.parameters]
    theta = np.concatenate(scale) * numbers.normal(size=layout.size)
    x = _rows(numbers, (2, *shape), vocabulary)
    return Example(network, layout, symmetry, theta, x, function, vocabulary)
