"""Which scalars of a network to draw against each other."""

from collections.abc import Sequence
from itertools import combinations, product
from typing import NamedTuple

from bnn_atlas.models.layout import Layout, Parameter


class Pair(NamedTuple):
    """Two scalars to draw against each other, and where in the network they are."""

    x: str
    y: str
    role: str
    layer_x: int
    layer_y: int


def layer_pairs(layout: Layout, roles: Sequence[str] = ("weight", "bias"), per_layer: int = 2) -> tuple[Pair, ...]:
    """The pairs of a fireball grid: for each role, every layer against every layer.

    Of the first `per_layer` scalars of a layer's array, layer i gives scalar a to x and layer j a later scalar b to y
    (a = b = 0 if `per_layer` is 1), so that within a layer two different scalars meet. With the default these are, in
    a dense layer, the weights [0,0] and [0,1] into the first unit and the biases [0] and [1]. Where an array has too
    few scalars its last is taken; a scalar is never paired with itself.
    """
    names = layout.names()
    places = list(combinations(range(per_layer), 2)) or [(0, 0)]
    pairs = []
    for role in roles:
        arrays: dict[int, Parameter] = {}
        for parameter in layout.parameters:
            if parameter.role == role and parameter.layer is not None and parameter.size:
                arrays.setdefault(parameter.layer, parameter)
        for (i, first), (j, second), (a, b) in product(sorted(arrays.items()), sorted(arrays.items()), places):
            x = names[layout.offset(first.name) + min(a, first.size - 1)]
            y = names[layout.offset(second.name) + min(b, second.size - 1)]
            if x != y:
                pairs.append(Pair(x, y, role, i, j))
    return tuple(dict.fromkeys(pairs))
