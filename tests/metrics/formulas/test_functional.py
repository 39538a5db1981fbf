import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from bnn_atlas.metrics.errors import PredictionError
from bnn_atlas.metrics.formulas import functional


def predictions(draws: int, rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(draws, rows)), rng.uniform(0.1, 2.0, size=(draws, rows))


def test_wasserstein_by_hand() -> None:
    mean = np.array([[0.0, 1.0], [3.0, 1.0], [0.0, 0.0]])
    scale = np.array([[1.0, 2.0], [1.0, 4.0], [0.5, 2.0]])
    expected = [[0, 9 + 4, 1 + 0.25], [13, 0, 9 + 1 + 0.25 + 4], [1.25, 14.25, 0]]
    np.testing.assert_allclose(functional.wasserstein_squared(mean, scale), expected, rtol=1e-14)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 6), st.integers(1, 9), st.integers(0, 1000))
def test_wasserstein_is_the_root_of_a_metric(draws: int, rows: int, seed: int) -> None:
    root = np.sqrt(functional.wasserstein_squared(*predictions(draws, rows, seed)))
    assert (np.diag(root) == 0).all()
    np.testing.assert_array_equal(root, root.T)
    assert (root[:, None] <= root[:, :, None] + root[None] + 1e-12).all()


def test_near_functions_far_from_zero_keep_their_distance() -> None:
    mean = np.array([[1e6, 1e6], [1e6 + 1e-3, 1e6]])
    found = functional.wasserstein_squared(mean, np.ones((2, 2)))
    np.testing.assert_allclose(found[0, 1], (mean[1, 0] - mean[0, 0]) ** 2, rtol=1e-12)


def test_little_memory_gives_the_same_numbers() -> None:
    mean, scale = predictions(7, 40)
    for function in (functional.wasserstein_squared, functional.significance):
        np.testing.assert_allclose(function(mean, scale, 64 * 7 * 3), function(mean, scale), rtol=1e-12)


def test_significance_by_hand() -> None:
    # Correlation 1: sd of the difference is |sd_a - sd_b| = 1 at both rows; its mean is 1.
    mean, scale = np.array([[0.0, 2.0], [-2.0, 2.0]]), np.array([[1.0, 1.0], [2.0, 2.0]])
    np.testing.assert_allclose(functional.significance(mean, scale), [[0, np.sqrt(2)], [-np.sqrt(2), 0]], rtol=1e-12)
    # Correlation -1: sd 1 + 2 = 3.
    mean = np.array([[0.0, 2.0], [2.0, -2.0]])
    assert functional.significance(mean, scale)[0, 1] == pytest.approx(np.sqrt(2) * 1 / 3, rel=1e-12)


def test_significance_is_the_formula_pair_by_pair() -> None:
    mean, scale = predictions(5, 30, seed=3)
    mean += np.arange(5)[:, None] / 4
    found = functional.significance(mean.astype(np.float32), scale.astype(np.float32))
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
    z = functional.significance(mean, scale)
    assert z[0, 1] < -1e6  # the difference is certain up to rounding
    assert z[0, 2] == 0.0  # the same function
    assert np.isnan(z[3, :3]).all()
    assert np.isnan(z[:3, 3]).all()
    assert (np.diag(z) == 0).all()
    pairs = functional.pairs_alike(z)
    assert pairs == (6, 1, 3)
    assert pairs.share == pytest.approx(1 / 3)
    assert np.isnan(functional.pairs_alike(functional.significance(mean[3:], scale[3:])).share)


def test_bad_predictions_are_refused_in_words() -> None:
    mean, scale = predictions(3, 4)
    with pytest.raises(PredictionError, match=r"mean has shape \(3, 4\) and scale \(3, 3\)"):
        functional.wasserstein_squared(mean, scale[:, :3])
    with pytest.raises(PredictionError, match="expected"):
        functional.wasserstein_squared(mean[:0], scale[:0])
    for bad in (np.nan, np.inf, 0.0, -1.0):
        wrong = scale.copy()
        wrong[1, 2] = bad
        with pytest.raises(PredictionError, match=r"1 of 3 draws .* first draw 1"):
            functional.significance(mean, wrong)
    with pytest.raises(PredictionError, match="at least 2 rows"):
        functional.significance(mean[:, :1], scale[:, :1])
    with pytest.raises(PredictionError, match=r"level = 1\.5"):
        functional.mixture_quantile(mean, scale, 1.5)


@pytest.mark.parametrize("level", [0.001, 0.05, 0.5, 0.95])
def test_quantile_of_one_gaussian_in_many_draws(level: float) -> None:
    mean, scale = np.tile([0.5, -3.0], (6, 1)), np.tile([0.1, 2.0], (6, 1))
    np.testing.assert_allclose(
        functional.mixture_quantile(mean, scale, level), norm.ppf(level, mean[0], scale[0]), rtol=1e-12
    )


def test_quantile_of_two_gaussians() -> None:
    scale = np.ones((2, 1))
    assert abs(functional.mixture_quantile(np.array([[-3.0], [3.0]]), scale, 0.5)[0]) < 1e-12
    far = np.array([[-10.0], [10.0]])  # the lower one lies below the quantile
    np.testing.assert_allclose(functional.mixture_quantile(far, scale, 0.95), norm.ppf(0.9, 10.0), rtol=1e-12)
    mean, scale = predictions(9, 4)
    found = functional.mixture_quantile(mean, scale, 0.3)
    np.testing.assert_allclose(norm.cdf(found, mean, scale).mean(axis=0), 0.3, rtol=1e-12)
