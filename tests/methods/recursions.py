"""Stochastic-gradient dynamics on linear regression: random linear recursions, solved exactly."""

from collections.abc import Iterable
from itertools import combinations, permutations
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_discrete_lyapunov

from bnn_atlas.config.parts.posterior import GaussianLikelihood, MLPConfig
from bnn_atlas.config.parts.priors import NormalPrior
from bnn_atlas.posterior.density import Posterior, PosteriorData, build_posterior, posterior_data

SIGMA, PRIOR = 0.5, NormalPrior(loc=0.2, scale=0.8)


class Line(NamedTuple):
    """Bias-free linear regression with known noise: the posterior is N(mean, temperature / precision)."""

    x: np.ndarray
    y: np.ndarray
    posterior: Posterior
    data: PosteriorData

    @property
    def precision(self) -> np.ndarray:
        """Untempered [P, P]."""
        return self.x.T @ self.x / SIGMA**2 + np.eye(self.x.shape[1]) / PRIOR.scale**2

    @property
    def mean(self) -> np.ndarray:
        return np.linalg.solve(self.precision, self.x.T @ self.y / SIGMA**2 + PRIOR.loc / PRIOR.scale**2)

    def batch(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(H, c): the estimated gradient of the untempered log posterior is c - H theta."""
        factor = len(self.y) / len(rows) / SIGMA**2
        x, y = self.x[rows], self.y[rows]
        prior = np.eye(self.x.shape[1]) / PRIOR.scale**2
        return factor * x.T @ x + prior, factor * x.T @ y + PRIOR.loc / PRIOR.scale**2


def line(rows: int, features: int, temperature: float = 1.0, shards: int = 1, seed: int = 0) -> Line:
    """Random rows; their number need not be a multiple of `shards`."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, features))
    y = x @ rng.normal(size=features) + rng.normal(size=rows)
    posterior, prior = build_posterior(
        MLPConfig(hidden=(), bias=False),
        GaussianLikelihood(sigma=SIGMA),
        PRIOR,
        temperature=temperature,
        shape=(features,),
        shards=shards,
    )
    return Line(x, y, posterior, posterior_data(x, y, prior, shards))


class Settings(NamedTuple):
    """Of the recursion m <- beta m + sqrt(h) g + sqrt(variance) z, theta <- theta + sqrt(h) m / mass."""

    step_size: float
    momentum_decay: float
    temperature: float = 1.0
    mass: np.ndarray | float = 1.0
    variance: np.ndarray | None = None
    """Of the noise of the momentum; 2 (1 - beta) mass by default."""

    def step(self, curvature: np.ndarray, offset: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(F, Q): (theta, m, 1) <- F (theta, m, 1) + N(0, Q) for the gradient (offset - curvature theta) / T."""
        size, root = len(offset), np.sqrt(self.step_size)
        identity, zero = np.eye(size), np.zeros((size, size))
        mass = np.broadcast_to(self.mass, size)
        variance = 2 * (1 - self.momentum_decay) * mass if self.variance is None else self.variance
        kick = np.hstack(
            [
                -root * curvature / self.temperature,
                self.momentum_decay * identity,
                root * offset[:, None] / self.temperature,
            ]
        )
        drift = np.hstack([identity, zero, np.zeros((size, 1))]) + root * kick / mass[:, None]
        last = np.eye(2 * size + 1)[-1:]
        noise = np.vstack([root * identity / mass[:, None], identity, np.zeros((1, size))]) * np.sqrt(variance)
        return np.vstack([drift, kick, last]), noise @ noise.T


def full_batch_covariance(line: Line, settings: Settings) -> np.ndarray:
    """Stationary covariance of theta where every step takes all rows, from the discrete Lyapunov equation."""
    size = len(line.mean)
    matrix, noise = settings.step(line.precision, np.zeros(size))
    return solve_discrete_lyapunov(matrix[:-1, :-1], noise[:-1, :-1])[:size, :size]


def mini_batch_moments(
    line: Line, settings: Settings, epochs: Iterable[Iterable[np.ndarray]]
) -> tuple[np.ndarray, np.ndarray]:
    """Stationary mean and covariance of theta at the ends of epochs.

    `epochs` are all epochs that can be drawn, equally likely, each the row indices of its batches in turn. With F and Q
    of a whole epoch, the second moments of (theta, m, 1) solve S = E[F S F'] + E[Q].
    """
    size = 2 * len(line.mean) + 1
    average, constant, count = np.zeros((size**2, size**2)), np.zeros((size, size)), 0
    for batches in epochs:
        matrix, noise = np.eye(size), np.zeros((size, size))
        for rows in batches:
            step, added = settings.step(*line.batch(rows))
            matrix, noise = step @ matrix, step @ noise @ step.T + added
        average += np.kron(matrix, matrix)
        constant += noise
        count += 1
    # The last element, 1 x 1, is given: it moves to the right-hand side.
    system, right = np.eye(size**2) - average / count, constant.ravel() / count
    known = system[:-1, -1]
    moments = np.append(np.linalg.solve(system[:-1, :-1], right[:-1] - known), 1.0).reshape(size, size)
    mean = moments[:-1, -1]
    covariance = moments[:-1, :-1] - np.outer(mean, mean)
    return mean[: len(line.mean)], covariance[: len(line.mean), : len(line.mean)]


def all_epochs(rows: int, batch: int) -> list[list[np.ndarray]]:
    """All ways to go through the rows in batches, in turn."""
    parts = [np.array(part) for part in combinations(range(rows), batch)]
    chosen = permutations(parts, rows // batch)
    return [list(epoch) for epoch in chosen if len(np.unique(np.concatenate(epoch))) == rows // batch * batch]
