"""Compare a run with its warm starts by E-values, and the forms of the entropy at its fit."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import TypeAdapter

from bnn_atlas.config.methods.implicit import ImplicitConfig
from bnn_atlas.config.methods.registry import MethodConfig
from bnn_atlas.data import DataError
from bnn_atlas.files import load_arrays
from bnn_atlas.inference.pointwise import ValidationDensity
from bnn_atlas.inference.problem import load_problem
from bnn_atlas.methods.implicit.compare import compared
from bnn_atlas.methods.implicit.family import fitted
from bnn_atlas.metrics.tables.parquet import ENTROPY_SCHEMA, write_e_values, write_frame
from bnn_atlas.runner.stopping import log_e_values
from bnn_atlas.traces.store import Trace, open_trace


def e_values(
    dataset: str | Path,
    split: str | Path,
    traces: Sequence[str | Path],
    starts: Sequence[str | Path],
    destination: str | Path,
    *,
    posterior: Mapping[str, Any],
    alpha: float,
) -> None:
    """Write the log E-values of every draw of every chain (`runner.stopping.log_e_values`).

    One is against the chain's own warm start and decides when a chain stops; the other is against the average of all
    warm starts of the run, the deep ensemble.

    Args:
        dataset: the prepared data set.
        split: the split, with validation rows that the posterior is not conditioned on.
        traces: traces of the run's blocks, possibly of different length if a rule stopped them.
        starts: the warm starts of the same blocks, in the same order.
        destination: the file.
        posterior: the run's posterior, in plain values.
        alpha: level of the stopping rule, for the file's metadata.

    Raises:
        DataError: there are no such validation rows, or a warm start belongs to other chains than the trace.
    """
    density = ValidationDensity(load_problem(dataset, split, posterior))
    blocks = [open_trace(path) for path in traces]
    members = [_warm_starts(start, trace) for start, trace in zip(starts, blocks, strict=True)]
    ensemble = density.of_average(np.concatenate(members))
    found: list[tuple[int, np.ndarray, np.ndarray]] = []
    for trace, own in zip(blocks, members, strict=True):
        log_density, none = _densities(density, trace), np.zeros(trace.chains)
        against = [log_e_values(none, log_density, each) for each in (density(own), np.full(trace.chains, ensemble))]
        found += zip(trace.chain_ids.tolist(), *against, strict=True)
    write_e_values(destination, sorted(found, key=lambda chain: chain[0]), alpha)


def _densities(density: ValidationDensity, trace: Trace) -> np.ndarray:
    """Log density [c, s] of each draw."""
    values = np.empty((trace.chains, trace.draws))
    for chains, draws, theta in trace.batches():
        values[chains, draws] = density(theta)
    return values


def _warm_starts(path: str | Path, trace: Trace) -> np.ndarray:
    """Warm starts [c, P] in the order of the trace's chains."""
    stored = load_arrays(path, ("members", "parameters"), DataError, "a warm start", optional=None)
    place = {int(member): row for row, member in enumerate(stored["members"])}
    if set(place) != set(trace.chain_ids.tolist()):
        raise DataError(
            f"{path} holds warm starts of chains {sorted(place)}, but {trace.path} holds chains "
            f"{sorted(trace.chain_ids.tolist())}; pass the blocks in the same order"
        )
    return stored["parameters"][[place[int(chain)] for chain in trace.chain_ids]]


class EntropyError(ValueError):
    """The run does not have a generator, or the file of its fit is damaged."""


def entropies(
    dataset: str | Path,
    split: str | Path,
    fit: str | Path,
    destination: str | Path,
    *,
    posterior: Mapping[str, Any],
    method: Mapping[str, Any],
    seed: int,
) -> None:
    """Compare the forms of the entropy at the fit of a block's first chain (Parquet, `ENTROPY_SCHEMA`).

    Raises:
        EntropyError: the method is not `implicit`, or `fit` cannot be read.
    """
    config: MethodConfig = TypeAdapter(MethodConfig).validate_python(method)
    if not isinstance(config, ImplicitConfig):
        raise EntropyError(
            f"{fit}: entropies are compared for a generator, but the method is '{config.kind}'; show only runs of kind "
            "'implicit'"
        )
    problem = load_problem(dataset, split, {**posterior, "data_shards": 1})
    one = fitted(config, problem.posterior, load_arrays(fit, (), EntropyError, "a fit", optional=None))
    frame = pd.DataFrame(compared(one, seed)).assign(noise=one.family.noise, weights=one.family.generator.size)
    write_frame(destination, frame[ENTROPY_SCHEMA.names], ENTROPY_SCHEMA)
