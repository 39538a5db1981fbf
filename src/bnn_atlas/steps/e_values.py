"""E-values of a run that has been sampled."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bnn_atlas.data.errors import DataError
from bnn_atlas.metrics.e_value_table import write_e_values
from bnn_atlas.metrics.e_values import log_e_values
from bnn_atlas.steps.held_out import ValidationDensity
from bnn_atlas.steps.problem import load_problem
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
    """Write the log E-value of every draw of every chain against the chain's warm start (`metrics.e_values`).

    Args:
        dataset: the prepared data set.
        split: the split, with validation rows that the posterior is not conditioned on.
        traces: traces of the run's blocks; those that a rule stopped may be shorter than others.
        starts: the warm starts of the same blocks, in the same order.
        destination: the file.
        posterior: the run's posterior, in plain values.
        alpha: level of the stopping rule, for the file's metadata.

    Raises:
        DataError: no such validation rows, or a warm start of other chains than the trace.
    """
    density = ValidationDensity(load_problem(dataset, split, posterior))
    found: list[tuple[int, np.ndarray]] = []
    for path, start in zip(traces, starts, strict=True):
        trace = open_trace(path)
        reference = density(_warm_starts(start, trace))
        values = log_e_values(np.zeros(trace.chains), _densities(density, trace), reference)
        found += zip(trace.chain_ids.tolist(), values, strict=True)
    write_e_values(destination, sorted(found, key=lambda chain: chain[0]), alpha)


def _densities(density: ValidationDensity, trace: Trace) -> np.ndarray:
    """Log density [c, s] of each draw."""
    values = np.empty((trace.chains, trace.draws))
    for chains, draws, theta in trace.batches():
        values[chains, draws] = density(theta)
    return values


def _warm_starts(path: str | Path, trace: Trace) -> np.ndarray:
    """Warm starts [c, P] in the order of the trace's chains."""
    with np.load(path, allow_pickle=False) as stored:
        members, parameters = stored["members"], stored["parameters"]
    place = {int(member): row for row, member in enumerate(members)}
    if set(place) != set(trace.chain_ids.tolist()):
        raise DataError(
            f"{path} holds warm starts of the chains {sorted(place)}, but {trace.path} the chains "
            f"{sorted(trace.chain_ids.tolist())}; give the blocks in the same order"
        )
    return parameters[[place[int(chain)] for chain in trace.chain_ids]]
