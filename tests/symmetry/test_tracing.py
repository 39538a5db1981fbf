"""Exchangeable units found in traced programs: all that there are, only those, and what is undecided is named."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from flax import linen as nn
from flax import nnx
from jax import numpy as jnp

from bnn_atlas.library.networks import user_network
from bnn_atlas.models.networks import build_network
from bnn_atlas.symmetry.axes import Atom, leaves, meet, size_of, taken
from bnn_atlas.symmetry.groups import Group, InnerGroup, Symmetry
from bnn_atlas.symmetry.permutation import apply, transform, uniform_units
from bnn_atlas.symmetry.tracing import Traced, traced_symmetry

from .networks import example

NUMBERS = np.random.default_rng(4)
TABLE = NUMBERS.normal(size=(5, 3)).astype(np.float32)
IMAGES = NUMBERS.normal(size=(3, 8, 8, 2)).astype(np.float32)
TOKENS = NUMBERS.integers(11, size=(4, 6))


class Convolutions(nn.Module):
    """Norms, pools, and a dense layer after a flattened map."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        x = nn.avg_pool(nn.relu(nn.GroupNorm(4)(nn.Conv(4, (3, 3))(x))), (2, 2), (2, 2))
        x = nn.max_pool(nn.silu(nn.LayerNorm()(nn.Conv(6, (3, 3))(x))), (2, 2))
        return nn.Dense(3)(nn.tanh(nn.Dense(5)(x.reshape(len(x), -1))))


class Grouped(nn.Module):
    """Three groups of two channels that are normalised together."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        return nn.Dense(3)(nn.silu(nn.GroupNorm(3)(nn.Conv(6, (3, 3))(x))).mean((1, 2)))


class GroupedAndFlat(nn.Module):
    """Two groups of four channels that a dense layer reads at every position."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        x = nn.silu(nn.GroupNorm(2)(nn.Conv(8, (3, 3))(x)))
        return nn.Dense(3)(x.reshape(len(x), -1))


class FlatAndGrouped(nn.Module):
    """The groups of a norm end between the channels of a position."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        return nn.Dense(3)(nn.silu(nn.GroupNorm(3)(nn.Conv(6, (3, 3))(x).reshape(len(x), -1))))


class Separable(nn.Module):
    """A convolution of each channel by itself, between mixtures of channels."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        x = nn.relu(nn.Conv(4, (1, 1))(x))
        x = nn.relu(nn.Conv(4, (3, 3), feature_group_count=4)(x))
        return nn.Dense(2)(nn.relu(nn.Conv(6, (1, 1))(x)).mean((1, 2)))


class Residual(nn.Module):
    """Two blocks on one stream."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        x = nn.Dense(8)(x)
        for _ in range(2):
            x = x + nn.Dense(8)(nn.gelu(nn.Dense(7)(nn.LayerNorm()(x))))
        return nn.Dense(2)(nn.RMSNorm()(x))


class Attention(nn.Module):
    """An embedding, and two heads of four units."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        x = nn.Embed(11, 6)(x)
        return nn.Dense(2)(
            (x + nn.MultiHeadDotProductAttention(num_heads=2, qkv_features=8)(nn.LayerNorm()(x))).mean(1)
        )


class Gated(nn.Module):
    """A gated layer whose two halves come from one product, and two layers read as one."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        up, gate = jnp.split(nn.Dense(12)(x), 2, axis=-1)
        hidden = jnp.concatenate([up * nn.silu(gate), nn.relu(nn.Dense(5)(x))], axis=-1)
        return nn.Dense(2)(hidden)


class Recurrent(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        return nn.Dense(2)(nn.RNN(nn.OptimizedLSTMCell(5))(nn.Embed(11, 4)(x))[:, -1])


class Nnx(nnx.Module):
    def __init__(self, rngs: nnx.Rngs, inputs: int = 3) -> None:
        self.first, self.norm = nnx.Linear(inputs, 7, rngs=rngs), nnx.LayerNorm(7, rngs=rngs)
        self.second, self.last = nnx.Linear(7, 5, rngs=rngs), nnx.Linear(5, 2, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return self.last(jnp.tanh(self.second(nnx.relu(self.norm(self.first(x))))))


def torch_like(p: Any, x: Any) -> Any:
    """[out, in] weights under dotted names."""
    hidden = jnp.maximum(x @ p["fc1.weight"].T + p["fc1.bias"], 0)
    return jnp.tanh(hidden @ p["fc2.weight"].T) @ p["fc3.weight"].T + p["fc3.bias"]


def arrays(**shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    return {name.replace("_", "."): NUMBERS.normal(size=shape) for name, shape in shapes.items()}


TORCH = arrays(fc1_weight=(6, 3), fc1_bias=(6,), fc2_weight=(4, 6), fc3_weight=(2, 4), fc3_bias=(2,))


def trace(module: Any, rows: np.ndarray, start: Any = None) -> tuple[Traced, Callable[[np.ndarray], np.ndarray]]:
    """What is found, and the outputs of the module itself at these rows for parameters [P]."""
    user = user_network(module, rows[:2], start)
    found = traced_symmetry(user.of_arrays, user.network.layout, rows.astype(np.int32 if rows.dtype == int else "f"))
    layout = user.network.layout
    return found, lambda theta: np.asarray(user.of_arrays(layout.unflatten(jnp.asarray(theta)), jnp.asarray(rows)))


Sizes = dict[str, int]
CASES: dict[str, tuple[Callable[[], Any], np.ndarray, Any, Sizes]] = {
    "convolutions": (Convolutions, IMAGES, None, {"Conv_0": 4, "Conv_1": 6, "Dense_1": 5}),
    "separable": (Separable, IMAGES, None, {"Conv_0": 4, "Conv_2": 6}),
    "residual": (Residual, TABLE, None, {"Dense_0": 8, "Dense_2": 7, "Dense_4": 7}),
    "gated": (Gated, TABLE, None, {"Dense_0": 6, "Dense_1": 5}),
    "recurrent": (Recurrent, TOKENS, None, {"Embed_0": 4, "OptimizedLSTMCell_0/hf": 5}),
    "nnx": (lambda: Nnx(nnx.Rngs(0)), TABLE, None, {"first": 7, "second": 5}),
    "torch_like": (lambda: torch_like, TABLE, TORCH, {"fc1": 6, "fc2": 4}),
}


@pytest.mark.parametrize("name", CASES)
def test_units_are_found_and_leave_the_outputs_as_they_are(name: str) -> None:
    module, rows, start, sizes = CASES[name]
    found, outputs = trace(module(), rows, start)
    assert {group.name: group.size for group in found.symmetry.groups} == sizes
    assert not found.undecided
    symmetry = found.symmetry
    theta = NUMBERS.normal(size=symmetry.layout.size).astype(np.float32)
    units = uniform_units(symmetry, NUMBERS)
    moved = apply(symmetry, theta, units)
    assert (moved != theta).mean() > 0.4
    np.testing.assert_allclose(outputs(moved), outputs(theta), rtol=2e-4, atol=2e-4)
    # A group without one of its places is not a symmetry.
    for group in symmetry.groups:
        torn = Symmetry(symmetry.layout, (Group(group.name, group.size, group.places[:-1]),))
        turned = np.roll(np.arange(group.size), 1)
        assert np.abs(outputs(apply(torn, theta, turned)) - outputs(theta)).max() > 1e-3


@pytest.mark.parametrize(
    ("module", "rows", "sizes"),
    [
        (Attention(), TOKENS, {"Embed_0": 6, "heads": 2, "heads/query": 8, "heads/value": 8}),
        (Grouped(), IMAGES, {"Conv_0": 3, "Conv_0.units": 6}),
        (GroupedAndFlat(), IMAGES, {"Conv_0": 2, "Conv_0.units": 8}),
    ],
)
def test_units_inside_other_units_are_found(module: Any, rows: np.ndarray, sizes: Sizes) -> None:
    """Heads with the units of their queries and values, and groups of a norm with their channels."""
    found, outputs = trace(module, rows)
    assert [group.size for group in found.symmetry.groups] == [*sizes.values()]
    assert not found.undecided
    inner = [group for group in found.symmetry.groups if isinstance(group, InnerGroup)]
    assert len(inner) == len(sizes) - (2 if "heads" in sizes else 1)
    theta = NUMBERS.normal(size=found.symmetry.layout.size).astype(np.float32)
    for _ in range(3):
        moved = transform(found.symmetry, theta, uniform_units(found.symmetry, NUMBERS))
        assert (moved != theta).any()
        np.testing.assert_allclose(outputs(moved), outputs(theta), rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("name", ["mlp", "mlp_tanh", "mlp_no_bias", "lenetti", "cnn_lstm"])
def test_the_groups_of_this_librarys_networks_are_found_in_their_programs(name: str) -> None:
    """The groups are those derived from the settings, also from the flat vector and within a loop.

    Convolutions are written as products of shifted copies here, which is not followed: their filters are undecided.
    """
    case = example(name)
    tokens = case.config.kind == "cnn_lstm"
    network = build_network(case.config, case.x.shape[1:], 3, 9 if tokens else 0)

    def function(named: Any, x: Any) -> Any:
        return network.apply(network.layout.flatten(named), network.arrange(x))

    found = traced_symmetry(function, case.layout, case.x.astype(np.int32 if tokens else np.float32))

    def units(symmetry: Symmetry) -> set[frozenset[Any]]:
        """For each group, which entries of which axes belong to which unit."""
        every = set()
        for group in (group for group in symmetry.groups if group.size > 1):
            owners: dict[tuple[str, int], dict[int, int]] = {}
            for place in group.places:
                for unit in range(group.size):
                    for index in (
                        place.indices(np.arange(group.size)).reshape(place.blocks, group.size, -1)[:, unit].flat
                    ):
                        owners.setdefault((place.array, place.axis), {})[int(index)] = unit
            every.add(frozenset((where, frozenset(found.items())) for where, found in owners.items()))
        return every

    assert units(found.symmetry) <= units(case.symmetry)
    for missing in units(case.symmetry) - units(found.symmetry):
        assert any(f"{array}, axis {axis}" in found.undecided for (array, axis), _ in missing)
    assert len(units(case.symmetry)) - len(found.symmetry.groups) == (name == "cnn_lstm")


def test_signs_and_scales_are_found() -> None:
    found, _ = trace(torch_like, TABLE, TORCH)
    assert [group.freedoms for group in found.symmetry.groups] == [("scale",), ("sign",)]


def test_outputs_that_never_change_show_no_signs_and_scales() -> None:
    def dead(p: Any, x: Any) -> Any:
        return nn.relu(nn.relu(x @ p["first"]) @ p["last"] - 1e3)

    found, _ = trace(dead, np.ones((5, 2), np.float32), {"first": np.ones((2, 4)), "last": np.ones((4, 1))})
    assert [(group.size, group.freedoms) for group in found.symmetry.groups] == [(4, ())]


@pytest.mark.parametrize(
    ("activation", "freedoms"),
    [(nn.relu6, ()), (nn.hard_tanh, ("sign",)), (jnp.abs, ("scale",)), (lambda x: jnp.minimum(x, 9), ())],
)
def test_activations_that_look_homogeneous_or_odd_near_zero_are_not(activation: Any, freedoms: Any) -> None:
    start = {"first": np.ones((20, 3)), "last": np.ones((3, 2))}
    for seed in range(5):
        function = user_network(lambda p, x: activation(x @ p["first"]) @ p["last"], np.ones((4, 20)), start)
        found = traced_symmetry(function.of_arrays, function.network.layout, np.ones((4, 20), np.float32), seed=seed)
        assert [group.freedoms for group in found.symmetry.groups] == [freedoms]


def test_activations_are_where_the_next_layer_reads_them() -> None:
    found, _ = trace(torch_like, TABLE, TORCH)
    theta = found.symmetry.layout.flatten({name: jnp.asarray(array) for name, array in TORCH.items()})
    first = np.maximum(TABLE @ TORCH["fc1.weight"].T + TORCH["fc1.bias"], 0)
    second = np.tanh(first @ TORCH["fc2.weight"].T)
    rows = np.concatenate([TABLE, TABLE])
    for got, expected in zip(found.values(rows)(np.asarray(theta), rows), (first, second), strict=True):
        np.testing.assert_allclose(got, np.concatenate([expected, expected]).T, rtol=1e-5, atol=1e-6)


def test_what_cannot_be_decided_is_left_alone_and_named() -> None:
    def sorting(p: Any, x: Any) -> Any:
        return jnp.sort(jnp.tanh(x @ p["a.w"]), axis=1) @ p["b.w"] + jnp.tanh(x @ p["c.w"]) @ p["d.w"]

    found, _ = trace(sorting, TABLE, arrays(a_w=(3, 4), b_w=(4, 2), c_w=(3, 5), d_w=(5, 2)))
    assert [group.name for group in found.symmetry.groups] == ["c"]
    assert set(found.undecided) == {"a.w, axis 1", "b.w, axis 0"}
    assert all("sort" in why for why in found.undecided.values())


def test_units_of_groups_that_cannot_be_told_apart_are_named() -> None:
    found, _ = trace(FlatAndGrouped(), IMAGES)
    assert not found.symmetry.groups
    assert {"Conv_0/kernel, axis 3", "Dense_0/kernel, axis 0"} <= set(found.undecided)
    assert all("divide" in why for why in found.undecided.values()), found.undecided


@pytest.mark.parametrize(
    "function",
    [
        lambda p, x: x @ p["w"],
        lambda p, x: jnp.tanh(x @ p["w"] + jnp.arange(4.0)) @ p["v"],
        lambda p, x: jnp.tanh(x @ p["w"] * jnp.array([1.0, 2.0, 3.0, 4.0])) @ p["v"],
        lambda p, x: jnp.cumsum(jnp.tanh(x @ p["w"]), axis=1) @ p["v"],
        lambda p, x: jnp.tanh(x @ p["w"])[:, ::-1] @ p["v"],
    ],
)
def test_units_with_a_place_of_their_own_are_not_exchangeable(function: Callable[[Any, Any], Any]) -> None:
    found, _ = trace(function, TABLE, arrays(w=(3, 4), v=(4, 4)))
    assert not found.symmetry.groups


def test_uniform_constants_do_not_tie_layers_together() -> None:
    """One array of zeros is added to two layers of the same width, which stay apart."""

    def function(p: Any, x: Any) -> Any:
        zeros = jnp.zeros(4)
        hidden = jnp.tanh(x @ p["a"] + zeros)
        return jnp.tanh(hidden @ p["b"] + zeros) @ p["c"]

    found, _ = trace(function, TABLE, arrays(a=(3, 4), b=(4, 4), c=(4, 2)))
    assert [len(group.places) for group in found.symmetry.groups] == [2, 2]


def test_axes_are_divided_and_cut_alike() -> None:
    long, rows, units = [Atom(12)], [Atom(3)], [Atom(4)]
    assert [atom.size for atom in leaves(meet(long, [*rows, *units], "a sum"))] == [3, 4]
    assert leaves(long)[1] is leaves(units)[0]
    part = taken(long, 4, 12)
    assert part is not None
    assert size_of(leaves(part)) == 8
    assert taken(long, 5, 12) is None
