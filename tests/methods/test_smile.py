"""SMILE on Gaussians with known gradient noise: the bias in its docstring, its removal, the tuner and limits."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.config.methods.mclmc import EnergyTunerConfig, SMILEConfig
from bnn_atlas.methods import smile
from bnn_atlas.methods.integrators import isokinetic
from bnn_atlas.posterior.density import Evaluation, LogDensity, binder

from .harness import build
from .problems import linear
from .recursions import line
from .running import run

DIMENSION, CHAINS = 20, 16
VARIANCES = np.tile([1.0, 4.0], DIMENSION // 2)
LOUD = np.arange(DIMENSION) >= DIMENSION // 2
"""Parameters whose gradients have more noise; half of them have each variance."""


class Result(NamedTuple):
    """Of chains that start from the target: temperatures [chain, P], last step sizes and guarded shares [chain]."""

    temperatures: np.ndarray
    step_sizes: np.ndarray
    guarded: np.ndarray


def evaluator(sd, key):
    """A mini-batch: an estimate of the log density whose gradient is off by the same amount everywhere."""
    noise = sd * jax.random.normal(key, (DIMENSION,))

    def evaluate(x):
        estimate = -0.5 * jnp.sum(x**2 / VARIANCES) + jnp.dot(noise, x)
        return Evaluation(LogDensity(estimate, jnp.zeros(())), noise - x / VARIANCES)

    return evaluate


def sampled(sd, step_size, *, preconditioning=False, tuner=None, steps=12_000) -> Result:
    sd = jnp.asarray(sd, jnp.float32)

    def advance(state, key):
        step_key, noise_key = jax.random.split(key)
        state, info = smile.step(
            step_key,
            state,
            evaluator(sd, noise_key),
            temperature=1.0,
            preconditioning=preconditioning,
            tuner=tuner,
        )
        return state, (state.position, info.guarded)

    @jax.jit
    @jax.vmap
    def chain(key):
        start_key, momentum_key, noise_key, key = jax.random.split(key, 4)
        start = jnp.sqrt(VARIANCES).astype(jnp.float32) * jax.random.normal(start_key, (DIMENSION,))
        state = smile.init(momentum_key, start, evaluator(sd, noise_key)(start), step_size)
        state, (positions, guarded) = jax.lax.scan(advance, state, jax.random.split(key, steps))
        return jnp.mean(positions[steps // 10 :] ** 2, axis=0) / VARIANCES, state.step_size, jnp.mean(guarded)

    return Result(*map(np.asarray, chain(jax.random.split(jax.random.key(0), CHAINS))))


def test_equal_noise_leaves_the_target_as_it_is():
    found = sampled(np.full(DIMENSION, 3.0), 0.4).temperatures
    np.testing.assert_allclose(found.mean(0), 1, atol=0.1)
    assert found.mean() == pytest.approx(1, abs=0.02)


def test_unequal_noise_heats_by_its_share_and_the_preconditioner_undoes_it():
    """T_i = D_i / mean(D) is 0.2 and 1.8 for noise with the standard deviations 3 and 9."""
    sd = np.where(LOUD, 9.0, 3.0)
    expected = sd**2 / np.mean(sd**2)
    naive = sampled(sd, 0.2).temperatures.mean(0)
    np.testing.assert_allclose([naive[~LOUD].mean(), naive[LOUD].mean()], [0.2, 1.8], atol=0.1)
    mended = sampled(sd, 0.2, preconditioning=True).temperatures.mean(0)
    assert abs(mended - 1).mean() < abs(expected - 1).mean() / 8


def test_preconditioner_scales_by_the_noise():
    sd = np.where(LOUD, 9.0, 3.0)
    gradients = 5 + sd * np.random.default_rng(0).normal(size=(5000, DIMENSION))
    noise, _ = jax.lax.scan(
        lambda noise, gradient: (smile.observe(noise, gradient), None),
        smile.GradientNoise(jnp.full(DIMENSION, 5.0), jnp.ones(DIMENSION)),
        jnp.asarray(gradients, jnp.float32),
    )
    scales = np.asarray(smile.scales(noise))
    assert scales[~LOUD].mean() / scales[LOUD].mean() == pytest.approx(3, rel=0.1)
    np.testing.assert_allclose(np.mean(1 / scales**2), 1, rtol=1e-5)


def test_tuner_reaches_one_step_size_from_starts_three_decades_apart():
    """The published statement (Table 3, by a third party) is about start step sizes of four orders of magnitude."""
    sd = np.where(LOUD, 3.0, 1.0)
    starts = 0.002, 0.05, 2.0
    ends = [
        np.log10(sampled(sd, start, preconditioning=True, tuner=EnergyTunerConfig(change=0.1), steps=15_000)[1]).mean()
        for start in starts
    ]
    assert np.ptp(ends) < 0.6, f"10 to the power of {ends}"


def test_guard_undoes_about_the_share_of_steps_beyond_its_quantile():
    found = sampled(np.full(DIMENSION, 3.0), 0.2, tuner=EnergyTunerConfig(change=1e-6), steps=4000)
    assert 0.001 < found.guarded.mean() < 0.03


@pytest.mark.parametrize("probability", [0.0167, 0.5, 0.967, 0.99])
@pytest.mark.parametrize(("shape", "mean"), [(1.0, 3.0), (2.0, 50.0), (20.0, 0.4)])
def test_quantile_is_that_of_a_gamma_distribution(probability, shape, mean):
    errors = smile.EnergyErrors(jnp.int32(100), jnp.float32(mean), jnp.float32(mean**2 / shape))
    expected = stats.gamma.ppf(probability, shape, scale=mean / shape)
    np.testing.assert_allclose(smile.gamma_quantile(errors, probability), expected, rtol=0.04, atol=0.02 * mean)


def test_averages_are_plain_ones_at_first_and_forget_later():
    sizes = np.abs(np.random.default_rng(0).normal(size=400)).astype(np.float32)
    zero = jnp.zeros(())
    errors = smile.EnergyErrors(jnp.zeros((), jnp.int32), zero, zero)
    for count, size in enumerate(sizes[:60], 1):
        errors = smile.average(errors, jnp.float32(size), 0.99)
        np.testing.assert_allclose(
            [errors.mean, errors.variance], [sizes[:count].mean(), sizes[:count].var()], atol=1e-4
        )
    errors = smile.EnergyErrors(jnp.int32(1000), zero, zero)
    for _ in range(100):
        errors = smile.average(errors, jnp.float32(1.0), 0.9)
    np.testing.assert_allclose([errors.mean, errors.variance], [1, 0], atol=1e-3)


def test_without_noise_a_step_is_the_integrators():
    """No noise, no preconditioner and no tuner: the deterministic step, which goes back if the momentum is reversed."""
    evaluate = evaluator(0.0, jax.random.key(0))
    start = jnp.asarray(np.random.default_rng(0).normal(size=DIMENSION), jnp.float32)
    state = smile.init(jax.random.key(1), start, evaluate(start), 0.5)
    move = partial(smile.step, evaluate=evaluate, temperature=1.0, preconditioning=False, tuner=None)
    moved, info = move(jax.random.key(2), state)
    position, momentum, _, kinetic = isokinetic(
        start, state.momentum, state.evaluation, evaluate, state.step_size, jnp.ones(DIMENSION)
    )
    np.testing.assert_array_equal(moved.position, position)
    np.testing.assert_array_equal(moved.momentum, momentum)
    gain = evaluate(position).density.log_likelihood - evaluate(start).density.log_likelihood
    np.testing.assert_allclose(info.energy_change, kinetic - gain, atol=1e-5)
    back, _ = move(jax.random.key(3), moved._replace(momentum=-moved.momentum))
    np.testing.assert_allclose(back.position, start, atol=1e-5)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_step_that_is_not_finite_is_undone(value):
    evaluate = evaluator(1.0, jax.random.key(0))
    start = jnp.ones(DIMENSION)
    state = smile.init(jax.random.key(1), start, evaluate(start), 0.1)

    def broken(x):
        return evaluate(x)._replace(gradient=jnp.full(DIMENSION, value))

    after, info = smile.step(
        jax.random.key(2), state, broken, temperature=1.0, preconditioning=True, tuner=EnergyTunerConfig()
    )
    assert info.divergent
    assert not info.guarded
    assert np.isinf(info.energy_change)
    np.testing.assert_array_equal(after.position, start)
    np.testing.assert_array_equal(after.noise.variance, state.noise.variance)
    assert np.linalg.norm(after.momentum) == pytest.approx(1, abs=1e-5)


def test_a_draw_without_a_density_goes_back_to_the_last_one():
    gaussian = linear(chains=2)
    sampler = build(SMILEConfig(batch_size=8), gaussian.problem)
    target = binder(gaussian.problem.posterior)(gaussian.problem.data)
    start = jnp.asarray(gaussian.mean, jnp.float32)
    begun = sampler.init(jax.random.key(0), start, target)
    lost = begun._replace(dynamics=begun.dynamics._replace(position=jnp.full_like(start, jnp.inf)))
    settled, found = sampler.phases[-1].settle(lost, target)
    assert found["divergent"]
    np.testing.assert_array_equal(settled.dynamics.position, start)
    np.testing.assert_array_equal(settled.dynamics.evaluation.gradient, target.evaluate(start).gradient)
    moved = begun._replace(dynamics=begun.dynamics._replace(position=start + 1))
    settled, found = sampler.phases[-1].settle(moved, target)
    assert not found["divergent"]
    np.testing.assert_array_equal(settled.safe.position, start + 1)


def test_nothing_adapts_where_that_is_off():
    evaluate = evaluator(1.0, jax.random.key(0))
    state = smile.init(jax.random.key(1), jnp.ones(DIMENSION), evaluate(jnp.ones(DIMENSION)), 0.1)
    state = state._replace(errors=smile.EnergyErrors(jnp.int32(50), jnp.float32(1e-9), jnp.float32(1e-20)))
    after, info = smile.step(
        jax.random.key(2), state, evaluate, temperature=1.0, preconditioning=True, tuner=EnergyTunerConfig(), adapt=0
    )
    assert info.guarded, "the guard stays when nothing adapts any more"
    for name in ("noise", "errors", "step_size"):
        np.testing.assert_array_equal(
            np.hstack(jax.tree.leaves(getattr(after, name))), np.hstack(jax.tree.leaves(getattr(state, name)))
        )


def test_all_rows_have_no_noise_and_are_refused():
    problem = line(rows=6, features=2)
    with pytest.raises(ValueError, match=r"batch_size .*mclmc"):
        build(SMILEConfig(batch_size=6), problem)
    with pytest.raises(ValueError, match="batch_size"):
        build(SMILEConfig(batch_size=7), problem)


def test_one_parameter_is_refused():
    with pytest.raises(ValueError, match="at least two"):
        build(SMILEConfig(batch_size=2), line(rows=6, features=1))


@pytest.mark.parametrize("setting", [{"steps": 15}, {"tuner": {"reset": 1.5}}, {"batch_size": None}])
def test_settings_that_cannot_work_are_refused(setting):
    with pytest.raises((ConfigError, ValueError)):
        SMILEConfig(**setting)


@pytest.mark.parametrize("adapting", [False, True])
def test_scales_that_keep_adapting_bias_the_draws_of_a_linear_model(adapting, tmp_path):
    """Mini-batches of 24 of 25 rows, so that the gradient changes more with the position than with the batch."""
    gaussian = linear(chains=CHAINS)
    config = SMILEConfig(
        burn_in=3000,
        steps=20_000,
        thinning=20,
        batch_size=24,
        step_size=0.03,
        tuner=None,
        adapt_after_burn_in=adapting,
    )
    sampler = build(config, gaussian.problem)
    draws = run(sampler, gaussian.problem, tmp_path / "trace.zarr", checkpoint_every=10**6).read()
    sd = np.sqrt(np.diag(gaussian.covariance))
    assert (abs(draws.mean((0, 1)) - gaussian.mean) < 0.1 * sd).all()
    ratio = draws.std((0, 1)).mean() / sd.mean()
    assert ratio > 1.2 if adapting else abs(ratio - 1) < 0.1
