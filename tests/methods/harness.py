"""Every sampling method with settings that suit the targets, and the comparison of draws with known moments."""

from typing import Any, NamedTuple

import numpy as np

from bnn_atlas.config.methods.hmc import AdjustedMCLMCConfig, HMCConfig, NUTSConfig
from bnn_atlas.config.methods.laplace import LaplaceConfig
from bnn_atlas.config.methods.mclmc import BlackJAXMCLMCConfig, MCLMCConfig
from bnn_atlas.config.methods.mean_field import MeanFieldConfig
from bnn_atlas.config.methods.optimisation import AdamConfig
from bnn_atlas.config.methods.sgmcmc import (
    AdaptiveSGHMCConfig,
    CyclicalSchedule,
    PSGLDConfig,
    RMSpropConfig,
    SGHMCCLRConfig,
    SGHMCCLRPrecConfig,
    SGHMCConfig,
    SGLDConfig,
)
from bnn_atlas.methods.base import Method
from bnn_atlas.methods.build import build_method
from bnn_atlas.metrics.formulas.rhat_ess import ess_mean

from .problems import Problem

CHAINS = 8


class Setting(NamedTuple):
    """Settings of a method, and how far off its draws may be by construction, in standard deviations of the target."""

    config: Any
    bias: float = 0.0


STOCHASTIC = {"burn_in_epochs": 1000, "batch_size": 24}
"""Of 32 rows, so an epoch is one mini-batch and leaves a quarter of the rows out."""

METHODS = {
    "hmc": Setting(HMCConfig(burn_in=20, steps=2500, step_size=0.12, trajectory_length=1.2)),
    "hmc, adapted": Setting(
        HMCConfig(burn_in=300, steps=2500, step_size=0.05, trajectory_length=1.0, adapt_step_size=True, mass="diagonal")
    ),
    "nuts": Setting(NUTSConfig(warmup=400, steps=1500, step_size=0.1, target_acceptance=0.95)),
    "adjusted mclmc": Setting(AdjustedMCLMCConfig(warmup=1000, steps=4000, step_size=0.1)),
    "mclmc": Setting(
        MCLMCConfig(
            warmup=3000,
            steps=12000,
            thinning=4,
            step_size_init=0.1,
            energy_variance_start=0.01,
            energy_variance_end=0.001,
            energy_guard=0.3,
        ),
        bias=0.03,
    ),
    "mclmc, tuned by blackjax": Setting(BlackJAXMCLMCConfig(warmup=3000, steps=12000, thinning=4), bias=0.03),
    "sgld": Setting(SGLDConfig(**STOCHASTIC, epochs=121_000, ensemble_every=20, step_size=0.003), bias=0.05),
    "psgld": Setting(
        PSGLDConfig(
            **STOCHASTIC,
            epochs=121_000,
            ensemble_every=20,
            step_size=0.0005,
            preconditioner=RMSpropConfig(epsilon=1e-5, per_row=True, adapt_after_burn_in=False),
        ),
        bias=0.05,
    ),
    "sghmc": Setting(SGHMCConfig(**STOCHASTIC, epochs=61_000, ensemble_every=20, step_size=0.0005), bias=0.04),
    "sghmc, cyclical": Setting(
        SGHMCCLRConfig(
            **STOCHASTIC,
            epochs=61_000,
            ensemble_every=20,
            step_size=0.0006,
            schedule=CyclicalSchedule(cycle_epochs=20),
        ),
        bias=0.05,
    ),
    "sghmc, cyclical, preconditioned": Setting(
        SGHMCCLRPrecConfig(
            **STOCHASTIC,
            epochs=61_000,
            ensemble_every=20,
            step_size=0.003,
            schedule=CyclicalSchedule(cycle_epochs=20),
            preconditioner=RMSpropConfig(adapt_after_burn_in=False),
        ),
        bias=0.05,
    ),
    "adaptive sghmc": Setting(
        AdaptiveSGHMCConfig(burn_in=3000, steps=80_000, thinning=20, batch_size=24, step_size=0.04, friction=0.1),
        bias=0.05,
    ),
}

FITS = {
    "laplace": LaplaceConfig(map_steps=50, steps=2000),
    "mean field": MeanFieldConfig(
        epochs=2000, batch_size=24, samples=4, optimiser=AdamConfig(learning_rate=0.03), sigma_init=0.3, steps=2000
    ),
}
"""Fitted normals: the one has the covariance of a Gaussian posterior, the other the diagonal of its precision."""


def build(config: Any, problem: Problem) -> Method:
    """Method of the settings for a problem."""
    return build_method(config, problem.posterior, problem.data)


class Deviations(NamedTuple):
    """Estimate less expectation of all first and second moments of whitened draws, and the Monte Carlo errors."""

    mean: np.ndarray
    mean_error: np.ndarray
    covariance: np.ndarray
    covariance_error: np.ndarray


def deviations(draws: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> Deviations:
    """Moments of draws [chain, draw, scalar] in the coordinates where the target has mean 0 and covariance I."""
    white = np.linalg.solve(np.linalg.cholesky(covariance), (draws - mean).astype(float)[..., None])[..., 0]
    first, second = np.tril_indices(len(mean))
    products = white[..., first] * white[..., second] - (first == second)
    return Deviations(
        white.mean((0, 1)), _monte_carlo_error(white), products.mean((0, 1)), _monte_carlo_error(products)
    )


def _monte_carlo_error(values: np.ndarray) -> np.ndarray:
    return values.std((0, 1)) / np.sqrt(ess_mean(values))


def assert_moments(draws: np.ndarray, mean: np.ndarray, covariance: np.ndarray, bias: float = 0.0) -> None:
    """All means and covariances are right within 4 Monte Carlo errors plus the method's own bias.

    A variance is off by up to 2 bias where a standard deviation is off by bias. Errors too large to notice a tenth of
    a standard deviation fail as well: then the test would say nothing.
    """
    found = deviations(draws, mean, covariance)
    assert found.mean_error.max() < 0.06, f"too few draws: errors of the means are {found.mean_error}"
    assert found.covariance_error.max() < 0.1, f"too few draws: errors of the covariances are {found.covariance_error}"
    excess = np.abs(found.mean) - bias - 4 * found.mean_error
    assert excess.max() < 0, f"whitened means {found.mean} +- {found.mean_error}"
    excess = np.abs(found.covariance) - 2 * bias - 4 * found.covariance_error
    assert excess.max() < 0, f"whitened covariances less I {found.covariance} +- {found.covariance_error}"
