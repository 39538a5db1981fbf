"""Microcanonical Langevin dynamics on mini-batches: SMILE, and pSMILE with its preconditioner.

Sommer, Diao, Robnik, Seljak and Ruegamer 2026 (Can Microcanonical Langevin Dynamics Leverage Mini-Batch Gradient
Noise?, arXiv:2602.06500), in the form of the published code. No Langevin noise is added: the gradients of the
mini-batches are the noise. Noise of the same variance in all directions turns the unit momentum as Langevin noise
would, and leaves the target as it is. Noise whose variance D_i differs between parameters heats the parameters with
more noise. Where the momentum forgets its direction slowly, each parameter's momentum balances its own noise against
the friction that keeps the momentum's length, so parameter i of a Gaussian target is sampled at the temperature

    T_i = D_i / mean(D)

The preconditioner measures D_i and scales the parameters so that the noise is the same for all. What it measures
includes how the gradient itself changes within some hundred steps, so the bias is gone only where noise dominates. And
scales that keep following the gradients depend on the position, which is a bias of its own: on a linear regression with
25 rows, standard deviations of the draws are up to 1.8 times too large with scales that change, and right with fixed
ones (tests/methods/test_smile.py), which are therefore the default after burn-in.

There is no Metropolis test: a referee (`RunConfig.referee`) can continue the chains with one.

Differences from the published code: a step that is not finite is undone and counted, where the code replaces NaN by 0
and bounds gradients at 1e6; an undone step draws a new direction, where the code sets the momentum, whose length is 1,
to 0; and the averages of gradients and energy errors start from the first values instead of from 1.
"""

from typing import NamedTuple

import jax
from jax import Array
from jax import numpy as jnp
from jax.scipy.special import ndtri

from bnn_atlas.config.methods.mclmc import EnergyTunerConfig, SMILEConfig
from bnn_atlas.methods import minibatch
from bnn_atlas.methods.contract import Method, Phase, Statistic, with_steps
from bnn_atlas.methods.integrators import isokinetic
from bnn_atlas.methods.mclmc import refuse_one_parameter, unit_vector
from bnn_atlas.posterior.density import (
    Evaluate,
    Evaluation,
    LogDensity,
    Posterior,
    PosteriorData,
    Target,
    tempered_gain,
)

SMALLEST_NOISE, LARGEST_NOISE = 0.01, 1e4
"""Bounds of a gradient's standard deviation in the preconditioner."""
NOISE_MEMORY = 0.99
"""Fraction of the averages of the gradient and of its squared deviation that each step keeps."""
FIRST_STEPS = 10
"""Steps at the start that neither undo a step nor change the step size."""
STEP_SIZES = (1e-8, 10.0)
"""Bounds of the step size."""


class GradientNoise(NamedTuple):
    """Moving averages [P] of the gradient, and of its squared deviation from that average."""

    mean: Array
    variance: Array


class EnergyErrors(NamedTuple):
    """Number of steps so far, and moving averages of |dE| and of its squared deviation from that average."""

    steps: Array
    mean: Array
    variance: Array


class Dynamics(NamedTuple):
    """Position [P], unit momentum [P], densities and gradient of the last mini-batch there, and what was learned."""

    position: Array
    momentum: Array
    evaluation: Evaluation
    noise: GradientNoise
    errors: EnergyErrors
    step_size: Array


class SMILEInfo(NamedTuple):
    """Energy error of a step, and the reason if the step was undone."""

    energy_change: Array
    divergent: Array
    guarded: Array


def init(key: Array, position: Array, evaluation: Evaluation, step_size: float) -> Dynamics:
    """State at `position` with a uniformly random unit momentum and the same scale for all parameters."""
    zero = jnp.zeros((), position.dtype)
    return Dynamics(
        position,
        unit_vector(key, position),
        evaluation,
        GradientNoise(evaluation.gradient, jnp.ones_like(position)),
        EnergyErrors(jnp.zeros((), jnp.int32), zero, zero),
        jnp.asarray(step_size, position.dtype),
    )


def step(
    key: Array,
    state: Dynamics,
    evaluate: Evaluate,
    *,
    temperature: float,
    preconditioning: bool,
    tuner: EnergyTunerConfig | None,
    adapt: Array | int = 1,
) -> tuple[Dynamics, SMILEInfo]:
    """One isokinetic McLachlan step (`integrators.isokinetic`) with two gradients of one mini-batch.

    The scale of parameter i is sqrt(mean(sd^2)) / sd_i with preconditioning, and 1 without; sd_i is the standard
    deviation of the gradient's noise (`observe`). The energy error dE is the change of kinetic energy minus the gain of
    the log density, the old density being the previous mini-batch's: most of it is the difference between mini-batches.

    With a tuner, a step with |dE| above the quantile `reset` of the Gamma distribution that has the averages of |dE| so
    far is undone. The step size falls by the fraction `change` if |dE| is above the quantile 1 - 2 tails / 3, and grows
    by it below the quantile tails / 3 (`gamma_quantile`).

    Args:
        key: random key of this step, for the direction after an undone step.
        state: current state.
        evaluate: densities and tempered gradient of this step's mini-batch at a position.
        temperature: divides the log density, as in `evaluate`'s gradient.
        preconditioning: whether to scale parameters by the noise of their gradients.
        tuner: how |dE| undoes steps and changes the step size; None for a fixed step size.
        adapt: 1 if this step's gradient and energy error enter the averages and the step size, 0 if all stay.
    """
    scale = scales(state.noise) if preconditioning else jnp.ones_like(state.position)
    position, momentum, evaluation, kinetic = isokinetic(
        state.position, state.momentum, state.evaluation, evaluate, state.step_size, scale
    )
    energy_change = kinetic - tempered_gain(evaluation.density, state.evaluation.density, temperature)
    finite = kept = jnp.isfinite(energy_change)
    errors, step_size = state.errors, state.step_size
    if tuner is not None:
        size = jnp.abs(energy_change)
        ready = errors.steps >= FIRST_STEPS
        kept = finite & ~(ready & (size > gamma_quantile(errors, tuner.reset)))
        factor = jnp.where(size > gamma_quantile(errors, 1 - 2 * tuner.tails / 3), 1 - tuner.change, 1.0)
        factor = jnp.where(size < gamma_quantile(errors, tuner.tails / 3), 1 + tuner.change, factor)
        changed = jnp.clip(step_size * jnp.where(finite, factor, 1 - tuner.change), *STEP_SIZES)
        step_size = jnp.where(adapt & ready, changed, step_size)
        seen = average(errors, size, tuner.memory)
        errors = jax.tree.map(lambda new, old: jnp.where(adapt & finite, new, old), seen, errors)
    noise = state.noise
    if preconditioning:
        seen_noise = observe(noise, evaluation.gradient)
        noise = jax.tree.map(lambda new, old: jnp.where(adapt & finite, new, old), seen_noise, noise)
    moved = (position, momentum, evaluation)
    back = (state.position, unit_vector(key, state.position), state.evaluation)
    position, momentum, evaluation = jax.tree.map(lambda new, old: jnp.where(kept, new, old), moved, back)
    info = SMILEInfo(jnp.where(finite, energy_change, jnp.inf), ~finite, finite & ~kept)
    return Dynamics(position, momentum, evaluation, noise, errors, step_size), info


def observe(noise: GradientNoise, gradient: Array) -> GradientNoise:
    """Averages with one more gradient g [P]: m <- .99 m + .01 g, then v <- .99 v + .01 (g - m)^2."""
    mean = NOISE_MEMORY * noise.mean + (1 - NOISE_MEMORY) * gradient
    variance = NOISE_MEMORY * noise.variance + (1 - NOISE_MEMORY) * (gradient - mean) ** 2
    return GradientNoise(mean, variance)


def scales(noise: GradientNoise) -> Array:
    """Scale of each parameter [P]: sqrt(mean(sd^2)) / sd with sd the bounded standard deviations of the noise."""
    sd = jnp.clip(jnp.sqrt(noise.variance), SMALLEST_NOISE, LARGEST_NOISE)
    return jnp.sqrt(jnp.mean(sd**2)) / sd


def average(errors: EnergyErrors, size: Array, memory: float) -> EnergyErrors:
    """Averages with one more |dE|, with the weight r = max(1 / t, 1 - memory) in step t.

        mu' = mu + r (|dE| - mu),    v <- (1 - r) (v + r (|dE| - mu)^2)

    These are the mean and variance of all |dE| at first, and then exponential moving averages.
    """
    steps = errors.steps + 1
    rate = jnp.maximum(1 / steps.astype(size.dtype), 1 - memory)
    deviation = size - errors.mean
    return EnergyErrors(steps, errors.mean + rate * deviation, (1 - rate) * (errors.variance + rate * deviation**2))


def gamma_quantile(errors: EnergyErrors, probability: float) -> Array:
    """Quantile of the Gamma distribution with mean mu and variance v, by the approximation of Wilson and Hilferty.

    With the shape k = mu^2 / v and the quantile z of a standard normal distribution:

        q = mu (1 - 1 / (9 k) + z / (3 sqrt(k)))^3,    0 if the bracket is negative
    """
    inverse_shape = errors.variance / jnp.maximum(errors.mean**2, jnp.finfo(errors.mean.dtype).tiny)
    root = 1 - inverse_shape / 9 + ndtri(probability) * jnp.sqrt(inverse_shape) / 3
    return errors.mean * jnp.maximum(root, 0.0) ** 3


class SMILEState(NamedTuple):
    """A chain, the order of its rows, and the state to which it returns after a divergence."""

    dynamics: Dynamics
    shuffle: minibatch.Shuffle | None
    safe: Dynamics
    """The state at the last draw whose density on all rows was finite."""
    density: LogDensity
    """Densities on all rows at `safe`."""


def build_smile(config: SMILEConfig, posterior: Posterior, data: PosteriorData) -> Method:
    """SMILE or pSMILE with the given settings; a draw costs a pass over all rows, for the density in the trace.

    Raises:
        ValueError: a mini-batch has all rows or more, or the posterior has a single parameter.
    """
    refuse_one_parameter(posterior.layout.size)
    rows = len(data.y)
    minibatch.batches_per_epoch(rows, config.batch_size, posterior.shards)
    if config.batch_size == rows:
        raise ValueError(
            f"batch_size ({config.batch_size}) is the number of rows, but the noise of mini-batches is all that turns "
            "the momentum of smile: give a smaller batch_size, or use mclmc for all rows"
        )

    def begin(key: Array, position: Array, target: Target) -> SMILEState:
        shuffle = minibatch.begin(target, config.batch_size)
        whole = target.evaluate(position)
        dynamics = init(key, position, whole, config.step_size)
        return SMILEState(dynamics, shuffle, dynamics, whole.density)

    def transition(
        key: Array, index: Array, state: SMILEState, target: Target, adapt: int
    ) -> tuple[SMILEState, dict[str, Array]]:
        step_key, shuffle_key = jax.random.split(key)
        shuffle, evaluate = minibatch.next_evaluate(
            shuffle_key, index, state.shuffle, target, config.batch_size, config.augmentation
        )
        dynamics, info = step(
            step_key,
            state.dynamics,
            evaluate,
            temperature=posterior.temperature,
            preconditioning=config.noise_preconditioning,
            tuner=config.tuner,
            adapt=adapt,
        )
        statistics = {"energy_change": info.energy_change, "step_size": dynamics.step_size}
        if config.tuner is not None:
            statistics["guarded"] = info.guarded
        statistics["divergent"] = info.divergent
        return state._replace(dynamics=dynamics, shuffle=shuffle), statistics

    def settle(state: SMILEState, target: Target) -> tuple[SMILEState, dict[str, Array]]:
        density = target.log_density(state.dynamics.position)
        finite = jnp.isfinite(density.log_likelihood + density.log_prior)
        here, back = (state.dynamics, density), (state.safe, state.density)
        dynamics, density = jax.tree.map(lambda new, old: jnp.where(finite, new, old), here, back)
        return SMILEState(dynamics, state.shuffle, dynamics, density), {"divergent": ~finite}

    def fit(state: SMILEState) -> dict[str, Array]:
        return {"scale": scales(state.dynamics.noise)} if config.noise_preconditioning else {}

    return Method(
        init=begin,
        phases=with_steps(
            Phase("burn-in", config.burn_in, transition, 1),
            Phase(
                "sampling",
                config.steps,
                transition,
                int(config.adapt_after_burn_in),
                True,
                config.thinning,
                settle=settle,
            ),
        ),
        statistics={
            "energy_change": Statistic("last"),
            "step_size": Statistic("last"),
            **({"guarded": Statistic("sum", "int32")} if config.tuner else {}),
            "divergent": Statistic("sum", "int32"),
        },
        position=lambda state: state.dynamics.position,
        density=lambda state: state.density,
        gradients_per_step=2.0,
        fit=fit,
    )
