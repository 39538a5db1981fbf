"""What the rules do with JAX, as functions of files and settings; `runtime.configure` comes first."""

import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import numpy as jnp
from pydantic import TypeAdapter

from bnn_atlas.config.methods import HMCConfig, MCLMCConfig, MethodConfig
from bnn_atlas.config.posterior import PosteriorConfig
from bnn_atlas.config.training import WarmStartConfig
from bnn_atlas.data.splits import SplitData, load_split
from bnn_atlas.files import atomic
from bnn_atlas.metrics import evaluate
from bnn_atlas.metrics.tables import RunIdentity
from bnn_atlas.placement import Placement
from bnn_atlas.posterior.density import Posterior, PosteriorData, build_posterior, posterior_data
from bnn_atlas.posterior.predictive import Predictive
from bnn_atlas.provenance import collect, fingerprint
from bnn_atlas.samplers.base import Sampler
from bnn_atlas.samplers.hmc import build_hmc
from bnn_atlas.samplers.mile import build_mile
from bnn_atlas.samplers.run import Block, run_block
from bnn_atlas.traces.pool import open_pool
from bnn_atlas.training.ensemble import Rows, train_ensemble

log = logging.getLogger(__name__)


class ScoreOutputs(NamedTuple):
    """Files of the metrics rule."""

    table: str
    parameters: str
    functions: str
    chains: str


class Problem(NamedTuple):
    """A posterior with its data, read from a prepared data set and a split."""

    posterior: Posterior
    data: PosteriorData
    split: SplitData
    config: PosteriorConfig


def load_problem(dataset: str | Path, split: str | Path, settings: Mapping[str, Any]) -> Problem:
    """Posterior of `settings` (a `PosteriorConfig` in plain values) on the rows that it conditions on."""
    config = PosteriorConfig.model_validate(settings)
    rows = load_split(dataset, split)
    posterior, prior = build_posterior(
        config.model,
        config.likelihood,
        config.prior,
        temperature=config.temperature,
        features=rows.x_fit.shape[1],
        classes=len(rows.classes),
        dtype=jnp.float64 if config.float64 else jnp.float32,
    )
    return Problem(posterior, posterior_data(rows.x_fit, rows.y_fit, prior), rows, config)


def warm_start(
    dataset: str | Path,
    split: str | Path,
    destination: str | Path,
    *,
    posterior: Mapping[str, Any],
    training: Mapping[str, Any],
    members: Sequence[int],
    seed: int,
) -> None:
    """Train the ensemble members with the given numbers and write their parameters and losses (.npz)."""
    problem = load_problem(dataset, split, posterior)
    rows = problem.split
    dtype = problem.data.prior.loc.dtype
    targets = problem.data.y.dtype
    trained = train_ensemble(
        problem.posterior,
        WarmStartConfig.model_validate(training),
        Rows(
            jnp.asarray(rows.x_train, dtype),
            jnp.asarray(rows.y_train, targets),
            jnp.asarray(rows.x_validation, dtype),
            jnp.asarray(rows.y_validation, targets),
        ),
        np.asarray(members),
        seed,
    )
    with atomic(destination) as temporary, temporary.open("wb") as handle:
        np.savez(handle, members=np.asarray(members), **trained._asdict())


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
        {**settings, **inputs, "jax": jax.__version__, "platform": device.platform, "code": _code_digest()}
    )
    run_block(
        build_sampler(config, problem),
        problem.posterior,
        problem.data,
        Block(starts, chains, seed, Path(destination), digest, {"provenance": json.loads(provenance.to_json())}),
        config.checkpoint_every,
    )


def _code_digest() -> str:
    """SHA-256 of the code that draws depend on."""
    package = Path(__file__).parent
    digest = hashlib.sha256()
    for name in ("keys.py", "threefry.py", "placement.py", "models", "posterior", "samplers"):
        for file in sorted((package / name).rglob("*.py")) or [package / name]:
            digest.update(file.read_bytes())
    return digest.hexdigest()


def build_sampler(config: MethodConfig, problem: Problem) -> Sampler:
    """Sampler of a method's settings for a problem."""
    match config:
        case MCLMCConfig():
            return build_mile(config, problem.posterior.layout.size, problem.config.temperature)
        case HMCConfig():
            return build_hmc(config, problem.config.temperature)


def score(
    dataset: str | Path,
    split: str | Path,
    pool: str | Path,
    outputs: ScoreOutputs,
    *,
    posterior: Mapping[str, Any],
    identity: Mapping[str, Any],
) -> None:
    """Score a pooled trace on the test rows and write the tables of the metrics rule."""
    problem = load_problem(dataset, split, posterior)
    scored = evaluate.score(
        open_pool(pool),
        Predictor(problem.posterior, problem.data.prior.loc.dtype),
        problem.split,
        RunIdentity(**identity),
    )
    evaluate.write_scored(scored, **outputs._asdict())


class Predictor:
    """Predictive distributions of many draws, computed on all devices of the job."""

    def __init__(self, posterior: Posterior, dtype: jnp.dtype) -> None:
        self._posterior, self._dtype = posterior, dtype
        self._compiled: dict[int, tuple[Placement, Callable[[Any, Any], Any]]] = {}

    def __call__(self, theta: np.ndarray, x: np.ndarray) -> Predictive:
        """Predictive of draws theta [b, P] at rows x [n, d], as host arrays."""
        if len(theta) not in self._compiled:
            place = Placement(len(theta))
            self._compiled[len(theta)] = (place, place.map(self._one))
        place, mapped = self._compiled[len(theta)]
        rows = place.share(np.asarray(x, self._dtype))
        return place.get(mapped(rows, place.put(np.asarray(theta, self._dtype))))

    def _one(self, x: jax.Array, theta: jax.Array) -> Predictive:
        return jax.tree.map(lambda leaf: leaf[0], self._posterior.predict(theta[None], x))
