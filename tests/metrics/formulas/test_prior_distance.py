"""Distances to the prior."""

import numpy as np
import pytest
from scipy.stats import kstest

from bnn_atlas.metrics.formulas.prior_distance import joint_prior_distance, prior_distance

EDGES = np.linspace(-4, 4, 81)


def joint(x: np.ndarray, y: np.ndarray, sd: float = 1.0) -> float:
    return joint_prior_distance(np.histogram2d(x, y, [EDGES, EDGES])[0], EDGES, EDGES, len(x), sd)


def test_the_distance_of_draws_is_that_of_kolmogorov_and_smirnov() -> None:
    draws = np.random.default_rng(0).normal(0.4, 2.0, 37)
    assert prior_distance(draws, 1.5) == pytest.approx(kstest(draws, "norm", args=(0, 1.5)).statistic)
    assert prior_distance(np.full(5, 99.0), 1.0) == pytest.approx(1.0)
    assert np.isnan(prior_distance(np.empty(0), 1.0))


def test_the_joint_distance_is_the_largest_difference_in_a_quadrant() -> None:
    counts = np.array([[3, 1], [0, 4]])
    # Around the centre the prior has a quarter in each quadrant; the draws have 3 / 8, 1 / 8, 0 and 4 / 8.
    assert joint_prior_distance(counts, np.array([-9, 0, 9.0]), np.array([-9, 0, 9.0]), 8, 1.0) == pytest.approx(0.25)
    assert np.isnan(joint_prior_distance(counts, EDGES[:3], EDGES[:3], 0, 1.0))


def test_draws_of_the_prior_are_near_and_a_ridge_with_its_marginals_is_far() -> None:
    x, y = np.random.default_rng(1).normal(0, 1, (2, 20_000))
    assert joint(x, y) < 0.02
    assert joint(x, x) == pytest.approx(0.25, abs=0.01)
    assert joint(x, y, sd=2.0) > 0.1


def test_what_is_outside_the_limits_counts_among_all() -> None:
    x, y = np.random.default_rng(2).normal(0, 1, (2, 4000))
    far = np.concatenate([x, np.full(4000, 50.0)]), np.concatenate([y, np.full(4000, 50.0)])
    assert joint(*far) == pytest.approx(0.5, abs=0.01)
