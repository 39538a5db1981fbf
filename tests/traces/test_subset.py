import fnmatch

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bnn_atlas.traces import open_pool, pool_traces
from bnn_atlas.traces.subset import subset_to_parquet

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
def test_a_selection_equals_indexing_the_whole(pooled, index, start, length, thinning, chains):
    pool, values, statistics = pooled
    stop = None if start < 0 <= start + length or start + length > 11 else start + length
    part = pool.select(index=index, draws=slice(start, stop), chains=chains, thinning=thinning)
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
    assert list(pooled[0].select(**condition).parameter_names) == expected


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ({"parameters": ["layer0.wieght"]}, r"no parameter 'layer0.wieght' .*similar names are layer0.weight.*27 scal"),
        ({"parameters": ["layer0.weight[9,9]"]}, r"no parameter 'layer0.weight\[9,9\]'"),
        ({"layers": [0, 7]}, r"no layer 7 in .*; there are \[0, 1\]"),
        ({"roles": ["kernel"]}, r"no role 'kernel' in .*; there are \['bias', 'scale', 'weight'\]"),
        ({"pattern": "kernel*"}, r"matches 'kernel\*'; .*27 scalars, such as .* arrays layer0.weight, layer0.bias"),
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
def test_choices_that_meet_nothing_say_what_there_is(pooled, condition, message):
    with pytest.raises(ValueError, match=message):
        pooled[0].select(**condition)


def test_a_selection_of_a_selection(pooled):
    pool, values, _ = pooled
    first = pool.select(layers=[1], draws=slice(1, None))
    second = first.select(roles=["bias"], draws=slice(1, None), chains=slice(2))
    np.testing.assert_array_equal(second.read(), values[:2, 2:, -3:-1])
    assert second.draw_ids.tolist() == list(range(2, 11))
    assert second.attributes == {"fingerprint": "f", "study": "s"}


def test_what_is_read_says_what_it_is(pooled):
    pool, *_ = pooled
    assert repr(pool) == f"Pool(6 chains x 11 draws x 27 parameters, {pool.path})"
    assert (
        repr(pool.select(layers=[1], chains=slice(2))) == f"Selection(2 chains x 11 draws x 10 parameters, {pool.path})"
    )


def test_one_number_is_not_looked_up_as_an_array(pooled):
    pool, values, _ = pooled
    with pytest.raises(ValueError, match=r"^'layer1.weight\[1,2\]' is one number of an array: read\(parameters=locate"):
        pool["layer1.weight[1,2]"]
    read = pool.read(parameters=pool.locate(["layer1.weight[1,2]"]))
    np.testing.assert_array_equal(read, values[..., [NAMES.index("layer1.weight[1,2]")]])


def test_positions_outside_are_refused(pooled):
    with pytest.raises(IndexError, match="no parameter at position 27: positions run from 0 to 26"):
        pooled[0].select(index=[3, 27])


@pytest.fixture
def tidy(pooled):
    pool, values, _ = pooled
    chosen = pool.select(parameters=["layer0.bias", "layer1.weight[1,2]", "log_sigma"], draws=slice(1, 9), thinning=3)
    columns = [*range(12, 16), 22, 26]
    rows = [
        (10 + c, s, NAMES[p], [0, 0, 0, 0, 1, None][i], ["bias"] * 4 + ["weight", "scale"], values[c, s, p])
        for c in range(6)
        for s in (1, 4, 7)
        for i, p in enumerate(columns)
    ]
    rows = [(*row[:4], row[4][i % 6], row[5]) for i, row in enumerate(rows)]
    return chosen, pandas.DataFrame(rows, columns=["chain", "draw", "parameter", "layer", "role", "value"])


def test_parquet_is_tidy_and_written_in_pieces(tidy, tmp_path, monkeypatch):
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
