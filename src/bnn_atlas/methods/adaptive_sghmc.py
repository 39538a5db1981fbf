"""SGHMC that estimates the mass, and a correction for the noise of the gradients, during burn-in.

Springenberg et al. 2016, Bayesian Optimization with Robust Bayesian Neural Networks, section 4 (adaptive SGHMC). With
v = eps m / M (the change of the position) and alpha = 1 - beta (the friction), the step of the paper is

    v <- (1 - alpha) v + eps^2 g / M + N(0, 2 alpha eps^2 / M - eps^4),    theta <- theta + v

where g estimates the gradient of the tempered log posterior on all rows, and M is the square root of V, the mean square
of g.
"""

from typing import NamedTuple

import jax
import numpy as np
import optax
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods.sgmcmc import AdaptiveSGHMCConfig
from bnn_atlas.methods.contract import Method, Step
from bnn_atlas.methods.sgmcmc import Lengths, PhaseSettings, Preconditioner, SGMCMCState, build_stochastic
from bnn_atlas.posterior.density import Posterior, PosteriorData, Target

SMALLEST = 1e-7
"""Added to the mass, because a parameter's gradient can be zero."""


class Averages(NamedTuple):
    """Moving averages [P] of the gradient and the squared gradient, and the averages' memory in steps."""

    window: Array
    mean: Array
    square: Array


def adaptive_mass() -> Preconditioner:
    """Mass M = sqrt(V) from averages over windows of tau steps, elementwise.

    With r = 1 / (tau + 1):

        tau <- 1 + tau (1 - mean^2 / V),    mean <- mean + r (g - mean),    V <- V + r (g^2 - V)

    The window shrinks to one step if the gradient is all signal, and grows if the gradient is all noise. The momentum's
    noise has the variance 2 alpha M - h M^2, since a gradient of variance V adds h M^2.
    """

    def init(position: Array) -> Averages:
        return Averages(jnp.ones_like(position), jnp.zeros_like(position), jnp.zeros_like(position))

    def update(averages: Averages, gradient: Array) -> Averages:
        window, mean, square = averages
        share = 1 / (window + 1)
        signal = mean**2 / jnp.maximum(square, jnp.finfo(square.dtype).tiny)
        return Averages(
            1 + window * jnp.maximum(1 - signal, 0.0),
            mean + share * (gradient - mean),
            square + share * (gradient**2 - square),
        )

    return Preconditioner(
        init=init,
        update=update,
        mass=lambda averages: SMALLEST + jnp.sqrt(averages.square),
        noise=lambda mass, step_size, friction: jnp.maximum(2 * friction * mass - step_size * mass**2, 0.0),
    )


def build_adaptive_sghmc(config: AdaptiveSGHMCConfig, posterior: Posterior, data: PosteriorData) -> Method:
    """Adaptive SGHMC with the given settings; the mass is fixed at the end of burn-in."""
    method = build_stochastic(
        Lengths(config.burn_in, config.steps, config.thinning),
        config.batch_size,
        optax.constant_schedule(config.step_size**2),
        1 - config.friction,
        adaptive_mass(),
        adapt_after_burn_in=False,
    )
    *burn_in, sampling = method.phases
    if config.momentum_zeroing:
        step = zeroing(burn_in[-1].step, config.momentum_zeroing)
        burn_in = [phase._replace(step=step) for phase in burn_in]
    if config.rest_after_burn_in:
        burn_in[-1] = burn_in[-1]._replace(finish=lambda state, kept: _at_rest(state))
    return method._replace(phases=(*burn_in, sampling))


def zeroing(step: Step, probability: float) -> Step:
    """Turn `step` into a step that first sets the whole momentum to 0 with probability p.

    The noise compensates only for the friction alpha, so the chain is colder than its target: the temperature of the
    chain is about alpha / (alpha + p / 2) times that of the target.
    """

    def zeroed(
        key: Array, index: Array, state: SGMCMCState, target: Target, settings: PhaseSettings
    ) -> tuple[SGMCMCState, dict[str, Array]]:
        stop_key, key = jax.random.split(key)
        stop = jax.random.bernoulli(stop_key, probability)
        momentum = jax.tree.map(lambda kept: jnp.where(stop, 0.0, kept), state.dynamics.momentum)
        return step(key, index, state._replace(dynamics=state.dynamics._replace(momentum=momentum)), target, settings)

    return zeroed


def _at_rest(state: SGMCMCState) -> SGMCMCState:
    momentum = jax.tree.map(np.zeros_like, state.dynamics.momentum)
    return state._replace(dynamics=state.dynamics._replace(momentum=momentum))
