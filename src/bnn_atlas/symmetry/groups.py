"""Groups of exchangeable units of a network, and the parts of the parameters that these units index.

A symmetry is data, as in git-re-basin (Ainsworth et al. 2023), derived from the model's settings and the layout of its
parameters. A place is where units index the parameters. It can be more complex than an axis of an array: a flattened
map has several positions per channel, an LSTM's weight has four blocks of rows and two ranges of columns, and the
layers of a residual stream share their units.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple

import numpy as np

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
from bnn_atlas.models.layout import Layout

Freedom = Literal["scale", "sign"]
LARGEST_GROUP = np.iinfo(np.int16).max
"""Largest number of units in a group, since permutations are stored in 16 bits."""


class SymmetryError(ValueError):
    """Raised for a network without the requested symmetry, or arrays that are not permutations."""


@dataclass(frozen=True)
class Place:
    """A range of one axis of an array that the units of a group index.

    Index `start + (block * n + unit) * inner + position` of the axis belongs to `unit`, for n units, `blocks` blocks
    and `inner` positions. `incoming` parameters compute a unit's value; other parameters pass the value on.
    """

    array: str
    axis: int
    incoming: bool
    start: int = 0
    blocks: int = 1
    inner: int = 1

    def indices(self, units: np.ndarray) -> np.ndarray:
        """Indices [..., blocks n inner] of the axis that belong to units [..., n], in the order of the units."""
        count = units.shape[-1]
        blocks = np.arange(self.blocks)[:, None, None] * count
        found = self.start + (blocks + units[..., None, :, None]) * self.inner + np.arange(self.inner)
        return found.reshape(*units.shape[:-1], self.blocks * count * self.inner)


@dataclass(frozen=True)
class Part(Place):
    """Parameters of units that lie inside the units of another group (slots), such as the units of attention heads.

    An axis that has units in `slots` slots is read as [blocks, slots, between, units of a slot, inner]; a flattened map
    has a block for each position. With `slot_axis`, slots are blocks of that other axis, as in the weight of a grouped
    convolution [outputs, inputs of one group, ...], and `axis` has the units of one slot.
    """

    slots: int = 1
    between: int = 1
    slot_axis: int | None = None

    def indices(self, units: np.ndarray) -> np.ndarray:
        """Raises SymmetryError: a part depends on two groups, which `symmetry.permutation.transform` handles."""
        raise SymmetryError(f"{self.array}: units inside other units need symmetry.permutation.transform")


def part_of(place: Place, size: int, outer: Sequence[Place], slots: int) -> Part | None:
    """A place as a part of the outer units, on the same or another axis of an array; None if it is not inside them."""
    for other in outer:
        if other.array != place.array:
            continue
        between, rest = divmod(place.blocks, slots * other.blocks)
        own = place.array, place.axis, place.incoming, place.start, other.blocks, place.inner, slots
        if other.axis == place.axis:
            if not rest and (other.start, other.inner) == (place.start, between * size * place.inner):
                return Part(*own, between)
        elif (other.start, other.blocks, other.inner) == (0, 1, 1):
            return Part(*own, place.blocks, other.axis)
    return None


class Value(NamedTuple):
    """Where the units of a group appear in the forward pass: the activation of this layer's or block's output.

    The first axis of the activation is the units and its last axis the rows, except in an embedding
    [length, rows, units].
    """

    layer: str
    activation: str = "identity"


@dataclass(frozen=True)
class Group:
    """Units that can be exchanged without changing the function.

    `freedoms` are other changes that leave the function unchanged: `scale`, a positive factor on incoming parameters
    and the inverse factor on outgoing parameters (relu); `sign`, a factor of -1 on both (tanh).
    """

    name: str
    size: int
    places: tuple[Place, ...]
    freedoms: tuple[Freedom, ...] = ()
    values: tuple[Value, ...] = ()


@dataclass(frozen=True)
class FreeGroup(Group):
    """A group whose signs and scales concern some of its parameters only, or several sets of them.

    A factor multiplies the incoming parameters of a set and divides the outgoing ones: `signs` are the places where the
    sign of a unit acts, and each set in `scales` can be rescaled by itself. A set without outgoing parameters belongs
    to a unit that is normalised afterwards. `turned`: whether the sign of a unit also changes the sign of its `values`.
    """

    signs: tuple[Place, ...] = ()
    scales: tuple[tuple[Place, ...], ...] = ()
    turned: bool = True


@dataclass(frozen=True)
class InnerGroup(FreeGroup):
    """Units inside the units of the group `inside`, which comes earlier, with the same number of them in each.

    All places are a `Part`. The permutation [size] contains that of the outer group: unit u of slot k is put where the
    outer permutation puts slot k. Unless `exchangeable`, units keep their order in the slot and only have signs and
    scales.
    """

    inside: str = ""
    exchangeable: bool = True


def signs_of(group: Group) -> tuple[Place, ...]:
    """The places where the sign of a unit acts; empty if its sign is not free."""
    if isinstance(group, FreeGroup):
        return group.signs
    return group.places if "sign" in group.freedoms else ()


def scales_of(group: Group) -> tuple[tuple[Place, ...], ...]:
    """Sets of places, each with a free scale for every unit."""
    if isinstance(group, FreeGroup):
        return group.scales
    return (group.places,) if "scale" in group.freedoms else ()


@dataclass(frozen=True)
class Symmetry:
    """The groups of a network; the permutations of all groups are concatenated in one array [..., units]."""

    layout: Layout
    groups: tuple[Group, ...]

    @cached_property
    def units(self) -> int:
        """Total number of units in all groups."""
        return sum(group.size for group in self.groups)

    @cached_property
    def identity(self) -> np.ndarray:
        """The identity permutations [units]."""
        return self.join([np.arange(group.size) for group in self.groups])

    def split(self, units: np.ndarray) -> list[np.ndarray]:
        """Arrays [..., n] for each group, as views of one array [..., units]."""
        return np.split(units, list(accumulate(group.size for group in self.groups[:-1])), axis=-1)

    def join(self, parts: Iterable[np.ndarray]) -> np.ndarray:
        """The inverse of `split`, in 16 bits."""
        return np.concatenate([np.asarray(part, np.int16) for part in parts], axis=-1)

    def check(self, units: np.ndarray, source: str = "these permutations") -> np.ndarray:
        """Return the argument [..., units] if it permutes the units of each group; raise SymmetryError otherwise."""
        if units.shape[-1:] != (self.units,):
            raise SymmetryError(f"{source}: {units.shape[-1:]} units, but the network has {self.units}")
        for group, part in zip(self.groups, self.split(units), strict=True):
            if not np.array_equal(np.sort(part, axis=-1), np.broadcast_to(np.arange(group.size), part.shape)):
                raise SymmetryError(f"{source}: not a permutation of the {group.size} units of {group.name}")
        return units


def symmetry_of(config: ModelConfig, layout: Layout) -> Symmetry:
    """The groups of a model with this layout; SymmetryError if there are no hidden units, or too many for 16 bits."""
    builder = _Builder(layout)
    match config:
        case MLPConfig():
            names = [f"layer{index}" for index in range(len(config.hidden) + 1)]
            groups = builder.sequence(names, config.activation)
        case LeNetConfig():
            groups = builder.sequence(["conv0", "conv1", "conv2", "dense", "output"], "relu")
        case LeNet5Config() | LeNet5MaxConfig():
            groups = builder.sequence(["conv0", "conv1", "dense0", "dense1", "output"], config.activation)
        case LeNettiConfig():
            groups = builder.sequence(["conv", "dense0", "dense1", "dense2", "output"], config.activation)
        case ResNetFRNConfig():
            groups = _resnet(builder, config.activation)
        case WideResNetFRNConfig():
            groups = _wide_resnet(builder, config.activation)
        case CNNLSTMConfig():
            groups = _cnn_lstm(builder, config)
    return _checked(Symmetry(layout, tuple(groups)))


def dense_symmetry(layout: Layout) -> Symmetry:
    """The groups of a fully connected network, from its layout alone; SymmetryError for any other network."""
    layered = [(p, p.layer) for p in layout.parameters if p.layer is not None]
    others = [p.name for p, _ in layered if (p.role, len(p.shape)) not in {("weight", 2), ("bias", 1)}]
    if others:
        raise SymmetryError(f"hidden units can be permuted in fully connected networks only; this one has {others[0]}")
    count = max(layer for _, layer in layered) + 1
    return Symmetry(layout, tuple(_Builder(layout).sequence([f"layer{index}" for index in range(count)])))


def _checked(symmetry: Symmetry) -> Symmetry:
    if not symmetry.groups:
        raise SymmetryError("the network has no hidden units, so there is nothing to permute")
    for group in symmetry.groups:
        if group.size > LARGEST_GROUP:
            raise SymmetryError(f"{group.name} has {group.size:,} units; at most {LARGEST_GROUP:,} can be permuted")
    return symmetry


def _freedoms(activation: str) -> tuple[Freedom, ...]:
    found: dict[str, tuple[Freedom, ...]] = {"relu": ("scale",), "tanh": ("sign",), "identity": ("scale", "sign")}
    return found.get(activation, ())


class _Builder:
    """Builds the places of layers from the layers' names."""

    def __init__(self, layout: Layout) -> None:
        self.layers: dict[str, dict[str, tuple[int, ...]]] = {}
        for parameter in layout.parameters:
            layer, _, name = parameter.name.rpartition(".")
            self.layers.setdefault(layer, {})[name] = parameter.shape

    def width(self, layer: str) -> int:
        """Number of outputs of a layer."""
        return self.layers[layer]["weight"][0]

    def outputs(self, *layers: str) -> list[Place]:
        """Places of the outputs of these layers: the first axis of all their arrays."""
        return [Place(f"{layer}.{name}", 0, True) for layer in layers for name in self.layers[layer]]

    def inputs(self, size: int, *layers: str) -> list[Place]:
        """Places of the inputs of these layers from `size` units; dense layers after maps have several per unit."""
        shapes = [(layer, self.layers[layer]["weight"]) for layer in layers]
        return [Place(f"{layer}.weight", 1, False, inner=shape[1] // size) for layer, shape in shapes]

    def sequence(self, layers: Sequence[str], activation: str = "") -> list[Group]:
        """A group for the outputs of each layer except the last; the outputs are the inputs of the next layer."""
        groups = []
        for layer, after in pairwise(layers):
            size = self.width(layer)
            places = (*self.outputs(layer), *self.inputs(size, after))
            groups.append(Group(layer, size, places, _freedoms(activation), (Value(layer, activation),)))
        return groups

    @property
    def blocks(self) -> list[str]:
        """Residual blocks in order, as prefixes of the names of their layers."""
        return [layer.removesuffix(".conv0") for layer in self.layers if layer.endswith(".conv0")]


@dataclass
class _Stream:
    """Units that the layers of a residual stream share."""

    size: int
    places: list[Place]
    values: list[Value]


def _resnet(builder: _Builder, activation: str) -> list[Group]:
    """One group inside each block, and one for each stream, since all blocks of a stream share its units."""
    start = builder.outputs("stem_conv", "stem_norm")
    inside, streams = [], [_Stream(builder.width("stem_conv"), start, [Value("stem_norm", activation)])]
    for block in builder.blocks:
        size = builder.width(f"{block}.conv0")
        places = [*builder.outputs(f"{block}.conv0", f"{block}.norm0"), *builder.inputs(size, f"{block}.conv1")]
        inside.append(Group(block, size, tuple(places), values=(Value(f"{block}.norm0", activation),)))
        streams[-1].places += builder.inputs(streams[-1].size, f"{block}.conv0")
        if f"{block}.shortcut_conv" in builder.layers:
            streams[-1].places += builder.inputs(streams[-1].size, f"{block}.shortcut_conv")
            start = builder.outputs(f"{block}.shortcut_conv", f"{block}.shortcut_norm")
            streams.append(_Stream(builder.width(f"{block}.shortcut_conv"), start, []))
        streams[-1].places += builder.outputs(f"{block}.conv1", f"{block}.norm1")
        streams[-1].values.append(Value(block))
    streams[-1].places += builder.inputs(streams[-1].size, "output")
    return [*_stream_groups(streams), *inside]


def _wide_resnet(builder: _Builder, activation: str) -> list[Group]:
    """Groups of a residual network with norms before convolutions; each norm belongs to its input units."""
    start = builder.outputs("stem_conv")
    inside, streams = [], [_Stream(builder.width("stem_conv"), start, [Value("stem_conv")])]
    for block in builder.blocks:
        size = builder.width(f"{block}.conv0")
        places = [*builder.outputs(f"{block}.conv0", f"{block}.norm1"), *builder.inputs(size, f"{block}.conv1")]
        inside.append(Group(block, size, tuple(places), values=(Value(f"{block}.norm1", activation),)))
        streams[-1].places += [*builder.outputs(f"{block}.norm0"), *builder.inputs(streams[-1].size, f"{block}.conv0")]
        if f"{block}.shortcut" in builder.layers:
            streams[-1].places += builder.inputs(streams[-1].size, f"{block}.shortcut")
            streams.append(_Stream(builder.width(f"{block}.shortcut"), builder.outputs(f"{block}.shortcut"), []))
        streams[-1].places += builder.outputs(f"{block}.conv1")
        streams[-1].values.append(Value(block))
    streams[-1].places += [*builder.outputs("norm"), *builder.inputs(streams[-1].size, "output")]
    return [*_stream_groups(streams), *inside]


def _stream_groups(streams: list[_Stream]) -> list[Group]:
    return [
        Group(f"stream{number}", stream.size, tuple(stream.places), values=tuple(stream.values))
        for number, stream in enumerate(streams)
    ]


def _cnn_lstm(builder: _Builder, config: CNNLSTMConfig) -> list[Group]:
    """Groups of embedding entries, of filters, and of cells, which have a row in each of the four gates' blocks."""
    embedding = (Place("embedding.table", 1, True), *builder.inputs(config.embedding, "conv"))
    filters = (*builder.outputs("conv"), Place("lstm.weight", 1, False))
    cells = (
        Place("lstm.weight", 0, True, blocks=4),
        Place("lstm.bias", 0, True, blocks=4),
        Place("lstm.weight", 1, False, start=config.filters),
        *builder.inputs(config.cells, "output"),
    )
    return [
        Group("embedding", config.embedding, embedding, ("scale", "sign"), (Value("embedding"),)),
        Group("conv", config.filters, filters, _freedoms(config.activation), (Value("conv", config.activation),)),
        Group("lstm", config.cells, cells, values=(Value("lstm"),)),
    ]
