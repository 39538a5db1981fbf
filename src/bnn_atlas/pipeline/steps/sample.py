"""Sample a block of chains."""

import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from pydantic import TypeAdapter

from bnn_atlas.config.methods.optimisation import DeepEnsembleConfig
from bnn_atlas.config.methods.registry import MethodConfig
from bnn_atlas.data import DataError
from bnn_atlas.files import load_arrays, remove
from bnn_atlas.inference.fingerprint import fingerprint_of_draws
from bnn_atlas.inference.problem import Problem, load_problem
from bnn_atlas.methods.contract import build_method
from bnn_atlas.pipeline.steps.reduce import reduce_block
from bnn_atlas.posterior.compiled import kernel_name
from bnn_atlas.provenance import collect
from bnn_atlas.records import digest as digest_of
from bnn_atlas.records import record_of
from bnn_atlas.runner.checkpoint import work_path
from bnn_atlas.runner.segments import COMPANIONS, POINTS, Block, noted, run_block
from bnn_atlas.runner.stopping import StoppingRule
from bnn_atlas.traces.draws import evenly
from bnn_atlas.traces.reduced import ReducedBlock, is_reduced

log = logging.getLogger(__name__)
WHOLE = "whole.zarr"
"""Folder of the draws of a block, next to its trace, until they have been reduced."""
RECORDED, REDUCED = "recorded", "reduced"
"""Attributes of a reduced block: what the job records, and the settings of the reduction."""


def sample(
    dataset: str | Path,
    split: str | Path,
    start: str | Path,
    trace: str | Path,
    *,
    posterior: Mapping[str, Any],
    method: Mapping[str, Any],
    seed: int,
    stopping: Mapping[str, Any] | None = None,
    reduced: Mapping[str, Any] | None = None,
    sections: Mapping[str, Any] | None = None,
    root: str | Path = ".",
) -> dict[str, Any]:
    """Sample one block of chains from its warm starts into a trace store, or continue an interrupted attempt.

    `timing.json` and `fit.npz` are written next to the trace (`bnn_atlas.runner.segments.run_block`). With `stopping`
    (a `StoppingConfig` in plain values) the block can end before its last draw. With `reduced` and `sections`
    (arguments of `reduce.reduce_block`) the draws are sampled into `whole.zarr`, and `trace` gets what is reduced from
    them; after that, they are deleted. An interrupted attempt continues where it was.

    Returns what to record: the kernel, and the SHA-256 of the draws alone, without the provenance in a trace.
    """
    config: MethodConfig = TypeAdapter(MethodConfig).validate_python(method)
    stored = load_arrays(start, ("parameters", "members"), DataError, "a warm start", optional=None)
    starts, chains = stored["parameters"], stored["members"]
    problem = load_problem(dataset, split, posterior, chains=len(chains))
    rows = len(problem.data.y)
    if (fitting := config.for_rows(rows)) is not config:
        config, method = fitting, fitting.model_dump(mode="json")
    settings = {
        "posterior": posterior,
        "method": method,
        "seed": seed,
        "chains": chains.tolist(),
        "stopping": stopping,
        "kernel": kernel_name(problem.posterior.kernel),
    }
    rule = None if stopping is None else _rule(stopping, problem, starts, chains)
    device = jax.devices()[0]
    provenance = collect(settings, root=root, device=f"{device.platform} {device.device_kind}")
    # What the draws are of; readers compare it with the posterior that they are used with.
    provenance = replace(provenance, settings={**provenance.settings, "posterior": dict(posterior)})
    data = problem.split
    inputs = [data.x_fit, data.y_fit, starts, *([data.x_validation, data.y_validation] if rule else [])]
    facts = {"shape": data.shape, "classes": len(data.classes), "vocabulary": data.vocabulary}
    digest = fingerprint_of_draws(config, problem.config, {**settings, "rows": facts}, inputs, stopped=rule is not None)
    whole = Path(trace) if reduced is None else Path(trace).with_name(WHOLE)
    if reduced is not None and _is_made(Path(trace), digest, reduced):
        log.info("%s is complete already", trace)
        _remove(whole)
        return dict(ReducedBlock(trace).attributes[RECORDED])
    run_block(
        build_method(config, problem.posterior, problem.data),
        problem.posterior,
        problem.data,
        Block(
            starts,
            chains,
            seed,
            whole,
            digest,
            {"provenance": json.loads(provenance.to_json()), **noted(config, problem.posterior, rows)},
            loss_course(stored) if isinstance(config, DeepEnsembleConfig) else {},
        ),
        config.checkpoint_every,
        rule,
    )
    recorded = {"kernel": settings["kernel"], "draws": digest_of(whole / "draws")}
    if reduced is not None:
        remove(Path(trace))
        notes = {RECORDED: recorded, REDUCED: dict(reduced)}
        reduce_block(whole, Path(trace), notes, dataset, split, posterior=posterior, **reduced, **(sections or {}))
        _remove(whole)
    return recorded


def _is_made(trace: Path, fingerprint: str, reduced: Mapping[str, Any]) -> bool:
    """Whether a block has been reduced from the draws of this fingerprint, with these settings."""
    if not is_reduced(trace) or not all(trace.with_name(name).exists() for name in COMPANIONS):
        return False
    made = ReducedBlock(trace).attributes
    return made.get("fingerprint") == fingerprint and made.get(REDUCED) == dict(reduced)


def _remove(whole: Path) -> None:
    """Remove draws that have been reduced, with their record and what an attempt left."""
    for path in (whole, work_path(whole), record_of(whole)):
        remove(path)


def loss_course(stored: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """`validation_loss` [member, point] at evenly spread epochs of the training of each member.

    `training_loss` if a member has none, since there were no validation rows. Empty for networks that were not trained,
    or for fewer epochs than points.
    """
    if "train_loss" not in stored:
        return {}
    validated = bool(np.isfinite(stored["validation_loss"]).any(axis=1).all())
    course = []
    for watched in stored["validation_loss" if validated else "train_loss"]:
        losses = watched[np.isfinite(watched)]
        if len(losses) < POINTS:
            return {}
        course.append(losses[evenly(len(losses), POINTS)])
    return {"validation_loss" if validated else "training_loss": np.array(course)}


def _rule(settings: Mapping[str, Any], problem: Problem, starts: np.ndarray, chains: np.ndarray) -> StoppingRule:
    from bnn_atlas.config.parts.starts import StoppingConfig
    from bnn_atlas.inference.pointwise import ValidationDensity  # slow to import, and most runs have no rule

    return StoppingRule(StoppingConfig.model_validate(settings).alpha, ValidationDensity(problem), starts, chains)
