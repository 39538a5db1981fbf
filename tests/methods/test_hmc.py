"""The HMC kernel: detailed balance, energy, rejection, tempering, mass; and the same transitions as BlackJAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blackjax.mcmc.hmc import hmc_proposal
from blackjax.mcmc.integrators import IntegratorState, velocity_verlet
from blackjax.mcmc.metrics import gaussian_euclidean

from bnn_atlas.config.methods.hmc import HMCConfig, UnadjustedHMCConfig
from bnn_atlas.config.parts.posterior import GaussianLikelihood, MLPConfig
from bnn_atlas.config.parts.priors import NormalPrior
from bnn_atlas.methods import hmc
from bnn_atlas.methods.warmup import start
from bnn_atlas.metrics.formulas.rhat_ess import ess_mean
from bnn_atlas.posterior.density import Evaluation, LogDensity, binder, build_posterior, posterior_data

from .problems import Problem, gain_of, linear
from .running import run

SCALES = np.array([0.5, 1.0, 2.0])


def gaussian(x, temperature=1.0):
    def value(x):
        return -0.5 * jnp.sum((x / SCALES) ** 2)

    likelihood = 0.25 * value(x)
    return Evaluation(LogDensity(likelihood, 0.75 * value(x)), jax.grad(value)(x) / temperature)


def bent(x):
    """Log density and gradient of a target that is not Gaussian."""
    value, gradient = jax.value_and_grad(lambda x: -0.5 * jnp.sum((x / SCALES) ** 2) - 0.1 * jnp.sum(x**4))(x)
    return Evaluation(LogDensity(value, jnp.zeros_like(value)), gradient)


def walled(x):
    """A Gaussian whose density is not a number outside of a cube."""
    good = gaussian(x)
    value = jnp.where(jnp.any(jnp.abs(x) > 1), jnp.nan, good.density.log_likelihood)
    return good._replace(density=good.density._replace(log_likelihood=value))


def transition(
    key, state, evaluate, step_size=0.3, length=1.5, jitter=0.3, max_steps=1000, temperature=1.0, **settings
):
    return hmc.step(
        key,
        state,
        evaluate,
        gain_of(temperature),
        step_size=jnp.asarray(step_size),
        trajectory_length=length,
        jitter=jitter,
        max_steps=max_steps,
        **settings,
    )


def chain(evaluate, steps, **settings):
    def body(state, key):
        state, info = transition(key, state, evaluate, **settings)
        return state, (state.position, info)

    state = start(jax.random.key(0), jnp.zeros(3), evaluate)
    return jax.jit(lambda keys: jax.lax.scan(body, state, keys)[1])(jax.random.split(jax.random.key(4), steps))


@pytest.mark.parametrize("inverse_mass", [None, np.array([0.2, 1.5, 3.0])])
def test_moments_of_tempered_gaussians(inverse_mass):
    def draw(temperature):
        return chain(
            lambda x: gaussian(x, temperature),
            8000,
            temperature=temperature,
            step_size=0.2,
            length=1.2,
            inverse_mass=inverse_mass,
        )

    for temperature in (0.25, 2.0):
        draws, info = draw(temperature)
        assert 0.7 < float(info.acceptance.mean()) <= 1
        np.testing.assert_allclose(draws.var(0), temperature * SCALES**2, rtol=0.12)
        error = np.sqrt(temperature / ess_mean(np.asarray(draws)[None])) * SCALES
        assert (abs(draws.mean(0)) < 4 * error).all()


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


def trajectory(position, momentum, inverse_mass, steps=7, step_size=0.23):
    evaluation = bent(position)
    for _ in range(steps):
        position, momentum, evaluation = hmc.leapfrog(position, momentum, evaluation, bent, step_size, inverse_mass)
    return position, momentum


@pytest.mark.parametrize("inverse_mass", [None, np.array([0.2, 1.5, 3.0])])
def test_leapfrog_is_reversible_and_keeps_volume(inverse_mass):
    """Together with acceptance by min(1, exp(-dE)) this is detailed balance."""
    with jax.enable_x64(True):
        x, p = jnp.array([0.4, -0.8, 1.1]), jnp.array([-0.3, 0.9, 0.2])
        there = trajectory(x, p, inverse_mass)
        back = trajectory(there[0], -there[1], inverse_mass)
        assert np.abs(there[0] - x).max() > 0.1
        np.testing.assert_allclose(back[0], x, atol=1e-12)
        np.testing.assert_allclose(back[1], -p, atol=1e-12)
        jacobian = jax.jacfwd(lambda z: jnp.concatenate(trajectory(z[:3], z[3:], inverse_mass)))
        np.testing.assert_allclose(np.linalg.det(jacobian(jnp.concatenate([x, p]))), 1, atol=1e-12)


def test_energy_error_of_a_trajectory_falls_with_the_square_of_the_step():
    with jax.enable_x64(True):
        sizes = np.array([0.2, 0.1, 0.05, 0.025])
        keys = jax.random.split(jax.random.key(3), 100)

        def error(key, step_size):
            state = start(key, jax.random.normal(jax.random.fold_in(key, 1), (3,)), bent)
            return transition(key, state, bent, step_size=step_size, length=1.0, jitter=0.0)[1]

        info = jax.jit(jax.vmap(jax.vmap(error, (0, None)), (None, 0)))(keys, sizes)
        np.testing.assert_array_equal(info.gradients, np.broadcast_to(np.round(1 / sizes)[:, None], (4, 100)))
        slope, _ = np.polyfit(np.log(sizes), np.log(np.std(info.energy_change, axis=1)), 1)
        assert slope == pytest.approx(2, abs=0.05)


@pytest.mark.parametrize("seed", range(4))
def test_transitions_equal_blackjax(seed):
    """With the same momentum and number of steps: the same proposal, acceptance probability and outcome."""
    with jax.enable_x64(True):
        inverse_mass, step_size = jnp.array([0.3, 1.2, 2.5]), 0.45
        key = jax.random.key(seed)
        momentum_key, _, accept_key = jax.random.split(key, 3)
        state = start(key, jnp.array([0.4, -0.8, 1.1]), bent)
        ours, info = transition(
            key, state, bent, step_size=step_size, length=5 * step_size, jitter=0.0, inverse_mass=inverse_mass
        )
        metric = gaussian_euclidean(inverse_mass)
        momentum = jax.random.normal(momentum_key, (3,)) / jnp.sqrt(inverse_mass)
        propose = hmc_proposal(
            velocity_verlet(lambda x: bent(x).density.log_likelihood, metric.kinetic_energy),
            metric.kinetic_energy,
            step_size,
            num_integration_steps=5,
        )
        first = IntegratorState(state.position, momentum, state.evaluation.density.log_likelihood, state.evaluation[1])
        theirs, their_info, _ = propose(accept_key, first)
        assert int(info.gradients) == their_info.num_integration_steps
        np.testing.assert_allclose(info.acceptance, their_info.acceptance_rate, rtol=1e-10)
        assert bool(info.accepted) == bool(their_info.is_accepted)
        np.testing.assert_allclose(ours.position, theirs.position, atol=1e-12)
        np.testing.assert_allclose(ours.evaluation.gradient, theirs.logdensity_grad, atol=1e-12)


def test_trajectory_is_jittered_and_capped():
    _, info = chain(gaussian, 300, step_size=0.05, length=1.0, jitter=0.5)
    steps = np.asarray(info.gradients)
    assert steps.min() >= 10
    assert steps.max() <= 30
    assert len(np.unique(steps)) > 10
    _, info = chain(gaussian, 20, step_size=0.05, length=1.0, jitter=0.5, max_steps=12)
    steps, cut = np.asarray(info.gradients), np.asarray(info.cut_short)
    assert steps.max() == 12
    assert 0 < cut.sum() < 20
    assert np.all(steps[cut] == 12)
    assert not np.asarray(chain(gaussian, 20, step_size=0.05, length=1.0, jitter=0.0, max_steps=20)[1].cut_short).any()


@pytest.mark.parametrize("metropolis", [True, False])
def test_a_divergent_proposal_is_never_kept(metropolis):
    draws, info = chain(walled, 200, step_size=0.5, metropolis=metropolis)
    divergent = np.asarray(info.divergent)
    assert 10 < divergent.sum() < 190
    assert np.isfinite(draws).all()
    assert np.abs(draws).max() <= 1
    assert np.isinf(np.asarray(info.energy_change)[divergent]).all()
    if metropolis:
        assert not np.asarray(info.accepted)[divergent].any()
    else:
        np.testing.assert_array_equal(info.accepted, ~divergent)


def test_a_trajectory_that_blows_up_to_finite_values_diverges():
    """Leapfrog steps beyond the limit of stability multiply the energy every time, which without a test would stay."""
    draws, info = chain(gaussian, 30, step_size=2.5, length=12.5, metropolis=False)
    change, divergent = np.asarray(info.energy_change), np.asarray(info.divergent)
    assert np.isfinite(change).all()
    np.testing.assert_array_equal(divergent, change > 1000)
    assert divergent.any()
    np.testing.assert_array_equal(info.accepted, ~divergent)
    assert np.abs(draws).max() < 100


def test_only_burn_in_goes_without_the_metropolis_test():
    exact = linear(chains=1)
    config = HMCConfig(burn_in=40, steps=40, step_size=0.15, trajectory_length=0.45, burn_in_metropolis=False)
    sampler = hmc.build_hmc(config, exact.problem.posterior, exact.problem.data)
    target = binder(exact.problem.posterior)(exact.problem.data)
    state = sampler.init(jax.random.key(0), jnp.asarray(exact.problem.starts[0]), target)
    for phase in sampler.phases:
        move = jax.jit(lambda key, index, state, phase=phase: phase.step(key, index, state, target, phase.settings))
        accepted = [move(key, 0, state)[1]["accepted"] for key in jax.random.split(jax.random.key(1), 40)]
        assert all(accepted) == (phase.name == "warm-up"), phase.name


def test_diagonal_mass_and_step_size_are_tuned(tmp_path):
    """On scales from 1 to 30 the tuned step is that of the widest scale, far beyond what unit mass would bear."""
    scales = np.array([1.0, 3.0, 10.0, 30.0])
    exact = linear(chains=4)
    problem = exact.problem
    x = np.asarray(problem.data.x) / scales
    precision = x.T @ x / 0.25 + np.eye(4) / 0.64
    mean = np.linalg.solve(precision, x.T @ np.asarray(problem.data.y) / 0.25 + 0.2 / 0.64)
    covariance = np.linalg.inv(precision)
    data = problem.data._replace(x=jnp.asarray(x, problem.data.x.dtype))
    config = HMCConfig(
        burn_in=400, steps=2000, step_size=0.05, trajectory_length=1.0, adapt_step_size=True, mass="diagonal"
    )
    method = hmc.build_hmc(config, problem.posterior, data)
    trace = run(method, problem._replace(data=data), tmp_path / "t.zarr", checkpoint_every=2000)
    draws, sd = trace.read().reshape(-1, 4).astype(float), np.sqrt(np.diag(covariance))
    np.testing.assert_allclose((draws.mean(0) - mean) / sd, 0, atol=0.08)
    np.testing.assert_allclose(draws.std(0) / sd, 1, atol=0.06)
    step_size = trace.statistic("step_size")[:, -1]
    # Leapfrog steps are stable up to twice the least standard deviation; with the mass, twice their root mean square.
    rms = np.sqrt((sd**2).mean())
    assert np.all((step_size > 2.4 * sd.min()) & (step_size < 2 * rms)), (step_size, sd)
    np.testing.assert_allclose(trace.statistic("gradients").mean(1), 1.0 / step_size + 0.5, rtol=0.1)
    assert 0.7 < trace.statistic("acceptance").mean() < 0.97


def test_without_the_test_the_variance_is_that_of_the_leapfrog_integrator(tmp_path):
    """It conserves p^2 / 2 + x^2 / (2 s^2) (1 - (h / 2 s)^2), so that momenta of N(0, 1) give x that many times s^2."""
    config = UnadjustedHMCConfig(
        burn_in=20, steps=3000, quarter_periods=1, leapfrog_steps=2, jitter=0.5, checkpoint_every=1000
    )
    settings = config.resolved(prior_sd=2.0, temperature=0.25)
    assert settings.trajectory_length == pytest.approx(np.pi / 2)
    problem = prior_alone(sd=2.0, temperature=0.25, chains=4)
    trace = run(hmc.build_hmc(settings, problem.posterior, problem.data), problem, tmp_path / "t.zarr")
    assert not {"acceptance", "accepted"} & set(trace.statistics)
    assert trace.statistic("divergent").sum() == 0
    draws = trace.read().astype(float).reshape(-1, problem.posterior.layout.size)
    expected = 1 / (1 - settings.step_size**2 / 4)
    assert expected > 1.15
    np.testing.assert_allclose((draws**2).mean(), expected, rtol=0.02)
    with pytest.raises(ValueError, match="relative to a prior: give step_size and trajectory_length, or call resolved"):
        hmc.build_hmc(config, problem.posterior, problem.data)


def prior_alone(sd, temperature, chains):
    """A linear model of ten weights whose one row is all zeros, so that its posterior is the tempered prior."""
    posterior, prior = build_posterior(
        MLPConfig(hidden=(), bias=False),
        GaussianLikelihood(),
        NormalPrior(scale=sd),
        temperature=temperature,
        shape=(10,),
    )
    data = posterior_data(np.zeros((1, 10)), np.zeros(1), prior)
    return Problem(posterior, data, np.zeros((chains, 10), np.float32))
