"""Microcanonical Hamiltonian Monte Carlo with a Metropolis test, from BlackJAX's building blocks.

Robnik, Cohn-Gordon and Seljak 2025 (Metropolis Adjusted Microcanonical Hamiltonian Monte Carlo, arXiv:2503.01707): the
isokinetic dynamics of MCLMC without noise, along trajectories of random length that are accepted or rejected as a
whole, with a new momentum for each.
"""

import math
from typing import Any, NamedTuple

import jax
from blackjax.mcmc.adjusted_mclmc import adjusted_mclmc_proposal
from blackjax.mcmc.adjusted_mclmc_dynamic import make_random_trajectory_length_fn
from blackjax.mcmc.integrators import (
    IntegratorState,
    esh_dynamics_momentum_update_one_step,
    format_isokinetic_state_output,
    generalized_two_stage_integrator,
    mclachlan_coefficients,
)
from blackjax.mcmc.proposal import static_binomial_sampling
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods.hmc import AdjustedMCLMCConfig
from bnn_atlas.methods.contract import Method
from bnn_atlas.methods.hmc import DIVERGENCE
from bnn_atlas.methods.mclmc import refuse_one_parameter, unit_vector
from bnn_atlas.methods.warmup import Adaptation, ChainState, WarmUp, adapted_method
from bnn_atlas.posterior.density import Evaluate, Evaluation, Gain, Place, Posterior, PosteriorData, Target


class AdjustedMCLMCInfo(NamedTuple):
    """Energy error, acceptance probability and outcome of the proposal."""

    energy_change: Array
    acceptance: Array
    accepted: Array
    divergent: Array
    """The energy error was above `DIVERGENCE` or not finite."""
    cut_short: Array
    """The mean length requires longer trajectories than `max_steps` allows."""
    gradients: Array


def step(
    key: Array,
    state: ChainState,
    evaluate: Evaluate,
    gain: Gain,
    *,
    step_size: Array,
    mean_steps: Array,
    max_steps: int,
    inverse_mass: Array,
) -> tuple[ChainState, AdjustedMCLMCInfo]:
    """One transition.

    The momentum u is drawn uniformly from the unit sphere. Then n isokinetic McLachlan steps of two gradients each
    follow, where n is uniform on 1, 2, ... with mean `mean_steps`. The proposal is accepted with probability
    min(1, exp(-dE)), where dE is the change of kinetic energy minus the gain of the tempered log density. As in `nuts`,
    BlackJAX's states carry our densities.

    Args:
        key: random key of this transition.
        state: current state.
        evaluate: densities and tempered gradient at a position.
        gain: change of the tempered log density between two positions.
        step_size: distance of a step, in units of the square root of `inverse_mass`.
        mean_steps: mean of n; values below 1 count as 1.
        max_steps: largest n, so that the mean is at most (max_steps + 1) / 2.
        inverse_mass: diagonal preconditioner [P].
    """
    length_key, momentum_key, proposal_key = jax.random.split(key, 3)
    kick = esh_dynamics_momentum_update_one_step(inverse_mass)

    def drift(position: Array, velocity: Array, size: Array, coefficient: float, _: None) -> Any:
        position = position + coefficient * size * velocity
        evaluation = evaluate(position)
        return position, gain(Place(position, evaluation.density), state.place), evaluation, None

    def push(momentum: Array, evaluation: Evaluation, *arguments: Any, **options: Any) -> Any:
        return kick(momentum, evaluation.gradient, *arguments, **options)

    advance = generalized_two_stage_integrator(push, drift, mclachlan_coefficients, format_isokinetic_state_output)

    def choose(key: Array, rise: Array, old: IntegratorState, new: IntegratorState) -> Any:
        rise = jnp.where(jnp.isfinite(rise), rise, -jnp.inf)
        chosen, (accepted, probability, _) = static_binomial_sampling(key, rise, old, new)
        return chosen, (accepted, probability, -rise)

    # Where 2 mean - 1 is a whole number, n is uniform on 1 ... 2 mean - 1, so this mean keeps n within `max_steps`.
    cut_short = mean_steps > (max_steps + 1) / 2
    mean_steps = jnp.minimum(mean_steps, (max_steps + 1) / 2)
    steps = make_random_trajectory_length_fn(random_trajectory_length=True)(length_key, mean_steps)
    propose = adjusted_mclmc_proposal(
        lambda leaf, size, length, key: advance(leaf, size), step_size, jnp.inf, steps, sample_proposal=choose
    )
    momentum = unit_vector(momentum_key, state.position)
    zero = jnp.zeros((), state.position.dtype)
    drawn, info, energy_change = propose(
        proposal_key, IntegratorState(state.position, momentum, zero, state.evaluation)
    )
    return ChainState(drawn.position, drawn.logdensity_grad), AdjustedMCLMCInfo(
        energy_change, info.acceptance_rate, info.is_accepted, energy_change > DIVERGENCE, cut_short, 2 * steps
    )


def build_adjusted_mclmc(config: AdjustedMCLMCConfig, posterior: Posterior, data: PosteriorData) -> Method:
    """Adjusted MCLMC with the given settings.

    The mean trajectory length is L = `length_factor` sqrt(sum of the posterior variances), as in BlackJAX's tuning. If
    the variances serve as preconditioner, L = `length_factor` sqrt(d), which is the same length in the scaled
    coordinates. BlackJAX 1.7 then fixes the number of steps; here, as in the paper, the number follows from L and the
    tuned step size. Until the variances are first estimated, a trajectory has `first_steps` steps on average.

    Raises ValueError for a model with one parameter.
    """
    refuse_one_parameter(posterior.layout.size)
    diagonal = config.mass == "diagonal"
    warm_up = WarmUp(config.warmup, config.target_acceptance, variances=True)

    def mean_length(adaptation: Adaptation) -> Array | float:
        size = math.sqrt(posterior.layout.size) if diagonal else jnp.sqrt(adaptation.variances.sum())
        return config.length_factor * size

    def transition(
        key: Array, index: Array, state: ChainState, adaptation: Adaptation, target: Target, warming: Array
    ) -> tuple[ChainState, dict[str, Array]]:
        estimated = ~jnp.asarray(warming, bool) | (index >= warm_up.first_window)
        length = jnp.where(estimated, mean_length(adaptation), config.first_steps * adaptation.step_size)
        state, info = step(
            key,
            state,
            target.evaluate,
            target.gain,
            step_size=adaptation.step_size,
            mean_steps=length / adaptation.step_size,
            max_steps=config.max_integration_steps,
            inverse_mass=adaptation.variances if diagonal else jnp.ones_like(state.position),
        )
        return state, {**info._asdict(), "length": length}

    def fit(adaptation: Adaptation) -> dict[str, Array]:
        dtype = adaptation.step_size.dtype
        learned = {"step_size": adaptation.step_size, "length": jnp.asarray(mean_length(adaptation), dtype)}
        return {**learned, "inverse_mass": adaptation.variances} if diagonal else learned

    return adapted_method(
        transition,
        warm_up,
        step_size=config.step_size,
        steps=config.steps,
        thinning=config.thinning,
        statistics=(*AdjustedMCLMCInfo._fields, "length"),
        fit=fit,
    )
