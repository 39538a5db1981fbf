"""The file of a run's E-values: one row per chain and draw."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from bnn_atlas.files import atomic
from bnn_atlas.metrics.tables import ROW_GROUP, TableError

E_VALUE_SCHEMA = pa.schema(
    [
        pa.field("chain", pa.int64(), nullable=False),
        pa.field("draw", pa.int64(), nullable=False),
        pa.field("log_e", pa.float64(), nullable=False),
    ]
)
"""`draw` counts from 1, and the metadata give alpha."""


class EValues(NamedTuple):
    """What the file says."""

    frame: pd.DataFrame
    """Columns of E_VALUE_SCHEMA, draws in the order of their chains."""
    alpha: float


def write_e_values(path: str | Path, log_e: Iterable[tuple[int, np.ndarray]], alpha: float) -> None:
    """Write the log E-values [s] of numbered chains, in their order; chains may differ in length."""
    schema = E_VALUE_SCHEMA.with_metadata({b"alpha": repr(alpha).encode()})
    with atomic(path) as temporary, pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
        for chain, values in log_e:
            columns = [np.full(len(values), chain), np.arange(1, len(values) + 1), values]
            # Arrays of NumPy keep NaN, which a data frame would turn into a missing value.
            arrays = [pa.array(c, f.type, from_pandas=False) for c, f in zip(columns, schema, strict=True)]
            writer.write_table(pa.table(arrays, schema=schema), row_group_size=ROW_GROUP)


def read_e_values(path: str | Path) -> EValues:
    """Read what `write_e_values` wrote; TableError if it is missing or something else."""
    if not Path(path).is_file():
        raise TableError(f"{path}: no such file; run the rule e_values")
    try:
        table = pq.read_table(path)
        alpha = float((table.schema.metadata or {})[b"alpha"])
    except (pa.ArrowInvalid, KeyError, ValueError) as error:
        raise TableError(f"{path}: not a file of E-values ({error}); delete it and run the rule e_values") from None
    if not table.schema.equals(E_VALUE_SCHEMA):
        raise TableError(f"{path}: its columns are {table.schema.names}, not {E_VALUE_SCHEMA.names}; make it again")
    return EValues(table.to_pandas(), alpha)
