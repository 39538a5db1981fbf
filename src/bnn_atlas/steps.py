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

from bnn_atlas.config.methods import (
    AdjustedMCLMCConfig,
    BlackJAXMCLMCConfig,
    HMCConfig,
    MCLMCConfig,
    MethodConfig,
    NUTSConfig,
)
from bnn_atlas.config.posterior import PosteriorConfig
from bnn_atlas.config.sgmcmc import AdaptiveSGHMCConfig, SGMCMCConfig
from bnn_atlas.config.training import WarmStartConfig
from bnn_atlas.config.variational import DeepEnsembleConfig, LaplaceConfig, MAPConfig, MeanFieldConfig
from bnn_atlas.data.splits import SplitData, load_split
from bnn_atlas.files import atomic
from bnn_atlas.metrics import evaluate
from bnn_atlas.metrics.cost import read_cost
from bnn_atlas.metrics.tables import RunIdentity
from bnn_atlas.placement import Placement
from bnn_atlas.posterior.density import Posterior, PosteriorData, build_posterior, posterior_data
from bnn_atlas.posterior.micro_batches import micro_batches
from bnn_atlas.posterior.predictive import Predictive
from bnn_atlas.provenance import collect, fingerprint
from bnn_atlas.samplers.adaptive_sghmc import build_adaptive_sghmc
from bnn_atlas.samplers.adjusted_mclmc import build_adjusted_mclmc
from bnn_atlas.samplers.base import Sampler
from bnn_atlas.samplers.hmc import build_hmc
from bnn_atlas.samplers.mclmc_blackjax import build_mclmc_blackjax
from bnn_atlas.samplers.mile import build_mile
from bnn_atlas.samplers.nuts import build_nuts
from bnn_atlas.samplers.run import Block, run_block
from bnn_atlas.samplers.sgmcmc import build_sgmcmc
from bnn_atlas.traces.pool import open_pool
from bnn_atlas.training.ensemble import Rows, initialise, train_ensemble
from bnn_atlas.training.optimise import build_deep_ensemble, build_map
from bnn_atlas.variational.laplace import build_laplace
from bnn_atlas.variational.mean_field import build_mean_field

log = logging.getLogger(__name__)


class ScoreOutputs(NamedTuple):
    """Files of the metrics rule."""

    table: str
    rates: str
    parameters: str
    functions: str
    chains: str
    samplers: str
    curves: str


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
        shards=config.data_shards,
    )
    data = posterior_data(rows.x_fit, rows.y_fit, prior, config.data_shards)
    pieces = micro_batches(posterior, data, 1e6 * config.gradient_memory_mb)
    return Problem(posterior._replace(micro_batches=pieces), data, rows, config)


def warm_start(
    dataset: str | Path,
    split: str | Path,
    destination: str | Path,
    *,
    posterior: Mapping[str, Any],
    training: Mapping[str, Any] | None,
    members: Sequence[int],
    seed: int,
) -> None:
    """Train the ensemble members with the given numbers and write their parameters and losses (.npz).

    Without `training` the networks stay as the initialisers made them, and there are no losses.
    """
    problem = load_problem(dataset, split, posterior)
    if training is None:
        parameters = initialise(problem.posterior, np.asarray(members), seed, problem.data.prior.loc.dtype)
        with atomic(destination) as temporary, temporary.open("wb") as handle:
            np.savez(handle, members=np.asarray(members), parameters=parameters)
        return
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
    files = ("keys.py", "threefry.py", "placement.py")
    folders = ("models", "posterior", "samplers", "training", "variational")
    for name in (*files, *folders):
        for file in sorted((package / name).rglob("*.py")) or [package / name]:
            digest.update(file.read_bytes())
    return digest.hexdigest()


def build_sampler(config: MethodConfig, problem: Problem) -> Sampler:
    """Sampler of a method's settings for a problem."""
    dimension, temperature = problem.posterior.layout.size, problem.config.temperature
    match config:
        case MCLMCConfig():
            return build_mile(config, dimension, temperature)
        case BlackJAXMCLMCConfig():
            return build_mclmc_blackjax(config, dimension, temperature)
        case AdjustedMCLMCConfig():
            return build_adjusted_mclmc(config, dimension, temperature)
        case HMCConfig():
            return build_hmc(config, temperature)
        case NUTSConfig():
            return build_nuts(config, temperature)
        case SGMCMCConfig():
            return build_sgmcmc(config, len(problem.data.y))
        case AdaptiveSGHMCConfig():
            return build_adaptive_sghmc(config)
        case MeanFieldConfig():
            return build_mean_field(config, problem.posterior, problem.data)
        case LaplaceConfig():
            return build_laplace(config, problem.posterior, problem.data)
        case MAPConfig():
            return build_map(config, problem.posterior, problem.data)
        case DeepEnsembleConfig():
            return build_deep_ensemble()


def score(
    dataset: str | Path,
    split: str | Path,
    pool: str | Path,
    timings: Sequence[str | Path],
    outputs: ScoreOutputs,
    *,
    posterior: Mapping[str, Any],
    identity: Mapping[str, Any],
    batch_rows: int | None,
) -> None:
    """Score a pooled trace on the test rows and write the tables of the metrics rule.

    `timings` are the files in which the blocks say what they took; `batch_rows` is the size of a mini-batch, None for
    full-data gradients.
    """
    problem = load_problem(dataset, split, posterior)
    scored = evaluate.score(
        open_pool(pool),
        Predictor(problem.posterior, problem.data.prior.loc.dtype),
        problem.split,
        RunIdentity(**identity),
        cost=read_cost(timings),
        batch_rows=batch_rows,
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
