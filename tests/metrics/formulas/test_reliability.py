import numpy as np
import pytest
from scipy.stats import norm

from bnn_atlas.metrics.formulas import reliability

LEVELS = np.array([0.5, 0.75, 0.9, 0.95])


def test_coverage_by_hand_with_the_ends_of_the_interval_inside():
    pit = np.array([0.5, 0.25, 0.75, 0.2, 0.99])
    np.testing.assert_allclose(reliability.coverage(pit, np.array([0.4, 0.5, 0.7, 0.99])), [0.2, 0.6, 0.8, 1.0])


def test_coverage_equals_asking_whether_y_is_between_the_quantiles():
    rng = np.random.default_rng(0)
    mean, scale, y = rng.normal(size=200), rng.uniform(0.5, 2, size=200), rng.normal(size=200)
    for level, covered in zip(LEVELS, reliability.coverage(norm.cdf(y, mean, scale), LEVELS), strict=True):
        low, high = norm.interval(level, mean, scale)
        assert covered == pytest.approx(((low <= y) & (y <= high)).mean())


def test_calibrated_predictions_have_no_error():
    pit = (np.arange(10_000) + 0.5) / 10_000
    covered = reliability.coverage(pit, LEVELS)
    assert reliability.calibration_error(LEVELS, covered) < 2e-4
    np.testing.assert_allclose(reliability.pit_histogram(pit, 20), 1 / 20)


def test_overconfident_predictions_have_the_error_of_their_closed_form():
    """The predictive sd is half the true one: coverage at level a is 2 Phi(Phi^-1((1 + a) / 2) / 2) - 1."""
    y = norm.ppf((np.arange(10_000) + 0.5) / 10_000)
    covered = reliability.coverage(norm.cdf(y / 0.5), LEVELS)
    exact = 2 * norm.cdf(norm.ppf((1 + LEVELS) / 2) / 2) - 1
    np.testing.assert_allclose(covered, exact, atol=2e-4)
    error = np.sqrt(np.mean((LEVELS - exact) ** 2))
    assert reliability.calibration_error(LEVELS, covered) == pytest.approx(error, abs=2e-4)
    histogram = reliability.pit_histogram(norm.cdf(y / 0.5), 10)
    assert histogram[0] > 0.2
    assert histogram[-1] > 0.2


def test_pit_histogram_counts_both_ends():
    np.testing.assert_allclose(reliability.pit_histogram(np.array([0.0, 0.1, 0.5, 1.0]), 2), [0.5, 0.5])


@pytest.mark.parametrize(
    ("probabilities", "labels", "bins", "error"),
    [
        # Bins (0.5, 0.75] and (0.75, 1] of 4: gaps |0.5 - 0.65| * 2/4 and |1 - 0.9| * 2/4.
        ([[0.6, 0.4], [0.3, 0.7], [0.9, 0.1], [0.1, 0.9]], [0, 0, 0, 1], 4, 0.125),
        # A right edge is in its own bin: (0, 0.5] has 0.5, wrong; (0.5, 1] has 0.8 and 1, right. In one bin: 0.1.
        ([[0.5, 0.5], [0.2, 0.8], [0.0, 1.0]], [1, 1, 1], 2, (0.5 + 0.2) / 3),
        # 500 certain and wrong and 500 at 0.7 and right: (1 * 500 + 0.3 * 500) / 1000, whatever the last bin does.
        ([[0.0, 1.0]] * 500 + [[0.7, 0.3]] * 500, [0] * 1000, 100, 0.65),
    ],
    ids=["two bins", "right edge", "certain and wrong"],
)
def test_ece_by_hand(probabilities, labels, bins, error):
    found = reliability.expected_calibration_error(np.array(probabilities), np.array(labels), bins)
    assert found == pytest.approx(error)


def test_ece_takes_float32_confidences_just_above_one():
    probabilities = np.array([[np.nextafter(np.float32(1), np.float32(2)), 0.0]], dtype=np.float32)
    assert reliability.expected_calibration_error(probabilities, np.array([0]), bins=15) == pytest.approx(0, abs=1e-6)


def confident(confidence: list[float], hit: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Two classes with these confidences in class 0; label 0 where hit."""
    confidence = np.array(confidence)
    return np.column_stack([confidence, 1 - confidence]), 1 - np.array(hit)


def random_rows(rows: int, classes: int, sharpness: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(rows + classes)
    probabilities = rng.dirichlet(np.full(classes, sharpness), size=rows)
    labels = np.array([rng.choice(classes, p=p) for p in probabilities**2 / (probabilities**2).sum(1, keepdims=True)])
    return probabilities, labels


def test_equal_mass_bins_hold_equally_many_rows():
    """Bins {0.6, 0.7}, {0.8, 0.9}, of 4 rows: |1 - 1.3| / 4 + |1 - 1.7| / 4; equal widths give other bins."""
    probabilities, labels = confident([0.9, 0.6, 0.8, 0.7], [1, 1, 0, 0])
    assert reliability.expected_calibration_error_equal_mass(probabilities, labels, 2) == pytest.approx(0.25)
    # One bin (0.5, 1]: |2 - 3| / 4. Same here; with 4 bins: (0.5, 0.75] and (0.75, 1] are those above.
    assert reliability.expected_calibration_error(probabilities, labels, 2) == pytest.approx(0.25)
    # Five rows in two bins: three, then two.
    probabilities, labels = confident([0.55, 0.6, 0.65, 0.9, 0.95], [1, 1, 1, 0, 1])
    by_hand = (abs(3 - 1.8) + abs(1 - 1.85)) / 5
    assert reliability.expected_calibration_error_equal_mass(probabilities, labels, 2) == pytest.approx(by_hand)


def test_equal_mass_bins_do_not_part_equal_confidences():
    """Three rows of 0.8 go into one bin with 0.6 (the second row's confidence is the edge), in whatever order."""
    confidence, hit = [0.6, 0.8, 0.8, 0.8, 0.9], [1, 1, 0, 0, 0]
    by_hand = (abs(2 - 3.0) + abs(0 - 0.9)) / 5
    for order in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3]):
        probabilities, labels = confident([confidence[i] for i in order], [hit[i] for i in order])
        found = reliability.expected_calibration_error_equal_mass(probabilities, labels, 2)
        assert found == pytest.approx(by_hand)


def test_more_bins_than_rows():
    probabilities, labels = confident([0.6, 0.9], [0, 1])
    assert reliability.expected_calibration_error_equal_mass(probabilities, labels, 50) == pytest.approx(0.35)
    assert reliability.maximum_calibration_error(probabilities, labels, 50) == pytest.approx(0.6)


def test_mce_is_the_largest_gap():
    probabilities, labels = confident([0.6, 0.7, 0.9, 0.95], [0, 1, 1, 1])
    # (0.5, 0.75]: |0.5 - 0.65|; (0.75, 1]: |1 - 0.925|.
    assert reliability.maximum_calibration_error(probabilities, labels, 4) == pytest.approx(0.15)


def test_sce_by_hand():
    """Class 0: 0.9 in the upper bin |1 - 0.9|, 0.2 and 0.4 in the lower |1 - 0.6|; class 1 mirrored: 0.5 / 3 each."""
    probabilities = np.array([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]])
    labels = np.array([0, 1, 0])
    assert reliability.static_calibration_error(probabilities, labels, 2) == pytest.approx(0.5 / 3)
    # Bins of class 2 differ from those of the others.
    probabilities = np.array([[0.6, 0.4, 0.0], [0.1, 0.2, 0.7]])
    labels = np.array([1, 2])
    # class 0: 0.6 up |0 - 0.6|, 0.1 down |0 - 0.1|; class 1: both down |1 - 0.6|; class 2: |0|, |1 - 0.7|.
    by_hand = (0.6 + 0.1 + 0.4 + 0.3) / 6
    assert reliability.static_calibration_error(probabilities, labels, 2) == pytest.approx(by_hand)


@pytest.mark.parametrize("bins", [1, 4, 15])
def test_binned_errors_equal_their_definitions(bins):
    """Bin by bin with comparisons, on probabilities of which many lie on an edge."""
    probabilities, labels = random_rows(300, 5)
    probabilities = np.round(probabilities, 1)
    probabilities = probabilities[np.isclose(probabilities.sum(axis=1), 1)]
    labels = labels[: len(probabilities)]
    assert len(labels) > 60
    n, k = probabilities.shape
    confidence, hit = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    gaps, static = [], 0.0
    for b in range(bins):
        low, high = b / bins, (b + 1) / bins
        inside = (confidence > low) & (confidence <= high)
        if inside.any():
            gaps.append((inside.mean(), abs(hit[inside].mean() - confidence[inside].mean())))
        for j in range(k):
            p = probabilities[:, j]
            inside = ((p > low) | ((p == 0) & (b == 0))) & (p <= high)
            if inside.any():
                static += inside.mean() * abs((labels[inside] == j).mean() - p[inside].mean()) / k
    ece = reliability.expected_calibration_error(probabilities, labels, bins)
    assert ece == pytest.approx(sum(share * gap for share, gap in gaps))
    assert reliability.maximum_calibration_error(probabilities, labels, bins) == pytest.approx(
        max(gap for _, gap in gaps)
    )
    assert reliability.static_calibration_error(probabilities, labels, bins) == pytest.approx(static)
    assert n == len(labels)


def test_a_power_undoes_the_same_power_of_true_probabilities():
    """Labels are drawn with the probabilities p; p^2 (normalised) needs the power 1/2, and then scores as p does."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 20_000)
    labels = (rng.random(len(p))[:, None] > p.cumsum(axis=1)).sum(axis=1)
    sharp = p**2 / (p**2).sum(axis=1, keepdims=True)
    found = reliability.recalibrated(sharp, labels)
    np.testing.assert_allclose(found.powers, 0.5, atol=0.02)
    truth = np.log(p[np.arange(len(p)), labels])
    assert found.log_density.mean() == pytest.approx(truth.mean(), abs=2e-4)
    assert np.log(sharp[np.arange(len(p)), labels]).mean() < truth.mean() - 0.05


def test_each_half_is_scored_with_the_power_of_the_other():
    """Two classes with p = 0.8: a half with r of its m labels right has the odds (0.8 / 0.2)^b = r / (m - r)."""
    p, labels = np.tile([0.8, 0.2], (40, 1)), np.array([0] * 30 + [1] * 10)
    first, second = np.array_split(np.random.default_rng(0).permutation(40), 2)
    found = reliability.recalibrated(p, labels)
    for scored, fitted, power in ((first, second, found.powers[0]), (second, first, found.powers[1])):
        right = (labels[fitted] == 0).mean()
        assert power == pytest.approx(np.log(right / (1 - right)) / np.log(4), abs=1e-5)
        expected = np.where(labels[scored] == 0, np.log(right), np.log(1 - right))
        np.testing.assert_allclose(found.log_density[scored], expected, atol=1e-5)


def test_powers_stay_between_their_limits():
    p = np.tile([0.8, 0.2], (10, 1))
    assert reliability.recalibrated(p, np.zeros(10, int)).powers == (reliability.POWERS[1],) * 2
    found = reliability.recalibrated(p, np.ones(10, int))
    assert found.powers == (reliability.POWERS[0],) * 2
    assert np.isfinite(reliability.recalibrated(np.tile([1.0, 0.0], (10, 1)), np.ones(10, int)).log_density).all()
