"""Maximum-a-posteriori estimates by stochastic gradients, and deep ensembles of them, as methods of the runner.

As "SGD" and "deep ensembles" in Izmailov et al. 2021 (What Are Bayesian Neural Network Posteriors Really Like?). What
is maximised is the log posterior of the full data, so that a learning rate multiplies a sum over all rows and is about
1e-7 where one for a mean over rows would be 1e-2. On any number of devices the gradient is that of the one posterior.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import optax
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.posterior import LearnedNoiseLikelihood
from bnn_atlas.config.variational import AdamConfig, MAPConfig, OptimiserConfig, SGDConfig
from bnn_atlas.posterior.density import Evaluate, LogDensity, Posterior, PosteriorData, Target
from bnn_atlas.samplers import minibatch
from bnn_atlas.samplers.base import Phase, Sampler, Statistic

Shuffle = minibatch.Shuffle | tuple[()]
"""Order of the rows, or nothing where every step takes all of them."""


def build_optimiser(config: OptimiserConfig, steps: int) -> optax.GradientTransformation:
    """Optimiser of the settings, for a minimisation in so many steps."""
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

    Equal to optax.scale_by_adam up to rounding. That one divides arrays by a scalar, which the compiler rounds in
    another way on one device than on several: a chain's bits would depend on their number.
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


def steps_of(epochs: int, batch_size: int | None, posterior: Posterior, data: PosteriorData) -> int:
    """Optimiser steps in so many epochs; ValueError for a batch that does not fit in the rows."""
    return epochs * (minibatch.batches_per_epoch(len(data.y), batch_size, posterior.shards) if batch_size else 1)


def begin_shuffle(target: Target, batch_size: int | None) -> Shuffle:
    """Order of the rows before the first step."""
    return minibatch.start(target.rows, target.posterior.shards) if batch_size else ()


def next_evaluate(
    key: Array, index: Array, shuffle: Shuffle, target: Target, batch_size: int | None
) -> tuple[Shuffle, Evaluate]:
    """Density and gradient of the next mini-batch, or of all rows without `batch_size`, as a function of the position.

    Args:
        key: the step's key for drawing rows.
        index: number of the step.
        shuffle: order of the rows so far.
        target: the posterior.
        batch_size: rows of a mini-batch.
    """
    if not batch_size:
        return shuffle, target.evaluate
    assert isinstance(shuffle, minibatch.Shuffle)
    shuffle, rows = minibatch.next_rows(key, index, shuffle, batch_size)
    return shuffle, lambda theta: target.estimate(theta, rows)


def update(optimiser: optax.GradientTransformation, gradient: Any, state: Any, values: Any) -> tuple[Any, Any, Array]:
    """One step down `gradient` (a tree like `values`): new values, new state of the optimiser, whether it was skipped.

    A step is skipped, and nothing changes, where the gradient or a new value is not finite.
    """
    changes, new_state = optimiser.update(gradient, state, values)
    new_values = optax.apply_updates(values, changes)
    finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves((gradient, new_values))]))
    new = jax.tree.map(lambda a, b: jnp.where(finite, a, b).astype(b.dtype), (new_values, new_state), (values, state))
    return *new, ~finite


class MAPState(NamedTuple):
    """Position [P], densities (at the start, and at the end), and what the optimiser remembers."""

    position: Array
    density: LogDensity
    optimiser: Any
    shuffle: Shuffle
    skipped: Array
    """Updates that were skipped because something was not finite."""


def build_map(config: MAPConfig, posterior: Posterior, data: PosteriorData) -> Sampler:
    """Maximise log p(data | theta) + log p(theta); the one draw of a chain is where it ends.

    Statistics of the draw: `gradient_norm`, the length of the full-data gradient of the untempered log posterior there;
    `skipped_updates`; `divergent`, 1 if its density is not finite.

    Raises:
        ValueError: the mini-batches do not fit the rows.
    """
    steps = steps_of(config.epochs, config.batch_size, posterior, data)
    optimiser = build_optimiser(config.optimiser, steps)

    def init(key: Array, position: Array, target: Target) -> MAPState:
        return MAPState(
            position,
            target.evaluate(position).density,
            optimiser.init(position),
            begin_shuffle(target, config.batch_size),
            jnp.int32(0),
        )

    def ascend(
        key: Array, index: Array, state: MAPState, target: Target, settings: Any
    ) -> tuple[MAPState, dict[str, Array]]:
        shuffle, evaluate = next_evaluate(key, index, state.shuffle, target, config.batch_size)
        gradient = evaluate(state.position).gradient * posterior.temperature
        position, memory, skipped = update(optimiser, -gradient, state.optimiser, state.position)
        state = MAPState(position, state.density, memory, shuffle, state.skipped + skipped)
        return state, _statistics(gradient, state)

    def finish(
        key: Array, index: Array, state: MAPState, target: Target, settings: Any
    ) -> tuple[MAPState, dict[str, Array]]:
        evaluation = target.evaluate(state.position)
        state = state._replace(density=evaluation.density)
        return state, _statistics(evaluation.gradient * posterior.temperature, state)

    def _statistics(gradient: Array, state: MAPState) -> dict[str, Array]:
        return {
            "gradient_norm": jnp.linalg.norm(gradient),
            "skipped_updates": state.skipped,
            "divergent": ~jnp.isfinite(state.density.log_likelihood + state.density.log_prior),
        }

    return Sampler(
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


class EnsembleState(NamedTuple):
    """A warm start and its densities."""

    position: Array
    density: LogDensity


def build_deep_ensemble(posterior: Posterior, data: PosteriorData) -> Sampler:
    """The warm starts as a trace of one draw per chain (Lakshminarayanan et al. 2017, deep ensembles).

    A learned noise, which no warm start touches, gets its maximum-likelihood estimate: sigma^2 is the mean square of a
    member's residuals at the rows that the posterior conditions on.
    """
    learns_noise = isinstance(posterior.likelihood, LearnedNoiseLikelihood)
    rows = len(data.y) if data.weights is None else int(data.weights.sum())

    def init(key: Array, position: Array, target: Target) -> EnsembleState:
        density = target.evaluate(position).density
        if not learns_noise:
            return EnsembleState(position, density)
        # log p(y) = -rows (log sigma + log(2 pi) / 2) - (sum of squares) / (2 sigma^2)
        log_sigma = position[-1]
        excess = -2 * density.log_likelihood / rows - 2 * log_sigma - math.log(2 * math.pi)
        fitted = position.at[-1].set(log_sigma + jnp.log(excess) / 2)
        return EnsembleState(fitted, target.evaluate(fitted).density)

    def stay(
        key: Array, index: Array, state: EnsembleState, target: Target, settings: Any
    ) -> tuple[EnsembleState, dict[str, Array]]:
        return state, {}

    return Sampler(
        init=init,
        phases=(Phase("sampling", 1, stay, keep=True),),
        statistics={},
        position=lambda state: state.position,
        density=lambda state: state.density,
        gradients_per_step=None,
    )
