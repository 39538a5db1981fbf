"""Scores of class probabilities, and how well they tell the rows of other data."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score, roc_curve

from bnn_atlas.metrics.formulas import classification
from bnn_atlas.metrics.formulas.classification import as_labelled, as_probabilities
from bnn_atlas.metrics.formulas.variants import fpr95_uppal
from bnn_atlas.metrics.tables.measurement import PredictionError

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
        ([[-0.1, -2.3]], [0], "not logits"),
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


def _labelled(inside: np.ndarray, outside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.repeat([1, 0], [len(inside), len(outside)]), np.concatenate([inside, outside])


def test_auroc_by_hand():
    """Pairs (3, 1), (3, 3), (2, 1), (2, 3): 1, a half, 1, 0."""
    assert classification.auroc(np.array([3.0, 2.0]), np.array([1.0, 3.0])) == 2.5 / 4
    assert classification.auroc(np.array([2.0, 3.0]), np.array([1.0])) == 1
    assert classification.auroc(np.array([1.0]), np.array([2.0, 3.0])) == 0
    assert classification.auroc(np.ones(5), np.ones(7)) == 0.5


@pytest.mark.parametrize("values", [1000, 12])
def test_auroc_and_fpr_against_scikit_learn(values):
    """With 12 values nearly all scores are tied."""
    rng = np.random.default_rng(values)
    inside, outside = rng.integers(values, size=213) + values // 4, rng.integers(values, size=150)
    labels, scores = _labelled(inside, outside)
    assert classification.auroc(inside, outside) == pytest.approx(roc_auc_score(labels, scores), rel=1e-12)
    false, true, _ = roc_curve(labels, scores, drop_intermediate=False)
    assert classification.fpr95(inside, outside) == pytest.approx(false[(true >= 0.95).argmax()], rel=1e-12)


def test_fpr_threshold_by_hand():
    """Of 20 inside scores 19 have to pass: the threshold is the second smallest, 2; of 40 the third smallest."""
    inside = np.arange(1.0, 21.0)
    outside = np.array([0.0, 1.0, 1.5, 2.0, 2.5, 30.0])
    assert classification.fpr95(inside, outside) == 3 / 6
    assert classification.fpr95(np.arange(1.0, 41.0), np.array([2.9, 3.0])) == 0.5
    # 0.95 * 21 = 19.95: all but one pass again; one row passes itself.
    assert classification.fpr95(np.arange(21.0), np.array([0.9, 1.0])) == 0.5
    assert classification.fpr95(np.array([1.0]), np.array([0.9, 1.0])) == 0.5


def test_error_of_auroc_is_its_spread():
    """Over 400 repetitions with normal scores; and DeLong's formula on a table by hand."""
    rng = np.random.default_rng(1)
    inside, outside = rng.normal(1, 1, size=(400, 60)), rng.normal(0, 1, size=(400, 40))
    values = [classification.auroc(a, b) for a, b in zip(inside, outside, strict=True)]
    errors = [classification.auroc_error(a, b) for a, b in zip(inside, outside, strict=True)]
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.12)
    # Inside 3 and 2 are above 3/4 and 1/2 of the outside; outside 1 and 3 are below 1 and 1/4 of the inside.
    error = classification.auroc_error(np.array([3.0, 2.0]), np.array([1.0, 3.0]))
    assert error == pytest.approx(np.sqrt(np.var([0.75, 0.5], ddof=1) / 2 + np.var([1, 0.25], ddof=1) / 2))
    assert classification.auroc_error(np.array([1.0]), np.array([1.0, 2.0])) is None


@pytest.mark.parametrize(
    ("inside", "outside", "message"),
    [
        ([1.0, np.nan], [1.0], "1 of 2 inside scores are not finite"),
        ([1.0], [np.inf, -np.inf, 0.0], "2 of 3 outside scores are not finite"),
        ([1.0], [], "outside scores have shape"),
        ([[1.0]], [1.0], "inside scores have shape"),
    ],
)
def test_wrong_scores_are_named(inside, outside, message):
    for function in (classification.auroc, classification.auroc_error, classification.fpr95, fpr95_uppal):
        with pytest.raises(PredictionError, match=message):
            function(np.array(inside), np.array(outside))


P = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.4, 0.4, 0.2], [0.0, 0.0, 1.0]])
Q = np.array([[0.5, 0.5, 0.0], [0.5, 0.2, 0.3], [0.4, 0.2, 0.4], [1.0, 0.0, 0.0]])


def test_agreement_and_total_variation_by_hand():
    """Ties go to class 0 in rows 0 (q) and 2 (both)."""
    np.testing.assert_array_equal(classification.agreement_rows(P, Q), [1, 0, 1, 0])
    variation = [0.2, 0.3, 0.2, 1.0]
    np.testing.assert_allclose(classification.total_variation_rows(P, Q), variation)
    found = classification.compare(P, Q)
    assert found.agreement == 0.5
    assert found.agreement_error == pytest.approx(np.std([1, 0, 1, 0], ddof=1) / 2)
    assert found.total_variation == pytest.approx(0.425)
    assert found.total_variation_error == pytest.approx(np.std(variation, ddof=1) / 2)


def test_comparison_is_symmetric_and_zero_with_itself():
    rng = np.random.default_rng(0)
    p, q, r = rng.dirichlet(np.ones(10), size=(3, 200))
    assert classification.compare(p, q) == classification.compare(q, p)
    assert classification.compare(p, p)[::2] == (1.0, 0.0)
    direct = classification.total_variation_rows(p, r)
    assert (
        direct <= classification.total_variation_rows(p, q) + classification.total_variation_rows(q, r) + 1e-12
    ).all()


def test_ceiling_by_hand():
    """Three chains, one row: a against (b + c) / 2 and so on."""
    chains = np.array([[[0.8, 0.2]], [[0.6, 0.4]], [[0.1, 0.9]]])
    found = classification.ceiling(chains)
    # Others: (0.35, 0.65), (0.45, 0.55), (0.7, 0.3).
    np.testing.assert_array_equal(found.agreement, [0, 0, 0])
    np.testing.assert_allclose(found.total_variation, [0.45, 0.15, 0.6])
    mean = found.comparison
    assert mean.total_variation == pytest.approx(0.4)
    assert mean.total_variation_error == pytest.approx(np.std([0.45, 0.15, 0.6], ddof=1) / np.sqrt(3))
    two = classification.ceiling(chains[:2])
    assert two.comparison.agreement_error is None
    assert two.comparison.total_variation_error is None
    np.testing.assert_array_equal(two.agreement, [1, 1])
    np.testing.assert_allclose(two.total_variation, [0.2, 0.2])


def test_equal_chains_reach_the_top_whatever_their_number():
    rng = np.random.default_rng(1)
    chain = rng.dirichlet(np.full(10, 0.02), size=500)
    for count in (2, 7):
        found = classification.ceiling(np.repeat(chain[None], count, axis=0)).comparison
        assert found.agreement == 1
        assert found.total_variation == pytest.approx(0, abs=1e-14)


@pytest.mark.parametrize(
    ("p", "q", "message"),
    [
        (P, Q[:3], r"\[4, 3\] and \[3, 3\] cannot be compared"),
        (P, np.full((4, 2), 0.5), r"\[4, 3\] and \[4, 2\]"),
        (P, np.log(Q + 1e-9), "second probabilities of row 0"),
        (np.where(P > 0.9, np.nan, P), Q, "first probabilities of row 3"),
        (P[0], Q[0], r"shape \[3\]"),
    ],
)
def test_wrong_pairs_are_named(p, q, message):
    with pytest.raises(PredictionError, match=message):
        classification.compare(p, q)


def test_wrong_chains_are_named():
    with pytest.raises(PredictionError, match="at least two chains"):
        classification.ceiling(P[None])
    with pytest.raises(PredictionError, match=r"chains, rows, classes"):
        classification.ceiling(P)
    with pytest.raises(PredictionError, match="probabilities of chain 1 of row 0"):
        classification.ceiling(np.stack([P, P * 2]))


def noisy(truth: np.ndarray, rng: np.random.Generator, draws: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Averages over each half of draws that vary about `truth` [n, k]."""
    halves = [rng.dirichlet(np.ones(truth.shape[1]), (draws, len(truth))).mean(axis=0) for _ in range(2)]
    return (0.7 * truth + 0.3 * halves[0], 0.7 * truth + 0.3 * halves[1])


def test_cross_fitted_distances_of_equal_distributions_have_no_floor():
    """About 0 and 1 where the plain ones are 0.03 and 0.52: the classes of these rows nearly tie."""
    rng = np.random.default_rng(0)
    truth = np.full((20_000, 3), 1 / 3) + 0.05 * rng.uniform(-1, 1, (20_000, 1)) * np.array([1.0, -1.0, 0.0])
    p, q = noisy(truth, rng), noisy(truth, rng)
    agreement, variation = classification.cross_fitted_rows(p, q)
    assert abs(agreement.mean() - 1) < 4 * agreement.std() / np.sqrt(len(truth))
    assert abs(variation.mean()) < 4 * variation.std() / np.sqrt(len(truth))
    plain = classification.compare(np.mean(p, axis=0), np.mean(q, axis=0))
    assert plain.total_variation > 0.02
    assert plain.agreement < 0.6


def test_cross_fitted_distances_are_the_plain_ones_without_noise():
    rng = np.random.default_rng(1)
    p, q = rng.dirichlet(np.ones(4), (2, 200))
    agreement, variation = classification.cross_fitted_rows((p, p), (q, q))
    np.testing.assert_allclose(agreement, classification.agreement_rows(p, q))
    np.testing.assert_allclose(variation, classification.total_variation_rows(p, q))


def test_cross_fitted_total_variation_approaches_a_distance_above_the_noise():
    rng = np.random.default_rng(2)
    p, q = np.tile([0.6, 0.3, 0.1], (5000, 1)), np.tile([0.3, 0.3, 0.4], (5000, 1))
    _, variation = classification.cross_fitted_rows(noisy(p, rng, 30), noisy(q, rng, 30))
    assert variation.mean() == pytest.approx(0.7 * 0.3, abs=0.003)


def test_halves_of_different_rows_are_refused():
    p = np.full((4, 2), 0.5)
    with pytest.raises(PredictionError, match="cannot be compared"):
        classification.cross_fitted_rows((p, p), (p, p[:3]))
