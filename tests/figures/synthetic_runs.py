"""Runs made from random numbers, scored by the metrics and written as the metrics rule writes them."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.signal import lfilter

from bnn_atlas.figures.diagnostics import RunFiles
from bnn_atlas.metrics.gathering.cost import Cost, Phase
from bnn_atlas.metrics.gathering.streaming import Limits, summarise
from bnn_atlas.metrics.judgement.evaluate import RunFacts, score, write_scored
from bnn_atlas.metrics.tables.measurement import RunIdentity
from bnn_atlas.models.layout import Layout, Parameter
from bnn_atlas.posterior import Predictive
from tests.metrics.conftest import MemoryPool, linear

LAYOUT = Layout(
    (Parameter("layer0.weight", (1, 2), "weight", 0, 2, 1), Parameter("log_sigma", (), "scale", None, 1, 1))
)
COST = Cost((Phase("burn-in", 100, 3.0), Phase("sampling", 400, 8.0)), 4, 2.0, ("cpu x86_64",), 1)


class Rows(NamedTuple):
    x_test: np.ndarray
    y_test: np.ndarray
    y_scale: float


def rows(seed: int = 0) -> Rows:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(12, 2))
    return Rows(x, x @ [0.5, -1.0] + 0.5 * rng.normal(size=12), 3.0)


def correlated(chains: int, draws: int, correlation: float = 0.6, seed: int = 0) -> np.ndarray:
    """Autoregressive draws [C, S, 3] of two weights and a log noise level, stationary from the first draw."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(chains, draws, 3)) * np.sqrt(1 - correlation**2)
    noise[:, 0] = rng.normal(size=(chains, 3))
    return np.array([0.5, -1.0, -0.7]) + 0.1 * lfilter([1.0], [1.0, -correlation], noise, axis=1)


def reported(theta: np.ndarray, seed: int = 1) -> dict[str, np.ndarray]:
    """Statistics as HMC reports them."""
    rng = np.random.default_rng(seed)
    shape = theta.shape[:2]
    change = rng.normal(0.2, 0.6, shape)
    return {
        "log_likelihood": -50 - 0.5 * np.sum((theta / 0.1) ** 2, axis=2),
        "log_prior": -0.5 * np.sum(theta**2, axis=2),
        "energy_change": change,
        "acceptance": np.minimum(1.0, np.exp(-change)),
        "cut_short": np.full(shape, 0.25),
        "divergent": np.zeros(shape, dtype=np.int32),
        "step_size": np.broadcast_to(np.geomspace(0.01, 0.03, shape[0])[:, None], shape).copy(),
        "gradients": np.full(shape, 20, dtype=np.int32),
    }


def write_run(
    folder: Path,
    theta: np.ndarray,
    statistics: dict[str, np.ndarray] | None = None,
    *,
    name: str = "synthetic",
    method: str = "hmc",
    cost: Cost | None = COST,
    layout: Layout = LAYOUT,
    predict=linear,
    data: Rows | None = None,
    limits: Limits | None = None,
) -> RunFiles:
    """Score draws [C, S, P] and write the seven files."""
    identity = RunIdentity("study", name, "demo", 0, "line", "mlp 16x16 relu", method)
    pool = MemoryPool(theta, statistics if statistics is not None else reported(theta), layout=layout)
    data = data or rows()
    summary = summarise(pool, predict, data.x_test, data.y_test, limits)
    scored = score(pool, summary, data, RunFacts(identity, cost))
    files = RunFiles(*(folder / f"{name}-{field}.parquet" for field in RunFiles._fields))
    write_scored(scored, files)
    return files


def last_layer(theta: np.ndarray, x: np.ndarray) -> Predictive:
    """`linear` on the last three of many parameters."""
    return linear(theta[:, -3:], x)
