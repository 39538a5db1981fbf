"""Microcanonical Langevin ensembles: MCLMC with the three tuning phases of MILE.

Sommer et al. 2025 (Microcanonical Langevin Ensembles, ICLR), section on tuning; the constants are those of its
published configurations. Corrected against the published code: the diagonal preconditioner that was tuned is the one
used for sampling; a step that is not finite shrinks the step size without a lasting cap; no key is used twice.
"""

import logging
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods import MCLMCConfig, TunedMCLMCConfig
from bnn_atlas.metrics.mixing import ess_mean
from bnn_atlas.posterior.density import Target
from bnn_atlas.samplers import mclmc
from bnn_atlas.samplers.base import Phase, Sampler, Statistic

log = logging.getLogger(__name__)

MAX_ESS_DRAWS = 10_000
MAX_ESS_SCALARS = 2_000
CACHED_SCALARS = 32
"""Scalars whose autocorrelations are computed together; their draws should fit the processor's cache."""
SHRINK = 0.8
"""Factor on the step size after a step that was not finite."""
SMALLEST = 1e-5
"""Smallest step size after such steps, relative to the first; its sixth power stays within float32."""


class Tuning(NamedTuple):
    """What is tuned, and the running averages it is tuned from.

    `numerator` and `denominator` average weight * xi / (eps / eps_0)^6 and weight; `mean`, `spread` and `weight` are
    the eps-weighted moments of the positions.
    """

    step_size: Array
    length: Array
    scale: Array
    numerator: Array
    denominator: Array
    mean: Array
    spread: Array
    weight: Array
    largest: Array | None = None
    """Bound on the step size, for rules that have one."""


TuneStepSize = Callable[[Tuning, mclmc.MCLMCInfo, Array], Tuning]
"""(tuning, what the last step was like, its number in the tuning) -> tuning with the next step size."""


class PhaseSettings(NamedTuple):
    """Tuning steps before a phase, and whether (1 or 0) it tunes the step size and accumulates moments."""

    offset: int
    tune: int
    moments: int


class MILEState(NamedTuple):
    """A chain and its tuning."""

    chain: mclmc.MCLMCState
    tuning: Tuning


def build_mile(config: MCLMCConfig, dimension: int, temperature: float) -> Sampler:
    """Sampler of the settings for a posterior over `dimension` scalars."""
    first, second, _ = config.phase_steps

    def tune(tuning: Tuning, info: mclmc.MCLMCInfo, step: Array) -> Tuning:
        return tune_step_size(config, tuning, info, desired_variance(config, step, first + second), dimension)

    def begin(position: Array) -> Tuning:
        return first_tuning(position, config.step_size_init, max(math.sqrt(dimension), 15.0))

    return build_tuned(config, dimension, temperature, begin, tune)


def first_tuning(position: Array, step_size: float, length: float) -> Tuning:
    """Tuning that has seen nothing yet."""
    zero, zeros = jnp.zeros((), position.dtype), jnp.zeros_like(position)
    return Tuning(zero + step_size, zero + length, zeros + 1, zero, zero, zeros, zeros, zero)


def build_tuned(
    config: TunedMCLMCConfig,
    dimension: int,
    temperature: float,
    begin: Callable[[Array], Tuning],
    tune: TuneStepSize,
) -> Sampler:
    """Sampler whose phases tune the step size by `tune`, and the preconditioner and L; `begin` is the first tuning."""
    first, second, third = config.phase_steps
    retune = second // 3 if config.diagonal_preconditioning else 0
    energy_limit = None if config.energy_guard is None else config.energy_guard * math.sqrt(dimension)

    def init(key: Array, position: Array, target: Target) -> MILEState:
        return MILEState(mclmc.init(key, position, target.evaluate), begin(position))

    def step(
        key: Array, index: Array, state: MILEState, target: Target, settings: PhaseSettings
    ) -> tuple[MILEState, dict[str, Array]]:
        tuning = state.tuning
        chain, info = mclmc.step(
            key,
            state.chain,
            target.evaluate,
            step_size=tuning.step_size,
            length=tuning.length,
            scale=tuning.scale,
            temperature=temperature,
            energy_limit=energy_limit,
        )
        statistics = {
            "energy_change": info.energy_change,
            "energy_change_squared": info.energy_change**2,
            "divergent": info.divergent,
            "step_size": tuning.step_size,
            "length": tuning.length,
            **({} if info.guarded is None else {"guarded": info.guarded}),
        }
        tuned = tune(tuning, info, settings.offset + index)
        tuning = jax.tree.map(lambda new, old: new if new is old else jnp.where(settings.tune, new, old), tuned, tuning)
        tuning = accumulate_moments(tuning, chain.position, settings.moments * tuning.step_size)
        return MILEState(chain, tuning), statistics

    def after_moments(state: MILEState, draws: np.ndarray | None) -> MILEState:
        return state._replace(tuning=set_scales(state.tuning, config.diagonal_preconditioning))

    def after_probe(state: MILEState, draws: np.ndarray | None) -> MILEState:
        assert draws is not None
        time = probe_thinning * mean_autocorrelation_time(draws)
        if math.isnan(time):
            return state
        length = 0.4 * float(state.tuning.step_size) * time
        return state._replace(tuning=state.tuning._replace(length=draws.dtype.type(length)))

    probe_thinning = -(-third // MAX_ESS_DRAWS)
    select = None
    if dimension > MAX_ESS_SCALARS:
        select = np.sort(np.random.default_rng(0).choice(dimension, MAX_ESS_SCALARS, replace=False))
    phases = [
        Phase("step size", first, step, PhaseSettings(0, 1, 0)),
        Phase("step size and variances", second, step, PhaseSettings(first, 1, 1), finish=after_moments),
        Phase("step size again", retune, step, PhaseSettings(first + second, 1, 0)),
        Phase(
            "autocorrelation",
            third,
            step,
            PhaseSettings(0, 0, 0),
            keep=True,
            thinning=probe_thinning,
            select=select,
            finish=after_probe,
        ),
        Phase("sampling", config.steps, step, PhaseSettings(0, 0, 0), keep=True, thinning=config.thinning),
    ]
    return Sampler(
        init=init,
        phases=tuple(phase for phase in phases if phase.steps),
        statistics={
            "energy_change": Statistic("last"),
            "energy_change_squared": Statistic("mean"),
            "divergent": Statistic("sum", "int32"),
            "step_size": Statistic("last"),
            "length": Statistic("last"),
            **({} if energy_limit is None else {"guarded": Statistic("sum", "int32")}),
        },
        position=lambda state: state.chain.position,
        density=lambda state: state.chain.evaluation.density,
        gradients_per_step=2.0,
    )


def desired_variance(config: MCLMCConfig, step: Array, steps: int) -> Array:
    """Desired energy variance per dimension at a step of phases one and two.

    Falls linearly from `energy_variance_start` to `energy_variance_end`; exponentially with time constant steps / 4
    when the start is above 2.
    """
    start, end = config.energy_variance_start, config.energy_variance_end
    progress = jnp.minimum(step / steps, 1.0)
    if start > 2:
        return end + (start - end) * jnp.exp(-4 * progress)
    return start + (end - start) * progress


def tune_step_size(
    config: MCLMCConfig, tuning: Tuning, info: mclmc.MCLMCInfo, variance: Array, dimension: int
) -> Tuning:
    """Step size at which the variance of the energy error would be as desired, from Var[dE] = O(eps^6).

    With xi = dE^2 / (d v) + 1e-8, w = exp(-(log xi / (6 trust))^2 / 2) and gamma = (n_eff - 1) / (n_eff + 1):

        A <- gamma A + w xi / eps^6,   B <- gamma B + w,   eps = (A / B)^(-1/6)

    eps is taken relative to its initial value, which keeps its sixth power within float32. A step whose xi is not
    finite (an undone step, or an energy error beyond float32) instead sets eps <- 0.8 eps and A to match, which later
    steps forget at the same pace as everything else.
    """
    relative = tuning.step_size / config.step_size_init
    xi = info.energy_change**2 / (dimension * variance) + 1e-8
    failed = ~jnp.isfinite(xi)
    weight = jnp.exp(-0.5 * (jnp.log(xi) / (6.0 * config.trust_in_estimate)) ** 2)
    gamma = (config.num_effective_samples - 1) / (config.num_effective_samples + 1)
    numerator = gamma * tuning.numerator + weight * xi / relative**6
    denominator = gamma * tuning.denominator + weight
    shrunk = jnp.maximum(SHRINK * relative, SMALLEST)
    updated = jnp.where(failed, shrunk, (numerator / denominator) ** (-1 / 6))
    return tuning._replace(
        step_size=updated * config.step_size_init,
        numerator=jnp.where(failed, tuning.denominator / shrunk**6, numerator),
        denominator=jnp.where(failed, tuning.denominator, denominator),
    )


def accumulate_moments(tuning: Tuning, position: Array, weight: Array) -> Tuning:
    """Add a position to the weighted running mean and spread (Welford's update); a weight of 0 changes nothing."""
    total = tuning.weight + weight
    difference = position - tuning.mean
    mean = tuning.mean + difference * (weight / jnp.maximum(total, jnp.finfo(position.dtype).tiny))
    return tuning._replace(mean=mean, spread=tuning.spread + weight * difference * (position - mean), weight=total)


def set_scales(tuning: Tuning, precondition: bool) -> Tuning:
    """Turn the moments into L = sqrt(sum of variances), or into a preconditioner: scale = sqrt(variances), L = sqrt(d).

    With a preconditioner the averages of the step size begin anew, since energy errors in the old coordinates say
    nothing about the new ones.
    """
    variances = np.asarray(tuning.spread) / np.asarray(tuning.weight)
    if not precondition:
        return tuning._replace(length=np.sqrt(variances.sum()))
    nothing: Any = np.zeros_like(tuning.numerator)
    return tuning._replace(
        scale=np.sqrt(variances),
        length=variances.dtype.type(math.sqrt(variances.size)),
        numerator=nothing,
        denominator=nothing,
        largest=None if tuning.largest is None else np.full_like(nothing, np.inf),
    )


def mean_autocorrelation_time(draws: np.ndarray) -> float:
    """Mean over scalars of n / ESS for draws [n, scalar] of one chain; scalars that never move are left out.

    NaN where no scalar moved: such a chain keeps its L and is excluded by the metrics if it does not move later either.
    """
    moving = draws[:, np.ptp(draws, axis=0) > 0]
    if moving.shape[1] == 0:
        log.warning("a chain did not move while its autocorrelation was measured; it keeps its decoherence length")
        return math.nan
    blocks = np.split(moving, range(CACHED_SCALARS, moving.shape[1], CACHED_SCALARS), axis=1)
    return float(np.mean(np.concatenate([len(draws) / ess_mean(block[None]) for block in blocks])))
