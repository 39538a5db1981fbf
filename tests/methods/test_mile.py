"""The tuning phases of MILE."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bnn_atlas.config.methods.hmc import AdjustedMCLMCConfig
from bnn_atlas.config.methods.mclmc import BlackJAXMCLMCConfig, MCLMCConfig
from bnn_atlas.config.parts.posterior import GaussianLikelihood, MLPConfig
from bnn_atlas.config.parts.priors import StandardNormalPrior
from bnn_atlas.methods import mclmc_tuning as tuned
from bnn_atlas.methods.contract import build_method
from bnn_atlas.methods.mclmc import MCLMCInfo
from bnn_atlas.posterior.density import build_posterior, posterior_data

from .problems import linear
from .running import run


def tuning(dimension=10, step_size=0.1):
    zero, zeros = jnp.zeros(()), jnp.zeros(dimension)
    return tuned.Tuning(zero + step_size, zero + 3.0, zeros + 1, zero, zero, zeros, zeros, zero)


def info(energy_change, divergent=False):
    return MCLMCInfo(jnp.asarray(float(energy_change)), jnp.asarray(divergent))


def tune(config, dimension, tuning, info, variance):
    """One update of the step size, as MILE does it."""
    return tuned.tune_step_size(tuned.mile_rule(config, dimension), tuning, info, variance)


def test_desired_variance_schedules():
    linear_schedule = MCLMCConfig(energy_variance_start=0.5, energy_variance_end=0.1)
    assert tuned.desired_variance(linear_schedule, jnp.asarray(0), 100) == pytest.approx(0.5)
    assert tuned.desired_variance(linear_schedule, jnp.asarray(50), 100) == pytest.approx(0.3)
    assert tuned.desired_variance(linear_schedule, jnp.asarray(100), 100) == pytest.approx(0.1)
    steep = MCLMCConfig(energy_variance_start=100, energy_variance_end=0.1)
    assert tuned.desired_variance(steep, jnp.asarray(25), 100) == pytest.approx(0.1 + 99.9 * np.exp(-1))


def test_step_size_reaches_the_desired_energy_variance():
    """For a chain whose energy error is exactly c eps^3 z, the tuned eps solves (c eps^3)^2 = d v."""
    config, dimension, variance, c = MCLMCConfig(step_size_init=0.1), 10, 0.2, 7.0
    state, rng, trail = tuning(dimension), np.random.default_rng(0), []
    for _ in range(3000):
        error = c * float(state.step_size) ** 3 * rng.normal()
        state = tune(config, dimension, state, info(error), jnp.asarray(variance))
        trail.append(float(state.step_size))
    expected = (np.sqrt(dimension * variance) / c) ** (1 / 3)
    # The weights favour typical errors, so the fixed point lies within some ten percent of the ideal one.
    assert np.mean(trail[1000:]) == pytest.approx(expected, rel=0.2)


def test_one_update_follows_the_formula():
    config = MCLMCConfig(step_size_init=0.1, trust_in_estimate=1.5, num_effective_samples=100)
    state = tuning()._replace(numerator=jnp.asarray(2.0), denominator=jnp.asarray(3.0), step_size=jnp.asarray(0.2))
    xi = 0.7**2 / (10 * 0.3) + 1e-8
    weight = np.exp(-0.5 * (np.log(xi) / 9) ** 2)
    a, b = 99 / 101 * 2 + weight * xi / 2.0**6, 99 / 101 * 3 + weight
    new = tune(config, 10, state, info(0.7), jnp.asarray(0.3))
    assert float(new.step_size) == pytest.approx(0.1 * (a / b) ** (-1 / 6), rel=1e-5)


def test_divergence_shrinks_the_step_and_is_forgotten():
    config, dimension = MCLMCConfig(step_size_init=0.1), 10
    state = tuning(dimension)
    for _ in range(300):
        state = tune(config, dimension, state, info(0.5), jnp.asarray(0.1))
    settled = float(state.step_size)
    shrunk = tuned.tune_step_size(
        tuned.mile_rule(config, dimension), state, info(np.inf, divergent=True), jnp.asarray(0.1)
    )
    assert float(shrunk.step_size) == pytest.approx(0.8 * settled, rel=1e-4)
    # Energy errors grow as eps^3; once steps are finite again, the step size returns to where it was.
    for _ in range(2000):
        error = 0.5 * (float(shrunk.step_size) / settled) ** 3
        shrunk = tune(config, dimension, shrunk, info(error), jnp.asarray(0.1))
    assert float(shrunk.step_size) > 0.95 * settled
    first = tuned.tune_step_size(
        tuned.mile_rule(config, dimension), tuning(), info(np.inf, divergent=True), jnp.asarray(0.1)
    )
    assert float(first.step_size) == pytest.approx(0.08, rel=1e-5)


def test_moments_are_weighted_and_a_zero_weight_counts_for_nothing():
    rng, state = np.random.default_rng(1), tuning(3)
    positions, weights = rng.normal(5, 2, (40, 3)), rng.uniform(0.1, 1, 40)
    for position, weight in zip(positions, weights, strict=True):
        state = tuned.accumulate_moments(state, jnp.asarray(position), jnp.asarray(weight))
        state = tuned.accumulate_moments(state, jnp.asarray(position) + 100, jnp.asarray(0.0))
    mean = np.average(positions, axis=0, weights=weights)
    variance = np.average((positions - mean) ** 2, axis=0, weights=weights)
    np.testing.assert_allclose(state.mean, mean, rtol=1e-5)
    np.testing.assert_allclose(state.spread / state.weight, variance, rtol=1e-4)
    assert tuned.set_scales(state, precondition=False).length == pytest.approx(np.sqrt(variance.sum()), rel=1e-4)
    preconditioned = tuned.set_scales(state, precondition=True)
    np.testing.assert_allclose(preconditioned.scale, np.sqrt(variance), rtol=1e-4)
    assert preconditioned.length == pytest.approx(np.sqrt(3))
    unmoved = tuning(3)
    assert tuned.set_scales(unmoved, precondition=True) is unmoved


def test_autocorrelation_time_of_an_autoregression():
    """AR(1) with coefficient rho has n / ESS = (1 + rho) / (1 - rho); a scalar that never moves is left out."""
    rng, rho = np.random.default_rng(2), 0.8
    draws = np.zeros((4000, 20))
    for t in range(1, len(draws)):
        draws[t] = rho * draws[t - 1] + np.sqrt(1 - rho**2) * rng.normal(size=20)
    draws[:, 7] = 1.0
    assert tuned.mean_autocorrelation_time(draws.astype(np.float32)) == pytest.approx(9, rel=0.15)
    assert np.isnan(tuned.mean_autocorrelation_time(np.ones((100, 3), np.float32)))


def test_a_tuned_chain_samples_the_posterior(tmp_path):
    """Linear regression has a closed-form posterior; the preconditioner that was tuned is the one that samples."""
    exact = linear(chains=6)
    config = MCLMCConfig(
        warmup=6000,
        steps=30000,
        thinning=10,
        step_size_init=0.05,
        energy_variance_start=0.01,
        energy_variance_end=0.003,
        diagonal_preconditioning=True,
        checkpoint_every=5000,
    )
    sampler = tuned.build_mile(config, exact.problem.posterior, exact.problem.data)
    trace = run(sampler, exact.problem, tmp_path / "trace.zarr", checkpoint_every=5000)
    draws = trace.read().reshape(-1, len(exact.mean)).astype(float)
    scale = np.sqrt(np.diag(exact.covariance))
    np.testing.assert_allclose((draws.mean(0) - exact.mean) / scale, 0, atol=0.1)
    np.testing.assert_allclose(draws.std(0) / scale, 1, atol=0.07)
    assert trace.statistic("divergent").sum() == 0
    variance = trace.statistic("energy_change_squared").mean(1) / len(exact.mean)
    assert np.all((variance > 0.0005) & (variance < 0.02)), variance


@pytest.mark.parametrize("error", [np.inf, 1e20])
def test_no_energy_error_breaks_the_tuning_for_good(error):
    """Hundreds of impossible steps in a row, then good ones: the step size falls, stays positive and recovers."""
    config, state = MCLMCConfig(step_size_init=0.1), tuning()
    update = jax.jit(
        lambda state, change: tuned.tune_step_size(
            tuned.mile_rule(config, 10), state, info(0)._replace(energy_change=change), 0.1
        )
    )
    for _ in range(200):
        state = update(state, jnp.asarray(0.5))
    settled = float(state.step_size)
    for _ in range(300):
        state = update(state, jnp.asarray(error))
    assert 0 < float(state.step_size) < 1e-3 * settled
    for _ in range(6000):
        state = update(state, jnp.asarray(0.5 * (state.step_size / settled) ** 3))
    assert 0.5 * settled < float(state.step_size) < 2 * settled


@pytest.mark.parametrize(
    "config", [MCLMCConfig(), BlackJAXMCLMCConfig(), AdjustedMCLMCConfig(step_size=0.1)], ids=lambda c: c.kind
)
def test_one_parameter_is_refused_when_the_method_is_built(config):
    """On a sphere of no dimension the momentum cannot turn, and no step would be kept."""
    for features in (1, 2):
        posterior, prior = build_posterior(
            MLPConfig(hidden=(), bias=False), GaussianLikelihood(), StandardNormalPrior(), temperature=1.0,
            shape=(features,),
        )  # fmt: skip
        data = posterior_data(np.ones((5, features)), np.ones(5), prior)
        if features == 2:
            assert build_method(config, posterior, data).phases
            return
        with pytest.raises(ValueError, match="need at least two parameters, and this model has one: give the network"):
            build_method(config, posterior, data)
