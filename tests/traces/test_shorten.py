"""The first draws of a trace as a separate trace, further attributes, and pools of blocks of different lengths."""

import logging

import numpy as np
import pytest
import xarray

from bnn_atlas.traces import TraceError, open_pool, open_trace, pool_traces
from bnn_atlas.traces import store as module
from bnn_atlas.traces.store import TraceWriter, shorten
from bnn_atlas.traces.zarr_metadata import amend

from .making import make_draws, make_statistics, write_trace


@pytest.mark.parametrize("draws", [1, 3, 4, 5, 8, 9, 10])
def test_the_first_draws_are_kept_bit_for_bit(make_trace, tmp_path, draws):
    """Within a segment of 4, at its end, and within the last one."""
    trace, values, statistics = make_trace(chain_ids=[7, 3, 4, 9, 1])
    shorten(trace.path, tmp_path / "short.zarr", draws, {"stopping": {"alpha": 0.1}})
    short = open_trace(tmp_path / "short.zarr")
    assert short.shape == (5, draws, values.shape[2])
    np.testing.assert_array_equal(short.read(), values[:, :draws], strict=True)
    assert set(short.statistics) == set(statistics)
    for name, expected in statistics.items():
        np.testing.assert_array_equal(short.statistic(name), expected[:, :draws], strict=True)
    assert (short.chain_ids.tolist(), short.draw_ids.tolist()) == ([7, 3, 4, 9, 1], list(range(draws)))
    assert short.attributes == {"fingerprint": "f", "study": "s", "stopping": {"alpha": 0.1}}
    assert len(list(short.path.glob("draws/c.*"))) == -(-draws // 4), "no file is left of what was cut off"
    with xarray.open_zarr(short.path) as dataset:
        np.testing.assert_array_equal(dataset["draws"], values[:, :draws])
    np.testing.assert_array_equal(trace.read(), values)


def test_segments_that_are_missing_behind_the_last_draw_do_not_matter(tmp_path):
    values, statistics = make_draws(3, 12), make_statistics(3, 12)
    write_trace(tmp_path / "part.zarr", values, statistics, only=(0, 1))
    shorten(tmp_path / "part.zarr", tmp_path / "short.zarr", 7, {})
    np.testing.assert_array_equal(open_trace(tmp_path / "short.zarr").read(), values[:, :7])
    with pytest.raises(TraceError, match="missing"):
        shorten(tmp_path / "part.zarr", tmp_path / "longer.zarr", 9, {})
    assert not (tmp_path / "longer.zarr").exists()


def test_an_interrupted_attempt_is_done_again(make_trace, tmp_path, monkeypatch):
    trace, values, _ = make_trace()
    write_rows = TraceWriter.write_rows

    def die(self, segment, rows, statistics):
        write_rows(self, segment, rows, statistics)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module.TraceWriter, "write_rows", die)
        with pytest.raises(KeyboardInterrupt):
            shorten(trace.path, tmp_path / "short.zarr", 6, {})
    assert not (tmp_path / "short.zarr").exists()
    for _ in range(2):
        shorten(trace.path, tmp_path / "short.zarr", 6, {})
        np.testing.assert_array_equal(open_trace(tmp_path / "short.zarr").read(), values[:, :6])


def test_attributes_are_added_to_what_is_there(make_trace):
    trace, values, _ = make_trace()
    amend(trace.path, {"stopping": {"stopped": False}, "study": "t"})
    again = open_trace(trace.path)
    assert again.attributes == {"fingerprint": "f", "study": "t", "stopping": {"stopped": False}}
    np.testing.assert_array_equal(again.read(), values)
    with xarray.open_zarr(trace.path) as dataset:
        assert dataset.attrs["study"] == "t"
    with pytest.raises(ValueError, match="a trace sets the attributes layout itself"):
        amend(trace.path, {"layout": 1})
    with pytest.raises(TraceError, match="no trace at"):
        amend(trace.path.with_name("absent"), {})


def report(chains, planned=10, alpha=0.01, **crossed):
    numbers = {str(chain): crossed.get(f"of{chain}") for chain in chains}
    stopped = all(numbers.values()) and max(numbers.values()) < planned
    return {"alpha": alpha, "planned_draws": planned, "stopped": stopped, "crossed": numbers}


@pytest.fixture
def stopped_blocks(make_trace, tmp_path):
    """Blocks stopped after 9 and 6 of 10 draws, and one that was not stopped."""
    whole = [make_trace(f"whole{i}", 2, chain_ids=ids, seed=i)[1:] for i, ids in enumerate(([0, 5], [3, 1], [4, 2]))]
    shorten(tmp_path / "whole0", tmp_path / "a", 9, {"stopping": report([0, 5], of0=9, of5=2)})
    shorten(tmp_path / "whole1", tmp_path / "b", 6, {"stopping": report([3, 1], of3=1, of1=6)})
    amend(tmp_path / "whole2", {"stopping": report([4, 2], of4=3)})
    values = np.concatenate([values for values, _ in whole])[[0, 3, 5, 2, 4, 1]]
    steps = np.concatenate([statistics["steps"] for _, statistics in whole])[[0, 3, 5, 2, 4, 1]]
    return [tmp_path / "a", tmp_path / "b", tmp_path / "whole2"], values, steps


def test_a_pool_has_the_draws_that_all_chains_have(stopped_blocks, tmp_path, caplog):
    paths, values, steps = stopped_blocks
    with caplog.at_level(logging.INFO):
        pool_traces(paths[::-1], tmp_path / "pool.json")
    assert "at 6 and 9 and 10 draws: the pool takes the first 6 draws of every chain and leaves 14 " in caplog.text
    pool = open_pool(tmp_path / "pool.json")
    assert (pool.shape, pool.draw_ids.tolist()) == ((6, 6, values.shape[2]), [0, 1, 2, 3, 4, 5])
    np.testing.assert_array_equal(pool.read(), values[:, :6])
    np.testing.assert_array_equal(pool.read([4, 1], slice(2, 20), [3]), values[[4, 1], 2:6][:, :, [3]])
    np.testing.assert_array_equal(pool.statistic("steps"), steps[:, :6])
    for chains, draws, batch in pool.batches(4000):
        np.testing.assert_array_equal(batch, values[chains, draws])
    with pytest.raises(IndexError, match="no draw at position 6"):
        pool.read(draws=[6])
    assert pool.attributes["stopping"] == {
        "alpha": 0.01,
        "planned_draws": 10,
        "stopped": True,
        "draws": {"0": 9, "5": 9, "3": 6, "1": 6, "4": 10, "2": 10},
        "crossed": {"0": 9, "5": 2, "3": 1, "1": 6, "4": 3, "2": None},
    }
    assert pool.to_arviz().posterior.sizes["draw"] == 6


def test_a_block_that_stops_elsewhere_after_pooling_is_a_change(stopped_blocks, tmp_path):
    paths, *_ = stopped_blocks
    pool_traces(paths, tmp_path / "pool.json")
    shorten(tmp_path / "whole0", tmp_path / "a", 5, {"stopping": report([0, 5], of0=5, of5=2)})
    with pytest.raises(TraceError, match=r"has changed since .* draws was 6 and is 5"):
        open_pool(tmp_path / "pool.json")


def test_rules_of_different_levels_or_lengths_are_not_pooled(make_trace, tmp_path):
    for name, ids, own in (
        ("a", [0, 1], report([0, 1])),
        ("b", [2, 3], report([2, 3], alpha=0.05)),
        ("c", [4, 5], report([4, 5], planned=20)),
    ):
        make_trace(name, 2, chain_ids=ids)
        amend(tmp_path / name, {"stopping": own})
    make_trace("d", 2, chain_ids=[6, 7])
    for other in "bcd":
        with pytest.raises(TraceError, match=r"cannot pool .*: their stopping differ"):
            pool_traces([tmp_path / "a", tmp_path / other], tmp_path / "pool.json")
