"""The warm-up that HMC, NUTS and adjusted MCLMC share, against BlackJAX's."""

from types import SimpleNamespace
from typing import NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blackjax.adaptation.staged_adaptation import build_schedule

from bnn_atlas.config.methods.hmc import SHORTEST_WARM_UP
from bnn_atlas.methods.warmup import WarmUp

SCALES = np.array([0.1, 1.0, 5.0])


class Replayed(NamedTuple):
    position: jax.Array
    logdensity_grad: jax.Array
    count: int


def recording(steps):
    """Positions [steps, 3] and acceptance probabilities of some transitions."""
    rng = np.random.default_rng(3)
    positions = SCALES * rng.normal(size=(steps, 3))
    return jnp.asarray(positions, jnp.float32), jnp.asarray(rng.uniform(0.5, 1, steps), jnp.float32)


@pytest.mark.parametrize("steps", [150, 400])
def test_tuning_equals_blackjax(steps):
    """BlackJAX's warm-up of a sampler that replays transitions, against ours of the same: at each and at the end."""
    positions, acceptances = recording(steps)

    def kernel(key, state, *_):
        new = Replayed(positions[state.count], state.logdensity_grad, state.count + 1)
        return new, SimpleNamespace(acceptance_rate=acceptances[state.count])

    replay = SimpleNamespace(init=lambda x, _: Replayed(x, x, jnp.int32(0)), build_kernel=lambda: kernel)
    adaptation = blackjax.window_adaptation(
        replay,
        jnp.sum,
        initial_step_size=0.3,
        target_acceptance_rate=0.8,
        adaptation_info_fn=lambda state, info, tuned: (tuned.step_size, tuned.inverse_mass_matrix),
    )
    (_, final), (step_sizes, variances) = adaptation.run(jax.random.key(0), positions[0], steps)

    ours = WarmUp(steps, 0.8, variances=True)

    def move(state, index):
        state = ours.update(state, index, positions[index], acceptances[index])
        return state, (state.step_size, state.variances)

    state, (our_step_sizes, our_variances) = jax.jit(
        lambda: jax.lax.scan(move, ours.init(0.3, positions[0]), jnp.arange(steps))
    )()
    np.testing.assert_allclose(our_step_sizes, step_sizes, rtol=1e-4)
    np.testing.assert_allclose(our_variances, variances, rtol=1e-5)
    np.testing.assert_allclose(ours.finish(state).step_size, final["step_size"], rtol=1e-4)
    np.testing.assert_allclose(state.variances, final["inverse_mass_matrix"], rtol=1e-5)
    np.testing.assert_allclose(state.variances, SCALES**2, rtol=0.5)


def test_variances_are_known_from_the_first_window_on():
    positions, acceptances = recording(150)
    warm_up = WarmUp(150, 0.8, variances=True)
    state = warm_up.init(0.3, positions[0])
    update = jax.jit(warm_up.update)
    for index in range(warm_up.first_window):
        np.testing.assert_array_equal(state.variances, 1)
        state = update(state, index, positions[index], acceptances[index])
    assert np.all(np.asarray(state.variances) != 1)


def test_what_is_not_to_be_tuned_stays():
    positions, acceptances = recording(50)
    warm_up = WarmUp(50, 0.8, variances=False, step_size=False)
    state = warm_up.init(0.3, positions[0])
    assert state.mass is None
    state = warm_up.update(state, 0, positions[0], acceptances[0])
    assert float(warm_up.finish(state).step_size) == pytest.approx(0.3)


def test_the_shortest_warm_up_has_a_window():
    assert WarmUp(SHORTEST_WARM_UP, 0.8, variances=True).first_window < SHORTEST_WARM_UP
    assert not np.asarray(build_schedule(SHORTEST_WARM_UP - 1))[:, 1].any()
