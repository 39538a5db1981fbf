"""The HMC kernel: detailed balance, energy, rejection, tempering."""

import jax
import jax.numpy as jnp
import numpy as np

from bnn_atlas.posterior.density import Evaluation, LogDensity
from bnn_atlas.samplers import hmc

SCALES = np.array([0.5, 1.0, 2.0])


def gaussian(x, temperature=1.0):
    def value(x):
        return -0.5 * jnp.sum((x / SCALES) ** 2)

    likelihood = 0.25 * value(x)
    return Evaluation(LogDensity(likelihood, 0.75 * value(x)), jax.grad(value)(x) / temperature)


def transition(key, state, evaluate, step_size=0.3, length=1.5, jitter=0.3, temperature=1.0, max_steps=1000):
    return hmc.step(
        key,
        state,
        evaluate,
        step_size=jnp.asarray(step_size),
        trajectory_length=length,
        jitter=jitter,
        max_steps=max_steps,
        temperature=temperature,
    )


def chain(evaluate, steps, **settings):
    def body(state, key):
        state, info = transition(key, state, evaluate, **settings)
        return state, (state.position, info)

    state = hmc.init(jax.random.key(0), jnp.zeros(3), evaluate)
    return jax.jit(lambda keys: jax.lax.scan(body, state, keys)[1])(jax.random.split(jax.random.key(4), steps))


def test_moments_of_tempered_gaussians():
    for temperature in (0.25, 1.0, 2.0):
        draws, info = chain(
            lambda x, t=temperature: gaussian(x, t), 8000, temperature=temperature, step_size=0.2, length=1.2
        )
        assert 0.7 < float(info.acceptance.mean()) <= 1
        np.testing.assert_allclose(draws.var(0), temperature * SCALES**2, rtol=0.12)
        np.testing.assert_allclose(draws.mean(0), 0, atol=0.15)


def test_acceptance_uses_the_energy_error_of_the_tempered_target():
    _, info = chain(lambda x: gaussian(x, 0.5), 400, temperature=0.5, step_size=0.4)
    expected = np.minimum(1, np.exp(-np.asarray(info.energy_change)))
    np.testing.assert_allclose(info.acceptance, expected, rtol=1e-5)
    # E[exp(-dE)] = 1 at stationarity holds only if dE is the change of the Hamiltonian that is simulated.
    np.testing.assert_allclose(np.exp(-np.asarray(info.energy_change)).mean(), 1, atol=0.1)


def test_rejected_proposals_repeat_the_state():
    draws, info = chain(gaussian, 500, step_size=0.9, length=3.0)
    rejected = ~np.asarray(info.accepted)[1:]
    assert 10 < rejected.sum() < 490
    same = np.all(np.asarray(draws[1:]) == np.asarray(draws[:-1]), axis=1)
    np.testing.assert_array_equal(same, rejected)


def test_leapfrog_is_reversible_and_second_order():
    with jax.enable_x64(True):
        start = jnp.array([0.4, -0.8, 1.1], jnp.float64)
        errors = []
        for step_size in (0.2, 0.1, 0.05):
            state = hmc.init(jax.random.key(0), start, gaussian)
            _, info = transition(jax.random.key(3), state, gaussian, step_size=step_size, length=1.0, jitter=0.0)
            assert int(info.leapfrog_steps) == round(1.0 / step_size)
            errors.append(abs(float(info.energy_change)))
        slopes = np.diff(np.log(errors)) / np.log(0.5)
        assert np.all((slopes > 1.8) & (slopes < 2.2)), slopes


def test_trajectory_is_jittered_and_capped():
    _, info = chain(gaussian, 300, step_size=0.05, length=1.0, jitter=0.5)
    steps = np.asarray(info.leapfrog_steps)
    assert steps.min() >= 10
    assert steps.max() <= 30
    assert len(np.unique(steps)) > 10
    _, info = chain(gaussian, 20, step_size=0.05, length=1.0, jitter=0.5, max_steps=12)
    assert np.asarray(info.leapfrog_steps).max() == 12


def test_a_divergent_proposal_is_rejected_and_counted():
    def wall(x):
        good = gaussian(x)
        value = jnp.where(jnp.any(jnp.abs(x) > 1), jnp.nan, good.density.log_likelihood)
        return good._replace(density=good.density._replace(log_likelihood=value))

    draws, info = chain(wall, 200, step_size=0.5)
    assert np.asarray(info.divergent).any()
    assert np.isfinite(draws).all()
    assert np.abs(draws).max() <= 1
    assert not np.asarray(info.accepted)[np.asarray(info.divergent)].any()
    assert np.isinf(np.asarray(info.energy_change)[np.asarray(info.divergent)]).all()
