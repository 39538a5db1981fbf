"""NUTS: BlackJAX's transitions, and known moments through the runner."""

from functools import partial

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bnn_atlas.config.methods.hmc import NUTSConfig
from bnn_atlas.methods import nuts
from bnn_atlas.methods.warmup import start

from .problems import Bent, gain_of, linear
from .running import run

TARGET = Bent(jnp.array([0.5, 1.0, 2.0]))
log_density, evaluate = TARGET.log_density, TARGET.evaluate
INVERSE_MASS = jnp.array([0.3, 1.2, 2.5])


def transition(key, state, target=evaluate, step_size=0.4, max_doublings=6):
    return nuts.step(
        key,
        state,
        target,
        gain_of(2.0),
        step_size=jnp.asarray(step_size),
        inverse_mass=INVERSE_MASS,
        max_doublings=max_doublings,
    )


def test_transitions_equal_blackjax():
    """With the same key: the same draw, gradient, acceptance and number of steps, for each of several transitions.

    BlackJAX's momenta are multiplied by XLA's rsqrt, which is not correctly rounded in double precision either.
    """
    with jax.enable_x64(True):
        kernel = jax.jit(
            lambda key, state: blackjax.nuts.build_kernel()(
                key, state, lambda x: log_density(x) / 2, 0.4, INVERSE_MASS, 6
            )
        )
        move = jax.jit(transition)
        ours = start(jax.random.key(0), jnp.array([0.4, -0.8, 1.1]), evaluate)
        theirs = blackjax.nuts.init(ours.position, lambda x: log_density(x) / 2)
        for key in jax.random.split(jax.random.key(5), 10):
            before = theirs
            (ours, info), (theirs, their_info) = move(key, ours), kernel(key, theirs)
            np.testing.assert_allclose(ours.position, theirs.position, atol=1e-7)
            np.testing.assert_allclose(ours.evaluation.gradient, theirs.logdensity_grad, atol=1e-7)
            np.testing.assert_allclose(info.acceptance, their_info.acceptance_rate, rtol=1e-6)
            assert int(info.gradients) == int(their_info.num_integration_steps)
            assert int(info.tree_depth) == int(their_info.num_trajectory_expansions)
            first = -before.logdensity + 0.5 * jnp.sum(their_info.momentum**2 * INVERSE_MASS)
            np.testing.assert_allclose(info.energy_change, their_info.energy - first, atol=1e-7)
            np.testing.assert_allclose(evaluate(ours.position).density, ours.evaluation.density)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_state_that_is_not_finite_is_never_drawn(value):
    walled = partial(TARGET.walled, value)
    state = start(jax.random.key(0), jnp.zeros(3), walled)
    move = jax.jit(lambda key, state: transition(key, state, walled))
    divergent, moved = 0, 0
    for key in jax.random.split(jax.random.key(5), 40):
        before = state
        state, info = move(key, state)
        divergent += int(info.divergent)
        moved += bool(jnp.any(state.position != before.position))
        assert np.abs(state.position).max() <= 1
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((state, info.acceptance, info.energy_change)))
    assert divergent > 5
    assert moved > 5


def test_each_leapfrog_step_costs_one_evaluation():
    """Counted on the host: as many as the statistic says."""
    calls = 0

    def counted(x):
        def count(x):
            nonlocal calls
            calls += 1
            return np.zeros((), np.float32)

        good = evaluate(x)
        return good._replace(gradient=good.gradient + jax.pure_callback(count, jax.ShapeDtypeStruct((), np.float32), x))

    state = start(jax.random.key(0), jnp.array([0.4, -0.8, 1.1]), evaluate)
    _, info = jax.jit(lambda key, state: transition(key, state, counted, step_size=0.1))(jax.random.key(1), state)
    assert int(info.gradients) > 10
    assert calls == int(info.gradients)


def test_a_trajectory_that_neither_turned_nor_diverged_was_cut_short():
    """At a step size of 0.05 a half period of the widest scale takes some 40 steps, or 6 doublings."""
    state = start(jax.random.key(0), jnp.array([0.4, -0.8, 1.1]), evaluate)
    move = jax.jit(
        lambda key, size, most: transition(key, state, step_size=size, max_doublings=most)[1], static_argnums=2
    )
    keys = jax.random.split(jax.random.key(2), 20)
    short = [move(key, 0.05, 3) for key in keys]
    assert all(bool(info.cut_short) and int(info.tree_depth) == 3 for info in short)
    long = [move(key, 0.05, 10) for key in keys]
    assert not any(bool(info.cut_short) for info in long)
    at_most = [move(key, 0.05, max(int(info.tree_depth) for info in long)) for key in keys]
    assert any(int(info.tree_depth) == max(int(i.tree_depth) for i in long) for info in at_most)
    assert not any(bool(info.cut_short) for info in at_most), "one that turns in its last doubling is whole"


def test_warm_up_tunes_the_acceptance(tmp_path):
    """Dual averaging ends above its target by some hundredths, as in Stan."""
    exact = linear(chains=4, features=12)
    config = NUTSConfig(warmup=300, steps=400, thinning=2, step_size=0.01, target_acceptance=0.7)
    method = nuts.build_nuts(config, exact.problem.posterior, exact.problem.data)
    trace = run(method, exact.problem, tmp_path / "t.zarr", checkpoint_every=1000)
    assert trace.statistic("divergent").sum() == 0
    assert 0.65 < trace.statistic("acceptance").mean() < 0.88
    step_size, depth, gradients = (trace.statistic(name) for name in ("step_size", "tree_depth", "gradients"))
    assert np.all(step_size == step_size[:, :1])
    assert np.all((gradients >= 2) & (gradients < 2 * 2 ** (depth + 1.5)))
    draws, sd = trace.read().reshape(-1, 12).astype(float), np.sqrt(np.diag(exact.covariance))
    assert np.abs((draws.mean(0) - exact.mean) / sd).max() < 0.2
    np.testing.assert_allclose(draws.std(0) / sd, 1, atol=0.15)
