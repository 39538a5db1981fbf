"""Which posteriors use the compiled kernel for their gradients instead of XLA."""

import math
from typing import Literal

import numpy as np

from bnn_atlas import runtime
from bnn_atlas.config.methods.base import AugmentationConfig
from bnn_atlas.config.parts.posterior import (
    CategoricalLikelihood,
    GaussianLikelihood,
    HeteroscedasticLikelihood,
    LearnedNoiseLikelihood,
    LikelihoodConfig,
    MLPConfig,
    ModelConfig,
)
from bnn_atlas.native.build import source_digest
from bnn_atlas.native.call import ACTIVATIONS, Kernel, available
from bnn_atlas.posterior.likelihoods import outputs_needed

WIDEST = 64
"""Largest number of inputs, hidden units and outputs for the kernel; in wider layers XLA's products are faster."""
DEEPEST = 64


def kernel_for(
    model: ModelConfig,
    likelihood: LikelihoodConfig,
    shape: tuple[int, ...],
    classes: int,
    dtype: np.dtype,
    choice: Literal["auto", "xla"],
) -> Kernel | None:
    """The kernel for a posterior with these settings; None if XLA computes its gradients.

    The kernel, if it has been built, handles dense networks in single precision on a CPU, with at most `WIDEST` inputs
    and units in a layer and any activation but `elu`; see `PosteriorConfig.kernel`.
    """
    if choice == "xla" or not isinstance(model, MLPConfig) or dtype != np.float32 or not runtime.on_cpu():
        return None
    if model.activation not in ACTIVATIONS:
        return None
    widths = (math.prod(shape), *model.hidden, outputs_needed(likelihood, classes))
    if max(widths) > WIDEST or len(widths) > DEEPEST or not available():
        return None
    match likelihood:
        case CategoricalLikelihood(orbit=AugmentationConfig()):
            return None
        case GaussianLikelihood(sigma=sigma):
            root = float(1 / np.float32(sigma))
            return Kernel(widths, model.activation, model.bias, "known_noise", float(np.log(np.float32(sigma))), root)
        case LearnedNoiseLikelihood():
            return Kernel(widths, model.activation, model.bias, "learned_noise")
        case HeteroscedasticLikelihood(head=head):
            return Kernel(widths, model.activation, model.bias, f"{head}_noise")
        case _:
            return Kernel(widths, model.activation, model.bias, "categorical")


def kernel_name(kernel: Kernel | None) -> str:
    """The kernel's name in a trace's provenance and fingerprint: traces with different names have different bits."""
    return "xla" if kernel is None else f"compiled {source_digest()[:16]}"
