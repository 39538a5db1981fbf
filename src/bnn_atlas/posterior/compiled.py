"""The compiled gradient as a function of JAX arrays, and which posteriors use it instead of XLA."""

import ctypes
import logging
import math
from functools import cache
from importlib.metadata import PackageNotFoundError
from typing import Literal, NamedTuple

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp

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
from bnn_atlas.native.build import LOST, library, source_digest
from bnn_atlas.posterior.likelihoods import outputs_needed

log = logging.getLogger(__name__)

ACTIVATIONS = ("identity", "relu", "tanh", "sigmoid", "silu", "gelu")
HEADS = ("known_noise", "learned_noise", "exp_noise", "softplus_noise", "categorical")
"""Kinds of likelihood, in the order of gradient.h."""
NAME = f"bnn_atlas_{source_digest()[:16]}"
"""Name of the call in compiled programs; it depends on the sources, since compiled programs are cached."""


class Kernel(NamedTuple):
    """A dense network and its likelihood, in the form that the compiled code takes; see `native/gradient.h`."""

    widths: tuple[int, ...]
    activation: str
    bias: bool
    head: str
    log_sigma: float = 0.0
    precision_root: float = 1.0

    def gradient(
        self, theta: Array, x: Array, y: Array, weights: Array | None, rows: Array | None = None, *, by_feature: bool
    ) -> tuple[Array, Array]:
        """Log-likelihood, and the gradient [P] of the log-likelihood.

        Args:
            theta: parameters [P].
            x: inputs, float32: [features, stride] with `by_feature`, else [n, features].
            y: targets [n], float32, or int32 for classes.
            weights: weights of the rows [n], or None.
            rows: indices [b] of the rows to use, in this order; None for all rows.
            by_feature: whether x is arranged by feature.
        """
        return self._call(theta.size, theta, x, y, weights, rows, by_feature)

    def value(
        self, theta: Array, x: Array, y: Array, weights: Array | None, rows: Array | None = None, *, by_feature: bool
    ) -> Array:
        """The log-likelihood without gradient, bit for bit equal to the value that `gradient` returns."""
        return self._call(0, theta, x, y, weights, rows, by_feature)[0]

    def _call(
        self, size: int, theta: Array, x: Array, y: Array, weights: Array | None, rows: Array | None, by_feature: bool
    ) -> tuple[Array, Array]:
        shapes = (jax.ShapeDtypeStruct((), jnp.float32), jax.ShapeDtypeStruct((size,), jnp.float32))
        nothing = jnp.zeros(0, jnp.float32)
        value, gradient = jax.ffi.ffi_call(NAME, shapes, vmap_method="sequential")(
            theta,
            x,
            y,
            nothing if weights is None else weights,
            nothing.astype(jnp.int32) if rows is None else rows.astype(jnp.int32),
            widths=np.array(self.widths, np.int32),
            activation=np.int32(ACTIVATIONS.index(self.activation)),
            bias=self.bias,
            head=np.int32(HEADS.index(self.head)),
            log_sigma=np.float32(self.log_sigma),
            precision_root=np.float32(self.precision_root),
            by_feature=by_feature,
        )
        return value, gradient


@cache
def available() -> bool:
    """Register the compiled gradient with JAX and return whether this succeeded; if not, the log says why.

    In a job, this line goes only to the log and not to the terminal (`logs.logged`).
    """
    try:
        file = library()
        if not file.is_file():
            raise OSError("it has not been built: run `make setup` or `python -m bnn_atlas.native.build`")
        loaded = ctypes.CDLL(str(file))
        if not loaded.bnn_atlas_best():
            raise OSError("this processor has neither AVX-512 nor AVX2 with fused multiply-adds")
    except (OSError, PackageNotFoundError) as error:
        log.warning("no compiled gradient: %s; %s", error, LOST)
        return False
    jax.ffi.register_ffi_target(NAME, jax.ffi.pycapsule(loaded.bnn_atlas_call), platform="cpu")
    return True


WIDEST = 64
"""Largest number of inputs, hidden units and outputs for the kernel; for wider layers, XLA's products are faster."""
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

    The kernel, if built, handles dense networks in single precision on a CPU, with at most `WIDEST` inputs and units
    per layer and any activation except `elu`; see `PosteriorConfig.kernel`.
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
    """Name of the kernel in a trace's provenance and fingerprint; kernels with different names round differently."""
    return "xla" if kernel is None else f"compiled {source_digest()[:16]}"
