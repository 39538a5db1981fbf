"""All methods: kind -> settings class."""

from typing import Annotated, get_args

from pydantic import Field

from bnn_atlas.config.language.base import ByKind
from bnn_atlas.config.methods.base import MethodSettings
from bnn_atlas.config.methods.gaussian import CompactConfig, IVONConfig, LaplaceConfig, LowRankConfig, MeanFieldConfig
from bnn_atlas.config.methods.hmc import AdjustedMCLMCConfig, BAOABConfig, HMCConfig, NUTSConfig, UnadjustedHMCConfig
from bnn_atlas.config.methods.implicit import ImplicitConfig
from bnn_atlas.config.methods.mclmc import BlackJAXMCLMCConfig, MCLMCConfig, SMILEConfig
from bnn_atlas.config.methods.optimisation import DeepEnsembleConfig, MAPConfig, PathConfig
from bnn_atlas.config.methods.sgmcmc import (
    AdaptiveSGHMCConfig,
    PSGLDConfig,
    SGHMCCLRConfig,
    SGHMCCLRPrecConfig,
    SGHMCConfig,
    SGHMCPrecConfig,
    SGLDConfig,
)

MethodConfig = Annotated[
    MCLMCConfig
    | BlackJAXMCLMCConfig
    | AdjustedMCLMCConfig
    | SMILEConfig
    | HMCConfig
    | UnadjustedHMCConfig
    | BAOABConfig
    | NUTSConfig
    | SGLDConfig
    | PSGLDConfig
    | SGHMCConfig
    | SGHMCCLRConfig
    | SGHMCCLRPrecConfig
    | SGHMCPrecConfig
    | AdaptiveSGHMCConfig
    | MeanFieldConfig
    | LowRankConfig
    | IVONConfig
    | LaplaceConfig
    | ImplicitConfig
    | MAPConfig
    | PathConfig
    | CompactConfig
    | DeepEnsembleConfig,
    Field(discriminator="kind"),
    ByKind,
]

RefereeMethod = Annotated[AdjustedMCLMCConfig | HMCConfig | NUTSConfig, Field(discriminator="kind"), ByKind]
"""Methods whose chains have the posterior as their stationary distribution, whatever the step size."""

METHODS: dict[str, type[MethodSettings]] = {
    settings.model_fields["kind"].default: settings for settings in get_args(get_args(MethodConfig)[0])
}
"""Kind -> settings class, which is the method's record."""


def method(kind: str) -> type[MethodSettings]:
    """The record of a method by its kind, as tables name it.

    Raises:
        ValueError: there is no such method.
    """
    if kind not in METHODS:
        raise ValueError(f"there is no method '{kind}'; methods are {', '.join(METHODS)}")
    return METHODS[kind]
