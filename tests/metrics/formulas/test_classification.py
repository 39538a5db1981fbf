import numpy as np
import pytest

from bnn_atlas.metrics.errors import PredictionError
from bnn_atlas.metrics.formulas import classification
from bnn_atlas.metrics.formulas.classification import as_labelled, as_probabilities

TABLE = np.array([[0.5, 0.25, 0.25], [0.1, 0.7, 0.2], [0.4, 0.4, 0.2], [0.0, 0.0, 1.0]])
LABELS = np.array([0, 2, 1, 2])


def _random(rows: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    probabilities = rng.dirichlet(np.full(classes, 0.3), size=rows)
    return probabilities, rng.integers(classes, size=rows)


def test_scores_by_hand():
    """Row 2 is a tie that class 0 wins, so rows 0 and 3 are right."""
    np.testing.assert_array_equal(classification.hits(TABLE, LABELS), [1, 0, 0, 1])
    # 0.25 + 0.0625 + 0.0625; 0.01 + 0.49 + 0.64; 0.16 + 0.36 + 0.04; 0.
    np.testing.assert_allclose(classification.brier_rows(TABLE, LABELS), [0.375, 1.14, 0.56, 0.0])
    np.testing.assert_array_equal(classification.confidence(TABLE), [0.5, 0.7, 0.4, 1])
    np.testing.assert_allclose(classification.one_minus_confidence(TABLE), [0.5, 0.3, 0.6, 0], rtol=1e-12)
    by_hand = [1.5 * np.log(2), -(0.1 * np.log(0.1) + 0.7 * np.log(0.7) + 0.2 * np.log(0.2))]
    np.testing.assert_allclose(classification.entropy(TABLE)[:2], by_hand)
    assert classification.entropy(TABLE)[3] == 0
    np.testing.assert_allclose(classification.entropy(np.full((3, 5), 0.2)), np.log(5))


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_any_floating_type_is_computed_in_double(kind):
    probabilities, labels = _random(300, 10)
    rounded = probabilities.astype(kind)
    found = classification.brier_rows(rounded, labels).mean()
    assert found == pytest.approx(classification.brier_rows(rounded.astype(np.float64), labels).mean(), rel=1e-15)
    assert found == pytest.approx(classification.brier_rows(probabilities, labels).mean(), rel=2e-3)


@pytest.mark.parametrize(
    ("probabilities", "labels", "message"),
    [
        ([[0.5, 0.6]], [0], "row 0 add up to 1.1"),
        ([[0.5, 0.5], [np.nan, 1.0]], [0, 0], "row 1 add up to nan"),
        ([[np.inf, 0.0]], [0], "row 0 add up to inf"),
        ([[1.5, -0.5]], [0], "the smallest is -0.5"),
        ([[-0.1, -2.3]], [0], "not logits or their logarithms"),
        ([[0.5, 0.5]], [2], "label 2 of row 0 has no probability: classes are 0 to 1"),
        ([[0.5, 0.5], [0.5, 0.5]], [0, -1], "label -1 of row 1"),
        ([[0.5, 0.5]], [0, 1], r"labels have shape \[2\] for 1 rows"),
        ([[0.5, 0.5]], [0.0], "labels are float64"),
        ([0.5, 0.5], [0, 1], r"shape \[2\]"),
        ([[1.0], [1.0]], [0, 0], r"shape \[2, 1\]"),
        ([[1, 0]], [0], "probabilities are int64"),
    ],
)
def test_wrong_arrays_are_named(probabilities, labels, message):
    with pytest.raises(PredictionError, match=message):
        as_labelled(np.array(probabilities), np.array(labels))


def test_no_rows_are_refused():
    with pytest.raises(PredictionError, match=r"\[0, 3\]"):
        as_probabilities(np.empty((0, 3)))


def test_checking_copies_nothing_that_is_right_already():
    assert as_probabilities(TABLE) is TABLE
