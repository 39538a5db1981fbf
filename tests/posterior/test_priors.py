"""The eight priors against SciPy and against their own samples."""

import math
from typing import Any

import jax
import numpy as np
import pytest
import scipy.stats
from jax import numpy as jnp

from bnn_atlas.config.posterior import (
    EpsStandardNormalPrior,
    GlorotLaplacePrior,
    GlorotPrior,
    GlorotUniformPrior,
    HePrior,
    LaplacePrior,
    MLPConfig,
    NormalPrior,
    PriorConfig,
    StandardNormalPrior,
)
from bnn_atlas.models.build import build_network
from bnn_atlas.models.layout import Layout
from bnn_atlas.posterior.likelihoods import LOG_SIGMA
from bnn_atlas.posterior.priors import build_prior, log_prior

LAYOUT = Layout((*build_network(MLPConfig(hidden=(6, 3)), 4, 2).layout.parameters, LOG_SIGMA))
# Widths (fan_in, fan_out) of the layer a weight belongs to; None for biases and the noise level.
FANS = [(p.fan_in, p.fan_out) if p.role == "weight" else None for p in LAYOUT.parameters for _ in range(p.size)]


def by_role(weight: Any, other: float) -> np.ndarray:
    return np.array([other if fans is None else weight(*fans) for fans in FANS])


# The formulas of the paper, written out a second time.
GAUSSIANS: dict[str, tuple[PriorConfig, float, np.ndarray]] = {
    "standard_normal": (StandardNormalPrior(), 0.0, np.ones(LAYOUT.size)),
    "normal": (NormalPrior(loc=0.3, scale=0.2), 0.3, np.full(LAYOUT.size, 0.2)),
    "glorot": (GlorotPrior(factor=1.5), 0.0, by_role(lambda i, o: 1.5 / math.sqrt((i + o) / 2), 1.0)),
    "he": (HePrior(), 0.0, by_role(lambda i, o: math.sqrt(2 / i), 1.0)),
}
LAPLACES: dict[str, tuple[PriorConfig, float, np.ndarray]] = {
    "laplace": (LaplacePrior(loc=-1.0, scale=0.7), -1.0, np.full(LAYOUT.size, 0.7)),
    "glorot_laplace": (GlorotLaplacePrior(), 0.0, by_role(lambda i, o: 1 / math.sqrt(i + o), 1 / math.sqrt(2))),
}
HALF_WIDTHS = by_role(lambda i, o: math.sqrt(6 / (i + o)), math.sqrt(3))
CONFIGS: list[PriorConfig] = [
    *(config for config, _, _ in (*GAUSSIANS.values(), *LAPLACES.values())),
    GlorotUniformPrior(),
    EpsStandardNormalPrior(scale=0.5, seed=3),
]


def density(config: PriorConfig, theta: np.ndarray) -> float:
    prior = build_prior(config, LAYOUT)
    value = log_prior(prior.family, prior.values, jnp.asarray(theta, jnp.float32))
    assert value.shape == ()
    return float(value)


@pytest.fixture
def thetas() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(4, LAYOUT.size)) * np.array([[0.1], [1.0], [3.0], [10.0]])


@pytest.mark.parametrize("name", GAUSSIANS)
def test_gaussian_priors(name: str, thetas: np.ndarray) -> None:
    config, loc, scale = GAUSSIANS[name]
    for theta in thetas:
        expected = scipy.stats.norm.logpdf(theta, loc, scale).sum()
        assert density(config, theta) == pytest.approx(expected, rel=2e-6, abs=2e-4)


@pytest.mark.parametrize("name", LAPLACES)
def test_laplace_priors(name: str, thetas: np.ndarray) -> None:
    config, loc, scale = LAPLACES[name]
    for theta in thetas:
        expected = scipy.stats.laplace.logpdf(theta, loc, scale).sum()
        assert density(config, theta) == pytest.approx(expected, rel=2e-6, abs=2e-4)


def test_uniform_prior_is_flat_inside_its_walls() -> None:
    theta = np.random.default_rng(1).uniform(-0.999, 0.999, LAYOUT.size) * HALF_WIDTHS
    expected = scipy.stats.uniform.logpdf(theta, -HALF_WIDTHS, 2 * HALF_WIDTHS).sum()
    assert density(GlorotUniformPrior(), theta) == pytest.approx(expected, rel=2e-6)
    prior = build_prior(GlorotUniformPrior(), LAYOUT)
    slope = jax.jit(jax.grad(lambda t: log_prior(prior.family, prior.values, t)))(jnp.asarray(theta, jnp.float32))
    assert np.all(slope == 0)


def test_uniform_prior_falls_by_log_1000_per_unit_outside() -> None:
    rng = np.random.default_rng(2)
    beyond = rng.exponential(size=LAYOUT.size) * rng.integers(0, 2, LAYOUT.size)
    theta = rng.choice([-1, 1], LAYOUT.size) * (HALF_WIDTHS + beyond)
    expected = -np.log(2 * HALF_WIDTHS).sum() - math.log(1000) * beyond.sum()
    assert density(GlorotUniformPrior(), theta) == pytest.approx(expected, rel=1e-5)
    prior = build_prior(GlorotUniformPrior(), LAYOUT)
    far = jnp.asarray(3 * HALF_WIDTHS, jnp.float32)
    slope = jax.jit(jax.grad(lambda t: log_prior(prior.family, prior.values, t)))(far)
    np.testing.assert_allclose(slope, -math.log(1000), rtol=1e-5)


def test_each_parameter_of_the_epsilon_prior_has_its_own_gaussian(thetas: np.ndarray) -> None:
    config = EpsStandardNormalPrior(scale=2.0, var_eps=0.25, seed=11)
    _, values = build_prior(config, LAYOUT)
    for theta in thetas:
        expected = scipy.stats.norm.logpdf(theta, np.float64(values.loc), np.float64(values.scale)).sum()
        assert density(config, theta) == pytest.approx(expected, rel=2e-6, abs=2e-4)
    wide = build_network(MLPConfig(hidden=(60, 60)), 10, 1).layout
    loc, scale, _ = (np.asarray(v, np.float64) for v in build_prior(config, wide).values)
    assert scipy.stats.kstest(loc, "norm", (0, 0.5)).pvalue > 1e-3
    raw = np.log(np.expm1(scale / 2.0))  # the inverse of scale = 2 softplus(raw)
    assert scipy.stats.kstest(raw, "norm", (1, 0.5)).pvalue > 1e-3
    assert abs(np.corrcoef(loc, raw)[0, 1]) < 0.06


def test_the_epsilon_prior_is_fixed_by_its_seed() -> None:
    first, again, other = (build_prior(EpsStandardNormalPrior(seed=s), LAYOUT).values.loc for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.kind)
def test_samples_follow_the_density(config: PriorConfig) -> None:
    prior = build_prior(config, LAYOUT)
    draws = np.asarray(jax.vmap(prior.sample)(jax.random.split(jax.random.key(7), 400)), np.float64)
    loc, scale, _ = (np.asarray(value, np.float64) for value in prior.values)
    uniforms = {
        "normal": scipy.stats.norm.cdf,
        "laplace": scipy.stats.laplace.cdf,
        "walled_uniform": lambda z: (z + 1) / 2,
    }[prior.family]((draws - loc) / scale)
    assert scipy.stats.kstest(uniforms.ravel(), "uniform").pvalue > 1e-3
    each = [scipy.stats.kstest(uniforms[:, i], "uniform").pvalue for i in range(LAYOUT.size)]
    assert min(each) > 1e-3 / LAYOUT.size


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.kind)
def test_gradients_stay_finite_and_nan_stays_nan(config: PriorConfig) -> None:
    prior = build_prior(config, LAYOUT)
    slope = jax.jit(jax.grad(lambda t: log_prior(prior.family, prior.values, t)))
    for size in (0.0, 1.0, 1e4):
        assert np.all(np.isfinite(slope(jnp.full(LAYOUT.size, size))))
    theta = np.zeros(LAYOUT.size)
    theta[3] = np.nan
    assert np.isnan(density(config, theta))
