import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bnn_atlas.claims.table import write_claims
from bnn_atlas.figures.subsets import read_named
from bnn_atlas.files import MEND, TableError, read_parquet
from bnn_atlas.metrics.tables.measurement import Row, RunIdentity
from bnn_atlas.metrics.tables.parquet import (
    LINE_SCHEMA,
    SCHEMA,
    concat_tables,
    read_e_values,
    read_frame,
    read_table,
    write_e_values,
    write_frame,
    write_table,
)
from bnn_atlas.traces.store import open_trace
from bnn_atlas.traces.subset import subset_to_parquet
from tests.traces.making import make_draws, make_statistics, write_trace

RUN = RunIdentity("sampling_perspective", "airfoil", "demo", 0, "airfoil", "mlp-16", "mclmc")
ROWS = [
    Row(*RUN, 10, 1000, "lppd", 0.8, 0.01, "a note"),
    Row(*RUN, 10, 1000, "rhat_weight_max", math.nan, None, "undefined: needs at least 2 chains"),
    Row(*RUN, 1, 1000, "lppd_cumulative_chains", -math.inf),
]


def test_schema_is_the_fields_of_a_row():
    assert tuple(SCHEMA.names) == Row._fields
    assert Row._fields[: len(RunIdentity._fields)] == RunIdentity._fields


def test_rows_come_back_as_written(tmp_path):
    write_table(tmp_path / "t.parquet", ROWS)
    frame = read_table(tmp_path / "t.parquet")
    assert frame["metric"].tolist() == ["lppd", "rhat_weight_max", "lppd_cumulative_chains"]
    assert frame["value"].tolist()[::2] == [0.8, -math.inf]
    assert math.isnan(frame["value"][1])
    assert frame["standard_error"].isna().tolist() == [False, True, True]
    assert frame["note"].tolist() == ["a note", "undefined: needs at least 2 chains", ""]
    stored = pq.read_table(tmp_path / "t.parquet")
    assert stored["value"].null_count == 0
    assert stored["standard_error"].null_count == 2


def test_same_rows_same_bytes_and_nothing_left_behind(tmp_path):
    write_table(tmp_path / "a.parquet", ROWS)
    write_table(tmp_path / "b.parquet", list(ROWS))
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    concat_tables([tmp_path / "a.parquet"], tmp_path / "c.parquet")
    concat_tables([tmp_path / "b.parquet"], tmp_path / "d.parquet")
    assert (tmp_path / "c.parquet").read_bytes() == (tmp_path / "d.parquet").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.parquet", "b.parquet", "c.parquet", "d.parquet"]


def test_tables_are_joined_in_the_order_given(tmp_path):
    write_table(tmp_path / "a.parquet", ROWS[:2])
    write_table(tmp_path / "empty.parquet", [])
    write_table(tmp_path / "b.parquet", ROWS[2:])
    concat_tables([tmp_path / n for n in ("b.parquet", "empty.parquet", "a.parquet")], tmp_path / "all.parquet")
    joined = read_table(tmp_path / "all.parquet")
    expected = pd.concat([read_table(tmp_path / "b.parquet"), read_table(tmp_path / "a.parquet")], ignore_index=True)
    assert joined.equals(expected)
    assert pq.ParquetFile(tmp_path / "all.parquet").num_row_groups == 1


def test_long_tables_are_joined_in_row_groups(tmp_path):
    rows = [Row(*RUN, 1, draw, "lppd_cumulative_draws", float(draw)) for draw in range(40_000)]
    write_table(tmp_path / "a.parquet", rows)
    concat_tables([tmp_path / "a.parquet"] * 4, tmp_path / "all.parquet")
    assert read_table(tmp_path / "all.parquet")["draws"].tolist() == list(range(40_000)) * 4
    assert pq.ParquetFile(tmp_path / "all.parquet").num_row_groups <= 4


def test_wrong_values_are_refused_with_the_column(tmp_path):
    with pytest.raises(TableError, match="column 'value'"):
        write_table(tmp_path / "t.parquet", [ROWS[0]._replace(value="much")])
    with pytest.raises(TableError, match="column 'value' has a row without a value"):
        write_table(tmp_path / "t.parquet", [ROWS[0]._replace(value=None)])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pa.table({"study": ["x"]}), r"columns missing: run, scale"),
        (pa.table({**{n: ["1"] for n in SCHEMA.names}}), r"column 'study' is string|column 'split' is string"),
        (pa.table({**{n: ["1"] for n in SCHEMA.names}, "seed": [1]}), r"unknown: seed"),
    ],
)
def test_tables_of_another_kind_are_refused_before_anything_is_written(tmp_path, table, message):
    write_table(tmp_path / "good.parquet", ROWS)
    pq.write_table(table, tmp_path / "odd.parquet")
    with pytest.raises(TableError, match=message):
        concat_tables([tmp_path / "good.parquet", tmp_path / "odd.parquet"], tmp_path / "all.parquet")
    with pytest.raises(TableError, match=r"odd\.parquet"):
        read_table(tmp_path / "odd.parquet")
    assert not (tmp_path / "all.parquet").exists()


def test_missing_torn_and_absent_tables_say_what_to_do(tmp_path):
    with pytest.raises(TableError, match=r"no such table; run the rule"):
        read_table(tmp_path / "none.parquet")
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(TableError, match=r"torn\.parquet: not a Parquet file"):
        read_table(tmp_path / "torn.parquet")
    with pytest.raises(TableError, match="no tables to join"):
        concat_tables([], tmp_path / "all.parquet")


def lines() -> pd.DataFrame:
    whole, text, number = np.arange(12), ["as_trained"] * 12, np.linspace(0, 1, 12)
    return pd.DataFrame(dict(zip(LINE_SCHEMA.names, [whole] * 3 + [text] * 2 + [number] * 3, strict=True)))


def subset(path):
    trace = path.with_suffix(".zarr")
    write_trace(trace, make_draws(2, 5), make_statistics(2, 5))
    subset_to_parquet(open_trace(trace), path)


TABLES = {
    "metrics": (lambda path: write_table(path, ROWS), read_table),
    "e_values": (lambda path: write_e_values(path, [(0, np.arange(9.0), np.arange(9.0))], 0.05), read_e_values),
    "lines": (lambda path: write_frame(path, lines(), LINE_SCHEMA), lambda path: read_frame(path, LINE_SCHEMA)),
    "read by names": (lambda path: write_frame(path, lines(), LINE_SCHEMA), read_parquet),
    "subset": (subset, lambda path: read_named(path).values),
    "claims": (lambda path: write_claims(path, [], {}), read_parquet),
}


@pytest.mark.parametrize("table", TABLES)
def test_a_changed_bit_changes_no_value_without_an_error(tmp_path, table):
    path, (write, read) = tmp_path / "t.parquet", TABLES[table]
    write(path)
    content, values = path.read_bytes(), read(path)
    numbers, messages = np.random.default_rng(0), []
    for place in numbers.integers(len(content), size=80):
        changed = bytearray(content)
        changed[place] ^= 1 << int(numbers.integers(8))
        path.write_bytes(changed)
        try:
            found = read(path)
        except TableError as error:
            messages.append(str(error))
        else:
            assert str(found) == str(values), place
    assert messages
    assert all("t.parquet: " in message and message.endswith(MEND) for message in messages)


@pytest.mark.parametrize("content", [b"", b"hello world"])
@pytest.mark.parametrize("table", TABLES)
def test_every_reader_names_a_file_that_is_no_table(tmp_path, table, content):
    (tmp_path / "t.parquet").write_bytes(content)
    with pytest.raises(TableError, match=r"t\.parquet: .*mend=true"):
        TABLES[table][1](tmp_path / "t.parquet")


def test_every_table_is_written_and_read_with_checksums():
    """Only `files` calls the libraries that would also do without."""
    package = Path(__file__).parents[3] / "src"
    calls = r"pd\.read_parquet|\.to_parquet\(|\b(pq|parquet)\.\w+\("
    others = [file.name for file in package.rglob("*.py") if re.search(calls, file.read_text(encoding="utf-8"))]
    assert others == ["files.py"]
