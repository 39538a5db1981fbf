"""Optimisers, and one update of them that a gradient which is not finite cannot spoil."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import optax
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods.optimisation import AdamConfig, OptimiserConfig, SGDConfig


def build_optimiser(config: OptimiserConfig, steps: int) -> optax.GradientTransformation:
    """Optimiser of the settings, for a minimisation in this many steps."""
    rate: float | Callable[[Any], Any] = config.learning_rate
    if config.schedule == "cosine":
        rate = optax.cosine_decay_schedule(config.learning_rate, steps)
    match config:
        case SGDConfig():
            return optax.sgd(rate, config.momentum)
        case AdamConfig():
            return optax.chain(scale_by_adam(), optax.scale_by_learning_rate(rate))


class AdamState(NamedTuple):
    """Steps so far, and running averages of the gradient and of its square, trees like the parameters."""

    steps: Array
    mean: Any
    square: Any


def scale_by_adam(
    decay: float = 0.9, square_decay: float = 0.999, epsilon: float = 1e-8
) -> optax.GradientTransformation:
    """Adam (Kingma and Ba 2015) in the form at the end of its section 2: the bias is corrected by scalar factors alone.

        m <- b1 m + (1 - b1) g,   v <- b2 v + (1 - b2) g^2,   c = sqrt(1 - b2^t)
        change = c / (1 - b1^t) m / (sqrt(v) + c epsilon)

    Equal to optax.scale_by_adam up to rounding. That one divides arrays by a scalar, which the compiler rounds
    differently on one device than on several: a chain's bits would depend on their number.
    """

    def init(values: Any) -> AdamState:
        return AdamState(jnp.int32(0), jax.tree.map(jnp.zeros_like, values), jax.tree.map(jnp.zeros_like, values))

    def change(gradient: Any, state: AdamState, values: Any = None) -> tuple[Any, AdamState]:
        steps = state.steps + 1
        mean = jax.tree.map(lambda m, g: decay * m + (1 - decay) * g, state.mean, gradient)
        square = jax.tree.map(lambda v, g: square_decay * v + (1 - square_decay) * g * g, state.square, gradient)

        def scaled(m: Array, v: Array) -> Array:
            passed = steps.astype(m.dtype)
            root = jnp.sqrt(-jnp.expm1(passed * math.log(square_decay)))
            return (root / -jnp.expm1(passed * math.log(decay))) * (m / (jnp.sqrt(v) + root * epsilon))

        return jax.tree.map(scaled, mean, square), AdamState(steps, mean, square)

    return optax.GradientTransformation(init, change)


def update(
    optimiser: optax.GradientTransformation, gradient: Any, state: optax.OptState, values: Any
) -> tuple[Any, optax.OptState, Array]:
    """One step down `gradient` (a tree like `values`): new values, new state of the optimiser, whether it was skipped.

    A step is skipped, and nothing changes, where the gradient or a new value is not finite.
    """
    changes, new_state = optimiser.update(gradient, state, values)
    new_values = optax.apply_updates(values, changes)
    finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves((gradient, new_values))]))
    new = jax.tree.map(lambda a, b: jnp.where(finite, a, b).astype(b.dtype), (new_values, new_state), (values, state))
    return *new, ~finite
