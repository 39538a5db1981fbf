"""Pruned networks and orders by hand."""

import numpy as np
import pytest

from bnn_atlas.symmetry import pruning

THETA = np.array([4.0, -3.0, 2.0, -1.0, 0.5])
SD = np.array([1.0, 0.1, 2.0, 0.5, 0.0])


def test_the_largest_ranks_go_first_and_counts_are_cut() -> None:
    found = pruning.pruned(THETA, pruning.by_sd(SD), (100, 59, 20, 1))
    np.testing.assert_array_equal(
        found, [THETA, [0, -3, 0, 0, 0.5], [0, 0, 0, 0, 0.5], np.zeros(5)], "int(5 x 0.59) = 2"
    )


def test_networks_are_made_afresh() -> None:
    theta = THETA.copy()
    found = pruning.pruned(theta, pruning.by_magnitude(theta), (20, 100))
    np.testing.assert_array_equal(found[1], THETA)
    np.testing.assert_array_equal(theta, THETA)
    np.testing.assert_array_equal(found[0], [4, 0, 0, 0, 0])


def test_signal_to_noise_keeps_what_has_no_spread_and_magnitude_ignores_signs() -> None:
    assert np.argsort(pruning.by_signal_to_noise(THETA, SD)).tolist() == [4, 1, 0, 3, 2]
    assert np.argsort(pruning.by_magnitude(THETA)).tolist() == [0, 1, 2, 3, 4]


def test_the_smallest_spread_of_single_precision_has_a_rank() -> None:
    theta, sd = np.float32([1, 1]), np.float32([1e-45, 1])
    assert np.isfinite(pruning.by_signal_to_noise(theta, sd)).all()
    assert np.argsort(pruning.by_signal_to_noise(theta, sd)).tolist() == [0, 1]


def test_sds_of_prior_draws_have_the_spread_of_estimates() -> None:
    """Of 1,000 draws: 0.022, 1 / sqrt(2 n)."""
    found = pruning.by_prior_sd(np.random.default_rng(0), 100_000, 1000) / np.sqrt(999)
    assert found.std() == pytest.approx(1 / np.sqrt(2 * 999), rel=0.03)
    assert len(np.unique(pruning.by_chance(np.random.default_rng(0), 50))) == 50


def test_parameters_without_a_rank_are_refused() -> None:
    with pytest.raises(ValueError, match="1 of 5 parameters have no rank"):
        pruning.pruned(THETA, np.array([1, 2, np.nan, 4, 5]), (50,))
