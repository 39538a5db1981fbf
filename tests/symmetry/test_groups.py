"""Groups of units: every place that indexes them, for every model."""

import dataclasses

import numpy as np
import pytest

from bnn_atlas.config.parts.posterior import MLPConfig
from bnn_atlas.models.networks import build_network
from bnn_atlas.symmetry.groups import Symmetry, SymmetryError, dense_symmetry, symmetry_of
from bnn_atlas.symmetry.permutation import apply, uniform_units

from .networks import CASES, Example, example


def drawn(symmetry: Symmetry, count: int, seed: int = 1) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return np.stack([uniform_units(symmetry, generator) for _ in range(count)])


def change(case: Example, theta: np.ndarray) -> float:
    """Largest change of an output, relative to the spread of the outputs."""
    outputs = case.outputs(np.stack([case.theta, *theta]))
    return float(np.abs(outputs[1:] - outputs[0]).max() / outputs[0].std())


@pytest.mark.parametrize("name", CASES)
def test_permuted_networks_are_the_same_function(name: str) -> None:
    case = example(name)
    moved = apply(case.symmetry, case.theta, drawn(case.symmetry, 3))
    assert moved.shape == (3, case.theta.size)
    assert (moved != case.theta).mean() > 0.5
    np.testing.assert_array_equal(np.sort(moved), np.broadcast_to(np.sort(case.theta), moved.shape))
    assert change(case, moved) < 1e-9


@pytest.mark.parametrize("name", ["lenet", "wide_resnet_frn", "resnet_frn", "cnn_lstm"])
def test_every_group_moves_and_no_place_is_dispensable(name: str) -> None:
    """Leaving any one place out changes the function."""
    case = example(name)
    (units,) = drawn(case.symmetry, 1)
    for index, group in enumerate(case.symmetry.groups):
        left_out = [
            dataclasses.replace(group, places=group.places[:i] + group.places[i + 1 :])
            for i in range(len(group.places))
        ]
        alone = case.symmetry.split(case.symmetry.identity.copy())
        alone[index] = case.symmetry.split(units)[index]
        order = case.symmetry.join(alone)
        broken = [Symmetry(case.symmetry.layout, replaced(case.symmetry, index, each)) for each in left_out]
        moved = np.stack([apply(symmetry, case.theta, order) for symmetry in broken])
        outputs = case.outputs(np.stack([case.theta, *moved]))
        differences = np.abs(outputs[1:] - outputs[0]).max(axis=(1, 2)) / outputs[0].std()
        assert differences.min() > 1e-5, group.places[int(differences.argmin())]


def replaced(symmetry: Symmetry, index: int, group: object) -> tuple:
    groups = list(symmetry.groups)
    groups[index] = group
    return tuple(groups)


def test_the_groups_of_each_model() -> None:
    sizes = {name: [group.size for group in example(name).symmetry.groups] for name in CASES}
    assert sizes["mlp"] == [7, 5, 6]
    assert sizes["lenet"] == [6, 16, 120, 84]
    assert sizes["lenet5"] == [6, 16, 120, 84]
    assert sizes["lenetti"] == [1, 8, 8, 8]
    assert sizes["resnet_frn"] == [16, 32, 64, 16, 32, 64], "streams, then one inside of each block"
    assert sizes["wide_resnet_frn"] == [16, 32, 64, 16, 32, 64]
    assert sizes["wide_resnet_frn_2"] == [16, 32, 64, 128, 32, 32, 64, 64, 128, 128]
    assert sizes["cnn_lstm"] == [5, 4, 6]


def test_flattened_maps_and_gates() -> None:
    dense = {place.array: place for group in example("lenet").symmetry.groups for place in group.places if place.axis}
    assert dense["dense.weight"].inner == 4, "2 x 2 positions of 28 x 28 pixels"
    cells = example("cnn_lstm").symmetry.groups[2].places
    assert [(p.array, p.axis, p.start, p.blocks) for p in cells] == [
        ("lstm.weight", 0, 0, 4), ("lstm.bias", 0, 0, 4), ("lstm.weight", 1, 4, 1), ("output.weight", 1, 0, 1),
    ]  # fmt: skip
    np.testing.assert_array_equal(cells[0].indices(np.array([1, 0])), [1, 0, 3, 2, 5, 4, 7, 6])


def test_permutations_of_several_groups_are_one_array() -> None:
    symmetry = example("mlp").symmetry
    units = drawn(symmetry, 4)
    assert units.dtype == np.int16
    assert [part.shape for part in symmetry.split(units)] == [(4, 7), (4, 5), (4, 6)]
    np.testing.assert_array_equal(symmetry.join(symmetry.split(units)), units)
    assert symmetry.check(units) is units


def test_what_is_no_permutation_is_refused() -> None:
    symmetry = example("mlp").symmetry
    twice = symmetry.identity.copy()
    twice[7] = 1
    with pytest.raises(SymmetryError, match=r"pairs\.npz: not a permutation of the 5 units of layer1"):
        symmetry.check(twice, "pairs.npz")
    with pytest.raises(SymmetryError, match="but the network has 18"):
        symmetry.check(np.arange(5))


def test_networks_without_hidden_units_and_with_too_many_are_refused() -> None:
    linear = MLPConfig(hidden=())
    with pytest.raises(SymmetryError, match="no hidden units"):
        symmetry_of(linear, build_network(linear, (3,), 1).layout)
    wide = MLPConfig(hidden=(40_000,))
    with pytest.raises(SymmetryError, match="40,000 units; at most 32,767"):
        symmetry_of(wide, build_network(wide, (1,), 1).layout)


def test_dense_networks_are_known_by_their_layout() -> None:
    case = example("mlp")
    assert [(g.name, g.size, g.places) for g in dense_symmetry(case.layout).groups] == [
        (g.name, g.size, g.places) for g in case.symmetry.groups
    ]
