"""Published variants that depend on a defect of the published code: what each defect does, by hand."""

from itertools import pairwise

import numpy as np
import pytest

from bnn_atlas.metrics.formulas import classification, function_distances, reliability, variants
from bnn_atlas.metrics.tables.measurement import PredictionError
from tests.metrics.formulas.test_reliability import confident, random_rows


def test_published_error_weights_the_levels_and_averages_once_more():
    nominal, observed = np.array([0.5, 1.0]), np.array([0.4, 0.6])
    assert reliability.calibration_error(nominal, observed) == pytest.approx(np.sqrt((0.01 + 0.16) / 2))
    found = variants.calibration_error_sommer(nominal, observed, kappa=1.0)
    assert found == pytest.approx(np.sqrt((0.01 / 3 + 0.16 * 2 / 3) / 2))
    flat = variants.calibration_error_sommer(nominal, observed, kappa=0.0)
    assert flat == pytest.approx(reliability.calibration_error(nominal, observed) / np.sqrt(2))


def test_published_ece_drops_theconfident():
    """500 rows at 0.995, all wrong, and 500 at 0.7, all right: 0.3 of the latter alone; the truth is 0.6475."""
    probabilities, labels = confident([0.995] * 500 + [0.7] * 500, [0] * 500 + [1] * 500)
    assert variants.ece_uppal(probabilities, labels) == pytest.approx(0.3)
    assert reliability.expected_calibration_error(probabilities, labels, 100) == pytest.approx(0.6475)
    assert variants.mce_uppal(probabilities, labels) == pytest.approx(0.3)
    assert reliability.maximum_calibration_error(probabilities, labels, 100) == pytest.approx(0.995)


def test_published_ece_is_the_right_one_where_nobody_isconfident_nor_on_an_edge():
    probabilities, labels = random_rows(400, 6, sharpness=2.0)
    assert probabilities.max() < 0.99
    found = variants.ece_uppal(probabilities, labels)
    assert found == pytest.approx(reliability.expected_calibration_error(probabilities, labels, 100))
    # 0.99 itself is dropped, the number before it is not.
    for confidence, kept in ((0.99, False), (np.nextafter(0.99, 0), True)):
        probabilities, labels = confident([0.7, confidence], [1, 0])
        found = variants.ece_uppal(probabilities, labels)
        assert found == pytest.approx((0.3 + 0.99) / 2 if kept else 0.3)


def test_published_ece_puts_an_edge_into_the_upper_bin():
    """0.5 and 0.505, one right: one bin [0.5, 0.51) |1 - 1.005| / 2; with right edges two bins."""
    probabilities, labels = confident([0.5, 0.505], [1, 0])
    assert variants.ece_uppal(probabilities, labels) == pytest.approx(0.0025)
    right = reliability.expected_calibration_error(probabilities, labels, 100)
    assert right == pytest.approx((0.5 + 0.505) / 2)


def test_published_sce_by_hand():
    """Rank 0 has the smallest probabilities and the most probable classes, rank 2 the largest and the least probable.

    Row 0: 0.1, 0.2, 0.7 with the label the most probable class; row 1: 0.05, 0.35, 0.6, the label the least probable.
    """
    probabilities = np.array([[0.7, 0.2, 0.1], [0.05, 0.6, 0.35]])
    labels = np.array([0, 0])
    ranks = [(abs(1 - 0.1) + abs(0 - 0.05)) / 2, (0.2 + 0.35) / 2, (abs(0 - 0.7) + abs(1 - 0.6)) / 2]
    assert variants.sce_uppal(probabilities, labels) == pytest.approx(np.mean(ranks))


def test_published_sce_of_calibrated_predictions_is_far_from_0():
    """Labels drawn from their own probabilities: the ranks are crossed, so that the error is of another size."""
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.full(10, 0.3), 8000)
    labels = (rng.random((8000, 1)) > probabilities.cumsum(axis=1)).sum(axis=1).clip(max=9)
    assert reliability.static_calibration_error(probabilities, labels, 100) < 0.03
    assert variants.sce_uppal(probabilities, labels) > 0.1


def test_published_sce_drops_theconfident_and_breaks_ties_upwards():
    probabilities = np.array([[0.995, 0.005], [0.3, 0.7]])
    # Rank 0 keeps both rows, 0.005 and 0.3, with hits 1 and 0; rank 1 keeps 0.7 only, whose class is the other one.
    labels = np.array([0, 0])
    by_hand = ((abs(1 - 0.005) + 0.3) / 2 + abs(1 - 0.7)) / 2
    assert variants.sce_uppal(probabilities, labels) == pytest.approx(by_hand)
    # Of two equal probabilities class 1 is the more probable: label 1 is rank 0.
    tied = np.array([[0.5, 0.5]])
    assert variants.sce_uppal(tied, np.array([1])) == pytest.approx(0.5)
    ranks_of_label = [variants.sce_uppal(
        np.array([[0.4, 0.4, 0.2]]), np.array([label])) for label in (1, 0, 2)]  # fmt: skip
    # Rank of label 1 is 0, of 0 is 1, of 2 is 2; ascending 0.2, 0.4, 0.4.
    np.testing.assert_allclose(ranks_of_label, [(0.8 + 0.4 + 0.4) / 3, (0.2 + 0.6 + 0.4) / 3, (0.2 + 0.4 + 0.6) / 3])


def test_published_equal_mass_ece_loses_the_rows_on_its_edges():
    """Six rows, two bins: every third from the smallest, and the largest, are edges: 0.55, 0.7, 0.95 are lost."""
    probabilities, labels = confident([0.55, 0.6, 0.65, 0.7, 0.8, 0.95], [0, 1, 1, 0, 1, 0])
    by_hand = (abs(2 - 1.25) + abs(1 - 0.8)) / 6
    found = variants.ece_izmailov(probabilities, labels, bins=2)
    assert found == pytest.approx(by_hand)
    right = (abs(2 - 1.8) + abs(1 - 2.45)) / 6
    assert reliability.expected_calibration_error_equal_mass(probabilities, labels, 2) == pytest.approx(right)


@pytest.mark.parametrize("rows", [41, 60, 399])
def test_published_equal_mass_ece_equals_its_definition(rows):
    """With strict comparisons, for a number of rows that leaves a rest, none, and one."""
    probabilities, labels = random_rows(rows, 4)
    probabilities[: rows // 4] = [1.0, 0.0, 0.0, 0.0]
    confidence, hit = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    step = -(-rows // 20)
    edges = [*np.sort(confidence)[::step], confidence.max()]
    total = 0.0
    for low, high in pairwise(edges):
        inside = (confidence > low) & (confidence < high)
        if inside.any():
            total += inside.mean() * abs(hit[inside].mean() - confidence[inside].mean())
    found = variants.ece_izmailov(probabilities, labels)
    assert found == pytest.approx(total)
    assert found < reliability.expected_calibration_error_equal_mass(probabilities, labels, 20)


def test_calibration_errors_refuse_what_is_no_probability():
    for function in (
        variants.ece_uppal,
        variants.mce_uppal,
        variants.sce_uppal,
        variants.ece_izmailov,
    ):
        with pytest.raises(PredictionError, match="row 0"):
            function(np.array([[np.nan, 1.0]]), np.array([0]))


def test_published_fpr_interpolates_the_threshold():
    """The 5th percentile of 1 to 20 is 1.95: the outside score 1.96 passes it, but not 2."""
    inside = np.arange(1.0, 21.0)
    assert classification.fpr95(inside, np.array([1.96])) == 0
    assert variants.fpr95_uppal(inside, np.array([1.96])) == 1
    # The 5th percentile of 0 to 20 is a score: both agree.
    outside = np.linspace(0, 20, 77)
    assert variants.fpr95_uppal(np.arange(21.0), outside) == classification.fpr95(np.arange(21.0), outside)


def test_wasserstein_of_deviations_is_not_that_of_their_roots() -> None:
    mean, scale = np.array([[0.0], [2.0]]), np.array([[1.0], [4.0]])
    assert function_distances.wasserstein_squared(mean, scale)[0, 1] == 4.0 + 9.0
    assert variants.wasserstein_squared_sommer(mean, scale)[0, 1] == 4.0 + 1.0
    with pytest.raises(PredictionError, match="a scale that is not positive"):
        variants.wasserstein_squared_sommer(mean, -scale)
