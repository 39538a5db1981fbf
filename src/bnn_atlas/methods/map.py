"""Maximum-a-posteriori estimates by stochastic gradients.

As "SGD" in Izmailov et al. 2021 (What Are Bayesian Neural Network Posteriors Really Like?). What is maximised is the
log posterior of the full data, so that a learning rate multiplies a sum over all rows and is about 1e-7 where one for a
mean over rows would be 1e-2. On any number of devices the gradient is that of the one posterior.
"""

from typing import Any, NamedTuple

import optax
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods.optimisation import MAPConfig
from bnn_atlas.methods import minibatch
from bnn_atlas.methods.base import Method, Phase, Statistic
from bnn_atlas.methods.optimise import build_optimiser, update
from bnn_atlas.posterior.density import LogDensity, Posterior, PosteriorData, Target


class MAPState(NamedTuple):
    """Position [P], densities (at the start, and at the end), and what the optimiser remembers."""

    position: Array
    density: LogDensity
    optimiser: optax.OptState
    shuffle: minibatch.Shuffle | None
    skipped: Array
    """Updates that were skipped because something was not finite."""


def build_map(config: MAPConfig, posterior: Posterior, data: PosteriorData) -> Method:
    """Maximise log p(data | theta) + log p(theta); the one draw of a chain is where it ends.

    Statistics of the draw: `gradient_norm`, the length of the full-data gradient of the untempered log posterior there;
    `skipped_updates`; `divergent`, 1 if its density is not finite.

    Raises:
        ValueError: the mini-batches do not fit the rows.
    """
    steps = minibatch.steps_in(config.epochs, config.batch_size, posterior, data)
    optimiser = build_optimiser(config.optimiser, steps)

    def init(key: Array, position: Array, target: Target) -> MAPState:
        return MAPState(
            position,
            target.log_density(position),
            optimiser.init(position),
            minibatch.begin(target, config.batch_size),
            jnp.int32(0),
        )

    def ascend(
        key: Array, index: Array, state: MAPState, target: Target, settings: Any
    ) -> tuple[MAPState, dict[str, Array]]:
        shuffle, evaluate = minibatch.next_evaluate(
            key, index, state.shuffle, target, config.batch_size, config.augmentation
        )
        gradient = evaluate(state.position).gradient * posterior.temperature
        position, memory, skipped = update(optimiser, -gradient, state.optimiser, state.position)
        state = MAPState(position, state.density, memory, shuffle, state.skipped + skipped)
        return state, statistics(gradient, state)

    def finish(
        key: Array, index: Array, state: MAPState, target: Target, settings: Any
    ) -> tuple[MAPState, dict[str, Array]]:
        evaluation = target.evaluate(state.position)
        state = state._replace(density=evaluation.density)
        return state, statistics(evaluation.gradient * posterior.temperature, state)

    def statistics(gradient: Array, state: MAPState) -> dict[str, Array]:
        return {
            "gradient_norm": jnp.linalg.norm(gradient),
            "skipped_updates": state.skipped,
            "divergent": ~jnp.isfinite(state.density.log_likelihood + state.density.log_prior),
        }

    return Method(
        init=init,
        phases=(Phase("optimising", steps, ascend), Phase("sampling", 1, finish, keep=True)),
        statistics={
            "gradient_norm": Statistic("last"),
            "skipped_updates": Statistic("last", "int32"),
            "divergent": Statistic("sum", "int32"),
        },
        position=lambda state: state.position,
        density=lambda state: state.density,
        gradients_per_step=1.0,
    )
