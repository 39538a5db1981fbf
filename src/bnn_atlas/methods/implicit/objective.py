"""The objective of a fit and its gradient, estimated from samples of weights."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import jax
from jax import Array
from jax import numpy as jnp

from bnn_atlas.methods.implicit.entropy.base import Form, Place, Report, constant
from bnn_atlas.methods.implicit.family import Family
from bnn_atlas.methods.implicit.generators.base import Tree
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


_Sums = tuple[Array, tuple[Array, Tree], Array]
"""Of the objective, its slopes and the samples at which J'J was singular."""


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

        def shared_of(q: Array) -> Tree:
            return self.form.shared(self.family.generator, self.family.tree(q))

        shared, pull = jax.vjp(shared_of, q)
        zeros = (jnp.zeros((), q.dtype), (jnp.zeros_like(q), jax.tree.map(jnp.zeros_like, shared)), jnp.int32(0))

        def add(total: _Sums, one: tuple[Array, Array | None]) -> tuple[_Sums, Array | None]:
            value, slopes, report = self._one(one[0], q, shared, evaluate, target, one[1])
            return jax.tree.map(jnp.add, total, (value, slopes, report.singular.astype(jnp.int32))), report.search

        (value, (slope, of_shared), singular), search = jax.lax.scan(add, zeros, (keys, search))
        gradient = slope + pull(of_shared)[0]
        return Estimate(value / len(keys), -gradient / len(keys), search, singular)

    def _one(
        self, key: Array, q: Array, shared: Tree, evaluate: Evaluate, target: Target, search: Array | None
    ) -> tuple[Array, tuple[Array, Tree], Report]:
        """Objective, and its slopes by q and by what all samples share."""
        noise_key, form_key = jax.random.split(key)
        noise = self.family.draw_noise(noise_key, q)

        def outputs(q: Array, shared: Tree) -> tuple[tuple[Array, Array], Report]:
            generator, (values, point) = self.family.generator, self.family.parts(q)
            theta = self.family.assembled(generator(values, noise.z), point, noise)
            place = Place(generator, values, shared, noise.z, self.family.sigma)
            half, report = self.form.half_log_det(form_key, place, search)
            return (theta, half), report

        (theta, half), pull, report = jax.vjp(outputs, q, shared, has_aux=True)
        density, gradient = evaluate(theta)
        gradient = gradient + self._prior_correction(theta, target)
        slopes = pull((gradient, jnp.asarray(self.weights.entropy, half.dtype)))
        value = self.value(theta, density, self.entropy(half), target, self.weights)
        return value, slopes, report

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
