"""Errors of means over draws of Markov chains."""

import math

import numpy as np
import pytest

from bnn_atlas.metrics.formulas.chain_mean import error_of_chain_mean


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
