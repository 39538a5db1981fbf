"""Tidy long Parquet tables: one row per measured value, one schema for every study and method."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from bnn_atlas.files import atomic

SCHEMA = pa.schema(
    [
        pa.field("study", pa.string(), nullable=False),
        pa.field("run", pa.string(), nullable=False),
        pa.field("scale", pa.string(), nullable=False),
        pa.field("split", pa.int64(), nullable=False),
        pa.field("dataset", pa.string(), nullable=False),
        pa.field("model", pa.string(), nullable=False),
        pa.field("method", pa.string(), nullable=False),
        pa.field("chains", pa.int64(), nullable=False),
        pa.field("draws", pa.int64(), nullable=False),
        pa.field("metric", pa.string(), nullable=False),
        pa.field("value", pa.float64(), nullable=False),
        pa.field("standard_error", pa.float64()),
        pa.field("note", pa.string(), nullable=False),
    ]
)
ROW_GROUP = 65_536


class TableError(ValueError):
    """A table is missing, unreadable or has other columns than it should."""


class RunIdentity(NamedTuple):
    """What was measured: the first seven columns of every row."""

    study: str
    run: str
    scale: str
    split: int
    dataset: str
    model: str
    method: str


class Row(NamedTuple):
    """One measured value. `chains` and `draws` (per chain) say what the value was computed from.

    `standard_error` is None where there is none; `note` says what a reader of the number has to know.
    """

    study: str
    run: str
    scale: str
    split: int
    dataset: str
    model: str
    method: str
    chains: int
    draws: int
    metric: str
    value: float
    standard_error: float | None = None
    note: str = ""


class Measurement(NamedTuple):
    """A value before it is known whose it is; None takes all chains that are not excluded, or all draws."""

    metric: str
    value: float
    standard_error: float | None = None
    note: str = ""
    chains: int | None = None
    draws: int | None = None


def write_table(path: str | Path, rows: Sequence[Row]) -> None:
    """Write rows in their order; the same rows give the same bytes.

    Raises TableError where a value does not fit its column.
    """
    columns = zip(*rows, strict=True) if rows else ((),) * len(SCHEMA)
    arrays = []
    for field, values in zip(SCHEMA, columns, strict=True):
        try:
            arrays.append(pa.array(values, field.type, from_pandas=False))
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise TableError(f"{path}: column '{field.name}' ({field.type}): {error}") from None
        if arrays[-1].null_count and not field.nullable:
            raise TableError(
                f"{path}: column '{field.name}' has a row without a value; only standard_error may be None"
            )
    with atomic(path) as temporary:
        pq.write_table(pa.table(arrays, schema=SCHEMA), temporary, compression="zstd", row_group_size=ROW_GROUP)


def read_table(path: str | Path) -> pd.DataFrame:
    """Rows of a table as a data frame; TableError if it is missing or has another schema."""
    with _open(path) as source:
        return source.read().to_pandas()


def concat_tables(paths: Sequence[str | Path], destination: str | Path) -> None:
    """Write the rows of all tables, in the order of `paths`, as one table.

    At most one input and one row group are in memory at a time. All schemas are checked before anything is written.
    """
    if not paths:
        raise TableError(f"{destination}: no tables to join; give at least one")
    for path in paths:
        _open(path).close()
    with atomic(destination) as temporary, pq.ParquetWriter(temporary, SCHEMA, compression="zstd") as writer:
        waiting: list[pa.RecordBatch] = []
        for path in paths:
            with _open(path) as source:
                for batch in source.iter_batches(batch_size=ROW_GROUP):
                    waiting.append(batch)
                    if sum(b.num_rows for b in waiting) >= ROW_GROUP:
                        _flush(writer, waiting)
        _flush(writer, waiting)


def write_frame(path: str | Path, frame: pd.DataFrame, schema: pa.Schema) -> None:
    """Write a data frame with the columns of `schema`; NaN becomes null, and the same values give the same bytes."""
    table = pa.Table.from_pandas(frame, schema=schema, preserve_index=False).replace_schema_metadata(None)
    with atomic(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", row_group_size=ROW_GROUP)


def _flush(writer: pq.ParquetWriter, waiting: list[pa.RecordBatch]) -> None:
    """Write the waiting batches as row groups of the usual size."""
    if waiting:
        table = pa.Table.from_batches(waiting, SCHEMA).combine_chunks()
        writer.write_table(table, row_group_size=ROW_GROUP)
        waiting.clear()


def _open(path: str | Path) -> pq.ParquetFile:
    """An open table whose schema has been checked."""
    if not Path(path).is_file():
        raise TableError(f"{path}: no such table; run the rule that makes it")
    try:
        source = pq.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise TableError(f"{path}: not a Parquet file ({error}); delete it and run its rule again") from None
    found = source.schema_arrow
    if not found.equals(SCHEMA):
        source.close()
        raise TableError(f"{path}: {_difference(found)}; it was not made by write_table of this version")
    return source


def _difference(found: pa.Schema) -> str:
    """First way in which a schema differs from the right one, in words."""
    missing = [name for name in SCHEMA.names if name not in found.names]
    extra = [name for name in found.names if name not in SCHEMA.names]
    if missing or extra:
        return f"columns missing: {', '.join(missing) or 'none'}, unknown: {', '.join(extra) or 'none'}"
    for name in SCHEMA.names:
        if not found.field(name).equals(SCHEMA.field(name)):
            return f"column '{name}' is {found.field(name).type}, expected {SCHEMA.field(name).type}"
    return f"columns in the order {', '.join(found.names)}, expected {', '.join(SCHEMA.names)}"
