"""Tuning of unadjusted MCLMC in phases: step size, variances, and the momentum decoherence length.

The phases and rules come from BlackJAX's `mclmc_find_L_and_step_size` (Robnik et al. 2023, Microcanonical Hamiltonian
Monte Carlo, section on tuning), on which MILE is based; `build_mile` and `build_mclmc_blackjax` list the differences.
"""

import logging
import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods.mclmc import BlackJAXMCLMCConfig, MCLMCConfig, TunedMCLMCConfig
from bnn_atlas.methods import mclmc
from bnn_atlas.methods.contract import Method, Phase, Statistic, Step, with_steps
from bnn_atlas.metrics.formulas.rhat_ess import ess_mean
from bnn_atlas.posterior.density import Posterior, PosteriorData, Target

log = logging.getLogger(__name__)

MAX_ESS_DRAWS = 10_000
MAX_ESS_SCALARS = 2_000
CACHED_SCALARS = 32
"""Number of scalars whose autocorrelations are computed together; their draws should fit the processor's cache."""
SHRINK = 0.8
"""Factor on the step size after a step that was not finite."""
SMALLEST = 1e-5
"""Smallest step size after such steps, relative to the first step size; its sixth power stays within float32."""


class Tuning(NamedTuple):
    """The tuned values, and the running averages from which these values are computed.

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
    """Upper bound on the step size, for rules that set one."""


class TunedState(NamedTuple):
    """A chain and its tuning."""

    chain: mclmc.MCLMCState
    tuning: Tuning


class PhaseSettings(NamedTuple):
    """Number of tuning steps before a phase, and 1 or 0 for whether the phase tunes the step size and adds moments."""

    offset: int
    tune: int
    moments: int


TuneStepSize = Callable[[Tuning, mclmc.MCLMCInfo, Array], Tuning]
"""(tuning, info on the last step, index of that step within the tuning) -> tuning with the next step size."""


def first_tuning(position: Array, step_size: float, length: float) -> Tuning:
    """Tuning before the first step."""
    zero, zeros = jnp.zeros((), position.dtype), jnp.zeros_like(position)
    return Tuning(zero + step_size, zero + length, zeros + 1, zero, zero, zeros, zeros, zero)


class StepSizeRule(NamedTuple):
    """Constants of `tune_step_size`."""

    first: float
    """First step size."""
    dimension: int
    trust: float
    memory: float
    """n_eff, in steps."""
    failure: Literal["shrink", "bound"]
    """Effect of a failed step."""


def tune_step_size(rule: StepSizeRule, tuning: Tuning, info: mclmc.MCLMCInfo, variance: Array | float) -> Tuning:
    """Step size at which the variance of the energy error would be v = `variance`, from Var[dE] = O(eps^6).

    With xi = dE^2 / (d v) + 1e-8, w = exp(-(log xi / (6 trust))^2 / 2) and gamma = (n_eff - 1) / (n_eff + 1):

        A <- gamma A + w xi / eps^6,   B <- gamma B + w,   eps = (A / B)^(-1/6)

    eps is relative to the first step size, which keeps the sixth power of eps within float32. After a failed step

    - `shrink` sets eps <- 0.8 eps and changes A to match; the effect of this change fades like that of any step.
      A step has failed if its xi is not finite (an undone step, or an energy error beyond float32);
    - `bound` takes dE = 0 and sets largest <- 0.8 eps, which bounds eps permanently. A step has failed if its dE is not
      finite.
    """
    relative = tuning.step_size / rule.first
    error = info.energy_change
    undone = ~jnp.isfinite(error)
    if rule.failure == "bound":
        error = jnp.where(undone, 0.0, error)
    xi = error**2 / (rule.dimension * variance) + 1e-8
    weight = jnp.exp(-0.5 * (jnp.log(xi) / (6.0 * rule.trust)) ** 2)
    gamma = (rule.memory - 1) / (rule.memory + 1)
    numerator = gamma * tuning.numerator + weight * xi / relative**6
    denominator = gamma * tuning.denominator + weight
    tuned = (numerator / denominator) ** (-1 / 6)
    if rule.failure == "bound":
        assert tuning.largest is not None
        largest = jnp.where(undone, SHRINK * tuning.step_size, tuning.largest)
        step_size = jnp.minimum(tuned * rule.first, largest)
        return tuning._replace(step_size=step_size, numerator=numerator, denominator=denominator, largest=largest)
    failed = ~jnp.isfinite(xi)
    shrunk = jnp.maximum(SHRINK * relative, SMALLEST)
    return tuning._replace(
        step_size=jnp.where(failed, shrunk, tuned) * rule.first,
        numerator=jnp.where(failed, tuning.denominator / shrunk**6, numerator),
        denominator=jnp.where(failed, tuning.denominator, denominator),
    )


def build_tuned(
    config: TunedMCLMCConfig,
    dimension: int,
    temperature: float,
    begin: Callable[[Array], Tuning],
    tune: TuneStepSize,
) -> Method:
    """MCLMC with phases that tune step size (by `tune`), preconditioner and L; `begin` returns the first tuning.

    Raises ValueError for a model with one parameter.
    """
    mclmc.refuse_one_parameter(dimension)
    energy_limit = None if config.energy_guard is None else config.energy_guard * math.sqrt(dimension)

    def init(key: Array, position: Array, target: Target) -> TunedState:
        return TunedState(mclmc.init(key, position, target.evaluate), begin(position))

    def step(
        key: Array, index: Array, state: TunedState, target: Target, settings: PhaseSettings
    ) -> tuple[TunedState, dict[str, Array]]:
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
        tuned = tune(tuning, info, settings.offset + index)
        new = jax.tree.map(lambda new, old: new if new is old else jnp.where(settings.tune, new, old), tuned, tuning)
        new = accumulate_moments(new, chain.position, settings.moments * new.step_size)
        return TunedState(chain, new), _values(info, tuning)

    def fit(state: TunedState) -> dict[str, Array]:
        learned = {"step_size": state.tuning.step_size, "length": state.tuning.length}
        return {**learned, "scale": state.tuning.scale} if config.diagonal_preconditioning else learned

    return Method(
        init=init,
        phases=_phases(config, dimension, step),
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
        fit=fit,
    )


def _values(info: mclmc.MCLMCInfo, tuning: Tuning) -> dict[str, Array]:
    return {
        "energy_change": info.energy_change,
        "energy_change_squared": info.energy_change**2,
        "divergent": info.divergent,
        "step_size": tuning.step_size,
        "length": tuning.length,
        **({} if info.guarded is None else {"guarded": info.guarded}),
    }


def _phases(config: TunedMCLMCConfig, dimension: int, step: Step) -> tuple[Phase, ...]:
    first, second, third = config.phase_steps
    again = second // 3 if config.diagonal_preconditioning else 0
    thinning = -(-third // MAX_ESS_DRAWS)
    select = None
    if dimension > MAX_ESS_SCALARS:
        select = np.sort(np.random.default_rng(0).choice(dimension, MAX_ESS_SCALARS, replace=False))

    def after_moments(state: TunedState, draws: np.ndarray | None) -> TunedState:
        return state._replace(tuning=set_scales(state.tuning, config.diagonal_preconditioning))

    def after_probe(state: TunedState, draws: np.ndarray | None) -> TunedState:
        assert draws is not None
        return state._replace(tuning=set_length(state.tuning, draws, thinning))

    fixed = PhaseSettings(0, 0, 0)
    return with_steps(
        Phase("step size", first, step, PhaseSettings(0, 1, 0)),
        Phase("step size and variances", second, step, PhaseSettings(first, 1, 1), finish=after_moments),
        Phase("step size again", again, step, PhaseSettings(first + second, 1, 0)),
        Phase("autocorrelation", third, step, fixed, True, thinning, select, finish=after_probe),
        Phase("sampling", config.steps, step, fixed, True, config.thinning),
    )


def accumulate_moments(tuning: Tuning, position: Array, weight: Array) -> Tuning:
    """Add a position to the weighted running mean and spread (Welford's update); a weight of 0 changes nothing."""
    total = tuning.weight + weight
    difference = position - tuning.mean
    mean = tuning.mean + difference * (weight / jnp.maximum(total, jnp.finfo(position.dtype).tiny))
    return tuning._replace(mean=mean, spread=tuning.spread + weight * difference * (position - mean), weight=total)


def set_scales(tuning: Tuning, precondition: bool) -> Tuning:
    """Turn the moments into L = sqrt(sum of variances), or into a preconditioner: scale = sqrt(variances), L = sqrt(d).

    With a preconditioner, the averages of the step size start again, since energy errors in the old coordinates carry
    no information about the new coordinates. A chain whose steps all had a weight of 0 keeps its tuning.
    """
    if not tuning.weight > 0:
        return tuning
    variances = np.asarray(tuning.spread) / np.asarray(tuning.weight)
    if not precondition:
        return tuning._replace(length=np.sqrt(variances.sum()))
    zero: Any = np.zeros_like(tuning.numerator)
    return tuning._replace(
        scale=np.sqrt(variances),
        length=variances.dtype.type(math.sqrt(variances.size)),
        numerator=zero,
        denominator=zero,
        largest=None if tuning.largest is None else np.full_like(zero, np.inf),
    )


def set_length(tuning: Tuning, draws: np.ndarray, thinning: int) -> Tuning:
    """Set L = 0.4 eps (mean autocorrelation time in steps), from every `thinning`-th position [draw, scalar]."""
    time = thinning * mean_autocorrelation_time(draws)
    if math.isnan(time):
        return tuning
    return tuning._replace(length=draws.dtype.type(0.4 * float(tuning.step_size) * time))


def mean_autocorrelation_time(draws: np.ndarray) -> float:
    """Mean over scalars of n / ESS for draws [n, scalar] of one chain; scalars that never move are left out.

    NaN if no scalar moved; such a chain keeps its L, and the metrics exclude it if it does not move later either.
    """
    moving = draws[:, np.ptp(draws, axis=0) > 0]
    if moving.shape[1] == 0:
        log.warning("a chain did not move while its autocorrelation was measured; it keeps its decoherence length")
        return math.nan
    blocks = np.split(moving, range(CACHED_SCALARS, moving.shape[1], CACHED_SCALARS), axis=1)
    return float(np.mean(np.concatenate([len(draws) / ess_mean(block[None]) for block in blocks])))


def build_mile(config: MCLMCConfig, posterior: Posterior, data: PosteriorData) -> Method:
    """Microcanonical Langevin ensembles: MCLMC with the three tuning phases of MILE.

    Sommer et al. 2025 (Microcanonical Langevin Ensembles, ICLR), section on tuning, with the constants of its
    published configurations. The chain starts from L = max(sqrt(d), 15). Three defects of the published code are
    corrected: the tuned diagonal preconditioner is also used for sampling; a step that is not finite shrinks the step
    size without setting a permanent bound; no random key is used twice.
    """
    first, second, _ = config.phase_steps
    dimension = posterior.layout.size
    rule = mile_rule(config, dimension)

    def tune(tuning: Tuning, info: mclmc.MCLMCInfo, step: Array) -> Tuning:
        return tune_step_size(rule, tuning, info, desired_variance(config, step, first + second))

    def begin(position: Array) -> Tuning:
        return first_tuning(position, config.step_size_init, max(math.sqrt(dimension), 15.0))

    return build_tuned(config, dimension, posterior.temperature, begin, tune)


def mile_rule(config: MCLMCConfig, dimension: int) -> StepSizeRule:
    """The rule by which MILE tunes the step size."""
    return StepSizeRule(
        config.step_size_init, dimension, config.trust_in_estimate, config.num_effective_samples, "shrink"
    )


def desired_variance(config: MCLMCConfig, step: Array, steps: int) -> Array:
    """Desired energy variance per dimension at a step of phases one and two.

    It falls linearly from `energy_variance_start` to `energy_variance_end`, or exponentially with time constant
    steps / 4 if the start is above 2.
    """
    start, end = config.energy_variance_start, config.energy_variance_end
    progress = jnp.minimum(step / steps, 1.0)
    if start > 2:
        return end + (start - end) * jnp.exp(-4 * progress)
    return start + (end - start) * progress


def build_mclmc_blackjax(config: BlackJAXMCLMCConfig, posterior: Posterior, data: PosteriorData) -> Method:
    """MCLMC with the tuning of BlackJAX: `mclmc_find_L_and_step_size` of version 1.7, step by step.

    BlackJAX runs each of its three stages in one call, which can be neither interrupted nor traced with bounded memory;
    here the stages are phases of the runner, and a test compares the tuned values with the original on the same steps.
    The differences from MILE: the desired energy variance is constant; a step that is not finite counts as a step
    without energy error, and permanently bounds the step size at 0.8 times the size at which the step failed; the chain
    starts from L = sqrt(d) and, unless a first step size is given, the step size sqrt(d) / 4. As in MILE, an undone
    step repeats its position in the variances; the original leaves it out.
    """
    dimension = posterior.layout.size
    rule = blackjax_rule(config, dimension)

    def begin(position: Array) -> Tuning:
        unbounded = jnp.full((), jnp.inf, position.dtype)
        return first_tuning(position, rule.first, math.sqrt(dimension))._replace(largest=unbounded)

    def tune(tuning: Tuning, info: mclmc.MCLMCInfo, step: Array) -> Tuning:
        return tune_step_size(rule, tuning, info, config.energy_variance)

    return build_tuned(config, dimension, posterior.temperature, begin, tune)


def blackjax_rule(config: BlackJAXMCLMCConfig, dimension: int) -> StepSizeRule:
    """The rule by which BlackJAX tunes the step size."""
    first = math.sqrt(dimension) / 4 if config.step_size_init is None else config.step_size_init
    return StepSizeRule(first, dimension, config.trust_in_estimate, config.num_effective_samples, "bound")
