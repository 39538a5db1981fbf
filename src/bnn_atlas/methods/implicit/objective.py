"""The objective of a fit, estimates of its gradient from samples of weights, and its description in words.

A fit maximises (log-likelihood + w_p log-prior) / T + w_H H. Divided by w_H, which leaves the maxima unchanged, this is
the evidence lower bound of a posterior with the likelihood to the power 1 / w_H and the prior to the power w_p / w_H; a
normal prior of standard deviation s then has the standard deviation s sqrt(w_H / w_p).
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods.implicit import ExactEntropy, ImplicitConfig
from bnn_atlas.config.parts.posterior import CategoricalLikelihood
from bnn_atlas.methods.implicit.entropy import Form, Place, Report
from bnn_atlas.methods.implicit.family import Family, build_family
from bnn_atlas.methods.implicit.generators import Tree
from bnn_atlas.methods.variational import without_noise
from bnn_atlas.posterior.density import Evaluate, LogDensity, Posterior, Target
from bnn_atlas.posterior.prior_densities import PriorValues

PRIOR_OF_CLASSES, PRIOR_OF_REGRESSION = 8.5e-4, 0.1
"""Weights of the log prior in the published losses; the weight for classes must still be divided by the number of rows
of a batch."""


class TermWeights(NamedTuple):
    """The weights w_p of the prior and w_H of the entropy."""

    prior: float
    entropy: float

    @property
    def likelihood_power(self) -> float:
        """Power of the likelihood in the posterior of the equivalent evidence lower bound."""
        return 1 / self.entropy if self.entropy else float("inf")

    @property
    def prior_scale(self) -> float:
        """Factor on the sd of a normal prior in the posterior of the equivalent evidence lower bound."""
        return (self.entropy / self.prior) ** 0.5 if self.prior else float("inf")

    def words(self, rows: int, temperature: float = 1.0) -> str:
        """Description of the equivalent evidence lower bound, for a posterior with `rows` rows at this temperature.

        A temperature T divides likelihood and prior, which has the effect of T times the weight of the entropy.
        """
        if temperature != 1:
            return TermWeights(self.prior, temperature * self.entropy).words(rows)
        if self == ELBO:
            return "the evidence lower bound"
        if not self.entropy:
            return "no evidence lower bound: the entropy has no weight"
        power = self.likelihood_power
        prior = f"the prior's sd times {self.prior_scale:.3g} if normal" if self.prior else "a flat prior"
        return (
            f"the evidence lower bound of the likelihood to the power {power:.4g} ({power * rows:,.0f} rows), {prior}"
        )


ELBO = TermWeights(1.0, 1.0)


def weights_of(config: ImplicitConfig, posterior: Posterior, rows: int) -> TermWeights:
    """Weights of the objective in the settings, for a posterior of N = `rows` rows and mini-batches of m.

    The published loss for classes is the mean cross-entropy of m rows - w_H H - 8.5e-4 / m log p(theta), with w_H =
    1 / m^2 in October 2023 and 1 / m in December; times N these are N / m^2, N / m and 8.5e-4 N / m. The loss for
    regressions is a sum over all rows, with the weights 1 and 0.1 at both dates.
    """
    if config.objective == "elbo":
        return TermWeights(config.prior_weight, config.entropy_weight)
    if not isinstance(posterior.likelihood, CategoricalLikelihood):
        return TermWeights(PRIOR_OF_REGRESSION, 1.0)
    batch = config.batch_size or rows
    entropy = rows / batch**2 if config.objective == "published_2023_10" else rows / batch
    return TermWeights(PRIOR_OF_CLASSES * rows / batch, entropy)


class Estimate(NamedTuple):
    """Estimates made in one step."""

    objective: Array
    gradient: Array
    """Gradient of -objective with respect to q."""
    search: Array | None
    """[entropies, ...]: state of the entropy's searches; None without a search."""
    singular: Array
    """Number of samples at which J'J was singular."""


_Sums = tuple[Array, tuple[Array, Tree], Array]
"""Sums of the objective and its derivatives, and the number of samples at which J'J was singular."""


@dataclass(frozen=True)
class Objective:
    """(E log p(data | theta) + w_p E log p(theta)) / T + w_H E H, over theta = g(z) + s e.

    A noise level that is a point estimate has no prior.
    """

    family: Family
    form: Form
    weights: TermWeights
    entropies: int | None = None
    """Number of draws of a step at which the entropy is computed; None for all."""

    def entropy(self, half_log_det: Array, q: Array) -> Array:
        """The entropy H, given 1/2 log det."""
        return half_log_det + self.family.rest(q)

    def prior(self, target: Target) -> PriorValues:
        """The prior, flat for a noise level that is a point estimate."""
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
        """Estimate from one draw per key, one at a time, so that memory does not grow with the number of draws.

        Args:
            keys: [samples]; the entropy is the mean over the first `entropies` of them.
            q: the current fit.
            evaluate: densities and tempered gradient of the full data or of a mini-batch.
            target: the posterior.
            search: the entropy's searches so far [entropies, ...].
        """

        def shared_of(q: Array) -> Tree:
            generator, values, _ = self.family.scaled(q)
            return self.form.shared(generator, values)

        shared, pull = jax.vjp(shared_of, q)
        zeros = (jnp.zeros((), q.dtype), (jnp.zeros_like(q), jax.tree.map(jnp.zeros_like, shared)), jnp.int32(0))
        count = self.entropies or len(keys)
        weights = self.weights._replace(entropy=self.weights.entropy * len(keys) / count)

        def add(total: _Sums, one: tuple[Array, Array | None]) -> tuple[_Sums, Array | None]:
            value, slopes, report = self._one(one[0], q, shared, evaluate, target, one[1], weights)
            return jax.tree.map(jnp.add, total, (value, slopes, report.singular.astype(jnp.int32))), report.search

        def add_rest(total: tuple[Array, Array], key: Array) -> tuple[tuple[Array, Array], None]:
            return jax.tree.map(jnp.add, total, self._without_entropy(key, q, evaluate, target)), None

        (value, (slope, of_shared), singular), search = jax.lax.scan(add, zeros, (keys[:count], search))
        if count < len(keys):
            (value, slope), _ = jax.lax.scan(add_rest, (value, slope), keys[count:])
        gradient = slope + pull(of_shared)[0]
        return Estimate(value / len(keys), -gradient / len(keys), search, singular)

    def _one(
        self,
        key: Array,
        q: Array,
        shared: Tree,
        evaluate: Evaluate,
        target: Target,
        search: Array | None,
        weights: TermWeights,
    ) -> tuple[Array, tuple[Array, Tree], Report]:
        """The objective, and its derivatives with respect to q and to the quantities that all samples share."""
        noise_key, form_key = jax.random.split(key)
        noise = self.family.draw_noise(noise_key, q)

        def outputs(q: Array, shared: Tree) -> tuple[tuple[Array, Array], Report]:
            generator, values, sigma = self.family.scaled(q)
            half, report = self.form.half_log_det(form_key, Place(generator, values, shared, noise.z, sigma), search)
            return (self.family(q, noise), self.entropy(half, q)), report

        (theta, entropy), pull, report = jax.vjp(outputs, q, shared, has_aux=True)
        density, gradient = evaluate(theta)
        gradient = gradient + self._prior_correction(theta, target)
        slopes = pull((gradient, jnp.asarray(weights.entropy, entropy.dtype)))
        return self.value(theta, density, entropy, target, weights), slopes, report

    def _without_entropy(self, key: Array, q: Array, evaluate: Evaluate, target: Target) -> tuple[Array, Array]:
        """The objective without its entropy, and its derivative with respect to q."""
        noise = self.family.draw_noise(jax.random.split(key)[0], q)
        theta, pull = jax.vjp(lambda q: self.family(q, noise), q)
        density, gradient = evaluate(theta)
        slope = pull(gradient + self._prior_correction(theta, target))[0]
        return self.value(theta, density, jnp.zeros((), q.dtype), target, self.weights), slope

    def _prior_correction(self, theta: Array, target: Target) -> Array | float:
        """Change of the tempered gradient due to the prior's weight and to parameters without a prior."""
        if self.weights.prior == 1 and self.family.noise_at is None:
            return 0.0

        def beyond(theta: Array) -> Array:
            wanted, there = (
                target.posterior.log_prior(theta, values) for values in (self.prior(target), target.data.prior)
            )
            return (self.weights.prior * wanted - there) / target.posterior.temperature

        return jax.grad(beyond)(theta)


def notes_of(config: ImplicitConfig, posterior: Posterior, rows: int) -> dict[str, str]:
    """Statistic -> note on the form of the entropy and on the bound that the objective equals.

    Raises ValueError in the same cases as `build_family`.
    """
    scoring = config.scoring(build_family(config, posterior).noise)
    scored, trained = (f"entropy: {form.words}" for form in (scoring, config.entropy))
    lower = scored if isinstance(scoring, ExactEntropy) else f"{scored}, lower end of the bracket"
    of_draws = "of the draws alone" if not isinstance(config.entropy, ExactEntropy) else ""
    return {
        "entropy": scored,
        "entropy_error": scored,
        "entropy_bracket": scored,
        "elbo": lower,
        "entropy_as_trained": trained,
        "objective": f"{trained}; {weights_of(config, posterior, rows).words(rows, posterior.temperature)}",
        **({"singular": of_draws} if of_draws else {}),
    }
