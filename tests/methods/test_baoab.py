"""BAOAB: its splitting by hand, its limits, and the stationary law of the harmonic oscillator in closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov

from bnn_atlas.config.methods.hmc import BAOABConfig
from bnn_atlas.config.runs.studies import RunConfig
from bnn_atlas.methods.baoab import build_baoab
from bnn_atlas.methods.contract import Method
from bnn_atlas.methods.integrators import baoab, leapfrog
from bnn_atlas.posterior.density import Evaluation, LogDensity, Target, binder
from tests.config.folders import RUN

from .problems import Bent, linear
from .running import run

SD = 0.7


def oscillator(x):
    return Evaluation(LogDensity(jnp.sum(-0.5 * (x / SD) ** 2), 0.0), -x / SD**2)


def test_without_friction_it_is_the_leapfrog():
    """Whatever the noise, and so time-reversible."""
    with jax.enable_x64(True):
        bent = Bent(jnp.array([0.5, 1.0, 2.0]))
        x, p, noise = jnp.array([0.3, -0.2, 1.0]), jnp.array([1.0, 0.5, -0.7]), jnp.full(3, 9.0)
        state = other = x, p, bent.evaluate(x)
        for _ in range(20):
            state = baoab(*state, bent.evaluate, 0.1, 1.0, noise)
            other = leapfrog(*other, bent.evaluate, 0.1)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), state, other)
        back = state[0], -state[1], state[2]
        for _ in range(20):
            back = baoab(*back, bent.evaluate, 0.1, 1.0, noise)
        np.testing.assert_allclose(back[0], x, rtol=1e-10)


def test_with_all_friction_it_is_a_step_of_overdamped_dynamics():
    """x <- x + eps^2/2 g(x) + eps (N' + N)/2 with the noise N' of the step before (Leimkuhler and Matthews 2013)."""
    with jax.enable_x64(True):
        x, noise = jnp.array([0.4, -1.0]), jnp.array([0.3, 0.8])
        state = x, jnp.zeros(2), oscillator(x)
        first, momentum, evaluation = baoab(*state, oscillator, 0.2, 0.0, noise)
        expected = x + 0.01 * oscillator(x).gradient + 0.1 * noise
        np.testing.assert_allclose(first, expected, rtol=1e-12)
        np.testing.assert_allclose(momentum, noise + 0.1 * evaluation.gradient, rtol=1e-12)
        second, _, _ = baoab(first, momentum, evaluation, oscillator, 0.2, 0.0, -2 * noise)
        np.testing.assert_allclose(
            second, first + 0.04 / 2 * evaluation.gradient + 0.1 * (noise - 2 * noise), rtol=1e-12
        )


@pytest.mark.parametrize("friction", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("step_size", [0.1, 0.7, 1.39])
def test_positions_of_the_harmonic_oscillator_have_exactly_its_variance(step_size, friction):
    """The step is (x, p) <- M (x, p) + b N, so its stationary covariance solves C = M C M' + b b'."""
    with jax.enable_x64(True):
        decay = np.exp(-friction * step_size)

        def moved(x, p, noise):
            start = jnp.array([x])
            x, p, _ = baoab(start, jnp.array([p]), oscillator(start), oscillator, step_size, decay, jnp.array([noise]))
            return np.array([x[0], p[0]])

        matrix, b = np.stack([moved(1.0, 0.0, 0.0), moved(0.0, 1.0, 0.0)], axis=1), moved(0.0, 0.0, 1.0)
        covariance = solve_discrete_lyapunov(matrix, np.outer(b, b))
        assert covariance[0, 0] == pytest.approx(SD**2, rel=1e-9)
        assert covariance[1, 1] == pytest.approx(1 - (step_size / (2 * SD)) ** 2, rel=1e-9)


def test_beyond_twice_the_standard_deviation_it_is_unstable():
    with jax.enable_x64(True):
        start = jnp.array([1.0])
        state = start, jnp.zeros(1), oscillator(start)
        for _ in range(200):
            state = baoab(*state, oscillator, 2.1 * SD, 0.9, jnp.zeros(1))
        assert abs(float(state[0][0])) > 1e6


def stepped(method: Method, target: Target, state):
    return method.phases[-1].step(jax.random.key(1), jnp.int32(0), state, target, ())


def test_a_step_that_is_not_finite_repeats_the_position_and_takes_another_momentum():
    problem = linear(chains=2).problem
    target = binder(problem.posterior)(problem.data)
    method = build_baoab(BAOABConfig(step_size=1e15, friction=1e-15), problem.posterior, problem.data)
    start = method.init(jax.random.key(0), jnp.asarray(problem.starts[0], jnp.float32), target)
    after, values = stepped(method, target, start)
    assert values["divergent"]
    np.testing.assert_array_equal(after.position, start.position)
    assert (after.momentum != start.momentum).all()
    assert np.isfinite(after.momentum).all()
    small = build_baoab(BAOABConfig(step_size=0.01), problem.posterior, problem.data)
    assert not stepped(small, target, start)[1]["divergent"]


def test_a_run_beyond_the_stable_step_counts_its_divergences(tmp_path):
    """The limit is twice the smallest standard deviation; chains beyond it leave single precision, and stay."""
    case = linear(chains=2)
    smallest = np.sqrt(np.linalg.eigvalsh(case.covariance)[0])
    counts = {}
    for size in (1.0, 4.0):
        config = BAOABConfig(step_size=size * smallest, friction=0.01, burn_in=0, steps=400, thinning=1)
        method = build_baoab(config, case.problem.posterior, case.problem.data)
        trace = run(method, case.problem, tmp_path / f"{size}.zarr")
        counts[size] = trace.statistic("divergent").sum(axis=1)
        assert np.isfinite(trace.read()).all()
    assert (counts[1.0] == 0).all()
    assert (counts[4.0] > 0).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"friction": 0}, "friction"),
        ({"step_size": -1}, "step_size"),
        ({"steps": 15, "thinning": 10}, "multiple of thinning"),
    ],
)
def test_settings_that_cannot_work_are_refused(changes, message):
    """Without friction the energy of a chain never changes."""
    with pytest.raises(ValueError, match=message):
        RunConfig.model_validate({**RUN, "method": {"kind": "baoab", "step_size": 0.1, **changes}})
