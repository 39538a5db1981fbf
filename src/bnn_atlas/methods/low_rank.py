"""Variational inference with normals whose covariance is the sum of a diagonal and a low-rank matrix.

Ong, Nott and Smith 2018 (Gaussian Variational Approximation With a Factor Covariance Structure). With A = F / s (row by
row) and C = I + A'A [r, r], the determinant lemma gives log det(diag(s^2) + F F') = 2 sum log s + log det C, so no
P x P matrix is formed.
"""

import math
from typing import Any, NamedTuple

import jax
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods.gaussian import LowRankConfig
from bnn_atlas.methods import minibatch
from bnn_atlas.methods.contract import Method
from bnn_atlas.methods.mean_field import expected_log_prior, rho_of
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
from bnn_atlas.posterior.density import Evaluate, Posterior, PosteriorData, Target
from bnn_atlas.posterior.prior_densities import PriorValues

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class LowRank(NamedTuple):
    """q(theta) = N(mean, diag(s^2) + F F') with s = softplus(rho) [P] and the factor F [P, r]."""

    mean: Array
    rho: Array
    factor: Array

    @property
    def diagonal(self) -> Array:
        """The standard deviations s of the diagonal part [P]."""
        return jax.nn.softplus(self.rho)

    @property
    def sigma(self) -> Array:
        """Standard deviations of the parameters [P]."""
        return jnp.sqrt(self.diagonal**2 + jnp.sum(self.factor**2, axis=1))

    def at(self, noise: "Noise") -> Array:
        """The draw mean + s xi + F zeta [P]."""
        return self.mean + self.diagonal * noise.xi + self.factor @ noise.zeta


class Noise(NamedTuple):
    """Standard normal numbers from which a draw is made: xi [..., P] and zeta [..., r]."""

    xi: Array
    zeta: Array


class Counted(NamedTuple):
    """The parameters over which q is a density."""

    weights: Array
    """[P]: 1 for parameters that q covers, 0 for a noise level that is a point estimate."""
    size: int
    """Number of parameters that q covers."""

    def whitened_factor(self, q: LowRank) -> Array:
        """A = F / s [P, r], with rows of zeros for parameters that q does not cover."""
        return (self.weights / q.diagonal)[:, None] * q.factor

    def log_density(self, q: LowRank, noise: Noise) -> Array:
        """Log q at `q.at(noise)`, by the Woodbury identity and the determinant lemma."""
        a = self.whitened_factor(q)
        root = jnp.linalg.cholesky(jnp.eye(a.shape[1], dtype=a.dtype) + a.T @ a)
        u = self.weights * noise.xi + a @ noise.zeta
        inner = jax.scipy.linalg.solve_triangular(root, a.T @ u, lower=True)
        square = jnp.vdot(u, u) - jnp.vdot(inner, inner)
        return -0.5 * square - self.size * _HALF_LOG_2PI - self._half_log_det(q, root)

    def entropy(self, q: LowRank) -> Array:
        """-E_q[log q]."""
        a = self.whitened_factor(q)
        root = jnp.linalg.cholesky(jnp.eye(a.shape[1], dtype=a.dtype) + a.T @ a)
        return self.size * (_HALF_LOG_2PI + 0.5) + self._half_log_det(q, root)

    def _half_log_det(self, q: LowRank, root: Array) -> Array:
        return jnp.sum(self.weights * jnp.log(q.diagonal)) + jnp.sum(jnp.log(jnp.diag(root)))


class Objective(NamedTuple):
    """Estimates: the evidence lower bound, the prior's and entropy's contribution to it, and the gradient of -elbo."""

    elbo: Array
    kl: Array
    gradient: LowRank


def draw_noise(key: Array, shape: tuple[int, ...], q: LowRank, counted: Counted) -> Noise:
    """Noise for draws of this shape; 0 for a noise level that is a point estimate."""
    of_xi, of_zeta = jax.random.split(key)
    xi = counted.weights * jax.random.normal(of_xi, (*shape, *q.mean.shape), q.mean.dtype)
    return Noise(xi, jax.random.normal(of_zeta, (*shape, q.factor.shape[1]), q.mean.dtype))


def objective(
    key: Array, q: LowRank, evaluate: Evaluate, target: Target, samples: int, counted: Counted, values: PriorValues
) -> Objective:
    """Estimate the objective of `mean_field.objective` from `samples` draws of q.

    Gradients of the likelihood reach the parameters of q through theta = mean + s xi + F zeta; the expected prior (if
    it is normal) and the entropy are exact.

    Args:
        key: for the draws.
        q: the current approximation.
        evaluate: densities and tempered gradient of the full data or of a mini-batch.
        target: the posterior.
        samples: number of draws.
        counted: the parameters over which q is a density.
        values: the prior of these parameters.
    """
    posterior, temperature = target.posterior, target.posterior.temperature
    exact_prior = posterior.family.name == "normal"

    def add(total: tuple[Array, Array, LowRank], noise: Noise) -> tuple[tuple[Array, Array, LowRank], None]:
        theta, back = jax.vjp(lambda q: q.at(noise), q)
        (likelihood, prior), gradient = evaluate(theta)
        if exact_prior:
            gradient = gradient - jax.grad(posterior.log_prior)(theta, target.data.prior) / temperature
        return jax.tree.map(jnp.add, total, (likelihood, prior, back(gradient)[0])), None

    zero = jnp.zeros((), q.mean.dtype)
    zeros = (zero, zero, jax.tree.map(jnp.zeros_like, q))
    total, _ = jax.lax.scan(add, zeros, draw_noise(key, (samples,), q, counted))
    likelihood, prior, slope = jax.tree.map(lambda leaf: leaf / samples, total)

    def closed_form(q: LowRank) -> tuple[Array, Array]:
        expected = expected_log_prior(values, q) if exact_prior else prior
        kl = -expected / temperature - counted.entropy(q)
        return kl, kl

    exact, kl = jax.grad(closed_form, has_aux=True)(q)
    return Objective(likelihood / temperature - kl, kl, jax.tree.map(lambda b, a: b - a, exact, slope))


def build_low_rank(config: LowRankConfig, posterior: Posterior, data: PosteriorData) -> Method:
    """Fit q, then draw from it, with the statistics of `variational.build_variational`.

    The fit is `mean` [P], `diagonal` [P] (s), `factor` [P, r], and `sd` [P], the parameters' standard deviations.

    Raises:
        ValueError: the rank exceeds the number of parameters, a mini-batch is larger than the data, or the noise level
            cannot be a point estimate.
    """
    size = posterior.layout.size
    if config.rank > size:
        raise ValueError(f"method.rank = {config.rank}: the posterior has {size} parameters; choose at most {size}")
    steps = minibatch.steps_in(config.epochs, config.batch_size, posterior, data)
    optimiser = build_optimiser(config.optimiser, steps)
    point = noise_index(posterior) if config.noise == "point" else None
    weights = jnp.ones(size, jnp.float32) if point is None else weights_only(size, point)
    counted = Counted(weights, size if point is None else size - 1)

    def begin(key: Array, position: Array, target: Target) -> tuple[LowRank, Any]:
        mean = position if config.mean_init == "warm_start" else target.data.prior.loc
        factor = jax.random.normal(key, (size, config.rank), mean.dtype) * (config.sigma_init / math.sqrt(config.rank))
        q = LowRank(mean, jnp.full_like(mean, rho_of(config.sigma_init)), counted.weights[:, None] * factor)
        return q, optimiser.init(q)

    def prior_of(target: Target) -> PriorValues:
        return target.data.prior if point is None else without_noise(target.data.prior, point)

    def improve(key: Array, q: LowRank, memory: Any, evaluate: Evaluate, target: Target) -> Improved:
        elbo, kl, gradient = objective(key, q, evaluate, target, config.samples, counted, prior_of(target))
        gradient = gradient._replace(factor=counted.weights[:, None] * gradient.factor)
        q, memory, skipped = update(optimiser, gradient, memory, q)
        norm = jnp.sqrt(sum(jnp.vdot(leaf, leaf) for leaf in gradient))
        return Improved(q, memory, elbo, kl, norm, skipped)

    def draw(key: Array, q: LowRank) -> DrawFrom:
        noise = draw_noise(key, (), q, counted)
        return DrawFrom(q.at(noise), counted.log_density(q, noise))

    def log_prior(position: Array, prior: Array, target: Target) -> Array:
        return prior if point is None else target.posterior.log_prior(position, prior_of(target))

    def exact_kl(q: LowRank, target: Target) -> Array:
        return -expected_log_prior(prior_of(target), q) / target.posterior.temperature - counted.entropy(q)

    def fit(q: LowRank) -> dict[str, Array]:
        weights = counted.weights
        return {"mean": q.mean, "sd": weights * q.sigma, "diagonal": weights * q.diagonal, "factor": q.factor}

    family = Family(
        name="low-rank normal",
        begin=begin,
        improve=improve,
        draw=draw,
        log_prior=log_prior,
        exact_kl=exact_kl if posterior.family.name == "normal" else None,
        fit=fit,
        centre=lambda q: q.mean,
    )
    return build_variational(config, family, posterior, data)
