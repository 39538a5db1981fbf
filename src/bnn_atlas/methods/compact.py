"""Draws from a Gaussian that were made beforehand, each with its densities under the posterior.

The Gaussian has the moments of another run's draws (`bnn_atlas.symmetry.gaussian`).
"""

from typing import Any

from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods.compact import CompactConfig
from bnn_atlas.methods.base import Method, Phase, Statistic
from bnn_atlas.methods.independent import Draw, draw_at
from bnn_atlas.posterior.density import Posterior, PosteriorData, Target


def build_compact(config: CompactConfig, posterior: Posterior, data: PosteriorData) -> Method:
    """One draw per chain, the position that it is given; `divergent` is 1 if its log-likelihood is not finite."""

    def init(key: Array, position: Array, target: Target) -> Draw:
        return draw_at(position, target)

    def stay(key: Array, index: Array, state: Draw, target: Target, settings: Any) -> tuple[Draw, dict[str, Array]]:
        return state, {"divergent": ~jnp.isfinite(state.density.log_likelihood)}

    return Method(
        init=init,
        phases=(Phase("sampling", 1, stay, keep=True),),
        statistics={"divergent": Statistic("sum", "int32")},
        position=lambda state: state.position,
        density=lambda state: state.density,
        gradients_per_step=None,
    )
