"""Permuted copies of a network: one function, one posterior density, another place in parameter space."""

import itertools
from collections import Counter
from typing import Any

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from bnn_atlas.config.parts.posterior import CategoricalLikelihood, LearnedNoiseLikelihood, LeNettiConfig, MLPConfig
from bnn_atlas.config.parts.priors import EpsStandardNormalPrior, GlorotPrior, PriorConfig, StandardNormalPrior
from bnn_atlas.models.networks import build_network
from bnn_atlas.posterior.density import Posterior, build_posterior, posterior_data
from bnn_atlas.symmetry.groups import SymmetryError
from bnn_atlas.warmstart.initial import hidden_units, permuted_copies

pytestmark = pytest.mark.bits

ROWS, FEATURES, HIDDEN = 9, 3, (7, 5, 6)
CHAINS = np.arange(4)


def problem(prior: PriorConfig, **changes: Any) -> tuple[Posterior, Any, np.ndarray]:
    """A network with a learned noise level, data for it, and parameters."""
    model = MLPConfig(**{"hidden": HIDDEN, **changes})
    posterior, built = build_posterior(
        model, LearnedNoiseLikelihood(), prior, temperature=1.0, shape=(FEATURES,), dtype=jnp.float32
    )
    numbers = np.random.default_rng(0)
    x, y = numbers.normal(size=(ROWS, FEATURES)), numbers.normal(size=ROWS)
    theta = numbers.normal(size=posterior.layout.size).astype(np.float32)
    return posterior, posterior_data(x, y, built), theta


@pytest.mark.parametrize("changes", [{}, {"bias": False}, {"hidden": (4,), "activation": "tanh"}], ids=str)
def test_copies_are_the_same_function_at_another_place(changes: dict[str, Any]) -> None:
    posterior, data, theta = problem(StandardNormalPrior(), **changes)
    copies = permuted_copies(posterior.layout, theta, CHAINS, 3)
    assert copies.shape == (4, posterior.layout.size)
    assert copies.dtype == theta.dtype
    assert len(np.unique(copies, axis=0)) == 4
    assert not np.any(np.all(copies == theta, axis=1))
    outputs = posterior.predict(jnp.asarray([theta, *copies]), data.x)
    assert np.std(outputs.mean[0]) > 0.1
    np.testing.assert_allclose(outputs.mean[1:], np.broadcast_to(outputs.mean[0], (4, ROWS)), rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(outputs.scale[1:], np.broadcast_to(outputs.scale[0], (4, ROWS)))
    before = posterior.layout.unflatten(theta)
    for copy in copies:
        for name, array in posterior.layout.unflatten(copy).items():
            np.testing.assert_array_equal(np.sort(array, axis=None), np.sort(before[name], axis=None))


def test_weights_follow_the_units_of_both_layers_that_they_join() -> None:
    """W_l <- W_l[P_l, P_{l-1}] and b_l <- b_l[P_l], with P_l read off the biases."""
    posterior, _, theta = problem(StandardNormalPrior())
    before = posterior.layout.unflatten(theta)
    after = posterior.layout.unflatten(permuted_copies(posterior.layout, theta, CHAINS[1:2], 0)[0])
    before_layer: np.ndarray = np.arange(FEATURES)
    for layer, width in enumerate((*HIDDEN, 1)):
        order = np.array([np.flatnonzero(before[f"layer{layer}.bias"] == b)[0] for b in after[f"layer{layer}.bias"]])
        assert sorted(order) == list(range(width))
        assert (layer == len(HIDDEN)) == np.array_equal(order, np.arange(width)), "hidden units alone are moved"
        weights = before[f"layer{layer}.weight"]
        np.testing.assert_array_equal(after[f"layer{layer}.weight"], weights[np.ix_(order, before_layer)])
        before_layer = order
    assert before["log_sigma"] == after["log_sigma"]


def test_permutations_are_uniform_and_those_of_two_layers_unrelated() -> None:
    layout = build_network(MLPConfig(hidden=(3, 3), bias=True), (1,), 1).layout
    places = [layout.offset(f"layer{number}.bias") for number in (0, 1)]
    copies = permuted_copies(layout, np.arange(layout.size), np.arange(360), 5)
    orders = [tuple(tuple(copy[p : p + 3] - p) for p in places) for copy in copies]
    every = list(itertools.permutations(range(3)))
    for layer in (0, 1):
        counts = Counter(order[layer] for order in orders)
        assert set(counts) == set(every)
        assert sum((count - 60) ** 2 / 60 for count in counts.values()) < 20.5, "chi-squared, 5 degrees of freedom"
    assert len(set(orders)) == 36, "every pair of orders comes up"


def test_the_bits_of_published_runs_stay() -> None:
    layout = build_network(MLPConfig(hidden=(7, 5)), (1,), 1).layout
    assert hidden_units(layout, 11, 2).tolist() == [5, 2, 3, 4, 0, 6, 1, 2, 0, 1, 3, 4]


def test_a_copy_depends_on_the_seed_and_the_number_of_its_chain_alone() -> None:
    posterior, _, theta = problem(StandardNormalPrior())
    copies = permuted_copies(posterior.layout, theta, CHAINS, 3)
    np.testing.assert_array_equal(permuted_copies(posterior.layout, theta, CHAINS[2:], 3), copies[2:])
    assert not np.any(np.all(permuted_copies(posterior.layout, theta, CHAINS, 4) == copies, axis=1))


@pytest.mark.parametrize(
    ("prior", "same"), [(StandardNormalPrior(), True), (GlorotPrior(), True), (EpsStandardNormalPrior(), False)],
    ids=lambda value: getattr(value, "kind", ""),
)  # fmt: skip
def test_the_posterior_density_is_that_of_the_member_where_the_prior_is_symmetric(
    prior: PriorConfig, same: bool
) -> None:
    posterior, data, theta = problem(prior)
    evaluate = jax.jit(lambda vector: posterior.evaluate(vector, posterior.arrange(data)).density)
    before = [float(part) for part in evaluate(theta)]
    for copy in permuted_copies(posterior.layout, theta, CHAINS, 3):
        likelihood, prior_density = (float(part) for part in evaluate(copy))
        assert likelihood == pytest.approx(before[0], rel=1e-5)
        assert (prior_density == pytest.approx(before[1], rel=1e-5)) == same


def test_pixels_stay_where_they_are() -> None:
    network = build_network(MLPConfig(hidden=(5,)), (2, 3, 1), 4)
    theta = np.random.default_rng(1).normal(size=network.layout.size).astype(np.float32)
    images = network.arrange(jnp.asarray(np.random.default_rng(2).normal(size=(3, 2, 3, 1)), jnp.float32))
    (copy,) = permuted_copies(network.layout, theta, CHAINS[:1], 0)
    assert not np.array_equal(copy, theta)
    np.testing.assert_allclose(network.apply(copy, images), network.apply(theta, images), rtol=1e-6, atol=1e-6)


def test_other_networks_are_refused() -> None:
    layout = build_posterior(
        LeNettiConfig(), CategoricalLikelihood(), StandardNormalPrior(), temperature=1.0, shape=(8, 8, 1), classes=3
    )[0].layout
    with pytest.raises(SymmetryError, match=r"fully connected networks only; this one has .*weight"):
        permuted_copies(layout, np.zeros(layout.size), CHAINS, 0)
