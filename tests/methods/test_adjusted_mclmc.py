"""Adjusted MCLMC: BlackJAX's transitions, and known moments through the runner."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blackjax.mcmc import adjusted_mclmc

from bnn_atlas.config.methods.hmc import AdjustedMCLMCConfig
from bnn_atlas.methods import adjusted_mclmc as ours_module
from bnn_atlas.methods.warmup import start

from .problems import Bent, gain_of, linear
from .running import run

TARGET = Bent(jnp.array([0.5, 1.0, 2.0, 1.5]))
log_density, evaluate = TARGET.log_density, TARGET.evaluate
INVERSE_MASS = jnp.array([0.3, 1.2, 2.5, 1.0])


def transition(key, state, target=evaluate, step_size=0.9, mean_steps=4.0, max_steps=100):
    return ours_module.step(
        key,
        state,
        target,
        gain_of(2.0),
        step_size=jnp.asarray(step_size),
        mean_steps=jnp.asarray(mean_steps),
        max_steps=max_steps,
        inverse_mass=INVERSE_MASS,
    )


def test_transitions_equal_blackjax(monkeypatch):
    """With the same momentum and number of steps: the same outcome, for each of several transitions."""
    with jax.enable_x64(True):
        kernel = jax.jit(
            lambda key, state, steps: adjusted_mclmc.build_kernel()(
                key, state, lambda x: log_density(x) / 2, 1.6, (steps,), INVERSE_MASS
            )
        )
        move = jax.jit(lambda key, state: transition(key, state, step_size=1.6))
        # BlackJAX's kernel splits its key in two, ours in three: the first of ours is for the number of steps.
        split = jax.random.split
        monkeypatch.setattr(
            ours_module.jax.random, "split", lambda key, n=2: [key, *split(key)] if n == 3 else split(key, n)
        )
        ours = start(jax.random.key(0), jnp.array([0.4, -0.8, 1.1, 0.2]), evaluate)
        theirs = adjusted_mclmc.init(ours.position, lambda x: log_density(x) / 2)
        accepted = []
        for key in split(jax.random.key(5), 12):
            ours, info = move(key, ours)
            theirs, their_info = kernel(key, theirs, int(info.gradients) // 2)
            np.testing.assert_allclose(ours.position, theirs.position, atol=1e-10)
            np.testing.assert_allclose(ours.evaluation.gradient, theirs.logdensity_grad, atol=1e-10)
            np.testing.assert_allclose(info.acceptance, their_info.acceptance_rate, rtol=1e-8)
            np.testing.assert_allclose(info.acceptance, min(1, np.exp(-float(info.energy_change))), rtol=1e-8)
            np.testing.assert_allclose(evaluate(ours.position).density, ours.evaluation.density)
            accepted.append(bool(info.accepted))
            assert accepted[-1] == bool(their_info.is_accepted)
        assert 2 < sum(accepted) < 12


def test_a_bound_below_the_mean_length_is_reported():
    state = start(jax.random.key(0), jnp.zeros(4), evaluate)
    move = jax.jit(lambda mean: transition(jax.random.key(1), state, mean_steps=mean, max_steps=31)[1].cut_short)
    assert [bool(move(mean)) for mean in (1.0, 16.0, 16.5)] == [False, False, True]


def test_number_of_steps_has_the_mean_and_the_largest_value_asked_for():
    state = start(jax.random.key(0), jnp.zeros(4), evaluate)
    move = jax.jit(jax.vmap(lambda key, mean: transition(key, state, mean_steps=mean, max_steps=30)[1].gradients))
    keys = jax.random.split(jax.random.key(1), 2000)
    for mean, expected in ((0.2, 1.0), (1.0, 1.0), (3.7, 3.7), (1e9, 15.5)):
        steps = np.asarray(move(keys, jnp.full(2000, mean))) / 2
        assert steps.mean() == pytest.approx(expected, rel=0.05)
        assert steps.min() == 1
        assert steps.max() <= 30


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_proposal_that_is_not_finite_is_rejected_and_counted(value):
    walled = partial(TARGET.walled, value)
    state = start(jax.random.key(0), jnp.zeros(4), walled)
    move = jax.jit(lambda key, state: transition(key, state, walled))
    divergent = []
    for key in jax.random.split(jax.random.key(5), 40):
        before = state
        state, info = move(key, state)
        divergent.append(bool(info.divergent))
        assert np.abs(state.position).max() <= 1
        if divergent[-1]:
            assert not bool(info.accepted)
            assert float(info.energy_change) == np.inf
            np.testing.assert_array_equal(state.position, before.position)
    assert 5 < sum(divergent) < 40


def test_warm_up_tunes_acceptance_and_length(tmp_path):
    """Acceptance falls off steeply at the limit of stability, where dual averaging stays well above its target."""
    exact = linear(chains=4, features=12)
    config = AdjustedMCLMCConfig(warmup=300, steps=400, step_size=0.05, target_acceptance=0.7, mass="unit")
    sampler = ours_module.build_adjusted_mclmc(config, exact.problem.posterior, exact.problem.data)
    trace = run(sampler, exact.problem, tmp_path / "t.zarr", checkpoint_every=1000)
    assert trace.statistic("divergent").sum() == 0
    assert 0.65 < trace.statistic("acceptance").mean() < 0.95
    draws, sd = trace.read().reshape(-1, 12).astype(float), np.sqrt(np.diag(exact.covariance))
    length, step_size = trace.statistic("length"), trace.statistic("step_size")
    np.testing.assert_allclose(length, 1.3 * np.sqrt((sd**2).sum()), rtol=0.15)
    np.testing.assert_allclose(trace.statistic("gradients").mean(1), 2 * (length / step_size)[:, 0], rtol=0.15)
    assert np.abs((draws.mean(0) - exact.mean) / sd).max() < 0.3
    np.testing.assert_allclose(draws.std(0) / sd, 1, atol=0.2)
