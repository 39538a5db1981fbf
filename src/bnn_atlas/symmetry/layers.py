"""Symmetries of a model's layers beyond the exchange of units: signs and scales."""

from dataclasses import replace

from bnn_atlas.config.parts.posterior import (
    CNNLSTMConfig,
    ModelConfig,
    ResNetFRNConfig,
    WideResNetFRNConfig,
)
from bnn_atlas.models.layout import Layout
from bnn_atlas.symmetry.groups import FreeGroup, Group, Place, Symmetry, symmetry_of

HOMOGENEOUS = ("relu", "identity")
"""Activations with f(s x) = s f(x) for s > 0."""


def free_symmetry(config: ModelConfig, layout: Layout) -> Symmetry:
    """The groups of a model as in `symmetry_of`, with all signs and scales that leave its function unchanged.

    - Filters before a filter response norm, y = max(g x / sqrt(mean x^2 + e) + b, t): the scale of x is free up to e
      (`permutation.balanced` says how exact), and its sign together with that of g.
    - (g, b, t) before a relu have a scale, with its inverse in the layer that follows.
    - Cells of an LSTM: c and h = sigmoid(o) tanh(c) change sign with the rows g, which enter through tanh. The rows i,
      f and o stay; the columns that read h change sign, those of all gates and of the next layer.

    Each filter that writes into a stream of `resnet_frn` has a sign together with its gain. A unit has one sign here,
    so these are left out.
    """
    symmetry = symmetry_of(config, layout)
    match config:
        case ResNetFRNConfig() | WideResNetFRNConfig():
            homogeneous = config.activation in HOMOGENEOUS
            groups = [_normed(group, homogeneous, isinstance(config, ResNetFRNConfig)) for group in symmetry.groups]
        case CNNLSTMConfig():
            groups = [_cells(group) if group.name == "lstm" else group for group in symmetry.groups]
        case _:
            return symmetry
    return replace(symmetry, groups=tuple(groups))


def _normed(group: Group, homogeneous: bool, norm_first: bool) -> Group:
    """A group of a residual network; `norm_first`: whether filters have their norm before they enter the stream."""
    is_stream = group.name.startswith("stream")
    gains = {_layer(place) for place in group.places if place.array.endswith(".gain")}
    norms = [place for place in group.places if _layer(place) in gains]
    filters = [place for place in group.places if place.incoming and _layer(place) not in gains]
    leaving = [place for place in group.places if not place.incoming]
    own = norm_first and is_stream
    scales = [_of(filters, layer) for layer in dict.fromkeys(map(_layer, filters))] if own else [tuple(filters)]
    if homogeneous and own:
        scales.append((*norms, *leaving))
    elif homogeneous:
        read = {layer: [p for p in leaving if _block(p) == layer.rpartition(".")[0]] for layer in sorted(gains)}
        scales += [(*_of(norms, layer), *after) for layer, after in read.items()]
    turned_gains = [replace(place, incoming=False) for place in norms if place.array.endswith(".gain")]
    return FreeGroup(
        group.name,
        group.size,
        group.places,
        values=group.values,
        signs=() if own else (*filters, *turned_gains),
        scales=tuple(scales),
        turned=is_stream,
    )


def _layer(place: Place) -> str:
    return place.array.rpartition(".")[0]


def _block(place: Place) -> str:
    return _layer(place).rpartition(".")[0]


def _of(places: list[Place], layer: str) -> tuple[Place, ...]:
    return tuple(place for place in places if _layer(place) == layer)


def _cells(group: Group) -> Group:
    """Cells with blocks i, g, f, o of rows."""
    entering = tuple(
        replace(place, start=group.size, blocks=1) for place in group.places if place.incoming and place.blocks == 4
    )
    leaving = tuple(place for place in group.places if not place.incoming)
    return FreeGroup(group.name, group.size, group.places, values=group.values, signs=(*entering, *leaving))
