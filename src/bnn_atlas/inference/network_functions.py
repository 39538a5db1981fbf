"""Predictive functions of some draws of a pool, at test rows or on a line."""

import logging
from collections.abc import Iterator

import numpy as np

from bnn_atlas.config.parts.figures import FunctionsConfig
from bnn_atlas.data.split_data import SplitData
from bnn_atlas.inference.problem import Predictor, Problem
from bnn_atlas.metrics.gathering.summary import CLASS_BYTES, REGRESSION_BYTES, classification_terms
from bnn_atlas.metrics.tables.arrays import FunctionDraws, FunctionsError
from bnn_atlas.posterior import Predictive
from bnn_atlas.traces.draws import Draws, Selection, evenly

log = logging.getLogger(__name__)

LOT_BYTES = 256 * 2**20
"""Memory in bytes for the draws computed together, including their predictions at all inputs."""
LARGEST_BYTES = 2 * 2**30
"""Largest size in bytes of the resulting functions."""


def functions_of(problem: Problem, pool: Draws, config: FunctionsConfig) -> FunctionDraws:
    """Functions of the chosen chains and draws at the chosen inputs.

    Memory is bounded by `LARGEST_BYTES` for the result and `LOT_BYTES` for the work, plus the predictor's memory.

    Raises:
        FunctionsError: inputs on a line for rows of several numbers, no test rows, or too many values for memory.
    """
    rows = problem.split
    x, taken, y = _inputs(rows, config)
    chosen = _chosen(pool, config)
    classes = len(rows.classes)
    shape = (chosen.chains, chosen.draws, len(x))
    _check_size(shape, classes)
    divergent = np.zeros(shape[:2], dtype=bool)
    names = ("probabilities",) if classes else ("mean", "scale")
    arrays = {name: np.empty((*shape, *(classes,) * (classes > 0)), np.float32) for name in names}
    for chains, draws, valid, values in _values(problem, chosen, taken, classes):
        divergent[chains, draws] = ~valid
        for name, array in arrays.items():
            array[chains, draws] = values[name]
    table = rows.kind == "table"
    return FunctionDraws(
        x if np.issubdtype(x.dtype, np.integer) else np.asarray(x, np.float64),
        chosen.chain_ids,
        chosen.draw_ids,
        divergent,
        y=y,
        train_x=rows.x_fit[:, : rows.raw_shape[0]] if table else None,
        train_y=rows.y_fit if table else None,
        **arrays,
    )


def _inputs(rows: SplitData, config: FunctionsConfig) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Standardised inputs [n, ...], the same inputs as the network takes them, and the targets [n] of test rows."""
    if config.inputs == "line":
        if rows.raw_shape != (1,):
            raise FunctionsError(
                f"inputs 'line' needs a data set with one input, but rows of this data set have the shape "
                f"{list(rows.raw_shape)}: use inputs 'test'"
            )
        x = np.linspace(config.low, config.high, config.points)[:, None]
        return x, rows.taken(x), None
    count = len(rows.split.test)
    if not count:
        raise FunctionsError("inputs 'test' needs test rows: give the split a test fraction above 0")
    chosen = evenly(count, config.rows or count)
    taken = rows.x_test[chosen]
    x = taken[:, : rows.raw_shape[0]] if rows.kind == "table" else taken
    return x, taken, rows.y_test[chosen]


def _chosen(pool: Draws, config: FunctionsConfig) -> Selection:
    chain_idx = np.arange(pool.chains)[: config.chains]
    return Selection(pool, chain_idx, evenly(pool.draws, config.draws or pool.draws), np.arange(pool.size))


def _check_size(shape: tuple[int, int, int], classes: int) -> None:
    size = 4 * (classes or 2) * int(np.prod(shape, dtype=np.int64))
    if size > LARGEST_BYTES:
        raise FunctionsError(
            f"functions of {shape[0]} chains x {shape[1]} draws at {shape[2]} inputs take {size / 2**30:.3g} GiB, more "
            f"than {LARGEST_BYTES / 2**30:.3g}: lower chains, draws, rows or points in the figure's `functions`"
        )


def _values(
    problem: Problem, chosen: Selection, x: np.ndarray, classes: int
) -> Iterator[tuple[slice, slice, np.ndarray, dict[str, np.ndarray]]]:
    """Yield for each batch: chains, draws, whether each draw is finite [c, s], and values [c, s, n, ...] by name."""
    predictor = Predictor(problem.posterior, problem.data, 1e6 * problem.config.gradient_memory_mb)
    each = 3 * chosen.size * chosen.dtype.itemsize + len(x) * (CLASS_BYTES * classes or REGRESSION_BYTES)
    lot = max(1, LOT_BYTES // each)
    block = 0
    for chains, draws, array in chosen.batches(lot * chosen.size * chosen.dtype.itemsize):
        theta = array.reshape(-1, chosen.size)
        block = block or len(theta)  # the first lot is the largest; one size compiles once
        filled = np.concatenate([theta, np.repeat(theta[:1], block - len(theta), axis=0)])
        valid, values = _finite(predictor(filled, x), len(x))
        valid &= np.isfinite(filled).all(axis=1)
        for value in values.values():
            value[~valid] = np.nan
        lead = array.shape[:2]
        kept = {name: value[: len(theta)].reshape(*lead, *value.shape[1:]) for name, value in values.items()}
        yield chains, draws, valid[: len(theta)].reshape(lead), kept


def _finite(prediction: Predictive, rows: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Mask [b] of the draws with finite predictions, and the predictions as float32."""
    if prediction.log_probs is not None:
        terms = classification_terms(prediction, None, rows)
        return terms.valid, {"probabilities": np.array(terms.functions, np.float32)}
    with np.errstate(over="ignore"):  # numbers too large for float32 become infinite
        mean, scale = (np.array(leaf, np.float32) for leaf in (prediction.mean, prediction.scale))
    valid = (np.isfinite(mean) & np.isfinite(scale) & (scale > 0)).all(axis=1)
    return np.asarray(valid), {"mean": mean, "scale": scale}
