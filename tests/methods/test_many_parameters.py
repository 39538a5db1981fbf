"""The Metropolis test of many parameters in single precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bnn_atlas.config.parts.posterior import GaussianLikelihood, MLPConfig
from bnn_atlas.config.parts.priors import StandardNormalPrior
from bnn_atlas.methods import hmc, nuts
from bnn_atlas.methods.warmup import start
from bnn_atlas.posterior.density import binder, build_posterior, posterior_data

PARAMETERS = 300_000
KERNELS = {
    "hmc": (hmc.step, {"trajectory_length": 1e-4, "jitter": 0.0, "max_steps": 1}),
    "nuts": (nuts.step, {"max_doublings": 1, "inverse_mass": jnp.ones(PARAMETERS)}),
}


@pytest.mark.parametrize("name", KERNELS)
def test_the_energy_of_a_small_step_is_exact(name: str) -> None:
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
    kernel, settings = KERNELS[name]
    position = jax.random.normal(jax.random.key(0), (PARAMETERS,))
    state = start(jax.random.key(1), position, target.evaluate)
    move = jax.jit(
        lambda key: kernel(key, state, target.evaluate, target.gain, step_size=jnp.float32(1e-4), **settings)[1]
    )
    changes = [float(move(key).energy_change) for key in jax.random.split(jax.random.key(2), 4)]
    assert np.abs(changes).max() < 1e-3
