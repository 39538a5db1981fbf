"""Hamiltonian Monte Carlo with leapfrog steps, jittered trajectory length and a Metropolis test.

Neal 2011 (MCMC using Hamiltonian dynamics); for Bayesian neural networks as in Izmailov et al. 2021, sections 3 and 4,
with jittered trajectory lengths, and with the current state repeated if a proposal is rejected.
"""

from typing import NamedTuple

import jax
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods.hmc import HMCConfig, UnadjustedHMCConfig
from bnn_atlas.methods.contract import Method
from bnn_atlas.methods.integrators import leapfrog
from bnn_atlas.methods.noise import standard_normal
from bnn_atlas.methods.warmup import Adaptation, ChainState, WarmUp, adapted_method
from bnn_atlas.posterior.density import Evaluate, Evaluation, Gain, Posterior, PosteriorData, Target
from bnn_atlas.rounding import root

DIVERGENCE = 1000.0
"""Energy error of a trajectory that counts as divergent, as in Stan."""


class HMCInfo(NamedTuple):
    """Energy error, acceptance probability and outcome of the proposal."""

    energy_change: Array
    acceptance: Array
    accepted: Array
    divergent: Array
    cut_short: Array
    """The trajectory reached the largest number of steps before its full length."""
    gradients: Array


def step(
    key: Array,
    state: ChainState,
    evaluate: Evaluate,
    gain: Gain,
    *,
    step_size: Array,
    trajectory_length: float,
    jitter: float,
    max_steps: int,
    inverse_mass: Array | None = None,
    metropolis: Array | bool = True,
) -> tuple[ChainState, HMCInfo]:
    """One transition with diagonal mass 1/v, or unit mass.

    From p ~ N(0, 1/v), ceil(tau u / eps) leapfrog steps (at most `max_steps`) with u ~ U(1 - jitter, 1 + jitter) lead
    to a proposal. It is accepted with probability min(1, exp(-dE)), dE = p'.(v p')/2 - p.(v p)/2 - (dl + dpi) / T, with
    l the log-likelihood, pi the log-prior and T the temperature. A proposal that is not finite, or whose dE is above
    `DIVERGENCE`, counts as divergent. Without the Metropolis test, every proposal that is not divergent is accepted.

    Args:
        key: random key of this transition.
        state: current state.
        evaluate: densities and tempered gradient at a position.
        gain: change of the tempered log density between two positions.
        step_size: eps.
        trajectory_length: tau.
        jitter: half-width of u.
        max_steps: longest trajectory, in leapfrog steps.
        inverse_mass: v [P]; None for ones.
        metropolis: whether the proposal is tested.
    """
    momentum_key, length_key, accept_key = jax.random.split(key, 3)
    start = standard_normal(momentum_key, state.position)
    if inverse_mass is not None:
        start = start / root(inverse_mass)
    factor = jax.random.uniform(length_key, (), start.dtype, 1 - jitter, 1 + jitter)
    wanted = jnp.ceil(trajectory_length * factor / step_size)
    steps = jnp.minimum(wanted, max_steps).astype(jnp.int32)

    def advance(_: Array, carry: tuple[Array, Array, Evaluation]) -> tuple[Array, Array, Evaluation]:
        return leapfrog(*carry, evaluate, step_size, inverse_mass)

    position, momentum, evaluation = jax.lax.fori_loop(0, steps, advance, (state.position, start, state.evaluation))
    velocity_sum = momentum + start if inverse_mass is None else inverse_mass * (momentum + start)
    kinetic = 0.5 * jnp.dot(momentum - start, velocity_sum)
    proposed = ChainState(position, evaluation)
    energy_change = kinetic - gain(proposed.place, state.place)
    finite = jnp.isfinite(energy_change)
    divergent = ~finite | (energy_change > DIVERGENCE)
    acceptance = jnp.where(finite, jnp.minimum(1.0, jnp.exp(-energy_change)), 0.0)
    passed = jax.random.uniform(accept_key, (), start.dtype) < acceptance
    accepted = jnp.where(metropolis, passed, ~divergent)
    state = jax.tree.map(lambda a, b: jnp.where(accepted, a, b), proposed, state)
    error = jnp.where(finite, energy_change, jnp.inf)
    return state, HMCInfo(error, acceptance, accepted, divergent, wanted > max_steps, steps)


def build_hmc(config: HMCConfig | UnadjustedHMCConfig, posterior: Posterior, data: PosteriorData) -> Method:
    """HMC with the given settings, or the same dynamics without the Metropolis test.

    A diagonal inverse mass consists of the posterior variances divided by their mean, so that step size and trajectory
    length keep their meaning: the root mean square velocity is 1, as with unit mass.

    Raises:
        ValueError: the settings are still relative to a prior (see `LeapfrogSettings.resolved`).
    """
    step_size, length = config.lengths
    tested, test_burn_in, diagonal = False, False, False
    warm_up = WarmUp(config.burn_in, step_size=False)
    if isinstance(config, HMCConfig):
        tested, test_burn_in, diagonal = True, config.burn_in_metropolis, config.mass == "diagonal"
        adapted = config.adapt_step_size
        warm_up = WarmUp(config.burn_in, config.target_acceptance, step_size=adapted, variances=diagonal)

    def inverse_mass(adaptation: Adaptation) -> Array | None:
        return adaptation.variances / adaptation.variances.mean() if diagonal else None

    def transition(
        key: Array, index: Array, state: ChainState, adaptation: Adaptation, target: Target, warming: Array
    ) -> tuple[ChainState, dict[str, Array]]:
        state, info = step(
            key,
            state,
            target.evaluate,
            target.gain,
            step_size=adaptation.step_size,
            trajectory_length=length,
            jitter=config.jitter,
            max_steps=config.max_leapfrog_steps,
            inverse_mass=inverse_mass(adaptation),
            metropolis=test_burn_in or (tested and ~jnp.asarray(warming, bool)),
        )
        return state, info._asdict()

    def fit(adaptation: Adaptation) -> dict[str, Array]:
        learned = {"step_size": adaptation.step_size} if config.adapts else {}
        inverse = inverse_mass(adaptation)
        return learned if inverse is None else {**learned, "inverse_mass": inverse}

    return adapted_method(
        transition,
        warm_up,
        step_size=step_size,
        steps=config.steps,
        thinning=config.thinning,
        statistics=[name for name in HMCInfo._fields if tested or name not in ("acceptance", "accepted")],
        gradients_per_step=None if config.adapts else config.mean_leapfrog_steps,
        fit=fit,
    )
