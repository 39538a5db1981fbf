"""Draws that come from a fit or were made beforehand, not from a chain, each with its densities under the posterior."""

from typing import Any, NamedTuple

import jax
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods.gaussian import CompactConfig
from bnn_atlas.config.methods.optimisation import DeepEnsembleConfig
from bnn_atlas.config.parts.posterior import LearnedNoiseLikelihood
from bnn_atlas.methods.contract import Method, Phase, Statistic
from bnn_atlas.posterior.density import LogDensity, Posterior, PosteriorData, Target


class Draw(NamedTuple):
    """A position [P] and the untempered densities at that position."""

    position: Array
    density: LogDensity


def draw_at(position: Array, target: Target) -> Draw:
    """The draw at a position; no gradient is computed."""
    return Draw(position, target.log_density(position))


def next_draw(position: Array, target: Target, before: Draw) -> tuple[Draw, Array]:
    """The draw at a position and False, or the previous draw and True if the new density is not finite."""
    new = draw_at(position, target)
    divergent = ~jnp.isfinite(new.density.log_likelihood + new.density.log_prior)
    return jax.tree.map(lambda a, b: jnp.where(divergent, a, b), before, new), divergent


def build_compact(config: CompactConfig, posterior: Posterior, data: PosteriorData) -> Method:
    """One draw per chain: the start of the chain, drawn beforehand from a Gaussian (`symmetry.compact`).

    `divergent` is 1 if the draw's log-likelihood is not finite.
    """

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


def build_deep_ensemble(config: DeepEnsembleConfig, posterior: Posterior, data: PosteriorData) -> Method:
    """Deep ensembles (Lakshminarayanan et al. 2017): the warm starts as a trace of one draw per chain.

    Warm starts do not train a learned noise, so the noise gets its maximum-likelihood estimate: sigma^2 is the mean
    squared residual of a member on the rows that the posterior is conditioned on.
    """
    learns_noise = isinstance(posterior.likelihood, LearnedNoiseLikelihood)
    rows = len(data.y) if data.weights is None else int(data.weights.sum())

    def init(key: Array, position: Array, target: Target) -> Draw:
        if learns_noise:
            position = position.at[-1].set(jnp.log(target.squared_error(position) / rows) / 2)
        return draw_at(position, target)

    def stay(key: Array, index: Array, state: Draw, target: Target, settings: Any) -> tuple[Draw, dict[str, Array]]:
        return state, {}

    return Method(
        init=init,
        phases=(Phase("sampling", 1, stay, keep=True),),
        statistics={},
        position=lambda state: state.position,
        density=lambda state: state.density,
        gradients_per_step=None,
    )
