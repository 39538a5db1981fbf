from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import norm

from bnn_atlas.metrics import calibration
from bnn_atlas.metrics.predictive import PredictionError

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


def _confident(confidence: list[float], hit: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Two classes with these confidences in class 0; label 0 where hit."""
    confidence = np.array(confidence)
    return np.column_stack([confidence, 1 - confidence]), 1 - np.array(hit)


def _random(rows: int, classes: int, sharpness: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(rows + classes)
    probabilities = rng.dirichlet(np.full(classes, sharpness), size=rows)
    labels = np.array([rng.choice(classes, p=p) for p in probabilities**2 / (probabilities**2).sum(1, keepdims=True)])
    return probabilities, labels


def test_equal_mass_bins_hold_equally_many_rows():
    """Bins {0.6, 0.7}, {0.8, 0.9}, of 4 rows: |1 - 1.3| / 4 + |1 - 1.7| / 4; equal widths give other bins."""
    probabilities, labels = _confident([0.9, 0.6, 0.8, 0.7], [1, 1, 0, 0])
    assert calibration.expected_calibration_error_equal_mass(probabilities, labels, 2) == pytest.approx(0.25)
    # One bin (0.5, 1]: |2 - 3| / 4. Same here; with 4 bins: (0.5, 0.75] and (0.75, 1] are those above.
    assert calibration.expected_calibration_error(probabilities, labels, 2) == pytest.approx(0.25)
    # Five rows in two bins: three, then two.
    probabilities, labels = _confident([0.55, 0.6, 0.65, 0.9, 0.95], [1, 1, 1, 0, 1])
    by_hand = (abs(3 - 1.8) + abs(1 - 1.85)) / 5
    assert calibration.expected_calibration_error_equal_mass(probabilities, labels, 2) == pytest.approx(by_hand)


def test_equal_mass_bins_do_not_part_equal_confidences():
    """Three rows of 0.8 go into one bin with 0.6 (the second row's confidence is the edge), in whatever order."""
    confidence, hit = [0.6, 0.8, 0.8, 0.8, 0.9], [1, 1, 0, 0, 0]
    by_hand = (abs(2 - 3.0) + abs(0 - 0.9)) / 5
    for order in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3]):
        probabilities, labels = _confident([confidence[i] for i in order], [hit[i] for i in order])
        found = calibration.expected_calibration_error_equal_mass(probabilities, labels, 2)
        assert found == pytest.approx(by_hand)


def test_more_bins_than_rows():
    probabilities, labels = _confident([0.6, 0.9], [0, 1])
    assert calibration.expected_calibration_error_equal_mass(probabilities, labels, 50) == pytest.approx(0.35)
    assert calibration.maximum_calibration_error(probabilities, labels, 50) == pytest.approx(0.6)


def test_mce_is_the_largest_gap():
    probabilities, labels = _confident([0.6, 0.7, 0.9, 0.95], [0, 1, 1, 1])
    # (0.5, 0.75]: |0.5 - 0.65|; (0.75, 1]: |1 - 0.925|.
    assert calibration.maximum_calibration_error(probabilities, labels, 4) == pytest.approx(0.15)


def test_sce_by_hand():
    """Class 0: 0.9 in the upper bin |1 - 0.9|, 0.2 and 0.4 in the lower |1 - 0.6|; class 1 mirrored: 0.5 / 3 each."""
    probabilities = np.array([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]])
    labels = np.array([0, 1, 0])
    assert calibration.static_calibration_error(probabilities, labels, 2) == pytest.approx(0.5 / 3)
    # Bins of class 2 differ from those of the others.
    probabilities = np.array([[0.6, 0.4, 0.0], [0.1, 0.2, 0.7]])
    labels = np.array([1, 2])
    # class 0: 0.6 up |0 - 0.6|, 0.1 down |0 - 0.1|; class 1: both down |1 - 0.6|; class 2: |0|, |1 - 0.7|.
    by_hand = (0.6 + 0.1 + 0.4 + 0.3) / 6
    assert calibration.static_calibration_error(probabilities, labels, 2) == pytest.approx(by_hand)


@pytest.mark.parametrize("bins", [1, 4, 15])
def test_binned_errors_equal_their_definitions(bins):
    """Bin by bin with comparisons, on probabilities of which many lie on an edge."""
    probabilities, labels = _random(300, 5)
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
    ece = calibration.expected_calibration_error(probabilities, labels, bins)
    assert ece == pytest.approx(sum(share * gap for share, gap in gaps))
    assert calibration.maximum_calibration_error(probabilities, labels, bins) == pytest.approx(
        max(gap for _, gap in gaps)
    )
    assert calibration.static_calibration_error(probabilities, labels, bins) == pytest.approx(static)
    assert n == len(labels)


def test_published_ece_drops_the_confident():
    """500 rows at 0.995, all wrong, and 500 at 0.7, all right: 0.3 of the latter alone; the truth is 0.6475."""
    probabilities, labels = _confident([0.995] * 500 + [0.7] * 500, [0] * 500 + [1] * 500)
    assert calibration.expected_calibration_error_as_published(probabilities, labels) == pytest.approx(0.3)
    assert calibration.expected_calibration_error(probabilities, labels, 100) == pytest.approx(0.6475)
    assert calibration.maximum_calibration_error_as_published(probabilities, labels) == pytest.approx(0.3)
    assert calibration.maximum_calibration_error(probabilities, labels, 100) == pytest.approx(0.995)


def test_published_ece_is_the_right_one_where_nobody_is_confident_nor_on_an_edge():
    probabilities, labels = _random(400, 6, sharpness=2.0)
    assert probabilities.max() < 0.99
    published = calibration.expected_calibration_error_as_published(probabilities, labels)
    assert published == pytest.approx(calibration.expected_calibration_error(probabilities, labels, 100))
    # 0.99 itself is dropped, the number before it is not.
    for confidence, kept in ((0.99, False), (np.nextafter(0.99, 0), True)):
        probabilities, labels = _confident([0.7, confidence], [1, 0])
        published = calibration.expected_calibration_error_as_published(probabilities, labels)
        assert published == pytest.approx((0.3 + 0.99) / 2 if kept else 0.3)


def test_published_ece_puts_an_edge_into_the_upper_bin():
    """0.5 and 0.505, one right: one bin [0.5, 0.51) |1 - 1.005| / 2; with right edges two bins."""
    probabilities, labels = _confident([0.5, 0.505], [1, 0])
    assert calibration.expected_calibration_error_as_published(probabilities, labels) == pytest.approx(0.0025)
    right = calibration.expected_calibration_error(probabilities, labels, 100)
    assert right == pytest.approx((0.5 + 0.505) / 2)


def test_published_sce_by_hand():
    """Rank 0 has the smallest probabilities and the most probable classes, rank 2 the largest and the least probable.

    Row 0: 0.1, 0.2, 0.7 with the label the most probable class; row 1: 0.05, 0.35, 0.6, the label the least probable.
    """
    probabilities = np.array([[0.7, 0.2, 0.1], [0.05, 0.6, 0.35]])
    labels = np.array([0, 0])
    ranks = [(abs(1 - 0.1) + abs(0 - 0.05)) / 2, (0.2 + 0.35) / 2, (abs(0 - 0.7) + abs(1 - 0.6)) / 2]
    assert calibration.static_calibration_error_as_published(probabilities, labels) == pytest.approx(np.mean(ranks))


def test_published_sce_drops_the_confident_and_breaks_ties_upwards():
    probabilities = np.array([[0.995, 0.005], [0.3, 0.7]])
    # Rank 0 keeps both rows, 0.005 and 0.3, with hits 1 and 0; rank 1 keeps 0.7 only, whose class is the other one.
    labels = np.array([0, 0])
    by_hand = ((abs(1 - 0.005) + 0.3) / 2 + abs(1 - 0.7)) / 2
    assert calibration.static_calibration_error_as_published(probabilities, labels) == pytest.approx(by_hand)
    # Of two equal probabilities class 1 is the more probable: label 1 is rank 0.
    tied = np.array([[0.5, 0.5]])
    assert calibration.static_calibration_error_as_published(tied, np.array([1])) == pytest.approx(0.5)
    ranks_of_label = [calibration.static_calibration_error_as_published(
        np.array([[0.4, 0.4, 0.2]]), np.array([label])) for label in (1, 0, 2)]  # fmt: skip
    # Rank of label 1 is 0, of 0 is 1, of 2 is 2; ascending 0.2, 0.4, 0.4.
    np.testing.assert_allclose(ranks_of_label, [(0.8 + 0.4 + 0.4) / 3, (0.2 + 0.6 + 0.4) / 3, (0.2 + 0.4 + 0.6) / 3])


def test_published_equal_mass_ece_loses_the_rows_on_its_edges():
    """Six rows, two bins: every third from the smallest, and the largest, are edges: 0.55, 0.7, 0.95 are lost."""
    probabilities, labels = _confident([0.55, 0.6, 0.65, 0.7, 0.8, 0.95], [0, 1, 1, 0, 1, 0])
    by_hand = (abs(2 - 1.25) + abs(1 - 0.8)) / 6
    found = calibration.expected_calibration_error_equal_mass_as_published(probabilities, labels, bins=2)
    assert found == pytest.approx(by_hand)
    right = (abs(2 - 1.8) + abs(1 - 2.45)) / 6
    assert calibration.expected_calibration_error_equal_mass(probabilities, labels, 2) == pytest.approx(right)


@pytest.mark.parametrize("rows", [41, 60, 399])
def test_published_equal_mass_ece_equals_its_definition(rows):
    """With strict comparisons, for a number of rows that leaves a rest, none, and one."""
    probabilities, labels = _random(rows, 4)
    probabilities[: rows // 4] = [1.0, 0.0, 0.0, 0.0]
    confidence, hit = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    step = -(-rows // 20)
    edges = [*np.sort(confidence)[::step], confidence.max()]
    total = 0.0
    for low, high in pairwise(edges):
        inside = (confidence > low) & (confidence < high)
        if inside.any():
            total += inside.mean() * abs(hit[inside].mean() - confidence[inside].mean())
    published = calibration.expected_calibration_error_equal_mass_as_published(probabilities, labels)
    assert published == pytest.approx(total)
    assert published < calibration.expected_calibration_error_equal_mass(probabilities, labels, 20)


def test_calibration_errors_refuse_what_is_no_probability():
    for function in (
        calibration.expected_calibration_error_as_published,
        calibration.maximum_calibration_error_as_published,
        calibration.static_calibration_error_as_published,
        calibration.expected_calibration_error_equal_mass_as_published,
    ):
        with pytest.raises(PredictionError, match="row 0"):
            function(np.array([[np.nan, 1.0]]), np.array([0]))
