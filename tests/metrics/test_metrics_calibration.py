import numpy as np
import pytest
from scipy.stats import norm

from bnn_atlas.metrics import calibration

LEVELS = np.array([0.5, 0.75, 0.9, 0.95])


def test_coverage_by_hand_with_the_ends_of_the_interval_inside():
    pit = np.array([0.5, 0.25, 0.75, 0.2, 0.99])
    np.testing.assert_allclose(calibration.coverage(pit, np.array([0.4, 0.5, 0.7, 0.99])), [0.2, 0.6, 0.8, 1.0])


def test_coverage_equals_asking_whether_y_is_between_the_quantiles():
    rng = np.random.default_rng(0)
    mean, scale, y = rng.normal(size=200), rng.uniform(0.5, 2, size=200), rng.normal(size=200)
    for level, covered in zip(LEVELS, calibration.coverage(norm.cdf(y, mean, scale), LEVELS), strict=True):
        low, high = norm.interval(level, mean, scale)
        assert covered == pytest.approx(((low <= y) & (y <= high)).mean())


def test_calibrated_predictions_have_no_error():
    pit = (np.arange(10_000) + 0.5) / 10_000
    covered = calibration.coverage(pit, LEVELS)
    assert calibration.calibration_error(LEVELS, covered) < 2e-4
    np.testing.assert_allclose(calibration.pit_histogram(pit, 20), 1 / 20)


def test_overconfident_predictions_have_the_error_of_their_closed_form():
    """The predictive sd is half the true one: coverage at level a is 2 Phi(Phi^-1((1 + a) / 2) / 2) - 1."""
    y = norm.ppf((np.arange(10_000) + 0.5) / 10_000)
    covered = calibration.coverage(norm.cdf(y / 0.5), LEVELS)
    exact = 2 * norm.cdf(norm.ppf((1 + LEVELS) / 2) / 2) - 1
    np.testing.assert_allclose(covered, exact, atol=2e-4)
    error = np.sqrt(np.mean((LEVELS - exact) ** 2))
    assert calibration.calibration_error(LEVELS, covered) == pytest.approx(error, abs=2e-4)
    histogram = calibration.pit_histogram(norm.cdf(y / 0.5), 10)
    assert histogram[0] > 0.2
    assert histogram[-1] > 0.2


def test_published_error_weights_the_levels_and_averages_once_more():
    nominal, observed = np.array([0.5, 1.0]), np.array([0.4, 0.6])
    assert calibration.calibration_error(nominal, observed) == pytest.approx(np.sqrt((0.01 + 0.16) / 2))
    published = calibration.calibration_error_as_published(nominal, observed, kappa=1.0)
    assert published == pytest.approx(np.sqrt((0.01 / 3 + 0.16 * 2 / 3) / 2))
    flat = calibration.calibration_error_as_published(nominal, observed, kappa=0.0)
    assert flat == pytest.approx(calibration.calibration_error(nominal, observed) / np.sqrt(2))


def test_pit_histogram_counts_both_ends():
    np.testing.assert_allclose(calibration.pit_histogram(np.array([0.0, 0.1, 0.5, 1.0]), 2), [0.5, 0.5])


def test_ece_by_hand():
    """Bins (0.5, 0.75] and (0.75, 1] of 4: gaps |0.5 - 0.65| * 2/4 and |1 - 0.9| * 2/4."""
    probabilities = np.array([[0.6, 0.4], [0.3, 0.7], [0.9, 0.1], [0.1, 0.9]])
    labels = np.array([0, 0, 0, 1])
    assert calibration.expected_calibration_error(probabilities, labels, bins=4) == pytest.approx(0.125)


def test_ece_puts_a_right_edge_into_its_own_bin_and_drops_nobody():
    probabilities = np.array([[0.5, 0.5], [0.2, 0.8], [0.0, 1.0]])
    labels = np.array([1, 1, 1])
    # (0, 0.5]: confidence 0.5, wrong; (0.5, 1]: confidences 0.8 and 1, both right. In one bin: |-0.5 + 0.2| / 3.
    assert calibration.expected_calibration_error(probabilities, labels, bins=2) == pytest.approx((0.5 + 0.2) / 3)


def test_ece_of_certain_wrong_answers():
    """500 certain and wrong beside 500 at 0.7 and right: (1 * 500 + 0.3 * 500) / 1000, whatever the last bin does."""
    probabilities = np.array([[0.0, 1.0]] * 500 + [[0.7, 0.3]] * 500)
    labels = np.zeros(1000, dtype=int)
    assert calibration.expected_calibration_error(probabilities, labels, bins=100) == pytest.approx(0.65)


def test_ece_takes_float32_confidences_just_above_one():
    probabilities = np.array([[np.nextafter(np.float32(1), np.float32(2)), 0.0]], dtype=np.float32)
    assert calibration.expected_calibration_error(probabilities, np.array([0]), bins=15) == pytest.approx(0, abs=1e-6)
