"""Deep ensembles (Lakshminarayanan et al. 2017): the warm starts themselves as draws."""

from typing import Any, NamedTuple

from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods.optimisation import DeepEnsembleConfig
from bnn_atlas.config.posterior import LearnedNoiseLikelihood
from bnn_atlas.methods.base import Method, Phase
from bnn_atlas.posterior.density import LogDensity, Posterior, PosteriorData, Target


class EnsembleState(NamedTuple):
    """A warm start and its densities."""

    position: Array
    density: LogDensity


def build_deep_ensemble(config: DeepEnsembleConfig, posterior: Posterior, data: PosteriorData) -> Method:
    """The warm starts as a trace of one draw per chain.

    A learned noise, which no warm start touches, gets its maximum-likelihood estimate: sigma^2 is the mean square of a
    member's residuals at the rows that the posterior conditions on.
    """
    learns_noise = isinstance(posterior.likelihood, LearnedNoiseLikelihood)
    rows = len(data.y) if data.weights is None else int(data.weights.sum())

    def init(key: Array, position: Array, target: Target) -> EnsembleState:
        if learns_noise:
            position = position.at[-1].set(jnp.log(target.squared_error(position) / rows) / 2)
        return EnsembleState(position, target.log_density(position))

    def stay(
        key: Array, index: Array, state: EnsembleState, target: Target, settings: Any
    ) -> tuple[EnsembleState, dict[str, Array]]:
        return state, {}

    return Method(
        init=init,
        phases=(Phase("sampling", 1, stay, keep=True),),
        statistics={},
        position=lambda state: state.position,
        density=lambda state: state.density,
        gradients_per_step=None,
    )
