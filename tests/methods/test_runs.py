"""Variational and optimisation methods in the runner: interruptions, devices, batched chains, shared rows."""

import jax
import numpy as np
import pytest

from bnn_atlas.config.methods.gaussian import IVONConfig, LaplaceConfig, LowRankConfig, MeanFieldConfig
from bnn_atlas.config.methods.implicit import AMSGradConfig, ImplicitConfig, MatrixGenerator, SmallestEntropy
from bnn_atlas.config.methods.optimisation import AdamConfig
from bnn_atlas.methods.contract import Method
from bnn_atlas.methods.implicit.fitting import build_implicit
from bnn_atlas.methods.ivon import build_ivon
from bnn_atlas.methods.laplace import lbfgs
from bnn_atlas.methods.laplace.approximation import build_laplace
from bnn_atlas.methods.low_rank import build_low_rank
from bnn_atlas.methods.mean_field import build_mean_field
from bnn_atlas.placement import Placement
from bnn_atlas.posterior.density import binder, data_specs
from bnn_atlas.runner import program

from .fitting import LIKELIHOODS, some_theta, tanh_network
from .problems import Problem, network
from .running import assert_same, dying, run, run_to_the_end

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
    with dying(monkeypatch, lambda _, number: number in (2, 4)) as saves:
        trace = run_to_the_end(sampler, problem, tmp_path / "trace.zarr", checkpoint_every=every)
    assert len(saves) > 4
    assert_same(trace, quiet)
    with np.load(tmp_path / "fit.npz") as fit, np.load(quiet.path.parent / "fit.npz") as whole:
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
