"""Every sampling method on targets with known moments, tempered both ways, and its predictive of linear regression."""

import gc

import numpy as np
import pytest
import scipy.stats

from bnn_atlas.inference.problem import Predictor
from bnn_atlas.metrics.formulas.averages import mixture_log_density
from bnn_atlas.metrics.gathering.streaming import Limits, summarise
from bnn_atlas.posterior.compiled import Kernel
from bnn_atlas.posterior.density import Posterior
from bnn_atlas.traces.pool import open_pool, pool_traces

from .harness import CHAINS, FITS, METHODS, assert_moments, build
from .running import run
from .targets import SIGMA, Known, banana, line

SEGMENT = 100_000


class ColdLine:
    """Linear regression at temperature 1/2, and new rows."""

    def __init__(self) -> None:
        self.known = line(CHAINS, temperature=0.5)
        rng = np.random.default_rng(5)
        self.x, self.y = 1.5 * rng.normal(size=(20, 4)), rng.normal(size=20)
        self.predict = Predictor(self.known.problem.posterior, self.known.problem.data, 1e9)

    def sample(self, config, folder, monkeypatch):
        """A trace in several segments; rows of one shape are traced no more than once, with and without gradient."""
        problem, traced = self.known.problem, []
        log_likelihood, call = Posterior.log_likelihood, Kernel._call

        def count(posterior, theta, x, y, weights=None):
            traced.append((x.shape, y.shape, type(theta).__name__))  # differentiation has tracers of its own
            return log_likelihood(posterior, theta, x, y, weights)

        def count_compiled(kernel, size, theta, x, y, weights, rows, by_feature):
            traced.append((x.shape, y.shape, size, None if rows is None else rows.shape))
            return call(kernel, size, theta, x, y, weights, rows, by_feature)

        gc.collect()  # the programs of earlier methods, whose traces would be found
        with monkeypatch.context() as patch:
            patch.setattr(Posterior, "log_likelihood", count)
            patch.setattr(Kernel, "_call", count_compiled)
            trace = run(build(config, problem), problem, folder / "trace.zarr", checkpoint_every=SEGMENT // 5)
        assert 1 <= len(traced) == len(set(traced)), traced
        return trace

    def assert_predictive(self, trace, covariance, bias, folder) -> None:
        """The mixture over draws of N(x w, sigma^2) is N(x m, x C x + sigma^2) where w ~ N(m, C)."""
        spread = np.einsum("ni,ij,nj->n", self.x, covariance, self.x)
        exact = scipy.stats.norm(self.x @ self.known.mean, np.sqrt(spread + SIGMA**2))
        pool_traces([trace.path], folder / "pool.json")
        summary = summarise(open_pool(folder / "pool.json"), self.predict, self.x, self.y, Limits(2**26))
        log_density = mixture_log_density(summary.log_density_by_chain)
        np.testing.assert_allclose(log_density, exact.logpdf(self.y), rtol=0.02, atol=0.05 + bias)
        np.testing.assert_allclose(summary.pit.mean(0), exact.cdf(self.y), atol=0.02 + bias / 2)
        variance = summary.second_moment.mean(0) - summary.mean.mean(0) ** 2 + summary.noise_variance.mean(0)
        np.testing.assert_allclose(variance, exact.var(), rtol=0.08 + 2 * bias)


@pytest.fixture(scope="module")
def cold_line() -> ColdLine:
    return ColdLine()


@pytest.fixture(scope="module")
def hot_banana() -> Known:
    return banana(CHAINS, temperature=2.0)


@pytest.mark.parametrize("name", METHODS)
def test_linear_regression(name, cold_line, tmp_path, monkeypatch):
    """Posterior and predictive in closed form."""
    method, known = METHODS[name], cold_line.known
    trace = cold_line.sample(method.config, tmp_path, monkeypatch)
    assert_moments(trace.read(), known.mean, known.covariance, method.bias)
    cold_line.assert_predictive(trace, known.covariance, method.bias, tmp_path)


@pytest.mark.parametrize("name", FITS)
def test_fits_to_linear_regression(name, cold_line, tmp_path, monkeypatch):
    covariance = cold_line.known.covariance
    if name == "mean field":
        covariance = np.diag(1 / np.diag(np.linalg.inv(covariance)))
    trace = cold_line.sample(FITS[name], tmp_path, monkeypatch)
    assert_moments(trace.read(), cold_line.known.mean, covariance, bias=0.02)
    cold_line.assert_predictive(trace, covariance, 0.02, tmp_path)


@pytest.mark.parametrize("name", METHODS)
def test_banana_with_learned_noise(name, hot_banana, tmp_path):
    method, problem = METHODS[name], hot_banana.problem
    trace = run(build(method.config, problem), problem, tmp_path / "t.zarr", checkpoint_every=SEGMENT)
    assert_moments(trace.read(), hot_banana.mean, hot_banana.covariance, method.bias)


def test_the_comparison_can_fail(hot_banana):
    """Independent draws pass; the same with spreads 8 percent too large, a shifted mean or too few of them do not."""
    mean, covariance = hot_banana.mean, hot_banana.covariance
    draws = np.random.default_rng(0).multivariate_normal(mean, covariance, (CHAINS, 1000))
    assert_moments(draws, mean, covariance)
    scale = np.sqrt(np.diag(covariance))
    for wrong in (mean + 1.08 * (draws - mean), draws + 0.08 * scale, mean + (draws - mean) * np.array([1, 1, 0.92])):
        with pytest.raises(AssertionError, match="whitened"):
            assert_moments(wrong, mean, covariance)
    with pytest.raises(AssertionError, match="too few draws"):
        assert_moments(draws[:, :20], mean, covariance)
