"""Fingerprints of expensive results: one hash of everything that a result depends on.

The code that a result depends on is found without importing it. A plan needs only this part of a fingerprint, so JAX is
imported late.
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
    """Hash of settings, input arrays, code, packages and platform; equal for two blocks only if their draws are equal.

    With `stopped`, a rule may end the chains, and the number of draws then depends on more code.
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
    """SHA-256 of an array's numbers, number type and shape."""
    import numpy as np

    digest = hashlib.sha256(f"{array.dtype.str} {array.shape}".encode())
    digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


NOT_IN_DRAWS = (*PLUMBING, "bnn_atlas.data", "bnn_atlas.traces")
"""Modules that only read and write: draws depend on these modules only through arrays, which are part of the
fingerprint. In the runner, only `runner.program` computes; phases, checkpoints and messages do not count."""
PROBLEM = (
    "bnn_atlas.runtime",
    "bnn_atlas.inference.problem:load_problem",
    "bnn_atlas.inference.problem:load_without_rows",
)


def code_of_draws(method: MethodSettings, posterior: PosteriorConfig, *, stopped: bool) -> str:
    """SHA-256 of the code that a method's draws depend on; with `stopped`, also the code that decides their number."""
    roots = [*method.builders, "bnn_atlas.runner.program"]
    if stopped:
        roots += ["bnn_atlas.runner.stopping", "bnn_atlas.inference.pointwise:ValidationDensity"]
    return _digest(*roots, settings=(method, posterior))


def code_of_starts(
    posterior: PosteriorConfig, training: WarmStartConfig | None, initial: InitialConfig | None = None
) -> str:
    """SHA-256 of the code that makes the networks from which chains start: trained or, without `training`, drawn."""
    if training is None:
        roots = ("bnn_atlas.warmstart.ensemble:initialise", "bnn_atlas.warmstart.initial:initial_networks")
        return _digest(*roots, settings=(posterior, initial))
    return _digest(
        "bnn_atlas.warmstart.ensemble", "bnn_atlas.warmstart.initial:permuted_copies", settings=(posterior, training)
    )


def code_of_predictions(posterior: PosteriorConfig) -> str:
    """SHA-256 of the code that computes predictions of draws."""
    roots = ("bnn_atlas.inference.problem:Predictor", "bnn_atlas.metrics.gathering.streaming")
    return _digest(*roots, settings=(posterior,))


def _digest(*roots: str, settings: tuple[BaseModel | None, ...]) -> str:
    classes = {type(one) for model in settings for one in _settings_within(model)}
    return code_digest(*roots, *PROBLEM, classes=classes, without=NOT_IN_DRAWS)


def _settings_within(value: Any) -> Iterator[BaseModel]:
    """All settings objects in a value, including the value itself."""
    if isinstance(value, BaseModel):
        yield value
        for name in type(value).model_fields:
            yield from _settings_within(getattr(value, name))
    elif isinstance(value, tuple | list):
        for one in value:
            yield from _settings_within(one)
    elif isinstance(value, dict):
        yield from _settings_within(list(value.values()))
