import os
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, brier_score_loss

from bnn_atlas.metrics import calibration, classification
from bnn_atlas.metrics.classification import classification_scores
from bnn_atlas.metrics.predictive import PredictionError
from bnn_atlas.metrics.probabilities import as_probabilities

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
    np.testing.assert_allclose(classification.doubt(TABLE), [0.5, 0.3, 0.6, 0], rtol=1e-12)
    by_hand = [1.5 * np.log(2), -(0.1 * np.log(0.1) + 0.7 * np.log(0.7) + 0.2 * np.log(0.2))]
    np.testing.assert_allclose(classification.entropy(TABLE)[:2], by_hand)
    assert classification.entropy(TABLE)[3] == 0
    np.testing.assert_allclose(classification.entropy(np.full((3, 5), 0.2)), np.log(5))


@pytest.mark.parametrize("classes", [2, 7])
def test_scores_against_scikit_learn(classes):
    probabilities, labels = _random(500, classes)
    scores = {s.name: s.value for s in classification_scores(probabilities, labels)}
    assert scores["accuracy"] == accuracy_score(labels, probabilities.argmax(axis=1))
    score = brier_score_loss(labels, probabilities, labels=np.arange(classes), scale_by_half=False)
    assert scores["brier"] == pytest.approx(score, rel=1e-12)


def test_all_scores_have_names_values_and_errors():
    probabilities, labels = _random(400, 4)
    scores = {s.name: s for s in classification_scores(probabilities.astype(np.float32), labels)}
    assert list(scores) == [
        "accuracy", "brier", "mean_maximum_confidence", "predictive_entropy", "ece", "ece_equal_mass", "mce",
        "sce", "ece_as_published", "mce_as_published", "sce_as_published", "ece_equal_mass_as_published",
    ]  # fmt: skip
    assert scores["ece"].value == pytest.approx(
        calibration.expected_calibration_error(probabilities, labels, 15), abs=1e-6
    )
    right = classification.hits(probabilities, labels)
    assert scores["accuracy"].standard_error == pytest.approx(right.std(ddof=1) / 20)
    assert all(isinstance(s.value, float) and np.isfinite(s.value) for s in scores.values())
    assert "0.99" in scores["ece_as_published"].note


def test_a_published_score_without_rows_says_so():
    scores = {s.name: s for s in classification_scores(np.eye(3), np.arange(3))}
    assert np.isnan(scores["ece_as_published"].value)
    assert "no row is left" in scores["ece_as_published"].note
    assert scores["ece"].value == 0
    assert "no row is left" not in scores["ece_equal_mass_as_published"].note


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
        classification_scores(np.array(probabilities), np.array(labels))


def test_no_rows_are_refused():
    with pytest.raises(PredictionError, match=r"\[0, 3\]"):
        as_probabilities(np.empty((0, 3)))


def test_checking_copies_nothing_that_is_right_already():
    assert as_probabilities(TABLE) is TABLE


def test_a_test_set_of_a_hundred_classes_is_scored_quickly():
    rng = np.random.default_rng(0)
    raw = rng.random((50_000, 100), dtype=np.float32) ** 8
    probabilities, labels = raw / raw.sum(axis=1, keepdims=True), rng.integers(100, size=50_000)
    start = time.process_time()
    classification_scores(probabilities, labels)
    assert time.process_time() - start < 6


def test_published_predictions_of_hmc_have_their_published_scores():
    """Izmailov et al.'s CIFAR-10 predictions, in TFDS order: accuracy 91.44 %."""
    mirror = os.environ.get("BNN_ATLAS_MIRROR")
    if not mirror:
        pytest.skip("BNN_ATLAS_MIRROR is not set: the published predictions are not at hand")
    folder = Path(mirror)
    probabilities = np.loadtxt(folder / "bdl_reference" / "cifar10_probs.csv")
    labels = np.load(folder / "cifar10" / "test_labels.npy")[np.load(folder / "cifar10" / "tfds_order_test.npy")]
    scores = {s.name: s.value for s in classification_scores(probabilities, labels.astype(np.int64))}
    assert scores["accuracy"] == pytest.approx(0.9144, abs=1e-9)
    assert scores["mean_maximum_confidence"] == pytest.approx(0.8624, abs=5e-5)
    assert scores["predictive_entropy"] == pytest.approx(0.4022, abs=5e-5)
