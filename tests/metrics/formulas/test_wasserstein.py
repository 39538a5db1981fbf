"""First Wasserstein distances against closed forms and SciPy's."""

import numpy as np
import pytest
from scipy.stats import wasserstein_distance

from bnn_atlas.metrics.errors import PredictionError
from bnn_atlas.metrics.formulas.wasserstein import MOST_DRAWS, wasserstein_1


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
        (np.full((3, 1), np.nan), np.ones((3, 1)), "means have to be finite"),
        (np.zeros((3, 4)), np.ones((3, 4)), "4 rows cannot be compared with 1 rows"),
    ],
)
def test_what_is_no_mixture_is_refused(mean, scale, message):
    with pytest.raises(PredictionError, match=message):
        wasserstein_1(mean, scale, np.zeros((2, 1)), np.ones((2, 1)))
