"""What is gathered from the draws of one block of chains, and from several blocks what their pool would give.

A block's predictions are a `PredictiveSummary` of its own chains; only `log_density_by_draw` [g, n] is shorter, with
one row for each number of draws in `running_draws`: the log of the mean density over the draws since the number before.
Where this is merged, each of these draws gets that mean, so that averages up to these numbers stay the same.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from bnn_atlas.files import load_arrays, load_chosen, save_arrays
from bnn_atlas.metrics.gathering.exchange import Exchange, load_exchange
from bnn_atlas.metrics.gathering.marginals import InputTally, Tally
from bnn_atlas.metrics.gathering.streaming import Limits
from bnn_atlas.metrics.gathering.summary import PredictiveSummary, load, save, with_targets
from bnn_atlas.metrics.gathering.virial import Virial, load_virial
from bnn_atlas.metrics.tables.measurement import PredictionError

MAX_BYTES = 256 * 2**20
"""Working memory of what reads draws."""
FUNCTION_BYTES, SCALAR_BYTES = 96 * 2**20, 64 * 2**20
"""Largest size of the function values that are kept for every draw of a run; and of its noise, or of its parameters, as
well. At least one of each is kept."""
BY_CHAIN = (
    "divergent", "stuck", "function_draws", "log_density_by_chain", "running_lppd", "mean", "second_moment",
    "noise_variance", "pit", "probabilities_by_batch", "log_noise_draws", "mixture_mean", "mixture_log_noise",
)  # fmt: skip
"""Fields of a summary whose first axis is that of the chains."""
BY_DRAW, DIRECTIONS, DIFFERENCES = "log_density_by_draw", "directions", "differences"


class Tallies(NamedTuple):
    """What is computed from the parameters of the draws, if they are not kept themselves."""

    marginals: Tally
    """Sums for the marginals of the weights."""
    inputs: InputTally
    """Sums for the weights of dead inputs."""
    directions: np.ndarray
    """Squares of the first layer's weights along directions (`gathering.marginals.direction_squares`)."""
    differences: np.ndarray
    """Incoming minus outgoing weights, squared (`gathering.virial.differences_of`)."""


def limits_of_block(block: int, chains: int, draws: int, rows: int, classes: int, itemsize: int) -> Limits:
    """What to keep of the predictions of a block of `block` chains: the same as with all `chains` of the run."""
    usual, values = Limits(), chains * draws * itemsize
    return usual._replace(
        function_rows=max(1, min(usual.function_rows, FUNCTION_BYTES // (values * max(1, classes)))),
        noise_rows=max(1, min(usual.noise_rows, SCALAR_BYTES // values)),
        draw_batches=max(1, min(usual.draw_batches, usual.max_bytes // (chains * rows * max(1, classes) * 8))),
        mixture_draws=max(1, usual.mixture_draws // chains) * block,
    )


def scalars_of_run(parameters: int, chains: int, draws: int, itemsize: int) -> np.ndarray:
    """Positions of the parameters that are kept for every draw: all, or as many as `SCALAR_BYTES` allows, evenly."""
    most = max(1, SCALAR_BYTES // (chains * draws * itemsize))
    return np.arange(0, parameters, -(-parameters // most))


def save_block(path: str | Path, summary: PredictiveSummary) -> None:
    """Write the predictions of a block as .npz, with a short `log_density_by_draw`."""
    by_draw, stops = with_targets(summary.log_density_by_draw), summary.running_draws
    starts = np.concatenate([[0], stops[:-1]])
    means = [logsumexp(by_draw[i:j], axis=0) - np.log(j - i) for i, j in zip(starts, stops, strict=True)]
    save(path, summary._replace(log_density_by_draw=np.array(means)))


def merged_summary(paths: Sequence[str | Path]) -> PredictiveSummary:
    """The predictions of all chains of some blocks, in order; PredictionError if the blocks kept different rows."""
    first = load(paths[0])
    for path in paths[1:]:
        if not np.array_equal(_chosen(path, "function_rows"), first.function_rows):
            raise PredictionError(f"{paths[0]} and {path} are of runs with other numbers of chains; sample one again")
    fields: dict[str, Any] = {
        name: np.concatenate([_chosen(path, name) for path in paths])
        for name in BY_CHAIN
        if getattr(first, name) is not None
    }
    kept = [int(np.sum(~_chosen(path, "divergent"))) for path in paths]
    total = np.full(with_targets(first.log_density_by_draw).shape, -np.inf)
    for path, count in zip(paths, kept, strict=True):
        if count:
            total = np.logaddexp(total, _chosen(path, BY_DRAW) + np.log(count))
    mean = total - np.log(sum(kept)) if sum(kept) else np.full_like(total, np.nan)
    by_draw = np.repeat(mean, np.diff(first.running_draws, prepend=0), axis=0)
    return first._replace(**fields, log_density_by_draw=by_draw)


def merged_virial(paths: Sequence[str | Path], chain_ids: np.ndarray) -> Virial:
    """The gradients at draws of all blocks, by the places of their chains among `chain_ids`, those of all blocks."""
    parts = [load_virial(path) for path in paths]
    joined = {name: _joined(parts, name) for name in ("likelihood", "prior")}
    # Files of an earlier form have no rises, and those of the other blocks alone would belong to other chains.
    joined["rises"] = _joined(parts, "rises") if all(len(part.rises) for part in parts) else np.empty(0)
    joined["chains"] = np.searchsorted(chain_ids, _joined(parts, "chains"))
    return Virial(**{**parts[0]._asdict(), **joined})


def merged_exchange(paths: Sequence[str | Path]) -> Exchange:
    """The densities after exchanging layers of all blocks."""
    parts = [load_exchange(path) for path in paths]
    return parts[0]._replace(**{name: _joined(parts, name) for name in ("as_drawn", "exchanged", "validation")})


def save_tallies(path: str | Path, tallies: Tallies) -> None:
    """Write what is computed from a block's parameters as .npz."""
    sums, inputs, directions, differences = tallies
    ours = {f"inputs_{name}": array for name, array in inputs._asdict().items()}
    by_draw = {DIRECTIONS: directions, DIFFERENCES: differences}
    save_arrays(path, {**sums._asdict(), **ours, **by_draw}, compressed=True)


def merged_tallies(paths: Sequence[str | Path]) -> Tallies:
    """The same of all blocks: sums are added, chains are joined."""
    own = {f"inputs_{name}": name for name in InputTally._fields}
    total: dict[str, np.ndarray] = {}
    directions, differences = [], []
    for path in paths:
        names = (*Tally._fields, *own, DIRECTIONS, DIFFERENCES)
        arrays = load_arrays(path, names, PredictionError, "sums over draws")
        directions.append(arrays.pop(DIRECTIONS))
        differences.append(arrays.pop(DIFFERENCES))
        total = {name: array + total.get(name, 0) for name, array in arrays.items()}
    inputs = {short: total.pop(name) for name, short in own.items()}
    by_chain = np.concatenate(directions, axis=1), np.concatenate(differences)
    return Tallies(Tally(**total), InputTally(**inputs), *by_chain)


def _joined(parts: Sequence[Any], name: str) -> np.ndarray:
    return np.concatenate([getattr(part, name) for part in parts])


def _chosen(path: str | Path, name: str) -> np.ndarray:
    return load_chosen(path, [name], PredictionError, "predictions of a block")[name]
