"""Prior densities over the flat parameter vector, each independent over its scalars.

Every prior is one of three families with a location and a scale per scalar, so that one function serves all and the
numbers (not the code) change with the model. The eight priors are those of Sommer et al. 2025.
"""

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.posterior import (
    EpsStandardNormalPrior,
    GlorotLaplacePrior,
    GlorotPrior,
    GlorotUniformPrior,
    HePrior,
    LaplacePrior,
    NormalPrior,
    PriorConfig,
    StandardNormalPrior,
)
from bnn_atlas.models.layout import Layout, Parameter

Family = Literal["normal", "laplace", "walled_uniform"]


class PriorValues(NamedTuple):
    """Numbers of a prior: location and scale of each scalar [P] and the log of the normalising constant."""

    loc: Array
    scale: Array
    log_normaliser: Array


class Prior(NamedTuple):
    """A prior: the family (code) and its values (data)."""

    family: Family
    values: PriorValues

    def sample(self, key: Array) -> Array:
        """One parameter vector [P] from the prior (for walled uniforms, from inside the walls)."""
        loc, scale, _ = self.values
        draw = {
            "normal": jax.random.normal,
            "laplace": jax.random.laplace,
            "walled_uniform": lambda k, shape, dtype: jax.random.uniform(k, shape, dtype, -1.0, 1.0),
        }[self.family]
        return loc + scale * draw(key, loc.shape, loc.dtype)


def _normal(z: Array, scale: Array) -> Array:
    return -0.5 * z * z


def _laplace(z: Array, scale: Array) -> Array:
    return -jnp.abs(z)


def _walled_uniform(z: Array, scale: Array) -> Array:
    return -math.log(1000.0) * scale * jnp.maximum(jnp.abs(z) - 1.0, 0.0)


_SHAPES: dict[Family, Callable[[Array, Array], Array]] = {
    "normal": _normal,
    "laplace": _laplace,
    "walled_uniform": _walled_uniform,
}
_LOG_UNITS: dict[Family, float] = {
    "normal": 0.5 * math.log(2 * math.pi),
    "laplace": math.log(2),
    "walled_uniform": math.log(2),
}


def log_prior(family: Family, values: PriorValues, theta: Array) -> Array:
    """sum_m log p(theta_m) for theta [P].

    Normal and Laplace are the usual densities; a walled uniform is 1/(2a) inside [-a, a] and falls outside as
    exp(-log(1000) (|theta| - a)), which is unnormalised there, as published.
    """
    z = (theta - values.loc) / values.scale
    return jnp.sum(_SHAPES[family](z, values.scale)) - values.log_normaliser


def build_prior(config: PriorConfig, layout: Layout, dtype: jnp.dtype = jnp.float32) -> Prior:
    """Prior of the settings for a model's layout."""
    family, loc, scale = _numbers(config, layout)
    log_normaliser = np.sum(np.log(scale)) + layout.size * _LOG_UNITS[family]
    return Prior(family, PriorValues(*(jnp.asarray(value, dtype) for value in (loc, scale, log_normaliser))))


def _numbers(config: PriorConfig, layout: Layout) -> tuple[Family, np.ndarray, np.ndarray]:
    zeros = np.zeros(layout.size)

    def scales(weight: Callable[[Parameter], float], other: float) -> np.ndarray:
        return layout.per_scalar({p.name: weight(p) if p.role == "weight" else other for p in layout.parameters})

    def fan_average(p: Parameter) -> float:
        return (p.fan_in + p.fan_out) / 2

    match config:
        case StandardNormalPrior():
            return "normal", zeros, zeros + 1
        case NormalPrior():
            return "normal", zeros + config.loc, zeros + config.scale
        case LaplacePrior():
            return "laplace", zeros + config.loc, zeros + config.scale
        case GlorotPrior():
            return "normal", zeros, scales(lambda p: config.factor / math.sqrt(fan_average(p)), 1.0)
        case HePrior():
            return "normal", zeros, scales(lambda p: math.sqrt(2 / p.fan_in), 1.0)
        case GlorotLaplacePrior():
            return "laplace", zeros, scales(lambda p: 1 / math.sqrt(2 * fan_average(p)), math.sqrt(0.5))
        case GlorotUniformPrior():
            return "walled_uniform", zeros, scales(lambda p: math.sqrt(3 / fan_average(p)), math.sqrt(3))
        case EpsStandardNormalPrior():
            rng = np.random.default_rng(config.seed)
            loc, raw = rng.normal(0, math.sqrt(config.var_eps), (2, layout.size)) + np.array([[0.0], [1.0]])
            return "normal", loc, config.scale * np.logaddexp(0, raw)
