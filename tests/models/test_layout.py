"""The flat vector: order, names and selections."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import numpy as jnp

from bnn_atlas.config.parts.posterior import MLPConfig
from bnn_atlas.models.layout import Layout, Parameter
from bnn_atlas.models.networks import build_network

ROLES = ("weight", "bias", "scale")


@st.composite
def layouts(draw: Any) -> Layout:
    """Up to five arrays of zero to three axes, some outside the layers."""
    shapes = draw(st.lists(st.lists(st.integers(1, 4), max_size=3), min_size=1, max_size=5))
    return Layout(
        tuple(
            Parameter(
                f"part{i}.value",
                tuple(shape),
                draw(st.sampled_from(ROLES)),
                draw(st.one_of(st.none(), st.integers(0, 3))),
                draw(st.integers(1, 9)),
                draw(st.integers(1, 9)),
            )
            for i, shape in enumerate(shapes)
        )
    )


SMALL = Layout(
    (
        Parameter("layer0.bias", (2,), "bias", 0, 2, 2),
        Parameter("layer0.weight", (2, 3), "weight", 0, 3, 2),
        Parameter("layer1.weight", (1, 2), "weight", 1, 2, 1),
        Parameter("log_sigma", (), "scale", None, 1, 1),
    )
)


def test_names_and_offsets_of_a_small_network() -> None:
    assert SMALL.size == 11
    assert SMALL.names() == [
        "layer0.bias[0]", "layer0.bias[1]",
        "layer0.weight[0,0]", "layer0.weight[0,1]", "layer0.weight[0,2]",
        "layer0.weight[1,0]", "layer0.weight[1,1]", "layer0.weight[1,2]",
        "layer1.weight[0,0]", "layer1.weight[0,1]", "log_sigma",
    ]  # fmt: skip
    assert [SMALL.offset(p.name) for p in SMALL.parameters] == [0, 2, 8, 10]


@settings(max_examples=25)
@given(layouts())
def test_vector_and_arrays_are_the_same_numbers(layout: Layout) -> None:
    vector = np.arange(layout.size, dtype=np.float32)
    arrays = layout.unflatten(vector)
    assert {name: array.shape for name, array in arrays.items()} == {p.name: p.shape for p in layout.parameters}
    np.testing.assert_array_equal(layout.flatten(arrays), vector)


@given(layouts())
def test_names_are_the_scalars_in_order(layout: Layout) -> None:
    names = layout.names()
    assert len(set(names)) == len(names) == layout.size
    arrays = layout.unflatten(np.arange(layout.size))
    for place, name in enumerate(names):
        array, _, index = name.partition("[")
        scalar = arrays[array][tuple(int(i) for i in index.rstrip("]").split(",") if i)]
        assert scalar == place
        assert layout.select(names=[name]).tolist() == [place]


@given(layouts(), st.data())
def test_select_meets_every_condition(layout: Layout, data: st.DataObject) -> None:
    scalars = layout.names()
    everything = [p.name for p in layout.parameters] + scalars
    names = data.draw(st.none() | st.lists(st.sampled_from(everything), max_size=4))
    roles = data.draw(st.none() | st.sets(st.sampled_from(ROLES)))
    layers = data.draw(st.none() | st.sets(st.integers(0, 3)))
    owner = [p for p in layout.parameters for _ in range(p.size)]
    expected = [
        i
        for i, (p, scalar) in enumerate(zip(owner, scalars, strict=True))
        if (names is None or p.name in names or scalar in names)
        and (roles is None or p.role in roles)
        and (layers is None or p.layer in layers)
    ]
    assert layout.select(names, roles, layers).tolist() == expected


def test_unknown_names_are_refused_with_the_names_there_are() -> None:
    for call in (lambda: SMALL.select(names=["layer0.wieght"]), lambda: SMALL.offset("layer0.wieght")):
        with pytest.raises(KeyError, match=r"no parameter 'layer0.wieght' in this model; it has layer0.bias, "):
            call()
    with pytest.raises(KeyError, match=r"layer0.weight\[2,0\]"):
        SMALL.select(names=["layer0.weight[2,0]"])


@given(layouts(), st.data())
def test_per_scalar_repeats_the_number_of_each_array(layout: Layout, data: st.DataObject) -> None:
    value = {p.name: data.draw(st.floats(-5, 5)) for p in layout.parameters}
    vector = layout.per_scalar(value)
    for name, array in layout.unflatten(vector).items():
        assert np.all(array == value[name])


@given(layouts())
def test_layout_survives_json(layout: Layout) -> None:
    again = Layout.from_dict(json.loads(json.dumps(layout.to_dict())))
    assert again == layout
    assert again.size == layout.size


def test_leading_axes_are_kept() -> None:
    arrays = SMALL.unflatten(jnp.zeros((5, 7, SMALL.size)))
    assert arrays["layer0.weight"].shape == (5, 7, 2, 3)
    assert arrays["log_sigma"].shape == (5, 7)


def test_layers_stand_in_the_networks_order() -> None:
    layout = build_network(MLPConfig(hidden=(2,) * 11), (3,), 1).layout
    assert [p.layer for p in layout.parameters] == [layer for layer in range(12) for _ in range(2)]
