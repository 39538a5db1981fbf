"""Variational and optimisation methods in the runner: interruptions, devices, batched chains, shared rows."""

import jax
import numpy as np
import pytest

from bnn_atlas.config.methods.gaussian import IVONConfig, LaplaceConfig, LowRankConfig, MeanFieldConfig
from bnn_atlas.config.methods.generators import MatrixGenerator
from bnn_atlas.config.methods.implicit import AMSGradConfig, ImplicitConfig, SmallestEntropy
from bnn_atlas.config.methods.optimisation import AdamConfig, DeepEnsembleConfig, MAPConfig
from bnn_atlas.methods.contract import Method
from bnn_atlas.methods.implicit.fitting import build_implicit
from bnn_atlas.methods.independent import build_deep_ensemble
from bnn_atlas.methods.ivon import build_ivon
from bnn_atlas.methods.laplace import lbfgs
from bnn_atlas.methods.laplace.approximation import build_laplace
from bnn_atlas.methods.low_rank import build_low_rank
from bnn_atlas.methods.mean_field import build_mean_field
from bnn_atlas.methods.optimise import build_map
from bnn_atlas.placement import Placement
from bnn_atlas.posterior.density import binder, data_specs
from bnn_atlas.runner import program
from bnn_atlas.runner.checkpoint import CheckpointStore
from bnn_atlas.traces.store import open_trace

from .fitting import LIKELIHOODS, some_theta, tanh_network
from .problems import Problem, network
from .running import assert_same, run

pytestmark = pytest.mark.bits

ADAM = AdamConfig(learning_rate=0.01)
IMPLICIT = ImplicitConfig(
    generator=MatrixGenerator(noise=(2, 3), hidden=((3, 4),)),
    entropy=SmallestEntropy(),
    epochs=6,
    batch_size=13,
    samples=2,
    optimiser=AMSGradConfig(learning_rate=0.01),
    steps=20,
)


@pytest.fixture(scope="module")
def problem():
    return network(chains=3)


def methods(problem: Problem) -> dict[str, tuple[Method, int]]:
    """Methods, and steps between checkpoints that cut epochs and phases at odd places."""
    target = problem.posterior, problem.data
    return {
        "mean_field": (
            build_mean_field(MeanFieldConfig(epochs=6, batch_size=13, optimiser=ADAM, steps=20), *target),
            17,
        ),
        "implicit": (build_implicit(IMPLICIT, *target), 17),
        "low_rank": (
            build_low_rank(LowRankConfig(rank=3, epochs=6, batch_size=13, optimiser=ADAM, steps=20), *target),
            17,
        ),
        "ivon": (build_ivon(IVONConfig(epochs=6, batch_size=13, steps=20), *target), 17),
        "laplace": (build_laplace(LaplaceConfig(structure="kronecker", map_steps=5, steps=12), *target), 4),
    }


@pytest.fixture(scope="module", params=["mean_field", "low_rank", "ivon", "implicit", "laplace"])
def method(request, problem):
    return methods(problem)[request.param]


@pytest.fixture(scope="module")
def quiet(method, problem, tmp_path_factory):
    sampler, every = method
    return run(sampler, problem, tmp_path_factory.mktemp("quiet") / "trace.zarr", checkpoint_every=every)


def test_interruptions_change_no_bit(method, problem, quiet, tmp_path, monkeypatch):
    """The process dies right after its second checkpoint, within the fit, and after its fourth, and goes on."""
    sampler, every = method
    destination, saves = tmp_path / "trace.zarr", 0
    save = CheckpointStore.save

    def save_and_die(self, progress, state):
        nonlocal saves
        save(self, progress, state)
        saves += 1
        if saves in (2, 4):
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(CheckpointStore, "save", save_and_die)
        while not destination.exists():
            try:
                run(sampler, problem, destination, checkpoint_every=every)
            except KeyboardInterrupt:
                continue
    assert saves > 4
    assert_same(open_trace(destination), quiet)
    with np.load(destination.parent / "fit.npz") as fit, np.load(quiet.path.parent / "fit.npz") as whole:
        assert set(fit) == set(whole)
        for name in whole:
            np.testing.assert_array_equal(fit[name], whole[name])


@pytest.mark.parametrize("method", ["mean_field", "low_rank", "ivon", "implicit"], indirect=True)
def test_company_devices_and_segments_change_no_bit(method, problem, quiet, tmp_path, monkeypatch):
    monkeypatch.setattr(program, "Placement", lambda chains, shards: Placement(chains, jax.local_devices()[:1]))
    trace = run(method[0], problem, tmp_path / "trace.zarr", chain_ids=np.array([2, 0]), checkpoint_every=10_000)
    np.testing.assert_array_equal(trace.read(), quiet.read()[[2, 0]])


@pytest.mark.parametrize("method", ["laplace"], indirect=True)
def test_batched_chains_agree(method, problem, quiet, tmp_path, monkeypatch):
    """The GPU's way, all chains in one batch, to rounding; the search is too short for it to take other turns."""
    monkeypatch.setattr(program, "Placement", lambda chains, shards: Placement(chains, batched=True))
    trace = run(method[0], problem, tmp_path / "trace.zarr", checkpoint_every=method[1])
    np.testing.assert_allclose(trace.read(), quiet.read(), atol=1e-3)


def test_chains_differ_and_draws_are_scored(method, problem, quiet):
    draws = quiet.read()
    assert draws.shape == (3, method[0].phases[-1].draws, problem.posterior.layout.size)
    assert len(np.unique(draws[:, -1], axis=0)) == 3
    theta = draws[1, -1]
    density = problem.posterior.evaluate(theta, problem.posterior.arrange(problem.data)).density
    np.testing.assert_allclose(quiet.statistic("log_likelihood")[1, -1], density.log_likelihood, rtol=1e-4)
    np.testing.assert_allclose(quiet.statistic("log_prior")[1, -1], density.log_prior, rtol=1e-4)


def test_a_maximum_is_one_draw_per_chain(problem, tmp_path):
    config = MAPConfig(epochs=12, batch_size=13, optimiser=ADAM)
    trace = run(
        build_map(config, problem.posterior, problem.data), problem, tmp_path / "trace.zarr", checkpoint_every=17
    )
    assert trace.read().shape == (3, 1, problem.posterior.layout.size)
    assert set(trace.statistics) == {"log_likelihood", "log_prior", "gradient_norm", "skipped_updates", "divergent"}
    for theta, start, likelihood, prior in zip(
        trace.read()[:, 0],
        problem.starts,
        trace.statistic("log_likelihood")[:, 0],
        trace.statistic("log_prior")[:, 0],
        strict=True,
    ):
        batch = problem.posterior.arrange(problem.data)
        before, after = (sum(problem.posterior.evaluate(t, batch).density) for t in (start, theta))
        assert after > before + 10
        assert likelihood + prior == pytest.approx(float(after), rel=1e-4)


def test_a_deep_ensemble_is_the_warm_starts(problem, tmp_path):
    trace = run(
        build_deep_ensemble(DeepEnsembleConfig(), problem.posterior, problem.data),
        problem,
        tmp_path / "trace.zarr",
        checkpoint_every=1,
    )
    np.testing.assert_array_equal(trace.read()[:, 0], problem.starts)


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
