"""R-hat without ranks, and the Monte Carlo error of a mean over the draws of chains."""

import math

import numpy as np
import pytest

from bnn_atlas.metrics.formulas.rhat_ess import error_of_chain_mean, gelman_rubin


def test_the_formula_by_hand():
    draws = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]])
    within, between = (1 + 4) / 2, ((2 - 3) ** 2 + (4 - 3) ** 2) / 1
    expected = np.sqrt((2 / 3 * within + between) / within)
    assert gelman_rubin(draws) == pytest.approx(expected)
    assert gelman_rubin(np.stack([draws, 10 * draws + 3], axis=2)) == pytest.approx([expected, expected])


def test_it_is_one_for_chains_that_agree_and_large_for_chains_apart():
    draws = np.random.default_rng(0).normal(size=(3, 2000, 4))
    np.testing.assert_allclose(gelman_rubin(draws), 1, atol=2e-3)
    assert gelman_rubin(draws + 5 * np.arange(3)[:, None, None]).min() > 3


def test_a_common_drift_and_other_spreads_are_not_seen():
    """What halves of chains and folded ranks are for."""
    rng = np.random.default_rng(1)
    drifting = rng.normal(size=(2, 500)) + np.linspace(0, 10, 500)
    wide = rng.normal(size=(2, 500)) * np.array([[1.0], [20.0]])
    assert gelman_rubin(drifting) < 1.01
    assert gelman_rubin(wide) < 1.02


def test_what_is_not_defined_is_nan_and_chains_constant_apart_are_infinite():
    rng = np.random.default_rng(2)
    draws = rng.normal(size=(2, 10, 4))
    draws[..., 0] = 0.3
    draws[0, 3, 1] = np.inf
    draws[..., 2] = np.array([[0.1], [0.7]])
    found = gelman_rubin(draws)
    assert np.isnan(found[:2]).all()
    assert np.isinf(found[2])
    assert np.isfinite(found[3])
    assert np.isnan(gelman_rubin(draws[:1])).all()
    assert np.isnan(gelman_rubin(draws[:, :1])).all()
    assert gelman_rubin(draws[:1]).shape == (4,)


@pytest.mark.parametrize("phi", [0.0, 0.6])
def test_error_is_the_spread_of_the_mean_over_repetitions(phi: float) -> None:
    """Autoregressive chains x_t = phi x_{t-1} + e_t, whose means spread by sd / sqrt(n (1 - phi) / (1 + phi))."""
    generator = np.random.default_rng(1)
    draws = np.empty((4, 2000))
    draws[:, 0] = generator.normal(size=4) / math.sqrt(1 - phi**2)
    for t in range(1, draws.shape[1]):
        draws[:, t] = phi * draws[:, t - 1] + generator.normal(size=4)
    expected = math.sqrt((1 + phi) / (1 - phi) / draws.size / (1 - phi**2))
    assert error_of_chain_mean(draws) == pytest.approx(expected, rel=0.15)


def test_no_error_without_an_effective_sample_size() -> None:
    assert math.isnan(error_of_chain_mean(np.ones((2, 3))))
