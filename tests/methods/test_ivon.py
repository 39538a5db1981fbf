"""IVON: one step by hand, its optimum on a normal posterior, and what it refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bnn_atlas.config.methods.gaussian import IVONConfig
from bnn_atlas.config.parts.posterior import GaussianLikelihood, MLPConfig
from bnn_atlas.config.parts.priors import LaplacePrior, NormalFlatBiasPrior, NormalPrior
from bnn_atlas.config.runs.studies import RunConfig
from bnn_atlas.methods.ivon import build_ivon
from bnn_atlas.posterior.density import build_posterior, posterior_data
from bnn_atlas.runner.segments import noted
from tests.config.folders import RUN

from .fitting import Case, drive, line, rows

FULL = {"batch_size": None, "schedule": "constant"}


def test_two_steps_by_hand():
    """Algorithm 1 of the paper, written a second time with NumPy, at temperature 2."""
    with jax.enable_x64(True):
        regression = line(NormalPrior(loc=0.2, scale=0.8), 2.0)
        case, n, decay = regression.case, 30, 1 / (30 * 0.64)
        config = IVONConfig(
            epochs=2, learning_rate=0.2, momentum=0.8, hessian_momentum=0.9, hessian_init=0.3, samples=2, **FULL
        )
        method = build_ivon(config, *case)
        start = jnp.asarray([0.1, -0.2, 0.3, 0.0])
        state = method.init(jax.random.key(0), start, case.target)
        scale = 2.0
        np.testing.assert_allclose(state.q.sigma, np.sqrt(scale / (n * (0.3 + decay))), rtol=1e-12)
        mean, hessian, average = np.asarray(start), np.full(4, 0.3), np.zeros(4)
        for step in (1, 2):
            key = jax.random.key(step)
            xi = np.asarray(jax.random.normal(jax.random.split(key)[1], (2, 4)))
            sigma = np.sqrt(scale / (n * (hessian + decay)))
            theta = mean + sigma * xi
            data_precision = regression.precision - np.eye(4) / 0.64
            best = np.linalg.solve(data_precision, regression.precision @ regression.mean - 0.2 / 0.64)
            slopes = (theta - best) @ data_precision / n
            curvature = (slopes * (theta - mean) / sigma**2).mean(0)
            average = 0.8 * average + 0.2 * slopes.mean(0)
            correction = 0.5 * 0.1**2 * (hessian - curvature) ** 2 / (hessian + decay)
            hessian = 0.9 * hessian + 0.1 * curvature + correction
            unbiased = average / (1 - 0.8**step)
            mean = mean - 0.2 * (0.3 + decay) * (unbiased + decay * (mean - 0.2)) / (hessian + decay)
            state, _ = method.phases[0].step(key, jnp.int32(step - 1), state, case.target, ())
            np.testing.assert_allclose(state.q.mean, mean, rtol=1e-9)
            np.testing.assert_allclose(state.q.sigma, np.sqrt(scale / (n * (hessian + decay))), rtol=1e-9)


@pytest.mark.parametrize(("temperature", "batch"), [(1.0, None), (0.5, 10)])
def test_optimum_is_the_mean_and_the_inverse_diagonal_of_the_precision(temperature, batch):
    regression = line(NormalPrior(loc=0.2, scale=0.8), temperature, dtype=jnp.float32)
    config = IVONConfig(
        epochs=6000 if batch is None else 3000, batch_size=batch, learning_rate=0.3, hessian_momentum=0.999,
        hessian_init=1.0, samples=4, steps=1000,
    )  # fmt: skip
    found = drive(build_ivon(config, *regression.case), regression.case)
    variance = temperature / np.diag(regression.precision)
    np.testing.assert_allclose(found.state.q.sigma**2, variance, rtol=0.15)
    np.testing.assert_allclose(found.state.q.mean, regression.mean, atol=0.1 * np.sqrt(variance.max()))
    assert found.state.skipped == 0
    z = (found.draws - found.state.q.mean) / found.state.q.sigma
    np.testing.assert_allclose(np.cov(z.T), np.eye(4), atol=0.15)
    if temperature == 1:
        assert found.statistics["elbo"].mean() < regression.log_evidence


def test_flat_biases_have_no_weight_decay():
    posterior, prior = build_posterior(
        MLPConfig(hidden=()), GaussianLikelihood(), NormalFlatBiasPrior(scale=0.8), temperature=1.0, shape=(3,)
    )
    case = Case(posterior, posterior_data(*rows(), prior))
    method = build_ivon(IVONConfig(hessian_init=0.3, **FULL), *case)
    q = method.init(jax.random.key(0), jnp.zeros(4), case.target).q
    biases = posterior.layout.select(roles=["bias"])
    np.testing.assert_allclose(q.sigma[biases], np.sqrt(1 / (30 * 0.3)), rtol=1e-6)
    weights = np.setdiff1d(np.arange(4), biases)
    np.testing.assert_allclose(q.sigma[weights], np.sqrt(1 / (30 * 0.3 + 1 / 0.64)), rtol=1e-6)


@pytest.mark.parametrize(
    ("epochs", "batch", "memory"), [(200, None, 40), (200, 80, 80), (3, None, 10), (10**7, None, 100_000)]
)
def test_the_memory_of_the_hessian_fits_the_fit(epochs, batch, memory):
    config = IVONConfig(epochs=epochs, batch_size=batch)
    assert config.for_rows(190).hessian_momentum == pytest.approx(1 - 1 / memory, abs=1e-12)
    assert config.note(190) == ""
    given = IVONConfig(epochs=epochs, batch_size=batch, hessian_momentum=0.9)
    assert given.for_rows(190) is given
    assert "hessian_momentum" not in config.model_dump(mode="json")


def test_a_fit_learns_the_curvature_of_each_parameter_without_a_memory_given():
    regression = line(NormalPrior(scale=0.8), dtype=jnp.float32)
    config = IVONConfig(epochs=500, batch_size=None, samples=4, hessian_init=1.0)
    found = drive(build_ivon(config, *regression.case), regression.case)
    np.testing.assert_allclose(found.state.q.sigma**2, 1 / np.diag(regression.precision), rtol=0.4)


def test_a_memory_longer_than_the_fit_is_noted(caplog):
    posterior, data = line(NormalPrior(), dtype=jnp.float32).case
    long = IVONConfig(epochs=200, batch_size=None, hessian_momentum=0.999)
    note = "the Hessian's memory of 1,000 steps is longer than the fit, 200 steps"
    assert noted(long, posterior, len(data.y)) == {"notes": {"elbo": note}}
    assert "leave it out" in caplog.text
    assert noted(IVONConfig(epochs=200), posterior, len(data.y)) == {}


@pytest.mark.parametrize(("memory", "learned"), [(None, True), (100_000, False)])
def test_a_fit_that_learned_nothing_of_the_curvature_says_so(memory, learned, caplog):
    """With a memory much longer than the fit, the Hessian stays at hessian_init."""
    regression = line(NormalPrior(scale=0.8), dtype=jnp.float32)
    given = {} if memory is None else {"hessian_momentum": 1 - 1 / memory}
    config = IVONConfig(epochs=200, batch_size=None, samples=4, hessian_init=8.0, steps=3, **given)
    found = drive(build_ivon(config, *regression.case), regression.case)
    hessian = (1 / np.asarray(found.state.q.sigma, np.float64) ** 2 - 1 / 0.64) / 30
    change = np.abs(np.log(hessian / 8.0)).mean()
    np.testing.assert_allclose(found.statistics["curvature_change"], change, rtol=1e-3, atol=1e-5)
    assert (change > config.unlearned) == learned
    assert ("has learned nothing of the curvature" in caplog.text) != learned


def test_steps_are_clipped_before_they_are_scaled_as_by_the_authors():
    regression = line(NormalPrior(), dtype=jnp.float32)
    method = build_ivon(IVONConfig(epochs=5, learning_rate=0.5, clip=0.01, **FULL), *regression.case)
    before = method.init(jax.random.key(0), jnp.full(4, 3.0), regression.case.target)
    after, _ = method.phases[0].step(jax.random.key(1), jnp.int32(0), before, regression.case.target, ())
    largest = 0.5 * (0.1 + 1 / 30) * 0.01
    np.testing.assert_allclose(np.abs(after.q.mean - before.q.mean).max(), largest, rtol=1e-4)


def test_priors_without_a_weight_decay_are_refused():
    posterior, data = line(NormalPrior(), dtype=jnp.float32).case
    laplace = posterior._replace(family=posterior.family._replace(name="laplace"))
    with pytest.raises(ValueError, match=r"'ivon' takes its weight decay from a normal prior.*'laplace'"):
        build_ivon(IVONConfig(), laplace, data)
    with pytest.raises(ValueError, match="not from 'laplace': use one of standard_normal, normal"):
        RunConfig.model_validate({**RUN, "method": {"kind": "ivon"}, "prior": LaplacePrior().model_dump()})


def test_a_noise_that_is_a_number_needs_a_learned_noise():
    method = {"kind": "mean_field", "noise": "point"}
    with pytest.raises(ValueError, match=r"method\.noise 'point' is for the noise of likelihood\.kind 'learned_noise'"):
        RunConfig.model_validate({**RUN, "method": method, "likelihood": {"kind": "gaussian"}})
