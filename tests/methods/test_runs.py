"""Methods in the runner: interruptions, devices, company, precision, shared rows."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bnn_atlas.config.methods.gaussian import LaplaceConfig
from bnn_atlas.config.methods.hmc import AdjustedMCLMCConfig, NUTSConfig
from bnn_atlas.config.methods.mclmc import BlackJAXMCLMCConfig
from bnn_atlas.config.parts.posterior import GaussianLikelihood, MLPConfig
from bnn_atlas.config.parts.priors import StandardNormalPrior
from bnn_atlas.methods.laplace import lbfgs
from bnn_atlas.methods.restarts import COMPARED
from bnn_atlas.placement import Placement
from bnn_atlas.posterior.density import binder, build_posterior, data_specs, posterior_data
from bnn_atlas.runner import program

from .fitting import LIKELIHOODS, some_theta, tanh_network
from .harness import SMALL, build
from .problems import Problem, network, regression
from .running import assert_same, dying, run, run_to_the_end, shared_programs

pytestmark = pytest.mark.bits

SHORT = {"warmup": 36, "steps": 12}
METHODS = {
    "hmc": SMALL["hmc"].model_copy(update={"burn_in_metropolis": False}),
    "nuts": NUTSConfig(**SHORT, step_size=0.01, max_doublings=4),
    "adjusted mclmc": AdjustedMCLMCConfig(**SHORT, thinning=2, step_size=0.02),
    "mclmc": SMALL["mclmc"],
    "mclmc, tuned by blackjax": BlackJAXMCLMCConfig(**SHORT, thinning=2, step_size_init=0.05, energy_guard=0.1),
    "implicit, learned spread, best of two": SMALL["implicit"].model_copy(
        update={"learned_sigma": "weight", "starts": 2}
    ),
    "laplace": LaplaceConfig(structure="kronecker", map_steps=5, steps=12),
    **{
        name: SMALL[name]
        for name in (
            "baoab", "smile", "sgld", "sghmc, cyclical, preconditioned", "adaptive sghmc, as published", "mean field",
            "low-rank normal", "low-rank normal, best of two", "ivon", "implicit", "path",
        )
    },
}  # fmt: skip
"""One of each kind of step, in phases of several segments."""
EVERY = 4
"""Steps between checkpoints, which cut epochs and phases at odd places."""


def on_one(chains: int, shards: int) -> Placement:
    return Placement(chains, jax.local_devices()[:1])


def on_two(chains: int, shards: int) -> Placement:
    return Placement(chains, jax.local_devices()[:2])


@pytest.fixture(scope="module", autouse=True)
def programs():
    with shared_programs():
        yield


@pytest.fixture(scope="module")
def problem() -> Problem:
    return network(chains=3)


@pytest.fixture(scope="module", params=METHODS)
def method(request, problem):
    return build(METHODS[request.param], problem)


@pytest.fixture(scope="module")
def quiet(method, problem, tmp_path_factory):
    """On two devices, so that one has two of the chains."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "Placement", on_two)
        return run(method, problem, tmp_path_factory.mktemp("quiet") / "trace.zarr", checkpoint_every=EVERY)


@pytest.mark.slow
def test_an_interruption_within_each_phase_changes_no_bit(method, problem, quiet, tmp_path, monkeypatch):
    """The process dies after the first checkpoint within each phase and goes on."""
    monkeypatch.setattr(program, "Placement", on_two)
    stopped = []

    def once(progress, _):
        assert not (tmp_path / "fit.npz").exists()
        first = progress.done > 0 and progress.phase not in stopped
        stopped.extend([progress.phase] * first)
        return first

    with dying(monkeypatch, once):
        trace = run_to_the_end(method, problem, tmp_path / "trace.zarr", checkpoint_every=EVERY)
    assert stopped == list(range(len(method.phases)))
    assert_same(trace, quiet)
    with np.load(tmp_path / "fit.npz") as fit, np.load(quiet.path.parent / "fit.npz") as whole:
        assert set(fit) == set(whole)
        for name in whole:
            np.testing.assert_array_equal(fit[name], whole[name])


def test_devices_company_and_segments_change_no_bit(method, problem, quiet, tmp_path, monkeypatch):
    monkeypatch.setattr(program, "Placement", on_one)
    trace = run(method, problem, tmp_path / "trace.zarr", chain_ids=np.array([2, 0]), checkpoint_every=10_000)
    np.testing.assert_array_equal(trace.read(), quiet.read()[[2, 0]])


def test_chains_differ_and_draws_have_their_densities(method, problem, quiet):
    draws, last = quiet.read(), quiet.draws - 1
    assert draws.shape == (3, method.phases[-1].draws, problem.posterior.layout.size)
    assert np.isfinite(draws).all()
    assert len(np.unique(draws[:, -1], axis=0)) == 3
    score = jax.jit(jax.vmap(binder(problem.posterior)(problem.data).log_density))
    for place in (0, last):
        density = score(draws[:, place])
        np.testing.assert_allclose(quiet.statistic("log_likelihood")[:, place], density.log_likelihood, rtol=1e-5)
        np.testing.assert_allclose(quiet.statistic("log_prior")[:, place], density.log_prior, rtol=1e-5)


@pytest.mark.parametrize("method", ["low-rank normal, best of two"], indirect=True)
def test_a_start_has_the_same_numbers_however_many_there_are(problem, quiet, tmp_path):
    config = METHODS["low-rank normal, best of two"].model_copy(update={"starts": 3})
    trace = run(build(config, problem), problem, tmp_path / "trace.zarr", checkpoint_every=EVERY)
    for name in ("elbo_of_start_0", "elbo_of_start_1", "elbo_error_of_start_1"):
        np.testing.assert_array_equal(trace.statistic(name), quiet.statistic(name))
    three = np.stack([trace.statistic(f"elbo_of_start_{j}")[:, -1] for j in range(3)])
    assert len(np.unique(three)) == 9
    kept = trace.statistic("start_kept")[:, -1]
    np.testing.assert_array_equal(kept, three.argmax(axis=0))
    compared = [trace.statistic(f"log_likelihood_of_start_{j}")[chain, -1] for chain, j in enumerate(kept)]
    of_draws = trace.statistic("log_likelihood")
    error = of_draws.std(axis=1) * np.sqrt(1 / of_draws.shape[1] + 1 / COMPARED)
    np.testing.assert_array_less(np.abs(compared - of_draws.mean(axis=1)), 4 * error)


@pytest.mark.parametrize("method", ["laplace"], indirect=True)
def test_batched_chains_agree(method, problem, quiet, tmp_path, monkeypatch):
    """The GPU's way, all chains in one batch, to rounding; the search is too short for it to take other turns."""
    monkeypatch.setattr(program, "Placement", lambda chains, shards: Placement(chains, batched=True))
    trace = run(method, problem, tmp_path / "trace.zarr", checkpoint_every=EVERY)
    np.testing.assert_allclose(trace.read(), quiet.read(), atol=1e-3)


@pytest.mark.parametrize("method", ["adjusted mclmc"], indirect=True)
def test_length_of_preconditioned_trajectories(problem, quiet):
    """1.3 standard deviations in each of the scaled coordinates."""
    expected = 1.3 * np.sqrt(problem.posterior.layout.size)
    np.testing.assert_allclose(quiet.statistic("length"), expected, rtol=1e-6)


@pytest.mark.parametrize("name", SMALL)
def test_double_precision_stays_double(name):
    """Every number of a chain comes out of a step as it went in, with the kernels of BlackJAX in between."""
    with jax.enable_x64(True):
        posterior, prior = build_posterior(
            MLPConfig(hidden=()),
            GaussianLikelihood(),
            StandardNormalPrior(),
            temperature=0.5,
            shape=(3,),
            dtype=jnp.float64,
        )
        data = posterior_data(*regression(), prior)
        target = binder(posterior)(data)
        method = build(SMALL[name], Problem(posterior, data, np.zeros((1, 4))))
        state = jax.eval_shape(lambda key: method.init(key, jnp.zeros(4), target), jax.random.key(0))

        def move(phase, key, state):
            return phase.step(key, jnp.int32(0), state, target, phase.settings)

        for phase in method.phases:
            after, statistics = jax.eval_shape(partial(move, phase), jax.random.key(0), state)
            kinds = [[(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(tree)] for tree in (after, state)]
            assert kinds[0] == kinds[1]
            numbers = {dtype for _, dtype in kinds[0] if jnp.issubdtype(dtype, jnp.floating)}
            assert numbers == {np.dtype(np.float64)}
            assert statistics.get("energy_change", jnp.zeros(())).dtype == np.float64


def test_the_search_for_the_maximum_on_four_devices_that_share_the_rows():
    """Thirteen rows, filled up to sixteen for four devices."""
    ends = []
    for shards in (1, 4):
        case = tanh_network(LIKELIHOODS["learned_noise"], shards=shards, dtype=np.float32)
        place, specs, bind = Placement(1, shards=shards), data_specs(case.data), binder(case.posterior)

        def climb(data, position, bind=bind):
            target = bind(data)
            return jax.lax.fori_loop(0, 5, lambda _, s: lbfgs.step(s, target, 0.0), lbfgs.start(position, target))

        starts = place.put(np.asarray(some_theta(case))[None])
        ends.append(place.get(place.map(climb, specs)(place.share(case.data, specs), starts)))
    np.testing.assert_allclose(ends[1].position, ends[0].position, rtol=2e-3, atol=2e-4)
    np.testing.assert_allclose(ends[1].value, ends[0].value, rtol=1e-5)
    assert ends[0].value > -27
