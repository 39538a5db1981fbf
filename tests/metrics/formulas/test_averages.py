"""Scores of a Bayesian model average, and stacking of its chains."""

from itertools import permutations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax
from scipy.stats import norm
from sklearn.metrics import log_loss, root_mean_squared_error

from bnn_atlas.metrics.formulas import averages
from bnn_atlas.metrics.formulas.averages import TOLERANCE, cross_fitted, effective_number, stacking_weights
from bnn_atlas.metrics.gathering.streaming import Limits, summarise
from bnn_atlas.posterior import Predictive


def lppd(log_density_by_chain):
    return averages.mixture_log_density(log_density_by_chain).mean()


def test_lppd_by_hand():
    density = np.array([[0.5, 0.2], [0.1, 0.6]])
    assert lppd(np.log(density)) == pytest.approx((np.log(0.3) + np.log(0.4)) / 2)
    np.testing.assert_allclose(averages.lppd_per_chain(np.log(density)), [np.log(0.5 * 0.2) / 2, np.log(0.1 * 0.6) / 2])


def test_lppd_keeps_minus_infinity_only_where_all_chains_have_it():
    assert np.isfinite(lppd(np.array([[-np.inf, 0.0], [0.0, -np.inf]])))
    assert lppd(np.array([[-np.inf, 0.0], [-np.inf, 0.0]])) == -np.inf


def test_linear_gaussian_posterior_has_its_closed_form(memory_pool):
    """Draws at the quantile midpoints of the weight's posterior: the mixture is N(m x, s^2 x^2 + noise^2)."""
    m, s, noise, count = 0.7, 0.3, 0.5, 4000
    weights = norm.ppf((np.arange(count) + 0.5) / count, m, s).reshape(-1, 2).T[..., None]
    x, y = np.array([[-1.5], [0.2], [1.0]]), np.array([-0.4, 0.6, 1.9])

    def predict(theta, rows):
        return Predictive(mean=theta @ rows.T, scale=np.full((len(theta), len(rows)), noise))

    summary = summarise(memory_pool(weights), predict, x, y, Limits(50_000))
    centre, deviation = m * x[:, 0], np.sqrt(s**2 * x[:, 0] ** 2 + noise**2)
    exact = norm.logpdf(y, centre, deviation)
    assert lppd(summary.log_density_by_chain) == pytest.approx(exact.mean(), abs=2e-4)
    assert summary.pit is not None
    np.testing.assert_allclose(summary.pit.mean(axis=0), norm.cdf(y, centre, deviation), atol=2e-4)
    assert summary.mean is not None
    assert summary.second_moment is not None
    assert summary.noise_variance is not None
    matched = averages.moment_matched_log_density(summary.mean, summary.second_moment, summary.noise_variance, y)
    np.testing.assert_allclose(matched, exact, atol=2e-3)


def test_moment_matched_density_is_one_gaussian_with_the_mixture_moments():
    mean, scale, y = np.array([[-1.0], [1.0]]), np.array([[0.5], [1.5]]), np.array([0.3])
    matched = averages.moment_matched_log_density(mean, mean**2, scale**2, y)
    assert matched[0] == pytest.approx(norm.logpdf(0.3, 0.0, np.sqrt(1.25 + 1.0)))
    assert matched[0] != pytest.approx(lppd(norm.logpdf(y, mean, scale)), abs=0.01)


def test_cumulative_lppd_averages_over_orders_of_the_chains():
    density = np.log(np.array([[0.5, 0.2], [0.1, 0.6], [0.3, 0.9]]))
    curve = averages.lppd_over_chains(density, np.array([1, 2, 3]), orderings=3000, seed=0)
    exact = np.array([
        [logsumexp(density[list(order[:c])], axis=0).mean() - np.log(c) for c in (1, 2, 3)]
        for order in permutations(range(3))
    ])  # fmt: skip
    np.testing.assert_allclose(curve.value, exact.mean(axis=0), atol=0.01)
    np.testing.assert_allclose(curve.deviation, exact.std(axis=0), atol=0.01)
    assert curve.value[-1] == pytest.approx(lppd(density), abs=1e-12)
    assert curve.deviation[-1] == 0.0
    by_row = np.mean([
        [logsumexp(density[list(order[:c])], axis=0) - np.log(c) for c in (1, 2, 3)] for order in permutations(range(3))
    ], axis=0)  # fmt: skip
    np.testing.assert_allclose(curve.error, by_row.std(axis=1, ddof=1) / np.sqrt(2), atol=0.02)


def test_cumulative_lppd_is_seeded_and_does_not_depend_on_the_points_reported():
    density = np.random.default_rng(0).normal(size=(30, 5))
    fine = averages.lppd_over_chains(density, np.arange(1, 31), orderings=4, seed=7)
    coarse = averages.lppd_over_chains(density, np.array([1, 10, 30]), orderings=4, seed=7)
    np.testing.assert_allclose(coarse.value, fine.value[[0, 9, 29]], rtol=1e-12)
    np.testing.assert_allclose(coarse.deviation, fine.deviation[[0, 9, 29]], atol=1e-12)
    other = averages.lppd_over_chains(density, np.array([1, 10, 30]), orderings=4, seed=8)
    assert other.value[0] != coarse.value[0]


def test_cumulative_lppd_with_a_density_of_zero_has_no_deviation():
    density = np.array([[-np.inf, 0.0], [0.0, 0.0]])
    curve = averages.lppd_over_chains(density, np.array([1, 2]), orderings=50, seed=0)
    assert curve.value[0] == -np.inf
    assert np.isnan(curve.deviation[0])
    assert curve.value[1] == pytest.approx(np.log(0.5) / 2)
    assert curve.deviation[1] == pytest.approx(0.0, abs=1e-12)


def test_lppd_over_draws_by_brute_force():
    density = np.random.default_rng(1).normal(size=(2, 12, 3))
    by_draw = logsumexp(density, axis=0) - np.log(2)
    curve = averages.lppd_over_draws(by_draw, np.array([1, 4, 12]))
    expected = [logsumexp(density[:, :s], axis=(0, 1)).mean() - np.log(2 * s) for s in (1, 4, 12)]
    np.testing.assert_allclose(curve.value, expected, rtol=1e-12)
    rows = [logsumexp(density[:, :s], axis=(0, 1)) - np.log(2 * s) for s in (1, 4, 12)]
    np.testing.assert_allclose(curve.error, np.std(rows, axis=1, ddof=1) / np.sqrt(3), rtol=1e-12)


def test_chain_counts_list_all_when_few_and_the_usual_series_when_many():
    assert averages.chain_counts(3).tolist() == [1, 2, 3]
    assert averages.chain_counts(100).tolist() == [1, 2, 5, 10, 20, 50, 100]
    assert averages.chain_counts(834).tolist() == [1, 2, 5, 10, 20, 50, 100, 200, 500, 834]


def test_rmse_and_log_loss_agree_with_scikit_learn():
    rng = np.random.default_rng(2)
    mean, y = rng.normal(size=(3, 40)), rng.normal(size=40)
    assert averages.rmse(mean, y) == pytest.approx(root_mean_squared_error(y, mean.mean(axis=0)))
    probabilities, labels = rng.dirichlet(np.ones(4), size=(3, 40)), rng.integers(0, 4, size=40)
    average = probabilities.mean(axis=0)
    nll = -lppd(np.log(probabilities[:, np.arange(40), labels]))
    assert nll == pytest.approx(log_loss(labels, average, labels=range(4)))


def test_error_of_mean_is_absent_rather_than_wrong():
    assert averages.error_of_mean(np.array([1.0, 3.0])) == pytest.approx(1.0)
    assert averages.error_of_mean(np.array([1.0])) is None
    assert averages.error_of_mean(np.array([1.0, -np.inf])) is None


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


def test_the_effective_number_of_weights():
    assert effective_number(np.full(7, 1 / 7)) == pytest.approx(7)
    assert effective_number(np.array([0.0, 1.0, 0.0])) == 1
    assert effective_number(np.array([0.5, 0.5, 0.0])) == pytest.approx(2)


def test_the_limit_of_an_average_and_its_error_over_runs_with_other_draws() -> None:
    """Densities e^x with x ~ N(0, 1): the log of their mean over infinitely many draws is 1/2."""
    rng = np.random.default_rng(0)
    counts = np.unique(np.geomspace(1, 200, 40).round().astype(int))
    found = []
    for _ in range(300):
        curve = averages.lppd_over_draws(rng.normal(size=(200, 60)), counts)
        fit = averages.extrapolation(curve.counts, curve.value)
        assert fit is not None
        found.append((curve.value[-1], *fit))
    value, shift, error = np.array(found).T
    spread = shift.std()
    assert abs(value.mean() - 0.5) > 3 * value.std() / np.sqrt(300), "200 draws are biased"
    assert abs((value + shift).mean() - 0.5) < 2 * (value + shift).std() / np.sqrt(300)
    assert np.sqrt(np.square(error).mean()) == pytest.approx(spread, rel=0.15)
    assert abs(np.corrcoef(value, shift)[0, 1]) < 0.15, "so that both errors add in squares"
    # A line through a Brownian motion from 1 / S to 4 / S has 6/5 of the variance S / 3 of its ends alone.
    assert spread == pytest.approx(value.std() * np.sqrt(6 / 5 / 3), rel=0.15)


def test_scores_on_a_line_have_a_limit_without_an_error_and_two_points_have_none() -> None:
    draws = np.array([1, 25, 40, 70, 100])
    fit = averages.extrapolation(draws, 0.7 - 2 / draws)
    assert fit is not None
    assert fit == pytest.approx((0.02, 0.0), abs=1e-12)
    reversed_ = averages.extrapolation(draws[::-1], (0.7 - 2 / draws)[::-1])
    assert reversed_ == pytest.approx((0.02, 0.0), abs=1e-12)
    assert averages.extrapolation(draws[[0, 1, 4]], np.zeros(3)) is None, "the first is less than a quarter"
    assert averages.extrapolation(draws, np.array([0, 0, np.inf, 0, 0])) is None
    assert averages.extrapolation(np.empty(0), np.empty(0)) is None
