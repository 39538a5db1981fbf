"""A referee of a run with too large steps, on a Gaussian posterior whose log densities are known."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bnn_atlas import NetworkPosterior, build_posterior, predict, sample, starting_points
from bnn_atlas.metrics.gathering import summary as summaries
from bnn_atlas.pipeline.steps.score import score_referee
from bnn_atlas.pipeline.steps.starts import take_starts
from bnn_atlas.traces.pool import open_pool

from .making import IDENTITY

CHAINS, INPUTS, ROWS, SIGMA = 4, 60, 200, 0.5
NUMBERS = np.random.default_rng(2)
# Orthogonal inputs of sizes from 1 to 4, so that the posterior has standard deviations in the ratio 4 : 1.
X = np.linalg.qr(NUMBERS.standard_normal((ROWS, INPUTS)))[0] * np.sqrt(ROWS) * np.geomspace(1, 4, INPUTS)
Y = X @ NUMBERS.standard_normal(INPUTS) + SIGMA * NUMBERS.standard_normal(ROWS)
LINEAR: dict[str, Any] = {
    "model": {"kind": "mlp", "hidden": []},
    "likelihood": {"kind": "gaussian", "sigma": SIGMA},
}
LARGE_STEPS = {
    "kind": "mclmc", "warmup": 2000, "steps": 8000, "thinning": 4, "energy_variance_start": 5.0,
    "energy_variance_end": 5.0,
}  # fmt: skip
SMALL_STEPS = LARGE_STEPS | {"energy_variance_start": 0.001, "energy_variance_end": 0.001}
MINI_BATCHES = {"kind": "smile", "burn_in": 4000, "steps": 6000, "thinning": 4, "batch_size": 50, "step_size": 0.02}
EXACT = {"kind": "adjusted_mclmc", "mass": "unit", "warmup": 200, "steps": 1000, "step_size": 0.02}


def level() -> tuple[float, float]:
    """Mean and standard deviation of the log-likelihood under the posterior N(m, C)."""
    design = np.column_stack([X, np.ones(ROWS)])
    covariance = np.linalg.inv(design.T @ design / SIGMA**2 + np.eye(INPUTS + 1))
    mean = covariance @ design.T @ Y / SIGMA**2
    inner = design @ covariance @ design.T / SIGMA**2
    residual = (Y - design @ mean) / SIGMA
    expected = -0.5 * (residual @ residual + np.trace(inner)) - ROWS * np.log(SIGMA * np.sqrt(2 * np.pi))
    return float(expected), float(np.sqrt(0.5 * np.trace(inner @ inner) + residual @ inner @ residual))


@pytest.fixture(scope="module")
def posterior() -> NetworkPosterior:
    return build_posterior(X.astype(np.float32), Y.astype(np.float32), LINEAR)


def judged(posterior: NetworkPosterior, folder: Path, method: dict[str, Any]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Sample with a method, go on with a Metropolis test from its last draws, and compare."""
    starts = starting_points(posterior, CHAINS, training={"max_epochs": 200, "batch_size": None, "patience": None})
    pools = {"run": sample(posterior, method, starts, folder / "run", seed=1)}
    take_starts(folder / "run/pool.json", [], folder / "start.npz", draw="last", array=None, members=range(CHAINS))
    with np.load(folder / "start.npz") as stored:
        pools["referee"] = sample(posterior, EXACT, stored["parameters"], folder / "referee", seed=2)
    for name, pool in pools.items():
        rows = X[:50].astype(np.float32), Y[:50].astype(np.float32)
        summaries.save(folder / f"{name}.npz", predict(posterior, pool, *rows))
    files = [folder / file for file in ("run/pool.json", "run.npz", "referee/pool.json", "referee.npz")]
    outputs = {"table": folder / "referee.parquet", "chains": folder / "chains.parquet"}
    score_referee(*files, **outputs, identity=IDENTITY, marks=["scaled with all rows"])
    return pd.read_parquet(outputs["table"]).set_index("metric"), pd.read_parquet(outputs["chains"])


@pytest.mark.slow
def test_the_referee_of_too_large_steps_finds_the_level_of_the_posterior(
    posterior: NetworkPosterior, tmp_path: Path
) -> None:
    expected, sd = level()
    table, chains = judged(posterior, tmp_path, LARGE_STEPS)
    assert table.value["referee_mixed"] == 1, table.note["referee_mixed"]
    # The covariance of the run is far too large in the directions with small variance, which lowers its level.
    assert (chains["log_likelihood_before"] < expected - 8 * sd).all()
    assert chains["log_likelihood_after"].mean() == pytest.approx(expected, abs=0.25 * sd)
    change = expected - chains["log_likelihood_before"]
    assert table.value["referee_log_likelihood_change"] == pytest.approx(change.mean(), abs=0.25 * sd)
    shift, error = table.loc["referee_log_likelihood_shift", ["value", "standard_error"]]
    assert shift == pytest.approx((change / chains["log_likelihood_sd"]).mean(), rel=0.15)
    assert shift > 5 * error > 0
    assert table.note.str.endswith("scaled with all rows").all()


@pytest.mark.slow
def test_the_referee_of_small_steps_changes_next_to_nothing(posterior: NetworkPosterior, tmp_path: Path) -> None:
    expected, sd = level()
    table, chains = judged(posterior, tmp_path, SMALL_STEPS)
    assert table.value["referee_mixed"] == 1, table.note["referee_mixed"]
    assert chains["log_likelihood_before"].mean() == pytest.approx(expected, abs=0.25 * sd)
    assert abs(table.value["referee_log_likelihood_shift"]) < 0.3
    assert abs(table.value["referee_lppd_change"]) < 0.02


@pytest.mark.slow
def test_a_referee_with_all_rows_continues_chains_of_mini_batches(posterior: NetworkPosterior, tmp_path: Path) -> None:
    """It starts from SMILE's last draws, mixes, and finds the level of the posterior, which SMILE misses."""
    expected, sd = level()
    table, chains = judged(posterior, tmp_path, MINI_BATCHES)
    with np.load(tmp_path / "start.npz") as stored:
        np.testing.assert_array_equal(stored["parameters"], open_pool(tmp_path / "run/pool.json").read()[:, -1])
    assert table.value["referee_mixed"] == 1, table.note["referee_mixed"]
    assert chains["log_likelihood_after"].mean() == pytest.approx(expected, abs=0.25 * sd)
    change = table.value["referee_log_likelihood_change"]
    assert change == pytest.approx(expected - chains["log_likelihood_before"].mean(), abs=0.25 * sd)
    assert abs(change) > 0.3 * sd
