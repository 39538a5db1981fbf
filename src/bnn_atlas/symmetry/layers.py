"""Symmetries of layers beyond the exchange of single units: signs, scales, and units inside units.

`free_symmetry` gives all of a model's symmetries. The other functions give the groups of layers by the names of their
arrays, for networks that are described by hand: weights are [outputs, inputs, ...], and outputs are in the order of
heads, query heads or groups, and then of the units inside.
"""

from dataclasses import replace

from bnn_atlas.config.parts.posterior import (
    CNNLSTMConfig,
    ModelConfig,
    ResNetFRNConfig,
    WideResNetFRNConfig,
)
from bnn_atlas.models.layout import Layout
from bnn_atlas.symmetry.groups import (
    FreeGroup,
    Group,
    InnerGroup,
    Part,
    Place,
    Symmetry,
    SymmetryError,
    Value,
    symmetry_of,
)

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


def gated_group(layout: Layout, *, gate: str, up: str, down: str, name: str = "hidden") -> Group:
    """Hidden units of a gated layer, down (act(gate x) * up x), such as SwiGLU (Shazeer 2020).

    Units are rows of `gate` and `up` and columns of `down`; their signs and scales are those of `up` and, inverted,
    of `down`. The arguments are names of layers, whose biases count where there are any.
    """
    incoming = _outputs(layout, up)
    leaving = Place(f"{down}.weight", 1, False)
    size = _shape(layout, f"{up}.weight")[0]
    free = (*incoming, leaving)
    return FreeGroup(name, size, (*_outputs(layout, gate), *free), values=(Value(up),), signs=free, scales=(free,))


def attention_groups(
    layout: Layout,
    *,
    query: str,
    key: str,
    value: str,
    output: str,
    heads: int,
    key_value_heads: int | None = None,
    rotary: bool = False,
    name: str = "attention",
) -> list[Group]:
    """Heads of an attention layer, and what can be exchanged inside them.

    With K key-value heads, which H / K query heads share (Ainslie et al. 2023; K = H for multi-head attention, 1 for
    multi-query attention), scores q'k and outputs W_o [sum_s a_s v_s] stay the same if one changes

    - the order of the K key-value heads, each with its query heads (`name`);
    - the order of the query heads of a key-value head (`name.queries`);
    - the order, signs and scales of the units of v, with the columns of W_o (`name.values`);
    - the order, signs and scales (inverse in k) of the units of q and k (`name.keys`).

    With `rotary` embedding (Su et al. 2021) the units i and i + d / 2 of a head are turned together, by an angle that
    depends on i. Pairs then keep their order, and `name.keys` has only a sign and a scale for each pair.

    Args:
        layout: the network's arrays.
        query: layer of the queries [H d, inputs]; others likewise.
        key: layer of the keys [K d, inputs].
        value: layer of the values [K e, inputs].
        output: layer after the heads [outputs, H e].
        heads: H.
        key_value_heads: K; None for H.
        rotary: whether queries and keys are turned by their position, by halves as in LLaMA.
        name: name of the outer group.

    Raises:
        SymmetryError: the widths of the layers are no multiples of the numbers of heads, or do not belong together.
    """
    slots = heads if key_value_heads is None else key_value_heads
    widths = {layer: _shape(layout, f"{layer}.weight")[0] for layer in (query, key, value)}
    inputs = _shape(layout, f"{output}.weight")[1]
    if heads % slots:
        raise SymmetryError(f"{name}: {heads} heads cannot share {slots} key-value heads evenly")
    shared, d, e = heads // slots, widths[key] // slots, widths[value] // slots
    if (widths[key], widths[value]) != (slots * d, slots * e) or (widths[query], inputs) != (heads * d, heads * e):
        raise SymmetryError(
            f"{name}: {heads} heads and {slots} key-value heads do not fit widths of {widths[query]} ({query}), "
            f"{widths[key]} ({key}), {widths[value]} ({value}) and {inputs} inputs of {output}"
        )
    if rotary and d % 2:
        raise SymmetryError(f"{name}: rotary embedding needs heads of even width, and these have {d} units")

    def whole(layer: str, inner: int) -> list[Place]:
        return [replace(place, inner=inner) for place in _outputs(layout, layer)]

    def parts(layer: str, between: int = 1, inner: int = 1, *, incoming: bool = True) -> list[Part]:
        found = _outputs(layout, layer)
        return [Part(p.array, 0, incoming, inner=inner, slots=slots, between=between) for p in found]

    leaving = f"{output}.weight"
    outer = [*whole(query, shared * d), *whole(key, d), *whole(value, e), Place(leaving, 1, False, inner=shared * e)]
    of_values = (*parts(value), Part(leaving, 1, False, slots=slots, between=shared))
    halves = 2 if rotary else 1
    of_keys = (*parts(query, shared * halves), *parts(key, halves, incoming=False))
    groups: list[Group] = [
        Group(name, slots, tuple(outer), values=(Value(query), Value(key), Value(value))),
        InnerGroup(f"{name}.values", slots * e, of_values, signs=of_values, scales=(of_values,), inside=name),
        InnerGroup(
            f"{name}.keys",
            slots * d // halves,
            of_keys,
            signs=of_keys,
            scales=(of_keys,),
            inside=name,
            exchangeable=not rotary,
        ),
    ]
    if shared > 1:
        of_queries = (*parts(query, inner=d), Part(leaving, 1, False, inner=e, slots=slots))
        groups.append(InnerGroup(f"{name}.queries", heads, of_queries, inside=name))
    return groups


def grouped_convolution_groups(
    layout: Layout,
    *,
    before: str,
    grouped: str,
    after: str,
    groups: int,
    activations: tuple[str, str] = ("", ""),
    name: str = "groups",
) -> list[Group]:
    """Groups of a grouped convolution, and the channels in them, between two layers that are not grouped.

    The grouped weight is [outputs, inputs / groups, ...]. Groups can be exchanged as wholes (`name`), input channels in
    their group (`name.inputs`: rows of `before`), and output channels in their group (`name.outputs`: columns of
    `after`). `activations` follow `before` and `grouped`; relu gives channels scales, and tanh signs.

    Raises SymmetryError if the numbers of channels are no multiples of the number of groups, or do not belong together.
    """
    into, (outputs, per_group) = _shape(layout, f"{before}.weight")[0], _shape(layout, f"{grouped}.weight")[:2]
    columns = _shape(layout, f"{after}.weight")[1]
    if into != groups * per_group or outputs % groups or columns % outputs:
        raise SymmetryError(
            f"{name}: {groups} groups do not fit {into} channels of {before}, weights of {grouped} for {per_group} "
            f"inputs and {outputs} outputs, and {columns} inputs of {after}"
        )
    size, positions = outputs // groups, columns // outputs

    def parts(layer: str) -> list[Place]:
        return [Part(place.array, 0, True, slots=groups) for place in _outputs(layout, layer)]

    outer = [
        *(replace(place, inner=per_group) for place in _outputs(layout, before)),
        *(replace(place, inner=size) for place in _outputs(layout, grouped)),
        Place(f"{after}.weight", 1, False, inner=size * positions),
    ]
    of_inputs = (*parts(before), Part(f"{grouped}.weight", 1, False, slots=groups, slot_axis=0))
    of_outputs = (*parts(grouped), Part(f"{after}.weight", 1, False, inner=positions, slots=groups))

    def inner(what: str, places: tuple[Place, ...], activation: str) -> Group:
        signs = places if activation in ("tanh", "identity") else ()
        scales = (places,) if activation in HOMOGENEOUS else ()
        count = groups * (per_group if what == "inputs" else size)
        return InnerGroup(f"{name}.{what}", count, places, signs=signs, scales=scales, inside=name)

    values = (Value(before, activations[0] or "identity"), Value(grouped, activations[1] or "identity"))
    return [
        Group(name, groups, tuple(outer), values=values),
        inner("inputs", of_inputs, activations[0]),
        inner("outputs", of_outputs, activations[1]),
    ]


def _outputs(layout: Layout, layer: str) -> list[Place]:
    """Places of the outputs of a layer: the first axis of its weight and bias."""
    names = [p.name for p in layout.parameters if p.name in (f"{layer}.weight", f"{layer}.bias")]
    return [Place(name, 0, True) for name in names]


def _shape(layout: Layout, name: str) -> tuple[int, ...]:
    for parameter in layout.parameters:
        if parameter.name == name:
            return parameter.shape
    raise SymmetryError(f"this network has no array '{name}'; it has {', '.join(p.name for p in layout.parameters)}")
