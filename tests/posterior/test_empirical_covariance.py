"""The normal prior with the covariance of the data against SciPy, and against what the first layer does to the rows."""

from typing import Any

import jax
import numpy as np
import pytest
import scipy.stats
from jax import numpy as jnp
from threadpoolctl import threadpool_limits

from bnn_atlas.config.parts.posterior import CNNLSTMConfig, GaussianLikelihood, LeNetConfig, MLPConfig
from bnn_atlas.config.parts.priors import EmpiricalCovariancePrior, NormalPrior
from bnn_atlas.models.layout import Layout
from bnn_atlas.models.networks import build_network
from bnn_atlas.posterior.density import Place, build_posterior, posterior_data
from bnn_atlas.posterior.empirical_covariance import covariance
from bnn_atlas.posterior.prior_densities import build_prior, log_prior, log_prior_gain

CONFIG = EmpiricalCovariancePrior(weight_decay=4.0, strength=3.0, floor=0.01)
UNITS, INPUTS = 5, 4
LAYOUT = build_network(MLPConfig(hidden=(UNITS,)), (INPUTS,), 1).layout


def rows() -> np.ndarray:
    """Correlated columns; the last one never varies."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, INPUTS)) @ rng.normal(size=(INPUTS, INPUTS))
    x[:, -1] = 0.7
    return x


def covariances(layout: Layout = LAYOUT) -> tuple[np.ndarray, np.ndarray]:
    """Covariance [d, d] of a unit's weights, and places [units, d] of the weights, by the formula of the settings."""
    centred = rows() - rows().mean(0)
    data = centred.T @ centred / (len(centred) - 1)
    precision = 3.0 * np.linalg.inv(data + 0.01 * np.eye(INPUTS)) + 4.0 * np.eye(INPUTS)
    places = layout.offset("layer0.weight") + np.arange(UNITS * INPUTS).reshape(UNITS, INPUTS)
    return np.linalg.inv(precision), places


def thetas(count: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(count, LAYOUT.size)) * 0.5


def expected(theta: np.ndarray) -> float:
    cov, places = covariances()
    others = np.delete(theta, places.ravel())
    first = scipy.stats.multivariate_normal(np.zeros(INPUTS), cov).logpdf(theta[places]).sum()
    return float(first + scipy.stats.norm.logpdf(others, 0, 0.5).sum())


def test_log_density_is_that_of_the_normals() -> None:
    prior = build_prior(CONFIG, LAYOUT, rows=rows())
    for theta in thetas(4):
        value = log_prior(prior.family, prior.values, jnp.asarray(theta, jnp.float32))
        assert float(value) == pytest.approx(expected(theta), rel=1e-5)


def test_gain_is_accurate_where_the_two_densities_are_not() -> None:
    """A small move far from 0, where a float32 sum has lost it."""
    prior = build_prior(CONFIG, LAYOUT, rows=rows())
    old = 300 * thetas(1)[0]
    old, new = (np.asarray(theta, np.float32) for theta in (old, old + 1e-3 * thetas(2)[1]))
    gain = float(log_prior_gain(prior.family, prior.values, jnp.asarray(new), jnp.asarray(old)))
    exact = expected(new.astype(float)) - expected(old.astype(float))
    assert gain == pytest.approx(exact, rel=1e-5)
    apart = [float(log_prior(prior.family, prior.values, jnp.asarray(theta))) for theta in (new, old)]
    assert abs(apart[0] - apart[1] - exact) > 10 * abs(gain - exact)


def test_samples_have_the_covariance() -> None:
    prior = build_prior(CONFIG, LAYOUT, rows=rows())
    draws = np.asarray(jax.vmap(prior.sample)(jax.random.split(jax.random.key(2), 8000)), float)
    cov, places = covariances()
    first = draws[:, places].reshape(-1, INPUTS)
    white = first @ np.linalg.inv(np.linalg.cholesky(cov)).T
    np.testing.assert_allclose(white.T @ white / len(white), np.eye(INPUTS), atol=5 * np.sqrt(2 / len(white)))
    others = np.delete(draws, places.ravel(), axis=1)
    assert scipy.stats.kstest(others.ravel() / 0.5, "norm").pvalue > 1e-3
    across = np.corrcoef(draws[:, places[0, 0]], draws[:, places[1, 0]])[0, 1]
    assert abs(across) < 5 / np.sqrt(len(draws)), "units are independent"


def test_a_weight_of_an_input_that_never_varies_stays_near_zero() -> None:
    cov, _ = covariances()
    assert cov[-1, -1] == pytest.approx(1 / (3.0 / 0.01 + 4.0))
    assert np.all(np.diag(cov)[:-1] > 10 * cov[-1, -1])


def test_the_prior_is_proper_at_the_published_floor() -> None:
    """Many columns of its rows never vary, and the published inverse covariance has negative eigenvalues."""
    x = np.zeros((30, 40))
    x[:, :5] = np.random.default_rng(3).normal(size=(30, 5))
    layout = build_network(MLPConfig(hidden=(3,)), (40,), 1).layout
    prior = build_prior(EmpiricalCovariancePrior(floor=1e-10), layout, rows=x.astype(np.float32))
    draws = jax.vmap(prior.sample)(jax.random.split(jax.random.key(0), 20))
    values = jax.vmap(lambda theta: log_prior(prior.family, prior.values, theta))(draws)
    assert np.isfinite(values).all()
    typical = -0.5 * layout.size - 0.5 * layout.size * np.log(2 * np.pi) + 0.5 * 3 * 35 * np.log(1e10)
    spread = abs(np.asarray(values) - typical)
    assert spread.max() < 0.05 * abs(typical)


@pytest.mark.parametrize(
    ("model", "shape", "name"),
    [(LeNetConfig(), (16, 15, 2), "conv0"), (MLPConfig(hidden=(6,)), (3, 4, 2), "layer0")],
    ids=["convolution", "dense"],
)
def test_covariance_is_that_of_what_the_first_layer_sees(model: Any, shape: tuple[int, ...], name: str) -> None:
    """The variance of w . input over all rows (and places) is w' C w, for the layer's own arrangement of inputs."""
    network = build_network(model, shape, 3)
    weight = next(p for p in network.layout.parameters if p.name == f"{name}.weight")
    x = np.random.default_rng(5).normal(size=(7, *shape)).cumsum(axis=1)
    matrix = covariance(x, weight)
    w = np.random.default_rng(6).normal(size=weight.shape)
    if name == "conv0":
        out = jax.lax.conv_general_dilated(
            jnp.asarray(x), jnp.asarray(w), (1, 1), "SAME", dimension_numbers=("NHWC", "OIHW", "NHWC")
        )
        responses = np.asarray(out, float).reshape(-1, weight.shape[0])
    else:
        responses = x.reshape(len(x), -1) @ w.T
    flat = w.reshape(weight.shape[0], -1)
    np.testing.assert_allclose(responses.var(axis=0, ddof=1), np.diag(flat @ matrix @ flat.T), rtol=1e-4)


def test_a_posterior_uses_it_in_density_gradient_and_metropolis_test() -> None:
    x, y = rows(), np.zeros(40)
    posterior, prior = build_posterior(
        MLPConfig(hidden=(UNITS,)), GaussianLikelihood(), CONFIG, temperature=0.5, shape=(INPUTS,), rows=x
    )
    data = posterior_data(x, y, prior)
    batch = posterior.arrange(data)
    old, new = (jnp.asarray(theta, jnp.float32) for theta in thetas(2))
    evaluated = posterior.evaluate(old, batch)
    assert float(evaluated.density.log_prior) == pytest.approx(expected(np.asarray(old, float)), rel=1e-5)
    plain, _ = build_posterior(
        MLPConfig(hidden=(UNITS,)), GaussianLikelihood(), NormalPrior(scale=0.5), temperature=0.5, shape=(INPUTS,)
    )
    other = plain.evaluate(old, plain.arrange(posterior_data(x, y, build_prior(NormalPrior(scale=0.5), LAYOUT))))
    cov, places = covariances()
    slope = np.zeros(LAYOUT.size)
    slope[places] = -np.asarray(old, float)[places] @ (np.linalg.inv(cov) - 4.0 * np.eye(INPUTS))
    np.testing.assert_allclose(evaluated.gradient - other.gradient, slope / 0.5, rtol=2e-4, atol=2e-3)
    places_of = [Place(theta, posterior.log_density(theta, batch)) for theta in (new, old)]
    likelihood = places_of[0].density.log_likelihood - places_of[1].density.log_likelihood
    exact = expected(np.asarray(new, float)) - expected(np.asarray(old, float))
    assert float(posterior.gain(*places_of, data.prior)) == pytest.approx((float(likelihood) + exact) / 0.5, rel=1e-4)


def test_no_bit_depends_on_the_number_of_threads() -> None:
    layout = build_network(MLPConfig(hidden=(3,)), (150,), 1).layout
    x = np.random.default_rng(7).normal(size=(400, 150))
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.append(build_prior(CONFIG, layout, rows=x).values.shape)
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_double_precision_reaches_every_number() -> None:
    with jax.enable_x64(True):
        leaves = jax.tree.leaves(build_prior(CONFIG, LAYOUT, jnp.float64, rows()).values)
        assert sorted({leaf.dtype.name for leaf in leaves}) == ["float64", "int32"]


def test_what_it_cannot_be_made_of_is_refused() -> None:
    with pytest.raises(ValueError, match=r"empirical_covariance .*give at least two"):
        build_prior(CONFIG, LAYOUT)
    words = build_network(CNNLSTMConfig(embedding=3, filters=2, cells=2), (12,), 2, vocabulary=9).layout
    with pytest.raises(ValueError, match=r"empirical_covariance .*use kind normal"):
        build_prior(CONFIG, words, rows=np.zeros((3, 12), np.int32))
