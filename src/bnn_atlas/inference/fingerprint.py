"""Fingerprints of expensive results: everything that they depend on, as one hash.

Their code, a part of it, is found without importing the code. A plan asks for that part only, so JAX is imported late.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from bnn_atlas.config.methods.base import MethodSettings
from bnn_atlas.config.parts.posterior import PosteriorConfig
from bnn_atlas.config.parts.starts import InitialConfig, WarmStartConfig
from bnn_atlas.provenance import fingerprint
from bnn_atlas.sources import PLUMBING, code_digest

if TYPE_CHECKING:
    import numpy as np

PACKAGES = ("jax", "jaxlib", "flax", "optax", "blackjax", "numpy", "scipy")
"""Packages that expensive results depend on."""


def fingerprint_of_draws(
    method: MethodSettings,
    posterior: PosteriorConfig,
    settings: Mapping[str, Any],
    inputs: "Iterable[np.ndarray]",
    *,
    stopped: bool = False,
) -> str:
    """Hash of settings, input arrays, code, packages and platform: equal for two blocks only if their draws are.

    With `stopped` a rule may end the chains, and their number of draws then depends on more code.
    """
    return fingerprint_of(settings, inputs, code_of_draws(method, posterior, stopped=stopped))


def fingerprint_of(settings: Mapping[str, Any], inputs: "Iterable[np.ndarray]", code: str) -> str:
    """Hash of settings, input arrays, code (itself a hash), packages and platform."""
    import jax

    return fingerprint(
        {
            **settings,
            "inputs": [array_digest(array) for array in inputs],
            "packages": {name: version(name) for name in PACKAGES},
            "platform": jax.default_backend(),
            "code": code,
        }
    )


def array_digest(array: "np.ndarray") -> str:
    """SHA-256 of the numbers of an array, their type and its shape."""
    import numpy as np

    digest = hashlib.sha256(f"{array.dtype.str} {array.shape}".encode())
    digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


NOT_IN_DRAWS = (*PLUMBING, "bnn_atlas.data", "bnn_atlas.traces")
"""Modules that only read and write: a draw depends on them only through their arrays, which are in the fingerprint
themselves. In the runner, only `runner.program` computes; phases, checkpoints and messages do not count."""
PROBLEM = (
    "bnn_atlas.runtime",
    "bnn_atlas.inference.problem:load_problem",
    "bnn_atlas.inference.problem:load_without_rows",
)


def code_of_draws(method: MethodSettings, posterior: PosteriorConfig, *, stopped: bool) -> str:
    """SHA-256 of the code that draws of a method depend on; with `stopped`, also what their number depends on."""
    roots = [method.builder, "bnn_atlas.runner.program"]
    if stopped:
        roots += ["bnn_atlas.runner.stopping", "bnn_atlas.inference.pointwise:ValidationDensity"]
    return _digest(*roots, settings=(method, posterior))


def code_of_starts(
    posterior: PosteriorConfig, training: WarmStartConfig | None, initial: InitialConfig | None = None
) -> str:
    """SHA-256 of the code that trains the networks from which chains start or, without `training`, draws them."""
    if training is None:
        roots = ("bnn_atlas.warmstart.ensemble:initialise", "bnn_atlas.warmstart.initial:initial_networks")
        return _digest(*roots, settings=(posterior, initial))
    return _digest(
        "bnn_atlas.warmstart.ensemble", "bnn_atlas.warmstart.initial:permuted_copies", settings=(posterior, training)
    )


def code_of_predictions(posterior: PosteriorConfig) -> str:
    """SHA-256 of the code that predicts rows with draws."""
    roots = ("bnn_atlas.inference.problem:Predictor", "bnn_atlas.metrics.gathering.streaming")
    return _digest(*roots, settings=(posterior,))


def _digest(*roots: str, settings: tuple[BaseModel | None, ...]) -> str:
    classes = {type(one) for model in settings for one in _settings_within(model)}
    return code_digest(*roots, *PROBLEM, classes=classes, without=NOT_IN_DRAWS)


def _settings_within(value: Any) -> Iterator[BaseModel]:
    """All settings objects in a value, itself included."""
    if isinstance(value, BaseModel):
        yield value
        for name in type(value).model_fields:
            yield from _settings_within(getattr(value, name))
    elif isinstance(value, tuple | list):
        for one in value:
            yield from _settings_within(one)
    elif isinstance(value, dict):
        yield from _settings_within(list(value.values()))
