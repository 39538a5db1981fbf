import errno
import json
import multiprocessing
import os
import resource
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import xarray
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from zarr.codecs import Crc32cCodec

from bnn_atlas.models.layout import Layout, Parameter
from bnn_atlas.traces import TraceError, TraceWriter, open_trace, shard
from bnn_atlas.traces.shard import choose_form
from bnn_atlas.traces.zarr_metadata import read_header

from .making import LAYOUT, STATISTICS, make_draws, make_statistics, write_trace


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_is_written_is_read(make_trace, dtype):
    trace, values, statistics = make_trace(dtype=dtype)
    assert (trace.chains, trace.draws, trace.size, trace.dtype) == (5, 10, LAYOUT.size, np.dtype(dtype))
    assert trace.layout == LAYOUT
    assert trace.parameter_names == tuple(LAYOUT.names())
    assert trace.attributes == {"fingerprint": "f", "study": "s"}
    np.testing.assert_array_equal(trace.read(), values, strict=True)
    for name, expected in statistics.items():
        np.testing.assert_array_equal(trace.statistic(name), expected, strict=True)
    np.testing.assert_array_equal(trace.statistic("steps", [3, 0], slice(2, 9)), statistics["steps"][[3, 0], 2:9])


def test_bits_of_nan_and_infinity_are_kept(tmp_path):
    values = make_draws(2, 3)
    values[0, 0, 0], values[1, 2, 5] = np.nan, -np.inf
    write_trace(tmp_path / "t", values, {})
    assert open_trace(tmp_path / "t").read().tobytes() == values.tobytes()


axis = st.one_of(st.none(), st.slices(5), st.lists(st.integers(0, 4), max_size=6))


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """5 chains x 5 draws in segments of 2 x 5 of 300 scalars in several columns and groups of inner chunks."""
    path = tmp_path_factory.mktemp("wide") / "trace.zarr"
    layout = Layout((Parameter("layer0.weight", (100, 3), "weight", 0, 3, 100),))
    values = make_draws(5, 5, 300)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shard, "CHUNK_BYTES", 2 * 2 * 32 * 4)
        write_trace(path, values, {}, segment=2, layout=layout)
    trace = open_trace(path)
    assert (trace.chains_per_chunk, trace.draws_per_chunk) == (2, 2)
    return trace, values


@settings(max_examples=60, deadline=None)
@given(chains=axis, draws=axis, parameters=st.one_of(st.none(), st.slices(300), st.lists(st.integers(0, 299))))
def test_reading_a_part_equals_indexing_the_whole(wide, chains, draws, parameters):
    trace, values = wide
    keys = (
        np.arange(n)[slice(None) if k is None else k] if k != [] else np.arange(0)
        for n, k in zip(values.shape, (chains, draws, parameters), strict=True)
    )
    np.testing.assert_array_equal(trace.read(chains, draws, parameters), values[np.ix_(*keys)], strict=True)


@pytest.mark.parametrize(
    ("parameters", "read_bytes", "chunks"),
    [
        (slice(130, 140), shard.READ_BYTES, [1]),
        (slice(130, 170), shard.READ_BYTES, [2]),
        ([299, 0, 40], shard.READ_BYTES, [2, 1]),
        (slice(130, 290), 2 * (2 * 2 * 32 * 4 + 4), [2, 2, 2]),
        (slice(130, 170), 1, [1, 1]),
    ],
)
def test_only_the_chunks_asked_for_are_read_and_adjoining_ones_together(
    wide, monkeypatch, parameters, read_bytes, chunks
):
    trace, values = wide
    taken = []
    read = shard._read
    monkeypatch.setattr(shard, "READ_BYTES", read_bytes)
    monkeypatch.setattr(
        shard, "_read", lambda path, handle, offset, raw: taken.append(raw.size) or read(path, handle, offset, raw)
    )
    np.testing.assert_array_equal(trace.read(slice(0, 2), slice(0, 2), parameters), values[:2, :2][:, :, parameters])
    index, *sizes = taken
    assert index == 3 * 10 * 16 + 4
    assert sizes == [number * (2 * 2 * 32 * 4 + 4) for number in chunks]


def test_the_first_damaged_file_is_named_however_many_are_read_at_once(make_trace):
    trace, *_ = make_trace(draws=30)
    for segment in (6, 2):
        file = trace.path / "draws" / f"c.0.{segment}.0"
        file.write_bytes(b"\0" * file.stat().st_size)
    with pytest.raises(TraceError, match=r"c\.0\.2\.0: the checksum"):
        trace.read()


@pytest.mark.parametrize("where", [{"chains": [5]}, {"draws": [-1]}, {"parameters": [300]}, {"chains": [0.5]}])
def test_positions_outside_are_refused(wide, where):
    with pytest.raises(IndexError, match=next(iter(where))[:-1]):
        wide[0].read(**where)


def test_zarr_reads_what_is_written_and_the_other_way_round(tmp_path, make_trace):
    trace, values, statistics = make_trace()
    group = zarr.open_group(str(trace.path), mode="r")
    np.testing.assert_array_equal(group["draws"][:], values, strict=True)
    np.testing.assert_array_equal(group["draws"].oindex[:, 3:9:2, np.array([1, 20])], values[:, 3:9:2, [1, 20]])
    for name, expected in statistics.items():
        np.testing.assert_array_equal(group[name][:], expected, strict=True)
    assert group["draws"].metadata.dimension_names == ("chain", "draw", "parameter")
    other = tmp_path / "other"
    shutil.copytree(trace.path, other)
    draws = zarr.open_group(str(other))["draws"]
    draws[:] = values[::-1]
    np.testing.assert_array_equal(open_trace(other).read(), values[::-1])


def test_xarray_opens_a_store(make_trace):
    trace, values, statistics = make_trace(chain_ids=[7, 3, 11, 4, 0])
    dataset = xarray.open_zarr(trace.path)
    np.testing.assert_array_equal(dataset["draws"], values)
    np.testing.assert_array_equal(dataset["draws"].sel(chain=11, draw=9), values[2, 9])
    assert dataset["divergent"].dtype == bool
    np.testing.assert_array_equal(dataset["steps"], statistics["steps"])


def test_a_segment_written_again_is_replaced_whatever_is_there(make_trace):
    trace, values, statistics = make_trace()
    file = trace.path / "draws" / "c.0.1.0"
    file.write_bytes(b"half a shard")
    writer = TraceWriter.open(trace.path)
    part = slice(4, 8)
    writer.write(1, values[:, part], {name: array[:, part] for name, array in statistics.items()})
    np.testing.assert_array_equal(open_trace(trace.path).read(), values)


def test_writing_goes_on_after_a_stop(tmp_path):
    values, statistics = make_draws(5, 10), make_statistics(5, 10)
    write_trace(tmp_path / "t", values, statistics, only=(0, 1))
    assert TraceWriter.open(tmp_path / "t").missing() == (2,)
    with pytest.raises(TraceError, match=r"1 of 3 segments are missing.*/energy_error/c\.0\.2"):
        open_trace(tmp_path / "t")
    early = open_trace(tmp_path / "t", incomplete=True)
    np.testing.assert_array_equal(early.read(draws=slice(0, 8)), values[:, :8])
    with pytest.raises(TraceError, match=r"c\.0\.2\.0 of array 'draws' is missing"):
        early.read(draws=slice(7, 9))
    with pytest.raises(TraceError, match="'steps' is missing"):
        early.statistic("steps")
    write_trace(tmp_path / "t", values, statistics, only=(2,))
    np.testing.assert_array_equal(open_trace(tmp_path / "t").read(), values)


def test_the_bytes_do_not_depend_on_how_often_or_in_which_order_segments_are_written(tmp_path):
    values, statistics = make_draws(5, 10), make_statistics(5, 10)
    for name, order in (("a", (0, 1, 2)), ("b", (2, 0, 1, 1, 0))):
        write_trace(tmp_path / name, values, statistics, only=order)
    contents = [
        {f.relative_to(tmp_path / n): f.read_bytes() for f in (tmp_path / n).rglob("*") if f.is_file()} for n in "ab"
    ]
    assert contents[0] == contents[1]


@contextmanager
def flipped_bit(file: Path, draw: Callable[[st.SearchStrategy[int]], int]) -> Iterator[None]:
    right = file.read_bytes()
    wrong = bytearray(right)
    wrong[draw(st.integers(0, len(right) - 1))] ^= 1 << draw(st.integers(0, 7))
    file.write_bytes(wrong)
    try:
        yield
    finally:
        file.write_bytes(right)


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
    """A finished trace whose files a test may change if it puts them back."""
    path = tmp_path_factory.mktemp("intact") / "trace.zarr"
    write_trace(path, make_draws(5, 10), make_statistics(5, 10))
    return open_trace(path)


@pytest.mark.parametrize("name", ["draws/c.0.1.0", "energy_error/c.0.1", "divergent/c.0.0"])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_flipped_bit_is_found(intact, name, data):
    file, array = intact.path / name, name.split("/")[0]
    message = f"array '{array}' is damaged.*{file}.*Delete the block's folder"
    with flipped_bit(file, data.draw), pytest.raises(TraceError, match=message):
        intact.read() if array == "draws" else intact.statistic(array)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_a_flipped_bit_in_the_metadata_is_found_or_changes_nothing(intact, data):
    with flipped_bit(data.draw(st.sampled_from(sorted(intact.path.rglob("zarr.json")))), data.draw):
        try:
            again = open_trace(intact.path)
        except TraceError:
            pass
        else:
            np.testing.assert_array_equal(again.read(), intact.read())
            assert (again.layout, again.attributes) == (intact.layout, intact.attributes)


@pytest.mark.parametrize("name", ["draws/c.0.1.0", "energy_error/c.0.1", "chain/c.0"])
@pytest.mark.parametrize("left", [0, 10, -1])
def test_a_truncated_file_is_found_at_opening(make_trace, name, left):
    trace, *_ = make_trace()
    file = trace.path / name
    os.truncate(file, left if left >= 0 else file.stat().st_size - 1)
    with pytest.raises(TraceError, match=rf"array '{name.split('/')[0]}' is damaged.*bytes instead of"):
        open_trace(trace.path)


def test_a_file_that_shrinks_after_opening_is_found_at_reading(make_trace):
    trace, *_ = make_trace()
    os.truncate(trace.path / "draws" / "c.0.0.0", 0)
    with pytest.raises(TraceError, match="0 bytes instead of"):
        trace.read()


@pytest.mark.parametrize("name", ["draws/c.0.2.0", "divergent/c.0.0"])
def test_a_missing_file_is_found_at_opening(make_trace, name):
    trace, *_ = make_trace()
    (trace.path / name).unlink()
    with pytest.raises(TraceError, match="incomplete: 1 of 3 segments are missing"):
        open_trace(trace.path)


def test_what_is_no_trace_is_refused(tmp_path, make_trace):
    with pytest.raises(TraceError, match="no trace at"):
        open_trace(tmp_path / "absent")
    trace, *_ = make_trace()
    metadata = trace.path / "zarr.json"
    content = json.loads(metadata.read_text())
    metadata.write_text(json.dumps({**content, "attributes": {**content["attributes"], "format": "bnn-atlas trace 9"}}))
    with pytest.raises(TraceError, match="'bnn-atlas trace 9'; this version reads 'bnn-atlas trace 1'"):
        open_trace(trace.path)
    metadata.write_text("{}")
    with pytest.raises(TraceError, match=r"metadata .* is damaged"):
        open_trace(trace.path)


def test_creating_again_goes_on_and_another_trace_is_refused(tmp_path):
    values = make_draws(2, 8)
    first = write_trace(tmp_path / "t", values, {}, only=(0,), attributes={"fingerprint": "a", "host": "x"})
    again = write_trace(tmp_path / "t", values, {}, only=(), attributes={"fingerprint": "a", "host": "y"})
    assert again.missing() == (1,)
    assert again.attributes == first.attributes
    for change, message in (
        ({"attributes": {"fingerprint": "b"}}, "the fingerprint there is a, wanted b"),
        ({"segment": 2}, "segment there 4, wanted 2"),
        ({"chain_ids": [4, 5]}, "the chain numbers differ"),
        ({"layout": Layout(tuple(reversed(LAYOUT.parameters)))}, "the parameters differ"),
    ):
        with pytest.raises(TraceError, match=message):
            write_trace(tmp_path / "t", values, {}, only=(), **{"attributes": {"fingerprint": "a"}, **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"chains": 0, "chain_ids": []}, "at least one chain"),
        ({"chain_ids": [1, 1]}, "2 different chain numbers"),
        ({"dtype": "float16"}, "not as float16"),
        ({"statistics": {"../x": "bool"}}, "cannot name a statistic"),
        ({"statistics": {"draw": "bool"}}, "cannot name a statistic"),
        ({"statistics": {"a": "uint8"}}, "is to be uint8"),
        ({"attributes": {"layout": 1}}, "sets the attributes layout itself"),
        ({"attributes": {"a": {1, 2}}}, "JSON values"),
    ],
)  # fmt: skip
def test_arguments_that_make_no_trace(tmp_path, change, message):
    arguments = {
        "chains": 2,
        "draws": 3,
        "layout": LAYOUT,
        "statistics": {},
        "segment": 2,
        "chain_ids": [0, 1],
        "attributes": {},
    }
    with pytest.raises(ValueError, match=message):
        TraceWriter.create(tmp_path / "t", **{**arguments, **change})
    assert not list(tmp_path.iterdir())


def test_segments_of_another_shape_or_type_are_refused(tmp_path):
    writer = write_trace(tmp_path / "t", make_draws(2, 6), make_statistics(2, 6), only=())
    values, statistics = make_draws(2, 4), make_statistics(2, 4)
    with pytest.raises(ValueError, match="segments 0 to 1; got segment 2"):
        writer.write(2, values, statistics)
    with pytest.raises(ValueError, match=r"takes draws \(2, 2, 27\) float32; got \(2, 4, 27\) float32"):
        writer.write(1, values, statistics)
    with pytest.raises(ValueError, match=r"got .* float64"):
        writer.write(0, values.astype("float64"), statistics)
    with pytest.raises(ValueError, match="keeps the statistics"):
        writer.write(0, values, {})
    with pytest.raises(ValueError, match=r"statistic 'steps' .* int32; got .* float32"):
        writer.write(0, values, {**statistics, "steps": statistics["energy_error"]})
    with pytest.raises(ValueError, match=r"chains 0 to 1 of segment 0 .* \(2, 4, 27\); got \(1, 4, 27\)"):
        writer.write_rows(0, iter([values[:1], values[1:]]), statistics)
    with pytest.raises(ValueError, match="shorter"):
        writer.write_rows(0, iter([]), statistics)
    assert writer.missing() == (0, 1)


def test_a_disk_that_refuses_leaves_earlier_segments_and_no_remains(tmp_path):
    chains, draws, width = 10, 40, LAYOUT.size
    values = make_draws(chains, draws)
    writer = write_trace(tmp_path / "t", values, {}, segment=20, only=(0,))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (chains * 20 * width, limits[1]))
    try:
        with pytest.raises(TraceError, match=r"cannot write .*c\.0\.1\.0: File too large.*intact") as caught:
            writer.write(1, values[:, 20:], {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.errno == errno.EFBIG
    assert sorted(f.name for f in (tmp_path / "t" / "draws").iterdir()) == ["c.0.0.0", "zarr.json"]
    np.testing.assert_array_equal(open_trace(tmp_path / "t", incomplete=True).read(draws=slice(20)), values[:, :20])
    writer.write(1, values[:, 20:], {})
    np.testing.assert_array_equal(open_trace(tmp_path / "t").read(), values)


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    writer = write_trace(tmp_path / "t", make_draws(2, 8), {}, only=(0,))

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"c\.0\.1\.0: No space left on device") as caught:
        writer.write(1, make_draws(2, 4), {})
    assert caught.value.errno == errno.ENOSPC
    assert not list((tmp_path / "t").glob("*/.c*"))


def test_every_file_and_folder_is_flushed_before_write_returns(tmp_path, monkeypatch):
    flushed = []
    fsync = os.fsync

    def record(descriptor: int) -> None:
        flushed.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    writer = write_trace(tmp_path / "t", make_draws(2, 4), {"a": np.zeros((2, 4))}, only=())
    assert any(name.endswith("draws/zarr.json") for name in flushed)
    assert str(tmp_path) in flushed
    flushed.clear()
    writer.write(0, make_draws(2, 4), {"a": np.zeros((2, 4))})
    folders = [str(tmp_path / "t" / name) for name in ("a", "draws")]
    assert [name if name in folders else str(Path(name).parent) for name in flushed] == [
        f for f in folders for _ in "12"
    ]


def _write_all(path: Path) -> None:
    for _ in range(5):
        write_trace(path, make_draws(5, 10), make_statistics(5, 10))


@pytest.mark.slow
def test_two_processes_writing_the_same_trace_leave_it_right(tmp_path):
    path = tmp_path / "t"
    context = multiprocessing.get_context("forkserver")
    workers = [context.Process(target=_write_all, args=(path,)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    trace = open_trace(path)
    np.testing.assert_array_equal(trace.read(), make_draws(5, 10))
    np.testing.assert_array_equal(trace.statistic("log_prior"), make_statistics(5, 10)["log_prior"])
    assert sorted(tmp_path.iterdir()) == [path]
    assert not list(path.glob("*/.c*"))


def test_threads_creating_and_writing_the_same_trace_leave_it_right(tmp_path):
    values, statistics = make_draws(5, 10), make_statistics(5, 10)
    for round_ in range(5):
        path = tmp_path / str(round_)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _, path=path: write_trace(path, values, statistics), range(4)))
        np.testing.assert_array_equal(open_trace(path).read(), values)


def test_what_a_killed_writer_left_is_removed_once_it_is_old(tmp_path):
    values = make_draws(2, 4)
    write_trace(tmp_path / "t", values, {})
    old, young = (tmp_path / "t" / "draws" / f".c.0.0.{name}.0" for name in ("aaaa", "bbbb"))
    for file in (old, young):
        file.write_bytes(b"x")
    os.utime(old, (0, 0))
    TraceWriter.open(tmp_path / "t")
    assert not old.exists()
    assert young.exists()
    np.testing.assert_array_equal(open_trace(tmp_path / "t").read(), values)


@settings(max_examples=200)
@given(
    chains=st.integers(1, 20_000), draws=st.integers(1, 20_000), segment=st.integers(1, 2000),
    size=st.integers(1, 500_000), dtype=st.sampled_from(["f4", "f8"]),
)  # fmt: skip
def test_inner_chunks_cover_the_segment_with_little_to_spare(chains, draws, segment, size, dtype):
    segment = min(segment, draws)
    form = choose_form(chains, draws, segment, size, np.dtype(dtype))
    group, length, column = form.chunk
    assert length == segment
    assert chains <= form.groups * group < chains + form.groups
    assert size <= form.columns * column < size + column
    assert form.columns <= 128
    assert form.chunk_bytes <= max(shard.CHUNK_BYTES, segment * column * 8) + 4


def test_the_papers_segment_has_chunks_of_about_a_quarter_of_a_mebibyte():
    form = choose_form(1000, 1000, 100, 946, np.dtype("f4"))
    assert form.chunk[1:] == (100, 32)
    assert form.columns == 30
    assert 0.5 * shard.CHUNK_BYTES < form.chunk_bytes <= shard.CHUNK_BYTES


def test_the_store_is_plain_zarr(make_trace):
    trace, *_ = make_trace()
    header = read_header(trace.path)
    draws = zarr.open_group(str(trace.path), mode="r")["draws"]
    assert draws.shards == header.form.shape
    assert draws.chunks == header.form.chunk
    assert draws.compressors == (Crc32cCodec(),)
    assert set(STATISTICS) == set(trace.statistics)
    assert header.shard_file(1).stat().st_size == header.form.file_bytes
