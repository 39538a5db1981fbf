"""Starts from the draws of another run."""

from pathlib import Path

import numpy as np
import pytest

from bnn_atlas.steps.start import start_from_draws
from bnn_atlas.traces.pool import pool_traces
from tests.traces.making import make_draws, write_trace

CHAINS, DRAWS = 3, 5


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    likelihood = np.random.default_rng(1).standard_normal((CHAINS, DRAWS))
    statistics = {"log_likelihood": likelihood, "log_prior": np.zeros((CHAINS, DRAWS)) - 0.1 * np.arange(DRAWS)}
    write_trace(tmp_path / "trace", make_draws(CHAINS, DRAWS), statistics)
    pool_traces([tmp_path / "trace"], tmp_path / "pool.json")
    return tmp_path / "pool.json"


def test_the_last_draws_start_chains_in_turn(pool: Path, tmp_path: Path) -> None:
    start_from_draws(pool, tmp_path / "start.npz", draw="last", members=[2, 3, 4])
    with np.load(tmp_path / "start.npz") as stored:
        assert stored["members"].tolist() == [2, 3, 4]
        np.testing.assert_array_equal(stored["parameters"], make_draws(CHAINS, DRAWS)[[2, 0, 1], -1])


def test_the_best_draws_have_the_highest_log_posterior(pool: Path, tmp_path: Path) -> None:
    start_from_draws(pool, tmp_path / "start.npz", draw="best", members=[0, 1, 2])
    posterior = np.random.default_rng(1).standard_normal((CHAINS, DRAWS)) - 0.1 * np.arange(DRAWS)
    best = posterior.argmax(axis=1)
    assert len(set(best)) > 1
    with np.load(tmp_path / "start.npz") as stored:
        np.testing.assert_array_equal(stored["parameters"], make_draws(CHAINS, DRAWS)[range(CHAINS), best])
