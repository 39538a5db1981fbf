"""The mean of theta^2 over the prior variance, against the draws, and what it says of chains on their way."""

import numpy as np
import pytest
from scipy.stats import norm

from bnn_atlas.metrics.gathering.shell import shell_measurements

MAX_BYTES, SD = 2**20, 0.4
KEPT = np.arange(3)


def measured(memory_pool, theta, kept=KEPT, prior_sd=SD):
    pool = memory_pool(theta, {"log_prior": norm.logpdf(theta, scale=SD).sum(axis=2)})
    return {row.metric: row for row in shell_measurements(pool, kept, prior_sd, MAX_BYTES)}


def test_it_is_the_mean_square_of_the_draws_in_units_of_the_prior(memory_pool):
    theta = 0.3 * np.random.default_rng(0).normal(size=(3, 200, 50)) + 0.1
    found = measured(memory_pool, theta)
    assert found["prior_shell"].value == pytest.approx((theta**2).mean() / SD**2, rel=1e-12)
    kept = measured(memory_pool, theta, np.array([0, 2]))
    assert kept["prior_shell"].value == pytest.approx((theta[[0, 2]] ** 2).mean() / SD**2, rel=1e-12)


def test_independent_draws_from_the_prior_are_on_its_shell_and_stay_there(memory_pool):
    """With the variance 2 / P of one draw: 600 draws of 50 parameters have a standard error of 0.0082."""
    theta = SD * np.random.default_rng(1).normal(size=(3, 200, 50))
    found = measured(memory_pool, theta)
    error = np.sqrt(2 / 50 / 600)
    assert abs(found["prior_shell"].value - 1) < 4 * error
    assert found["prior_shell"].monte_carlo_error == pytest.approx(error, rel=0.3)
    assert abs(found["prior_shell_shift"].value) < 3


def test_chains_on_their_way_to_the_shell_are_seen(memory_pool):
    theta = SD * np.random.default_rng(2).normal(size=(3, 200, 50)) * np.linspace(0.1, 1, 200)[:, None]
    found = measured(memory_pool, theta)
    assert found["prior_shell"].value < 0.5
    assert found["prior_shell_shift"].value > 3
    backwards = measured(memory_pool, theta[:, ::-1])
    assert backwards["prior_shell_shift"].value < -3


def test_the_shift_is_in_standard_errors(memory_pool):
    """Over many pools of independent draws it is standard normal."""
    rng = np.random.default_rng(3)
    shifts = [measured(memory_pool, SD * rng.normal(size=(3, 100, 20)))["prior_shell_shift"].value for _ in range(300)]
    assert np.mean(shifts) == pytest.approx(0, abs=0.2)
    assert np.std(shifts) == pytest.approx(1, abs=0.15)


def test_without_a_normal_prior_or_without_draws_there_is_none(memory_pool):
    theta = np.random.default_rng(4).normal(size=(3, 20, 5))
    assert measured(memory_pool, theta, prior_sd=None) == {}
    assert measured(memory_pool, theta, kept=KEPT[:0]) == {}
    assert shell_measurements(memory_pool(theta), KEPT, SD, MAX_BYTES) == []
    assert set(measured(memory_pool, theta[:, :1])) == {"prior_shell"}
