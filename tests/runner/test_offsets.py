"""A large constant in the log-likelihood, as many rows bring it, leaves single-precision chains as they are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bnn_atlas.methods import adjusted_mclmc, hmc, nuts
from bnn_atlas.methods.warmup import ChainState
from bnn_atlas.posterior.density import Evaluation, LogDensity, tempered_gain

SCALES = jnp.array([0.5, 1.0, 2.0, 1.5])
OFFSETS = jnp.array([0.0, -3e5])
CHAINS, STEPS = 100, 40

KERNELS = {
    "hmc": (hmc.step, {"step_size": 0.4, "trajectory_length": 1.5, "jitter": 0.3, "max_steps": 50}),
    "nuts": (nuts.step, {"step_size": 0.4, "max_doublings": 5, "inverse_mass": jnp.ones(4)}),
    "adjusted mclmc": (
        adjusted_mclmc.step,
        {"step_size": 0.8, "mean_steps": 3.0, "max_steps": 20, "inverse_mass": jnp.ones(4)},
    ),
}


def run(name: str, offset: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Draws [chain, step, scalar], energy changes and acceptance probabilities of chains with fixed keys."""
    kernel, settings = KERNELS[name]

    def evaluate(theta):
        density = LogDensity(offset - 0.3 * jnp.sum((theta / SCALES) ** 2), -0.2 * jnp.sum((theta / SCALES) ** 2))
        return Evaluation(density, -theta / SCALES**2)

    def gain(new, old):
        return tempered_gain(new.density, old.density, 1.0)

    def chain(key):
        start_key, key = jax.random.split(key)
        start = SCALES * jax.random.normal(start_key, (4,))

        def transition(state, step_key):
            state, info = kernel(step_key, state, evaluate, gain, **settings)
            return state, (state.position, info.energy_change, info.acceptance)

        return jax.lax.scan(transition, ChainState(start, evaluate(start)), jax.random.split(key, STEPS))[1]

    return jax.vmap(chain)(jax.random.split(jax.random.key(0), CHAINS))


@pytest.mark.parametrize("name", KERNELS)
def test_a_constant_in_the_log_likelihood_changes_nothing(name):
    """At -300,000 single precision resolves 1/32: energy errors move by no more, so acceptance stays.

    The log-likelihoods at both ends of a trajectory are rounded by half of that each; nothing else is rounded, since
    every method forms the difference before it adds anything. A hundred times the constant costs all Metropolis methods
    a third of their acceptance.
    """
    draws, energy, acceptance = (np.asarray(leaf) for leaf in jax.jit(jax.vmap(lambda o: run(name, o)))(OFFSETS))
    resolution = np.spacing(np.float32(3e5))
    moved = np.abs(energy[1, :, 0] - energy[0, :, 0])
    # A rounding may also send NUTS to another state of its trajectory.
    assert 0 < np.quantile(moved, 0.95 if name == "nuts" else 1.0) <= 1.01 * resolution
    assert acceptance[1].mean() == pytest.approx(acceptance[0].mean(), abs=0.005)
    spread = np.square(draws[1] / SCALES).mean((0, 1))
    np.testing.assert_allclose(spread, 1, atol=0.25)
