"""Small traces that the tests write."""

from pathlib import Path
from typing import Any

import numpy as np

from bnn_atlas.models.layout import Layout, Parameter
from bnn_atlas.traces import TraceWriter

STATISTICS = {"energy_error": "float32", "log_prior": "float64", "steps": "int32", "divergent": "bool"}
LAYOUT = Layout(
    (
        Parameter("layer0.weight", (4, 3), "weight", 0, 3, 4),
        Parameter("layer0.bias", (4,), "bias", 0, 3, 4),
        Parameter("layer1.weight", (2, 4), "weight", 1, 4, 2),
        Parameter("layer1.bias", (2,), "bias", 1, 4, 2),
        Parameter("log_sigma", (), "scale", None, 1, 1),
    )
)


def make_draws(chains: int, draws: int, size: int = LAYOUT.size, seed: int = 0, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((chains, draws, size)).astype(dtype)


def make_statistics(chains: int, draws: int, seed: int = 0) -> dict[str, np.ndarray]:
    numbers = np.random.default_rng(seed + 1)
    return {
        "energy_error": numbers.standard_normal((chains, draws)).astype("float32"),
        "log_prior": numbers.standard_normal((chains, draws)),
        "steps": numbers.integers(0, 2, (chains, draws), dtype="int32"),
        "divergent": np.zeros((chains, draws), dtype=bool),
    }


def write_trace(
    path: Path,
    values: np.ndarray,
    statistics: dict[str, np.ndarray],
    *,
    segment: int = 4,
    chain_ids: Any = None,
    layout: Layout = LAYOUT,
    attributes: dict[str, Any] | None = None,
    only: tuple[int, ...] | None = None,
) -> TraceWriter:
    chains, draws, _ = values.shape
    writer = TraceWriter.create(
        path,
        chains=chains,
        draws=draws,
        layout=layout,
        statistics={name: array.dtype.name for name, array in statistics.items()},
        segment=segment,
        chain_ids=range(chains) if chain_ids is None else chain_ids,
        attributes=attributes or {"fingerprint": "f", "study": "s"},
        dtype=values.dtype.name,
    )
    for k in range(writer.segments) if only is None else only:
        part = slice(k * writer.segment, (k + 1) * writer.segment)
        writer.write(k, values[:, part], {name: array[:, part] for name, array in statistics.items()})
    return writer
