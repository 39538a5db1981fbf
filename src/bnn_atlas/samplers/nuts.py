"""The No-U-Turn sampler: BlackJAX's kernel, with leapfrog steps of our densities.

Hoffman and Gelman 2014, with multinomial sampling along the trajectory (Betancourt 2017) and iterative doubling (Phan
et al. 2019), as implemented by BlackJAX.
"""

from typing import Any, NamedTuple

from blackjax.mcmc import nuts
from blackjax.mcmc.hmc import HMCState
from blackjax.mcmc.integrators import IntegratorState
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods import NUTSConfig
from bnn_atlas.posterior.density import Evaluate, Target
from bnn_atlas.samplers import hmc
from bnn_atlas.samplers.base import Sampler, Statistic
from bnn_atlas.samplers.warmup import Adaptation, ChainState, WarmUp, adapted_sampler


class NUTSInfo(NamedTuple):
    """Energy of the drawn state over that of the first one, and what the trajectory was like."""

    energy_change: Array
    acceptance: Array
    """Mean acceptance probability of the trajectory's states."""
    divergent: Array
    """An energy error was above 1000 or not finite; the trajectory ended there."""
    gradients: Array
    tree_depth: Array
    """Doublings of the trajectory."""


def step(
    key: Array,
    state: ChainState,
    evaluate: Evaluate,
    *,
    step_size: Array,
    inverse_mass: Array,
    max_doublings: int,
    temperature: float,
) -> tuple[ChainState, NUTSInfo]:
    """One transition with diagonal mass.

    BlackJAX takes a log density and differentiates it. Its states hold the gradient only for the integrator, so ours
    puts the whole evaluation in its place: every leapfrog step costs one evaluation and both densities of the drawn
    state come for nothing. The log density that BlackJAX sees is the gain over the first state, which keeps float32
    accurate, and minus infinity where it is not finite, so that such a state is never drawn.

    Args:
        key: random key of this transition.
        state: current state.
        evaluate: densities and tempered gradient at a position.
        step_size: of the leapfrog.
        inverse_mass: diagonal [P].
        max_doublings: longest trajectory has 2^max_doublings - 1 steps.
        temperature: divides the log density, as in `evaluate`'s gradient.
    """
    origin = state.evaluation.density

    def integrator(_: Any, kinetic_energy: Any) -> Any:
        def advance(leaf: IntegratorState, signed_step: Array) -> IntegratorState:
            position, momentum, evaluation = hmc.leapfrog(
                leaf.position, leaf.momentum, leaf.logdensity_grad, evaluate, signed_step, inverse_mass
            )
            gain = hmc.gain(evaluation.density, origin, temperature)
            return IntegratorState(position, momentum, jnp.where(jnp.isfinite(gain), gain, -jnp.inf), evaluation)

        return advance

    first = HMCState(state.position, jnp.zeros((), state.position.dtype), state.evaluation)
    drawn, info = nuts.build_kernel(integrator)(key, first, None, step_size, inverse_mass, max_doublings)
    energy_change = info.energy - 0.5 * jnp.dot(info.momentum, inverse_mass * info.momentum)
    return ChainState(drawn.position, drawn.logdensity_grad), NUTSInfo(
        energy_change,
        info.acceptance_rate,
        info.is_divergent,
        info.num_integration_steps,
        info.num_trajectory_expansions,
    )


def build_nuts(config: NUTSConfig, temperature: float) -> Sampler:
    """Sampler of the settings; with a diagonal mass its inverse is the posterior variances."""
    diagonal = config.mass == "diagonal"
    warm_up = WarmUp(config.warmup, config.target_acceptance, variances=diagonal)

    def transition(
        key: Array, index: Array, state: ChainState, adaptation: Adaptation, target: Target, warming: Array
    ) -> tuple[ChainState, dict[str, Array]]:
        state, info = step(
            key,
            state,
            target.evaluate,
            step_size=adaptation.step_size,
            inverse_mass=adaptation.variances if diagonal else jnp.ones_like(state.position),
            max_doublings=config.max_doublings,
            temperature=temperature,
        )
        return state, info._asdict()

    return adapted_sampler(
        transition,
        warm_up,
        step_size=config.step_size,
        steps=config.steps,
        thinning=config.thinning,
        statistics={
            "energy_change": Statistic("last"),
            "acceptance": Statistic("mean"),
            "divergent": Statistic("sum", "int32"),
            "gradients": Statistic("sum", "int32"),
            "tree_depth": Statistic("mean"),
        },
    )
