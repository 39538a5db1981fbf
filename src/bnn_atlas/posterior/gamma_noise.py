"""Gamma prior on the precision tau = 1 / sigma^2 of a learned noise, as a density over log sigma."""

import math
from typing import NamedTuple

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp
from scipy.special import digamma, gammaln, polygamma

from bnn_atlas.config.parts.priors import NormalGammaNoisePrior
from bnn_atlas.models.layout import Layout


class GammaPrecision(NamedTuple):
    """tau ~ Gamma(shape, rate), and the resulting mean and standard deviation of log sigma = -log(tau) / 2."""

    shape: Array
    rate: Array
    loc: Array
    scale: Array

    def unnormalised(self, z: Array) -> Array:
        """Log density of log sigma = loc + scale z up to a constant: -2 shape log sigma - rate exp(-2 log sigma)."""
        log_sigma = self.loc + self.scale * z
        return -2 * self.shape * log_sigma - self.rate * jnp.exp(-2 * log_sigma)

    def drawn(self, key: Array) -> Array:
        """A draw of z."""
        log_tau = jax.random.loggamma(key, self.shape, dtype=self.loc.dtype) - jnp.log(self.rate)
        return (-0.5 * log_tau - self.loc) / self.scale


def gamma_precision(config: NormalGammaNoisePrior, layout: Layout) -> GammaPrecision:
    """The prior of the noise, in double precision.

    Raises:
        ValueError: the last parameter is not a noise level of the likelihood.
    """
    if not layout.parameters or layout.parameters[-1].name != "log_sigma":
        raise ValueError(
            f"prior.kind '{config.kind}' needs the noise of likelihood.kind 'learned_noise', which this posterior does "
            "not have: choose that likelihood, or prior.kind 'normal'"
        )
    a, b = config.shape, config.rate
    return GammaPrecision(*np.array([a, b, -0.5 * (digamma(a) - np.log(b)), 0.5 * np.sqrt(polygamma(1, a))]))


def log_integral(noise: GammaPrecision) -> float:
    """Log of the integral of exp(unnormalised) over log sigma, Gamma(shape) / (2 rate^shape)."""
    return float(gammaln(noise.shape) - noise.shape * np.log(noise.rate) - math.log(2))
