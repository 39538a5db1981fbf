"""Independent draws from a fitted approximation, each with its densities under the posterior."""

from typing import NamedTuple

import jax
from jax import Array
from jax import numpy as jnp

from bnn_atlas.posterior.density import LogDensity, Target


class Draw(NamedTuple):
    """A position [P] and the untempered densities there."""

    position: Array
    density: LogDensity


def draw_at(position: Array, target: Target) -> Draw:
    """The draw at a position, which costs no gradient."""
    return Draw(position, target.log_density(position))


def next_draw(position: Array, target: Target, before: Draw) -> tuple[Draw, Array]:
    """The draw at a position and False, or the one before it and True where the new density is not finite."""
    new = draw_at(position, target)
    divergent = ~jnp.isfinite(new.density.log_likelihood + new.density.log_prior)
    return jax.tree.map(lambda a, b: jnp.where(divergent, a, b), before, new), divergent
