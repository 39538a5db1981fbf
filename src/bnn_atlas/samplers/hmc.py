"""Hamiltonian Monte Carlo with leapfrog steps, jittered trajectory length and a Metropolis test.

Neal 2011 (MCMC using Hamiltonian dynamics); for Bayesian neural networks as in Izmailov et al. 2021, sections 3 and 4,
with the trajectory jittered and rejected proposals counted again.
"""

from typing import NamedTuple

import jax
from blackjax.adaptation.step_size import DualAveragingAdaptationState, dual_averaging_adaptation
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods import HMCConfig
from bnn_atlas.posterior.density import Evaluate, Evaluation, Target
from bnn_atlas.samplers.base import Phase, Sampler, Statistic


class HMCState(NamedTuple):
    """Position [P] with densities and gradient there."""

    position: Array
    evaluation: Evaluation


class HMCInfo(NamedTuple):
    """Energy error of the proposal, its acceptance probability, and what became of it."""

    energy_change: Array
    acceptance: Array
    accepted: Array
    divergent: Array
    leapfrog_steps: Array


def init(key: Array, position: Array, evaluate: Evaluate) -> HMCState:
    """State at `position`."""
    return HMCState(position, evaluate(position))


def step(
    key: Array,
    state: HMCState,
    evaluate: Evaluate,
    *,
    step_size: Array,
    trajectory_length: float,
    jitter: float,
    max_steps: int,
    temperature: float,
) -> tuple[HMCState, HMCInfo]:
    """One transition with unit mass.

    p ~ N(0, I); ceil(tau u / eps) leapfrog steps (at most `max_steps`) with u ~ U(1 - jitter, 1 + jitter); accepted
    with probability min(1, exp(-dE)), dE = |p'|^2/2 - |p|^2/2 - (dl + dpi) / T, where the differences of the
    log-likelihood l and of the log-prior pi are formed apart, so that float32 keeps its accuracy. A proposal that is
    not finite is rejected and counted as divergent.

    Args:
        key: random key of this transition.
        state: current state.
        evaluate: densities and tempered gradient at a position.
        step_size: eps.
        trajectory_length: tau.
        jitter: half-width of u.
        max_steps: longest trajectory, in leapfrog steps.
        temperature: T.
    """
    momentum_key, length_key, accept_key = jax.random.split(key, 3)
    start = jax.random.normal(momentum_key, state.position.shape, state.position.dtype)
    factor = jax.random.uniform(length_key, (), start.dtype, 1 - jitter, 1 + jitter)
    steps = jnp.minimum(jnp.ceil(trajectory_length * factor / step_size), max_steps).astype(jnp.int32)

    def leapfrog(_: Array, carry: tuple[Array, Array, Evaluation]) -> tuple[Array, Array, Evaluation]:
        position, momentum, evaluation = carry
        momentum = momentum + 0.5 * step_size * evaluation.gradient
        position = position + step_size * momentum
        evaluation = evaluate(position)
        return position, momentum + 0.5 * step_size * evaluation.gradient, evaluation

    position, momentum, evaluation = jax.lax.fori_loop(0, steps, leapfrog, (state.position, start, state.evaluation))
    new, old = evaluation.density, state.evaluation.density
    gain = ((new.log_likelihood - old.log_likelihood) + (new.log_prior - old.log_prior)) / temperature
    energy_change = 0.5 * jnp.dot(momentum - start, momentum + start) - gain
    finite = jnp.isfinite(energy_change)
    acceptance = jnp.where(finite, jnp.minimum(1.0, jnp.exp(-energy_change)), 0.0)
    accepted = jax.random.uniform(accept_key, (), start.dtype) < acceptance
    proposed = HMCState(position, evaluation)
    state = jax.tree.map(lambda a, b: jnp.where(accepted, a, b), proposed, state)
    return state, HMCInfo(jnp.where(finite, energy_change, jnp.inf), acceptance, accepted, ~finite, steps)


class TunedState(NamedTuple):
    """A chain, its step size, and the dual averaging that tunes it in burn-in."""

    chain: HMCState
    step_size: Array
    averaging: DualAveragingAdaptationState


def build_hmc(config: HMCConfig, temperature: float) -> Sampler:
    """Sampler of the settings."""
    averaging_init, averaging_update, averaging_final = dual_averaging_adaptation(config.target_acceptance)

    def start(key: Array, position: Array, target: Target) -> TunedState:
        step_size = jnp.asarray(config.step_size, position.dtype)
        averaging = jax.tree.map(lambda leaf: jnp.asarray(leaf, position.dtype), averaging_init(step_size))
        return TunedState(init(key, position, target.evaluate), step_size, averaging)

    def transition(
        key: Array, index: Array, state: TunedState, target: Target, adapt: int
    ) -> tuple[TunedState, dict[str, Array]]:
        chain, info = step(
            key,
            state.chain,
            target.evaluate,
            step_size=state.step_size,
            trajectory_length=config.trajectory_length,
            jitter=config.jitter,
            max_steps=config.max_leapfrog_steps,
            temperature=temperature,
        )
        averaging = averaging_update(state.averaging, info.acceptance)
        last = index == config.burn_in - 1
        tuned = jnp.where(last, averaging_final(averaging), jnp.exp(averaging.log_step_size))
        tuned_state = TunedState(chain, tuned.astype(state.step_size.dtype), _as(averaging, state.averaging))
        new = jax.tree.map(lambda a, b: jnp.where(adapt, a, b), tuned_state, state._replace(chain=chain))
        return new, {**info._asdict(), "step_size": state.step_size}

    phases = (
        Phase("burn-in", config.burn_in, transition, int(config.adapt_step_size)),
        Phase("sampling", config.steps, transition, 0, keep=True, thinning=config.thinning),
    )
    return Sampler(
        init=start,
        phases=tuple(phase for phase in phases if phase.steps),
        statistics={
            "energy_change": Statistic("last"),
            "acceptance": Statistic("mean"),
            "accepted": Statistic("mean"),
            "divergent": Statistic("sum", "int32"),
            "leapfrog_steps": Statistic("sum", "int32"),
            "step_size": Statistic("last"),
        },
        position=lambda state: state.chain.position,
        density=lambda state: state.chain.evaluation.density,
        gradients_per_step=None if config.adapt_step_size else config.trajectory_length / config.step_size,
    )


def _as(new: DualAveragingAdaptationState, old: DualAveragingAdaptationState) -> DualAveragingAdaptationState:
    """`new` in the types of `old`, so that a loop can carry it."""
    return jax.tree.map(lambda a, b: jnp.asarray(a, b.dtype), new, old)
