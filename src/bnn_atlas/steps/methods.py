"""The sampler of a method's settings."""

from bnn_atlas.config.methods import (
    AdjustedMCLMCConfig,
    BlackJAXMCLMCConfig,
    HMCConfig,
    MCLMCConfig,
    MethodConfig,
    NUTSConfig,
)
from bnn_atlas.config.sgmcmc import AdaptiveSGHMCConfig, SGMCMCConfig
from bnn_atlas.config.variational import DeepEnsembleConfig, LaplaceConfig, MAPConfig, MeanFieldConfig
from bnn_atlas.posterior.density import Posterior, PosteriorData
from bnn_atlas.samplers.base import Sampler


def build_sampler(config: MethodConfig, posterior: Posterior, data: PosteriorData) -> Sampler:
    """Sampler of a method's settings for a posterior; only its own module is imported, which saves start-up time."""
    dimension, temperature = posterior.layout.size, posterior.temperature
    match config:
        case MCLMCConfig():
            from bnn_atlas.samplers.mile import build_mile

            return build_mile(config, dimension, temperature)
        case BlackJAXMCLMCConfig():
            from bnn_atlas.samplers.mclmc_blackjax import build_mclmc_blackjax

            return build_mclmc_blackjax(config, dimension, temperature)
        case AdjustedMCLMCConfig():
            from bnn_atlas.samplers.adjusted_mclmc import build_adjusted_mclmc

            return build_adjusted_mclmc(config, dimension, temperature)
        case HMCConfig():
            from bnn_atlas.samplers.hmc import build_hmc

            return build_hmc(config, temperature)
        case NUTSConfig():
            from bnn_atlas.samplers.nuts import build_nuts

            return build_nuts(config, temperature)
        case SGMCMCConfig():
            from bnn_atlas.samplers.sgmcmc import build_sgmcmc

            return build_sgmcmc(config, len(data.y))
        case AdaptiveSGHMCConfig():
            from bnn_atlas.samplers.adaptive_sghmc import build_adaptive_sghmc

            return build_adaptive_sghmc(config)
        case MeanFieldConfig():
            from bnn_atlas.variational.mean_field import build_mean_field

            return build_mean_field(config, posterior, data)
        case LaplaceConfig():
            from bnn_atlas.variational.laplace import build_laplace

            return build_laplace(config, posterior, data)
        case MAPConfig():
            from bnn_atlas.training.optimise import build_map

            return build_map(config, posterior, data)
        case DeepEnsembleConfig():
            from bnn_atlas.training.optimise import build_deep_ensemble

            return build_deep_ensemble(posterior, data)
