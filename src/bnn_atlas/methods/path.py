"""Networks along their training: stochastic gradients of the mean loss of a row, without a prior, and a draw per epoch.

As in Xiao et al. 2023 (A Compact Representation for BNNs By Removing Permutation Symmetry, section 4).
"""

from typing import Any, NamedTuple

import jax
import optax
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods.path import PathConfig
from bnn_atlas.methods import minibatch
from bnn_atlas.methods.base import Method, Phase, Statistic
from bnn_atlas.methods.optimise import build_optimiser, update
from bnn_atlas.placement import DATA_AXIS
from bnn_atlas.posterior.density import LogDensity, Posterior, PosteriorData, Target


class PathState(NamedTuple):
    """Position [P], densities after the last epoch, and what the optimiser remembers."""

    position: Array
    density: LogDensity
    optimiser: optax.OptState
    shuffle: minibatch.Shuffle | None
    skipped: Array
    """Updates that were skipped because something was not finite."""


def build_path(config: PathConfig, posterior: Posterior, data: PosteriorData) -> Method:
    """Minimise -(1 / n) sum_i log p(y_i | x_i, theta) by mini-batches; draw 0 is the start, draw e follows epoch e.

    The densities of a draw are those of the posterior, on all rows. Statistics: `skipped_updates` so far; `divergent`,
    1 if the log-likelihood of a draw is not finite.

    Raises:
        ValueError: the mini-batches do not fit the rows.
    """
    per_epoch = minibatch.steps_in(1, config.batch_size, posterior, data)
    optimiser = build_optimiser(config.optimiser, config.epochs * per_epoch)

    def init(key: Array, position: Array, target: Target) -> PathState:
        return PathState(
            position,
            target.log_density(position),
            optimiser.init(position),
            minibatch.begin(target, config.batch_size),
            jnp.int32(0),
        )

    def descend(key: Array, index: Array, state: PathState, target: Target) -> PathState:
        shuffle, gradient = _mean_loss_gradient(config, key, index, state, target)
        position, memory, skipped = update(optimiser, gradient, state.optimiser, state.position)
        return PathState(position, state.density, memory, shuffle, state.skipped + skipped)

    def step(
        key: Array, index: Array, state: PathState, target: Target, settings: Any
    ) -> tuple[PathState, dict[str, Array]]:
        # The steps of the first unit leave the start where it is, so that it is the first draw.
        state = jax.lax.cond(
            index < per_epoch, lambda state: state, lambda state: descend(key, index, state, target), state
        )
        return state, {"skipped_updates": state.skipped, "divergent": jnp.int32(0)}

    def settle(state: PathState, target: Target) -> tuple[PathState, dict[str, Array]]:
        density = target.log_density(state.position)
        return state._replace(density=density), {"divergent": ~jnp.isfinite(density.log_likelihood)}

    steps = config.draws * per_epoch
    return Method(
        init=init,
        phases=(Phase("training", steps, step, keep=True, thinning=per_epoch, settle=settle),),
        statistics={"skipped_updates": Statistic("last", "int32"), "divergent": Statistic("sum", "int32")},
        position=lambda state: state.position,
        density=lambda state: state.density,
        gradients_per_step=1.0,
    )


def _mean_loss_gradient(
    config: PathConfig, key: Array, index: Array, state: PathState, target: Target
) -> tuple[minibatch.Shuffle | None, Array]:
    """The order of the rows, and the gradient [P] of the mean loss of the next mini-batch, or of all rows."""
    posterior, rows = target.posterior, target.data
    x, y, weights, shuffle = rows.x, rows.y, rows.weights, state.shuffle
    if config.batch_size is not None and shuffle is not None:
        shuffle, chosen = minibatch.next_rows(key, index, shuffle, config.batch_size)
        x, y, weights = jax.tree.map(lambda leaf: leaf[chosen], (x, y, weights))
    _, gradient = posterior.log_likelihood_and_gradient(state.position, x, y, weights)
    count = jnp.asarray(len(y), gradient.dtype) if weights is None else jnp.sum(weights)
    if posterior.shards > 1:
        gradient, count = jax.lax.psum((gradient, count), DATA_AXIS)
    return shuffle, -gradient / count
