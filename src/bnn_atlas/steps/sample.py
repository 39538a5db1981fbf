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
from bnn_atlas.steps.methods import build_sampler
from bnn_atlas.steps.problem import load_problem


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
) -> None:
    """Sample one block of chains from its warm starts into a trace store; goes on from an interrupted attempt."""
    problem = load_problem(dataset, split, posterior)
    config: MethodConfig = TypeAdapter(MethodConfig).validate_python(method)
    with np.load(start, allow_pickle=False) as stored:
        starts, chains = stored["parameters"], stored["members"]
    settings = {"posterior": posterior, "method": method, "seed": seed, "chains": chains.tolist()}
    device = jax.devices()[0]
    provenance = collect(settings, root=root, device=f"{device.platform} {device.device_kind}")
    inputs = {"x": problem.split.x_fit, "y": problem.split.y_fit, "starts": starts}
    digest = fingerprint(
        {**settings, **inputs, "packages": _versions(), "platform": device.platform, "code": _code_digest()}
    )
    run_block(
        build_sampler(config, problem.posterior, problem.data),
        problem.posterior,
        problem.data,
        Block(starts, chains, seed, Path(destination), digest, {"provenance": json.loads(provenance.to_json())}),
        config.checkpoint_every,
    )


def _versions() -> dict[str, str]:
    """Packages that draws depend on."""
    return {name: version(name) for name in ("jax", "jaxlib", "flax", "optax", "blackjax", "numpy", "scipy")}


def _code_digest() -> str:
    """SHA-256 of the code that draws depend on."""
    package = Path(bnn_atlas.__file__).parent
    digest = hashlib.sha256()
    files = ("keys.py", "threefry.py", "placement.py", "runtime.py", "metrics/mixing.py")
    folders = ("config", "models", "posterior", "samplers", "training", "variational")
    for name in (*files, *folders):
        for file in sorted((package / name).rglob("*.py")) or [package / name]:
            digest.update(file.read_bytes())
    return digest.hexdigest()
