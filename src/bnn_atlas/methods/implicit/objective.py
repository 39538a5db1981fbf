"""The objective of a fit and its gradient, estimated from samples of weights."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp

from bnn_atlas.methods.implicit.entropy.base import Form, Report, constant
from bnn_atlas.methods.implicit.family import Family
from bnn_atlas.methods.implicit.terms import TermWeights
from bnn_atlas.methods.independent import Draw
from bnn_atlas.methods.point_noise import without_noise
from bnn_atlas.posterior.density import Evaluate, LogDensity, Target
from bnn_atlas.posterior.priors import PriorValues


class Drawn(NamedTuple):
    """A draw of weights, and the entropy where it was made."""

    draw: Draw
    """With the densities of the rows that the step has."""
    z: Array
    half_log_det: Array
    """Of the entropy's form, which `report` is about."""
    report: Report


class Estimate(NamedTuple):
    """Of one step."""

    gradient: Array
    """Of -objective, by q."""
    singular: Array
    """Samples at which J'J was singular."""
    search: Array | None
    """[samples, ...] where the searches of the entropy go on, if it has any."""
    last: Drawn
    """Of the samples, the last."""


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

    def densities(self, draw: Draw, target: Target) -> LogDensity:
        """Those of a draw, with the prior of what has one."""
        if self.family.noise_at is None:
            return draw.density
        return draw.density._replace(log_prior=target.posterior.log_prior(draw.position, self.prior(target)))

    def estimate(
        self,
        keys: Array,
        count: Array | np.int32 | int,
        q: Array,
        evaluate: Evaluate,
        target: Target,
        search: Array | None,
    ) -> Estimate:
        """Estimate from one draw for each of the first `count` keys, in turn, so that memory does not grow with them.

        Args:
            keys: [samples].
            count: how many are used, at least 1; the others' searches stay as they are.
            q: where to estimate.
            evaluate: densities and tempered gradient of the full data or of a mini-batch.
            target: the posterior.
            search: [samples, ...] of the entropy.
        """
        zero, no = jnp.zeros((), q.dtype), jnp.bool_(False)
        theta, z = jnp.zeros(target.posterior.layout.size, q.dtype), jnp.zeros(self.family.noise, q.dtype)
        nothing = Drawn(Draw(theta, LogDensity(zero, zero)), z, zero, Report(zero, no, no, None))

        def add(index: Array, total: Estimate) -> Estimate:
            slope, drawn = self._one(keys[index], q, evaluate, target, None if search is None else search[index])
            report, searches = drawn.report, total.search
            if searches is not None and report.search is not None:
                searches = searches.at[index].set(report.search)
            drawn = drawn._replace(report=report._replace(search=None))
            return Estimate(total.gradient + slope, total.singular + report.singular, searches, drawn)

        total = jax.lax.fori_loop(0, count, add, Estimate(jnp.zeros_like(q), jnp.int32(0), search, nothing))
        return total._replace(gradient=-total.gradient / count)

    def _one(
        self, key: Array, q: Array, evaluate: Evaluate, target: Target, search: Array | None
    ) -> tuple[Array, Drawn]:
        """Gradient of the objective by q, estimated from one draw."""
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
        return slope, Drawn(Draw(theta, density), noise.z, half, report)

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
