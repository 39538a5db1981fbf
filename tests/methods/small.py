"""Short settings of every kind of step that there is, through all phases."""

from bnn_atlas.config.methods.generators import MLPGenerator
from bnn_atlas.config.methods.hmc import AdjustedMCLMCConfig, HMCConfig, NUTSConfig, UnadjustedHMCConfig
from bnn_atlas.config.methods.implicit import ImplicitConfig, SmallestEntropy
from bnn_atlas.config.methods.ivon import IVONConfig
from bnn_atlas.config.methods.laplace import LaplaceConfig
from bnn_atlas.config.methods.low_rank import LowRankConfig
from bnn_atlas.config.methods.mclmc import BlackJAXMCLMCConfig, MCLMCConfig
from bnn_atlas.config.methods.mean_field import MeanFieldConfig
from bnn_atlas.config.methods.optimisation import MAPConfig
from bnn_atlas.config.methods.sgmcmc import (
    AdaptiveSGHMCConfig,
    CyclicalSchedule,
    SGHMCCLRPrecConfig,
    SGHMCPrecConfig,
    SGLDConfig,
)

EPOCHS = {"epochs": 8, "burn_in_epochs": 4, "ensemble_every": 2, "batch_size": 10, "step_size": 1e-4}
THIRDS = {"warmup": 30, "phases": (1 / 3, 1 / 3, 1 / 3), "steps": 6, "thinning": 2}

SMALL = {
    "hmc": HMCConfig(burn_in=20, steps=5, step_size=0.05, trajectory_length=0.1, adapt_step_size=True, mass="diagonal"),
    "unadjusted hmc": UnadjustedHMCConfig(burn_in=2, steps=5, step_size=0.05, trajectory_length=0.1),
    "nuts": NUTSConfig(warmup=20, steps=5, step_size=0.1, max_doublings=2),
    "adjusted mclmc": AdjustedMCLMCConfig(warmup=20, steps=5, step_size=0.1, first_steps=2, max_integration_steps=3),
    "mclmc": MCLMCConfig(**THIRDS, diagonal_preconditioning=True, energy_guard=0.3),
    "mclmc, tuned by blackjax": BlackJAXMCLMCConfig(**THIRDS),
    "sgld": SGLDConfig(**EPOCHS),
    "sghmc, cyclical, preconditioned": SGHMCCLRPrecConfig(**EPOCHS, schedule=CyclicalSchedule(cycle_epochs=2)),
    "sghmc, preconditioned": SGHMCPrecConfig(**EPOCHS),
    "adaptive sghmc": AdaptiveSGHMCConfig(burn_in=8, steps=8, thinning=2, batch_size=10, step_size=1e-3),
    "adaptive sghmc, as published": AdaptiveSGHMCConfig(
        burn_in=8, steps=8, thinning=2, batch_size=10, step_size=1e-3, momentum_zeroing=0.5, rest_after_burn_in=True
    ),
    "mean field": MeanFieldConfig(epochs=4, batch_size=10, samples=2, steps=5),
    "low-rank normal": LowRankConfig(rank=2, epochs=4, batch_size=10, samples=2, steps=5),
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
}
