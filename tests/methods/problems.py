"""Small posteriors for the tests of samplers."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bnn_atlas.config.parts.posterior import GaussianLikelihood, HeteroscedasticLikelihood, MLPConfig
from bnn_atlas.config.parts.priors import NormalPrior, StandardNormalPrior
from bnn_atlas.posterior.density import (
    Evaluation,
    Gain,
    LogDensity,
    Posterior,
    PosteriorData,
    build_posterior,
    posterior_data,
    tempered_gain,
)


class Problem(NamedTuple):
    posterior: Posterior
    data: PosteriorData
    starts: np.ndarray


def gain_of(temperature: float = 1.0) -> Gain:
    """Change of the tempered log density, from the densities alone."""
    return lambda new, old: tempered_gain(new.density, old.density, temperature)


class Bent(NamedTuple):
    """A target that is not Gaussian, tempered with T = 2 and in two large parts."""

    scales: jax.Array

    def log_density(self, x: jax.Array) -> jax.Array:
        return -0.5 * jnp.sum((x / self.scales) ** 2) - 0.1 * jnp.sum(x**4)

    def evaluate(self, x: jax.Array) -> Evaluation:
        value, gradient = jax.value_and_grad(self.log_density)(x)
        return Evaluation(LogDensity(1e3 + 0.75 * value, 0.25 * value - 1e3), gradient / 2)

    def walled(self, value: float, x: jax.Array) -> Evaluation:
        """The same with another log-prior outside of a cube."""
        good = self.evaluate(x)
        outside = jnp.any(jnp.abs(x) > 1)
        return good._replace(density=good.density._replace(log_prior=jnp.where(outside, value, good.density.log_prior)))


def regression(rows: int = 60, features: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, features))
    return x, np.sin(x[:, 0]) + 0.5 * x[:, 1] + 0.3 * rng.normal(size=rows)


def network(chains: int = 4, hidden: tuple[int, ...] = (6,), features: int = 3) -> Problem:
    """A heteroscedastic network with random starts."""
    posterior, prior = build_posterior(
        MLPConfig(hidden=hidden, activation="tanh"),
        HeteroscedasticLikelihood(),
        StandardNormalPrior(),
        temperature=1.0,
        shape=(features,),
    )
    starts = 0.3 * np.random.default_rng(1).normal(size=(chains, posterior.layout.size))
    return Problem(posterior, posterior_data(*regression(features=features), prior), starts.astype(np.float32))


class Gaussian(NamedTuple):
    """Linear regression with known noise: the posterior is N(mean, covariance) exactly."""

    problem: Problem
    mean: np.ndarray
    covariance: np.ndarray


def linear(chains: int = 4, temperature: float = 1.0, features: int = 4) -> Gaussian:
    """Bias-free linear model with sigma 0.5 and prior N(0.2, 0.8^2), tempered."""
    sigma, loc, scale = 0.5, 0.2, 0.8
    posterior, prior = build_posterior(
        MLPConfig(hidden=(), bias=False),
        GaussianLikelihood(sigma=sigma),
        NormalPrior(loc=loc, scale=scale),
        temperature=temperature,
        shape=(features,),
    )
    x, y = regression(rows=25, features=features)
    precision = x.T @ x / sigma**2 + np.eye(features) / scale**2
    mean = np.linalg.solve(precision, x.T @ y / sigma**2 + loc / scale**2)
    covariance = temperature * np.linalg.inv(precision)
    starts = np.random.default_rng(2).multivariate_normal(mean, covariance, size=chains)
    return Gaussian(Problem(posterior, posterior_data(x, y, prior), starts.astype(np.float32)), mean, covariance)
