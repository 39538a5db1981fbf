"""Stochastic-gradient Langevin and Hamiltonian dynamics, with a constant, decaying or cyclical step size.

SGLD (Welling and Teh 2011), SGHMC (Chen et al. 2014) in the form and with the schedules of Izmailov et al. 2021, and
preconditioned SGLD (Li et al. 2016). There is no Metropolis test: draws are biased by the step size and by the noise of
the mini-batches. The momentum goes on from mini-batch to mini-batch and through the phases; it is never drawn anew.

The temperature enters through the tempered gradient alone. At step size h and temperature T this is the same chain as
one with untempered gradients, step size h / T and noise of T times the variance.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods.sgmcmc import RMSpropConfig
from bnn_atlas.methods.noise import standard_normal
from bnn_atlas.posterior.density import Evaluation

Averages = Any
"""What a preconditioner makes its mass from; arrays, or NamedTuples of them."""


class Dynamics(NamedTuple):
    """Position [P]; momentum [P], None where a step keeps none of it; and what the mass is made from, None for one."""

    position: Array
    momentum: Array | None
    averages: Averages


class SGMCMCInfo(NamedTuple):
    """What a step saw: the norm of its gradient, infinite where the step was undone, and its log-likelihood."""

    gradient_norm: Array
    log_likelihood_estimate: Array
    divergent: Array


class Preconditioner(NamedTuple):
    """A diagonal mass made from the gradients that the chain has seen."""

    init: Callable[[Array], Averages]
    """Position [P] -> averages at the start."""
    update: Callable[[Averages, Array], Averages]
    """(averages, gradient [P]) -> averages."""
    mass: Callable[[Averages], Array]
    """Averages -> M [P]."""
    noise: Callable[[Array, Array, float], Array]
    """(M [P], step size h, friction 1 - beta) -> variance of the momentum's noise [P]."""


def step(
    key: Array,
    state: Dynamics,
    evaluation: Evaluation,
    *,
    step_size: Array,
    momentum_decay: float,
    preconditioner: Preconditioner | None = None,
    adapt: Array | int = 1,
) -> tuple[Dynamics, SGMCMCInfo]:
    """One step of size h with momentum decay beta, mass M and z ~ N(0, I).

        m <- beta m + sqrt(h) g + sqrt(2 (1 - beta) M) z
        theta <- theta + sqrt(h) m / M

    beta = 0 is SGLD, theta <- theta + h g / M + sqrt(2 h / M) z. For small h and a constant M the stationary density of
    theta is the target's. A step whose gradient or log density is not finite gives back `state` with momentum 0.

    Args:
        key: random key of this step.
        state: current state.
        evaluation: log density and tempered gradient g at the position, of a mini-batch or of all rows.
        step_size: h.
        momentum_decay: beta.
        preconditioner: makes M; None for the identity.
        adapt: 1 where this step's gradient enters M (before M is used), 0 where M stays.
    """
    gradient = evaluation.gradient
    norm = jnp.sqrt(jnp.dot(gradient, gradient))
    finite = jnp.isfinite(norm + evaluation.density.log_likelihood + evaluation.density.log_prior)
    averages, mass = None, jnp.ones((), gradient.dtype)
    variance = 2 * (1 - momentum_decay) * mass
    if preconditioner is not None:
        seen = preconditioner.update(state.averages, gradient)
        averages = jax.tree.map(lambda new, old: jnp.where(adapt & finite, new, old), seen, state.averages)
        mass = preconditioner.mass(averages)
        variance = preconditioner.noise(mass, step_size, 1 - momentum_decay)
    root = jnp.sqrt(step_size)
    momentum = root * gradient + jnp.sqrt(variance) * standard_normal(key, gradient)
    if state.momentum is not None:
        momentum = momentum_decay * state.momentum + momentum
    position = jnp.where(finite, state.position + root * momentum / mass, state.position)
    kept = None if state.momentum is None else jnp.where(finite, momentum, 0.0)
    info = SGMCMCInfo(jnp.where(finite, norm, jnp.inf), evaluation.density.log_likelihood, ~finite)
    return Dynamics(position, kept, averages), info


def rmsprop(config: RMSpropConfig, rows: int) -> Preconditioner:
    """M = epsilon + sqrt(e) with e <- d e + (1 - d) g^2, e = 0 at the start.

    g is the gradient of the log posterior as in Izmailov et al. 2021, or with `per_row` that divided by `rows` as in Li
    et al. 2016, Preconditioned Stochastic Gradient Langevin Dynamics, algorithm 1, whose step size is 2 rows h. The
    term for the divergence of 1 / M is left out, as in both papers' experiments.
    """
    scale = 1 / rows if config.per_row else 1.0
    return Preconditioner(
        init=jnp.zeros_like,
        update=lambda e, gradient: config.decay * e + (1 - config.decay) * (scale * gradient) ** 2,
        mass=lambda e: config.epsilon + jnp.sqrt(e),
        noise=lambda mass, step_size, friction: 2 * friction * mass,
    )
