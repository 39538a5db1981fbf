"""What a method has learned is kept next to its trace, and independent draws cost no gradient."""

import json
import os
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bnn_atlas.config.methods.gaussian import LaplaceConfig, MeanFieldConfig
from bnn_atlas.config.methods.implicit import ExactEntropy, ImplicitConfig, MLPGenerator
from bnn_atlas.config.methods.optimisation import AdamConfig
from bnn_atlas.config.parts.posterior import GaussianLikelihood, MLPConfig
from bnn_atlas.config.parts.priors import NormalPrior
from bnn_atlas.methods.contract import build_method
from bnn_atlas.posterior.density import Evaluation, LogDensity, binder, build_posterior, posterior_data
from bnn_atlas.runner import segments
from bnn_atlas.runner.segments import POINTS
from bnn_atlas.runner.signals import Interrupted
from bnn_atlas.traces.store import open_trace

from .fitting import Case, drive
from .harness import SMALL, build
from .problems import linear
from .running import assert_same, dying, run, run_to_the_end

SIZE, CHAINS = 4, 2
LEARNED = {
    "hmc": {"step_size": (), "inverse_mass": (SIZE,)},
    "unadjusted hmc": {},
    "baoab": {},
    "nuts": {"step_size": (), "inverse_mass": (SIZE,)},
    "adjusted mclmc": {"step_size": (), "length": (), "inverse_mass": (SIZE,)},
    "mclmc": {"step_size": (), "length": (), "scale": (SIZE,)},
    "mclmc, tuned by blackjax": {"step_size": (), "length": (), "scale": (SIZE,)},
    "smile": {"scale": (SIZE,)},
    "sgld": {},
    "psgld": {"mass": (SIZE,)},
    "sghmc": {},
    "sghmc, cyclical": {},
    "sghmc, cyclical, preconditioned": {"mass": (SIZE,)},
    "sghmc, preconditioned": {"mass": (SIZE,)},
    "adaptive sghmc": {"mass": (SIZE,)},
    "adaptive sghmc, as published": {"mass": (SIZE,)},
    "mean field": {"mean": (SIZE,), "sd": (SIZE,)},
    "low-rank normal": {"mean": (SIZE,), "sd": (SIZE,), "diagonal": (SIZE,), "factor": (SIZE, 2)},
    "low-rank normal, best of two": {
        "mean": (SIZE,),
        "sd": (SIZE,),
        "diagonal": (SIZE,),
        "factor": (SIZE, 2),
        "start_kept": (),
    },
    "ivon": {"mean": (SIZE,), "sd": (SIZE,)},
    "laplace": {"location": (SIZE,), "indices": (SIZE,), "root": (SIZE, SIZE)},
    "implicit": {
        "generator.branches.0.0.bias": (4,),
        "generator.branches.0.0.weight": (4, 2),
        "generator.branches.0.1.bias": (SIZE,),
        "generator.branches.0.1.weight": (SIZE, 4),
        "generated": (SIZE,),
        "points": (0,),
        "noise": (),
        "point": (0,),
    },
    "map": {},
    "path": {},
    "compact": {},
    "deep ensemble": {},
}


@pytest.fixture(scope="module")
def problem():
    return linear(chains=CHAINS).problem


FIT = MeanFieldConfig(epochs=30, batch_size=10, steps=5)


def test_the_course_of_a_fit_is_kept_and_changes_nothing(problem, tmp_path, monkeypatch):
    """The same draws as in whole segments, and the same course after a process that died at every checkpoint."""
    course = course_of(problem, tmp_path / "fine" / "trace.zarr")
    steps = 30 * (len(problem.data.y) // 10)
    assert {name: values.shape for name, values in course.items()} == dict.fromkeys(
        ("elbo", "kl"), (CHAINS, -(-steps // -(-steps // POINTS)))
    )
    assert (course["elbo"][:, -5:].mean(axis=1) > course["elbo"][:, 0]).all()
    with dying(monkeypatch, lambda *_: True) as saves:
        again = run_to_the_end(build(FIT, problem), problem, tmp_path / "died" / "trace.zarr", checkpoint_every=20)
    assert len(saves) < 10, "no checkpoint for every point"
    for name, values in json.loads((tmp_path / "died" / "timing.json").read_text())["courses"].items():
        np.testing.assert_array_equal(course[name], values)
    with monkeypatch.context() as patch:
        patch.setattr(segments, "POINTS", 1)
        whole = run(build(FIT, problem), problem, tmp_path / "whole" / "trace.zarr")
    assert_same(again, whole)
    assert_same(open_trace(tmp_path / "fine" / "trace.zarr"), whole)


def test_a_fit_that_is_told_to_stop_between_two_checkpoints_goes_on_there(problem, tmp_path, monkeypatch):
    course, segment, calls = course_of(problem, tmp_path / "quiet" / "trace.zarr"), segments.FitProgram.segment, []

    def stopping(self, number, begin, states):
        calls.append(begin)
        if len(calls) == 31:
            os.kill(os.getpid(), signal.SIGTERM)
        return segment(self, number, begin, states)

    monkeypatch.setattr(segments.FitProgram, "segment", stopping)
    with pytest.raises(Interrupted):
        course_of(problem, tmp_path / "trace.zarr")
    first = len(calls)
    assert first == 31
    again = course_of(problem, tmp_path / "trace.zarr")
    assert calls[first] == calls[30] + 1, "no step is computed twice"
    for name, values in course.items():
        np.testing.assert_array_equal(again[name], values)
    assert_same(open_trace(tmp_path / "trace.zarr"), open_trace(tmp_path / "quiet" / "trace.zarr"))


def course_of(problem, trace):
    run(build(FIT, problem), problem, trace)
    courses = json.loads(trace.with_name("timing.json").read_text())["courses"]
    return {name: np.array(values) for name, values in courses.items()}


def test_the_course_of_several_starts_is_that_of_the_fit_that_is_kept(problem, tmp_path):
    """It ends near the fit's own bound and KL divergence, which are those of no other start."""
    config = SMALL["low-rank normal, best of two"].model_copy(update={"epochs": 30, "sigma_init": 0.3, "steps": 50})
    trace = run(build(config, problem), problem, tmp_path / "trace.zarr")
    kl = np.array(json.loads((tmp_path / "timing.json").read_text())["courses"]["kl"])
    kept = np.load(tmp_path / "fit.npz")["start_kept"]
    assert kl.shape[0] == CHAINS
    for chain, start in enumerate(kept):
        own, other = (trace.statistic(f"kl_of_start_{j}")[chain, -1] for j in (start, 1 - start))
        assert own != other
        assert trace.statistic("start_kept")[chain, -1] == start
        assert abs(kl[chain, -1] - own) < 0.2 * abs(own - other)


@pytest.mark.parametrize("starts", [1, 2])
def test_the_course_of_an_implicit_fit_is_that_of_its_objective(problem, tmp_path, starts):
    config = SMALL["implicit"].model_copy(update={"epochs": 200, "batch_size": None, "starts": starts})
    trace = run(build(config, problem), problem, tmp_path / "trace.zarr")
    courses = json.loads((tmp_path / "timing.json").read_text())["courses"]
    assert list(courses) == ["objective"]
    late, after = np.array(courses["objective"])[:, -50:], trace.statistic("objective")
    assert late.shape == (CHAINS, 50)
    error = np.hypot(*(values.std(axis=1) / np.sqrt(values.shape[1]) for values in (late, after)))
    assert (abs(late.mean(axis=1) - after.mean(axis=1)) < 5 * error).all()


def test_methods_without_a_fit_have_no_course(problem, tmp_path):
    run(build(SMALL["hmc"], problem), problem, tmp_path / "trace.zarr")
    assert json.loads((tmp_path / "timing.json").read_text())["courses"] == {}


def fit_of(config, problem, folder, **settings):
    run(build(config, problem), problem, folder / "trace.zarr", **settings)
    with np.load(folder / "fit.npz", allow_pickle=False) as stored:
        return dict(stored)


@pytest.mark.parametrize("name", SMALL)
def test_a_fit_is_kept_for_every_chain(name, problem, tmp_path):
    fit = fit_of(SMALL[name], problem, tmp_path)
    assert {key: array.shape for key, array in fit.items()} == {
        key: (CHAINS, *shape) for key, shape in LEARNED.get(name, {}).items()
    }
    assert all(np.isfinite(array).all() for array in fit.values())


def test_fit_and_trace_agree(problem, tmp_path):
    """The tuned step size is the one that the draws were taken with."""
    trace = run(build(SMALL["nuts"], problem), problem, tmp_path / "trace.zarr")
    with np.load(tmp_path / "fit.npz") as fit:
        np.testing.assert_array_equal(fit["step_size"], trace.statistic("step_size")[:, -1])


def test_draws_are_those_of_the_fit(problem, tmp_path):
    config = MeanFieldConfig(epochs=4, batch_size=10, steps=4000)
    trace = run(build(config, problem), problem, tmp_path / "trace.zarr", checkpoint_every=4000)
    with np.load(tmp_path / "fit.npz") as fit:
        white = (trace.read() - fit["mean"][:, None]) / fit["sd"][:, None]
    np.testing.assert_allclose(white.mean(1), 0, atol=5 / np.sqrt(4000))
    np.testing.assert_allclose(white.std(1), 1, atol=5 / np.sqrt(8000))


@pytest.mark.parametrize("structure", ["full", "last_layer", "diagonal", "kronecker"])
def test_every_structure_of_laplace_has_its_factors(structure, problem, tmp_path):
    fit = fit_of(LaplaceConfig(structure=structure, map_steps=20, steps=2), problem, tmp_path)
    factors = {"layer0.inputs", "layer0.outputs", "layer0.spread"} if structure == "kronecker" else {"root"}
    assert set(fit) == {"location", "indices"} | factors


@pytest.mark.parametrize("name", ["mean field", "low-rank normal", "ivon", "laplace", "implicit"])
def test_an_independent_draw_takes_no_gradient(name, problem):
    method = build(SMALL[name], problem)
    target = binder(problem.posterior)(problem.data)
    state = method.init(jax.random.key(0), jnp.asarray(problem.starts[0]), target)

    def refuse(*_):
        raise AssertionError("a draw asked for a gradient")

    blind = target._replace(evaluate=refuse, estimate=refuse)
    state, _ = method.phases[-1].step(jax.random.key(1), jnp.int32(0), state, blind, method.phases[-1].settings)
    expected = target.evaluate(method.position(state)).density
    np.testing.assert_allclose(method.density(state), expected, rtol=1e-5)


@pytest.mark.parametrize("name", ["mean field", "low-rank normal", "ivon", "implicit"])
def test_updates_that_are_not_finite_are_skipped_and_counted(name, problem, caplog):
    """NaN in half of all places: of a step from there nothing may stay, nor in the optimiser's memory."""
    steps = 40
    config = SMALL[name].model_copy(update={"epochs": steps, "batch_size": None, "samples": 1})
    method, start = build(config, problem), jnp.asarray(problem.starts[0])
    target = binder(problem.posterior)(problem.data)

    def striped(theta):
        good = target.evaluate(theta)
        bad = jnp.sin(1e4 * theta[0]) > 0
        value, slope = (jnp.where(bad, jnp.nan, part) for part in (good.density[0], good.gradient))
        return Evaluation(LogDensity(value, good.density[1]), slope)

    state = method.init(jax.random.key(0), start, target)
    stripes = target._replace(evaluate=striped)
    step = jax.jit(lambda key, state: method.phases[0].step(key, jnp.int32(0), state, stripes, ()))
    skipped = 0
    for key in jax.random.split(jax.random.key(1), steps):
        before, (state, _) = state, step(key, state)
        if state.skipped > before.skipped:
            skipped += 1
            jax.tree.map(np.testing.assert_array_equal, (state.q, state.optimiser), (before.q, before.optimiser))
    assert 0 < skipped == state.skipped < steps
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.q))
    method.phases[0].finish(state, None)
    assert f"{skipped} of {steps} updates" in caplog.text


def kinked(starts: int):
    """y = 2 |x| by two relu units: a fit whose units start on the same side of 0 leaves the other side flat."""
    x = np.linspace(-1, 1, 40)[:, None]
    posterior, prior = build_posterior(
        MLPConfig(hidden=(2,), activation="relu"),
        GaussianLikelihood(sigma=0.2),
        NormalPrior(scale=1.0),
        temperature=1.0,
        shape=(1,),
    )
    case = Case(posterior, posterior_data(x, 2 * np.abs(x[:, 0]), prior))
    config = ImplicitConfig(
        generator=MLPGenerator(noise=3, hidden=()),
        entropy=ExactEntropy(),
        batch_size=None,
        samples=2,
        epochs=500,
        optimiser=AdamConfig(learning_rate=0.03),
        steps=200,
        starts=starts,
    )
    return drive(build_method(config, posterior, case.data), case)


def test_the_best_of_several_starts_is_kept_where_single_starts_fail():
    found = kinked(4)
    names = ("elbo", "elbo_error")
    bounds, errors = ([float(found.statistics[f"{name}_of_start_{j}"][-1]) for j in range(4)] for name in names)
    kept = int(found.statistics["start_kept"][-1])
    assert max(bounds) - min(bounds) > 50
    assert kept == int(np.argmax(bounds)) != 0
    elbo = found.statistics["elbo"]
    assert abs(elbo.mean() - bounds[kept]) < 4 * np.hypot(errors[kept], elbo.std() / np.sqrt(len(elbo)))
    x = np.linspace(-1, 1, 5)
    bias, slope, offset, head = np.split(found.draws, [2, 4, 5], axis=1)
    units = np.maximum(slope[:, None] * x[:, None] + bias[:, None], 0)
    mean = np.mean(np.sum(units * head[:, None], axis=2) + offset, axis=0)
    np.testing.assert_allclose(mean, 2 * np.abs(x), atol=0.3)
