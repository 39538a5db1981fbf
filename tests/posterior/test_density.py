"""The posterior density: its parts, its gradient, temperature, precision, and what it predicts."""

from typing import NamedTuple

import jax
import numpy as np
import pytest
import scipy.special
import scipy.stats
from jax import numpy as jnp

from bnn_atlas.config.parts.posterior import (
    CategoricalLikelihood,
    GaussianLikelihood,
    HeteroscedasticLikelihood,
    LearnedNoiseLikelihood,
    LikelihoodConfig,
    MLPConfig,
)
from bnn_atlas.config.parts.priors import GlorotUniformPrior, LaplacePrior, NormalPrior, PriorConfig
from bnn_atlas.models.layout import Layout, Parameter
from bnn_atlas.posterior.density import Evaluation, Posterior, PosteriorData, build_posterior, posterior_data
from bnn_atlas.posterior.likelihoods import log_likelihood
from bnn_atlas.posterior.prior_densities import build_prior, log_prior

pytestmark = pytest.mark.bits

ROWS, FEATURES, CLASSES, DRAWS = 12, 3, 4, 5
TEMPERATURE = 0.3
# Every likelihood, each with another prior and activation.
SETTINGS: dict[str, tuple[LikelihoodConfig, PriorConfig, str]] = {
    "gaussian": (GaussianLikelihood(sigma=0.4), NormalPrior(loc=0.1, scale=0.8), "tanh"),
    "learned_noise": (LearnedNoiseLikelihood(), NormalPrior(), "silu"),
    "exp": (HeteroscedasticLikelihood(head="exp"), LaplacePrior(scale=0.5), "relu"),
    "softplus": (HeteroscedasticLikelihood(head="softplus"), NormalPrior(), "sigmoid"),
    "categorical": (CategoricalLikelihood(), GlorotUniformPrior(), "tanh"),
}


class Case(NamedTuple):
    """A posterior evaluated at the same draws in both precisions; `values` and `doubles` are Evaluations [b]."""

    posterior: Posterior
    data: PosteriorData
    theta: np.ndarray
    x: np.ndarray
    y: np.ndarray
    values: Evaluation
    untempered: Evaluation
    """The same at temperature 1."""
    slopes: tuple[np.ndarray, np.ndarray]
    """Gradients [b, P] of the log-likelihood alone and of the log-prior alone."""
    doubles: Evaluation
    differences: np.ndarray
    """Finite differences [b, P] of (log-likelihood + log-prior), in double precision, untempered."""


def build(name: str, temperature: float, dtype: jnp.dtype) -> tuple[Posterior, PosteriorData, np.ndarray, np.ndarray]:
    likelihood, prior, activation = SETTINGS[name]
    posterior, built = build_posterior(
        MLPConfig(hidden=(4,), activation=activation),
        likelihood,
        prior,
        temperature=temperature,
        shape=(FEATURES,),
        classes=CLASSES,
        dtype=dtype,
    )
    rng = np.random.default_rng(8)
    x = rng.normal(size=(ROWS, FEATURES))
    y = rng.integers(0, CLASSES, ROWS) if name == "categorical" else rng.normal(size=ROWS)
    return posterior, posterior_data(x, y, built), x, y


@pytest.mark.parametrize(
    ("x", "y", "classes", "message"),
    [
        (np.ones((4, 2)), np.array([0, 1, 2, 3]), 3, "labels go from 0 to 3, but must be 0 to 2"),
        (np.ones((4, 2)), np.array([0, -1, 2, 1]), 3, "labels go from -1 to 2"),
        (np.ones((4, 2)), np.array([0.0, 1.0, 2.0, 1.0]), 3, "labels are float64, but must be whole numbers"),
        (np.ones((4, 3)), np.ones(4), 0, r"rows of shape \[4, 3\] .* rows of shape \[2\]"),
        (np.ones((4, 2, 1)), np.ones(4), 0, r"rows of shape \[4, 2, 1\]"),
        (np.ones((4, 2)), np.ones(3), 0, r"targets of shape \[3\], but the posterior takes one target per row"),
    ],
)
def test_rows_and_labels_that_do_not_fit_are_refused(x, y, classes, message):
    layout = Layout((Parameter("w", (2,), "weight", 0, 2, 1),))
    prior = build_prior(NormalPrior(), layout)
    with pytest.raises(ValueError, match=message):
        posterior_data(x, y, prior, shape=(2,), classes=classes)


def test_rows_are_filled_up_only_where_some_are_missing(monkeypatch):
    prior = build_prior(NormalPrior(), Layout((Parameter("w", (2,), "weight", 0, 2, 1),)))
    filled = posterior_data(np.ones((4, 2)), np.ones(4), prior, shards=3)
    assert (filled.x.shape, filled.y.shape, filled.weights.tolist()) == ((6, 2), (6,), [1, 1, 1, 1, 0, 0])
    monkeypatch.setattr(np, "pad", None)
    whole = posterior_data(np.ones((4, 2)), np.ones(4), prior, shards=2)
    assert whole.x.shape == (4, 2)
    assert whole.weights is None


def central_differences(posterior: Posterior, data: PosteriorData, theta: np.ndarray, step: float) -> np.ndarray:
    """(f(theta + step e_i) - f(theta - step e_i)) / (2 step) for every scalar i, f = log-likelihood + log-prior."""
    size = theta.shape[1]
    moves = np.concatenate([np.eye(size), -np.eye(size)]) * step

    @jax.jit
    @jax.vmap
    def total(vector: jax.Array) -> jax.Array:
        return posterior.log_likelihood(vector, data.x.T, data.y) + posterior.log_prior(vector, data.prior)

    values = np.asarray(total((theta[:, None] + moves).reshape(-1, size))).reshape(len(theta), 2, size)
    return (values[:, 0] - values[:, 1]) / (2 * step)


@pytest.fixture(scope="module", params=SETTINGS)
def case(request: pytest.FixtureRequest) -> Case:
    posterior, data, x, y = build(request.param, TEMPERATURE, jnp.float32)
    theta = np.random.default_rng(9).normal(size=(DRAWS, posterior.layout.size)).astype(np.float32)
    untempered = posterior._replace(temperature=1.0)

    @jax.jit
    @jax.vmap
    def everything(vector: jax.Array) -> tuple[Evaluation, Evaluation, tuple[jax.Array, ...]]:
        slopes = (
            jax.grad(posterior.log_likelihood)(vector, data.x.T, data.y),
            jax.grad(posterior.log_prior)(vector, data.prior),
        )
        batch = posterior.arrange(data)
        return posterior.evaluate(vector, batch), untempered.evaluate(vector, batch), slopes

    values, plain, slopes = jax.tree.map(np.asarray, everything(theta))
    with jax.enable_x64(True):
        double, double_data, _, _ = build(request.param, TEMPERATURE, jnp.float64)
        doubles = jax.jit(jax.vmap(double.evaluate, (0, None)))(theta.astype(np.float64), double.arrange(double_data))
        doubles = jax.tree.map(np.asarray, doubles)
        differences = central_differences(double, double_data, theta.astype(np.float64), 1e-6)
    return Case(posterior, data, theta, x, y, values, plain, slopes, doubles, differences)


def test_gradient_is_the_slope_of_the_tempered_density(case: Case) -> None:
    assert case.doubles.gradient.dtype == np.float64
    expected = case.differences / TEMPERATURE
    np.testing.assert_allclose(case.doubles.gradient, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


def test_single_precision_agrees_with_double(case: Case) -> None:
    assert {leaf.dtype for leaf in jax.tree.leaves(case.values)} == {np.dtype(np.float32)}
    for single, double in zip(case.values.density, case.doubles.density, strict=True):
        np.testing.assert_allclose(single, double, rtol=1e-5)
    scale = np.abs(case.doubles.gradient).max()
    np.testing.assert_allclose(case.values.gradient, case.doubles.gradient, rtol=1e-4, atol=1e-5 * scale)


def test_log_likelihood_and_log_prior_stand_apart_and_untempered(case: Case) -> None:
    posterior, data = case.posterior, case.data
    size = posterior.network.layout.size
    for b, theta in enumerate(case.theta):
        outputs = posterior.network.apply(theta[:size], data.x.T)
        likelihood = log_likelihood(posterior.likelihood, outputs, theta[size:], data.y)
        prior = log_prior(posterior.family, data.prior, theta)
        np.testing.assert_allclose(case.values.density.log_likelihood[b], likelihood, rtol=1e-5)
        np.testing.assert_allclose(case.values.density.log_prior[b], prior, rtol=1e-5)


def test_temperature_divides_both_parts_once(case: Case) -> None:
    for tempered, plain in zip(case.values.density, case.untempered.density, strict=True):
        np.testing.assert_allclose(tempered, plain, rtol=1e-5)
    both = case.slopes[0] + case.slopes[1]
    scale = 1e-5 * np.abs(both).max()
    np.testing.assert_allclose(case.untempered.gradient, both, rtol=1e-4, atol=scale)
    np.testing.assert_allclose(case.values.gradient, both / TEMPERATURE, rtol=1e-4, atol=scale / TEMPERATURE)


def test_prediction_is_consistent_with_the_likelihood(case: Case) -> None:
    predictive = jax.jit(case.posterior.predict)(case.theta, case.x.astype(np.float32))
    if predictive.log_probs is not None:
        assert predictive.log_probs.shape == (DRAWS, ROWS, CLASSES)
        assert predictive.mean is predictive.scale is None
        np.testing.assert_allclose(scipy.special.logsumexp(predictive.log_probs, axis=2), 0, atol=1e-5)
        rows = np.asarray(predictive.log_probs)[:, np.arange(ROWS), case.y]
    else:
        assert predictive.mean.shape == predictive.scale.shape == (DRAWS, ROWS)
        rows = scipy.stats.norm.logpdf(case.y, predictive.mean, predictive.scale)
    np.testing.assert_allclose(rows.sum(axis=1), case.values.density.log_likelihood, rtol=1e-4)


def test_layout_ends_with_the_likelihoods_own_parameters() -> None:
    for name in SETTINGS:
        posterior, _, _, _ = build(name, 1.0, jnp.float32)
        own = [p.name for p in posterior.layout.parameters[len(posterior.network.layout.parameters) :]]
        assert own == (["log_sigma"] if name == "learned_noise" else [])
        assert posterior.layout.size == posterior.network.layout.size + len(own)


def test_learned_noise_level_is_the_last_scalar() -> None:
    posterior, _, x, _ = build("learned_noise", 1.0, jnp.float32)
    theta = np.zeros((2, posterior.layout.size), np.float32)
    theta[:, -1] = [0.0, -1.5]
    scale = posterior.predict(theta, x.astype(np.float32)).scale
    np.testing.assert_allclose(scale, np.exp([[0.0], [-1.5]]) * np.ones((1, ROWS)), rtol=1e-6)


def test_data_are_in_the_priors_precision_and_arranged_feature_major() -> None:
    posterior, data, x, y = build("gaussian", 1.0, jnp.float32)
    arranged = posterior.arrange(data).x
    assert arranged.shape == (FEATURES, 16)
    assert not arranged[:, ROWS:].any()
    assert (data.x.dtype, data.y.dtype, data.prior.loc.dtype) == (np.float32,) * 3
    np.testing.assert_allclose(arranged[:, :ROWS], x.T, rtol=1e-6)
    np.testing.assert_allclose(data.y, y, rtol=1e-6)
    assert build("categorical", 1.0, jnp.float32)[1].y.dtype == np.int32


def test_nan_in_the_data_is_not_hidden() -> None:
    posterior, data, _, _ = build("exp", 1.0, jnp.float32)
    broken = data._replace(y=data.y.at[3].set(jnp.nan))
    theta = jnp.zeros(posterior.layout.size)
    density = posterior.evaluate(theta, posterior.arrange(broken)).density
    assert np.isnan(density.log_likelihood)
    assert np.isfinite(density.log_prior)


def test_a_forward_pass_is_not_fused_into_the_sum_over_its_rows() -> None:
    """XLA recomputes the network for every row then, which on a CPU takes 30 times as long."""
    posterior, prior = build_posterior(
        MLPConfig(hidden=(32, 32)),
        CategoricalLikelihood(),
        NormalPrior(),
        temperature=1.0,
        shape=(20,),
        classes=10,
        kernel="xla",
    )
    rng = np.random.default_rng(0)
    data = posterior_data(rng.normal(size=(500, 20)), rng.integers(10, size=500), prior)

    def likelihood(theta: jax.Array, data: PosteriorData) -> jax.Array:
        return posterior.evaluate(theta, posterior.arrange(data)).density.log_likelihood

    compiled = jax.jit(likelihood).lower(jnp.zeros(posterior.layout.size), data).compile().as_text()
    products = [part for part in compiled.split("\n}\n") if " dot(" in part]
    assert products
    assert not [part for part in products if " reduce(" in part and "ENTRY" not in part]
