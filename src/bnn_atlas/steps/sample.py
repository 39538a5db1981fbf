"""Sampling of a block of chains."""

import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import numpy as np
from pydantic import TypeAdapter

import bnn_atlas
from bnn_atlas.config.methods import MethodConfig
from bnn_atlas.provenance import collect, fingerprint
from bnn_atlas.samplers.run import Block, run_block
from bnn_atlas.samplers.stopping import StoppingRule
from bnn_atlas.steps.methods import build_sampler
from bnn_atlas.steps.problem import Problem, load_problem

LENGTH_FILES = ("metrics/e_values.py", "metrics/predictive.py", "steps/held_out.py", "steps/predict.py")
"""Code that the number of draws depends on where a rule may stop the chains."""


def sample(
    dataset: str | Path,
    split: str | Path,
    start: str | Path,
    destination: str | Path,
    *,
    posterior: Mapping[str, Any],
    method: Mapping[str, Any],
    seed: int,
    root: str | Path,
    stopping: Mapping[str, Any] | None = None,
) -> None:
    """Sample one block of chains from its warm starts into a trace store; goes on from an interrupted attempt.

    With `stopping` (a `StoppingConfig` in plain values) the block may end before its last draw.
    """
    config: MethodConfig = TypeAdapter(MethodConfig).validate_python(method)
    with np.load(start, allow_pickle=False) as stored:
        starts, chains = stored["parameters"], stored["members"]
    problem = load_problem(dataset, split, posterior, chains=len(chains))
    settings = {"posterior": posterior, "method": method, "seed": seed, "chains": chains.tolist(), "stopping": stopping}
    rule = None if stopping is None else _rule(stopping, problem, starts, chains)
    device = jax.devices()[0]
    provenance = collect(settings, root=root, device=f"{device.platform} {device.device_kind}")
    inputs = [problem.split.x_fit, problem.split.y_fit, starts]
    if rule:
        inputs += [problem.split.x_validation, problem.split.y_validation]
    digest = fingerprint(
        {
            **settings,
            "inputs": [_array_digest(array) for array in inputs],
            "packages": _versions(),
            "platform": device.platform,
            "code": _code_digest(*(LENGTH_FILES if rule else ())),
        }
    )
    run_block(
        build_sampler(config, problem.posterior, problem.data),
        problem.posterior,
        problem.data,
        Block(starts, chains, seed, Path(destination), digest, {"provenance": json.loads(provenance.to_json())}),
        config.checkpoint_every,
        rule,
    )


def _rule(settings: Mapping[str, Any], problem: Problem, starts: np.ndarray, chains: np.ndarray) -> StoppingRule:
    """The stopping rule of a block."""
    # Scores take their time to import, and most runs have no rule.
    from bnn_atlas.config.stopping import StoppingConfig
    from bnn_atlas.steps.held_out import ValidationDensity

    return StoppingRule(StoppingConfig.model_validate(settings).alpha, ValidationDensity(problem), starts, chains)


def _array_digest(array: np.ndarray) -> str:
    """SHA-256 of the numbers of an array, their type and its shape."""
    digest = hashlib.sha256(f"{array.dtype.str} {array.shape}".encode())
    digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _versions() -> dict[str, str]:
    """Packages that draws depend on."""
    return {name: version(name) for name in ("jax", "jaxlib", "flax", "optax", "blackjax", "numpy", "scipy")}


def _code_digest(*further: str) -> str:
    """SHA-256 of the code that draws depend on, and of further files."""
    package = Path(bnn_atlas.__file__).parent
    digest = hashlib.sha256()
    settings = ("methods", "posterior", "sgmcmc", "stopping", "training", "variational")
    files = ("keys.py", "threefry.py", "placement.py", "runtime.py", "metrics/mixing.py")
    folders = ("models", "posterior", "samplers", "training", "variational")
    for name in (*(f"config/{name}.py" for name in settings), *files, *folders, *further):
        for file in sorted((package / name).rglob("*.py")) or [package / name]:
            digest.update(file.read_bytes())
    return digest.hexdigest()
