"""The Parquet files of measured values: tidy, long, one row per value, one schema for every study and method."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bnn_atlas.files import atomic
from bnn_atlas.metrics.tables.measurement import Row

if TYPE_CHECKING:
    import pandas

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
        pa.field("at", pa.string(), nullable=False),
        pa.field("over", pa.string(), nullable=False),
        pa.field("monte_carlo_error", pa.float64()),
    ]
)
"""Columns of a metric table, one row per `Row`. `over` says what `standard_error` is over (test rows or chains), and
`monte_carlo_error` what other chains of the same run would change."""
_DIAGNOSTICS = [
    pa.field(name, pa.float64())
    for name in (
        "rhat", "rhat_chainwise_max", "rhat_chainwise_median", "ess_bulk", "ess_tail", "within", "between",
        "rhat_gelman_rubin",
    )
]  # fmt: skip
PARAMETER_SCHEMA = pa.schema(
    [pa.field("name", pa.string()), pa.field("layer", pa.int64()), pa.field("role", pa.string()), *_DIAGNOSTICS]
)
"""Diagnostics (`rhat_ess.Diagnostics`, and the R-hat of `gelman_rubin`) of each scalar parameter."""
FUNCTION_SCHEMA = pa.schema([pa.field("row", pa.int64()), pa.field("class", pa.int64()), *_DIAGNOSTICS])
"""The same of each function value; `class` is empty for regression."""
ENTROPY_SCHEMA = pa.schema(
    [
        pa.field("form", pa.string()),
        pa.field("setting", pa.int64()),
        pa.field("products", pa.int64()),
        pa.field("exact", pa.float64()),
        pa.field("error", pa.float64()),
        pa.field("sd", pa.float64()),
        pa.field("stated_sd", pa.float64()),
        pa.field("bracket", pa.float64()),
        pa.field("noise", pa.int64()),
        pa.field("weights", pa.int64()),
    ]
)
"""One row per form of the entropy and number of its steps or iterations (`methods.implicit.compare.Compared`), with the
numbers of noise entries and of weights of the generator."""
CHAIN_SCHEMA = pa.schema(
    [
        pa.field("chain", pa.int64()),
        pa.field("divergent", pa.bool_()),
        pa.field("draws", pa.int64()),
        pa.field("lppd", pa.float64()),
    ]
)
"""LPPD of each chain alone after its first draws."""
SAMPLER_SCHEMA = pa.schema(
    [
        pa.field("chain", pa.int64()),
        pa.field("excluded", pa.string()),
        *(
            pa.field(name, pa.float64())
            for name in (
                "log_posterior_mean", "log_posterior_sd", "acceptance_mean", "cut_short_share", "divergences",
                "guarded", "energy_change_mean", "energy_change_sd", "energy_change_max_abs", "energy_change_nonfinite",
                "energy_change_mean_square", "energy_change_mean_square_nonfinite", "step_size_min",
                "step_size_median", "step_size_max", "gradients",
            )
        ),
    ]
)  # fmt: skip
"""One row per chain; `excluded` says why a chain is left out, and is empty if it is not."""
REFEREE_SCHEMA = pa.schema(
    [
        pa.field("chain", pa.int64()),
        *(
            pa.field(f"{name}{what}", pa.float64())
            for name in ("log_likelihood", "log_prior")
            for what in ("_before", "_sd", "_after", "_shift")
        ),
        *(
            pa.field(name, pa.float64())
            for name in ("lppd_before", "lppd_after", "rhat", "ess", "trend", "trend_error")
        ),
    ]
)
"""One row per chain of a run with a referee: means before and after, the sd of the chain's own draws and the shift in
these; R-hat between the halves and ESS of the referee's log posterior, and the rise of its log-likelihood."""
CURVE_SCHEMA = pa.schema(
    [
        pa.field("curve", pa.string()),
        pa.field("label", pa.string()),
        pa.field("chain", pa.int64()),
        pa.field("quantile", pa.float64()),
        pa.field("x", pa.float64()),
        pa.field("value", pa.float64()),
        pa.field("low", pa.float64()),
        pa.field("high", pa.float64()),
    ]
)
"""One row per point: of a chain, of a quantile over the chains that are not excluded, or (neither) of all of them.

`low` and `high` are the smallest and largest value among the draws of a point of a chain.
"""
E_VALUE_SCHEMA = pa.schema(
    [
        pa.field("chain", pa.int64(), nullable=False),
        pa.field("draw", pa.int64(), nullable=False),
        pa.field("log_e", pa.float64(), nullable=False),
        pa.field("log_e_ensemble", pa.float64(), nullable=False),
    ]
)
"""`draw` counts from 1; `log_e` is against the chain's warm start, `log_e_ensemble` against all warm starts together.
The metadata give alpha."""
_PAIR = [pa.field(name, pa.int64(), nullable=False) for name in ("first", "second", "draw")]
LINE_SCHEMA = pa.schema(
    [
        *_PAIR,
        pa.field("state", pa.string(), nullable=False),
        pa.field("rows", pa.string(), nullable=False),
        *(pa.field(name, pa.float64(), nullable=False) for name in ("point", "loss", "error")),
    ]
)
"""One row per point of a line between the networks of two chains at one draw: mean negative log-likelihood and share
of wrong classes (or root mean square error) on `train` or `test` rows. The second network is `as_trained`, has its
`planted` permutation undone, or is `aligned` with the first."""
MATCH_SCHEMA = pa.schema(
    [
        *_PAIR,
        pa.field("state", pa.string(), nullable=False),
        pa.field("point", pa.float64(), nullable=False),
        pa.field("planted", pa.int64()),
        pa.field("transpositions", pa.int64(), nullable=False),
        pa.field("ceiling", pa.float64(), nullable=False),
        pa.field("units", pa.int64(), nullable=False),
        pa.field("squared_distance", pa.float64(), nullable=False),
    ]
)
"""One row per network that is matched to the first of its pair, at a `point` of the line (1 is the second network):
transpositions of the permutation, their mean for uniformly random ones, the units that can be permuted, and the squared
distance. `planted` are the transpositions by which the second started as a copy of the first."""
NORM_SCHEMA = pa.schema(
    [
        pa.field("chain", pa.int64(), nullable=False),
        pa.field("draw", pa.int64(), nullable=False),
        pa.field("array", pa.string(), nullable=False),
        pa.field("norm", pa.float64(), nullable=False),
    ]
)
"""Euclidean norm of each array of each network."""
PRUNING_SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string(), nullable=False) for name in ("network", "of", "rank")),
        pa.field("repeat", pa.int64(), nullable=False),
        pa.field("dead_inputs", pa.string(), nullable=False),
        pa.field("kept", pa.float64(), nullable=False),
        pa.field("parameters", pa.int64(), nullable=False),
        *(pa.field(name, pa.float64(), nullable=False) for name in ("accuracy", "standard_error", "loss")),
    ]
)
"""One row per pruned network: whose, what of it, by which order, the percentage kept and parameters that are not 0."""
ROW_GROUP = 65_536


class TableError(ValueError):
    """A table is missing, unreadable or has other columns than it should."""


class EValues(NamedTuple):
    """What the file says."""

    frame: "pandas.DataFrame"
    """Columns of E_VALUE_SCHEMA, draws in the order of their chains."""
    alpha: float


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
            raise TableError(f"{path}: column '{field.name}' has a row without a value; only errors may be None")
    with atomic(path) as temporary:
        pq.write_table(pa.table(arrays, schema=SCHEMA), temporary, compression="zstd", row_group_size=ROW_GROUP)


def read_table(path: str | Path) -> "pandas.DataFrame":
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


def write_rows(path: str | Path, frame: "pandas.DataFrame") -> None:
    """Write rows that `read_table` gave; a value that is NaN stays so, an error that is NaN is missing."""
    arrays = [pa.array(frame[field.name].to_numpy(), field.type, from_pandas=field.nullable) for field in SCHEMA]
    with atomic(path) as temporary:
        pq.write_table(pa.table(arrays, schema=SCHEMA), temporary, compression="zstd", row_group_size=ROW_GROUP)


def write_frame(path: str | Path, frame: "pandas.DataFrame", schema: pa.Schema) -> None:
    """Write a data frame with the columns of `schema`; NaN becomes null, and the same values give the same bytes."""
    table = pa.Table.from_pandas(frame, schema=schema, preserve_index=False).replace_schema_metadata(None)
    with atomic(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", row_group_size=ROW_GROUP)


def read_frame(path: str | Path, schema: pa.Schema) -> "pandas.DataFrame":
    """Read what `write_frame` wrote; TableError if it is missing or has other columns."""
    if not Path(path).is_file():
        raise TableError(f"{path}: no such table; run the rule that makes it")
    table = pq.read_table(path)
    if table.column_names != schema.names:
        raise TableError(f"{path}: its columns are {table.column_names}, not {schema.names}; make it again")
    return table.to_pandas()


def write_e_values(path: str | Path, log_e: Iterable[tuple[int, np.ndarray, np.ndarray]], alpha: float) -> None:
    """Write the two log E-values [s] of numbered chains, in their order; chains may differ in length."""
    schema = E_VALUE_SCHEMA.with_metadata({b"alpha": repr(alpha).encode()})
    with atomic(path) as temporary, pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
        for chain, own, ensemble in log_e:
            columns = [np.full(len(own), chain), np.arange(1, len(own) + 1), own, ensemble]
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
    schema = source.schema_arrow
    if not schema.equals(SCHEMA):
        source.close()
        raise TableError(f"{path}: {_difference(schema)}; it was not made by write_table of this version")
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
