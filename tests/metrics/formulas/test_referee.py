"""Chains beside their referees: closed forms, and how often the checks are wrong."""

import numpy as np
import pytest

from bnn_atlas.metrics.formulas.referee import ess_of_chains, rhat_of_halves, shift, trend


def ar1(correlation: float, chains: int, draws: int, seed: int = 0) -> np.ndarray:
    """Stationary chains [C, S] with mean 0 and variance 1."""
    noise = np.random.default_rng(seed).standard_normal((chains, draws))
    values = noise.copy()
    for s in range(1, draws):
        values[:, s] = correlation * values[:, s - 1] + np.sqrt(1 - correlation**2) * noise[:, s]
    return values


def test_shift_is_in_standard_deviations_of_the_chain_and_has_its_sign() -> None:
    chains = np.array([[1.0, 2.0, 3.0], [-2.0, 0.0, 2.0]])
    found = shift(chains, np.array([[5.0, 5.0], [-1.0, -7.0]]))
    np.testing.assert_allclose(found.change, [3.0, -4.0])
    np.testing.assert_allclose(found.in_sd, [3.0 / 1.0, -4.0 / 2.0])


def test_shift_of_a_still_chain_or_a_single_draw_is_not_defined_in_standard_deviations() -> None:
    found = shift(np.array([[2.0, 2.0]]), np.array([[3.0, 3.0]]))
    assert found.change == 1
    assert np.isnan(found.in_sd)
    assert np.isnan(shift(np.array([[2.0]]), np.array([[3.0]])).in_sd)


def test_trend_of_a_line_with_noise() -> None:
    noise = np.random.default_rng(1).standard_normal((2, 1001))
    times = np.linspace(-0.5, 0.5, 1001)
    noise -= noise.mean(axis=1, keepdims=True)
    noise -= (noise @ times / (times @ times))[:, None] * times
    found = trend(np.array([[7.0], [-3.0]]) * times + noise)
    np.testing.assert_allclose(found.rise, [7.0, -3.0])
    # Of independent residuals: s / sqrt(n var(t)) with var(t) = 1/12.
    np.testing.assert_allclose(found.error, np.sqrt(12 / 1001), rtol=0.15)


def test_the_error_of_a_trend_counts_dependent_draws_as_fewer() -> None:
    values = ar1(0.9, 400, 2000)
    found = trend(values)
    # The spread of the slopes of stationary chains is what their error says.
    assert found.error.mean() == pytest.approx(found.rise.std(), rel=0.15)
    assert np.mean(np.abs(found.rise) > 2 * found.error) < 0.1


def test_a_chain_that_changes_level_or_spread_has_a_large_rhat_of_halves() -> None:
    values = ar1(0.5, 3, 400)
    values[1, 200:] += 2
    values[2, 200:] *= 4
    found = rhat_of_halves(values)
    assert found[0] < 1.05
    assert (found[1:] > 1.1).all()
    assert np.isnan(rhat_of_halves(values[:, :7])).all()


def test_effective_draws_are_of_each_chain_alone() -> None:
    values = np.concatenate([ar1(0.0, 1, 4000), ar1(0.9, 1, 4000) + 100])
    found = ess_of_chains(values)
    assert found[0] == pytest.approx(4000, rel=0.15)
    assert found[1] == pytest.approx(4000 * 0.1 / 1.9, rel=0.35)
