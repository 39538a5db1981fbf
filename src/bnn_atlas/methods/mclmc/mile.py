"""Microcanonical Langevin ensembles: MCLMC with the three tuning phases of MILE.

Sommer et al. 2025 (Microcanonical Langevin Ensembles, ICLR), section on tuning; the constants are those of its
published configurations. Corrected against the published code: the diagonal preconditioner that was tuned is the one
used for sampling; a step that is not finite shrinks the step size without a lasting cap; no key is used twice.
"""

import math

from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods.mclmc import MCLMCConfig
from bnn_atlas.methods.base import Method
from bnn_atlas.methods.mclmc.kernel import MCLMCInfo
from bnn_atlas.methods.mclmc.tuning import StepSizeRule, Tuning, build_tuned, first_tuning, tune_step_size
from bnn_atlas.posterior.density import Posterior, PosteriorData


def build_mile(config: MCLMCConfig, posterior: Posterior, data: PosteriorData) -> Method:
    """MILE of the settings; the chain starts from L = sqrt(d), or 15 where that is larger."""
    first, second, _ = config.phase_steps
    dimension = posterior.layout.size
    rule = step_size_rule(config, dimension)

    def tune(tuning: Tuning, info: MCLMCInfo, step: Array) -> Tuning:
        return tune_step_size(rule, tuning, info, desired_variance(config, step, first + second))

    def begin(position: Array) -> Tuning:
        return first_tuning(position, config.step_size_init, max(math.sqrt(dimension), 15.0))

    return build_tuned(config, dimension, posterior.temperature, begin, tune)


def step_size_rule(config: MCLMCConfig, dimension: int) -> StepSizeRule:
    """How the step size is tuned."""
    return StepSizeRule(
        config.step_size_init, dimension, config.trust_in_estimate, config.num_effective_samples, "shrink"
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
