"""The optimiser of a generator and of the parameters that are not generated."""

import math
from typing import Any, NamedTuple

import jax
import optax
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods.implicit import AMSGradConfig, ImplicitConfig
from bnn_atlas.methods.optimise import build_optimiser


class AMSGradState(NamedTuple):
    """Steps so far; running averages of gradient and square, and the largest of these squares so far."""

    steps: Array
    mean: Any
    square: Any
    largest: Any


def scale_by_amsgrad(
    decay: float = 0.9, square_decay: float = 0.999, epsilon: float = 1e-8
) -> optax.GradientTransformation:
    """Adam with amsgrad (Reddi, Kale and Kumar 2018) as PyTorch has it: the largest square is corrected for its bias.

        m <- b1 m + (1 - b1) g,   v <- b2 v + (1 - b2) g^2,   u <- max(u, v),   c = sqrt(1 - b2^t)
        change = c / (1 - b1^t) m / (sqrt(u) + c epsilon)

    The bias is corrected by scalar factors alone, as in `methods.optimise.scale_by_adam` and for its reason.
    """

    def init(values: Any) -> AMSGradState:
        zeros = [jax.tree.map(jnp.zeros_like, values) for _ in range(3)]
        return AMSGradState(jnp.int32(0), *zeros)

    def change(gradient: Any, state: AMSGradState, values: Any = None) -> tuple[Any, AMSGradState]:
        steps = state.steps + 1
        mean = jax.tree.map(lambda m, g: decay * m + (1 - decay) * g, state.mean, gradient)
        square = jax.tree.map(lambda v, g: square_decay * v + (1 - square_decay) * g * g, state.square, gradient)
        largest = jax.tree.map(jnp.maximum, state.largest, square)

        def scaled(m: Array, u: Array) -> Array:
            passed = steps.astype(m.dtype)
            root = jnp.sqrt(-jnp.expm1(passed * math.log(square_decay)))
            return (root / -jnp.expm1(passed * math.log(decay))) * (m / (jnp.sqrt(u) + root * epsilon))

        return jax.tree.map(scaled, mean, largest), AMSGradState(steps, mean, square, largest)

    return optax.GradientTransformation(init, change)


def optimiser_of(config: ImplicitConfig, steps: int, numbers: int) -> optax.GradientTransformation:
    """Optimiser of a q (`family.Family`) for a minimisation in this many steps.

    What comes after the `numbers` of the generator, the points, may have a learning rate of its own.
    """
    chosen = config.optimiser
    if isinstance(chosen, AMSGradConfig):
        rate: Any = chosen.learning_rate
        if chosen.schedule == "cosine":
            rate = optax.cosine_decay_schedule(rate, steps, alpha=chosen.end / chosen.learning_rate)
        base = optax.chain(scale_by_amsgrad(), optax.scale_by_learning_rate(rate))
    else:
        base = build_optimiser(chosen, steps)
    if config.point_learning_rate is None:
        return base
    ratio = config.point_learning_rate / chosen.learning_rate

    def scaled(changes: Array, _: Any) -> Array:
        return jnp.where(jnp.arange(len(changes)) < numbers, changes, ratio * changes)

    return optax.chain(base, optax.stateless(scaled))
