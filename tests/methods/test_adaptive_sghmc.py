"""Adaptive SGHMC: its averages and steps against the published formulas, its moments against the exact recursion."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bnn_atlas.config.methods.sgmcmc import AdaptiveSGHMCConfig
from bnn_atlas.methods import sgmcmc
from bnn_atlas.methods.adaptive_sghmc import SMALLEST, Averages, adaptive_mass, build_adaptive_sghmc
from bnn_atlas.methods.noise import standard_normal
from bnn_atlas.posterior.density import Evaluation, LogDensity, binder

from .problems import Problem
from .recursions import Settings, all_epochs, line, mini_batch_moments
from .running import run


def test_averages_are_their_formula():
    """Against the update written out for one scalar at a time, from a start without any gradient seen."""
    gradients = np.random.default_rng(0).normal([3.0, 0.0, -1.0], [0.1, 2.0, 1.0], size=(50, 3))
    preconditioner = adaptive_mass()
    averages = preconditioner.init(jnp.zeros(3))
    for gradient in gradients:
        averages = preconditioner.update(averages, jnp.asarray(gradient, jnp.float32))
    for scalar in range(3):
        tau, mean, square = 1.0, 0.0, 0.0
        for g in gradients[:, scalar]:
            ratio = mean**2 / square if square else 0.0
            tau, r = tau - tau * ratio + 1, 1 / (tau + 1)
            mean, square = mean + r * (g - mean), square + r * (g**2 - square)
        np.testing.assert_allclose([leaf[scalar] for leaf in averages], [tau, mean, square], rtol=1e-4)
    assert averages.window[1] > 10 * averages.window[0], "the window should be long where the gradient is noise"


def test_step_is_the_published_one():
    """In terms of v: v <- (1 - alpha) v + eps^2 g / sqrt V + N(0, 2 alpha eps^2 / sqrt V - eps^4)."""
    eps, alpha = 0.05, 0.1
    theta, momentum, square = (jnp.asarray(v) for v in ([0.3, -1.0], [0.5, 0.1], [4.0, 25.0]))
    averages = Averages(jnp.ones(2), jnp.zeros(2), square)
    gradient = jnp.asarray([-2.0, 7.0])
    state, _ = sgmcmc.step(
        jax.random.key(3),
        sgmcmc.Dynamics(theta, momentum, averages),
        Evaluation(LogDensity(jnp.zeros(()), jnp.zeros(())), gradient),
        step_size=jnp.asarray(eps**2),
        momentum_decay=1 - alpha,
        preconditioner=adaptive_mass(),
        adapt=0,
    )
    root = SMALLEST + np.sqrt(square)
    v = eps * momentum / root
    z = standard_normal(jax.random.key(3), jnp.zeros(2))
    v = (1 - alpha) * v + eps**2 * gradient / root + np.sqrt(2 * alpha * eps**2 / root - eps**4) * z
    np.testing.assert_allclose(state.position, theta + v, rtol=1e-5)
    np.testing.assert_allclose(eps * state.momentum / root, v, rtol=1e-5)
    np.testing.assert_array_equal(state.averages.square, square)


def test_noise_is_never_negative():
    """Where the gradients alone bring more noise than the friction calls for."""
    noise = adaptive_mass().noise(jnp.asarray([1.0, 1e6]), jnp.asarray(0.01), 0.05)
    np.testing.assert_allclose(noise, [0.1 - 0.01, 0.0], rtol=1e-6)


@pytest.mark.parametrize("temperature", [1.0, 4.0])
def test_draws_have_the_moments_of_the_recursion_with_the_mass_of_burn_in(temperature, tmp_path):
    """The mass stays after burn-in; the noise of mini-batches of two of six rows is part of the recursion."""
    problem = line(rows=6, features=2, temperature=temperature)
    eps, friction = 0.15 * temperature**0.5, 0.3
    config = AdaptiveSGHMCConfig(burn_in=600, steps=90000, thinning=15, batch_size=2, step_size=eps, friction=friction)
    sampler = build_adaptive_sghmc(config, problem.posterior, problem.data)
    masses = []
    burn_in = sampler.phases[0]._replace(
        finish=lambda state, _: masses.append(SMALLEST + np.sqrt(state.dynamics.averages.square.astype(float))) or state
    )
    block = Problem(problem.posterior, problem.data, problem.mean[None].astype(np.float32))
    observed = sampler._replace(phases=(burn_in, sampler.phases[1]))
    draws = run(observed, block, tmp_path / "trace.zarr", checkpoint_every=10**6).read()[0]
    (mass,) = masses
    variance = np.maximum(2 * friction * mass - eps**2 * mass**2, 0)
    settings = Settings(eps**2, 1 - friction, temperature, mass, variance)
    mean, covariance = mini_batch_moments(problem, settings, all_epochs(6, 2))
    white = np.linalg.solve(np.linalg.cholesky(covariance), (draws - mean).T)
    assert abs(white.mean(1)).max() < 0.1
    np.testing.assert_allclose(np.cov(white), np.eye(2), atol=0.12)
    plain = mini_batch_moments(problem, settings._replace(variance=None), all_epochs(6, 2))[1]
    assert np.linalg.eigvalsh(np.linalg.solve(covariance, plain)).max() > 1.2, "the correction is too small to tell"


@pytest.mark.parametrize("zeroed", [0.0, 0.3])
def test_momentum_is_set_to_zero_as_a_whole_with_its_probability_in_burn_in_only(zeroed):
    """A momentum so large that a step which keeps it moves every scalar by more than all else can."""
    problem = line(rows=6, features=2)
    config = AdaptiveSGHMCConfig(burn_in=7, steps=4, thinning=2, batch_size=2, step_size=0.1, momentum_zeroing=zeroed)
    sampler = build_adaptive_sghmc(config, problem.posterior, problem.data)
    target = binder(problem.posterior)(problem.data)
    state = sampler.init(jax.random.key(0), jnp.asarray(problem.mean, jnp.float32), target)
    averages = Averages(*(jnp.ones(2) for _ in range(3)))
    state = state._replace(dynamics=state.dynamics._replace(momentum=jnp.full(2, 1e6), averages=averages))
    assert [phase.name for phase in sampler.phases] == ["start of burn-in", "burn-in", "sampling"]
    for phase in sampler.phases:
        step = jax.vmap(lambda key, phase=phase: phase.step(key, jnp.int32(1), state, target, phase.settings)[0])
        moved = np.abs(step(jax.random.split(jax.random.key(1), 2000)).dynamics.position - problem.mean) > 1e3
        assert (moved.all(1) == moved.any(1)).all()
        assert (1 - moved.mean()) == pytest.approx(0.0 if phase.keep else zeroed, abs=0.03 if zeroed else 0)


@pytest.mark.parametrize("rest", [False, True])
def test_sampling_begins_at_rest_where_that_is_set(rest, tmp_path):
    problem = line(rows=6, features=2)
    config = AdaptiveSGHMCConfig(burn_in=4, steps=4, thinning=2, batch_size=2, step_size=0.1, rest_after_burn_in=rest)
    sampler = build_adaptive_sghmc(config, problem.posterior, problem.data)
    seen, last = [], sampler.phases[-2]
    ended = last._replace(finish=lambda state, kept: seen.append((last.finish or _keep)(state, kept)) or seen[-1])
    block = Problem(problem.posterior, problem.data, problem.mean[None].astype(np.float32))
    run(sampler._replace(phases=(ended, sampler.phases[-1])), block, tmp_path / "trace.zarr")
    assert (np.asarray(seen[0].dynamics.momentum) == 0).all() == rest


def _keep(state, kept):
    return state


def test_zeroing_cools_by_the_share_that_its_docstring_gives():
    """The same recursion in a quadratic well, whose variance over that of the target is the temperature."""
    alpha, p, eps = 0.05, 0.05, 0.05
    random = np.random.default_rng(0)
    theta = momentum = np.zeros(4000)
    for _ in range(3000):
        momentum = np.where(random.random(theta.size) < p, 0.0, momentum)
        momentum = (1 - alpha) * momentum - eps * theta + np.sqrt(2 * alpha) * random.normal(size=theta.size)
        theta = theta + eps * momentum
    assert theta.var() == pytest.approx(alpha / (alpha + p / 2), abs=0.06)
