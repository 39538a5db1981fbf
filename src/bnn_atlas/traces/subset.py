"""Draws as a tidy table."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bnn_atlas.files import parquet_file, parquet_writer
from bnn_atlas.traces.draws import Draws

TABLE_CELLS = 1 << 20


def subset_to_parquet(trace: Draws, destination: str | Path) -> None:
    """Write a tidy Parquet file (atomic) with one row per value, in batches of rows.

    Columns: chain, draw, parameter, layer (empty for scalars outside the layers), role, value.
    """
    import pyarrow

    text = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    value = pyarrow.from_numpy_dtype(trace.dtype)
    number = pyarrow.int64()
    fields = {"chain": number, "draw": number, "parameter": text, "layer": pyarrow.int32(), "role": text}
    schema = pyarrow.schema({**fields, "value": value})
    # The code of a stored scalar is its index in all three lists of descriptions.
    describe = {
        "parameter": pyarrow.array(trace.parameter_names, pyarrow.string()),
        "layer": pyarrow.array([p.layer for p in trace.arrays], pyarrow.int32()),
        "role": pyarrow.array([p.role for p in trace.arrays], pyarrow.string()),
    }
    with parquet_writer(destination, schema) as writer:
        for chains, draws, values in trace.batches(TABLE_CELLS * trace.dtype.itemsize):
            rows = _tidy(trace, chains, draws, values)
            columns = {"chain": rows.chain, "draw": rows.draw, "value": rows.value}
            for name, column in describe.items():
                taken = column.take(pyarrow.array(rows.scalar))
                columns[name] = taken.dictionary_encode() if schema.field(name).type == text else taken
            writer.write_table(pyarrow.table({name: columns[name] for name in schema.names}, schema))


def join_subsets(paths: Sequence[str | Path], destination: str | Path) -> None:
    """Write the rows of several tables of `subset_to_parquet`, in order, as one table."""
    with parquet_file(paths[0]) as first:
        schema = first.schema_arrow.remove_metadata()
    with parquet_writer(destination, schema) as writer:
        for path in paths:
            with parquet_file(path) as source:
                for batch in source.iter_batches():
                    writer.write_batch(batch.cast(schema) if batch.schema != schema else batch)


class _Rows(NamedTuple):
    """Columns of a tidy table; `scalar` is the position of a row's parameter among the stored scalars."""

    chain: np.ndarray
    draw: np.ndarray
    scalar: np.ndarray
    value: np.ndarray


def _tidy(trace: Draws, chains: slice, draws: slice, values: np.ndarray) -> _Rows:
    """Rows of a batch [c, s, p], parameters fastest."""
    c, s, p = values.shape
    return _Rows(
        np.repeat(trace.chain_ids[chains], s * p),
        np.tile(np.repeat(trace.draw_ids[draws], p), c),
        np.tile(np.arange(p, dtype=np.int32), c * s),
        values.reshape(-1),
    )
