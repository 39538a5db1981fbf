"""Short settings of every kind of step that there is, through all phases."""

from bnn_atlas.config.methods import AdjustedMCLMCConfig, BlackJAXMCLMCConfig, HMCConfig, MCLMCConfig, NUTSConfig
from bnn_atlas.config.sgmcmc import AdaptiveSGHMCConfig, CyclicalSchedule, SGHMCCLRPrecConfig, SGLDConfig
from bnn_atlas.config.variational import LaplaceConfig, MAPConfig, MeanFieldConfig

EPOCHS = {"epochs": 12, "burn_in_epochs": 4, "ensemble_every": 2, "batch_size": 10, "step_size": 1e-4}

SMALL = {
    "hmc": HMCConfig(
        burn_in=25, steps=20, step_size=0.05, trajectory_length=0.2, adapt_step_size=True, mass="diagonal"
    ),
    "nuts": NUTSConfig(warmup=25, steps=20, step_size=0.05, max_doublings=4),
    "adjusted mclmc": AdjustedMCLMCConfig(warmup=25, steps=20, step_size=0.05),
    "mclmc": MCLMCConfig(warmup=100, steps=20, thinning=2, diagonal_preconditioning=True, energy_guard=0.3),
    "mclmc, tuned by blackjax": BlackJAXMCLMCConfig(warmup=100, steps=20, thinning=2),
    "sgld": SGLDConfig(**EPOCHS),
    "sghmc, cyclical, preconditioned": SGHMCCLRPrecConfig(**EPOCHS, schedule=CyclicalSchedule(cycle_epochs=2)),
    "adaptive sghmc": AdaptiveSGHMCConfig(burn_in=20, steps=20, thinning=2, batch_size=10, step_size=1e-3),
    "mean field": MeanFieldConfig(epochs=5, batch_size=10, samples=2, steps=20),
    "laplace": LaplaceConfig(map_steps=20, steps=20),
    "map": MAPConfig(epochs=5, batch_size=10),
}
