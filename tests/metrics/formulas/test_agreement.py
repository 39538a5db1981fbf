import numpy as np
import pytest

from bnn_atlas.metrics.formulas import agreement
from bnn_atlas.metrics.tables.measurement import PredictionError

P = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.4, 0.4, 0.2], [0.0, 0.0, 1.0]])
Q = np.array([[0.5, 0.5, 0.0], [0.5, 0.2, 0.3], [0.4, 0.2, 0.4], [1.0, 0.0, 0.0]])


def test_agreement_and_total_variation_by_hand():
    """Ties go to class 0 in rows 0 (q) and 2 (both)."""
    np.testing.assert_array_equal(agreement.agreement_rows(P, Q), [1, 0, 1, 0])
    variation = [0.2, 0.3, 0.2, 1.0]
    np.testing.assert_allclose(agreement.total_variation_rows(P, Q), variation)
    found = agreement.compare(P, Q)
    assert found.agreement == 0.5
    assert found.agreement_error == pytest.approx(np.std([1, 0, 1, 0], ddof=1) / 2)
    assert found.total_variation == pytest.approx(0.425)
    assert found.total_variation_error == pytest.approx(np.std(variation, ddof=1) / 2)


def test_comparison_is_symmetric_and_zero_with_itself():
    rng = np.random.default_rng(0)
    p, q, r = rng.dirichlet(np.ones(10), size=(3, 200))
    assert agreement.compare(p, q) == agreement.compare(q, p)
    assert agreement.compare(p, p)[::2] == (1.0, 0.0)
    direct = agreement.total_variation_rows(p, r)
    assert (direct <= agreement.total_variation_rows(p, q) + agreement.total_variation_rows(q, r) + 1e-12).all()


def test_ceiling_by_hand():
    """Three chains, one row: a against (b + c) / 2 and so on."""
    chains = np.array([[[0.8, 0.2]], [[0.6, 0.4]], [[0.1, 0.9]]])
    found = agreement.ceiling(chains)
    # Others: (0.35, 0.65), (0.45, 0.55), (0.7, 0.3).
    np.testing.assert_array_equal(found.agreement, [0, 0, 0])
    np.testing.assert_allclose(found.total_variation, [0.45, 0.15, 0.6])
    mean = found.comparison
    assert mean.total_variation == pytest.approx(0.4)
    assert mean.total_variation_error == pytest.approx(np.std([0.45, 0.15, 0.6], ddof=1) / np.sqrt(3))
    two = agreement.ceiling(chains[:2])
    assert two.comparison.agreement_error is None
    assert two.comparison.total_variation_error is None
    np.testing.assert_array_equal(two.agreement, [1, 1])
    np.testing.assert_allclose(two.total_variation, [0.2, 0.2])


def test_equal_chains_reach_the_top_whatever_their_number():
    rng = np.random.default_rng(1)
    chain = rng.dirichlet(np.full(10, 0.02), size=500)
    for count in (2, 7):
        found = agreement.ceiling(np.repeat(chain[None], count, axis=0)).comparison
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
        agreement.compare(p, q)


def test_wrong_chains_are_named():
    with pytest.raises(PredictionError, match="at least two chains"):
        agreement.ceiling(P[None])
    with pytest.raises(PredictionError, match=r"chains, rows, classes"):
        agreement.ceiling(P)
    with pytest.raises(PredictionError, match="probabilities of chain 1 of row 0"):
        agreement.ceiling(np.stack([P, P * 2]))
