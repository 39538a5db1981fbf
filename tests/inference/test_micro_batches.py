"""Micro-batches and shards: the same gradient within a budget of memory."""

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from bnn_atlas.config.parts.posterior import (
    CategoricalLikelihood,
    HeteroscedasticLikelihood,
    LearnedNoiseLikelihood,
    MLPConfig,
)
from bnn_atlas.config.parts.priors import StandardNormalPrior
from bnn_atlas.inference.problem import BudgetError, micro_batches, residual_bytes
from bnn_atlas.placement import Placement
from bnn_atlas.posterior.density import Evaluation, PosteriorData, binder, build_posterior, data_specs, posterior_data

pytestmark = pytest.mark.bits

ROWS = 203
LIKELIHOODS = {
    "heteroscedastic": HeteroscedasticLikelihood(head="softplus"),
    "learned_noise": LearnedNoiseLikelihood(),
    "categorical": CategoricalLikelihood(),
}


def build(likelihood, hidden=(7,), features=5, rows=ROWS, shards=1, temperature=1.5):
    rng = np.random.default_rng(3)
    posterior, prior = build_posterior(
        MLPConfig(hidden=hidden, activation="tanh"),
        likelihood,
        StandardNormalPrior(),
        temperature=temperature,
        shape=(features,),
        classes=3,
        shards=shards,
        kernel="xla",
    )
    y = rng.integers(0, 3, rows) if isinstance(likelihood, CategoricalLikelihood) else rng.normal(size=rows)
    return posterior, posterior_data(rng.normal(size=(rows, features)), y, prior, shards)


def evaluate(posterior, data: PosteriorData, theta: np.ndarray) -> Evaluation:
    place = Placement(len(theta), jax.local_devices()[: posterior.shards], shards=posterior.shards)
    bind, specs = binder(posterior), data_specs(data)
    mapped = place.map(lambda data, theta: bind(data).evaluate(theta), specs)
    return place.get(mapped(place.share(data, specs), place.put(theta)))


def assert_close(found: Evaluation, expected: Evaluation) -> None:
    for a, b in zip(found.density, expected.density, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
    scale = np.abs(expected.gradient).max()
    np.testing.assert_allclose(found.gradient, expected.gradient, rtol=1e-4, atol=1e-5 * scale)


@pytest.mark.parametrize("name", LIKELIHOODS)
@pytest.mark.parametrize("pieces", [2, 7, ROWS])
def test_micro_batches_give_the_whole_gradient(name: str, pieces: int) -> None:
    posterior, data = build(LIKELIHOODS[name])
    theta = np.random.default_rng(0).normal(size=(2, posterior.layout.size)).astype(np.float32)
    assert_close(evaluate(posterior._replace(micro_batches=pieces), data, theta), evaluate(posterior, data, theta))


@pytest.mark.parametrize("shards", [2, 4])
@pytest.mark.parametrize("pieces", [1, 3])
def test_devices_that_share_the_rows_give_the_whole_gradient(shards: int, pieces: int) -> None:
    one, data = build(LIKELIHOODS["heteroscedastic"])
    several, shared = build(LIKELIHOODS["heteroscedastic"], shards=shards)
    assert len(shared.y) == -(-ROWS // shards) * shards
    theta = np.random.default_rng(0).normal(size=(3, one.layout.size)).astype(np.float32)
    assert_close(evaluate(several._replace(micro_batches=pieces), shared, theta), evaluate(one, data, theta))


@pytest.mark.parametrize("shards", [1, 4])
def test_mini_batches_estimate_without_bias(shards: int) -> None:
    posterior, data = build(LIKELIHOODS["heteroscedastic"], rows=40, shards=shards)
    theta = np.random.default_rng(0).normal(size=(1, posterior.layout.size)).astype(np.float32)
    place = Placement(1, jax.local_devices()[:shards], shards=shards)
    bind, specs = binder(posterior), data_specs(data)

    def mean_of_an_epoch(data: PosteriorData, theta: jax.Array) -> Evaluation:
        target = bind(data)
        rows = jnp.arange(target.rows).reshape(-1, 2)
        return jax.tree.map(lambda leaf: leaf.mean(axis=0), jax.lax.map(lambda b: target.estimate(theta, b), rows))

    mapped = place.map(mean_of_an_epoch, specs)
    assert_close(place.get(mapped(place.share(data, specs), place.put(theta))), evaluate(posterior, data, theta))


def test_memory_stays_within_the_budget() -> None:
    posterior, data = build(CategoricalLikelihood(), hidden=(64, 64), features=100, rows=6000)
    whole = compiled_bytes(posterior, data)
    pieces = micro_batches(posterior, data, whole / 4)
    assert pieces >= 4
    assert compiled_bytes(posterior._replace(micro_batches=pieces), data) < whole / 4
    assert micro_batches(posterior, data, 100 * whole) == 1


def compiled_bytes(posterior, data: PosteriorData) -> int:
    """Memory that a compiled gradient takes in addition to arguments and results."""
    batch = jax.eval_shape(posterior.arrange, data)
    theta = jax.ShapeDtypeStruct((posterior.layout.size,), jnp.float32)
    return jax.jit(posterior.evaluate).lower(theta, batch).compile().memory_analysis().temp_size_in_bytes


def test_the_number_of_micro_batches_does_not_depend_on_the_rows_tried() -> None:
    posterior, data = build(CategoricalLikelihood(), hidden=(64,), features=10, rows=1000)
    per_row = residual_bytes(posterior, data)
    assert 4 * 64 <= per_row <= 4 * (4 * 64 + 10 * 10)
    assert micro_batches(posterior, data, 2 * per_row * 100) == 10
    sharded, shared = build(CategoricalLikelihood(), hidden=(64,), features=10, rows=1000, shards=4)
    assert micro_batches(sharded, shared, 2 * per_row * 100) == 3


@pytest.mark.parametrize(("hidden", "rows"), [((16,) * 4, 2048), ((64,) * 4, 512), ((512,) * 4, 2048), ((50,), 2624)])
def test_pieces_follow_from_the_widths(hidden: tuple[int, ...], rows: int) -> None:
    posterior, _ = build(LearnedNoiseLikelihood(), hidden=hidden)
    assert posterior.network.piece == rows


def test_a_linear_model_is_computed_whole() -> None:
    posterior, _ = build(LearnedNoiseLikelihood(), hidden=())
    assert posterior.network.piece is None


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_pieces_in_cache_change_nothing_but_rounding(name: str) -> None:
    posterior, data = build(LIKELIHOODS[name], hidden=(64, 64), rows=3000)
    whole = posterior._replace(network=posterior.network._replace(piece=None))
    theta = np.random.default_rng(0).normal(size=(1, posterior.layout.size)).astype(np.float32) / 8
    assert jax.eval_shape(posterior.arrange, data).y.shape == (3, 1008)
    assert_close(evaluate(posterior, data, theta), evaluate(whole, data, theta))
    for function in ("log_likelihood_and_gradient", "log_likelihood_of"):
        values = [jax.jit(getattr(p, function))(theta[0], data.x, data.y) for p in (posterior, whole)]
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-2), *values)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5),
        posterior.predict(theta, data.x),
        whole.predict(theta, data.x),
    )


def test_a_network_whose_activations_fit_keeps_its_bits() -> None:
    posterior, data = build(LIKELIHOODS["heteroscedastic"], hidden=(16,) * 4, rows=1202)
    whole = posterior._replace(network=posterior.network._replace(piece=None))
    theta = np.random.default_rng(0).normal(size=(1, posterior.layout.size)).astype(np.float32) / 4
    jax.tree.map(np.testing.assert_array_equal, evaluate(posterior, data, theta), evaluate(whole, data, theta))


def test_activations_stay_in_cache_however_many_the_rows() -> None:
    sizes = []
    for rows in (4000, 20_000):
        posterior, data = build(LIKELIHOODS["heteroscedastic"], hidden=(16,) * 4, rows=rows)
        sizes.append(compiled_bytes(posterior, data))
    assert sizes[1] < 1.1 * sizes[0] < 4e6


def test_the_budget_bounds_pieces_in_cache() -> None:
    posterior, data = build(LIKELIHOODS["heteroscedastic"], hidden=(64, 64), rows=3000)
    fewer = posterior._replace(micro_batches=micro_batches(posterior, data, 2 * residual_bytes(posterior, data) * 100))
    assert jax.eval_shape(fewer.arrange, data).y.shape == (30, 112)


def test_a_budget_below_one_row_is_refused() -> None:
    posterior, data = build(CategoricalLikelihood())
    with pytest.raises(BudgetError, match="gradient_memory_mb"):
        micro_batches(posterior, data, 10.0)


def test_more_shards_than_devices_are_refused() -> None:
    with pytest.raises(ValueError, match="data_shards"):
        Placement(1, shards=len(jax.local_devices()) + 1)
