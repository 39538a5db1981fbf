"""Every Markov-chain method with a warm-up in the runner: interruptions, devices, precision, temperature."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bnn_atlas.config.methods.hmc import AdjustedMCLMCConfig, HMCConfig, NUTSConfig
from bnn_atlas.config.methods.mclmc import BlackJAXMCLMCConfig
from bnn_atlas.config.parts.posterior import GaussianLikelihood, MLPConfig
from bnn_atlas.config.parts.priors import StandardNormalPrior
from bnn_atlas.methods.adjusted_mclmc import build_adjusted_mclmc
from bnn_atlas.methods.hmc import build_hmc
from bnn_atlas.methods.mclmc_tuning import build_mclmc_blackjax
from bnn_atlas.methods.nuts import build_nuts
from bnn_atlas.placement import Placement
from bnn_atlas.posterior.density import binder, build_posterior, posterior_data
from bnn_atlas.runner import program

from .problems import linear, regression
from .running import assert_same, dying, run, run_to_the_end

pytestmark = pytest.mark.bits

TEMPERATURE = 0.5
EVERY = 11


@pytest.fixture(scope="module")
def problem():
    return linear(chains=3, temperature=TEMPERATURE).problem


def build_hmc_without_metropolis(*target):
    config = HMCConfig(
        burn_in=26,
        steps=12,
        step_size=0.01,
        trajectory_length=0.1,
        adapt_step_size=True,
        mass="diagonal",
        burn_in_metropolis=False,
    )
    return build_hmc(config, *target)


BUILDERS = {
    "hmc": build_hmc_without_metropolis,
    "nuts": lambda *target: build_nuts(NUTSConfig(warmup=26, steps=12, step_size=0.01, max_doublings=4), *target),
    "adjusted_mclmc": lambda *target: build_adjusted_mclmc(
        AdjustedMCLMCConfig(warmup=26, steps=12, thinning=2, step_size=0.02), *target
    ),
    "mclmc_blackjax": lambda *target: build_mclmc_blackjax(
        BlackJAXMCLMCConfig(warmup=36, steps=12, thinning=2, step_size_init=0.05, energy_guard=0.1), *target
    ),
}


@pytest.fixture(scope="module", params=BUILDERS)
def sampler(request, problem):
    return BUILDERS[request.param](problem.posterior, problem.data)


@pytest.fixture(scope="module", autouse=True)
def two_devices():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "Placement", lambda chains, shards: Placement(chains, jax.local_devices()[:2]))
        yield


@pytest.fixture(scope="module")
def quiet(sampler, problem, two_devices, tmp_path_factory):
    return run(sampler, problem, tmp_path_factory.mktemp("quiet") / "trace.zarr", checkpoint_every=EVERY)


def test_interruption_within_every_phase(sampler, problem, quiet, tmp_path, monkeypatch):
    """The process dies after the first checkpoint within each phase and goes on."""
    stopped = []

    def once(progress, _):
        first = progress.done > 0 and progress.phase not in stopped
        stopped.extend([progress.phase] * first)
        return first

    with dying(monkeypatch, once):
        trace = run_to_the_end(sampler, problem, tmp_path / "trace.zarr", checkpoint_every=EVERY)
    assert stopped == list(range(len(sampler.phases)))
    assert_same(trace, quiet)


def test_one_device_and_longer_segments_give_the_same_bits(sampler, problem, quiet, tmp_path, monkeypatch):
    monkeypatch.setattr(program, "Placement", lambda chains, shards: Placement(chains, jax.local_devices()[:1]))
    assert_same(run(sampler, problem, tmp_path / "trace.zarr", checkpoint_every=100), quiet)


def test_statistics_are_those_of_the_kept_states(sampler, problem, quiet):
    last = quiet.read()[:, -1]
    assert np.isfinite(last).all()
    assert len(np.unique(last, axis=0)) == 3
    for chain, theta in enumerate(last):
        density = problem.posterior.evaluate(theta, problem.posterior.arrange(problem.data)).density
        np.testing.assert_allclose(quiet.statistic("log_likelihood")[chain, -1], density.log_likelihood, rtol=1e-5)
        np.testing.assert_allclose(quiet.statistic("log_prior")[chain, -1], density.log_prior, rtol=1e-5)
    assert {"energy_change", "divergent", "step_size"} <= set(quiet.statistics)


def test_length_of_preconditioned_trajectories(problem, tmp_path):
    """1.3 standard deviations in each of the four scaled coordinates."""
    trace = run(
        BUILDERS["adjusted_mclmc"](problem.posterior, problem.data),
        problem,
        tmp_path / "trace.zarr",
        checkpoint_every=EVERY,
    )
    np.testing.assert_allclose(trace.statistic("length"), 1.3 * 2, rtol=1e-6)


@pytest.mark.parametrize("name", BUILDERS)
def test_double_precision_stays_double(name):
    """Every number of a chain comes out of a step as it went in, with the kernels of BlackJAX in between."""
    with jax.enable_x64(True):
        posterior, prior = build_posterior(
            MLPConfig(hidden=()),
            GaussianLikelihood(),
            StandardNormalPrior(),
            temperature=TEMPERATURE,
            shape=(3,),
            dtype=jnp.float64,
        )
        target = binder(posterior)(posterior_data(*regression(), prior))
        sampler = BUILDERS[name](posterior, target.data)
        state = jax.eval_shape(lambda key: sampler.init(key, jnp.zeros(4), target), jax.random.key(0))

        def move(phase, key, state):
            return phase.step(key, jnp.int32(0), state, target, phase.settings)

        for phase in sampler.phases:
            after, statistics = jax.eval_shape(partial(move, phase), jax.random.key(0), state)
            assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), after) == jax.tree.map(
                lambda leaf: (leaf.shape, leaf.dtype), state
            )
            assert {leaf.dtype for leaf in jax.tree.leaves(after)} == {np.dtype(np.float64)}
            assert statistics["energy_change"].dtype == np.float64
