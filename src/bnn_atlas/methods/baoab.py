"""Underdamped Langevin dynamics in the BAOAB splitting (Leimkuhler and Matthews 2013), without a Metropolis test."""

from typing import Any, NamedTuple

import jax
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods.hmc import BAOABConfig
from bnn_atlas.methods.contract import Method, Phase, Statistic, with_steps
from bnn_atlas.methods.integrators import baoab
from bnn_atlas.methods.noise import standard_normal
from bnn_atlas.posterior.density import Evaluation, Posterior, PosteriorData, Target


class Particle(NamedTuple):
    """Position [P], momentum [P], and densities and gradient at the position."""

    position: Array
    momentum: Array
    evaluation: Evaluation


Stepped = tuple[Particle, dict[str, Array]]


def build_baoab(config: BAOABConfig, posterior: Posterior, data: PosteriorData) -> Method:
    """One `integrators.baoab` step; where it is not finite, the position stays and the momentum is drawn."""

    def init(key: Array, position: Array, target: Target) -> Particle:
        return Particle(position, standard_normal(key, position), target.evaluate(position))

    def step(key: Array, index: Array, state: Particle, target: Target, settings: Any) -> Stepped:
        noise = standard_normal(key, state.position)
        new = Particle(*baoab(*state, target.evaluate, config.step_size, config.decay, noise))
        finite = jnp.isfinite(sum(new.evaluation.density) + jnp.sum(new.evaluation.gradient))
        stay = state._replace(momentum=noise)
        return jax.tree.map(lambda a, b: jnp.where(finite, a, b), new, stay), {"divergent": ~finite}

    phases = with_steps(
        Phase("burn-in", config.burn_in, step),
        Phase("sampling", config.steps, step, keep=True, thinning=config.thinning),
    )
    statistics = {"divergent": Statistic("sum", "int32")}
    return Method(init, phases, statistics, lambda s: s.position, lambda s: s.evaluation.density, 1.0)
