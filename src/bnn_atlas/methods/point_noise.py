"""A learned noise as one number that is fitted with the density of the weights: type-II maximum likelihood.

The number is log sigma, the last parameter of a posterior with the likelihood `learned_noise`. It has no prior and no
spread: what is maximised is the evidence lower bound of the weights at this noise (Uppal et al. 2023 learn the noise of
their regressions so).
"""

import math

import numpy as np
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.posterior import LearnedNoiseLikelihood
from bnn_atlas.posterior.density import Posterior
from bnn_atlas.posterior.priors import PriorValues

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def noise_index(posterior: Posterior) -> int:
    """Index of log sigma among the parameters.

    Raises:
        ValueError: the likelihood has no learned noise, or the prior is not normal.
    """
    if not isinstance(posterior.likelihood, LearnedNoiseLikelihood):
        raise ValueError(
            f"method.noise 'point' is for likelihood.kind 'learned_noise', not '{posterior.likelihood.kind}': leave "
            "noise out, or choose that likelihood"
        )
    if posterior.family.name != "normal":
        raise ValueError(
            f"method.noise 'point' takes the noise out of a normal prior, and this one is of the family "
            f"'{posterior.family.name}': choose prior.kind 'normal', or leave noise out"
        )
    return posterior.layout.size - 1


def without_noise(values: PriorValues, index: int) -> PriorValues:
    """The prior of all parameters but log sigma, whose density is flat."""
    scale = values.scale[index]
    own = jnp.where(jnp.isinf(scale), 0, jnp.log(scale) + _HALF_LOG_2PI)
    return values._replace(scale=values.scale.at[index].set(jnp.inf), log_normaliser=values.log_normaliser - own)


def weights_only(size: int, index: int) -> Array:
    """1 for each of the parameters [size] that q is a density of, 0 for log sigma."""
    return jnp.asarray(np.arange(size) != index, jnp.float32)
