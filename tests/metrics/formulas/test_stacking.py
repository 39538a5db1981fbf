"""Stacking weights of chains."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from bnn_atlas.metrics.formulas.stacking import TOLERANCE, cross_fitted, stacking_weights


def score(log_density: np.ndarray, weights: np.ndarray) -> float:
    with np.errstate(divide="ignore"):
        return float(logsumexp(log_density + np.log(weights)[:, None], axis=0).mean())


def test_the_weights_are_the_best_on_the_simplex():
    rng = np.random.default_rng(0)
    log_density = rng.normal(size=(4, 200)) + np.array([0.0, 0.3, -2.0, 0.1])[:, None]
    weights = stacking_weights(log_density)
    assert weights.sum() == pytest.approx(1)
    best = minimize(lambda z: -score(log_density, softmax(z)), np.zeros(4), method="Nelder-Mead",
                    options={"maxiter": 5000, "xatol": 1e-7, "fatol": 1e-10})  # fmt: skip
    assert score(log_density, weights) >= -best.fun - TOLERANCE
    assert score(log_density, weights) > score(log_density, np.full(4, 0.25)) + 0.01


def test_a_chain_that_explains_half_of_the_rows_has_half_of_the_weight():
    right, wrong = np.zeros(50), np.full(50, -20.0)
    log_density = np.array([np.r_[right, wrong], np.r_[wrong, right], np.full(100, -15.0)])
    np.testing.assert_allclose(stacking_weights(log_density), [0.5, 0.5, 0.0], atol=1e-3)


def test_rows_without_density_say_nothing_and_stay_infinite():
    log_density = np.array([[0.0, -1.0, -np.inf, -1.0, 0.0, -1.0], [-1.0, -np.inf, -np.inf, 0.0, -1.0, 0.0]])
    weights = stacking_weights(log_density)
    assert np.isfinite(weights).all()
    assert weights.sum() == pytest.approx(1)
    assert np.isneginf(cross_fitted(log_density).log_density).tolist() == [False, False, True, False, False, False]
    assert stacking_weights(np.full((2, 3), -np.inf)).tolist() == [0.5, 0.5]


def test_no_row_has_a_part_in_its_own_weights():
    """Of many chains of pure noise, weights fitted to the rows that they score look better than equal weights."""
    log_density = np.random.default_rng(1).normal(size=(200, 60))
    equal = score(log_density, np.full(200, 1 / 200))
    found = cross_fitted(log_density)
    assert score(log_density, stacking_weights(log_density)) > equal + 0.1
    assert found.log_density.mean() < equal + 0.05
    assert 1 <= found.effective_chains <= 200


def test_a_useless_chain_is_left_out_on_rows_that_chose_nothing():
    rng = np.random.default_rng(2)
    log_density = rng.normal(size=(3, 400)) * 0.1
    log_density[2] -= 5.0
    found = cross_fitted(log_density)
    assert found.log_density.mean() > score(log_density, np.full(3, 1 / 3)) + 0.3
    assert found.effective_chains < 2.05
