"""Convergence of a run: R-hat and effective sample size of every parameter and of function values, as tables."""

import numpy as np
import pandas as pd
import pyarrow as pa

from bnn_atlas.metrics.mixing import Diagnostics, diagnose
from bnn_atlas.metrics.pools import DrawPool
from bnn_atlas.metrics.predictive import PredictiveSummary

WORKING_COPIES = 16
"""Float64 copies of the draws alive at once while a batch is diagnosed."""
RESOLUTION = 1e-6
"""Range of a probability below which its draws, in single precision, tell nothing."""
CHUNK = 128
"""Parameters per stored chunk; batches are multiples of it where memory allows."""

DIAGNOSTICS = Diagnostics._fields
_VALUES = [pa.field(name, pa.float64()) for name in DIAGNOSTICS]
PARAMETER_SCHEMA = pa.schema(
    [pa.field("name", pa.string()), pa.field("layer", pa.int64()), pa.field("role", pa.string()), *_VALUES]
)
FUNCTION_SCHEMA = pa.schema([pa.field("row", pa.int64()), pa.field("class", pa.int64()), *_VALUES])


def diagnose_parameters(pool: DrawPool, kept: np.ndarray, max_bytes: int, limit: int) -> pd.DataFrame:
    """Diagnostics of the scalar parameters over the chains `kept` (PARAMETER_SCHEMA).

    Of more than `limit` parameters, every second, third, ... one, so that no more than that are diagnosed.
    Parameters are read in batches; all draws of at least one parameter must fit in `max_bytes`.
    """
    layout, total = pool.layout, pool.layout.size
    stride = -(-total // limit)
    size = max(1, max_bytes // max(1, WORKING_COPIES * 8 * pool.chains * pool.draws))
    size = size // CHUNK * CHUNK or size
    span = max(1, min(size, size * WORKING_COPIES // stride)) * stride
    parts = []
    for start in range(0, total if len(kept) else 0, span):
        draws = pool.read(slice(0, pool.chains), slice(0, pool.draws), slice(start, min(start + span, total)))
        parts.append(diagnose(draws[kept, :, ::stride]))
    chosen = np.arange(0, total, stride)
    frame = pd.DataFrame(_joined(parts, len(chosen)))
    arrays = np.repeat(np.arange(len(layout.parameters)), [p.size for p in layout.parameters])[chosen]
    frame.insert(0, "name", [layout.name(index) for index in chosen.tolist()])
    frame.insert(1, "layer", pd.Series([p.layer for p in layout.parameters], dtype="Int64")[arrays].array)
    frame.insert(2, "role", np.array([p.role for p in layout.parameters], dtype=object)[arrays])
    return frame


def diagnose_functions(summary: PredictiveSummary, max_bytes: int) -> pd.DataFrame:
    """Diagnostics of the function values that the summary kept (FUNCTION_SCHEMA); `class` is empty for regression.

    They are diagnosed in batches; all draws of at least one function value must fit in `max_bytes`. A probability that
    stays within `RESOLUTION` counts as constant, and has no diagnostics: what moves there is its rounding.
    """
    kept, total = summary.kept, len(summary.function_rows)
    size = max(1, max_bytes // max(1, WORKING_COPIES * 8 * len(kept) * summary.draws))
    starts = range(0, total if len(kept) else 0, size)
    frame = pd.DataFrame(_joined([diagnose(_resolved(summary, kept, slice(i, i + size))) for i in starts], total))
    frame.insert(0, "row", summary.function_rows)
    classes = pd.Series(summary.function_classes, dtype="Int64")
    frame.insert(1, "class", classes.mask(classes < 0))
    return frame


def _resolved(summary: PredictiveSummary, kept: np.ndarray, part: slice) -> np.ndarray:
    """Draws [c, S, q] of some function values, those of probabilities that hardly move made constant."""
    draws = summary.function_draws[kept, :, part]
    still = (summary.function_classes[part] >= 0) & (np.ptp(draws, axis=(0, 1)) < RESOLUTION)
    return np.where(still, draws[:1, :1], draws) if still.any() else draws


def _joined(parts: list[Diagnostics], total: int) -> dict[str, np.ndarray]:
    """Columns of all batches; NaN throughout if there was nothing to diagnose."""
    if not parts:
        return {name: np.full(total, np.nan) for name in DIAGNOSTICS}
    return {name: np.concatenate([getattr(part, name) for part in parts]) for name in DIAGNOSTICS}
