"""Where a noise that is one number has its optimum, from log-likelihoods alone."""

import numpy as np
import pytest

from bnn_atlas.metrics.gathering.point_noise import point_noise_measurements
from bnn_atlas.models.layout import Layout, Parameter

ROWS = 70
LAYOUT = Layout((Parameter("layer0.weight", (2,), "weight", 0, 1, 2), Parameter("log_sigma", (), "scale", None, 1, 1)))


def of_residuals(memory_pool, noise: np.ndarray, residuals: np.ndarray, **changes):
    """A pool whose draws have these residuals [c, s, rows], at noises [c, s]."""
    theta = np.zeros((*noise.shape, 3))
    theta[..., 2] = np.log(noise)
    density = -0.5 * (residuals / noise[..., None]) ** 2 - np.log(noise)[..., None] - 0.5 * np.log(2 * np.pi)
    statistics = {"elbo": np.zeros(noise.shape), "log_likelihood": density.sum(axis=-1)} | changes
    return memory_pool(theta, statistics, layout=LAYOUT)


def test_the_optimum_is_the_root_mean_square_residual(memory_pool):
    residuals = np.random.default_rng(0).normal(0, 0.5, size=(3, 40, ROWS))
    noise = np.repeat([[0.3], [9.0], [0.2]], 40, axis=1)
    pool = of_residuals(memory_pool, noise, residuals)
    kept = np.array([0, 2])
    (found,) = point_noise_measurements(pool, kept, ROWS, 10_000)
    assert found.metric == "noise_sd_optimal"
    assert found.value == pytest.approx(np.sqrt(np.mean(residuals[kept] ** 2)))


def test_only_of_fits_whose_noise_is_one_number(memory_pool):
    residuals = np.random.default_rng(0).normal(size=(2, 40, ROWS))
    point, varying = np.full((2, 40), 0.3), np.random.default_rng(1).uniform(0.2, 0.4, (2, 40))
    whole = of_residuals(memory_pool, point, residuals)
    assert point_noise_measurements(whole, np.arange(2), ROWS, 10_000)
    assert not point_noise_measurements(whole, np.arange(2), None, 10_000)
    assert not point_noise_measurements(whole, np.arange(0), ROWS, 10_000)
    assert not point_noise_measurements(of_residuals(memory_pool, varying, residuals), np.arange(2), ROWS, 10_000)
    assert not point_noise_measurements(
        of_residuals(memory_pool, varying[:, :1], residuals[:, :1]), np.arange(2), ROWS, 10_000
    )
    chains = memory_pool(np.zeros((2, 40, 3)), {"log_likelihood": np.zeros((2, 40))}, layout=LAYOUT)
    assert not point_noise_measurements(chains, np.arange(2), ROWS, 10_000)
