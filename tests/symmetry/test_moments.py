"""Moments that are added up in batches, against NumPy's of all rows."""

import numpy as np
import pytest

from bnn_atlas.symmetry.moments import ChainMoments, Factor, Moments

ROWS = np.random.default_rng(0).normal(3, 2, size=(4, 25, 9))


def test_mean_and_variances_are_those_of_all_rows() -> None:
    found = ChainMoments(9)
    for chain, rows in enumerate(ROWS):
        for start in range(0, 25, 7):
            found.add(chain, rows[start : start + 7])
            restored = ChainMoments(9)
            restored.restore(found.arrays())
            found = restored
    mean, variance, within = found.finish()
    np.testing.assert_allclose(mean, ROWS.mean((0, 1)))
    np.testing.assert_allclose(variance, ROWS.reshape(-1, 9).var(axis=0, ddof=1))
    np.testing.assert_allclose(within, ROWS.var(axis=1, ddof=1).mean(0))


def test_equal_rows_have_no_variance() -> None:
    found = Moments(9)
    for _ in range(5):
        found.add(np.tile(np.float32(0.1) * np.arange(9, dtype=np.float32), (3, 1)))
    np.testing.assert_array_equal(found.variance, 0)


def test_too_few_rows_have_no_variance() -> None:
    found = ChainMoments(2)
    found.add(0, np.ones((1, 2)))
    found.add(1, np.zeros((1, 2)))
    mean, variance, within = found.finish()
    np.testing.assert_array_equal(mean, 0.5)
    np.testing.assert_array_equal(variance, 0.5)
    assert np.isnan(within).all()


@pytest.mark.parametrize("batch", [1, 4, 100])
def test_the_factor_reproduces_the_sample_covariance(batch: int) -> None:
    rows = ROWS.reshape(-1, 9)[:30]
    wide = np.random.default_rng(1).normal(size=(30, 50)) + 2
    for each, rank in ((rows, 9), (wide, 29)):
        found = Factor(each.shape[1], rank)
        for start in range(0, 30, batch):
            found.add(each[start : start + batch])
        factor = found.covariance_factor()
        assert factor.shape[0] == rank
        np.testing.assert_allclose(factor.T @ factor, np.cov(each.T), atol=1e-9)


def test_a_factor_of_low_rank_keeps_the_largest_directions() -> None:
    generator = np.random.default_rng(2)
    rows = generator.normal(size=(400, 3)) * [10, 5, 3] @ np.linalg.qr(generator.normal(size=(40, 3)))[0].T
    rows += 0.01 * generator.normal(size=(400, 40))
    found = Factor(40, 3)
    for start in range(0, 400, 50):
        found.add(rows[start : start + 50])
    factor = found.covariance_factor()
    assert np.linalg.norm(factor.T @ factor - np.cov(rows.T)) < 1e-3 * np.linalg.norm(np.cov(rows.T))
