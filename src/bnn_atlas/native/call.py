"""The compiled gradient as a function of JAX arrays."""

import ctypes
import logging
from functools import cache
from importlib.metadata import PackageNotFoundError
from typing import NamedTuple

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp

from bnn_atlas.native.build import LOST, library, source_digest

log = logging.getLogger(__name__)

ACTIVATIONS = ("identity", "relu", "tanh", "sigmoid", "silu", "gelu")
HEADS = ("known_noise", "learned_noise", "exp_noise", "softplus_noise", "categorical")
"""In the order of gradient.h."""
NAME = f"bnn_atlas_{source_digest()[:16]}"
"""Name of the call in compiled programs; it depends on the sources, since these programs are cached."""


class Kernel(NamedTuple):
    """A dense network and its likelihood, as the compiled code takes them; see `native/gradient.h`."""

    widths: tuple[int, ...]
    activation: str
    bias: bool
    head: str
    log_sigma: float = 0.0
    precision_root: float = 1.0

    def gradient(
        self, theta: Array, x: Array, y: Array, weights: Array | None, rows: Array | None = None, *, by_feature: bool
    ) -> tuple[Array, Array]:
        """Log-likelihood and its gradient [P].

        Args:
            theta: parameters [P].
            x: inputs, float32: [features, stride] with `by_feature`, else [n, features].
            y: targets [n], float32, or int32 for classes.
            weights: weights of the rows [n], or None.
            rows: indices [b] of the rows that count, in this order; None for all.
            by_feature: the arrangement of x.
        """
        return self._call(theta.size, theta, x, y, weights, rows, by_feature)

    def value(
        self, theta: Array, x: Array, y: Array, weights: Array | None, rows: Array | None = None, *, by_feature: bool
    ) -> Array:
        """The log-likelihood alone: bit for bit the value that `gradient` returns."""
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
    """Register the compiled gradient with JAX and return whether that worked; if not, a line in the log says why.

    The log of a job does not repeat it on the terminal (`logs.logged`).
    """
    try:
        file = library()
        if not file.is_file():
            raise OSError("it is not built: run `make setup` or `python -m bnn_atlas.native.build`")
        loaded = ctypes.CDLL(str(file))
        if not loaded.bnn_atlas_best():
            raise OSError("this processor has neither AVX-512 nor AVX2 with fused multiply-adds")
    except (OSError, PackageNotFoundError) as error:
        log.warning("no compiled gradient: %s; %s", error, LOST)
        return False
    jax.ffi.register_ffi_target(NAME, jax.ffi.pycapsule(loaded.bnn_atlas_call), platform="cpu")
    return True
