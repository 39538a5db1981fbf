"""Starts from positions of another run."""

from pathlib import Path

import numpy as np
import pytest

from bnn_atlas.data import DataError
from bnn_atlas.pipeline.steps.starts import take_starts
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
    take_starts(pool, [], tmp_path / "start.npz", draw="last", array=None, members=[2, 3, 4])
    with np.load(tmp_path / "start.npz") as stored:
        assert stored["members"].tolist() == [2, 3, 4]
        np.testing.assert_array_equal(stored["parameters"], make_draws(CHAINS, DRAWS)[[2, 0, 1], -1])


def test_the_best_draws_have_the_highest_log_posterior(pool: Path, tmp_path: Path) -> None:
    take_starts(pool, [], tmp_path / "start.npz", draw="best", array=None, members=[0, 1, 2])
    posterior = np.random.default_rng(1).standard_normal((CHAINS, DRAWS)) - 0.1 * np.arange(DRAWS)
    best = posterior.argmax(axis=1)
    assert len(set(best)) > 1
    with np.load(tmp_path / "start.npz") as stored:
        np.testing.assert_array_equal(stored["parameters"], make_draws(CHAINS, DRAWS)[range(CHAINS), best])


def test_other_positions_are_those_of_all_blocks_in_order(tmp_path: Path) -> None:
    blocks = np.arange(10.0).reshape(5, 2)
    for name, rows in {"a": blocks[:3], "b": blocks[3:]}.items():
        np.savez(tmp_path / f"{name}.npz", mean=rows, sd=rows + 1)
    files = [tmp_path / "a.npz", tmp_path / "b.npz"]
    take_starts([], files, tmp_path / "start.npz", draw="mean", array="mean", members=[4, 5, 3])
    with np.load(tmp_path / "start.npz") as stored:
        assert stored["members"].tolist() == [4, 5, 3]
        np.testing.assert_array_equal(stored["parameters"], blocks[[4, 0, 3]])


def test_positions_that_are_not_there_or_not_finite_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "fit.npz"
    np.savez(file, mean=np.array([[1.0], [np.nan]]))
    take_starts([], [file], tmp_path / "start.npz", draw="mean", array="mean", members=[0])
    with pytest.raises(DataError, match=r"fit\.npz: 'mean' of chain 1 is not finite"):
        take_starts([], [file], tmp_path / "start.npz", draw="mean", array="mean", members=[2, 3])
    with pytest.raises(DataError, match="'location'"):
        take_starts([], [file], tmp_path / "start.npz", draw="mean", array="location", members=[0])
