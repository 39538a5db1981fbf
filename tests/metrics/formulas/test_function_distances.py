"""Distances between functions of single draws, between predictive distributions, and of draws to their prior."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm, wasserstein_distance

from bnn_atlas.metrics.formulas import function_distances
from bnn_atlas.metrics.formulas.function_distances import (
    MOST_DRAWS,
    crps,
    interval_score,
    joint_prior_distance,
    mixture_quantile,
    wasserstein_1,
)
from bnn_atlas.metrics.tables.measurement import PredictionError


def predictions(draws: int, rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(draws, rows)), rng.uniform(0.1, 2.0, size=(draws, rows))


def test_wasserstein_by_hand() -> None:
    mean = np.array([[0.0, 1.0], [3.0, 1.0], [0.0, 0.0]])
    scale = np.array([[1.0, 2.0], [1.0, 4.0], [0.5, 2.0]])
    expected = [[0, 9 + 4, 1 + 0.25], [13, 0, 9 + 1 + 0.25 + 4], [1.25, 14.25, 0]]
    np.testing.assert_allclose(function_distances.wasserstein_squared(mean, scale), expected, rtol=1e-14)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 6), st.integers(1, 9), st.integers(0, 1000))
def test_wasserstein_is_the_root_of_a_metric(draws: int, rows: int, seed: int) -> None:
    root = np.sqrt(function_distances.wasserstein_squared(*predictions(draws, rows, seed)))
    assert (np.diag(root) == 0).all()
    np.testing.assert_array_equal(root, root.T)
    assert (root[:, None] <= root[:, :, None] + root[None] + 1e-12).all()


def test_near_functions_far_from_zero_keep_their_distance() -> None:
    mean = np.array([[1e6, 1e6], [1e6 + 1e-3, 1e6]])
    found = function_distances.wasserstein_squared(mean, np.ones((2, 2)))
    np.testing.assert_allclose(found[0, 1], (mean[1, 0] - mean[0, 0]) ** 2, rtol=1e-12)


def test_little_memory_gives_the_same_numbers() -> None:
    mean, scale = predictions(7, 40)
    for function in (function_distances.wasserstein_squared, function_distances.significance):
        np.testing.assert_allclose(function(mean, scale, 64 * 7 * 3), function(mean, scale), rtol=1e-12)


def test_significance_by_hand() -> None:
    # Correlation 1: sd of the difference is |sd_a - sd_b| = 1 at both rows; its mean is 1.
    mean, scale = np.array([[0.0, 2.0], [-2.0, 2.0]]), np.array([[1.0, 1.0], [2.0, 2.0]])
    np.testing.assert_allclose(
        function_distances.significance(mean, scale), [[0, np.sqrt(2)], [-np.sqrt(2), 0]], rtol=1e-12
    )
    # Correlation -1: sd 1 + 2 = 3.
    mean = np.array([[0.0, 2.0], [2.0, -2.0]])
    assert function_distances.significance(mean, scale)[0, 1] == pytest.approx(np.sqrt(2) * 1 / 3, rel=1e-12)


def test_significance_is_the_formula_pair_by_pair() -> None:
    mean, scale = predictions(5, 30, seed=3)
    mean += np.arange(5)[:, None] / 4
    found = function_distances.significance(mean.astype(np.float32), scale.astype(np.float32))
    for a in range(5):
        for b in range(5):
            if a != b:
                rho = np.corrcoef(mean[a], mean[b])[0, 1]
                variance = scale[a] ** 2 + scale[b] ** 2 - 2 * rho * scale[a] * scale[b]
                expected = np.sqrt(30) * (mean[a] - mean[b]).mean() / np.sqrt(variance.mean())
                np.testing.assert_allclose(found[a, b], expected, rtol=1e-5)


def test_significance_at_its_limits() -> None:
    line = np.array([0.0, 1.0, 2.0])
    mean, scale = np.stack([line, line + 1, line, np.full(3, 0.1)]), np.ones((4, 3))
    z = function_distances.significance(mean, scale)
    assert z[0, 1] < -1e6  # the difference is certain up to rounding
    assert z[0, 2] == 0.0  # the same function
    assert np.isnan(z[3, :3]).all()
    assert np.isnan(z[:3, 3]).all()
    assert (np.diag(z) == 0).all()
    pairs = function_distances.pairs_alike(z)
    assert pairs == (6, 1, 3)
    assert pairs.share == pytest.approx(1 / 3)
    assert np.isnan(function_distances.pairs_alike(function_distances.significance(mean[3:], scale[3:])).share)


def test_bad_predictions_are_refused_in_words() -> None:
    mean, scale = predictions(3, 4)
    with pytest.raises(PredictionError, match=r"mean has shape \(3, 4\) and scale \(3, 3\)"):
        function_distances.wasserstein_squared(mean, scale[:, :3])
    with pytest.raises(PredictionError, match="expected"):
        function_distances.wasserstein_squared(mean[:0], scale[:0])
    for bad in (np.nan, np.inf, 0.0, -1.0):
        wrong = scale.copy()
        wrong[1, 2] = bad
        with pytest.raises(PredictionError, match=r"1 of 3 draws .* first draw 1"):
            function_distances.significance(mean, wrong)
    with pytest.raises(PredictionError, match="at least 2 rows"):
        function_distances.significance(mean[:, :1], scale[:, :1])
    with pytest.raises(PredictionError, match=r"level = 1\.5"):
        function_distances.mixture_quantile(mean, scale, 1.5)


@pytest.mark.parametrize("level", [0.001, 0.05, 0.5, 0.95])
def test_quantile_of_one_gaussian_in_many_draws(level: float) -> None:
    mean, scale = np.tile([0.5, -3.0], (6, 1)), np.tile([0.1, 2.0], (6, 1))
    np.testing.assert_allclose(
        function_distances.mixture_quantile(mean, scale, level), norm.ppf(level, mean[0], scale[0]), rtol=1e-12
    )


def test_quantile_of_two_gaussians() -> None:
    scale = np.ones((2, 1))
    assert abs(function_distances.mixture_quantile(np.array([[-3.0], [3.0]]), scale, 0.5)[0]) < 1e-12
    far = np.array([[-10.0], [10.0]])  # the lower one lies below the quantile
    np.testing.assert_allclose(function_distances.mixture_quantile(far, scale, 0.95), norm.ppf(0.9, 10.0), rtol=1e-12)
    mean, scale = predictions(9, 4)
    found = function_distances.mixture_quantile(mean, scale, 0.3)
    np.testing.assert_allclose(norm.cdf(found, mean, scale).mean(axis=0), 0.3, rtol=1e-12)


def test_crps_of_one_gaussian_by_hand() -> None:
    """Gneiting and Raftery 2007, equation 21: sd (z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi)), z = (y - mu) / sd."""
    z = np.array([-1.3, 0.0, 40.0])
    expected = 2 * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
    many = np.ones((5, 3))
    np.testing.assert_allclose(crps(many, 2 * many, 1 + 2 * z), expected, rtol=1e-12)


def test_scores_of_mixtures_are_their_definitions() -> None:
    """CRPS as the integral of (F - step)^2, interval score from quantiles of the mixture found on a grid."""
    mean, scale = predictions(6, 4, seed=3)
    y = np.array([0.3, -2.0, 9.0, 0.0])
    at, low, high = crps(mean, scale, y), *(mixture_quantile(mean, scale, level) for level in (0.05, 0.95))
    for row in range(4):
        grid = np.linspace(-30, 30, 600_001)
        below = norm.cdf((grid[:, None] - mean[:, row]) / scale[:, row]).mean(axis=1)
        assert at[row] == pytest.approx(np.trapezoid((below - (grid >= y[row])) ** 2, grid), rel=1e-4)
        lower, upper = np.interp([0.05, 0.95], below, grid)
        outside = max(lower - y[row], y[row] - upper, 0)
        expected = upper - lower + 20 * outside
        assert interval_score(mean, scale, y, 0.9)[row] == pytest.approx(expected, rel=1e-4)
    assert ((y < low) | (y > high)).any()
    assert ((y >= low) & (y <= high)).any()
    np.testing.assert_allclose(crps(mean, scale, y, max_bytes=1), at, rtol=1e-14)
    whole = interval_score(mean, scale, y, 0.9)
    np.testing.assert_array_equal(interval_score(mean, scale, y, 0.9, max_bytes=1), whole)


def test_crps_is_the_energy_form_over_draws_with_noise() -> None:
    mean, scale = predictions(3, 2, seed=4)
    draws, other = (np.random.default_rng(seed).normal(mean, scale, (200_000, 3, 2)).reshape(-1, 2) for seed in (0, 1))
    y = np.array([0.5, -0.5])
    np.random.default_rng(2).shuffle(other)
    energy = np.abs(draws - y).mean(axis=0) - 0.5 * np.abs(draws - other).mean(axis=0)
    np.testing.assert_allclose(crps(mean, scale, y), energy, rtol=0.02)


def test_normal_distributions_have_a_closed_form():
    """The same sd: the distance of the means. The same mean: |sd - sd'| sqrt(2 / pi)."""
    mean, scale = np.array([[0.0, 3.0, -1.0]]), np.array([[1.0, 0.5, 2.0]])
    np.testing.assert_allclose(wasserstein_1(mean, scale, mean + 0.7, scale), 0.7, rtol=1e-5)
    expected = scale[0] * np.sqrt(2 / np.pi)
    np.testing.assert_allclose(wasserstein_1(mean, scale, mean, 2 * scale), expected, rtol=1e-4)
    np.testing.assert_allclose(wasserstein_1(mean, scale, mean, scale), 0, atol=1e-12)


def test_mixtures_against_draws():
    """SciPy's distance of many draws of both, with noise."""
    rng = np.random.default_rng(0)
    p, q = rng.normal(size=(40, 2)), rng.normal(0.5, 2, size=(30, 2))
    scales = rng.uniform(0.2, 1, size=(40, 2)), rng.uniform(0.2, 1, size=(30, 2))
    found = wasserstein_1(p, scales[0], q, scales[1])
    for row in range(2):
        draws = [
            (mean[:, row] + scale[:, row] * rng.normal(size=(4_000, len(mean)))).ravel()
            for mean, scale in ((p, scales[0]), (q, scales[1]))
        ]
        assert found[row] == pytest.approx(wasserstein_distance(*draws), rel=0.02)


def test_it_is_symmetric_and_grows_with_the_unit():
    rng = np.random.default_rng(1)
    p, q, scale = rng.normal(size=(20, 3)), rng.normal(size=(20, 3)), np.full((20, 3), 0.3)
    one = wasserstein_1(p, scale, q, scale)
    np.testing.assert_allclose(wasserstein_1(q, scale, p, scale), one, rtol=1e-12)
    np.testing.assert_allclose(wasserstein_1(10 * p, 10 * scale, 10 * q, 10 * scale), 10 * one, rtol=1e-9)


def test_of_many_draws_some_are_taken_evenly():
    rng = np.random.default_rng(2)
    few = rng.normal(size=(MOST_DRAWS, 1))
    many = np.repeat(few, 3, axis=0)
    scale, other = np.full_like(few, 0.2), np.zeros((1, 1))
    one = wasserstein_1(few, scale, other, other + 0.2)
    np.testing.assert_allclose(wasserstein_1(many, np.repeat(scale, 3, axis=0), other, other + 0.2), one, rtol=1e-9)


@pytest.mark.parametrize(
    ("mean", "scale", "message"),
    [
        (np.zeros(3), np.ones(3), "expected .s, n."),
        (np.zeros((3, 2)), np.ones((3, 1)), r"means have shape \[3, 2\] and scales \[3, 1\]"),
        (np.zeros((3, 1)), np.zeros((3, 1)), "scales finite and positive"),
        (np.full((3, 1), np.nan), np.ones((3, 1)), "means must be finite"),
        (np.zeros((3, 4)), np.ones((3, 4)), "4 rows cannot be compared with 1 rows"),
    ],
)
def test_what_is_no_mixture_is_refused(mean, scale, message):
    with pytest.raises(PredictionError, match=message):
        wasserstein_1(mean, scale, np.zeros((2, 1)), np.ones((2, 1)))


EDGES = np.linspace(-4, 4, 81)


def joint(x: np.ndarray, y: np.ndarray, sd: float = 1.0) -> float:
    return joint_prior_distance(np.histogram2d(x, y, [EDGES, EDGES])[0], EDGES, EDGES, len(x), sd)


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
