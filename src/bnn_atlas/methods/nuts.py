"""The No-U-Turn sampler: BlackJAX's kernel, with leapfrog steps on our densities.

Hoffman and Gelman 2014, with multinomial sampling along the trajectory (Betancourt 2017) and iterative doubling (Phan
et al. 2019), as implemented by BlackJAX.
"""

from typing import Any, NamedTuple

import jax
from blackjax.mcmc import nuts
from blackjax.mcmc.hmc import HMCState
from blackjax.mcmc.integrators import IntegratorState
from blackjax.mcmc.metrics import Metric, gaussian_euclidean
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods.hmc import NUTSConfig
from bnn_atlas.methods.contract import Method
from bnn_atlas.methods.integrators import leapfrog
from bnn_atlas.methods.warmup import Adaptation, ChainState, WarmUp, adapted_method
from bnn_atlas.posterior.density import Evaluate, Gain, Place, Posterior, PosteriorData, Target
from bnn_atlas.rounding import root


class NUTSInfo(NamedTuple):
    """Energy of the drawn state relative to the first state, and facts about the trajectory."""

    energy_change: Array
    acceptance: Array
    """Mean acceptance probability of the trajectory's states."""
    divergent: Array
    """An energy error was above 1000 or not finite; the trajectory ended there."""
    gradients: Array
    tree_depth: Array
    """Doublings of the trajectory."""
    cut_short: Array
    """The trajectory had the largest number of doublings without a turn or a divergence."""


def step(
    key: Array,
    state: ChainState,
    evaluate: Evaluate,
    gain: Gain,
    *,
    step_size: Array,
    inverse_mass: Array,
    max_doublings: int,
) -> tuple[ChainState, NUTSInfo]:
    """One transition with diagonal mass.

    BlackJAX takes a log density and differentiates it. Its states hold the gradient only for the integrator, so our
    integrator stores the whole evaluation in place of the gradient: every leapfrog step costs one evaluation, and both
    densities of the drawn state are known. The log density that BlackJAX sees is relative to that of the first state,
    and its kinetic energy is relative to that of the first momentum, which keeps float32 accurate. A gain that is not
    finite becomes minus infinity, so that such a state is never drawn.

    Args:
        key: random key of this transition.
        state: current state.
        evaluate: densities and tempered gradient at a position.
        gain: change of the tempered log density between two positions.
        step_size: size of a leapfrog step.
        inverse_mass: diagonal [P].
        max_doublings: the longest trajectory has 2^max_doublings - 1 steps.
    """
    metric = gaussian_euclidean(inverse_mass)
    # The momentum that BlackJAX's kernel would draw from this key, up to rounding.
    normal = jax.random.normal(jax.random.split(key)[0], state.position.shape, state.position.dtype)
    start = normal / root(inverse_mass)

    def integrator(_: Any, kinetic_energy: Any) -> Any:
        def advance(leaf: IntegratorState, signed_step: Array) -> IntegratorState:
            position, momentum, evaluation = leapfrog(
                leaf.position, leaf.momentum, leaf.logdensity_grad, evaluate, signed_step, inverse_mass
            )
            rise = gain(Place(position, evaluation.density), state.place)
            return IntegratorState(position, momentum, jnp.where(jnp.isfinite(rise), rise, -jnp.inf), evaluation)

        return advance

    first = HMCState(state.position, jnp.zeros((), state.position.dtype), state.evaluation)
    relative = _relative_to(start, metric, inverse_mass)
    drawn, info = nuts.build_kernel(integrator)(key, first, None, step_size, relative, max_doublings)
    doublings = info.num_trajectory_expansions
    return ChainState(drawn.position, drawn.logdensity_grad), NUTSInfo(
        info.energy,
        info.acceptance_rate,
        info.is_divergent,
        info.num_integration_steps,
        doublings,
        (doublings == max_doublings) & ~info.is_turning & ~info.is_divergent,
    )


def _relative_to(start: Array, metric: Metric, inverse_mass: Array) -> Metric:
    """The metric for trajectories from momentum `start` [P]; energies K(p) - K(start) are computed as one sum."""

    def kinetic_energy(momentum: Array, position: Array | None = None) -> Array:
        return 0.5 * jnp.dot(momentum - start, inverse_mass * (momentum + start))

    return metric._replace(sample_momentum=lambda key, position: start, kinetic_energy=kinetic_energy)


def build_nuts(config: NUTSConfig, posterior: Posterior, data: PosteriorData) -> Method:
    """NUTS with the given settings; the inverse of a diagonal mass consists of the posterior variances."""
    diagonal = config.mass == "diagonal"
    warm_up = WarmUp(config.warmup, config.target_acceptance, variances=diagonal)

    def transition(
        key: Array, index: Array, state: ChainState, adaptation: Adaptation, target: Target, warming: Array
    ) -> tuple[ChainState, dict[str, Array]]:
        state, info = step(
            key,
            state,
            target.evaluate,
            target.gain,
            step_size=adaptation.step_size,
            inverse_mass=adaptation.variances if diagonal else jnp.ones_like(state.position),
            max_doublings=config.max_doublings,
        )
        return state, info._asdict()

    def fit(adaptation: Adaptation) -> dict[str, Array]:
        learned = {"step_size": adaptation.step_size}
        return {**learned, "inverse_mass": adaptation.variances} if diagonal else learned

    return adapted_method(
        transition,
        warm_up,
        step_size=config.step_size,
        steps=config.steps,
        thinning=config.thinning,
        statistics=NUTSInfo._fields,
        fit=fit,
    )
