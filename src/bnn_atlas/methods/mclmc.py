"""Microcanonical Langevin Monte Carlo, unadjusted, with the isokinetic McLachlan integrator.

Robnik et al. 2023 (Microcanonical Hamiltonian Monte Carlo); used with warm starts by Sommer et al. 2025.

There is no Metropolis test, so draws are biased by the step size. The bias follows from the energy error variance per
dimension, v = E[dE^2] / d over all steps: the mean of the statistic `energy_change_squared`, divided by d. For a
Gaussian target with covariance C and leapfrog steps, the covariance S of the draws satisfies

    4 b^3 / (1 + b)^2 <= v,    b^2 = |C^-1 S - I|_F^2 / d

for any C and d as long as b is below 0.6 in every direction, with equality for equal variances (Robnik, Cohn-Gordon and
Seljak 2024, arXiv:2412.08876). At v = 5e-4, the default of BlackJAX's tuning, b <= 0.05: standard deviations are right
to 2.6 percent. At the same v, the McLachlan steps of this module have b = 0.023, and they obey the bound up to
v = 0.033 (b = 0.23) if all variances are equal. With unequal variances, they can violate the bound above v = 0.002: if
standard deviations are in the ratio 1 : 2, b can be 0.285 at v = 0.02, where the bound is 0.192. Moreover, the
posterior of a network is not Gaussian. MILE's tuning aims at v = 0.1 with an average that gives large errors little
weight, so chains end above 0.1, close to the limit of stability, where no bound is known. Such draws need a different
check, for example a referee, which continues the same chains with a Metropolis test (`RunConfig.referee`).
"""

from typing import NamedTuple

import jax
from jax import Array
from jax import numpy as jnp

from bnn_atlas.methods.integrators import isokinetic
from bnn_atlas.methods.noise import standard_normal
from bnn_atlas.posterior.density import Evaluate, Evaluation, tempered_gain
from bnn_atlas.rounding import norm


class MCLMCState(NamedTuple):
    """Position [P], unit momentum [P], and the densities and gradient at the position."""

    position: Array
    momentum: Array
    evaluation: Evaluation


class MCLMCInfo(NamedTuple):
    """Energy error of a step, and the reason if the step was undone.

    The error is infinite if a value was not finite, and is clipped to the guard's limit.
    """

    energy_change: Array
    divergent: Array
    guarded: Array | None = None
    """The step was undone because the energy error was finite but beyond the limit; None without a limit."""


def refuse_one_parameter(parameters: int) -> None:
    """Raise ValueError for a single parameter: the momentum cannot turn, and its update divides by d - 1."""
    if parameters < 2:
        raise ValueError(
            "microcanonical dynamics need at least two parameters, and this model has one: give the network a bias or "
            "a learned noise, or sample it with hmc or nuts"
        )


def init(key: Array, position: Array, evaluate: Evaluate) -> MCLMCState:
    """State at `position` with a momentum drawn uniformly from the unit sphere."""
    return MCLMCState(position, unit_vector(key, position), evaluate(position))


def step(
    key: Array,
    state: MCLMCState,
    evaluate: Evaluate,
    *,
    step_size: Array,
    length: Array,
    scale: Array,
    temperature: float,
    energy_limit: float | None = None,
) -> tuple[MCLMCState, MCLMCInfo]:
    """One step: half a refreshment, one isokinetic McLachlan step, half a refreshment.

    With u the unit momentum, l the log density and d the dimension:

        refresh(h):  u <- normalise(u + nu z),  nu = sqrt((exp(2 h / L) - 1) / d),  z ~ N(0, I)

    The step between the refreshments is `integrators.isokinetic`. The stationary density is exp(l) up to a bias that
    grows with the variance of dE = dK - dl (see the module). A step whose position, density, gradient or energy is not
    finite is undone with its momentum reversed, and counts as divergent. With `energy_limit`, a step with a larger |dE|
    is also undone with its momentum reversed, and counts as guarded. The step that leads back has the same |dE|, so the
    map stays one-to-one and volume-preserving.

    Args:
        key: random key of this step.
        state: current state.
        evaluate: densities and tempered gradient at a position.
        step_size: eps.
        length: momentum decoherence length L.
        scale: square root of a diagonal preconditioner [P]; ones for none.
        temperature: divides the log density, as in `evaluate`'s gradient.
        energy_limit: largest |dE| of a step that is kept; None for no limit.
    """
    before, after = jax.random.split(key)
    momentum = _refresh(before, state.momentum, step_size / 2, length)
    position, momentum, evaluation, kinetic = isokinetic(
        state.position, momentum, state.evaluation, evaluate, step_size, scale
    )
    momentum = _refresh(after, momentum, step_size / 2, length)

    energy_change = kinetic - tempered_gain(evaluation.density, state.evaluation.density, temperature)
    # The kinetic energy depends on every gradient, and the gain on the density, so the sum shows any non-finite value.
    finite = kept = jnp.isfinite(energy_change)
    guarded = None
    if energy_limit is not None:
        kept = finite & (jnp.abs(energy_change) <= energy_limit)
        guarded = finite & ~kept
        energy_change = jnp.clip(energy_change, -energy_limit, energy_limit)
    proposed = MCLMCState(position, momentum, evaluation)
    undone = state._replace(momentum=-state.momentum)
    state = jax.tree.map(lambda new, old: jnp.where(kept, new, old), proposed, undone)
    return state, MCLMCInfo(jnp.where(finite, energy_change, jnp.inf), ~finite, guarded)


def unit_vector(key: Array, like: Array) -> Array:
    """A uniformly random direction [P]."""
    z = standard_normal(key, like)
    return z / norm(z)


def _refresh(key: Array, momentum: Array, time: Array, length: Array) -> Array:
    nu = jnp.sqrt(jnp.expm1(2 * time / length) / momentum.size)
    refreshed = momentum + nu * standard_normal(key, momentum)
    return refreshed / norm(refreshed)
