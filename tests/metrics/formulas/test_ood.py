import numpy as np
import pytest
from sklearn.metrics import roc_auc_score, roc_curve

from bnn_atlas.metrics.errors import PredictionError
from bnn_atlas.metrics.formulas import ood
from bnn_atlas.metrics.formulas.published import fpr95_uppal


def _labelled(inside: np.ndarray, outside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.repeat([1, 0], [len(inside), len(outside)]), np.concatenate([inside, outside])


def test_auroc_by_hand():
    """Pairs (3, 1), (3, 3), (2, 1), (2, 3): 1, a half, 1, 0."""
    assert ood.auroc(np.array([3.0, 2.0]), np.array([1.0, 3.0])) == 2.5 / 4
    assert ood.auroc(np.array([2.0, 3.0]), np.array([1.0])) == 1
    assert ood.auroc(np.array([1.0]), np.array([2.0, 3.0])) == 0
    assert ood.auroc(np.ones(5), np.ones(7)) == 0.5


@pytest.mark.parametrize("values", [1000, 12])
def test_auroc_and_fpr_against_scikit_learn(values):
    """With 12 values nearly all scores are tied."""
    rng = np.random.default_rng(values)
    inside, outside = rng.integers(values, size=213) + values // 4, rng.integers(values, size=150)
    labels, scores = _labelled(inside, outside)
    assert ood.auroc(inside, outside) == pytest.approx(roc_auc_score(labels, scores), rel=1e-12)
    false, true, _ = roc_curve(labels, scores, drop_intermediate=False)
    assert ood.fpr95(inside, outside) == pytest.approx(false[(true >= 0.95).argmax()], rel=1e-12)


def test_fpr_threshold_by_hand():
    """Of 20 inside scores 19 have to pass: the threshold is the second smallest, 2; of 40 the third smallest."""
    inside = np.arange(1.0, 21.0)
    outside = np.array([0.0, 1.0, 1.5, 2.0, 2.5, 30.0])
    assert ood.fpr95(inside, outside) == 3 / 6
    assert ood.fpr95(np.arange(1.0, 41.0), np.array([2.9, 3.0])) == 0.5
    # 0.95 * 21 = 19.95: all but one pass again; one row passes itself.
    assert ood.fpr95(np.arange(21.0), np.array([0.9, 1.0])) == 0.5
    assert ood.fpr95(np.array([1.0]), np.array([0.9, 1.0])) == 0.5


def test_error_of_auroc_is_its_spread():
    """Over 400 repetitions with normal scores; and DeLong's formula on a table by hand."""
    rng = np.random.default_rng(1)
    inside, outside = rng.normal(1, 1, size=(400, 60)), rng.normal(0, 1, size=(400, 40))
    values = [ood.auroc(a, b) for a, b in zip(inside, outside, strict=True)]
    errors = [ood.auroc_error(a, b) for a, b in zip(inside, outside, strict=True)]
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.12)
    # Inside 3 and 2 are above 3/4 and 1/2 of the outside; outside 1 and 3 are below 1 and 1/4 of the inside.
    error = ood.auroc_error(np.array([3.0, 2.0]), np.array([1.0, 3.0]))
    assert error == pytest.approx(np.sqrt(np.var([0.75, 0.5], ddof=1) / 2 + np.var([1, 0.25], ddof=1) / 2))
    assert ood.auroc_error(np.array([1.0]), np.array([1.0, 2.0])) is None


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
    for function in (ood.auroc, ood.auroc_error, ood.fpr95, fpr95_uppal):
        with pytest.raises(PredictionError, match=message):
            function(np.array(inside), np.array(outside))
