"""Optimisers, and the methods that only optimise: a point estimate, and networks along their training."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import optax
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods.optimisation import AdamConfig, MAPConfig, OptimiserConfig, PathConfig, SGDConfig
from bnn_atlas.methods import minibatch
from bnn_atlas.methods.contract import Method, Phase, Statistic
from bnn_atlas.placement import DATA_AXIS
from bnn_atlas.posterior.density import LogDensity, Posterior, PosteriorData, Target


def build_optimiser(config: OptimiserConfig, steps: int) -> optax.GradientTransformation:
    """Build an optimiser from its settings, for a minimisation of `steps` steps."""
    rate: float | Callable[[Any], Any] = config.learning_rate
    if config.schedule == "cosine":
        rate = optax.cosine_decay_schedule(config.learning_rate, steps)
    match config:
        case SGDConfig():
            return optax.sgd(rate, config.momentum)
        case AdamConfig():
            return optax.chain(scale_by_adam(), optax.scale_by_learning_rate(rate))


class AdamState(NamedTuple):
    """Steps so far, and running averages of the gradient and its square; each average is a tree like the parameters."""

    steps: Array
    mean: Any
    square: Any


def scale_by_adam(
    decay: float = 0.9, square_decay: float = 0.999, epsilon: float = 1e-8
) -> optax.GradientTransformation:
    """Adam (Kingma and Ba 2015) in the form at the end of its section 2: the bias is corrected by scalar factors only.

        m <- b1 m + (1 - b1) g,   v <- b2 v + (1 - b2) g^2,   c = sqrt(1 - b2^t)
        change = c / (1 - b1^t) m / (sqrt(v) + c epsilon)

    The result equals optax.scale_by_adam up to rounding. Optax divides arrays by a scalar, which the compiler rounds
    differently on one device and on several, so a chain's bits would depend on the number of devices.
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
    """One step down `gradient` (a tree like `values`): new values, new state, and whether the step was skipped.

    If the gradient or a new value is not finite, the step is skipped and nothing changes.
    """
    changes, new_state = optimiser.update(gradient, state, values)
    new_values = optax.apply_updates(values, changes)
    finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves((gradient, new_values))]))
    new = jax.tree.map(lambda a, b: jnp.where(finite, a, b).astype(b.dtype), (new_values, new_state), (values, state))
    return *new, ~finite


class OptimiserRun(NamedTuple):
    """Position [P], the densities of the last evaluation, and the optimiser's state."""

    position: Array
    density: LogDensity
    optimiser: optax.OptState
    shuffle: minibatch.Shuffle | None
    skipped: Array
    """Number of updates skipped because a value was not finite."""


def _begin(
    optimiser: optax.GradientTransformation, batch_size: int | None, position: Array, target: Target
) -> OptimiserRun:
    return OptimiserRun(
        position,
        target.log_density(position),
        optimiser.init(position),
        minibatch.begin(target, batch_size),
        jnp.int32(0),
    )


def build_map(config: MAPConfig, posterior: Posterior, data: PosteriorData) -> Method:
    """Maximise log p(data | theta) + log p(theta); a chain's only draw is its final point.

    As "SGD" in Izmailov et al. 2021 (What Are Bayesian Neural Network Posteriors Really Like?). The learning rate
    multiplies a gradient summed over all rows, so a typical rate is 1e-7 instead of the 1e-2 for a mean over rows. The
    number of devices does not change the gradient.

    Statistics of the draw: `gradient_norm`, the length of the full-data gradient of the untempered log posterior;
    `skipped_updates`; `divergent`, 1 if the density is not finite.

    Raises:
        ValueError: a mini-batch is larger than the data.
    """
    steps = minibatch.steps_in(config.epochs, config.batch_size, posterior, data)
    optimiser = build_optimiser(config.optimiser, steps)

    def ascend(
        key: Array, index: Array, state: OptimiserRun, target: Target, settings: Any
    ) -> tuple[OptimiserRun, dict[str, Array]]:
        shuffle, evaluate = minibatch.next_evaluate(
            key, index, state.shuffle, target, config.batch_size, config.augmentation
        )
        gradient = evaluate(state.position).gradient * posterior.temperature
        position, memory, skipped = update(optimiser, -gradient, state.optimiser, state.position)
        state = OptimiserRun(position, state.density, memory, shuffle, state.skipped + skipped)
        return state, statistics(gradient, state)

    def finish(
        key: Array, index: Array, state: OptimiserRun, target: Target, settings: Any
    ) -> tuple[OptimiserRun, dict[str, Array]]:
        evaluation = target.evaluate(state.position)
        state = state._replace(density=evaluation.density)
        return state, statistics(evaluation.gradient * posterior.temperature, state)

    def statistics(gradient: Array, state: OptimiserRun) -> dict[str, Array]:
        return {
            "gradient_norm": jnp.linalg.norm(gradient),
            "skipped_updates": state.skipped,
            "divergent": ~jnp.isfinite(state.density.log_likelihood + state.density.log_prior),
        }

    return Method(
        init=lambda key, position, target: _begin(optimiser, config.batch_size, position, target),
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


def build_path(config: PathConfig, posterior: Posterior, data: PosteriorData) -> Method:
    """Minimise -(1 / n) sum_i log p(y_i | x_i, theta) by mini-batches; draw 0 is the start, draw e follows epoch e.

    As in Xiao et al. 2023 (A Compact Representation for BNNs By Removing Permutation Symmetry, section 2). Each draw
    has the posterior's densities on all rows. Statistics: `skipped_updates` so far; `divergent`, 1 if the
    log-likelihood of a draw is not finite.

    Raises:
        ValueError: a mini-batch is larger than the data.
    """
    per_epoch = minibatch.steps_in(1, config.batch_size, posterior, data)
    optimiser = build_optimiser(config.optimiser, config.epochs * per_epoch)

    def descend(key: Array, index: Array, state: OptimiserRun, target: Target) -> OptimiserRun:
        shuffle, gradient = _mean_loss_gradient(config, key, index, state, target)
        position, memory, skipped = update(optimiser, gradient, state.optimiser, state.position)
        return OptimiserRun(position, state.density, memory, shuffle, state.skipped + skipped)

    def step(
        key: Array, index: Array, state: OptimiserRun, target: Target, settings: Any
    ) -> tuple[OptimiserRun, dict[str, Array]]:
        # Steps before the first draw leave the position as it is, so that the first draw is the start.
        state = jax.lax.cond(
            index < per_epoch, lambda state: state, lambda state: descend(key, index, state, target), state
        )
        return state, {"skipped_updates": state.skipped, "divergent": jnp.int32(0)}

    def settle(state: OptimiserRun, target: Target) -> tuple[OptimiserRun, dict[str, Array]]:
        density = target.log_density(state.position)
        return state._replace(density=density), {"divergent": ~jnp.isfinite(density.log_likelihood)}

    steps = config.draws * per_epoch
    return Method(
        init=lambda key, position, target: _begin(optimiser, config.batch_size, position, target),
        phases=(Phase("training", steps, step, keep=True, thinning=per_epoch, settle=settle),),
        statistics={"skipped_updates": Statistic("last", "int32"), "divergent": Statistic("sum", "int32")},
        position=lambda state: state.position,
        density=lambda state: state.density,
        gradients_per_step=1.0,
    )


def _mean_loss_gradient(
    config: PathConfig, key: Array, index: Array, state: OptimiserRun, target: Target
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
