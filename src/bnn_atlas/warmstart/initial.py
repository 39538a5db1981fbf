"""Untrained networks from which chains start."""

import jax
import numpy as np
from jax import numpy as jnp

from bnn_atlas.config.initial import InitialConfig
from bnn_atlas.keys import Role, role_key
from bnn_atlas.posterior.density import Posterior
from bnn_atlas.warmstart.ensemble import initialise


def initial_networks(
    posterior: Posterior, config: InitialConfig, members: np.ndarray, seed: int, dtype: jnp.dtype = jnp.float32
) -> np.ndarray:
    """Parameters [member, P] of the untrained networks with the given numbers; what the likelihood adds is 0.

    A network's bits depend on the seed, its number and the settings alone. With `distribution: normal` every parameter
    is an independent draw from N(0, scale^2), as in the synthetic regression of Izmailov et al. (2021).
    """
    numbers = np.asarray(members)
    if config.scale is not None:
        return np.stack([_normal(posterior, config.scale, seed, int(number), dtype) for number in numbers])
    return initialise(posterior, numbers, seed, dtype)


def _normal(posterior: Posterior, scale: float, seed: int, number: int, dtype: jnp.dtype) -> np.ndarray:
    size = posterior.network.layout.size
    drawn = scale * jax.random.normal(role_key(seed, Role.INITIALISE, number), (size,), dtype)
    return np.concatenate([np.asarray(drawn), np.zeros(posterior.layout.size - size, drawn.dtype)])
