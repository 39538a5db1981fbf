"""The log-likelihood to which chains came."""

import numpy as np
import pytest

from bnn_atlas.metrics.gathering.log_likelihood import log_likelihood_measurements

THETA = np.zeros((3, 101, 2))


def test_it_is_of_the_second_halves_of_the_kept_chains(memory_pool):
    values = np.random.default_rng(0).normal(304.8, 1.8, size=(3, 101))
    values[:, :50] = -1e6
    values[1] = 0.0
    pool = memory_pool(THETA, {"log_likelihood": values})
    (found,) = log_likelihood_measurements(pool, np.array([0, 2]), 10_000)
    assert found.value == pytest.approx(values[[0, 2], 50:].mean())
    assert found.note == "second halves of the chains, 51 draws each"
    assert found.monte_carlo_error == pytest.approx(1.8 / np.sqrt(102), rel=0.4)


def test_one_draw_has_a_value_without_an_error_and_other_traces_none(memory_pool):
    pool = memory_pool(THETA[:, :1], {"log_likelihood": np.full((3, 1), -7.0)})
    (found,) = log_likelihood_measurements(pool, np.arange(3), 10_000)
    assert (found.value, found.monte_carlo_error) == (-7.0, None)
    assert log_likelihood_measurements(pool, np.arange(0), 10_000) == []
    assert log_likelihood_measurements(memory_pool(THETA), np.arange(3), 10_000) == []
