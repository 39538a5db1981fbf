"""SGLD, SGHMC and their relatives: stationary moments against exact recursions, limits, schedules, faults."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from bnn_atlas.config.methods.sgmcmc import (
    ConstantSchedule,
    CyclicalSchedule,
    PolynomialSchedule,
    PSGLDConfig,
    RMSpropConfig,
    SGHMCCLRConfig,
    SGHMCCLRPrecConfig,
    SGHMCConfig,
    SGHMCPrecConfig,
    SGLDConfig,
)
from bnn_atlas.keys import Role, role_key, step_key
from bnn_atlas.methods import sgmcmc
from bnn_atlas.methods.contract import Method
from bnn_atlas.methods.noise import standard_normal
from bnn_atlas.methods.sgmcmc import Dynamics, SGMCMCState, build_schedule, build_sgmcmc
from bnn_atlas.posterior.density import Evaluation, LogDensity, Posterior, PosteriorData, binder

from .problems import Problem, network
from .recursions import Line, Settings, all_epochs, full_batch_covariance, line, mini_batch_moments
from .running import run

pytestmark = pytest.mark.bits

CHAINS = 4000


def simulate(
    sampler: Method, posterior: Posterior, data: PosteriorData, starts: np.ndarray, steps: int, every: int, keep: int
) -> tuple[np.ndarray, SGMCMCState]:
    """`keep` positions [keep, chain, P] `every` steps apart, after `steps` steps of the last phase, and the states."""
    target = binder(posterior)(data)
    phase = sampler.phases[-1]

    def chain(number: jax.Array, start: jax.Array) -> tuple[jax.Array, SGMCMCState]:
        key = role_key(1, Role.SAMPLE, number)

        def one(index: jax.Array, state: SGMCMCState) -> SGMCMCState:
            return phase.step(step_key(key, 0, index), index, state, target, phase.settings)[0]

        def stretch(state: SGMCMCState, begin: jax.Array) -> tuple[SGMCMCState, jax.Array]:
            state = jax.lax.fori_loop(begin, begin + every, one, state)
            return state, state.dynamics.position

        state = jax.lax.fori_loop(0, steps, one, sampler.init(role_key(1, Role.START, number), start, target))
        state, draws = jax.lax.scan(stretch, state, steps + every * jnp.arange(keep))
        return draws, state

    draws, states = jax.vmap(chain, out_axes=(1, 0))(jnp.arange(len(starts)), jnp.asarray(starts, jnp.float32))
    return draws, states


def assert_moments(draws: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> None:
    """Means and covariances of draws [draw, chain, P], whitened, within 4.5 standard errors.

    Chains are independent; the errors are as if the draws of each were as well, times sqrt 2 for what is left.
    """
    white = np.linalg.solve(np.linalg.cholesky(covariance), (np.asarray(draws, float) - mean)[..., None])[..., 0]
    white = white.reshape(-1, len(mean))
    error = np.sqrt(2 / len(white))
    assert abs(white.mean(0)).max() < 4.5 * error, f"means {white.mean(0)}, error {error}"
    found = white.T @ white / len(white)
    wrong = abs(found - np.eye(len(mean))) / (np.sqrt(1 + np.eye(len(mean))) * error)
    assert wrong.max() < 4.5, f"covariance {found}, error {error}"


def starts(problem: Line, covariance: np.ndarray) -> np.ndarray:
    return np.random.default_rng(5).multivariate_normal(problem.mean, covariance, size=CHAINS)


@pytest.mark.slow
@pytest.mark.parametrize("beta", [0.0, 0.5, 0.9])
def test_full_batch_moments_are_those_of_the_exact_recursion(beta):
    """At temperatures 1/2, 1 and 2, and at a step size at which the covariance is far from the posterior's."""
    problem = line(rows=12, features=3)
    step_size = 0.5 * (1 + beta) / np.linalg.eigvalsh(problem.precision).max()
    config = SGHMCConfig(
        epochs=10**6, burn_in_epochs=0, batch_size=None, step_size=step_size, momentum_decay=beta, ensemble_every=10**6
    )
    temperatures = np.array([0.5, 1.0, 2.0])
    exact = [full_batch_covariance(problem, Settings(step_size, beta, t)) for t in temperatures]
    begin = [starts(problem, covariance) for covariance in exact]

    @jax.jit
    @jax.vmap
    def at(temperature: jax.Array, begin: jax.Array) -> jax.Array:
        posterior = problem.posterior._replace(temperature=temperature)
        return simulate(
            build_sgmcmc(config, posterior, problem.data), posterior, problem.data, begin, steps=60, every=40, keep=5
        )[0]

    for draws, t, covariance in zip(at(temperatures, np.stack(begin)), temperatures, exact, strict=True):
        assert_moments(draws, problem.mean, covariance)
        posterior = t * np.linalg.inv(problem.precision)
        assert np.trace(np.linalg.solve(posterior, covariance)) > 3 * 1.04, "the step size is too small to tell"


@pytest.mark.parametrize("beta", [0.0, 0.5, 0.9])
def test_recursion_tends_to_the_posterior(beta):
    """The covariance is off by a relative error of order h, at every temperature."""
    problem = line(rows=12, features=3)
    largest = np.linalg.eigvalsh(problem.precision).max()
    for t in (0.5, 1.0, 2.0):
        posterior = t * np.linalg.inv(problem.precision)
        off = [
            np.abs(full_batch_covariance(problem, Settings(h / largest, beta, t)) / posterior - 1).max()
            for h in (0.02, 0.002)
        ]
        assert off[1] < 0.01
        assert 8 < off[0] / off[1] < 12


@pytest.mark.parametrize("beta", [0.0, 0.7])
def test_mini_batch_moments_are_those_of_the_exact_recursion(beta):
    """Batches without replacement: the mean is the posterior's to first order in h, the covariance is inflated."""
    problem = line(rows=5, features=2)
    step_size = 0.3 / np.linalg.eigvalsh(problem.precision).max()
    epochs = all_epochs(5, 2)
    assert len(epochs) == 30
    mean, covariance = mini_batch_moments(problem, Settings(step_size, beta), epochs)
    config = SGHMCConfig(
        epochs=10**6, burn_in_epochs=0, ensemble_every=10**6, batch_size=2, step_size=step_size, momentum_decay=beta
    )
    sampler = build_sgmcmc(config, problem.posterior, problem.data)

    @jax.jit
    def draw(begin: jax.Array) -> jax.Array:
        return simulate(sampler, problem.posterior, problem.data, begin, steps=60, every=40, keep=5)[0]

    assert_moments(draw(starts(problem, covariance)), mean, covariance)
    alone = full_batch_covariance(problem, Settings(step_size, beta))
    assert np.trace(np.linalg.solve(alone, covariance)) > 2 * 1.1, "the mini-batches add too little to tell"


@pytest.mark.parametrize("config", [SGHMCCLRPrecConfig, SGHMCPrecConfig, PSGLDConfig])
def test_noise_and_drift_agree_on_the_mass(config):
    """With the mass as burn-in left it, the stationary covariance is that of the recursion with this mass."""
    problem = line(rows=12, features=3)
    per_row, heavy = config is PSGLDConfig, {"momentum_decay": 0.6}
    if config is SGHMCCLRPrecConfig:
        heavy["schedule"] = CyclicalSchedule(cycle_epochs=10**9)
    square = np.array([4.0, 1.0, 9.0], np.float32)
    mass = 0.1 + np.sqrt(square)
    settings = {} if per_row else heavy
    beta = settings.get("momentum_decay", 0.0)
    step_size = 0.5 * (1 + beta) * mass.min() / np.linalg.eigvalsh(problem.precision).max()
    sampler = build_sgmcmc(
        config(
            epochs=10**6,
            burn_in_epochs=10,
            ensemble_every=999990,
            batch_size=None,
            step_size=step_size,
            preconditioner=RMSpropConfig(decay=0.9, epsilon=0.1, adapt_after_burn_in=False, per_row=per_row),
            **settings,
        ),
        problem.posterior,
        problem.data,
    )
    exact = full_batch_covariance(problem, Settings(step_size, beta, mass=mass))
    begin = starts(problem, exact)
    init = sampler.init

    def start(*arguments):
        state = init(*arguments)
        return state._replace(dynamics=state.dynamics._replace(averages=jnp.asarray(square)))

    draws, states = jax.jit(
        lambda begin: simulate(
            sampler._replace(init=start), problem.posterior, problem.data, begin, steps=60, every=40, keep=5
        )
    )(begin)
    np.testing.assert_array_equal(states.dynamics.averages, np.broadcast_to(square, (CHAINS, 3)))
    assert_moments(draws, problem.mean, exact)
    assert np.trace(np.linalg.solve(np.linalg.inv(problem.precision), exact)) > 3 * 1.04


def one_step(state: Dynamics, gradient, step_size=0.1, momentum_decay=0.9, likelihood=-1.0, **options):
    evaluation = Evaluation(LogDensity(jnp.asarray(likelihood), jnp.asarray(-2.0)), jnp.asarray(gradient))
    return sgmcmc.step(
        jax.random.key(3), state, evaluation, step_size=jnp.asarray(step_size), momentum_decay=momentum_decay, **options
    )


THETA, M, G = (jnp.asarray(v) for v in ([0.3, -1.0, 2.0], [0.5, 0.1, -0.2], [4.0, -3.0, 0.5]))
Z = standard_normal(jax.random.key(3), jnp.zeros(3))


def test_step_is_its_formula():
    state, info = one_step(Dynamics(THETA, M, None), G)
    momentum = 0.9 * M + np.sqrt(0.1) * G + np.sqrt(0.2) * Z
    np.testing.assert_allclose(state.momentum, momentum, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(state.position, THETA + np.sqrt(0.1) * momentum, rtol=1e-6)
    np.testing.assert_allclose(info.gradient_norm, np.linalg.norm(G), rtol=1e-6)
    assert float(info.log_likelihood_estimate) == -1
    assert not info.divergent


def test_rmsprop_is_its_formula():
    """The gradient of the step is in the mass that the step takes."""
    preconditioner = sgmcmc.rmsprop(RMSpropConfig(decay=0.75, epsilon=0.01), rows=7)
    old = jnp.asarray([1.0, 0.0, 2.0])
    state, _ = one_step(Dynamics(THETA, M, old), G, preconditioner=preconditioner)
    averages = 0.75 * old + 0.25 * G**2
    mass = 0.01 + np.sqrt(averages)
    momentum = 0.9 * M + np.sqrt(0.1) * G + np.sqrt(0.2 * mass) * Z
    np.testing.assert_allclose(state.averages, averages, rtol=1e-6)
    np.testing.assert_allclose(state.momentum, momentum, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(state.position, THETA + np.sqrt(0.1) * momentum / mass, rtol=1e-6, atol=1e-7)


def test_units_of_the_preconditioner():
    """A lambda for mean gradients, as in Li et al., is rows times that for sums, and so is the step size."""
    state = Dynamics(THETA, None, jnp.zeros(3))
    mean = sgmcmc.rmsprop(RMSpropConfig(epsilon=0.02, per_row=True), rows=50)
    total = sgmcmc.rmsprop(RMSpropConfig(epsilon=1.0), rows=50)
    left, _ = one_step(state, G, step_size=0.01, momentum_decay=0.0, preconditioner=mean)
    right, _ = one_step(state, G, step_size=0.5, momentum_decay=0.0, preconditioner=total)
    np.testing.assert_allclose(left.position, right.position, rtol=1e-5)


def test_without_momentum_a_step_is_langevin():
    state, _ = one_step(Dynamics(THETA, None, None), G, momentum_decay=0.0)
    np.testing.assert_allclose(state.position, THETA + 0.1 * G + np.sqrt(0.2) * Z, rtol=1e-6)
    assert state.momentum is None


@pytest.mark.parametrize(
    ("gradient", "likelihood"), [([np.nan, 0.0, 1.0], -1.0), ([1e30, 0.0, 1.0], -1.0), (G, np.inf)]
)
def test_a_step_that_is_not_finite_changes_nothing_but_the_momentum(gradient, likelihood):
    before = Dynamics(THETA, M, jnp.ones(3))
    preconditioner = sgmcmc.rmsprop(RMSpropConfig(), rows=1)
    state, info = one_step(before, gradient, likelihood=likelihood, preconditioner=preconditioner)
    np.testing.assert_array_equal(state.position, THETA)
    np.testing.assert_array_equal(state.averages, 1)
    np.testing.assert_array_equal(state.momentum, 0)
    assert info.divergent
    assert float(info.gradient_norm) == np.inf


def path(sampler: Method, problem: Problem | Line, start: np.ndarray, steps: int) -> np.ndarray:
    """Positions of one chain through all phases."""
    target = binder(problem.posterior)(problem.data)

    @jax.jit
    def all_phases(start: jax.Array) -> jax.Array:
        state, positions = sampler.init(jax.random.key(0), start, target), []
        for number, phase in enumerate(sampler.phases):

            def one(state: SGMCMCState, index: jax.Array, phase=phase, number=number):
                key = step_key(role_key(0, Role.SAMPLE, 0), number, index)
                state, _ = phase.step(key, index, state, target, phase.settings)
                return state, state.dynamics.position

            state, part = jax.lax.scan(one, state, jnp.arange(phase.steps))
            positions.append(part)
        return jnp.concatenate(positions)

    return np.asarray(all_phases(jnp.asarray(start)))[:steps]


LENGTHS = {"epochs": 8, "burn_in_epochs": 2, "ensemble_every": 3}


def test_without_momentum_decay_sghmc_is_sgld():
    problem = line(rows=60, features=3)
    start = np.zeros(3, np.float32)
    target = problem.posterior, problem.data
    sgld = build_sgmcmc(SGLDConfig(**LENGTHS, batch_size=20, step_size=1e-3), *target)
    sghmc = build_sgmcmc(SGHMCConfig(**LENGTHS, batch_size=20, step_size=1e-3, momentum_decay=0.0), *target)
    cyclical = build_sgmcmc(
        SGHMCCLRConfig(
            **LENGTHS, batch_size=20, step_size=1e-3, momentum_decay=0.0, schedule=CyclicalSchedule(cycle_epochs=10**8)
        ),
        *target,
    )
    paths = [path(sampler, problem, start, 24) for sampler in (sgld, sghmc, cyclical)]
    np.testing.assert_array_equal(paths[0], paths[1])
    np.testing.assert_allclose(paths[0], paths[2], rtol=1e-5, atol=1e-6)


def test_rmsprop_with_momentum_is_the_published_recursion_through_burn_in_and_sampling():
    """At temperature 0, so that no noise hides it: m <- b m + sqrt(h) g, theta <- theta + sqrt(h) m / M, with
    M = 1e-7 + sqrt(e), e <- .99 e + .01 g^2 and h along a cosine in burn-in, then constant."""
    problem, cold = line(rows=6, features=3), 1e-12
    target = problem.posterior._replace(temperature=cold), problem.data
    start, first, last, beta = np.array([1.0, -1.0, 0.5], np.float32), 4e-3, 1e-3, 0.8
    lengths = {"epochs": 10, "burn_in_epochs": 4, "ensemble_every": 3, "batch_size": None}
    config = SGHMCPrecConfig(
        **lengths, step_size=first, momentum_decay=beta, schedule=ConstantSchedule(final_step_size=last)
    )
    found = path(build_sgmcmc(config, *target), problem._replace(posterior=target[0]), start, 10)
    theta, m, e, expected = start.astype(float), np.zeros(3), np.zeros(3), []
    for step in range(10):
        h = last if step >= 4 else last + (first - last) * (1 + np.cos(np.pi * step / 4)) / 2
        g = problem.precision @ (problem.mean - theta) / cold
        e = 0.99 * e + 0.01 * g**2
        m = beta * m + np.sqrt(h) * g
        theta = theta + np.sqrt(h) * m / (1e-7 + np.sqrt(e))
        expected.append(theta)
    assert np.abs(np.diff(expected, axis=0)).min() > 1e-4
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-4)


def test_at_temperature_zero_sghmc_is_gradient_ascent_with_momentum():
    """Through burn-in, epochs and draws: the momentum is never drawn anew."""
    problem = line(rows=6, features=3)
    cold = problem._replace(posterior=problem.posterior._replace(temperature=1e-12))
    start = np.array([1.0, -1.0, 0.5], np.float32)
    config = SGHMCConfig(**LENGTHS, batch_size=None, step_size=2e-3 * 1e-12, momentum_decay=0.8)
    found = path(build_sgmcmc(config, cold.posterior, cold.data), cold, start, 8)
    optimiser, theta = optax.sgd(2e-3, momentum=0.8), start
    state = optimiser.init(theta)
    for position in found:
        updates, state = optimiser.update(problem.precision @ theta - problem.precision @ problem.mean, state)
        theta = optax.apply_updates(theta, updates)
        np.testing.assert_allclose(position, theta, rtol=1e-4, atol=1e-5)


def test_temperature_is_a_scaling_of_the_noise():
    """T with step size h T has the drift of T = 1 with h, and the noise of sqrt(T) times its size, at every step."""
    problem = line(rows=6, features=3)
    start = np.array([1.0, -1.0, 0.5], np.float32)
    paths = {}
    for t in (1e-12, 1.0, 4.0):
        config = SGHMCConfig(**LENGTHS, batch_size=3, step_size=1e-3 * t, momentum_decay=0.8)
        tempered = problem._replace(posterior=problem.posterior._replace(temperature=t))
        paths[t] = path(build_sgmcmc(config, tempered.posterior, tempered.data), tempered, start, 16)
    np.testing.assert_allclose(paths[4.0] - paths[1e-12], 2 * (paths[1.0] - paths[1e-12]), rtol=1e-3, atol=1e-4)
    assert abs(paths[1.0] - paths[1e-12]).max() > 0.05


METHODS = {
    "sgld": SGLDConfig(**LENGTHS, batch_size=16, step_size=1e-3, schedule=ConstantSchedule(final_step_size=2e-4)),
    "sghmc_clr_prec": SGHMCCLRPrecConfig(
        **LENGTHS, batch_size=16, step_size=1e-3, schedule=CyclicalSchedule(cycle_epochs=2)
    ),
}


@pytest.fixture(scope="module")
def problem():
    return network(chains=3)


@pytest.fixture(scope="module", params=METHODS)
def quiet(request, problem, tmp_path_factory):
    sampler = build_sgmcmc(METHODS[request.param], problem.posterior, problem.data)
    return request.param, run(sampler, problem, tmp_path_factory.mktemp("quiet") / "trace.zarr")


def test_trace_holds_the_step_size_of_the_schedule(quiet):
    """Steps are counted through burn-in: three batches per epoch, a draw after every third epoch."""
    name, trace = quiet
    config, epoch = METHODS[name], 3
    schedule = build_schedule(config.schedule, config.step_size, 2 * epoch, epoch)
    expected = [schedule(2 * epoch + 3 * epoch * (draw + 1) - 1) for draw in range(2)]
    for chain in range(3):
        np.testing.assert_allclose(trace.statistic("step_size")[chain], expected, rtol=1e-5)
    assert (trace.statistic("divergent") == 0).all()
    assert np.isfinite(trace.statistic("gradient_norm")).all()
    np.testing.assert_allclose(trace.statistic("log_likelihood_estimate"), trace.statistic("log_likelihood"), rtol=0.5)


@pytest.mark.parametrize("full", [False, True], ids=["gradient", "density"])
def test_a_chain_that_leaves_the_finite_goes_back_to_its_last_draw(full, tmp_path):
    """Beyond 1 from the start the gradient of a mini-batch, or only the log density on all rows, is not finite."""
    problem = line(rows=6, features=2)
    network = problem.posterior.network

    def apply(theta: jax.Array, x: jax.Array) -> jax.Array:
        outside = jnp.any(jnp.abs(theta - problem.mean) > 0.6) & (x.shape[1] >= 6 if full else True)
        return jnp.where(outside, jnp.nan, network.apply(theta, x))

    broken = Problem(
        problem.posterior._replace(network=network._replace(apply=apply), kernel=None),
        problem.data,
        np.tile(problem.mean, (2, 1)).astype(np.float32),
    )
    config = SGHMCConfig(epochs=60, burn_in_epochs=4, ensemble_every=2, batch_size=2, step_size=4e-3)
    trace = run(build_sgmcmc(config, broken.posterior, broken.data), broken, tmp_path / "trace.zarr")
    assert trace.statistic("divergent").sum() > 3
    assert np.isfinite(trace.statistic("log_likelihood")).all()
    assert (abs(trace.read() - problem.mean) <= 0.6).all()
    assert len(np.unique(trace.read()[0], axis=0)) > 10


def test_devices_that_share_the_rows_give_the_chains_of_one(tmp_path):
    """Ten rows and two that only fill up, on four devices; the noise is that of the chain, not of the device."""
    config = SGHMCConfig(epochs=60, burn_in_epochs=4, ensemble_every=2, batch_size=None, step_size=0.005)
    draws = []
    for shards in (1, 4):
        problem = line(rows=10, features=2, shards=shards)
        begin = np.zeros((3, 2), np.float32)
        sampler = build_sgmcmc(config, problem.posterior, problem.data)
        trace = run(sampler, Problem(problem.posterior, problem.data, begin), tmp_path / f"{shards}.zarr")
        draws.append(trace.read())
    np.testing.assert_allclose(draws[1], draws[0], rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_devices_that_share_the_rows_sample_the_target(tmp_path):
    """Numerical rule 3: eight rows on four devices, in batches of one row of each; the moments are exact."""
    problem = line(rows=8, features=2, shards=4)
    step_size = 0.3 / np.linalg.eigvalsh(problem.precision).max()
    first = [2 * np.arange(4) + np.array(choice) for choice in product((0, 1), repeat=4)]
    epochs = [(rows, np.setdiff1d(np.arange(8), rows)) for rows in first]
    mean, covariance = mini_batch_moments(problem, Settings(step_size, 0.5), epochs)
    config = SGHMCConfig(
        epochs=20100, burn_in_epochs=100, ensemble_every=5, batch_size=4, step_size=step_size, momentum_decay=0.5
    )
    begin = mean[None].astype(np.float32)
    sampler = build_sgmcmc(config, problem.posterior, problem.data)
    block = Problem(problem.posterior, problem.data, begin)
    draws = run(sampler, block, tmp_path / "trace.zarr", checkpoint_every=10**6).read()
    assert_moments(draws, mean, covariance)


def test_settings_that_do_not_fit_are_refused():
    with pytest.raises(
        ValueError, match=r"epochs \(10\) minus burn_in_epochs \(4\) must be a positive multiple of ensemble_every"
    ):
        SGLDConfig(epochs=10, burn_in_epochs=4, ensemble_every=4, step_size=1e-3)
    with pytest.raises(ValueError, match="positive multiple"):
        SGLDConfig(epochs=10, burn_in_epochs=10, step_size=1e-3)


@pytest.mark.parametrize(("burn_in", "every"), [(7, 3), (1, 3), (3, 3), (0, 3), (11, 10)])
def test_any_length_of_burn_in_is_cut_into_units_of_the_thinning(burn_in, every):
    """A burn-in that is no multiple of the thinning has its rest first; steps count on through both."""
    config = SGLDConfig(epochs=burn_in + 2 * every, burn_in_epochs=burn_in, ensemble_every=every, step_size=1e-3,
                        batch_size=2)  # fmt: skip
    problem = line(rows=6, features=3)
    phases = build_sgmcmc(config, problem.posterior, problem.data).phases
    assert sum(phase.steps for phase in phases[:-1]) == 3 * burn_in
    assert all(phase.steps % phase.thinning == 0 and phase.thinning <= 3 * every for phase in phases)
    before = 0
    for phase in phases:
        assert phase.settings.offset == before
        before += phase.steps


STEPS = np.arange(0, 80)


def at(config, step_size=0.3, burn_in=20, epoch=5):
    schedule = build_schedule(config, step_size, burn_in, epoch)
    return np.array([schedule(jnp.int32(step)) for step in STEPS])


def test_cosine_in_burn_in_then_flat():
    share = np.minimum(STEPS / 20, 1)
    expected = 0.02 + (0.3 - 0.02) * (1 + np.cos(np.pi * share)) / 2
    np.testing.assert_allclose(at(ConstantSchedule(final_step_size=0.02)), expected, rtol=1e-5)
    assert at(ConstantSchedule(final_step_size=0.02))[25] == pytest.approx(0.02)


def test_constant():
    np.testing.assert_allclose(at(ConstantSchedule()), 0.3)
    np.testing.assert_allclose(at(ConstantSchedule(final_step_size=0.02), burn_in=0), 0.02)


def test_cyclical():
    """Cycles of 3 epochs of 5 steps begin with the first step after burn-in."""
    found = at(CyclicalSchedule(cycle_epochs=3))
    np.testing.assert_allclose(found[:20], 0.3)
    t = (STEPS[20:] - 20) % 15 / 15
    np.testing.assert_allclose(found[20:], 0.15 * (1 + np.cos(np.pi * t)), rtol=1e-5, atol=1e-7)
    assert found[35] == pytest.approx(0.3)
    assert 0 < found[34] < 0.02 * 0.3


def test_polynomial():
    """The form a (b + t)^-gamma of Welling and Teh, from the values at the start and at the end."""
    found = at(PolynomialSchedule(offset_epochs=2, power=0.6))
    a = 0.3 * 10**0.6
    np.testing.assert_allclose(found, a * (10 + STEPS) ** -0.6, rtol=1e-5)
    assert found[0] == pytest.approx(0.3)
