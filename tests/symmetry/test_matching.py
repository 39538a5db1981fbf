"""Matching of networks: exact assignments, an objective that never decreases, and planted permutations."""

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from bnn_atlas.config.parts.posterior import MLPConfig
from bnn_atlas.models.networks import build_network
from bnn_atlas.symmetry.features import (
    Statistic,
    activation_features,
    activations_of,
    cosine_features,
    weight_features,
)
from bnn_atlas.symmetry.groups import Symmetry, SymmetryError, symmetry_of
from bnn_atlas.symmetry.matching import Matched, match, products, similarities
from bnn_atlas.symmetry.permutation import apply, balanced, invert_units, rows_of, transform, uniform_units

from .networks import example

pytestmark = pytest.mark.bits


def mlp(*hidden: int, inputs: int = 3, **settings: Any) -> Symmetry:
    config = MLPConfig(hidden=hidden, **settings)
    return symmetry_of(config, build_network(config, (inputs,), 2).layout)


def normal(symmetry: Symmetry, count: int, seed: int = 0, dtype: type = np.float64) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, symmetry.layout.size)).astype(dtype)


def drawn(symmetry: Symmetry, count: int, seed: int = 1) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return np.stack([uniform_units(symmetry, generator) for _ in range(count)])


@pytest.mark.parametrize("size", range(1, 8))
def test_one_layer_is_as_good_as_all_permutations(size: int) -> None:
    symmetry = mlp(size)
    reference, *draws = normal(symmetry, 4, size)
    found = match(symmetry, reference, np.array(draws))
    every = np.array(list(itertools.permutations(range(size))), dtype=np.int16)
    for draw, objective, units in zip(draws, found.objective, found.units, strict=True):
        best = (apply(symmetry, np.tile(draw, (len(every), 1)), every) @ reference).max()
        assert objective == pytest.approx(best)
        assert apply(symmetry, draw, units) @ reference == pytest.approx(objective)


def test_one_wide_layer_is_scipys_assignment_in_one_sweep() -> None:
    symmetry = mlp(512, inputs=20)
    reference, draw = normal(symmetry, 2, dtype=np.float32)
    (similarity,) = similarities(symmetry, symmetry.groups[0], reference, draw[None])
    _, columns = linear_sum_assignment(similarity, maximize=True)
    found = match(symmetry, reference, draw[None])
    np.testing.assert_array_equal(found.units[0], columns)
    assert found.sweeps == 1
    again = match(symmetry, reference, draw[None], start=found)
    np.testing.assert_array_equal(again.units, found.units)


@pytest.mark.parametrize("name", ["mlp", "lenet5", "resnet_frn", "wide_resnet_frn", "cnn_lstm"])
def test_planted_permutations_are_found_exactly(name: str) -> None:
    case = example(name)
    planted = drawn(case.symmetry, 3)
    found = match(case.symmetry, case.theta, apply(case.symmetry, case.theta, planted))
    np.testing.assert_array_equal(found.units, invert_units(case.symmetry, planted))
    np.testing.assert_allclose(found.objective, case.theta @ case.theta)


@pytest.mark.parametrize("name", ["mlp", "resnet_frn", "cnn_lstm"])
def test_the_objective_never_decreases_from_any_start(name: str) -> None:
    case = example(name)
    count = 1 if name == "resnet_frn" else 4
    reference, *draws = normal(case.symmetry, count + 1)
    start = Matched.unmoved(case.symmetry, count)._replace(units=drawn(case.symmetry, count))
    before = apply(case.symmetry, np.array(draws), start.units) @ reference
    found = match(case.symmetry, reference, np.array(draws), start=start)
    assert (found.objective > before).all()
    again = match(case.symmetry, reference, np.array(draws), start=found)
    np.testing.assert_array_equal(again.units, found.units)


def git_re_basin(symmetry: Symmetry, reference: np.ndarray, draw: np.ndarray, order: np.random.Generator) -> float:
    """Weight matching as in git-re-basin: groups in random order, one assignment each, until none gains."""
    current = draw.copy()
    gained = True
    while gained:
        gained = False
        for number in order.permutation(len(symmetry.groups)):
            group = symmetry.groups[number]
            (similarity,) = similarities(symmetry, group, reference, current[None])
            rows, columns = linear_sum_assignment(similarity, maximize=True)
            if similarity[rows, columns].sum() > np.trace(similarity) + 1e-12:
                alone = symmetry.split(symmetry.identity.copy())
                alone[number] = columns
                current, gained = apply(symmetry, current, symmetry.join(alone)), True
    return float(reference @ current)


def test_objectives_are_those_of_git_re_basin() -> None:
    symmetry = mlp(8, 8, 8)
    reference, *draws = normal(symmetry, 41)
    ours = match(symmetry, reference, np.array(draws)).objective
    theirs = np.array([git_re_basin(symmetry, reference, d, np.random.default_rng(i)) for i, d in enumerate(draws)])
    difference = ours - theirs
    assert difference.mean() > -2 * difference.std() / np.sqrt(len(difference))
    alone = mlp(12)
    reference, *draws = normal(alone, 6)
    ours = match(alone, reference, np.array(draws)).objective
    theirs = np.array([git_re_basin(alone, reference, d, np.random.default_rng(0)) for d in draws])
    np.testing.assert_allclose(ours, theirs)


def test_draws_do_not_depend_on_their_neighbours() -> None:
    symmetry = mlp(6, 5, 4)
    reference, *draws = normal(symmetry, 9, dtype=np.float32)
    together = match(symmetry, reference, np.array(draws))
    for number, draw in enumerate(draws):
        np.testing.assert_array_equal(match(symmetry, reference, draw[None]).units[0], together.units[number])


def test_signs_of_tanh_units_are_found() -> None:
    case = example("mlp_tanh")
    planted = drawn(case.symmetry, 4)
    signs = np.random.default_rng(3).choice([-1, 1], size=planted.shape).astype(np.int8)
    moved = transform(case.symmetry, case.theta, planted, signs)
    np.testing.assert_allclose(case.outputs(moved), np.broadcast_to(case.outputs(case.theta[None]), (4, 2, 3)))
    found = match(case.symmetry, case.theta, moved, signed=True)
    np.testing.assert_allclose(transform(case.symmetry, moved, found.units, found.signs), np.tile(case.theta, (4, 1)))
    assert (match(case.symmetry, case.theta, moved).objective < found.objective).all()


@pytest.mark.parametrize("name", ["mlp", "lenet", "mlp_no_bias"])
def test_balanced_networks_are_the_same_function_with_the_least_norm(name: str) -> None:
    case = example(name)
    ((least,),) = balanced(case.symmetry, case.theta[None])
    np.testing.assert_allclose(case.outputs(least[None]), case.outputs(case.theta[None]), rtol=1e-6, atol=1e-9)
    assert (least**2).sum() < (case.theta**2).sum()
    scaled = case.theta.copy()[None]
    generator = np.random.default_rng(0)
    for group in case.symmetry.groups:
        factor = np.exp(generator.normal(size=group.size))
        for place in group.places:
            view = case.layout.unflatten(scaled)[place.array]
            by_index = np.repeat(factor, place.inner).reshape(-1, *(1,) * (view.ndim - 2 - place.axis))
            view *= by_index if place.incoming else 1 / by_index
    np.testing.assert_allclose(balanced(case.symmetry, scaled)[0][0], least, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        balanced(case.symmetry, apply(case.symmetry, case.theta[None], drawn(case.symmetry, 1)))[0][0],
        apply(case.symmetry, least, drawn(case.symmetry, 1)[0]),
        rtol=1e-5, atol=1e-7,
    )  # fmt: skip


def test_freedoms_that_a_network_does_not_have_are_refused() -> None:
    with pytest.raises(SymmetryError, match="no scales to remove"):
        balanced(example("mlp_tanh").symmetry, example("mlp_tanh").theta[None])


def test_units_without_weights_keep_their_scale() -> None:
    symmetry = mlp(2)
    theta = np.zeros((1, symmetry.layout.size))
    np.testing.assert_array_equal(balanced(symmetry, theta)[0], theta)


def test_the_cosine_of_the_first_layer_is_the_published_cost() -> None:
    symmetry = mlp(5)
    reference, draw = normal(symmetry, 2)
    features = cosine_features(symmetry)
    found = match(features.symmetry, *features.of(np.array([reference])), features.of(np.array([draw])))
    ours, theirs = (symmetry.layout.unflatten(each)["layer0.weight"] for each in (reference, draw))
    lengths = np.linalg.norm(ours, axis=1)[:, None] * np.linalg.norm(theirs, axis=1)
    expected = linear_sum_assignment(1 - ours @ theirs.T / lengths)[1]
    np.testing.assert_array_equal(found.units[0], expected)
    with pytest.raises(SymmetryError, match=r"criterion cosine .*has 2 groups"):
        cosine_features(mlp(3, 3))


def test_weights_of_dead_inputs_do_not_count() -> None:
    symmetry = mlp(6, inputs=4)
    reference, draw = normal(symmetry, 2)
    dead = np.array([False, True, False, True])
    features = weight_features(symmetry, dead)
    changed = draw.copy()
    symmetry.layout.unflatten(changed)["layer0.weight"][:, dead] = 100 * np.arange(12).reshape(6, 2)
    units = [
        match(features.symmetry, features.of(reference[None])[0], features.of(each[None])).units
        for each in (draw, changed)
    ]
    np.testing.assert_array_equal(*units)
    assert not np.array_equal(match(symmetry, reference, changed[None]).units, units[0])
    with pytest.raises(SymmetryError, match="dead inputs can be masked only if"):
        weight_features(example("lenet").symmetry, np.zeros((28, 28, 1), bool))


@pytest.mark.parametrize("name", ["mlp", "lenet5", "resnet_frn", "cnn_lstm"])
@pytest.mark.parametrize("statistic", ["activations", "centred", "correlation"])
def test_activations_find_planted_permutations(name: str, statistic: Any) -> None:
    case = example(name)
    vocabulary = 9 if name == "cnn_lstm" else 0
    generator = np.random.default_rng(0)
    shape = case.x.shape[1:]
    x = generator.integers(9, size=(20, *shape)) if vocabulary else generator.normal(size=(20, *shape))
    x = x.astype(np.int32 if vocabulary else np.float32)
    features = activation_features(case.config, case.symmetry, shape, x, statistic, outputs=3, vocabulary=vocabulary)
    theta = case.theta.astype(np.float32)
    planted = drawn(case.symmetry, 2)
    reference, *moved = features.of(np.stack([theta, *apply(case.symmetry, theta, planted)]))
    found = match(features.symmetry, reference, np.array(moved))
    used = [np.ptp(part, axis=1) > 0 for part in features.symmetry.layout.unflatten(reference).values()]
    back = invert_units(case.symmetry, planted)
    for alive, ours, theirs in zip(used, case.symmetry.split(found.units), case.symmetry.split(back), strict=True):
        np.testing.assert_array_equal(ours[:, alive], theirs[:, alive])
    assert found.sweeps == 1


def test_activations_are_the_values_of_the_units() -> None:
    case = example("mlp")
    x = np.random.default_rng(1).normal(size=(7, 4)).astype(np.float32)
    theta = case.theta.astype(np.float32)
    features = activation_features(case.config, case.symmetry, (4,), x, "activations", outputs=3)
    arrays, h = case.layout.unflatten(theta), x.T
    for layer, found in features.symmetry.layout.unflatten(features.of(theta[None])[0]).items():
        h = np.maximum(arrays[f"{layer}.weight"] @ h + arrays[f"{layer}.bias"][:, None], 0)
        np.testing.assert_allclose(found * np.sqrt(7), h, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["lenet5", "resnet_frn", "cnn_lstm"])
@pytest.mark.parametrize("statistic", ["activations", "centred", "correlation"])
def test_products_over_pieces_of_rows_are_those_of_all_activations(name: str, statistic: Any) -> None:
    """40 rows of images come in pieces of 16; units that are constant over all rows, or in one piece, are included.

    A correlation loses the digits in which the mean square of a unit's activations exceeds their variance.
    """
    case = example(name)
    vocabulary = 9 if name == "cnn_lstm" else 0
    generator = np.random.default_rng(0)
    shape = case.x.shape[1:]
    x = generator.integers(9, size=(40, *shape)) if vocabulary else 3 + generator.normal(size=(40, *shape))
    x = x.astype(np.int32 if vocabulary else np.float32)
    features, raw = (
        activation_features(case.config, case.symmetry, shape, x, one, outputs=3, vocabulary=vocabulary)
        for one in (statistic, "activations")
    )
    every = np.float32(0.3) * normal(case.symmetry, 3, dtype=np.float32)
    reference, draws = every[0], every[1:]
    found = products(features, reference, draws)
    (wanted,), others = features.of(reference[None]), features.of(draws)
    activations = raw.of(every).astype(np.float64)
    for group, as_sampled in zip(features.symmetry.groups, raw.symmetry.groups, strict=True):
        whole = similarities(features.symmetry, group, wanted.astype(np.float64), others.astype(np.float64))
        off = np.abs(found.similarity[group.name] - whole) / np.abs(whole).max()
        lost = np.ones_like(off)
        if statistic == "correlation":
            places = [rows_of(raw.symmetry, place, group.size, activations) for place in as_sampled.places]
            values = np.concatenate(places, axis=2)
            each = (values**2).mean(axis=2) / np.maximum(values.var(axis=2), 1e-12)
            lost = each[0][None, :, None] + each[1:, None, :]
        assert (off <= np.minimum(1e-5 * lost, 3e-3)).all(), group.name
    lengths = np.linalg.norm(wanted) * np.linalg.norm(others, axis=1)
    np.testing.assert_allclose(found.rounding, 1e-7 * lengths, rtol=1e-4)
    assert activations_of(case.config, case.symmetry, shape, x, outputs=3, vocabulary=vocabulary).pieces > (
        name != "cnn_lstm"
    )


def test_units_that_are_constant_have_no_products() -> None:
    symmetry, shape = mlp(4), (3,)
    theta = normal(symmetry, 2, dtype=np.float32)
    for draw in theta:
        symmetry.layout.unflatten(draw)["layer0.weight"][1] = 0
    x = np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32)
    cases: dict[Statistic, bool] = {"centred": True, "correlation": True, "activations": False}
    for statistic, dead in cases.items():
        features = activation_features(MLPConfig(hidden=(4,)), symmetry, shape, x, statistic, outputs=2)
        symmetry.layout.unflatten(theta[0])["layer0.bias"][:] = 1
        assert features.products is not None
        similarity = features.products(theta[0], theta[1:]).similarity["layer0"]
        assert (similarity[0, 1] == 0).all() == dead


def test_the_best_of_several_orders_beats_one_run_of_git_re_basin() -> None:
    symmetry = mlp(8, 8, 8)
    reference, *draws = normal(symmetry, 41)
    found = match(symmetry, reference, np.array(draws), orders=6, seed=3)
    theirs = np.array([git_re_basin(symmetry, reference, d, np.random.default_rng(i)) for i, d in enumerate(draws)])
    assert found.tried is not None
    assert found.tried.shape == (40, 6)
    np.testing.assert_array_equal(found.objective, found.tried.max(axis=1))
    np.testing.assert_array_equal(found.tried[:, 0], match(symmetry, reference, np.array(draws)).objective)
    np.testing.assert_allclose((apply(symmetry, np.array(draws), found.units) @ reference), found.objective)
    difference = found.objective - theirs
    assert difference.mean() > 3 * difference.std() / np.sqrt(len(difference))
    again = match(symmetry, reference, np.array(draws[5:6]), orders=6, seed=3)
    np.testing.assert_array_equal(again.units[0], found.units[5])


def test_one_sweep_is_exact_without_shared_arrays_whatever_the_orders() -> None:
    symmetry = mlp(6)
    reference, *draws = normal(symmetry, 4)
    one, many = (match(symmetry, reference, np.array(draws), orders=orders) for orders in (1, 3))
    np.testing.assert_array_equal(one.units, many.units)
    assert many.tried is not None
    np.testing.assert_array_equal(many.tried, np.repeat(one.objective[:, None], 3, axis=1))
