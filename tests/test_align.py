"""`align` and `Symmetry`: draws of any network in one order."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from flax import linen as nn
from flax import nnx
from flax.traverse_util import flatten_dict
from jax import numpy as jnp

import bnn_atlas as atlas
from bnn_atlas.data import DataError
from bnn_atlas.symmetry.groups import FreeGroup, Symmetry, SymmetryError, scales_of
from bnn_atlas.symmetry.permutation import _multiply, transform, uniform_units
from bnn_atlas.traces.draws import ArrayDraws
from tests.symmetry.networks import example
from tests.symmetry.test_tracing import (
    TOKENS,
    Attention,
    Convolutions,
    Grouped,
    GroupedAndFlat,
    Nnx,
    Residual,
    arrays,
    torch_like,
)
from tests.test_envs import REPOSITORY

NUMBERS = np.random.default_rng(8)
X = NUMBERS.normal(size=(40, 30)).astype(np.float32)
IMAGES = NUMBERS.normal(size=(6, 8, 8, 2)).astype(np.float32)
Y = np.sin(X[:, 0])
TORCH = arrays(fc1_weight=(6, 30), fc1_bias=(6,), fc2_weight=(4, 6), fc3_weight=(2, 4), fc3_bias=(2,))
SPEC: dict[str, Any] = {
    "fc1.weight": ("h", None),
    "fc1.bias": ("h",),
    "fc2.weight": ("g", "h"),
    "fc3.weight": (None, "g"),
    "fc3.bias": (None,),
}
DENSITY = atlas.posterior_of(lambda p: -jnp.sum(p["a"] ** 2), start={"a": np.zeros(3)})
SETTINGS: dict[str, Any] = {
    "model": {"kind": "mlp", "hidden": [6, 5], "activation": "tanh"},
    "likelihood": {"kind": "learned_noise"},
}


def planted(symmetry: atlas.Symmetry, tree: Any, count: int, noise: float = 0.003) -> Any:
    """Noisy copies of a network with units in random orders, and these orders."""
    networks, orders = [], []
    for number in range(count):
        sizes = {name: size or 0 for name, size in symmetry.groups.items()}
        order = {name: NUMBERS.permutation(size) if number else np.arange(size) for name, size in sizes.items()}
        moved = symmetry.apply(tree, order)
        networks.append(jax.tree.map(lambda a: a + noise * NUMBERS.normal(size=a.shape).astype(a.dtype), moved))
        orders.append(order)
    return networks, orders


def parameters(module: Any, rows: np.ndarray, start: Any) -> Any:
    """Random parameters of a module in its own form."""
    if isinstance(module, nn.Module):
        start = module.init(jax.random.key(0), rows[:1])["params"]
    elif isinstance(module, nnx.Module):
        start = nnx.to_pure_dict(nnx.state(module, nnx.Param))
    return jax.tree.map(lambda a: np.float32(np.asarray(a) + 0.3 * NUMBERS.normal(size=a.shape)), start)


NETWORKS: dict[str, tuple[Callable[[], Any], np.ndarray, Any]] = {
    "convolutions": (Convolutions, IMAGES, None),
    "residual": (Residual, X, None),
    "nnx": (lambda: Nnx(nnx.Rngs(0), inputs=30), X, None),
    "torch_like": (lambda: torch_like, X, TORCH),
}


@pytest.mark.parametrize("by", ["weights", "activations", "centred", "correlation"])
@pytest.mark.parametrize("name", NETWORKS)
def test_planted_permutations_are_undone(name: str, by: Any) -> None:
    make, rows, start = NETWORKS[name]
    module = make()
    symmetry = atlas.Symmetry.of(module, rows, start)
    tree = parameters(module, rows, start)
    networks, orders = planted(symmetry, tree, 6)
    found = atlas.align(networks, symmetry, by=by, x=None if by == "weights" else rows, reference="first")
    for group, size in symmetry.groups.items():
        undone = [order[group][found.permutations[group][number]] for number, order in enumerate(orders)]
        np.testing.assert_array_equal(undone, np.tile(np.arange(size or 0), (6, 1)))
        assert found.transpositions[group][0] == 0
    for draw in found.draws:
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=0.02), draw, tree)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=0.01), found.mean, tree)
    assert 0 < max(jax.tree.leaves(jax.tree.map(np.max, found.sd))) < 0.02


@pytest.mark.parametrize("by", ["weights", "activations", "centred", "correlation"])
@pytest.mark.parametrize("module", [Grouped(), GroupedAndFlat(), Attention()])
def test_units_inside_other_units_are_put_back(module: nn.Module, by: Any) -> None:
    """Heads and groups of a norm in another order, and their units, too."""
    rows = TOKENS if isinstance(module, Attention) else IMAGES
    symmetry = atlas.Symmetry.of(module, rows, vocabulary=11 if isinstance(module, Attention) else 0)
    assert symmetry._found is not None
    tree = parameters(module, rows, None)
    networks = [tree]
    for _ in range(4):
        drawn = symmetry._found.split(uniform_units(symmetry._found, NUMBERS))
        networks.append(symmetry.apply(tree, dict(zip(symmetry.groups, drawn, strict=True))))
    found = atlas.align(networks, symmetry, by=by, x=None if by == "weights" else rows, reference="first")
    for draw in found.draws:
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), draw, tree)
    outer, size = next((name, size) for name, size in symmetry.groups.items() if size in (2, 3))
    moved = symmetry.apply(tree, {outer: [1, 0, 2][:size]})
    assert any(not np.array_equal(a, b) for a, b in zip(jax.tree.leaves(moved), jax.tree.leaves(tree), strict=True))


def test_a_symmetry_by_hand_is_the_one_that_is_found() -> None:
    """The barycentre of the same networks, with sizes learned from them."""
    by_hand, found = atlas.Symmetry(SPEC), atlas.Symmetry.of(torch_like, X, TORCH)
    networks, _ = planted(found, parameters(torch_like, X, TORCH), 8, noise=0.3)
    ours, theirs = (atlas.align(networks, each) for each in (SPEC, found))
    for mine, named in (("h", "fc1"), ("g", "fc2")):
        np.testing.assert_array_equal(ours.permutations[mine], theirs.permutations[named])
    assert by_hand.groups == {"h": None, "g": None}
    np.testing.assert_array_equal(ours.mean["fc2.weight"], theirs.mean["fc2.weight"])


def test_products_of_positions_and_channels_are_written_as_tuples() -> None:
    """A convolution [out, in, height, width] and a dense layer after a flattened map, channels outermost or not."""
    tree = {"conv": NUMBERS.normal(size=(3, 2, 2, 2)), "dense": NUMBERS.normal(size=(4, 12))}
    order = np.array([2, 0, 1])
    for entry, moved in ((("c", 4), (3, 4)), ((4, "c"), (4, 3))):
        symmetry = atlas.Symmetry({"conv": ("c", None, None, None), "dense": (None, entry)})
        found = symmetry.apply(tree, {"c": order})
        np.testing.assert_array_equal(found["conv"], tree["conv"][order])
        maps = tree["dense"].reshape(4, *moved)
        expected = maps[:, order] if moved == (3, 4) else maps[:, :, order]
        np.testing.assert_array_equal(found["dense"], expected.reshape(4, 12))


def test_signs_and_scales_are_matched_and_returned() -> None:
    """Hidden units of a linear network that change order, sign and scale come back."""
    spec: dict[str, Any] = {"first": ("h", None), "bias": ("h",), "last": (None, "h")}
    symmetry = atlas.Symmetry(spec, signs=["h"], scales={"h": ["first", "bias"]})
    first, bias, last = NUMBERS.normal(size=(6, 9)), NUMBERS.normal(size=6), NUMBERS.normal(size=(2, 6))
    networks = []
    for number in range(5):
        order = NUMBERS.permutation(6)
        factors = NUMBERS.choice([-1, 1], 6) * np.exp(NUMBERS.normal(size=6)) if number else np.ones(6)
        moved = (first[order] * factors[:, None], bias[order] * factors, last[:, order] / factors)
        networks.append(dict(zip(spec, moved, strict=True)))
    found = atlas.align(networks, symmetry, signs=True, scales=True, reference="first")
    assert max(array.max() for array in found.sd.values()) < 1e-5
    for number, network in enumerate(networks):
        order = found.permutations["h"][number]
        factors = found.signs["h"][number] * found.scales["h"][number]
        np.testing.assert_allclose(network["bias"][order] * factors, found.mean["bias"], rtol=1e-5)
        np.testing.assert_allclose(network["last"][:, order] / factors, found.mean["last"], rtol=1e-5)
    incoming = np.sqrt((found.mean["first"] ** 2).sum(1) + found.mean["bias"] ** 2)
    np.testing.assert_allclose(incoming, np.linalg.norm(found.mean["last"], axis=0), rtol=1e-5)
    plain = atlas.align(networks, symmetry)
    assert not plain.scales
    assert not plain.signs


def test_each_set_of_filters_before_a_norm_has_its_own_scale() -> None:
    """The aligned filters are the sampled ones, in the order found, times the factors."""
    settings = {"model": {"kind": "resnet_frn", "depth": 8}, "likelihood": {"kind": "categorical"}}
    numbers = np.random.default_rng(5)
    posterior = atlas.build_posterior(numbers.normal(size=(2, 4, 4, 1)), np.array([0, 1]), settings)
    draws = numbers.normal(size=(3, posterior.density.layout.size)).astype(np.float32)
    found = atlas.align(draws, posterior=posterior, scales=True, reference="first", pairs=0)
    before, after = (posterior.as_pytree(each) for each in (draws, found.draws))
    sets = {
        "stem_conv": ("stream0", "stream0[0]"),
        "stack0_block0.conv1": ("stream0", "stream0[1]"),
        "stack0_block0.conv0": ("stack0_block0", "stack0_block0"),
    }
    for layer, (group, scale) in sets.items():
        name = f"{layer}.bias"
        expected = np.take_along_axis(before[name], found.permutations[group].astype(np.intp), axis=1)
        np.testing.assert_allclose(after[name], expected * found.scales[scale], rtol=1e-5)
        assert not np.allclose(found.scales[scale], 1, rtol=0.1)


def changed(symmetry: Symmetry, theta: np.ndarray, count: int) -> np.ndarray:
    """Copies [count, P] of a network with random orders, signs and scales."""
    numbers = np.random.default_rng(7)
    units = np.stack([uniform_units(symmetry, numbers) for _ in range(count)])
    signs = numbers.choice(np.array([-1, 1]), units.shape)
    found = transform(symmetry, np.tile(theta, (count, 1)), units, signs)
    for group in symmetry.groups:
        for places in scales_of(group):
            factors = np.exp(0.3 * numbers.normal(size=(count, group.size)))
            for place in places:
                _multiply(symmetry, place, found, factors if place.incoming else 1 / factors)
    return found


def llama_by_hand(*, rotary: bool) -> atlas.Symmetry:
    """Two key-value heads with three query heads each; with rotary embedding, units turn in pairs."""
    unit = (6, "qk") if rotary else (3, "qk")
    axes: dict[str, Any] = {
        "embedding.table": (None, "stream"),
        "norm0.gain": ("norm0",),
        "query.weight": (unit, "norm0"),
        "query.bias": (unit,),
        "key.weight": ((2, "qk") if rotary else "qk", "norm0"),
        "key.bias": ((2, "qk") if rotary else "qk",),
        "value.weight": ("v", "norm0"),
        "value.bias": ("v",),
        "out.weight": ("stream", (3, "v")),
        "norm1.gain": ("norm1",),
        "gate.weight": ("hidden", "norm1"),
        "up.weight": ("hidden", "norm1"),
        "down.weight": ("stream", "hidden"),
        "norm2.gain": ("norm2",),
        "output.weight": (None, "norm2"),
    }
    norms: dict[str, Any] = {f"norm{number}": [f"norm{number}.gain"] for number in range(3)}
    qk = {"query.*": 1, "key.*": -1}
    return atlas.Symmetry(
        axes,
        signs={"hidden": ["up.*", "down.*"], "qk": ["*"], "v": ["*"], **{key: ["*"] for key in norms}},
        scales={"hidden": {"up.*": 1, "down.*": -1}, "qk": qk, "v": ["value.*"], **norms},
        inside={"qk": ("heads", 2), "v": ("heads", 2), **dict.fromkeys(norms, ("stream", 12))},
        ordered=[*norms, *(["qk"] if rotary else [])],
    )


@pytest.mark.parametrize("name", ["llama", "attention"])
def test_heads_gated_layers_and_norms_are_written_by_hand(name: str) -> None:
    """Outputs stay the same, and orders, signs and scales that were planted are found."""
    case, symmetry = example(name), llama_by_hand(rotary=name == "llama")
    bound = symmetry.bound(case.layout)
    described = {group.name: group for group in case.symmetry.groups}
    for ours, theirs in (("hidden", "hidden"), ("v", "heads.values"), ("qk", "heads.keys"), ("norm1", "norm1")):
        group = next(group for group in bound.groups if group.name == ours)
        assert isinstance(group, FreeGroup)
        assert set(group.places) == {replace(p, incoming=q.incoming) for p, q in zip_places(described[theirs], group)}
        assert [sorted(map(repr, places)) for places in group.scales] == [
            sorted(map(repr, places)) for places in scales_of(described[theirs])
        ]
    copies = changed(bound, case.theta, 4)
    np.testing.assert_allclose(case.outputs(copies), np.tile(case.outputs(case.theta[None]), (4, 1, 1)), rtol=1e-8)
    function = partial(outputs_by_name, case.network)
    symmetry.check(function, case.rows(4), case.layout.unflatten(case.theta.astype(np.float32)), vocabulary=40)
    trees = [case.layout.unflatten(one) for one in (case.theta, *copies)]
    found = atlas.align(trees, symmetry, signs=True, scales=True, reference="first", pairs=0)
    assert max(np.max(sd / (1e-3 + np.abs(found.mean[name]))) for name, sd in found.sd.items()) < 1e-4


def test_several_orders_and_a_small_gain() -> None:
    """More orders of the groups never end lower, and passes end once one gains less than the share."""
    numbers = np.random.default_rng(3)
    axes = {f"w{k}": (f"h{k}" if k < 4 else None, f"h{k - 1}" if k else None) for k in range(5)}
    networks = [{name: numbers.normal(size=(6, 6)) for name in axes} for _ in range(12)]
    ends = [
        atlas.align(networks, axes, reference="first", pairs=0, orders=orders).frame.objective[-1] for orders in (1, 6)
    ]
    assert ends[1] > ends[0]
    settled = atlas.align(networks, axes, pairs=0).frame
    early = atlas.align(networks, axes, pairs=0, gain=0.2).frame
    assert len(early.objective) < len(settled.objective)
    assert early.gain < 0.2


def zip_places(theirs: Any, ours: Any) -> Any:
    """Places of the same arrays and axes in two groups."""
    return [(p, q) for p in theirs.places for q in ours.places if (p.array, p.axis) == (q.array, q.axis)]


def outputs_by_name(network: Any, arrays: Any, x: Any) -> Any:
    return network.apply(network.layout.flatten(arrays), network.arrange(x)).T


class Gated(nn.Module):
    """down (silu(gate x) * up x)."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        hidden = nn.silu(nn.Dense(6, name="gate")(x)) * nn.Dense(6, name="up")(x)
        return nn.Dense(2, name="down")(hidden)


GATED: dict[str, Any] = {
    **{f"{name}/kernel": (None, "h") for name in ("gate", "up")},
    **{f"{name}/bias": ("h",) for name in ("gate", "up")},
    "down/kernel": ("h", None),
    "down/bias": (None,),
}


def test_signs_and_scales_of_parts_of_a_group_are_found_in_its_program() -> None:
    """Of up and down, but not gate; of queries against keys; and copies are brought together by them."""
    found = atlas.Symmetry.of(Gated(), X)
    assert "scale free (up/bias, up/kernel, down/kernel), sign free (up/bias, up/kernel, down/kernel)" in repr(found)
    heads = atlas.Symmetry.of(Attention(), TOKENS, vocabulary=11)._found
    assert heads is not None
    layer = "MultiHeadDotProductAttention_0"
    (scaled,) = scales_of(next(group for group in heads.groups if group.name == f"{layer}/query.units"))
    assert {place.array.split("/")[1]: place.incoming for place in scaled} == {"query": True, "key": False}
    tree = parameters(Gated(), X, None)
    bound = found._found
    assert bound is not None
    theta = np.asarray(bound.layout.flatten({"/".join(k): v for k, v in flatten_dict(tree).items()}))
    posterior = atlas.posterior_of(Gated(), X, X[:, 0], likelihood="heteroscedastic")
    copies = [posterior.as_pytree(np.float32(one)) for one in (theta, *changed(bound, theta, 4))]
    aligned = atlas.align(copies, found, signs=True, scales=True, reference="first", pairs=0)
    assert max(jax.tree.leaves(jax.tree.map(np.max, aligned.sd))) < 1e-4
    assert min(jax.tree.leaves(jax.tree.map(np.max, atlas.align(copies, found, reference="first").sd))[2:]) > 0.1


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"signs": ["h"]}, "h: another sign of its units in gate/kernel"),
        ({"scales": {"h": ["gate/*"]}}, "h: another scale of its units in gate/kernel"),
        ({"scales": {"h": {"up/*": 1, "down/*": 1}}}, "h: another scale of its units in up/kernel"),
        ({"signs": {"h": ["gate/*", "down/*"]}}, "h: another sign of its units in gate/kernel, gate/bias, down/kernel"),
    ],
)
def test_signs_and_scales_that_are_not_free_are_refused_by_the_check(more: Any, words: str) -> None:
    free: Any = {"signs": {"h": ["up/*", "down/*"]}, "scales": {"h": {"up/*": 1, "down/*": -1}}}
    atlas.Symmetry(GATED, **free).check(Gated(), X)
    with pytest.raises(SymmetryError, match=words):
        atlas.Symmetry(GATED, **more).check(Gated(), X)
    with pytest.raises(SymmetryError, match="h: another order of its units"):
        atlas.Symmetry({**GATED, "up/kernel": (None, None)}).check(Gated(), X)


def test_a_sign_that_is_free_only_where_units_are_small_is_refused() -> None:
    """Without scales, no array is known to compute the units."""

    def kinked(p: Any, x: Any) -> Any:
        hidden = x @ p["a"]
        return jnp.where(hidden > 9, 9, hidden) @ p["b"]

    start = {"a": np.ones((30, 3)), "b": np.ones((3, 2))}
    symmetry = atlas.Symmetry({"a": (None, "h"), "b": ("h", None)}, signs=["h"])
    symmetry.check(lambda p, x: x @ p["a"] @ p["b"], X, start)
    with pytest.raises(SymmetryError, match="h: another sign of its units in a, b"):
        symmetry.check(kinked, X, start)


def test_a_check_that_can_see_nothing_says_so() -> None:
    axes: dict[str, Any] = {"w": (None, None), "a": (None, "h"), "b": ("h", None)}
    start = {"w": np.ones((30, 2)), "a": np.ones((30, 3)), "b": np.ones((3, 2))}
    blind, broken = (
        lambda p, x, factor=factor: x @ p["w"] + factor * (jnp.tanh(x @ p["a"]) @ p["b"]) for factor in (0, np.nan)
    )
    with pytest.raises(SymmetryError, match=r"depend on group 'h' by less than 1% of .* cannot be verified"):
        atlas.Symmetry(axes, signs=["h"]).check(blind, X, start)
    with pytest.raises(SymmetryError, match="outputs are not finite at random parameters"):
        atlas.Symmetry(axes).check(broken, X, start)


@pytest.mark.parametrize("name", ["chain", "rest", "rounding"])
def test_groups_can_have_any_name(name: str) -> None:
    numbers = np.random.default_rng(5)
    networks = [{"in": numbers.normal(size=(4, 3)), "out": numbers.normal(size=(4,))} for _ in range(3)]
    found, usual = (
        atlas.align(networks, {"in": (of, None), "out": (of,)}, reference="first") for of in (name, "hidden")
    )
    np.testing.assert_array_equal(found.permutations[name], usual.permutations["hidden"])


def sampled() -> tuple[atlas.NetworkPosterior, Any]:
    posterior = atlas.build_posterior(X, Y, SETTINGS)
    method = {"kind": "hmc", "steps": 30, "step_size": 0.05, "trajectory_length": 0.5}
    return posterior, atlas.sample(posterior, method, chains=3, seed=2)


def test_draws_come_back_in_the_form_in_which_they_were_given() -> None:
    posterior, draws = sampled()
    whole = draws.read()
    trees = [[posterior.as_pytree(whole[c, s]) for s in range(30)] for c in range(3)]
    from_disk, array = atlas.align(draws), atlas.align(whole, posterior=posterior)
    pytrees = atlas.align(trees, atlas.Symmetry.of(posterior))
    flat = atlas.align(whole[0], posterior=posterior)
    assert isinstance(from_disk.draws, atlas.PosteriorDraws)
    assert np.isfinite(from_disk.draws.score(X, Y).set_index("metric")["value"]["lppd"])
    np.testing.assert_array_equal(from_disk.draws.read(), array.draws)
    np.testing.assert_array_equal(from_disk.draws.read([1], slice(2, 5), [7, 3]), array.draws[1:2, 2:5][..., [7, 3]])
    for c, s in ((0, 0), (2, 29)):
        jax.tree.map(np.testing.assert_array_equal, pytrees.draws[c][s], posterior.as_pytree(array.draws[c, s]))
    assert flat.draws.shape == whole[0].shape
    assert flat.permutations["layer0"].shape == (30, 6)
    assert pytrees.permutations["layer0"].shape == (3, 30, 6)
    jax.tree.map(np.testing.assert_array_equal, from_disk.mean, array.mean)
    np.testing.assert_allclose(
        array.mean["layer0.weight"], posterior.as_pytree(array.draws.mean((0, 1)))["layer0.weight"], atol=1e-6
    )
    for scored in (draws, from_disk.draws):
        scores = atlas.score(posterior, scored, X, Y).set_index("metric")["value"]
        assert np.isfinite(scores["lppd"])
    before, after = (atlas.predict(posterior, each, X) for each in (draws, from_disk.draws))
    for one, other in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-3, atol=2e-4)


def test_the_report_tells_noise_from_copies() -> None:
    """Copies of one network in other orders lose their variance; independent draws lose as much as the control."""
    posterior = atlas.build_posterior(X, Y, SETTINGS)
    symmetry = atlas.Symmetry.of(posterior)
    size = posterior.density.layout.size
    noise = NUMBERS.normal(size=(2, 40, size)).astype(np.float32)
    theta = posterior.as_pytree(NUMBERS.normal(size=size).astype(np.float32))
    networks, _ = planted(symmetry, theta, 80, noise=0.1)
    copies = [networks[:40], networks[40:]]
    gains = []
    for draws in (noise, copies):
        found = atlas.align(draws, symmetry, pairs=10)
        report = found.report()
        assert report is found.report()
        value = report.table.set_index(["metric", "at"])["value"]
        variance = value["aligned_variance"]
        gains.append([1 - variance[at] / variance["scrambled"] for at in ("aligned", "aligned_noise")])
        assert "noise" in str(report)
        assert set(value["aligned_rhat_median"].index) == {
            "sampled",
            "aligned",
            "scrambled",
            "chain_wise",
            "aligned_noise",
        }
    np.testing.assert_allclose(gains[0][0], gains[0][1], atol=0.03)
    assert gains[1][0] > 0.98 > 0.5 > gains[1][1]


def test_networks_of_flax_that_are_not_parameters_are_refused_with_advice() -> None:
    module = nnx.Sequential(nnx.Linear(2, 3, rngs=nnx.Rngs(0)), nnx.tanh, nnx.Linear(3, 1, rngs=nnx.Rngs(1)))
    linen = nn.Sequential([nn.Dense(3), nn.tanh, nn.Dense(1)])
    variables = linen.init(jax.random.key(0), X)
    for network, wrong, right, words in (
        (module, module, nnx.to_pure_dict(nnx.state(module, nnx.Param)), r"pass nnx.to_pure_dict\(nnx.state"),
        (linen, variables, variables["params"], r"pass variables\['params'\] of each"),
    ):
        symmetry = atlas.Symmetry.of(network, np.zeros((5, 2)) if network is module else X)
        with pytest.raises(DataError, match=f"^draws\\[0\\] is not of the network of this symmetry: .*{words}"):
            atlas.align([wrong, wrong], symmetry)
        assert np.isfinite(jax.tree.leaves(atlas.align([right, right], symmetry).mean)[0]).all()


def test_few_draws_of_noise_gain_what_the_control_gains() -> None:
    """Without means of its own for each unit, the control gains 0.3 of the variance and more, as such draws do."""
    axes = {"a": ("h", None), "b": (None, "h")}
    gains = np.zeros((20, 2))
    for seed, row in enumerate(gains):
        draws = [{"a": NUMBERS.normal(size=(30, 3)), "b": NUMBERS.normal(size=(2, 30))} for _ in range(4)]
        table = atlas.align(draws, axes, pairs=0, seed=seed).report().table
        variance = table[table["metric"] == "aligned_variance"].set_index("at")["value"]
        row[:] = [1 - variance[at] / variance["scrambled"] for at in ("aligned", "aligned_noise")]
    ours, control = gains.mean(axis=0)
    assert ours > 0.3
    assert abs(ours - control) < 0.03


def test_activations_at_the_rows_of_the_posterior() -> None:
    """They are those of the same network as a user's function."""
    posterior, draws = sampled()

    def function(p: Any, x: Any) -> Any:
        hidden = jnp.tanh(x @ p["layer0.weight"].T + p["layer0.bias"])
        return jnp.tanh(hidden @ p["layer1.weight"].T + p["layer1.bias"]) @ p["layer2.weight"].T + p["layer2.bias"]

    trees = [[posterior.as_pytree(theta) for theta in chain] for chain in draws.read()]
    start = trees[0][0]
    del start["log_sigma"]
    for chain in trees:
        for tree in chain:
            tree.pop("log_sigma", None)
    ours = atlas.align(draws, posterior=posterior, by="centred")
    theirs = atlas.align(trees, atlas.Symmetry.of(function, X, start), by="centred", x=X)
    assert np.mean(ours.permutations["layer0"] == theirs.permutations["layer0"]) > 0.99


def test_divergent_draws_that_are_not_finite_are_left_alone() -> None:
    """From the divergent step on, and counted; all others are refused by their names."""
    posterior, draws = sampled()
    whole = draws.read()
    whole[1, 4:, 3] = np.nan
    steps = np.zeros(whole.shape[:2], np.int32)
    steps[1, 4] = 1
    layout, shape = posterior.density.layout, [np.arange(size) for size in whole.shape[:2]]
    marked = ArrayDraws(Path("draws"), layout, whole, {"divergent": steps}, *shape, {})
    found = atlas.align(marked, posterior=posterior)
    np.testing.assert_array_equal(found.draws.read()[1, 4], whole[1, 4])
    np.testing.assert_array_equal(found.permutations["layer0"][1, 4], np.arange(6))
    lost = whole.shape[1] - 4
    assert f"{lost} draws not finite" in str(found.report())
    name = layout.names()[3].partition("[")[0]
    with pytest.raises(DataError, match=rf"^draws\[1, 4\] has NaN or infinity in '{name}', as {lost} of .*leave"):
        atlas.align(whole, posterior=posterior)
    with pytest.raises(DataError, match=rf"^draws\[4\] has NaN or infinity in '{name}'"):
        atlas.align(whole[1], posterior=posterior)
    unmarked = ArrayDraws(Path("draws"), layout, whole, {"divergent": np.roll(steps, 1, axis=1)}, *shape, {})
    with pytest.raises(DataError, match=r"^draws: draw 4 of chain 1 has NaN .*divergent"):
        atlas.align(unmarked, posterior=posterior)
    with pytest.raises(DataError, match=r"^draws\[1\] has NaN or infinity in 'fc2.weight'"):
        atlas.align([TORCH, {**TORCH, "fc2.weight": np.full((4, 6), np.inf)}], SPEC)


def networks_without(name: str) -> list[dict[str, np.ndarray]]:
    return [TORCH, {key: array for key, array in TORCH.items() if key != name}]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: atlas.Symmetry({}), "maps names"),
        (lambda: atlas.Symmetry({"w": "h"}), r"axes\['w'\]"),
        (lambda: atlas.Symmetry({"w": (3, "h")}), r"entry 3"),
        (lambda: atlas.Symmetry({"w": ((3, 4), "h"), "v": ("h",)}), "name of a group"),
        (lambda: atlas.Symmetry({"w": ("h", None), "v": (None,)}), "w, axis 0 alone"),
        (lambda: atlas.Symmetry({"w": (None, None)}), "no group"),
        (lambda: atlas.Symmetry(SPEC, signs=["k"]), "no group 'k'"),
        (lambda: atlas.Symmetry(SPEC, signs="h"), "^signs is 'h': write a list of groups"),
        (lambda: atlas.Symmetry({1: (None, "h"), "w": ("h",)}), "axes has the key 1: write the name"),
        (lambda: atlas.Symmetry(SPEC, signs=None), "^signs is None: write a list of groups"),
        (lambda: atlas.Symmetry(SPEC, scales=["h"]), r"^scales is \['h'\]: map groups"),
        (lambda: atlas.Symmetry(SPEC, scales={"h": 3}), r"^scales\['h'\] is 3: write a list of names"),
        (lambda: atlas.Symmetry(SPEC, scales={"h": {"*": -1, "fc1.*": 1}}), "divides fc1.weight, which matches"),
        (lambda: atlas.Symmetry(SPEC, scales={"h": {"fc1.*": 2}}), r"scales\['h'\]\['fc1\.\*'\] is 2: write 1"),
        (lambda: atlas.Symmetry(SPEC, signs={"h": "fc1.*"}), r"^signs\['h'\] is 'fc1\.\*': write a list of names"),
        (lambda: atlas.Symmetry(SPEC, inside={"k": ("heads", 2)}), "no group 'k' in axes"),
        (lambda: atlas.Symmetry(SPEC, inside={"h": "heads"}), r"write a group and its size"),
        (lambda: atlas.Symmetry(SPEC, inside=["h"]), "inside maps groups"),
        (lambda: atlas.Symmetry(SPEC, inside={"h": ("g", 2), "g": ("k", 2)}), "one level"),
        (lambda: atlas.Symmetry(SPEC, ordered=["h"]), "'h' is not a group inside"),
        (lambda: atlas.Symmetry(SPEC, ordered=3), "ordered is 3: write a list of groups"),
        (lambda: atlas.Symmetry(SPEC, signs={"h": [3]}), r"^signs\['h'\] is \[3\]"),
        (
            lambda: atlas.align([TORCH] * 2, atlas.Symmetry(SPEC, inside={"h": ("k", 4)})),
            r"not a multiple of 4 \(inside says 4 units",
        ),
        (lambda: atlas.align([TORCH] * 2, atlas.Symmetry(SPEC, signs={"h": ["fc3.*"]})), "no array of the group"),
        (lambda: atlas.align([TORCH] * 2, SPEC, gain=1.0), "gain is 1.0: pass a number from 0 to below 1"),
        (lambda: atlas.align([TORCH] * 2, SPEC, gain="none"), "gain is 'none'"),
        (lambda: atlas.align([TORCH] * 2, SPEC, orders=0), "orders is 0"),
        (lambda: atlas.Symmetry(SPEC).check(torch_like, None, TORCH), "x is missing"),
        (lambda: atlas.Symmetry(SPEC).check(DENSITY), "density alone, which has no outputs"),
        (lambda: atlas.Symmetry(SPEC).check(SETTINGS, X), "network has settings"),
        (lambda: atlas.Symmetry(SPEC, scales={"h": "fc1.weight"}), r"^scales\['h'\] is 'fc1\.weight'"),
        (lambda: atlas.align([TORCH] * 2, atlas.Symmetry(SPEC, scales={"h": ["fc9.*"]})), r"fc9\.\*"),
        (
            lambda: atlas.align([TORCH] * 2, {**SPEC, "fc4.weight": ("g", None)}),
            "no parameter 'fc4.weight'; there is fc",
        ),
        (lambda: atlas.align([TORCH] * 2, {**SPEC, "fc1.bias": ("g",)}), "'h' has|'g' has 6 units in fc1.bias"),
        (lambda: atlas.align([TORCH] * 2, {**SPEC, "fc1.bias": ("h", None)}), "the number of entries is 1 and not 2"),
        (lambda: atlas.align([TORCH] * 2, {**SPEC, "fc2.weight": (("g", 3), "h")}), "not a multiple of 3"),
        (
            lambda: atlas.align([TORCH] * 2, {name: SPEC[name] for name in SPEC if name != "fc3.bias"}),
            "does not name 'fc3.bias'",
        ),
        (lambda: atlas.align(networks_without("fc1.bias"), SPEC), r"draws\[1\] is not like the first.*fc1.bias"),
        (lambda: atlas.align([TORCH, {**TORCH, "fc1.bias": np.ones(5)}], SPEC), r"draws\[1\].*\[5\]"),
        (lambda: atlas.align([{**TORCH, "fc1.bias": np.ones(6, int)}] * 2, SPEC), "whole numbers"),
        (lambda: atlas.align([{**TORCH, "fc1.bias": "text"}] * 2, SPEC), "fc1.bias"),
        (lambda: atlas.align([[TORCH] * 2, [TORCH]], SPEC), "1 to 2 draws"),
        (lambda: atlas.align([TORCH] * 2), "symmetry is missing"),
        (lambda: atlas.align([TORCH] * 2, 3), "symmetry is a int"),
        (lambda: atlas.align([TORCH] * 2, SPEC, by="colour"), "by is 'colour'"),
        (lambda: atlas.align([TORCH] * 2, SPEC, by="activations", x=X), "needs the network"),
        (lambda: atlas.align([TORCH] * 2, SPEC, x=X), "of no use"),
        (lambda: atlas.align([TORCH] * 2, atlas.Symmetry.of(torch_like, X, TORCH), by="activations"), "x is missing"),
        (lambda: atlas.align(np.ones((2, 3, 4)), SPEC), "pass posterior"),
        (lambda: atlas.align(np.ones((2, 4)), atlas.Symmetry.of(torch_like, X, TORCH)), r"\[chain, draw, 220\]"),
        (lambda: atlas.align(np.ones((2, 220), int), atlas.Symmetry.of(torch_like, X, TORCH)), "int64"),
        (lambda: atlas.align([], SPEC), "^draws is empty: pass"),
        (lambda: atlas.align([TORCH] * 2, SPEC, pairs=-1), "pairs"),
        (lambda: atlas.align([TORCH] * 2, SPEC, reference=np.ones(3)), "reference is array"),
        (lambda: atlas.align({"fc1.bias": np.ones((2, 6))}, SPEC), "draws is a dict"),
        (lambda: atlas.align([[1.0, 2.0], [3.0]], SPEC), "draws is a list"),
        (lambda: atlas.align([TORCH] * 2, SPEC, signs="no"), "signs is 'no'"),
        (lambda: atlas.align([TORCH] * 2, SPEC, scales=["fc1"]), "scales is"),
        (lambda: atlas.align([TORCH] * 2, SPEC, seed=0.5), "seed"),
        (lambda: atlas.align([TORCH] * 2, SPEC, posterior=1), "posterior is a int"),
        (lambda: atlas.Symmetry.of(torch_like, None, TORCH), "x is missing"),
        (lambda: atlas.Symmetry.of(torch_like, X), "start is missing"),
        (lambda: atlas.Symmetry(SPEC).apply(TORCH, {"k": [0]}), "no group 'k'"),
    ],
)
def test_what_cannot_be_aligned_is_refused(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(DataError, match=words):
        make()


def test_symmetries_that_are_not_there_are_refused() -> None:
    with pytest.raises(SymmetryError, match="no units"):
        atlas.Symmetry.of(lambda p, x: x @ p["w"], X, {"w": np.ones((30, 2))})
    for kind in ("signs", "scales"):
        with pytest.raises(SymmetryError, match=f"^no {kind} were found: "):
            atlas.align([TORCH] * 2, SPEC, **{kind: True})
    with pytest.raises(SymmetryError, match="not a permutation"):
        atlas.Symmetry(SPEC).apply(TORCH, {"h": [0, 0, 1, 2, 3, 4]})
    with pytest.raises(SymmetryError, match=r"^draws has one draw, and an alignment needs two"):
        atlas.align([TORCH], SPEC)
    with pytest.raises(DataError, match="density alone"):
        atlas.align(np.ones((2, 3)), posterior=DENSITY)


def test_a_symmetry_says_what_it_has_and_what_it_left_alone() -> None:
    def sorting(p: Any, x: Any) -> Any:
        return jnp.sort(jnp.tanh(x @ p["a"]), axis=1) @ p["b"] + jnp.tanh(x @ p["c"]) @ p["d"]

    shapes = {"a": (30, 4), "b": (4, 2), "c": (30, 5), "d": (5, 2)}
    symmetry = atlas.Symmetry.of(sorting, X, {name: NUMBERS.normal(size=shape) for name, shape in shapes.items()})
    assert "c, 5 units, sign free: c axis 1, d axis 0" in repr(symmetry)
    assert "undecided, left alone: a, axis 1" in repr(symmetry)
    assert "h: fc1.weight axis 0, fc1.bias axis 0, fc2.weight axis 1" in repr(atlas.Symmetry(SPEC))
    lines = repr(llama_by_hand(rotary=True)).splitlines()
    assert "  heads, 2 units: around units of qk, around units of v" in lines
    assert any(
        line.startswith("  qk, inside heads, in fixed order, scale free, sign free: query.weight") for line in lines
    )
    part = "(up.weight, down.weight)"
    assert f"  hidden, scale free {part}, sign free {part}: gate.weight axis 0" in "\n".join(lines)


def test_the_example_of_the_documentation_runs(capsys: pytest.CaptureFixture[str]) -> None:
    section = (REPOSITORY / "docs" / "library.md").read_text(encoding="utf-8").partition("## Align draws\n")[2]
    names: dict[str, Any] = {}
    exec(section.partition("```python\n")[2].partition("```")[0], names)
    found = names["aligned"]
    np.testing.assert_allclose(found.sd["fc1.weight"], 0.1, atol=0.06)
    order = found.permutations["h"][0]
    np.testing.assert_array_equal(names["networks"][0]["fc1.bias"][order], found.draws[0]["fc1.bias"])
    assert "noise, aligned" in capsys.readouterr().out
