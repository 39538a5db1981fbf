"""The objective of a fit and its gradient, estimated from samples of weights."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods.implicit import ImplicitConfig
from bnn_atlas.methods.implicit.entropy.base import Form, Report, constant
from bnn_atlas.methods.implicit.family import NOISE, Family, Learned
from bnn_atlas.methods.implicit.terms import TermWeights
from bnn_atlas.posterior.density import Evaluate, LogDensity, Target


class Estimate(NamedTuple):
    """Of one step."""

    objective: Array
    gradient: Learned
    """Of -objective."""
    search: Array
    """[samples, ...] where the searches of the entropy go on."""
    singular: Array
    """Samples at which J'J was singular."""


@dataclass(frozen=True)
class Objective:
    """(E log p(data | theta) + w_p E log p(theta)) / T + w_H E H, over theta = g(z) + sigma e.

    A noise that is one number has no prior.
    """

    family: Family
    form: Form
    weights: TermWeights
    point_noise: bool

    @cached_property
    def rest(self) -> float:
        """What the entropy has beside 1/2 log det, the same for all generators."""
        return constant(len(self.family.generated), self.family.noise, self.family.sigma)

    def entropy(self, half_log_det: Array) -> Array:
        """H."""
        return half_log_det + self.rest

    def log_prior(self, theta: Array, density: LogDensity, target: Target) -> Array:
        """Log prior of what has one."""
        if not self.point_noise:
            return density.log_prior
        loc, scale = (leaf[self._noise_at(target)] for leaf in target.data.prior[:2])
        z = (theta[self._noise_at(target)] - loc) / scale
        own = -0.5 * z**2 - jnp.log(jnp.where(jnp.isinf(scale), 1, scale * np.sqrt(2 * np.pi)))
        return density.log_prior - own

    def value(self, theta: Array, density: LogDensity, entropy: Array, target: Target, weights: TermWeights) -> Array:
        """The objective with the given weights at one draw."""
        prior = weights.prior * self.log_prior(theta, density, target)
        return (density.log_likelihood + prior) / target.posterior.temperature + weights.entropy * entropy

    def estimate(self, keys: Array, q: Learned, evaluate: Evaluate, target: Target, search: Array) -> Estimate:
        """Estimate from one draw for each key, in turn, so that memory does not grow with their number.

        Args:
            keys: [samples].
            q: where to estimate.
            evaluate: densities and tempered gradient of the full data or of a mini-batch.
            target: the posterior.
            search: [samples, ...] of the entropy.
        """
        zero = jnp.zeros((), q.point.dtype)
        zeros = (zero, jax.tree.map(jnp.zeros_like, q), jnp.int32(0))

        def add(
            total: tuple[Array, Learned, Array], one: tuple[Array, Array]
        ) -> tuple[tuple[Array, Learned, Array], Array]:
            value, gradient, report = self._one(one[0], q, evaluate, target, one[1])
            found = (value, gradient, report.singular.astype(jnp.int32))
            return jax.tree.map(jnp.add, total, found), report.search

        (value, gradient, singular), search = jax.lax.scan(add, zeros, (keys, search))
        gradient = jax.tree.map(lambda leaf: -leaf / len(keys), gradient)
        return Estimate(value / len(keys), gradient, search, singular)

    def _one(
        self, key: Array, q: Learned, evaluate: Evaluate, target: Target, search: Array
    ) -> tuple[Array, Learned, Report]:
        noise_key, form_key = jax.random.split(key)
        noise = self.family.draw_noise(noise_key, q.point)

        def outputs(q: Learned) -> tuple[tuple[Array, Array], Report]:
            generator, values = self.family.generator, self.family.tree(q.generator)
            theta = self.family.assembled(generator(values, noise.z), q, noise)
            half, report = self.form.half_log_det(form_key, generator, values, noise.z, self.family.sigma, search)
            return (theta, half), report

        (theta, half), pull, report = jax.vjp(outputs, q, has_aux=True)
        density, gradient = evaluate(theta)
        gradient = gradient + self._prior_correction(theta, target)
        (slope,) = pull((gradient, jnp.asarray(self.weights.entropy, half.dtype)))
        value = self.value(theta, density, self.entropy(half), target, self.weights)
        return value, slope, report

    def _prior_correction(self, theta: Array, target: Target) -> Array | float:
        """What the weights of the prior change in the tempered gradient."""
        if self.weights.prior == 1 and not self.point_noise:
            return 0.0
        wanted = np.full(len(theta), self.weights.prior)
        if self.point_noise:
            wanted[self._noise_at(target)] = 0
        slope = jax.grad(target.posterior.log_prior)(theta, target.data.prior)
        return jnp.asarray(wanted - 1, theta.dtype) * slope / target.posterior.temperature

    @staticmethod
    def _noise_at(target: Target) -> int:
        return target.posterior.layout.offset(NOISE)


def build_objective(config: ImplicitConfig, family: Family, form: Form, weights: TermWeights, prior: str) -> Objective:
    """The objective of the settings, for a prior of a family.

    Raises:
        ValueError: the noise is a number, and its prior is not normal and cannot be taken out.
    """
    if config.noise == "point" and prior not in ("normal", "empirical_covariance"):
        raise ValueError(
            f"noise: point takes the prior of the noise out of the objective, which can be done for normal priors and "
            f"not for one of the family {prior}: use noise: generated, or a normal prior"
        )
    return Objective(family, form, weights, config.noise == "point")
