"""Full-data L-BFGS to a maximum of the log posterior (Liu and Nocedal 1989; zoom line search, optax)."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import optax
from jax import Array
from jax import numpy as jnp

from bnn_atlas.posterior.density import Target

MEMORY = 10
"""Number of pairs of steps and gradient changes that represent the inverse Hessian."""
ROUNDING = 8
"""Values that differ by less than this many units in the last place count as equal."""
LAST_STALL = 2
"""The search ends after this many consecutive steps without a rise; the first such step also empties the memory."""

_optimiser = optax.lbfgs(memory_size=MEMORY)


class LBFGSState(NamedTuple):
    """Position [P], untempered log posterior, gradient [P] of the log posterior, and the memory of the search."""

    position: Array
    value: Array
    gradient: Array
    memory: optax.OptState
    stalls: Array
    """Number of consecutive steps so far without a rise."""


def start(position: Array, target: Target) -> LBFGSState:
    """State before the first step."""
    value, gradient = jax.value_and_grad(_negative_log_posterior(target))(position)
    return LBFGSState(position, -value, -gradient, _fresh(position), jnp.int32(0))


def step(state: LBFGSState, target: Target, tolerance: float) -> LBFGSState:
    """One step uphill, or none if the length of the gradient is at most `tolerance` or the search is over.

    A step is undone if it makes the log posterior lower or non-finite, or if the log posterior stays equal to within
    rounding while the gradient gets longer. The next step then starts again along the gradient.
    """
    active = (jnp.linalg.norm(state.gradient) > tolerance) & (state.stalls < LAST_STALL)
    return jax.lax.cond(active, lambda state: _ascend(state, target), lambda state: state, state)


def _ascend(state: LBFGSState, target: Target) -> LBFGSState:
    objective = _negative_log_posterior(target)
    changes, memory = _optimiser.update(
        -state.gradient, state.memory, state.position, value=-state.value, grad=-state.gradient, value_fn=objective
    )
    position = optax.apply_updates(state.position, changes)
    value, gradient = memory[-1].value, memory[-1].grad  # as left by the line search, at the new position
    # Near the maximum, values differ by less than their rounding errors, and only the gradient shows which is better.
    level = -value >= state.value - ROUNDING * jnp.finfo(value.dtype).eps * jnp.abs(state.value)
    flatter = level & (jnp.linalg.norm(gradient) < jnp.linalg.norm(state.gradient))
    higher = jnp.isfinite(value) & jnp.all(jnp.isfinite(gradient)) & ((-value > state.value) | flatter)
    taken = LBFGSState(position, -value, -gradient, memory, jnp.int32(0))
    back = state._replace(memory=_fresh(state.position), stalls=state.stalls + 1)
    return jax.tree.map(lambda a, b: jnp.where(higher, a, b).astype(b.dtype), taken, back)


def _fresh(position: Array) -> optax.OptState:
    """Empty memory in the precision of the position."""

    def same(leaf: Array) -> Array:
        return leaf.astype(position.dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf

    return jax.tree.map(same, _optimiser.init(position))


def _negative_log_posterior(target: Target) -> Callable[[Array], Array]:
    """-(log-likelihood + log-prior), with the gradient that `evaluate` computes on all devices."""

    @jax.custom_vjp
    def value(theta: Array) -> Array:
        likelihood, prior = target.log_density(theta)
        return -(likelihood + prior)

    def forward(theta: Array) -> tuple[Array, Array]:
        (likelihood, prior), gradient = target.evaluate(theta)
        return -(likelihood + prior), -target.posterior.temperature * gradient

    def backward(gradient: Array, cotangent: Array) -> tuple[Array]:
        return (cotangent * gradient,)

    value.defvjp(forward, backward)
    return value
