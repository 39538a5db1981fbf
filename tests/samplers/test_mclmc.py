"""The MCLMC kernel against BlackJAX, exact moments, and broken densities."""

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blackjax.mcmc import integrators
from blackjax.mcmc.integrators import IntegratorState, isokinetic_mclachlan

from bnn_atlas.posterior.density import Evaluation, LogDensity
from bnn_atlas.samplers import mclmc

SCALES = jnp.array([0.5, 1.0, 2.0, 4.0, 1.5, 0.8])


def log_density(x):
    return -0.5 * jnp.sum((x / SCALES) ** 2) - 0.1 * jnp.sum(x**4)


def evaluate(x):
    value, gradient = jax.value_and_grad(log_density)(x)
    return Evaluation(LogDensity(value, jnp.zeros(())), gradient)


def one_step(key, state, step_size, length=jnp.inf, scale=1.0, target=evaluate):
    return mclmc.step(
        key,
        state,
        target,
        step_size=jnp.asarray(step_size),
        length=jnp.asarray(length),
        scale=scale * jnp.ones_like(state.position),
        temperature=1.0,
    )


def test_without_noise_steps_equal_blackjax():
    """At L = infinity the refreshments vanish and what is left is BlackJAX's isokinetic McLachlan integrator."""
    state = mclmc.init(jax.random.key(0), jnp.array([0.3, -1.0, 0.7, 2.0, -0.4, 0.1]), evaluate)
    theirs = IntegratorState(
        state.position, state.momentum, state.evaluation.density.log_likelihood, state.evaluation.gradient
    )
    integrate = isokinetic_mclachlan(logdensity_fn=log_density, inverse_mass_matrix=1.0)
    for number in range(5):
        before = theirs.logdensity
        theirs, kinetic = integrate(theirs, 0.3)
        state, info = one_step(jax.random.key(number), state, 0.3)
        np.testing.assert_allclose(state.position, theirs.position, rtol=2e-5, atol=2e-6)
        np.testing.assert_allclose(state.momentum, theirs.momentum, rtol=2e-5, atol=2e-6)
        np.testing.assert_allclose(info.energy_change, kinetic - theirs.logdensity + before, atol=5e-5)


def test_whole_step_equals_blackjax_kernel(monkeypatch):
    """With the same standard normals for the refreshments, the noisy step is BlackJAX's kernel."""
    noise = np.random.default_rng(5).normal(size=(2, 6)).astype(np.float32)
    state = mclmc.init(jax.random.key(0), jnp.array([0.3, -1.0, 0.7, 2.0, -0.4, 0.1]), evaluate)
    theirs = IntegratorState(
        state.position, state.momentum, state.evaluation.density.log_likelihood, state.evaluation.gradient
    )
    their_draws = iter(noise)
    with monkeypatch.context() as patch:
        patch.setattr(mclmc.jax.random, "normal", lambda key, shape, dtype: jnp.asarray(noise))
        ours, _ = one_step(jax.random.key(1), state, 0.4, length=2.0)
    with monkeypatch.context() as patch:
        patch.setattr(integrators, "normal", lambda key, shape, dtype: jnp.asarray(next(their_draws)))
        kernel = blackjax.mcmc.mclmc.build_kernel()
        new, _ = kernel(jax.random.key(2), theirs, log_density, 1.0, 2.0, 0.4)
    np.testing.assert_allclose(ours.position, new.position, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(ours.momentum, new.momentum, rtol=2e-5, atol=2e-6)


def test_energy_error_falls_with_the_third_power_of_the_step():
    """Var[dE] = O(eps^6) is what the step-size tuning rests on; a second-order scheme has dE = O(eps^3) per step."""
    with jax.enable_x64(True):
        start = jnp.asarray([0.3, -1.0, 0.7, 2.0, -0.4, 0.1], jnp.float64)
        state = mclmc.init(jax.random.key(0), start, evaluate)
        errors = [abs(float(one_step(jax.random.key(0), state, eps)[1].energy_change)) for eps in (0.2, 0.1, 0.05)]
    slopes = np.diff(np.log(errors)) / np.log(0.5)
    assert np.all((slopes > 2.7) & (slopes < 3.4)), slopes


def test_preconditioning_equals_sampling_in_scaled_coordinates():
    """scale s on x is the identity on z = x / s."""
    state = mclmc.init(jax.random.key(0), jnp.array([0.3, -1.0, 0.7, 2.0, -0.4, 0.1]), evaluate)

    def scaled(z):
        value, gradient = jax.value_and_grad(lambda z: log_density(z * SCALES))(z)
        return Evaluation(LogDensity(value, jnp.zeros(())), gradient)

    z = mclmc.MCLMCState(state.position / SCALES, state.momentum, scaled(state.position / SCALES))
    x, _ = one_step(jax.random.key(7), state, 0.2, length=3.0, scale=SCALES)
    z, _ = one_step(jax.random.key(7), z, 0.2, length=3.0, target=scaled)
    np.testing.assert_allclose(x.position, z.position * SCALES, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("broken", ["density", "gradient"])
def test_a_step_that_is_not_finite_is_undone_and_counted(broken):
    def bad(x):
        good = evaluate(x)
        outside = jnp.any(jnp.abs(x) > 1)
        if broken == "density":
            value = jnp.where(outside, jnp.nan, good.density.log_likelihood)
            return good._replace(density=good.density._replace(log_likelihood=value))
        return good._replace(gradient=jnp.where(outside, jnp.inf, good.gradient))

    state = mclmc.init(jax.random.key(0), jnp.full(6, 0.9), bad)
    state = state._replace(momentum=jnp.ones(6) / jnp.sqrt(6.0))
    after, info = one_step(jax.random.key(1), state, 3.0, length=5.0, target=bad)
    assert bool(info.divergent)
    assert float(info.energy_change) == np.inf
    np.testing.assert_array_equal(after.position, state.position)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(after))
    np.testing.assert_array_equal(after.momentum, -state.momentum)


def test_momentum_stays_on_the_unit_sphere():
    state = mclmc.init(jax.random.key(0), jnp.array([0.3, -1.0, 0.7, 2.0, -0.4, 0.1]), evaluate)
    for number in range(20):
        state, _ = one_step(jax.random.key(number), state, 0.5, length=1.0)
    np.testing.assert_allclose(np.linalg.norm(state.momentum), 1, rtol=1e-5)
