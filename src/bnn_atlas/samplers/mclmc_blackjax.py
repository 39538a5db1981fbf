"""MCLMC with the tuning of BlackJAX: `mclmc_find_L_and_step_size` of version 1.7, step by step.

Robnik et al. 2023 (Microcanonical Hamiltonian Monte Carlo, section on tuning). BlackJAX runs its three stages in one
call each and keeps the step of their scan to itself, which could be neither interrupted nor traced with bounded memory;
so the stages are phases of the runner here, and a test compares what they tune with the original on the same steps.
They are the phases that MILE grew out of, and share its code. What differs from MILE: the desired energy variance is
constant; a step that is not finite counts as one without energy error and puts a bound on the step size for good, 0.8
of the size at which it failed; the chain starts from L = sqrt(d) and, unless a first step size is given, sqrt(d) / 4.
As in MILE, a step that was undone repeats its position in the variances, where the original leaves it out.
"""

import math

from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods import BlackJAXMCLMCConfig
from bnn_atlas.samplers import mile
from bnn_atlas.samplers.base import Sampler
from bnn_atlas.samplers.mclmc import MCLMCInfo


def build_mclmc_blackjax(config: BlackJAXMCLMCConfig, dimension: int, temperature: float) -> Sampler:
    """Sampler of the settings for a posterior over `dimension` scalars."""
    first = math.sqrt(dimension) / 4 if config.step_size_init is None else config.step_size_init

    def begin(position: Array) -> mile.Tuning:
        unbounded = jnp.full((), jnp.inf, position.dtype)
        return mile.first_tuning(position, first, math.sqrt(dimension))._replace(largest=unbounded)

    def tune(tuning: mile.Tuning, info: MCLMCInfo, step: Array) -> mile.Tuning:
        return tune_step_size(config, tuning, info, first, dimension)

    return mile.build_tuned(config, dimension, temperature, begin, tune)


def tune_step_size(
    config: BlackJAXMCLMCConfig, tuning: mile.Tuning, info: MCLMCInfo, first: float, dimension: int
) -> mile.Tuning:
    """Step size at which the variance of the energy error would be as desired, from Var[dE] = O(eps^6).

    With xi = dE^2 / (d v) + 1e-8, w = exp(-(log xi / (6 trust))^2 / 2) and gamma = (n_eff - 1) / (n_eff + 1):

        A <- gamma A + w xi / eps^6,   B <- gamma B + w,   eps = min((A / B)^(-1/6), largest)

    where dE = 0 and largest <- 0.8 eps after a step that was not finite. eps is taken relative to the `first` one,
    which keeps its sixth power within float32.
    """
    assert tuning.largest is not None
    relative = tuning.step_size / first
    failed = ~jnp.isfinite(info.energy_change)
    error = jnp.where(failed, 0.0, info.energy_change)
    xi = error**2 / (dimension * config.energy_variance) + 1e-8
    weight = jnp.exp(-0.5 * (jnp.log(xi) / (6.0 * config.trust_in_estimate)) ** 2)
    gamma = (config.num_effective_samples - 1) / (config.num_effective_samples + 1)
    numerator = gamma * tuning.numerator + weight * xi / relative**6
    denominator = gamma * tuning.denominator + weight
    largest = jnp.where(failed, mile.SHRINK * tuning.step_size, tuning.largest)
    return tuning._replace(
        step_size=jnp.minimum((numerator / denominator) ** (-1 / 6) * first, largest),
        numerator=numerator,
        denominator=denominator,
        largest=largest,
    )
