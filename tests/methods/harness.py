"""Methods with settings that suit the targets, all methods with short ones, and draws held against known moments."""

from typing import Any, NamedTuple

import numpy as np

from bnn_atlas.config.methods.gaussian import CompactConfig, IVONConfig, LaplaceConfig, LowRankConfig, MeanFieldConfig
from bnn_atlas.config.methods.hmc import AdjustedMCLMCConfig, BAOABConfig, HMCConfig, NUTSConfig, UnadjustedHMCConfig
from bnn_atlas.config.methods.implicit import ImplicitConfig, MLPGenerator, SmallestEntropy
from bnn_atlas.config.methods.mclmc import BlackJAXMCLMCConfig, MCLMCConfig, SMILEConfig
from bnn_atlas.config.methods.optimisation import AdamConfig, DeepEnsembleConfig, MAPConfig, MeanAdamConfig, PathConfig
from bnn_atlas.config.methods.sgmcmc import (
    AdaptiveSGHMCConfig,
    CyclicalSchedule,
    PSGLDConfig,
    RMSpropConfig,
    SGHMCCLRConfig,
    SGHMCCLRPrecConfig,
    SGHMCConfig,
    SGHMCPrecConfig,
    SGLDConfig,
)
from bnn_atlas.methods.contract import Method, build_method
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
    "baoab": Setting(BAOABConfig(burn_in=500, steps=40_000, thinning=10, step_size=0.12, friction=2.0)),
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
            **STOCHASTIC, epochs=61_000, ensemble_every=20, step_size=0.0006, schedule=CyclicalSchedule(cycle_epochs=20)
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


EPOCHS = {"epochs": 8, "burn_in_epochs": 4, "ensemble_every": 2, "batch_size": 10, "step_size": 1e-4}
THIRDS = {"warmup": 30, "phases": (1 / 3, 1 / 3, 1 / 3), "steps": 6, "thinning": 2}

SMALL = {
    "hmc": HMCConfig(burn_in=20, steps=5, step_size=0.05, trajectory_length=0.1, adapt_step_size=True, mass="diagonal"),
    "unadjusted hmc": UnadjustedHMCConfig(burn_in=2, steps=5, step_size=0.05, trajectory_length=0.1),
    "baoab": BAOABConfig(burn_in=2, steps=6, thinning=2, step_size=0.05),
    "nuts": NUTSConfig(warmup=20, steps=5, step_size=0.1, max_doublings=2),
    "adjusted mclmc": AdjustedMCLMCConfig(warmup=20, steps=5, step_size=0.1, first_steps=2, max_integration_steps=3),
    "mclmc": MCLMCConfig(**THIRDS, diagonal_preconditioning=True, energy_guard=0.3),
    "mclmc, tuned by blackjax": BlackJAXMCLMCConfig(**THIRDS),
    "sgld": SGLDConfig(**EPOCHS),
    "psgld": PSGLDConfig(**EPOCHS),
    "sghmc": SGHMCConfig(**EPOCHS),
    "sghmc, cyclical": SGHMCCLRConfig(**EPOCHS, schedule=CyclicalSchedule(cycle_epochs=2)),
    "sghmc, cyclical, preconditioned": SGHMCCLRPrecConfig(**EPOCHS, schedule=CyclicalSchedule(cycle_epochs=2)),
    "sghmc, preconditioned": SGHMCPrecConfig(**EPOCHS),
    "adaptive sghmc": AdaptiveSGHMCConfig(burn_in=8, steps=8, thinning=2, batch_size=10, step_size=1e-3),
    "adaptive sghmc, as published": AdaptiveSGHMCConfig(
        burn_in=8, steps=8, thinning=2, batch_size=10, step_size=1e-3, momentum_zeroing=0.5, rest_after_burn_in=True
    ),
    "smile": SMILEConfig(burn_in=12, steps=8, thinning=2, batch_size=10, step_size=0.01),
    "mean field": MeanFieldConfig(epochs=4, batch_size=10, samples=2, steps=5),
    "low-rank normal": LowRankConfig(rank=2, epochs=4, batch_size=10, samples=2, steps=5),
    "low-rank normal, best of two": LowRankConfig(rank=2, epochs=4, batch_size=10, samples=2, steps=5, starts=2),
    "ivon": IVONConfig(epochs=4, batch_size=10, samples=2, steps=5),
    "laplace": LaplaceConfig(map_steps=0, steps=5),
    "implicit": ImplicitConfig(
        generator=MLPGenerator(noise=2, hidden=(4,)),
        entropy=SmallestEntropy(),
        epochs=4,
        batch_size=10,
        samples=2,
        steps=5,
    ),
    "map": MAPConfig(epochs=4, batch_size=10),
    "path": PathConfig(epochs=4, batch_size=10, optimiser=MeanAdamConfig()),
    "compact": CompactConfig(),
    "deep ensemble": DeepEnsembleConfig(),
}
"""Short settings of every kind of method, through all of its phases."""


def build(config: Any, problem: Problem) -> Method:
    """Method of the settings for a problem."""
    return build_method(config, problem.posterior, problem.data)


class Deviations(NamedTuple):
    """Estimate minus expectation of all first and second moments of whitened draws, and the Monte Carlo errors."""

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
    assert excess.max() < 0, f"whitened covariances minus I {found.covariance} +- {found.covariance_error}"
