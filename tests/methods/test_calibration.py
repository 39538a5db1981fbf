"""Simulation-based calibration: parameters drawn from the prior are one more draw from the posterior of their data.

Talts et al. 2018 (Validating Bayesian inference algorithms with simulation-based calibration), in the exact form of
Gandy and Scott 2020 (Unit testing for MCMC): the chain is grown from the true parameters, some transitions before and
the others after them, so that ranks are uniform for any reversible kernel however slowly it mixes.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from bnn_atlas.config.parts.posterior import LearnedNoiseLikelihood, MLPConfig
from bnn_atlas.config.parts.priors import StandardNormalPrior
from bnn_atlas.methods import adjusted_mclmc, hmc, warmup
from bnn_atlas.posterior.density import Posterior, PosteriorData, build_posterior

REPLICATIONS, TRANSITIONS, ROWS = 1000, 19, 6
BINS = 10


class Kernel(NamedTuple):
    """A transition with fixed settings."""

    step: Callable[..., Any]
    settings: dict[str, Any]


MASS = np.linspace(0.5, 1.5, 11)
KERNELS = {
    "hmc": Kernel(
        hmc.step, {"step_size": 0.1, "trajectory_length": 1.0, "jitter": 0.3, "max_steps": 100, "inverse_mass": MASS}
    ),
    "adjusted mclmc": Kernel(
        adjusted_mclmc.step, {"step_size": 0.5, "mean_steps": 5.0, "max_steps": 50, "inverse_mass": MASS}
    ),
}


@partial(jax.jit, static_argnums=0)
def ranks(name: str, temperature: jax.Array) -> jax.Array:
    """Ranks [replication, quantity] of the true values among `TRANSITIONS` draws of a tempered posterior.

    The quantities are the function of a 1-3-1 network at two points, its log noise and the log-likelihood.
    """
    kernel = KERNELS[name]
    posterior, prior = build_posterior(
        MLPConfig(hidden=(3,), activation="tanh"),
        LearnedNoiseLikelihood(),
        StandardNormalPrior(),
        temperature=temperature,
        shape=(1,),
    )
    x = jnp.linspace(-2, 2, ROWS)[:, None]

    def replicate(key: jax.Array) -> jax.Array:
        truth_key, noise_key, place_key, tie_key, *chain_keys = jax.random.split(key, 6)
        truth = prior.sample(truth_key)
        told = posterior.predict(truth[None], x)
        y = told.mean[0] + told.scale[0] * jax.random.normal(noise_key, (ROWS,))
        data = PosteriorData(x, y, None, prior.values)
        before = jax.random.randint(place_key, (), 0, TRANSITIONS + 1)
        exact = quantities(posterior, data, truth[None])

        def compare(chain_key: jax.Array, length: jax.Array) -> jax.Array:
            draws = chain(kernel, posterior, data, truth, chain_key)
            counted = jnp.arange(TRANSITIONS)[:, None] < length
            same = jnp.all(draws == truth, axis=1, keepdims=True)
            less = ~same & (quantities(posterior, data, draws) < exact)
            return jnp.stack([jnp.sum(counted & less, 0), jnp.sum(counted & same, 0) + jnp.zeros(4, int)])

        below, equal = compare(chain_keys[0], before) + compare(chain_keys[1], TRANSITIONS - before)
        return below + jax.random.randint(tie_key, (4,), 0, equal + 1)  # a rejected proposal repeats the true values

    return jax.vmap(replicate)(jax.random.split(jax.random.key(3), REPLICATIONS))


def chain(kernel: Kernel, posterior: Posterior, data: PosteriorData, start: jax.Array, key: jax.Array) -> jax.Array:
    """Positions [transition, P] after `start`."""
    batch = posterior.arrange(data)

    def evaluate(theta):
        return posterior.evaluate(theta, batch)

    def gain(new, old):
        return posterior.gain(new, old, data.prior)

    def transition(state, step_key):
        state, _ = kernel.step(step_key, state, evaluate, gain, **kernel.settings)
        return state, state.position

    first = warmup.ChainState(start, evaluate(start))
    return jax.lax.scan(transition, first, jax.random.split(key, TRANSITIONS))[1]


def quantities(posterior: Posterior, data: PosteriorData, theta: jax.Array) -> jax.Array:
    """What is ranked, [draw, quantity]."""
    mean = posterior.predict(theta, jnp.array([[-1.0], [2.5]])).mean
    x = posterior.network.arrange(data.x)
    likelihood = jax.vmap(lambda vector: posterior.log_likelihood(vector, x, data.y))(theta)
    return jnp.column_stack([mean, theta[:, -1], likelihood])


def p_values(found: jax.Array) -> np.ndarray:
    """Chi-square test of uniform ranks for each quantity."""
    counts = [np.bincount(column * BINS // (TRANSITIONS + 1), minlength=BINS) for column in np.asarray(found).T]
    return scipy.stats.chisquare(counts, axis=1).pvalue


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_ranks_are_uniform_for_the_posterior_alone(name):
    values = p_values(ranks(name, jnp.float32(1.0)))
    assert values.min() > 1e-3, values
    values = p_values(ranks(name, jnp.float32(1.3)))
    assert values.min() < 1e-6, f"a sampler of the wrong temperature passes: {values}"
