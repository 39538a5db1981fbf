"""Measured predictions: names, errors, notes, and the published variants of a study that asks for them."""

import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, brier_score_loss, roc_auc_score

from bnn_atlas.metrics.formulas import classification, reliability
from bnn_atlas.metrics.formulas.classification import confidence, entropy
from bnn_atlas.metrics.judgement.classes import (
    agreement_scores,
    ceiling_scores,
    classification_scores,
    detection_scores,
)
from bnn_atlas.metrics.tables.measurement import PredictionError
from tests.work import counted_calls

PAPERS = ("sommer", "uppal", "izmailov")
P = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.4, 0.4, 0.2], [0.0, 0.0, 1.0]])
Q = np.array([[0.5, 0.5, 0.0], [0.5, 0.2, 0.3], [0.4, 0.2, 0.4], [1.0, 0.0, 0.0]])


def _random(rows: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    probabilities = rng.dirichlet(np.full(classes, 0.3), size=rows)
    return probabilities, rng.integers(classes, size=rows)


def _labelled(inside: np.ndarray, outside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.repeat([1, 0], [len(inside), len(outside)]), np.concatenate([inside, outside])


@pytest.mark.parametrize("classes", [2, 7])
def test_scores_against_scikit_learn(classes):
    probabilities, labels = _random(500, classes)
    scores = {s.metric: s.value for s in classification_scores(probabilities, labels)}
    assert scores["accuracy"] == accuracy_score(labels, probabilities.argmax(axis=1))
    score = brier_score_loss(labels, probabilities, labels=np.arange(classes), scale_by_half=False)
    assert scores["brier"] == pytest.approx(score, rel=1e-12)


def test_all_scores_have_names_values_and_errors():
    probabilities, labels = _random(400, 4)
    every = classification_scores(probabilities.astype(np.float32), labels, PAPERS)
    scores = {s.metric: s for s in every}
    *right, first, second, third, fourth = every
    assert classification_scores(probabilities.astype(np.float32), labels) == right
    assert [s.metric for s in (first, second, third, fourth)] == ["ece_uppal", "mce_uppal", "sce_uppal", "ece_izmailov"]
    assert scores["ece"].value == pytest.approx(
        reliability.expected_calibration_error(probabilities, labels, 15), abs=1e-6
    )
    right = classification.hits(probabilities, labels)
    assert scores["accuracy"].standard_error == pytest.approx(right.std(ddof=1) / 20)
    assert all(isinstance(s.value, float) and np.isfinite(s.value) for s in scores.values())
    assert "0.99" in scores["ece_uppal"].note


def test_a_published_score_without_rows_says_so():
    scores = {s.metric: s for s in classification_scores(np.eye(3), np.arange(3), PAPERS)}
    assert np.isnan(scores["ece_uppal"].value)
    assert "no row is left" in scores["ece_uppal"].note
    assert scores["ece"].value == 0
    assert "no row is left" not in scores["ece_izmailov"].note


def test_no_score_loops_over_rows():
    rng = np.random.default_rng(0)
    raw = rng.random((50_000, 100), dtype=np.float32) ** 8
    probabilities, labels = raw / raw.sum(axis=1, keepdims=True), rng.integers(100, size=50_000)
    with counted_calls() as all_rows:
        classification_scores(probabilities, labels)
    with counted_calls() as few_rows:
        classification_scores(probabilities[:1000], labels[:1000])
    assert all_rows[0] < 2 * few_rows[0]


def test_published_predictions_of_hmc_have_their_published_scores():
    """Izmailov et al.'s CIFAR-10 predictions, in TFDS order: accuracy 91.44 %."""
    mirror = os.environ.get("BNN_ATLAS_MIRROR")
    if not mirror:
        pytest.skip("BNN_ATLAS_MIRROR is not set: the published predictions are not at hand")
    folder = Path(mirror)
    probabilities = np.loadtxt(folder / "bdl_reference" / "cifar10_probs.csv")
    labels = np.load(folder / "cifar10" / "test_labels.npy")[np.load(folder / "cifar10" / "tfds_order_test.npy")]
    scores = {s.metric: s.value for s in classification_scores(probabilities, labels.astype(np.int64))}
    assert scores["accuracy"] == pytest.approx(0.9144, abs=1e-9)
    assert scores["mean_maximum_confidence"] == pytest.approx(0.8624, abs=5e-5)
    assert scores["predictive_entropy"] == pytest.approx(0.4022, abs=5e-5)


def test_all_scores_of_probabilities():
    rng = np.random.default_rng(2)
    inside, outside = rng.dirichlet(np.full(5, 0.2), size=300), rng.dirichlet(np.full(5, 1.0), size=200)
    scores = {s.metric: s for s in detection_scores(inside.astype(np.float32), outside.astype(np.float32), PAPERS)}
    assert list(scores) == [
        "auroc_confidence", "fpr95_confidence", "fpr95_confidence_uppal", "auroc_entropy", "fpr95_entropy",
        "fpr95_entropy_uppal", "mean_maximum_confidence_ood", "predictive_entropy_ood", "entropy_histogram",
    ]  # fmt: skip
    without = list(dict.fromkeys(s.metric for s in detection_scores(inside, outside, ["sommer"])))
    assert without == [name for name in scores if not name.endswith("_uppal")]
    labels, _ = _labelled(inside, outside)
    together = np.concatenate([inside, outside])
    assert scores["auroc_confidence"].value == pytest.approx(roc_auc_score(labels, confidence(together)), abs=1e-6)
    assert scores["auroc_entropy"].value == pytest.approx(roc_auc_score(labels, -entropy(together)), abs=1e-6)
    assert scores["auroc_entropy"].value > 0.5
    assert scores["mean_maximum_confidence_ood"].value == pytest.approx(outside.max(axis=1).mean(), abs=1e-6)
    assert scores["predictive_entropy_ood"].value == pytest.approx(entropy(outside).mean(), abs=1e-6)
    assert scores["auroc_confidence"].standard_error is not None


def test_rows_whose_confidence_rounds_to_1_are_told_apart():
    """In float32, 1 - 1e-9 and 1 - 1e-8 are 1; inside rows are surer by a factor of 10."""
    inside, outside = (np.array([[1 - d, 0.7 * d, 0.3 * d] for d in f * 10.0 ** np.arange(-12, -7)], np.float32)
                       for f in (1.0, 2.0))  # fmt: skip
    assert (confidence(inside) == 1).sum() > 3
    scores = {s.metric: s.value for s in detection_scores(inside, outside)}
    # Row i inside is surer than rows i to 4 outside: 5 + 4 + 3 + 2 + 1 of 25 pairs.
    assert scores["auroc_confidence"] == pytest.approx(15 / 25, rel=1e-12)
    assert scores["mean_maximum_confidence_ood"] == pytest.approx(1, abs=1e-6)


def test_other_classes_and_rows_that_are_no_probabilities_are_refused():
    with pytest.raises(PredictionError, match="2 classes inside and 3 outside"):
        detection_scores(np.full((4, 2), 0.5), np.full((4, 3), 1 / 3))
    with pytest.raises(PredictionError, match="row 1 add up to 0"):
        detection_scores(np.full((4, 2), 0.5), np.array([[1.0, 0.0], [0.0, 0.0]]))


def test_scores_have_names_errors_and_notes():
    scores = agreement_scores(P, Q, "published HMC")
    assert [(s.metric, s.note) for s in scores] == [
        ("agreement", "against published HMC"), ("total_variation", "against published HMC"),
    ]  # fmt: skip
    assert [s[1:3] for s in scores] == [classification.compare(P, Q)[:2], classification.compare(P, Q)[2:]]
    assert {s.at for s in scores} == {"published HMC"}
    assert (agreement_scores(P, Q)[0].note, agreement_scores(P, Q)[0].at) == ("", "")
    ceiling = ceiling_scores(np.stack([P, Q, P]))
    assert [s.metric for s in ceiling] == ["agreement_ceiling", "total_variation_ceiling"]
    assert ceiling[0].note.startswith("each of 3 chains")
