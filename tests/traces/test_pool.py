import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bnn_atlas.models.layout import Layout
from bnn_atlas.records import digests, held
from bnn_atlas.traces import TraceError, open_pool, open_trace, pool_traces

from .making import LAYOUT, make_draws, make_statistics, write_trace


def make_blocks(folder: Path) -> tuple[list[Path], np.ndarray, dict[str, np.ndarray]]:
    """Three blocks whose chain numbers interleave, in no order, and all of them in the order of their numbers."""
    ids = ([11, 2, 7], [0, 1], [9, 3])
    order = np.argsort(np.concatenate(ids))
    values = [make_draws(len(c), 10, seed=i) for i, c in enumerate(ids)]
    statistics = [make_statistics(len(c), 10, i) for i, c in enumerate(ids)]
    paths = [folder / f"block{i}" / "trace.zarr" for i in range(3)]
    for i, path in enumerate(paths):
        write_trace(path, values[i], statistics[i], chain_ids=ids[i])
    together = {name: np.concatenate([part[name] for part in statistics])[order] for name in statistics[0]}
    return paths, np.concatenate(values)[order], together


@pytest.fixture
def blocks(tmp_path):
    return make_blocks(tmp_path)


@pytest.fixture(scope="module")
def pooled(tmp_path_factory):
    """A pool that a test may read but not change, its draws and statistics."""
    folder = tmp_path_factory.mktemp("pooled")
    paths, values, statistics = make_blocks(folder)
    pool_traces(paths, folder / "pool" / "pool.json")
    return open_pool(folder / "pool" / "pool.json"), values, statistics


def test_chains_are_in_the_order_of_their_numbers(pooled):
    pool, values, statistics = pooled
    assert pool.chain_ids.tolist() == [0, 1, 2, 3, 7, 9, 11]
    assert (pool.chains, pool.draws, pool.shape) == (7, 10, values.shape)
    np.testing.assert_array_equal(pool.read(), values, strict=True)
    np.testing.assert_array_equal(
        pool.read([6, 0, 2], slice(8, 1, -3), [5, 1]), values[np.ix_([6, 0, 2], [8, 5, 2], [5, 1])]
    )
    assert pool.read([], slice(0), None).shape == (0, 0, LAYOUT.size)
    for name, expected in statistics.items():
        np.testing.assert_array_equal(pool.statistic(name), expected, strict=True)
    np.testing.assert_array_equal(pool.statistic("steps", slice(1, 3), [4]), statistics["steps"][1:3, [4]])
    with pytest.raises(KeyError, match="has no statistic 'absent'; it has energy_error"):
        pool.statistic("absent")


def test_a_pool_has_the_attributes_that_its_blocks_share(tmp_path):
    for block in (0, 1):
        made = {"commit": "c", "config": f"of {block}", "settings": {"method": {"kind": "hmc"}, "chains": [block]}}
        attributes = {"fingerprint": f"of {block}", "provenance": made, "notes": {"elbo": "a"}}
        write_trace(
            tmp_path / f"{block}", make_draws(1, 4), make_statistics(1, 4), chain_ids=[block], attributes=attributes
        )
    pool_traces([tmp_path / "0", tmp_path / "1"], tmp_path / "pool.json")
    assert open_pool(tmp_path / "pool.json").attributes == {
        "provenance": {"commit": "c", "settings": {"method": {"kind": "hmc"}}}, "notes": {"elbo": "a"}
    }  # fmt: skip


def test_the_pool_is_small_moves_with_its_blocks_and_ignores_their_order(blocks, tmp_path):
    paths, values, _ = blocks
    target = tmp_path / "pool" / "pool.json"
    pool_traces(paths[::-1], target)
    backwards = target.read_bytes()
    pool_traces(paths, target)
    assert target.read_bytes() == backwards
    assert str(tmp_path) not in target.read_text()
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("block0", "block1", "block2", "pool"):
        shutil.move(tmp_path / name, moved / name)
    np.testing.assert_array_equal(open_pool(moved / "pool" / "pool.json").read(), values)


@pytest.mark.parametrize("max_bytes", [1, 27 * 4, 27 * 4 * 7, 27 * 4 * 10, 27 * 4 * 25, 10**9])
def test_batches_hold_every_draw_once_chain_after_chain(pooled, max_bytes):
    pool, values, _ = pooled
    seen = np.full(values.shape, np.nan, dtype=values.dtype)
    places = []
    for chains, draws, batch in pool.batches(max_bytes):
        assert np.isnan(seen[chains, draws]).all()
        assert batch.nbytes <= max(max_bytes, 27 * 4)
        seen[chains, draws] = batch
        places += [(c, s) for c in range(7)[chains] for s in range(10)[draws]]
    np.testing.assert_array_equal(seen, values)
    assert places == sorted(places)


def test_batches_of_a_part_keep_its_positions(pooled):
    pool, values, _ = pooled
    for chains, draws, batch in pool.batches(
        27 * 4 * 4, chains=slice(1, 7, 2), draws=slice(1, None, 3), parameters=[3, 1]
    ):
        np.testing.assert_array_equal(batch, values[chains, draws][:, :, [3, 1]])
    with pytest.raises(ValueError, match="batches run forwards"):
        next(pool.batches(draws=slice(None, None, -1)))


def test_common_attributes_are_kept(make_trace, tmp_path):
    for i in range(2):
        make_trace(f"b{i}", chain_ids=range(5 * i, 5 * i + 5), attributes={"study": "s", "fingerprint": str(i)})
    pool_traces([tmp_path / "b0", tmp_path / "b1"], tmp_path / "pool.json")
    assert open_pool(tmp_path / "pool.json").attributes == {"study": "s"}


def renamed(layout: Layout) -> Layout:
    return Layout((replace(layout.parameters[0], name="layer0.kernel"), *layout.parameters[1:]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layout": renamed(LAYOUT)}, "layout differ"),
        ({"values": make_draws(3, 9)}, r"draws differ \(10 and 9\)"),
        ({"values": make_draws(3, 10, dtype="float64")}, r"dtype differ \(float32 and float64\)"),
        ({"statistics": {}}, "statistics differ"),
        ({"chain_ids": [5, 1, 6]}, "both hold chain 1"),
    ],
)  # fmt: skip
def test_blocks_that_do_not_belong_together_are_refused(make_trace, tmp_path, change, message):
    make_trace("one/trace.zarr", 3, 10)
    values = change.get("values", make_draws(3, 10))
    write_trace(
        tmp_path / "two" / "trace.zarr", values, change.get("statistics", make_statistics(3, values.shape[1])),
        chain_ids=change.get("chain_ids", [3, 4, 5]), layout=change.get("layout", LAYOUT),
    )  # fmt: skip
    paths = [tmp_path / "two" / "trace.zarr", tmp_path / "one" / "trace.zarr"]
    with pytest.raises(TraceError, match=rf"cannot pool {paths[1]} and {paths[0]}: .*{message}"):
        pool_traces(paths, tmp_path / "pool.json")
    assert not (tmp_path / "pool.json").exists()


def test_incomplete_missing_and_changed_blocks_are_refused(blocks, tmp_path, make_trace):
    paths, *_ = blocks
    target = tmp_path / "pool.json"
    with pytest.raises(TraceError, match="no blocks to pool"):
        pool_traces([], target)
    pool_traces(paths, target)
    shutil.rmtree(paths[0])
    with pytest.raises(TraceError, match=r"no trace at .*block0"):
        open_pool(target)
    with pytest.raises(TraceError, match=r"no trace at .*block0"):
        pool_traces(paths, target)
    make_trace("block0/trace.zarr", 3, 10, chain_ids=[11, 2, 8])
    with pytest.raises(TraceError, match=r"block0.* has changed .* chain_ids was .* Delete the pool, and run"):
        open_pool(target)
    (paths[0] / "draws" / "c.0.0.0").unlink()
    with pytest.raises(TraceError, match="incomplete"):
        pool_traces(paths, target)


def test_other_draws_of_the_same_shape_are_another_pool(blocks, tmp_path):
    paths, target = blocks[0], tmp_path / "pool" / "pool.json"

    def record() -> None:
        with held(paths[1]) as one:
            one.content = {"outputs": digests([paths[1]], tmp_path)}

    record()
    pool_traces(paths, target)
    before = target.read_bytes()
    assert open_pool(target).chains == 7
    shutil.rmtree(paths[1])
    write_trace(paths[1], make_draws(2, 10, seed=9), make_statistics(2, 10, 9), chain_ids=[0, 1])
    record()
    with pytest.raises(TraceError, match=r"block1.* has changed .* sha256 was .* Delete the pool, and run"):
        open_pool(target)
    pool_traces(paths, target)
    assert target.read_bytes() != before
    assert open_pool(target).chains == 7


@pytest.mark.parametrize("text", ["", "[]", '{"format": "bnn-atlas pool 1"}', '{"blocks": [{}]}'])
def test_a_damaged_pool_is_refused(tmp_path, text):
    (tmp_path / "pool.json").write_text(text)
    with pytest.raises(TraceError, match="is damaged"):
        open_pool(tmp_path / "pool.json")


def test_what_is_no_pool_is_refused(tmp_path):
    for path in (tmp_path / "pool.json", tmp_path, None, 3):
        with pytest.raises(TraceError, match="path of a pool"):
            open_pool(path)
    (tmp_path / "pool.json").write_text(json.dumps({"format": "x", "blocks": []}))
    with pytest.raises(TraceError, match="the format 'x'"):
        open_pool(tmp_path / "pool.json")


def test_damage_in_one_block_is_named_when_it_is_read(blocks, tmp_path):
    pool_traces(blocks[0], tmp_path / "pool.json")
    pool = open_pool(tmp_path / "pool.json")
    file = blocks[0][1] / "draws" / "c.0.0.0"
    raw = bytearray(file.read_bytes())
    raw[3] ^= 1
    file.write_bytes(raw)
    np.testing.assert_array_equal(pool.read(slice(2, None)), blocks[1][2:])
    with pytest.raises(TraceError, match=f"{file}"):
        pool.read()
    with pytest.raises(TraceError, match=f"{file}"):
        open_trace(blocks[0][1]).read()
