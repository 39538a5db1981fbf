"""Paths: what a draw is, the updates against NumPy, orders of rows."""

import numpy as np
import pytest

from bnn_atlas.config.methods.optimisation import MeanSGDConfig, PathConfig
from bnn_atlas.methods.optimise import build_path

from .problems import Problem, linear
from .running import run

SGD = MeanSGDConfig(learning_rate=0.05, momentum=0.8)


def path(problem: Problem, folder, config: PathConfig, **settings):
    method = build_path(config, problem.posterior, problem.data)
    return run(method, problem, folder / "trace.zarr", **settings)


@pytest.fixture(scope="module")
def small() -> Problem:
    return linear(chains=2).problem


def test_full_batches_are_those_of_numpy_and_the_prior_plays_no_part(small, tmp_path):
    """Sigma is 0.5: the gradient of a row's loss is -x (y - x theta) / 0.25."""
    trace = path(small, tmp_path, PathConfig(epochs=3, batch_size=None, optimiser=SGD))
    x, y = np.asarray(small.data.x, float), np.asarray(small.data.y, float)
    for chain, start in enumerate(small.starts.astype(float)):
        theta, memory = start, np.zeros_like(start)
        expected = [start]
        for _ in range(3):
            memory = 0.8 * memory - x.T @ (y - x @ theta) / 0.25 / len(y)
            theta = theta - 0.05 * memory
            expected.append(theta)
        np.testing.assert_allclose(trace.read()[chain], expected, rtol=1e-5, atol=1e-6)


def test_draws_are_the_start_and_one_per_epoch_with_their_densities(small, tmp_path):
    config = PathConfig(epochs=5, batch_size=4, optimiser=SGD)
    trace = path(small, tmp_path, config)
    draws = trace.read()
    assert draws.shape == (2, config.draws, 4) == (2, 6, 4)
    np.testing.assert_array_equal(draws[:, 0], small.starts)
    assert all(len(np.unique(chain, axis=0)) == 6 for chain in draws)
    batch = small.posterior.arrange(small.data)
    for chain in range(2):
        for number in (0, 3, 5):
            density = small.posterior.log_density(draws[chain, number], batch)
            found = [trace.statistic(name)[chain, number] for name in ("log_likelihood", "log_prior")]
            np.testing.assert_allclose(found, [density.log_likelihood, density.log_prior], rtol=1e-4)
    assert not trace.statistic("skipped_updates").any()
    assert not trace.statistic("divergent").any()


def test_equal_starts_part_ways_by_their_orders_of_rows(small, tmp_path):
    same = small._replace(starts=np.repeat(small.starts[:1], 2, axis=0))
    draws = path(same, tmp_path, PathConfig(epochs=2, batch_size=4, optimiser=SGD)).read()
    np.testing.assert_array_equal(draws[0, 0], draws[1, 0])
    assert np.abs(draws[0, 1] - draws[1, 1]).max() > 1e-4


def test_a_loss_that_is_not_finite_is_skipped_and_counted(small, tmp_path):
    wild = PathConfig(epochs=40, batch_size=None, optimiser=MeanSGDConfig(learning_rate=1e15, momentum=0.0))
    trace = path(small, tmp_path, wild)
    assert np.isfinite(trace.read()).all()
    assert (trace.statistic("skipped_updates")[:, -1] > 0).all()
