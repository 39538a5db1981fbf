"""Symmetries beyond the exchange of units: signs, scales, heads, groups of channels, gated layers."""

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest

from bnn_atlas.models.layout import Layout, Parameter
from bnn_atlas.symmetry.features import activation_features
from bnn_atlas.symmetry.groups import FreeGroup, Group, InnerGroup, Symmetry, SymmetryError, scales_of, signs_of
from bnn_atlas.symmetry.matching import match
from bnn_atlas.symmetry.permutation import (
    apply,
    averaged,
    balanced,
    compose_units,
    invert_units,
    rows_of,
    transform,
    uniform_units,
)

from ..models import reference
from .networks import CASES, DESCRIBED, Example, attention_groups, example

pytestmark = pytest.mark.bits
SIGNED = ["mlp_tanh", "lenet5", "resnet_frn", "wide_resnet_frn", "cnn_lstm", *DESCRIBED]
SCALED = ["mlp", "lenet", "resnet_frn", "wide_resnet_frn", "cnn_lstm", *DESCRIBED]

IDLE = ("attention", "key.bias")
"""Without rotary embedding, a bias of keys adds the same to all scores of a query and so does nothing."""


def drawn(symmetry: Symmetry, count: int, seed: int = 1) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return np.stack([uniform_units(symmetry, generator) for _ in range(count)])


def drawn_signs(symmetry: Symmetry, count: int, seed: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).choice([-1, 1], size=(count, symmetry.units)).astype(np.int8)


def change(case: Example, theta: np.ndarray) -> np.ndarray:
    """Largest change [m] of an output, relative to the spread of the outputs."""
    outputs = case.outputs(np.stack([case.theta, *theta]))
    return np.asarray(np.abs(outputs[1:] - outputs[0]).max(axis=(1, 2)) / outputs[0].std())


def unmoved(symmetry: Symmetry, theta: np.ndarray, signs: np.ndarray) -> np.ndarray:
    return transform(symmetry, theta, np.broadcast_to(symmetry.identity, signs.shape), signs)


def rescaled(symmetry: Symmetry, theta: np.ndarray, group: Group, places: tuple, factor: np.ndarray) -> np.ndarray:
    """Theta with these places of a group's units [n] multiplied (incoming) or divided (outgoing), by plain indexing."""
    index = np.arange(symmetry.layout.size)[None]
    result = theta.copy()
    for place in places:
        for at, value in zip(rows_of(symmetry, place, group.size, index)[0], factor, strict=True):
            result[at] *= value if place.incoming else 1 / value
    return result


@pytest.mark.parametrize("name", DESCRIBED)
def test_orders_of_outer_and_inner_units_leave_the_function(name: str) -> None:
    case = example(name)
    units = drawn(case.symmetry, 5)
    moved = transform(case.symmetry, case.theta, units)
    assert (moved != case.theta).mean() > 0.5
    np.testing.assert_array_equal(np.sort(moved), np.broadcast_to(np.sort(case.theta), moved.shape))
    assert change(case, moved).max() < 1e-9
    again = drawn(case.symmetry, 5, seed=3)
    twice = transform(case.symmetry, moved, again)
    np.testing.assert_array_equal(
        transform(case.symmetry, case.theta, compose_units(case.symmetry, units, again)), twice
    )
    back = transform(case.symmetry, moved, invert_units(case.symmetry, units))
    np.testing.assert_array_equal(back, np.broadcast_to(case.theta, back.shape))


@pytest.mark.parametrize("name", ["mlp_tanh", "lenet5", *DESCRIBED])
def test_parameters_averaged_over_orders_are_the_mean_of_many(name: str) -> None:
    case = example(name)
    found = averaged(case.symmetry, case.theta)
    moved = transform(case.symmetry, case.theta, drawn(case.symmetry, 3000))
    error = np.abs(found - moved.mean(axis=0)) / (moved.std(axis=0) / 3000**0.5 + 1e-9)
    assert error.max() < 6
    np.testing.assert_allclose(transform(case.symmetry, found, drawn(case.symmetry, 1)[0]), found, atol=1e-6)
    without = averaged(case.symmetry, case.theta, signed=True)
    free = np.zeros(case.layout.size, bool)
    for group in case.symmetry.groups:
        for place in signs_of(group):
            free[rows_of(case.symmetry, place, group.size, np.arange(case.layout.size)[None])[0]] = True
    assert free.any()
    np.testing.assert_array_equal(without, np.where(free, 0, found))


@pytest.mark.parametrize("name", DESCRIBED)
def test_every_place_of_an_order_is_needed(name: str) -> None:
    """Leaving any one place of an inner group out changes the function, and so does any place of an outer group."""
    case = example(name)
    for number, group in enumerate(case.symmetry.groups):
        if isinstance(group, InnerGroup) and not group.exchangeable:
            continue
        alone = [np.arange(each.size) for each in case.symmetry.groups]
        parts = case.symmetry.split(drawn(case.symmetry, 1, seed=5)[0])
        if isinstance(group, InnerGroup):
            outer = next(part for part, g in zip(parts, case.symmetry.groups, strict=True) if g.name == group.inside)
            count = group.size // len(outer)
            alone[number] = (parts[number].reshape(-1, count) % count + np.arange(len(outer))[:, None] * count).ravel()
        else:
            alone[number] = np.roll(np.arange(group.size), 1)
            for inner, each in enumerate(case.symmetry.groups):
                if isinstance(each, InnerGroup) and each.inside == group.name:
                    alone[inner] = np.roll(np.arange(each.size), each.size // group.size)
        units = case.symmetry.join(alone)
        assert change(case, transform(case.symmetry, case.theta, units)[None]).max() < 1e-9
        for place in group.places:
            if (name, place.array) == IDLE:
                continue
            fewer = dataclasses.replace(group, places=tuple(p for p in group.places if p != place))
            groups = tuple(fewer if each is group else each for each in case.symmetry.groups)
            broken = transform(Symmetry(case.layout, groups), case.theta, units)
            assert change(case, broken[None]).max() > 1e-5, place


@pytest.mark.parametrize("name", SIGNED)
def test_signs_leave_the_function(name: str) -> None:
    case = example(name)
    turned = unmoved(case.symmetry, case.theta, drawn_signs(case.symmetry, 3))
    assert (turned != case.theta).any(axis=1).all()
    np.testing.assert_array_equal(np.abs(turned), np.broadcast_to(np.abs(case.theta), turned.shape))
    assert change(case, turned).max() < 1e-9


@pytest.mark.parametrize("name", ["cnn_lstm", "wide_resnet_frn", *DESCRIBED])
def test_every_place_of_a_sign_is_needed(name: str) -> None:
    case = example(name)
    for group in case.symmetry.groups:
        for place in signs_of(group):
            fewer = tuple(p for p in signs_of(group) if p != place)
            if (name, place.array) == IDLE:
                continue
            alone = FreeGroup("alone", group.size, group.places, signs=fewer)
            if isinstance(group, InnerGroup):
                alone = dataclasses.replace(group, signs=fewer)
                outer = next(each for each in case.symmetry.groups if each.name == group.inside)
                groups: tuple = (Group(outer.name, outer.size, outer.places), alone)
            else:
                groups = (alone,)
            broken = Symmetry(case.layout, groups)
            signs = np.ones((1, broken.units), np.int8)
            signs[0, -group.size :] = -1
            assert change(case, unmoved(broken, case.theta, signs)).max() > 1e-5, (group.name, place)


@pytest.mark.parametrize("name", SCALED)
def test_scales_leave_the_function(name: str) -> None:
    """To rounding, and before filter response norms up to their epsilon."""
    case = example(name)
    generator = np.random.default_rng(0)
    for group in case.symmetry.groups:
        for places in scales_of(group):
            factor = np.exp(0.5 * generator.normal(size=group.size))
            moved = rescaled(case.symmetry, case.theta, group, places, factor)
            assert (moved != case.theta).any()
            before_norm = all(place.incoming for place in places)
            assert change(case, moved[None]).max() < (1e-3 if before_norm else 1e-9), (group.name, places)


def test_how_exact_the_scale_before_a_norm_is() -> None:
    """y = x / sqrt(nu^2 + e): the relative change by the scale s is (e / 2) (1 / nu^2 - 1 / (s nu)^2)."""
    x = np.random.default_rng(0).normal(size=(5, 5, 3))
    arrays = {"n.gain": np.ones(3), "n.bias": np.zeros(3), "n.threshold": np.full(3, -np.inf)}
    for scale in (3.0, 0.03):
        ratio = reference.norm(arrays, "n", scale * x) / reference.norm(arrays, "n", x)
        response = (x**2).mean(axis=(0, 1))
        expected = 0.5e-6 * (1 / response - 1 / (scale**2 * response))
        np.testing.assert_allclose(ratio - 1, np.broadcast_to(expected, ratio.shape), rtol=2e-3, atol=1e-12)


@pytest.mark.parametrize("name", SCALED)
def test_balanced_networks_do_not_depend_on_scales(name: str) -> None:
    case = example(name)
    ((least,),) = balanced(case.symmetry, case.theta[None])
    assert change(case, least[None]).max() < (1e-3 if "frn" in name else 1e-9)
    generator = np.random.default_rng(1)
    scaled = case.theta
    for group in case.symmetry.groups:
        for places in scales_of(group):
            scaled = rescaled(case.symmetry, scaled, group, places, np.exp(0.5 * generator.normal(size=group.size)))
            squares = [
                sum((rows_of(case.symmetry, p, group.size, least[None]) ** 2).sum(axis=2)[0] for p in places if way(p))
                for way in (lambda p: p.incoming, lambda p: not p.incoming)
            ]
            into, out = squares if any(not p.incoming for p in places) else (squares[0], np.ones(group.size))
            used = (np.asarray(into) > 0) & (np.asarray(out) > 0)
            np.testing.assert_allclose(np.asarray(into)[used], np.asarray(out)[used], rtol=1e-4)
    np.testing.assert_allclose(balanced(case.symmetry, scaled[None])[0][0], least, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["resnet_frn", "cnn_lstm", *DESCRIBED])
def test_planted_orders_and_signs_are_found_by_weights(name: str) -> None:
    case = example(name)
    planted = drawn(case.symmetry, 3)
    moved = transform(case.symmetry, case.theta, planted)
    np.testing.assert_array_equal(match(case.symmetry, case.theta, moved).units, invert_units(case.symmetry, planted))
    turned = transform(case.symmetry, case.theta, planted, drawn_signs(case.symmetry, 3))
    found = match(case.symmetry, case.theta, turned, signed=True)
    back = transform(case.symmetry, turned, found.units, found.signs)
    np.testing.assert_allclose(back, np.tile(case.theta, (3, 1)), atol=1e-12)
    np.testing.assert_allclose(found.objective, case.theta @ case.theta)


@pytest.mark.parametrize("name", ["cnn_lstm", *DESCRIBED])
@pytest.mark.parametrize("statistic", ["activations", "centred"])
def test_planted_orders_and_signs_are_found_by_activations(name: str, statistic: Any) -> None:
    case = example(name)
    x = case.rows(20).astype(np.int32 if case.vocabulary else np.float32)
    sizes = {"outputs": 3, "vocabulary": case.vocabulary}
    features = activation_features(case.config, case.symmetry, x.shape[1:], x, statistic, **sizes)
    planted, theta = drawn(case.symmetry, 3), case.theta.astype(np.float32)
    signs = drawn_signs(case.symmetry, 3)
    for of_norm, part in zip(case.symmetry.groups, case.symmetry.split(signs), strict=True):
        if of_norm.name.startswith("norm"):
            part[:] = 1
    turned = transform(case.symmetry, theta, planted, signs)
    found = match(features.symmetry, features.of(theta[None])[0], features.of(turned), signed=True)
    np.testing.assert_array_equal(found.units, invert_units(case.symmetry, planted))
    back = transform(case.symmetry, turned, found.units, found.signs)
    np.testing.assert_allclose(back, np.tile(theta, (3, 1)), atol=1e-6)


def test_noise_leaves_heads_and_their_units_where_they_belong() -> None:
    case = example("llama")
    planted = drawn(case.symmetry, 4)
    near = case.theta + 0.05 * np.random.default_rng(0).normal(size=(4, case.theta.size)) * np.abs(case.theta)
    found = match(case.symmetry, case.theta, transform(case.symmetry, near, planted))
    np.testing.assert_array_equal(found.units, invert_units(case.symmetry, planted))


def test_rotary_embedding_keeps_the_order_of_pairs() -> None:
    """What may be exchanged without rotary embedding changes the function with it, and so do halves of a pair."""
    case, free = example("llama"), example("attention")
    keys = next(group for group in free.symmetry.groups if group.name == "heads.keys")
    assert isinstance(keys, InnerGroup)
    assert keys.exchangeable
    assert keys.size == 12
    outer = next(group for group in free.symmetry.groups if group.name == "heads")
    alone = Symmetry(case.layout, (outer, keys))
    exchanged = alone.join([np.arange(2), np.array([1, 0, *range(2, 12)])])
    pair = alone.join([np.arange(2), np.array([3, 1, 2, 0, *range(4, 12)])])
    for units in (exchanged, pair):
        moved = transform(alone, case.theta, units)[None]
        assert change(free, moved).max() < 1e-9
        assert change(case, moved).max() > 1e-3
    signs = np.ones((1, alone.units), np.int8)
    signs[0, 2] = -1
    assert change(free, unmoved(alone, case.theta, signs)).max() < 1e-9
    assert change(case, unmoved(alone, case.theta, signs)).max() > 1e-3
    pairs = next(group for group in case.symmetry.groups if group.name == "heads.keys")
    assert isinstance(pairs, InnerGroup)
    assert (pairs.size, pairs.exchangeable) == (6, False)


def attention(heads: int, shared: int, width: int) -> Symmetry:
    shapes = {"q": (heads * width, 3), "k": (shared * width, 3), "v": (shared * width, 3)}
    arrays = {**shapes, "o": (3, heads * width)}
    parameters = (Parameter(f"{n}.weight", s, "weight", i, s[1], s[0]) for i, (n, s) in enumerate(arrays.items()))
    layout = Layout(tuple(parameters))
    return Symmetry(layout, tuple(attention_groups(layout, "q", "k", "v", "o", heads, shared)))


@pytest.mark.parametrize("seed", range(4))
def test_heads_are_matched_as_well_as_by_all_orders(seed: int) -> None:
    """Units of values and of keys share no array, so that both levels are exact: 3! x (2! x 2!)^3 orders."""
    symmetry = attention(3, 3, 2)
    reference_, draw = np.random.default_rng(seed).normal(size=(2, symmetry.layout.size))
    found = match(symmetry, reference_, draw[None])
    inner = [np.array(order) for order in itertools.permutations(range(2))]
    every = []
    for outer in itertools.permutations(range(3)):
        for chosen in itertools.product(inner, repeat=6):
            parts = [[2 * slot + order for slot, order in zip(outer, chosen[i : i + 3], strict=True)] for i in (0, 3)]
            every.append(symmetry.join([np.array(outer), *(np.concatenate(part) for part in parts)]))
    best = (transform(symmetry, draw, np.array(every)) @ reference_).max()
    assert found.objective[0] == pytest.approx(best)
    assert transform(symmetry, draw, found.units[0]) @ reference_ == pytest.approx(best)


def test_the_objective_never_decreases_from_any_start() -> None:
    symmetry = attention(6, 2, 3)
    reference_, *draws = np.random.default_rng(0).normal(size=(6, symmetry.layout.size))
    start = match(symmetry, reference_, np.array(draws))._replace(units=drawn(symmetry, 5))
    before = transform(symmetry, np.array(draws), start.units) @ reference_
    found = match(symmetry, reference_, np.array(draws), start=start)
    assert (found.objective > before).all()
    np.testing.assert_allclose((transform(symmetry, np.array(draws), found.units) * reference_).sum(1), found.objective)


def test_orders_inside_follow_the_outer_order() -> None:
    case = example("llama")
    for units in drawn(case.symmetry, 5):
        parts = dict(zip((group.name for group in case.symmetry.groups), case.symmetry.split(units), strict=True))
        np.testing.assert_array_equal(parts["heads.values"].reshape(2, -1) // 6, np.tile(parts["heads"], (6, 1)).T)
        np.testing.assert_array_equal(parts["norm0"], parts["stream"])
    broken = case.symmetry.identity.copy()
    values = dict(zip((group.name for group in case.symmetry.groups), case.symmetry.split(broken), strict=True))
    values["heads.values"][[0, 11]] = [11, 0]
    with pytest.raises(SymmetryError, match=r"heads\.values does not follow that of heads"):
        transform(case.symmetry, case.theta, broken)
    with pytest.raises(SymmetryError, match=r"need symmetry\.permutation\.transform"):
        apply(case.symmetry, case.theta, case.symmetry.identity)


@pytest.mark.parametrize("name", CASES)
def test_symmetries_of_models_have_no_other_orders_than_before(name: str) -> None:
    """Signs and scales are further sets of places: kept frames of models have the same groups and units."""
    assert not any(isinstance(group, InnerGroup) for group in example(name).symmetry.groups)


@pytest.mark.parametrize("name", DESCRIBED)
def test_networks_and_formulas_agree(name: str) -> None:
    case = example(name)
    network = case.config
    outputs = np.asarray(network.apply(case.theta.astype(np.float32), network.arrange(case.x))).T
    np.testing.assert_allclose(outputs, case.outputs(case.theta[None])[0], rtol=2e-5, atol=2e-6)
