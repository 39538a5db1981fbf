import fnmatch

import numpy as np
import pandas
import pytest
import xarray
from hypothesis import given, settings
from hypothesis import strategies as st

from bnn_atlas.traces import TraceError, open_pool, open_trace, pool_traces
from bnn_atlas.traces.subset import choose, subset, subset_to_frame, subset_to_parquet

from .making import LAYOUT, make_draws, make_statistics, write_trace

NAMES = LAYOUT.names()


@pytest.fixture(scope="module")
def pooled(tmp_path_factory):
    """Two blocks of 3 chains (even and odd numbers) x 11 draws, and everything in them in chain order."""
    folder = tmp_path_factory.mktemp("pooled")
    values, statistics = make_draws(6, 11), make_statistics(6, 11)
    for i in range(2):
        part = {name: array[i::2] for name, array in statistics.items()}
        write_trace(folder / f"block{i}", values[i::2], part, chain_ids=10 + np.arange(i, 6, 2))
    pool_traces([folder / "block0", folder / "block1"], folder / "pool.json")
    return open_pool(folder / "pool.json"), values, statistics


@settings(max_examples=15, deadline=None)
@given(
    index=st.lists(st.integers(0, LAYOUT.size - 1), min_size=1),
    start=st.integers(-11, 10),
    length=st.integers(1, 11),
    thinning=st.integers(1, 4),
    chains=st.sets(st.integers(10, 15), min_size=1),
)
def test_a_subset_equals_indexing_the_whole(pooled, tmp_path_factory, index, start, length, thinning, chains):
    pool, values, statistics = pooled
    stop = None if start < 0 <= start + length or start + length > 11 else start + length
    part = subset(
        pool,
        tmp_path_factory.mktemp("s") / "t",
        index=index,
        draws=slice(start, stop),
        chains=chains,
        thinning=thinning,
    )
    columns, rows = sorted(set(index)), [c - 10 for c in sorted(chains)]
    when = np.arange(11)[start:stop:thinning]
    np.testing.assert_array_equal(part.read(), values[np.ix_(rows, when, columns)], strict=True)
    assert part.parameter_names == tuple(NAMES[i] for i in columns)
    assert part.chain_ids.tolist() == sorted(chains)
    assert part.draw_ids.tolist() == when.tolist()
    for name, expected in statistics.items():
        np.testing.assert_array_equal(part.statistic(name), expected[np.ix_(rows, when)], strict=True)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({}, NAMES),
        ({"parameters": ["layer1.bias", "layer0.weight[3,2]"]},
         ["layer0.weight[3,2]", "layer1.bias[0]", "layer1.bias[1]"]),
        ({"layers": [1]}, [n for n in NAMES if n.startswith("layer1")]),
        ({"roles": ["scale"]}, ["log_sigma"]),
        ({"layers": [0], "roles": ["bias"]}, [f"layer0.bias[{i}]" for i in range(4)]),
        ({"pattern": "layer*.weight[0,*]"}, [n for n in NAMES if fnmatch.fnmatchcase(n, "layer*.weight[[]0,*]")]),
        ({"pattern": "layer?.bias[1]"}, ["layer0.bias[1]", "layer1.bias[1]"]),
        ({"index": slice(1, 4)}, NAMES[1:4]),
        ({"per_layer": 1},
         ["layer0.weight[0,0]", "layer0.bias[0]", "layer1.weight[0,0]", "layer1.bias[0]", "log_sigma"]),
        ({"roles": ["weight"], "per_layer": 2, "pattern": "*[*,1]"},
         ["layer0.weight[0,1]", "layer0.weight[1,1]", "layer1.weight[0,1]", "layer1.weight[1,1]"]),
    ],
)  # fmt: skip
def test_conditions_hold_together(pooled, condition, expected):
    assert list(choose(pooled[0], **condition).parameter_names) == expected


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ({"parameters": ["layer0.wieght"]}, r"no parameter 'layer0.wieght' .*close to it are layer0.weight.*27 scal"),
        ({"parameters": ["layer0.weight[9,9]"]}, r"no parameter 'layer0.weight\[9,9\]'"),
        ({"layers": [0, 7]}, r"no layer 7 in .*; there are \[0, 1\]"),
        ({"roles": ["kernel"]}, r"no role 'kernel' in .*; there are \['bias', 'scale', 'weight'\]"),
        ({"pattern": "kernel*"}, r"matches 'kernel\*'; .*there are 27 scalars of layer0.weight, layer0.bias"),
        ({"pattern": "layer0.[bw]*"}, "matches"),
        ({"roles": ["scale"], "layers": [0]}, "meets all conditions at once"),
        ({"parameters": []}, "meets all conditions at once"),
        ({"draws": slice(0, 12)}, r"draws=slice\(0, 12, None\) reaches outside .*, which has 11 draws per chain"),
        ({"draws": slice(-12, None)}, "reaches outside"),
        ({"draws": slice(5, 5)}, "chooses none of the 11 draws"),
        ({"draws": slice(None, None, -1)}, "reaches outside"),
        ({"thinning": 0}, "k at least 1; got 0"),
        ({"chains": [10, 3]}, "no chain 3; it has chains 10 to 15"),
        ({"chains": slice(6, 9)}, "chooses none of the 6 chains"),
        ({"chains": []}, "chooses none of the 6 chains"),
    ],
)  # fmt: skip
def test_choices_that_meet_nothing_say_what_there_is(pooled, tmp_path, condition, message):
    with pytest.raises(ValueError, match=message):
        subset(pooled[0], tmp_path / "t", **condition)
    assert not list(tmp_path.iterdir())


def test_positions_outside_are_refused(pooled):
    with pytest.raises(IndexError, match="no parameter at position 27: positions run from 0 to 26"):
        choose(pooled[0], index=[3, 27])


def test_a_subset_is_a_trace_like_any_other(pooled, tmp_path):
    pool, values, _ = pooled
    first = subset(pool, tmp_path / "a", layers=[1], draws=slice(1, None))
    np.testing.assert_array_equal(xarray.open_zarr(first.path)["draws"], first.read())
    second = subset(first, tmp_path / "b", roles=["bias"], draws=slice(1, None), chains=slice(2))
    np.testing.assert_array_equal(second.read(), values[:2, 2:, -3:-1])
    assert second.draw_ids.tolist() == list(range(2, 11))
    assert second.attributes == {"fingerprint": "f", "study": "s"}
    pool_traces(
        [subset(pool, tmp_path / f"c{i}", chains=[10 + i], layers=[1]).path for i in (1, 0)], tmp_path / "p.json"
    )
    np.testing.assert_array_equal(open_pool(tmp_path / "p.json").read(), values[:2, :, 16:26])
    subset(pool, tmp_path / "d", chains=[12], layers=[0])
    with pytest.raises(TraceError, match="their parameters differ"):
        pool_traces([tmp_path / "c0", tmp_path / "d"], tmp_path / "q.json")


def test_an_older_subset_is_replaced_and_nothing_else(pooled, tmp_path):
    pool, values, _ = pooled
    subset(pool, tmp_path / "t", layers=[1])
    assert subset(pool, tmp_path / "t", roles=["scale"]).size == 1
    assert sorted(tmp_path.iterdir()) == [tmp_path / "t"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").write_text("x")
    with pytest.raises(TraceError, match="not a subset that could be replaced"):
        subset(pool, tmp_path / "mine")
    source = open_trace(tmp_path / "t")
    with pytest.raises(TraceError, match="not a subset that could be replaced"):
        subset(source, tmp_path / "t")
    np.testing.assert_array_equal(source.read()[:, :, 0], values[:, :, -1])


def test_many_segments_and_groups_in_bounded_reads(pooled, tmp_path, monkeypatch):
    pool, values, statistics = pooled
    monkeypatch.setattr("bnn_atlas.traces.subset.GROUP_BYTES", 4 * 27 * 4)
    monkeypatch.setattr("bnn_atlas.traces.subset.BATCH_BYTES", 2 * 4 * 27 * 4)
    monkeypatch.setattr("bnn_atlas.traces.shard.CHUNK_BYTES", 4 * 27 * 4)
    reads = []
    read = type(pool).read
    monkeypatch.setattr(type(pool), "read", lambda *a: reads.append(read(*a)) or reads[-1])
    part = subset(pool, tmp_path / "t")
    assert (part.segments, part.chains_per_chunk) == (3, 1)
    assert max(array.nbytes for array in reads) <= 2 * 4 * 27 * 4
    np.testing.assert_array_equal(part.read(), values)
    np.testing.assert_array_equal(part.statistic("log_prior"), statistics["log_prior"])


def test_a_source_that_is_damaged_leaves_no_subset(make_trace, tmp_path):
    trace, *_ = make_trace()
    file = trace.path / "draws" / "c.0.1.0"
    file.write_bytes(bytes(file.stat().st_size))
    with pytest.raises(TraceError, match=f"array 'draws' is damaged.*{file}"):
        subset(trace, tmp_path / "t")
    assert not (tmp_path / "t").exists()


@pytest.fixture
def tidy(pooled):
    pool, values, _ = pooled
    chosen = choose(pool, parameters=["layer0.bias", "layer1.weight[1,2]", "log_sigma"], draws=slice(1, 9), thinning=3)
    columns = [*range(12, 16), 22, 26]
    rows = [
        (10 + c, s, NAMES[p], [0, 0, 0, 0, 1, None][i], ["bias"] * 4 + ["weight", "scale"], values[c, s, p])
        for c in range(6)
        for s in (1, 4, 7)
        for i, p in enumerate(columns)
    ]
    rows = [(*row[:4], row[4][i % 6], row[5]) for i, row in enumerate(rows)]
    return chosen, pandas.DataFrame(rows, columns=["chain", "draw", "parameter", "layer", "role", "value"])


def test_tidy_frame(tidy):
    chosen, expected = tidy
    frame = subset_to_frame(chosen)
    assert frame["layer"].dtype == "Int32"
    assert frame["value"].dtype == "float32"
    pandas.testing.assert_frame_equal(frame.astype(expected.dtypes), expected)


def test_parquet_is_the_tidy_frame_written_in_pieces(tidy, tmp_path, monkeypatch):
    chosen, expected = tidy
    monkeypatch.setattr("bnn_atlas.traces.subset.TABLE_CELLS", 20)
    for name in "ab":
        subset_to_parquet(chosen, tmp_path / f"{name}.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    frame = pandas.read_parquet(tmp_path / "a.parquet")
    assert frame["value"].dtype == "float32"
    assert frame["parameter"].cat.categories.tolist() == list(chosen.parameter_names)
    assert frame["role"].dtype == "category"
    pandas.testing.assert_frame_equal(frame.astype(expected.dtypes), expected)
    assert sorted(f.name for f in tmp_path.iterdir()) == ["a.parquet", "b.parquet"]
