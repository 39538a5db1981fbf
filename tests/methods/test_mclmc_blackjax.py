"""MCLMC with BlackJAX's tuning, against BlackJAX's own on the same steps."""

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blackjax.mcmc.integrators import IntegratorState
from blackjax.mcmc.mclmc import MCLMCInfo as TheirInfo

from bnn_atlas.config.methods.mclmc import BlackJAXMCLMCConfig
from bnn_atlas.methods import mclmc
from bnn_atlas.methods.mclmc_tuning import blackjax_rule, build_mclmc_blackjax, first_tuning, set_scales, tune_step_size

from .problems import linear
from .running import run

WARMUP, LARGEST = 900, 0.9


def record():
    """Positions [step, 4] of an autoregression, and energy errors at step size 1."""
    rng = np.random.default_rng(1)
    positions = np.zeros((2000, 4))
    for step in range(1, len(positions)):
        positions[step] = 0.9 * positions[step - 1] + rng.normal(size=4) * np.array([0.1, 0.5, 1.0, 2.0])
    return jnp.asarray(positions, jnp.float32), jnp.asarray(0.4 * rng.normal(size=2000), jnp.float32)


def replay(recording, count, step_size):
    """The next position and energy error, O(eps^3); steps beyond the largest size fail."""
    positions, errors = recording
    return positions[count], errors[count] * step_size**3, step_size > LARGEST


def tune_as_blackjax(recording):
    def kernel(rng_key, state, logdensity_fn, inverse_mass_matrix, L, step_size):
        position, error, failed = replay(recording, state.logdensity_grad, step_size)
        new = state._replace(position=position, logdensity_grad=state.logdensity_grad + 1)
        return new, TheirInfo(state.logdensity, error, jnp.where(failed, 0.0, error), ~failed)

    first = IntegratorState(jnp.zeros(4), jnp.full(4, 0.5), jnp.zeros(()), jnp.int32(0))
    _, tuned, _ = blackjax.mclmc_find_L_and_step_size(
        kernel,
        WARMUP,
        first,
        jax.random.key(0),
        logdensity_fn=jnp.sum,
        frac_tune1=1 / 3,
        frac_tune2=1 / 3,
        frac_tune3=1 / 3,
        params=blackjax.adaptation.mclmc_adaptation.MCLMCAdaptationState(2.0, 2.0, jnp.ones(4)),
    )
    return float(tuned.step_size), float(tuned.L), np.asarray(tuned.inverse_mass_matrix)


def test_tuning_equals_blackjax(tmp_path, monkeypatch):
    """Through the runner's phases: first steps that fail, then the step size, the preconditioner and L."""
    recording = record()
    scales = []

    def step(key, state, evaluate, *, step_size, scale, **_):
        count = state.momentum[0].astype(int)
        position, error, failed = replay(recording, count, step_size)
        new = state._replace(position=position, momentum=state.momentum.at[0].add(1))
        state = jax.tree.map(lambda a, b: jnp.where(failed, b, a), new, state)
        return state, mclmc.MCLMCInfo(jnp.where(failed, jnp.inf, error), failed)

    monkeypatch.setattr(mclmc, "init", lambda key, position, evaluate: first_state(position, evaluate))
    monkeypatch.setattr(mclmc, "step", step)
    config = BlackJAXMCLMCConfig(warmup=WARMUP, steps=10, thinning=1, step_size_init=2.0)
    problem = linear(chains=1).problem
    sampler = build_mclmc_blackjax(config, problem.posterior, problem.data)
    keep = sampler.phases[1].finish

    def finish(state, draws):
        state = keep(state, draws)
        scales.append(np.asarray(state.tuning.scale))
        return state

    phases = (sampler.phases[0], sampler.phases[1]._replace(finish=finish), *sampler.phases[2:])
    trace = run(sampler._replace(phases=phases), problem, tmp_path / "t.zarr", checkpoint_every=1000)
    step_size, length, inverse_mass = tune_as_blackjax(recording)
    assert 0.1 < step_size < 0.8 * LARGEST
    np.testing.assert_allclose(trace.statistic("step_size")[0, -1], step_size, rtol=1e-4)
    np.testing.assert_allclose(trace.statistic("length")[0, -1], length, rtol=0.02)
    np.testing.assert_allclose(scales[0] ** 2, inverse_mass, rtol=1e-3)


def first_state(position, evaluate):
    return mclmc.MCLMCState(jnp.zeros_like(position), jnp.zeros_like(position), evaluate(position))


def test_a_failure_bounds_the_step_size_until_the_preconditioner_is_set():
    config, first = BlackJAXMCLMCConfig(step_size_init=0.1), 0.1
    rule = blackjax_rule(config, 3)
    tuning = first_tuning(jnp.zeros(3), first, 3.0)._replace(largest=jnp.asarray(jnp.inf))

    def tune(tuning, error):
        info = mclmc.MCLMCInfo(jnp.asarray(error), jnp.isinf(error))
        return tune_step_size(rule, tuning, info, config.energy_variance)

    free = tune(tuning, 0.001)
    assert float(free.step_size) > 2 * first
    failed = tune(tuning, np.inf)
    assert float(failed.step_size) == float(failed.largest) == pytest.approx(0.8 * first)
    assert float(tune(failed, 0.0).step_size) == pytest.approx(0.8 * first)
    moments = failed._replace(spread=np.ones(3, np.float32), weight=np.float32(2))
    assert np.isinf(set_scales(moments, precondition=True).largest)
