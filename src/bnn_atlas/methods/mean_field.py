"""Mean-field variational inference: a normal with independent parameters, fitted by reparameterised gradients.

Blundell et al. 2015 (Weight Uncertainty in Neural Networks); for Bayesian neural networks as in Izmailov et al. 2021,
with the temperature applied once, to the posterior (the published code applied it twice, to the likelihood and to the
divergence from the prior).
"""

import math
from typing import Any, NamedTuple, Protocol

import jax
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods.gaussian import MeanFieldConfig
from bnn_atlas.methods import minibatch
from bnn_atlas.methods.contract import Method
from bnn_atlas.methods.optimise import build_optimiser, update
from bnn_atlas.methods.variational import (
    DrawFrom,
    Family,
    Improved,
    build_variational,
    noise_index,
    weights_only,
    without_noise,
)
from bnn_atlas.posterior.density import Evaluate, Evaluation, LogDensity, Posterior, PosteriorData, Target
from bnn_atlas.posterior.prior_densities import PriorValues

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class MeanField(NamedTuple):
    """q(theta) = N(mean, diag(softplus(rho)^2)), both [P]."""

    mean: Array
    rho: Array

    @property
    def sigma(self) -> Array:
        """Standard deviations [P]."""
        return jax.nn.softplus(self.rho)

    def log_density(self, noise: Array, counted: Array | None = None) -> Array:
        """Log q at mean + sigma noise, over the parameters for which `counted` [P] is 1; None for all parameters."""
        terms = 0.5 * noise**2 + jnp.log(self.sigma) + _HALF_LOG_2PI
        return -jnp.sum(terms if counted is None else counted * terms)

    def entropy(self, counted: Array | None = None) -> Array:
        """-E_q[log q] over the parameters for which `counted` is 1."""
        terms = jnp.log(self.sigma) + (_HALF_LOG_2PI + 0.5)
        return jnp.sum(terms if counted is None else counted * terms)


class Objective(NamedTuple):
    """Estimates: the evidence lower bound, the prior's and entropy's contribution to it, and the gradient of -elbo."""

    elbo: Array
    kl: Array
    gradient: MeanField


class Moments(Protocol):
    """Means and standard deviations of the parameters under a density."""

    @property
    def mean(self) -> Array:
        """[P]."""

    @property
    def sigma(self) -> Array:
        """[P]."""


def expected_log_prior(values: PriorValues, q: Moments) -> Array:
    """E_q[log p(theta)] for a prior of independent normals, sum_m log N(mean_m | loc_m, s_m^2) - sigma_m^2 / (2 s_m^2).

    The normal constant is in `values.log_normaliser`; a scalar with a flat prior (infinite scale) adds nothing.
    """
    scaled = ((q.mean - values.loc) ** 2 + q.sigma**2) / values.scale**2
    return -0.5 * jnp.sum(scaled) - values.log_normaliser


def objective(
    key: Array, q: MeanField, evaluate: Evaluate, target: Target, samples: int, point: int | None = None
) -> Objective:
    """Estimate the objective from `samples` draws theta = mean + sigma xi, xi ~ N(0, I).

    A fit minimises KL(q || p_T) with p_T proportional to (likelihood x prior)^(1 / T), that is -elbo with

        elbo = E_q[log p(data | theta)] / T - kl,    kl = -E_q[log p(theta)] / T - H(q);

    at T = 1, kl is KL(q || prior). The expected prior is exact if it is normal, and otherwise averaged over the same
    draws; the entropy H is exact. With g the gradient of the averaged quantity, d elbo / d mean = E[g] and d elbo / d
    sigma = E[g xi]; the exact parts are added to these.

    Args:
        key: for the draws.
        q: the current approximation.
        evaluate: densities and tempered gradient of the full data or of a mini-batch.
        target: the posterior.
        samples: number of draws.
        point: index of a log sigma that is a point estimate (`variational.noise_index`) and therefore has no spread,
            prior or entropy; None without such a log sigma.
    """
    posterior, values = target.posterior, target.data.prior
    temperature, sigma = posterior.temperature, q.sigma
    exact_prior = posterior.family.name == "normal"
    noise = jax.random.normal(key, (samples, *q.mean.shape), q.mean.dtype)
    counted = None if point is None else weights_only(len(q.mean), point)
    if counted is not None:
        noise = noise * counted

    def add(total: tuple[Array, Array, Array, Array], xi: Array) -> tuple[tuple[Array, Array, Array, Array], None]:
        theta = q.mean + sigma * xi
        (likelihood, prior), gradient = evaluate(theta)
        if exact_prior:
            gradient = gradient - jax.grad(posterior.log_prior)(theta, values) / temperature
        return jax.tree.map(jnp.add, total, (likelihood, prior, gradient, gradient * xi)), None

    zero = jnp.zeros((), sigma.dtype)
    zeros = (zero, zero, jnp.zeros_like(sigma), jnp.zeros_like(sigma))
    total, _ = jax.lax.scan(add, zeros, noise)
    likelihood, prior, by_mean, by_sigma = jax.tree.map(lambda leaf: leaf / samples, total)
    by_rho = by_sigma * jax.nn.sigmoid(q.rho)
    if exact_prior:
        proper = values if point is None else without_noise(values, point)
        prior, gradient = jax.value_and_grad(lambda q: expected_log_prior(proper, q))(q)
        by_mean, by_rho = by_mean + gradient.mean / temperature, by_rho + gradient.rho / temperature
    entropy, gradient = jax.value_and_grad(lambda q: MeanField.entropy(q, counted))(q)
    kl = -prior / temperature - entropy
    return Objective(likelihood / temperature - kl, kl, MeanField(-by_mean, -(by_rho + gradient.rho)))


def rho_of(sigma: float) -> float:
    """The inverse of softplus at sigma."""
    return math.log(math.expm1(sigma)) if sigma < 20 else sigma


def build_mean_field(config: MeanFieldConfig, posterior: Posterior, data: PosteriorData) -> Method:
    """Fit q, then draw from it, with the statistics of `variational.build_variational`; the fit is `mean` and `sd` [P].

    Raises:
        ValueError: a mini-batch is larger than the data, or the noise level cannot be a point estimate.
    """
    steps = minibatch.steps_in(config.epochs, config.batch_size, posterior, data)
    optimiser = build_optimiser(config.optimiser, steps)
    point = noise_index(posterior) if config.noise == "point" else None
    counted = None if point is None else weights_only(posterior.layout.size, point)

    def begin(key: Array, position: Array, target: Target) -> tuple[MeanField, Any]:
        mean = position if config.mean_init == "warm_start" else target.data.prior.loc
        q = MeanField(mean, jnp.full_like(mean, rho_of(config.sigma_init)))
        return q, optimiser.init(q)

    def improve(key: Array, q: MeanField, memory: Any, evaluate: Evaluate, target: Target) -> Improved:
        elbo, kl, gradient = objective(key, q, evaluate, target, config.samples, point)
        q, memory, skipped = update(optimiser, gradient, memory, q)
        norm = jnp.sqrt(jnp.vdot(gradient.mean, gradient.mean) + jnp.vdot(gradient.rho, gradient.rho))
        return Improved(q, memory, elbo, kl, norm, skipped)

    def spread(q: MeanField) -> Array:
        return q.sigma if counted is None else counted * q.sigma

    def draw(key: Array, q: MeanField) -> DrawFrom:
        noise = jax.random.normal(key, q.mean.shape, q.mean.dtype)
        return DrawFrom(q.mean + spread(q) * noise, q.log_density(noise, counted))

    def prior_of(values: PriorValues) -> PriorValues:
        return values if point is None else without_noise(values, point)

    def log_prior(position: Array, prior: Array, target: Target) -> Array:
        return prior if point is None else target.posterior.log_prior(position, prior_of(target.data.prior))

    def exact_kl(q: MeanField, target: Target) -> Array:
        expected = expected_log_prior(prior_of(target.data.prior), q)
        return -expected / target.posterior.temperature - q.entropy(counted)

    def weighting(evaluate: Evaluate, target: Target) -> Evaluate:
        if not config.unscaled or not config.batch_size:
            return evaluate
        return _weighted(evaluate, target, config.batch_size / (target.rows * target.posterior.shards))

    exact = exact_kl if posterior.family.name == "normal" else None
    family = Family(
        name="mean field",
        begin=begin,
        improve=improve,
        draw=draw,
        log_prior=log_prior,
        exact_kl=exact,
        fit=lambda q: {"mean": q.mean, "sd": spread(q)},
        centre=lambda q: q.mean,
    )
    return build_variational(config, family, posterior, data, weighting)


def _weighted(evaluate: Evaluate, target: Target, weight: float) -> Evaluate:
    """`evaluate` with the log-likelihood multiplied by a weight and the prior unchanged."""

    def weighted(theta: Array) -> Evaluation:
        (likelihood, prior), gradient = evaluate(theta)
        slope = jax.grad(target.posterior.log_prior)(theta, target.data.prior) / target.posterior.temperature
        return Evaluation(LogDensity(weight * likelihood, prior), weight * (gradient - slope) + slope)

    return weighted
