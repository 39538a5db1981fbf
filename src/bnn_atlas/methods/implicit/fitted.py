"""A kept fit (`fit.npz`): further draws from it, and its Jacobian, without training."""

from collections.abc import Mapping
from typing import NamedTuple

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods.implicit import ImplicitConfig
from bnn_atlas.methods.implicit.family import Family, build_family
from bnn_atlas.posterior.density import Posterior


class FitError(ValueError):
    """Arrays that are not the fit of the settings."""


class Fitted(NamedTuple):
    """The distribution that a chain has fitted."""

    family: Family
    q: Array

    def draws(self, key: Array, count: int) -> Array:
        """Independent draws theta [count, P]."""

        def draw(key: Array) -> Array:
            return self.family(self.q, self.family.draw_noise(key, self.q))

        return jax.lax.map(draw, jax.random.split(key, count))

    def squared_singular_values(self, key: Array) -> Array:
        """Eigenvalues [d] of J'J at a random z, from the smallest on."""
        return self.spectrum_at(self.family.draw_noise(key, self.q).z)

    def spectrum_at(self, z: Array) -> Array:
        """The same at a given z [d]."""
        generator, values = self.family.generator, self.family.tree(self.q)
        return jnp.linalg.eigvalsh(generator.gram(values, generator.squares(values), z))


def fitted(config: ImplicitConfig, posterior: Posterior, arrays: Mapping[str, np.ndarray], chain: int = 0) -> Fitted:
    """What chain number `chain` of a file `fit.npz` has fitted, from its arrays [chain, ...].

    Raises:
        FitError: the arrays are not those of the settings.
        ValueError: as `build_family`.
    """
    family = build_family(config, posterior)
    shapes = zip(family.names, family.shapes, strict=True)
    wanted = {**{f"generator.{name}": shape for name, shape in shapes}, "point": (len(family.points),)}
    found = {name: arrays[name].shape[1:] for name in wanted if name in arrays}
    if found != wanted:
        wrong = sorted(name for name in wanted if found.get(name) != wanted[name])
        raise FitError(
            f"not a fit of these settings: {', '.join(wrong)} {'is' if len(wrong) == 1 else 'are'} missing or of "
            "another shape; pass the settings that the run had"
        )
    if not 0 <= chain < len(arrays["point"]):
        raise FitError(f"no chain {chain}: this fit has {len(arrays['point'])}")
    numbers = [np.ravel(arrays[name][chain]) for name in wanted]
    return Fitted(family, jnp.asarray(np.concatenate(numbers)))
