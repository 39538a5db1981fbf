"""The objective of a fit and its gradient, estimated from samples of weights."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import jax
from jax import Array
from jax import numpy as jnp

from bnn_atlas.methods.implicit.entropy.base import Form, Report, constant
from bnn_atlas.methods.implicit.family import Family
from bnn_atlas.methods.implicit.terms import TermWeights
from bnn_atlas.methods.point_noise import without_noise
from bnn_atlas.posterior.density import Evaluate, LogDensity, Target
from bnn_atlas.posterior.priors import PriorValues


class Estimate(NamedTuple):
    """Of one step."""

    objective: Array
    gradient: Array
    """Of -objective, by q."""
    search: Array | None
    """[samples, ...] where the searches of the entropy go on, if it has any."""
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

    @cached_property
    def rest(self) -> float:
        """What the entropy has beside 1/2 log det, the same for all generators."""
        return constant(len(self.family.generated), self.family.noise, self.family.sigma)

    def entropy(self, half_log_det: Array) -> Array:
        """H."""
        return half_log_det + self.rest

    def prior(self, target: Target) -> PriorValues:
        """Prior of what has one."""
        values = target.data.prior
        return values if self.family.noise_at is None else without_noise(values, self.family.noise_at)

    def value(self, theta: Array, density: LogDensity, entropy: Array, target: Target, weights: TermWeights) -> Array:
        """The objective with the given weights at one draw."""
        prior = density.log_prior
        if self.family.noise_at is not None:
            prior = target.posterior.log_prior(theta, self.prior(target))
        prior = weights.prior * prior
        return (density.log_likelihood + prior) / target.posterior.temperature + weights.entropy * entropy

    def estimate(self, keys: Array, q: Array, evaluate: Evaluate, target: Target, search: Array | None) -> Estimate:
        """Estimate from one draw for each key, in turn, so that memory does not grow with their number.

        Args:
            keys: [samples].
            q: where to estimate.
            evaluate: densities and tempered gradient of the full data or of a mini-batch.
            target: the posterior.
            search: [samples, ...] of the entropy.
        """
        zeros = (jnp.zeros((), q.dtype), jnp.zeros_like(q), jnp.int32(0))

        def add(
            total: tuple[Array, Array, Array], one: tuple[Array, Array | None]
        ) -> tuple[tuple[Array, Array, Array], Array | None]:
            value, gradient, report = self._one(one[0], q, evaluate, target, one[1])
            found = (value, gradient, report.singular.astype(jnp.int32))
            return jax.tree.map(jnp.add, total, found), report.search

        (value, gradient, singular), search = jax.lax.scan(add, zeros, (keys, search))
        return Estimate(value / len(keys), -gradient / len(keys), search, singular)

    def _one(
        self, key: Array, q: Array, evaluate: Evaluate, target: Target, search: Array | None
    ) -> tuple[Array, Array, Report]:
        noise_key, form_key = jax.random.split(key)
        noise = self.family.draw_noise(noise_key, q)

        def outputs(q: Array) -> tuple[tuple[Array, Array], Report]:
            generator, (values, point) = self.family.generator, self.family.parts(q)
            theta = self.family.assembled(generator(values, noise.z), point, noise)
            half, report = self.form.half_log_det(form_key, generator, values, noise.z, self.family.sigma, search)
            return (theta, half), report

        (theta, half), pull, report = jax.vjp(outputs, q, has_aux=True)
        density, gradient = evaluate(theta)
        gradient = gradient + self._prior_correction(theta, target)
        (slope,) = pull((gradient, jnp.asarray(self.weights.entropy, half.dtype)))
        value = self.value(theta, density, self.entropy(half), target, self.weights)
        return value, slope, report

    def _prior_correction(self, theta: Array, target: Target) -> Array | float:
        """What the weight of the prior, and what has none, change in the tempered gradient."""
        if self.weights.prior == 1 and self.family.noise_at is None:
            return 0.0

        def beyond(theta: Array) -> Array:
            wanted, there = (
                target.posterior.log_prior(theta, values) for values in (self.prior(target), target.data.prior)
            )
            return (self.weights.prior * wanted - there) / target.posterior.temperature

        return jax.grad(beyond)(theta)
