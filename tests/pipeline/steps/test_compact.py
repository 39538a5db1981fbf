"""Draws from compact representations: moments of draws and of frames, independence of blocks, refusals."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bnn_atlas.data import DataError
from bnn_atlas.pipeline.steps.starts import compact_starts
from bnn_atlas.symmetry.compact import moments
from bnn_atlas.symmetry.frame import MOMENTS, VARIANTS, Frame, save_frame
from bnn_atlas.traces.pool import open_pool, pool_traces
from tests.traces.making import make_statistics, write_trace

from .making import LAYOUT

pytestmark = pytest.mark.bits

CHAINS, DRAWS, SIZE = 2, 40, LAYOUT.size
MEMBERS = list(range(3000))


@pytest.fixture(scope="module")
def values() -> np.ndarray:
    """Draws whose first two parameters are correlated."""
    generator = np.random.default_rng(0)
    found = 1 + 0.5 * generator.standard_normal((CHAINS, DRAWS, SIZE))
    found[..., 1] = found[..., 0] + 0.1 * found[..., 1]
    return found.astype(np.float32)


def pool(folder: Path, draws: np.ndarray) -> Path:
    write_trace(folder / "trace.zarr", draws, make_statistics(*draws.shape[:2]), layout=LAYOUT)
    pool_traces([folder / "trace.zarr"], folder / "pool.json")
    return folder / "pool.json"


def frame(path: Path, size: int = SIZE) -> Path:
    """A frame with mean 3, sd 0.2 and one direction."""
    parts = {f"{variant}_{moment}": np.zeros(size, np.float32) for variant in VARIANTS for moment in MOMENTS}
    parts |= {"aligned_mean": np.full(size, 3.0), "aligned_sd": np.full(size, 0.2, np.float32)}
    units = np.zeros((CHAINS, DRAWS, 1), np.int16)
    common: dict[str, Any] = {
        "chain_ids": np.arange(CHAINS), "draw_ids": np.arange(DRAWS), "finite": np.ones((CHAINS, DRAWS), bool),
        "units": units, "signs": np.ones_like(units, np.int8), "chain_units": units[:, 0],
        "chain_signs": np.ones((CHAINS, 1), np.int8), "objective": np.zeros(1), "fixed": True,
        "target": np.zeros(size),
    }  # fmt: skip
    save_frame(path, Frame(moments=parts, factor=np.full((1, size), 0.2, np.float32), **common))
    return path


def drawn(source: Path, folder: Path, aligned: Path | None = None, **settings: Any) -> np.ndarray:
    given = {
        "form": "diagonal",
        "rank": 50,
        "members": MEMBERS,
        "seed": 4,
        "model": {"kind": "mlp", "hidden": []},
        **settings,
    }
    compact_starts(source, aligned, folder / "starts.npz", **given)
    with np.load(folder / "starts.npz") as arrays:
        assert arrays["members"].tolist() == given["members"]
        return arrays["parameters"]


def test_diagonal_and_low_rank_draws_have_the_moments_of_the_draws(values: np.ndarray, tmp_path: Path) -> None:
    source, rows = pool(tmp_path, values), values.reshape(-1, SIZE).astype(float)
    mean, sd = rows.mean(axis=0), rows.std(axis=0, ddof=1)
    diagonal, low_rank = (drawn(source, tmp_path, form=form, rank=100)[:, :4] for form in ("diagonal", "low_rank"))
    for found in (diagonal, low_rank):
        np.testing.assert_allclose(found.mean(axis=0), mean[:4], atol=5 * 0.5 / np.sqrt(3000))
        np.testing.assert_allclose(found.std(axis=0), sd[:4], rtol=0.07)
    expected = np.corrcoef(rows[:, 0], rows[:, 1])[0, 1]
    assert abs(np.corrcoef(diagonal[:, 0], diagonal[:, 1])[0, 1]) < 0.1
    assert np.corrcoef(low_rank[:, 0], low_rank[:, 1])[0, 1] == pytest.approx(expected, abs=0.02)
    np.testing.assert_allclose(drawn(source, tmp_path, form="mean", members=[0])[0], mean, rtol=1e-5)


@pytest.mark.parametrize("rank", [100, None])
def test_all_directions_need_no_factor(values: np.ndarray, tmp_path: Path, rank: int | None) -> None:
    """With as many directions as there are, both ways give the covariance of the draws; few chains are taken."""
    rows = values[0].astype(float)
    found = drawn(pool(tmp_path, values), tmp_path, form="low_rank", rank=rank, chains=1, members=list(range(8000)))
    np.testing.assert_allclose(found.mean(axis=0), rows.mean(axis=0), atol=0.03)
    np.testing.assert_allclose(np.cov(found[:, :6].T), np.cov(rows[:, :6].T), atol=0.015)
    basis = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)[2][: DRAWS - 1]
    outside = (found - rows.mean(axis=0)) - (found - rows.mean(axis=0)) @ basis.T @ basis
    assert np.abs(outside).max() < 1e-4, "no draw leaves the directions of the draws"


def test_a_frame_gives_the_moments_of_aligned_draws(values: np.ndarray, tmp_path: Path) -> None:
    source, aligned = pool(tmp_path, values), frame(tmp_path / "frame.npz")
    found = drawn(source, tmp_path, aligned)
    assert found.mean() == pytest.approx(3.0, abs=0.01)
    assert found.std() == pytest.approx(0.2, rel=0.02)
    low_rank = drawn(source, tmp_path, aligned, form="low_rank", rank=1)
    np.testing.assert_allclose(low_rank, np.repeat(low_rank[:, :1], SIZE, axis=1), rtol=1e-5)


def test_blocks_change_no_bit(values: np.ndarray, tmp_path: Path) -> None:
    source = pool(tmp_path, values)
    whole = drawn(source, tmp_path, members=[0, 1, 2, 3])
    np.testing.assert_array_equal(drawn(source, tmp_path, members=[3, 1]), whole[[3, 1]])
    every = {"form": "low_rank", "rank": None}
    whole = drawn(source, tmp_path, members=[0, 1, 2, 3], **every)
    np.testing.assert_array_equal(drawn(source, tmp_path, members=[3, 1], **every), whole[[3, 1]])


def test_draws_that_are_not_finite_are_left_out(values: np.ndarray, tmp_path: Path) -> None:
    broken = values.copy()
    broken[1, 3, 7] = np.nan
    found = moments(open_pool(pool(tmp_path, broken)))
    kept = np.delete(broken.reshape(-1, SIZE), DRAWS + 3, axis=0).astype(float)
    assert found.draws == CHAINS * DRAWS - 1
    np.testing.assert_allclose(found.mean, kept.mean(axis=0))
    np.testing.assert_allclose(found.sd, kept.std(axis=0, ddof=1), rtol=1e-6)


def test_no_finite_draws_and_other_frames_are_refused(values: np.ndarray, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="none of its draws is finite"):
        drawn(pool(tmp_path / "a", np.full_like(values, np.nan)), tmp_path)
    single = np.full_like(values, np.nan)
    single[0, 0] = 1.0
    with pytest.raises(DataError, match="1 finite draws have no spread"):
        drawn(pool(tmp_path / "b", single), tmp_path)
    with pytest.raises(DataError, match="align them again"):
        drawn(pool(tmp_path / "c", values), tmp_path, frame(tmp_path / "other.npz", SIZE - 1))
