"""Settings of the Laplace approximation."""

from typing import Literal

from bnn_atlas.config.fields import Count, CountOrNone, NonNegative
from bnn_atlas.config.methods.base import ChainSettings, KindOfDraws


class LaplaceConfig(ChainSettings):
    """Laplace approximation: a normal at a maximum of the log posterior, with the generalised Gauss-Newton curvature.

    Where the prior's log density is flat or curved upwards at the maximum (Laplace and Student-t priors, walled
    uniforms, mixtures), the precision of a normal with its scale stands in for its curvature. It suits likelihoods
    whose noise the network does not set (`gaussian`, `learned_noise`, `categorical`): the maximum of a heteroscedastic
    posterior is where the noise vanishes at rows that are fitted exactly, with little of the mass around it.
    """

    title = "Laplace"
    kind_of_draws = KindOfDraws.INDEPENDENT
    family = "approximation"
    variant = 1
    builder = "bnn_atlas.methods.laplace.approximation:build_laplace"
    centre = "location"

    kind: Literal["laplace"] = "laplace"
    structure: Literal["full", "last_layer", "diagonal", "kronecker"] = "full"
    """`full`: all P x P entries; `last_layer`: those of the last layer and of the likelihood's own parameters, all else
    fixed at the maximum; `diagonal`; `kronecker`: one Kronecker product per dense layer (Gaussian priors only)."""
    map_steps: CountOrNone = 2000
    """Most full-data L-BFGS steps from the warm start to the maximum."""
    map_tolerance: NonNegative = 1e-3
    """Length of the gradient of the log posterior at which a chain is at its maximum."""
    steps: Count = 1000
    """Draws from the approximation."""
