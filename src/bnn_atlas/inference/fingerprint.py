"""Fingerprints of expensive results: everything that they depend on, as one hash."""

import hashlib
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Any

import jax
import numpy as np

from bnn_atlas.config.methods.base import MethodSettings
from bnn_atlas.config.parts.posterior import PosteriorConfig
from bnn_atlas.inference.code import code_of_draws
from bnn_atlas.provenance import fingerprint

PACKAGES = ("jax", "jaxlib", "flax", "optax", "blackjax", "numpy", "scipy")
"""Packages that expensive results depend on."""


def fingerprint_of_draws(
    method: MethodSettings,
    posterior: PosteriorConfig,
    settings: Mapping[str, Any],
    inputs: Iterable[np.ndarray],
    *,
    stopped: bool = False,
) -> str:
    """Hash of settings, input arrays, code, packages and platform: equal for two blocks only if their draws are.

    With `stopped` a rule may end the chains, and their number of draws then depends on more code.
    """
    return fingerprint_of(settings, inputs, code_of_draws(method, posterior, stopped=stopped))


def fingerprint_of(settings: Mapping[str, Any], inputs: Iterable[np.ndarray], code: str) -> str:
    """Hash of settings, input arrays, code (itself a hash), packages and platform."""
    return fingerprint(
        {
            **settings,
            "inputs": [array_digest(array) for array in inputs],
            "packages": {name: version(name) for name in PACKAGES},
            "platform": jax.default_backend(),
            "code": code,
        }
    )


def array_digest(array: np.ndarray) -> str:
    """SHA-256 of the numbers of an array, their type and its shape."""
    digest = hashlib.sha256(f"{array.dtype.str} {array.shape}".encode())
    digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
