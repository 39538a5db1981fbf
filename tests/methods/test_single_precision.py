"""Metropolis tests in single precision: after a large constant in the log-likelihood, and of many parameters."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bnn_atlas.config.parts.posterior import GaussianLikelihood, MLPConfig
from bnn_atlas.config.parts.priors import StandardNormalPrior
from bnn_atlas.methods import adjusted_mclmc, hmc, nuts
from bnn_atlas.methods.warmup import ChainState, start
from bnn_atlas.posterior.density import Evaluation, LogDensity, binder, build_posterior, posterior_data, tempered_gain

SCALES = jnp.array([0.5, 1.0, 2.0, 1.5])
OFFSETS = jnp.array([0.0, -3e5])
CHAINS, STEPS = 100, 40

MOVES = {
    "hmc": (hmc.step, {"step_size": 0.4, "trajectory_length": 1.5, "jitter": 0.3, "max_steps": 50}),
    "nuts": (nuts.step, {"step_size": 0.4, "max_doublings": 5, "inverse_mass": jnp.ones(4)}),
    "adjusted mclmc": (
        adjusted_mclmc.step,
        {"step_size": 0.8, "mean_steps": 3.0, "max_steps": 20, "inverse_mass": jnp.ones(4)},
    ),
}


def chains(name: str, offset: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Draws [chain, step, scalar], energy changes and acceptance probabilities of chains with fixed keys."""
    kernel, settings = MOVES[name]

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


@pytest.mark.parametrize("name", MOVES)
def test_a_constant_in_the_log_likelihood_changes_nothing(name):
    """At -300,000 single precision resolves 1/32: energy errors move by no more, so acceptance stays.

    The log-likelihoods at both ends of a trajectory are rounded by half of that each; nothing else is rounded, since
    every method forms the difference before it adds anything. A hundred times the constant costs all Metropolis methods
    a third of their acceptance.
    """
    draws, energy, acceptance = (np.asarray(leaf) for leaf in jax.jit(jax.vmap(lambda o: chains(name, o)))(OFFSETS))
    resolution = np.spacing(np.float32(3e5))
    moved = np.abs(energy[1, :, 0] - energy[0, :, 0])
    # A rounding may also send NUTS to another state of its trajectory.
    assert 0 < np.quantile(moved, 0.95 if name == "nuts" else 1.0) <= 1.01 * resolution
    assert acceptance[1].mean() == pytest.approx(acceptance[0].mean(), abs=0.005)
    spread = np.square(draws[1] / SCALES).mean((0, 1))
    np.testing.assert_allclose(spread, 1, atol=0.25)


PARAMETERS = 300_000
SMALL_MOVES = {
    "hmc": (hmc.step, {"trajectory_length": 1e-4, "jitter": 0.0, "max_steps": 1}),
    "nuts": (nuts.step, {"max_doublings": 1, "inverse_mass": jnp.ones(PARAMETERS)}),
}


@pytest.mark.parametrize("name", SMALL_MOVES)
def test_the_energy_of_a_small_step_is_exact(name):
    """A leapfrog step of size 1e-4 changes the energy by 1e-8 or so; the log-prior of -430,000 resolves 1/32."""
    posterior, prior = build_posterior(
        MLPConfig(hidden=(), bias=False),
        GaussianLikelihood(sigma=1.0),
        StandardNormalPrior(),
        temperature=1.0,
        shape=(PARAMETERS,),
    )
    x = np.zeros((1, PARAMETERS))
    x[0, 0] = 1
    target = binder(posterior)(posterior_data(x, np.zeros(1), prior))
    kernel, settings = SMALL_MOVES[name]
    position = jax.random.normal(jax.random.key(0), (PARAMETERS,))
    state = start(jax.random.key(1), position, target.evaluate)
    move = jax.jit(
        lambda key: kernel(key, state, target.evaluate, target.gain, step_size=jnp.float32(1e-4), **settings)[1]
    )
    changes = [float(move(key).energy_change) for key in jax.random.split(jax.random.key(2), 4)]
    assert np.abs(changes).max() < 1e-3
