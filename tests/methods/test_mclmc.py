"""The MCLMC kernel against BlackJAX, exact moments, and broken densities."""

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blackjax.mcmc import integrators
from blackjax.mcmc.integrators import IntegratorState, isokinetic_mclachlan
from scipy.optimize import brentq

from bnn_atlas.methods import mclmc
from bnn_atlas.posterior.density import Evaluation, LogDensity

pytestmark = pytest.mark.bits

SCALES = jnp.array([0.5, 1.0, 2.0, 4.0, 1.5, 0.8])


def log_density(x):
    return -0.5 * jnp.sum((x / SCALES) ** 2) - 0.1 * jnp.sum(x**4)


def evaluate(x):
    value, gradient = jax.value_and_grad(log_density)(x)
    return Evaluation(LogDensity(value, jnp.zeros(())), gradient)


def one_step(key, state, step_size, length=jnp.inf, scale=1.0, target=evaluate, **settings):
    return mclmc.step(
        key,
        state,
        target,
        step_size=jnp.asarray(step_size),
        length=jnp.asarray(length),
        scale=scale * jnp.ones_like(state.position),
        temperature=1.0,
        **settings,
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
        our_draws = iter(noise)
        patch.setattr(mclmc, "standard_normal", lambda key, like: jnp.asarray(next(our_draws)))
        ours, _ = one_step(jax.random.key(1), state, 0.4, length=2.0)
    with monkeypatch.context() as patch:
        patch.setattr(integrators, "normal", lambda key, shape, dtype: jnp.asarray(next(their_draws)))
        kernel = blackjax.mcmc.mclmc.build_kernel()
        new, _ = kernel(jax.random.key(2), theirs, log_density, 1.0, 2.0, 0.4)
    np.testing.assert_allclose(ours.position, new.position, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(ours.momentum, new.momentum, rtol=2e-5, atol=2e-6)


def random_states(count):
    """States where the density is not small, with random momenta."""
    keys = jax.random.split(jax.random.key(3), count)
    return jax.vmap(lambda key: mclmc.init(key, 0.7 * jax.random.normal(jax.random.fold_in(key, 1), (6,)), evaluate))(
        keys
    )


def test_energy_error_falls_with_the_third_power_of_the_step():
    """Var[dE] = O(eps^6) is what the step-size tuning rests on; a second-order scheme has dE = O(eps^3) per step."""
    with jax.enable_x64(True):
        sizes = np.array([0.1, 0.05, 0.025, 0.0125])
        error = jax.vmap(lambda state, size: one_step(jax.random.key(0), state, size)[1].energy_change, (0, None))
        errors = jax.jit(jax.vmap(error, (None, 0)))(random_states(100), sizes)
        slope, _ = np.polyfit(np.log(sizes), np.log(np.std(errors, axis=1)), 1)
    assert slope == pytest.approx(3, abs=0.05)


def test_steps_are_reversible():
    """Forward, momentum turned round, forward: back at the start, in double precision."""
    with jax.enable_x64(True):
        move = jax.jit(lambda state: one_step(jax.random.key(0), state, 0.3)[0])
        first = there = jax.tree.map(lambda leaf: leaf[0], random_states(1))
        for _ in range(7):
            there = move(there)
        assert np.abs(there.position - first.position).max() > 0.1
        back = there._replace(momentum=-there.momentum)
        for _ in range(7):
            back = move(back)
    np.testing.assert_allclose(back.position, first.position, atol=1e-12)
    np.testing.assert_allclose(back.momentum, -first.momentum, atol=1e-12)


def test_energy_error_is_what_detailed_balance_asks_for():
    """exp(-dE) = exp(dl) |det J|, J the Jacobian of the step on positions and the unit sphere of momenta."""
    with jax.enable_x64(True):
        first = jax.tree.map(lambda leaf: leaf[0], random_states(1))

        def move(z):
            momentum = z[6:] / jnp.linalg.norm(z[6:])
            state = mclmc.MCLMCState(z[:6], momentum, evaluate(z[:6]))
            after, info = one_step(jax.random.key(0), state, 0.7)
            return jnp.concatenate([after.position, after.momentum]), (after, info)

        z = jnp.concatenate([first.position, first.momentum])
        jacobian, (after, info) = jax.jacfwd(move, has_aux=True)(z)

        def plane(momentum):
            """Columns: the position, and the directions on the sphere at a momentum."""
            tangent = np.linalg.svd(momentum[None])[2][1:].T
            return np.block([[np.eye(6), np.zeros((6, 5))], [np.zeros((6, 6)), tangent]])

        jacobian = plane(np.asarray(after.momentum)).T @ np.asarray(jacobian) @ plane(np.asarray(first.momentum))
        gain = float(after.evaluation.density.log_likelihood - first.evaluation.density.log_likelihood)
        energy_change = float(info.energy_change)
    assert abs(energy_change) > 1e-3
    assert -energy_change == pytest.approx(gain + np.linalg.slogdet(jacobian).logabsdet, abs=1e-10)


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


def test_a_step_beyond_the_energy_limit_is_undone_and_counted():
    state = mclmc.init(jax.random.key(0), jnp.array([0.3, -1.0, 0.7, 2.0, -0.4, 0.1]), evaluate)
    free, info = one_step(jax.random.key(1), state, 1.5, length=2.0)
    error = abs(float(info.energy_change))
    assert info.guarded is None
    after, info = one_step(jax.random.key(1), state, 1.5, length=2.0, energy_limit=1.001 * error)
    assert not bool(info.guarded)
    np.testing.assert_array_equal(after.position, free.position)
    after, info = one_step(jax.random.key(1), state, 1.5, length=2.0, energy_limit=0.999 * error)
    assert bool(info.guarded)
    assert not bool(info.divergent)
    assert abs(float(info.energy_change)) == pytest.approx(0.999 * error)
    np.testing.assert_array_equal(after.position, state.position)
    np.testing.assert_array_equal(after.momentum, -state.momentum)


def covariance_error(variance):
    """b with 4 b^3 / (1 + b)^2 equal to the energy error variance per dimension."""
    return brentq(lambda b: 4 * b**3 / (1 + b) ** 2 - variance, 0, 10)


def run_gaussian(step_size, energy_limit=None, steps=8000, chains=8, dimension=50):
    """Variance of the draws in units of the target's, and mean squared energy error per dimension."""
    scales = jnp.geomspace(0.5, 2.0, dimension)

    def target(x):
        return Evaluation(LogDensity(-0.5 * jnp.sum((x / scales) ** 2), jnp.zeros(())), -x / scales**2)

    def move(carry, key):
        state, squares = carry
        state, info = one_step(
            key, state, step_size, length=jnp.sqrt(dimension), target=target, energy_limit=energy_limit
        )
        guarded = jnp.zeros((), bool) if info.guarded is None else info.guarded
        return (state, squares + (state.position / scales) ** 2), (info.energy_change**2, guarded)

    def chain(key):
        first = mclmc.init(key, scales * jax.random.normal(jax.random.fold_in(key, 1), (dimension,)), target)
        keys = jax.random.split(jax.random.fold_in(key, 2), steps)
        (_, squares), (errors, guarded) = jax.lax.scan(move, (first, jnp.zeros(dimension)), keys)
        return squares / steps, errors.mean() / dimension, guarded.mean()

    variances, errors, guarded = jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(7), chains))
    return variances.mean(0), float(errors.mean()), float(guarded.mean())


def test_the_energy_error_bounds_the_bias_on_a_gaussian():
    """The relation that the module gives, at a step size whose bias stands out of the Monte Carlo error."""
    variances, errors, _ = run_gaussian(step_size=7.6)
    bias = np.sqrt(np.mean((variances - 1) ** 2))
    assert 0.002 < errors < 0.006
    assert 0.03 < bias < covariance_error(errors)


def test_guarded_draws_are_those_of_the_target():
    """A limit that undoes a tenth of the steps neither distorts the moments nor lets a larger error into the trace."""
    variances, errors, guarded = run_gaussian(step_size=7.0, energy_limit=0.5, steps=5000)
    assert 0.05 < guarded < 0.2
    assert errors < 0.5**2 / 50
    assert np.sqrt(np.mean((variances - 1) ** 2)) < covariance_error(errors)
