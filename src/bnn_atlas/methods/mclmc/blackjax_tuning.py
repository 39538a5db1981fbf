"""MCLMC with the tuning of BlackJAX: `mclmc_find_L_and_step_size` of version 1.7, step by step.

Robnik et al. 2023 (Microcanonical Hamiltonian Monte Carlo, section on tuning). BlackJAX runs its three stages in one
call each and does not return the step of their scan, so they could be neither interrupted nor traced with bounded
memory; here the stages are phases of the runner, and a test compares what they tune with the original on the same
steps. What differs from MILE: the desired energy variance is constant; a step that is not finite counts as one without
energy error and bounds the step size for good at 0.8 of the size at which it failed; the chain starts from L = sqrt(d)
and, unless a first step size is given, sqrt(d) / 4. As in MILE, a step that was undone repeats its position in the
variances, where the original leaves it out.
"""

import math

from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods.mclmc import BlackJAXMCLMCConfig
from bnn_atlas.methods.base import Method
from bnn_atlas.methods.mclmc.kernel import MCLMCInfo
from bnn_atlas.methods.mclmc.tuning import StepSizeRule, Tuning, build_tuned, first_tuning, tune_step_size
from bnn_atlas.posterior.density import Posterior, PosteriorData


def build_mclmc_blackjax(config: BlackJAXMCLMCConfig, posterior: Posterior, data: PosteriorData) -> Method:
    """MCLMC of the settings."""
    dimension = posterior.layout.size
    rule = step_size_rule(config, dimension)

    def begin(position: Array) -> Tuning:
        unbounded = jnp.full((), jnp.inf, position.dtype)
        return first_tuning(position, rule.first, math.sqrt(dimension))._replace(largest=unbounded)

    def tune(tuning: Tuning, info: MCLMCInfo, step: Array) -> Tuning:
        return tune_step_size(rule, tuning, info, config.energy_variance)

    return build_tuned(config, dimension, posterior.temperature, begin, tune)


def step_size_rule(config: BlackJAXMCLMCConfig, dimension: int) -> StepSizeRule:
    """How the step size is tuned."""
    first = math.sqrt(dimension) / 4 if config.step_size_init is None else config.step_size_init
    return StepSizeRule(first, dimension, config.trust_in_estimate, config.num_effective_samples, "bound")
