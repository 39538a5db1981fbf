"""Step sizes against their closed forms."""

import jax.numpy as jnp
import numpy as np
import pytest

from bnn_atlas.config.methods.sgmcmc import ConstantSchedule, CyclicalSchedule, PolynomialSchedule
from bnn_atlas.methods.sgmcmc import build_schedule

STEPS = np.arange(0, 80)


def at(config, step_size=0.3, burn_in=20, epoch=5):
    schedule = build_schedule(config, step_size, burn_in, epoch)
    return np.array([schedule(jnp.int32(step)) for step in STEPS])


def test_cosine_in_burn_in_then_flat():
    share = np.minimum(STEPS / 20, 1)
    expected = 0.02 + (0.3 - 0.02) * (1 + np.cos(np.pi * share)) / 2
    np.testing.assert_allclose(at(ConstantSchedule(final_step_size=0.02)), expected, rtol=1e-5)
    assert at(ConstantSchedule(final_step_size=0.02))[25] == pytest.approx(0.02)


def test_constant():
    np.testing.assert_allclose(at(ConstantSchedule()), 0.3)
    np.testing.assert_allclose(at(ConstantSchedule(final_step_size=0.02), burn_in=0), 0.02)


def test_cyclical():
    """Cycles of 3 epochs of 5 steps begin with the first step after burn-in."""
    found = at(CyclicalSchedule(cycle_epochs=3))
    np.testing.assert_allclose(found[:20], 0.3)
    t = (STEPS[20:] - 20) % 15 / 15
    np.testing.assert_allclose(found[20:], 0.15 * (1 + np.cos(np.pi * t)), rtol=1e-5, atol=1e-7)
    assert found[35] == pytest.approx(0.3)
    assert 0 < found[34] < 0.02 * 0.3


def test_polynomial():
    """The form a (b + t)^-gamma of Welling and Teh, from the values at the start and at the end."""
    found = at(PolynomialSchedule(offset_epochs=2, power=0.6))
    a = 0.3 * 10**0.6
    np.testing.assert_allclose(found, a * (10 + STEPS) ** -0.6, rtol=1e-5)
    assert found[0] == pytest.approx(0.3)
