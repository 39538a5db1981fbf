"""Posteriors with known moments, at any temperature, for every method."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bnn_atlas.config.parts.posterior import GaussianLikelihood, LearnedNoiseLikelihood, MLPConfig
from bnn_atlas.config.parts.priors import NormalPrior, StandardNormalPrior
from bnn_atlas.models.layout import Layout, Parameter
from bnn_atlas.models.networks import Network
from bnn_atlas.posterior.density import Posterior, build_posterior, posterior_data
from bnn_atlas.posterior.likelihoods import LOG_SIGMA
from bnn_atlas.posterior.prior_densities import NORMAL, build_prior

from .problems import Problem

ROWS, SIGMA = 32, 1.0
PRIOR = NormalPrior(loc=0.2, scale=2.0)


class Known(NamedTuple):
    """A problem, and the mean [P] and covariance [P, P] of its posterior."""

    problem: Problem
    mean: np.ndarray
    covariance: np.ndarray


def line(chains: int, temperature: float) -> Known:
    """Linear regression without bias whose posterior is an ill-conditioned Gaussian, correlated in all coordinates."""
    posterior, prior = build_posterior(
        MLPConfig(hidden=(), bias=False), GaussianLikelihood(sigma=SIGMA), PRIOR, temperature=temperature, shape=(4,)
    )
    x, y = line_rows()
    precision = x.T @ x / SIGMA**2 + np.eye(4) / PRIOR.scale**2
    mean = np.linalg.solve(precision, x.T @ y / SIGMA**2 + PRIOR.loc / PRIOR.scale**2)
    covariance = temperature * np.linalg.inv(precision)
    starts = np.random.default_rng(2).multivariate_normal(mean, covariance, size=chains)
    return Known(Problem(posterior, posterior_data(x, y, prior), starts.astype(np.float32)), mean, covariance)


def line_rows() -> tuple[np.ndarray, np.ndarray]:
    """Features [rows, 4] with singular values 1 to 4 in random directions, and targets [rows]."""
    rng = np.random.default_rng(0)
    left, _ = np.linalg.qr(rng.normal(size=(ROWS, 4)))
    right, _ = np.linalg.qr(rng.normal(size=(4, 4)))
    x = left * np.array([1.0, 1.6, 2.5, 4.0]) @ right.T
    return x, x @ np.array([0.5, -1.0, 0.3, 0.8]) + SIGMA * rng.normal(size=ROWS)


def banana(chains: int, temperature: float) -> Known:
    """y_i ~ N(b + a^2 / 2, sigma^2) for (a, b, log sigma).

    The rows say which parabola the parameters lie on, only the prior says where on it. With sigma unknown, a
    temperature that misses one term of the log density misses the moments. They come from a sum over a grid, as good
    as exact for a smooth density that vanishes at the borders.
    """
    layout = Layout((*(Parameter(name, (), "weight", 0, 1, 1) for name in ("a", "b")), LOG_SIGMA))

    def outputs(theta: jax.Array, x: jax.Array) -> jax.Array:
        return (0.5 * theta[0] ** 2 + theta[1]) * x

    inner = Layout(layout.parameters[:2])
    network = Network(inner, jnp.transpose, outputs, lambda key: jax.random.normal(key, (2,)))
    posterior = Posterior(layout, network, LearnedNoiseLikelihood(), NORMAL, temperature)
    y = 0.3 + np.random.default_rng(1).normal(size=ROWS)
    grid = np.meshgrid(np.linspace(-8, 8, 161), np.linspace(-10, 6, 201), np.linspace(-1.5, 1.5, 61), indexing="ij")
    height = 0.5 * grid[0] ** 2 + grid[1]
    misfit = (y**2).sum() - 2 * y.sum() * height + ROWS * height**2
    log_likelihood = -0.5 * misfit * np.exp(-2 * grid[2]) - ROWS * grid[2]
    log_prior = sum(-0.5 * axis**2 for axis in grid)
    mean, covariance, starts = grid_moments((log_likelihood + log_prior) / temperature, grid, chains)
    data = posterior_data(np.ones((ROWS, 1)), y, build_prior(StandardNormalPrior(), layout))
    return Known(Problem(posterior, data, starts.astype(np.float32)), mean, covariance)


def grid_moments(
    log_density: np.ndarray, grid: tuple[np.ndarray, ...], draws: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, covariance and independent draws of an unnormalised density on a grid."""
    likely = log_density > log_density.max() - 30
    weights = np.exp(log_density[likely] - log_density.max())
    weights /= weights.sum()
    points = np.stack([axis[likely] for axis in grid], axis=-1)
    mean = weights @ points
    covariance = (weights[:, None] * (points - mean)).T @ (points - mean)
    return mean, covariance, np.random.default_rng(2).choice(points, size=draws, p=weights)
