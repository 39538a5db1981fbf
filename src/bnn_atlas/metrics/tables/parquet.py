"""The Parquet files of measured values: tidy, long, one row per value, one schema for every study and method."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bnn_atlas.files import TableError, parquet_file, parquet_writer
from bnn_atlas.metrics.tables.measurement import Row

if TYPE_CHECKING:
    import pandas


def _fields(kind: pa.DataType, *names: str, nullable: bool = True) -> list[pa.Field]:
    return [pa.field(name, kind, nullable) for name in names]


_TEXT, _COUNT, _NUMBER = pa.string(), pa.int64(), pa.float64()
SCHEMA = pa.schema(
    [
        *_fields(_TEXT, "study", "run", "scale", nullable=False),
        *_fields(_COUNT, "split", nullable=False),
        *_fields(_TEXT, "dataset", "model", "method", nullable=False),
        *_fields(_COUNT, "chains", "draws", nullable=False),
        *_fields(_TEXT, "metric", nullable=False),
        *_fields(_NUMBER, "value", nullable=False),
        *_fields(_NUMBER, "standard_error"),
        *_fields(_TEXT, "note", "at", "over", nullable=False),
        *_fields(_NUMBER, "monte_carlo_error"),
    ]
)
"""Columns of a metric table, one row per `Row`. `over` says what `standard_error` is over (test rows or chains);
`monte_carlo_error` is how much the value would vary with other chains of the same run."""
_DIAGNOSTICS = _fields(
    _NUMBER, "rhat", "rhat_chainwise_max", "rhat_chainwise_median", "ess_bulk", "ess_tail", "within", "between",
    "rhat_gelman_rubin",
)  # fmt: skip
PARAMETER_SCHEMA = pa.schema(
    [*_fields(_TEXT, "name"), *_fields(_COUNT, "layer"), *_fields(_TEXT, "role"), *_DIAGNOSTICS]
)
"""One row per scalar parameter: `rhat_ess.Diagnostics`, and the R-hat of `gelman_rubin`."""
FUNCTION_SCHEMA = pa.schema([*_fields(_COUNT, "row", "class"), *_DIAGNOSTICS])
"""One row per function value, with the columns of PARAMETER_SCHEMA; `class` is empty for regression."""
ENTROPY_SCHEMA = pa.schema(
    [
        *_fields(_TEXT, "form"),
        *_fields(_COUNT, "setting", "products"),
        *_fields(_NUMBER, "exact", "error", "sd", "stated_sd", "bracket"),
        *_fields(_COUNT, "noise", "weights"),
    ]
)
"""One row per form of the entropy and number of its steps or iterations (`methods.implicit.compare.Compared`); `noise`
and `weights` are the numbers of inputs and outputs of the generator."""
CHAIN_SCHEMA = pa.schema(
    [
        *_fields(_COUNT, "chain"),
        *_fields(pa.bool_(), "divergent"),
        *_fields(_COUNT, "draws"),
        *_fields(_NUMBER, "lppd"),
    ]
)
"""LPPD of each chain on its own over its first draws."""
SAMPLER_SCHEMA = pa.schema(
    [
        *_fields(_COUNT, "chain"),
        *_fields(_TEXT, "excluded"),
        *_fields(
            _NUMBER, "log_posterior_mean", "log_posterior_sd", "acceptance_mean", "cut_short_share", "divergences",
            "guarded", "energy_change_mean", "energy_change_sd", "energy_change_max_abs", "energy_change_nonfinite",
            "energy_change_mean_square", "energy_change_mean_square_nonfinite", "step_size_min", "step_size_median",
            "step_size_max", "gradients",
        ),
    ]
)  # fmt: skip
"""One row per chain; `excluded` says why a chain is left out, and is empty for the others."""
REFEREE_SCHEMA = pa.schema(
    [
        *_fields(_COUNT, "chain"),
        *_fields(
            _NUMBER, "log_likelihood_before", "log_likelihood_sd", "log_likelihood_after", "log_likelihood_shift",
            "log_prior_before", "log_prior_sd", "log_prior_after", "log_prior_shift", "lppd_before", "lppd_after",
            "rhat", "ess", "trend", "trend_error",
        ),
    ]
)  # fmt: skip
"""One row per chain of a run with a referee: means before and after, the sd of the chain's own draws and the shift in
units of that sd; R-hat between halves and ESS of the referee's log posterior, and the rise of the referee's
log-likelihood."""
CURVE_SCHEMA = pa.schema(
    [
        *_fields(_TEXT, "curve", "label"),
        *_fields(_COUNT, "chain"),
        *_fields(_NUMBER, "quantile", "x", "value", "low", "high"),
    ]
)
"""One row per point of a curve: of one chain, of a quantile over the chains that are not excluded, or of all chains
together. `low` and `high` are the smallest and largest value among the draws at a point of a chain."""
E_VALUE_SCHEMA = pa.schema(
    [
        *_fields(_COUNT, "chain", "draw", nullable=False),
        *_fields(_NUMBER, "log_e", "log_e_ensemble", nullable=False),
    ]
)
"""`draw` counts from 1; `log_e` is against the chain's warm start, `log_e_ensemble` against all warm starts together.
The metadata hold alpha."""
_PAIR = _fields(_COUNT, "first", "second", "draw", nullable=False)
LINE_SCHEMA = pa.schema(
    [
        *_PAIR,
        *_fields(_TEXT, "state", "rows", nullable=False),
        *_fields(_NUMBER, "point", "loss", "error", nullable=False),
    ]
)
"""One row per point on a line between the networks of two chains at one draw: mean negative log-likelihood and fraction
of wrong classes (or root mean square error) on `train` or `test` rows. The state of the second network is `as_trained`,
`planted` (its planted permutation undone), or `aligned` with the first; with the networks on the line repaired,
`as_trained_repaired` or `aligned_repaired`."""
MATCH_SCHEMA = pa.schema(
    [
        *_PAIR,
        *_fields(_TEXT, "state", nullable=False),
        *_fields(_NUMBER, "point", nullable=False),
        *_fields(_COUNT, "planted"),
        *_fields(_COUNT, "transpositions", nullable=False),
        *_fields(_NUMBER, "ceiling", nullable=False),
        *_fields(_COUNT, "units", nullable=False),
        *_fields(_NUMBER, "squared_distance", nullable=False),
    ]
)
"""One row per network matched to the first of its pair, at a `point` on the line (1 is the second network):
transpositions of the permutation, their mean over uniformly random permutations (`ceiling`), the number of units that
can be permuted, and the squared distance. `planted` is the number of transpositions by which the second network
differed from the first when it started."""
PRUNING_SCHEMA = pa.schema(
    [
        *_fields(_TEXT, "network", "of", "rank", nullable=False),
        *_fields(_COUNT, "repeat", nullable=False),
        *_fields(_TEXT, "dead_inputs", nullable=False),
        *_fields(_NUMBER, "kept", nullable=False),
        *_fields(_COUNT, "parameters", nullable=False),
        *_fields(_NUMBER, "accuracy", "standard_error", "loss", nullable=False),
    ]
)
"""One row per pruned network: the network, the part that is pruned (`of`), the order (`rank`), the percentage kept, and
the number of parameters other than 0."""
ROW_GROUP = 65_536


class RunFiles(NamedTuple):
    """The files of the rule `metrics`, on one run and split."""

    table: str | Path
    """Metric rows."""
    rates: str | Path
    """Metric rows that depend on wall time."""
    parameters: str | Path
    functions: str | Path
    chains: str | Path
    samplers: str | Path
    curves: str | Path


RUN_SCHEMAS = {
    "parameters": PARAMETER_SCHEMA,
    "functions": FUNCTION_SCHEMA,
    "chains": CHAIN_SCHEMA,
    "samplers": SAMPLER_SCHEMA,
    "curves": CURVE_SCHEMA,
}
"""Field of `RunFiles` -> schema of its file, for files that do not hold metric rows."""


class EValues(NamedTuple):
    """The contents of a file of E-values."""

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
    with parquet_writer(path, SCHEMA) as writer:
        writer.write_table(pa.table(arrays, schema=SCHEMA), row_group_size=ROW_GROUP)


def read_table(path: str | Path) -> "pandas.DataFrame":
    """Rows of a metric table as a data frame; TableError if the file is missing or has a different schema."""
    return read_frame(path, SCHEMA)


def concat_tables(paths: Sequence[str | Path], destination: str | Path) -> None:
    """Write the rows of all tables, in the order of `paths`, as one table.

    At most one input and one row group are in memory at a time. All schemas are checked before anything is written.
    """
    if not paths:
        raise TableError(f"{destination}: no tables to join; give at least one")
    for path in paths:
        with _open(path):
            pass
    with parquet_writer(destination, SCHEMA) as writer:
        waiting: list[pa.RecordBatch] = []
        for path in paths:
            with _open(path) as source:
                for batch in source.iter_batches(batch_size=ROW_GROUP):
                    waiting.append(batch)
                    if sum(b.num_rows for b in waiting) >= ROW_GROUP:
                        _flush(writer, waiting)
        _flush(writer, waiting)


def write_rows(path: str | Path, frame: "pandas.DataFrame") -> None:
    """Write rows that `read_table` returned; NaN values stay NaN, NaN errors become null."""
    arrays = [pa.array(frame[field.name].to_numpy(), field.type, from_pandas=field.nullable) for field in SCHEMA]
    with parquet_writer(path, SCHEMA) as writer:
        writer.write_table(pa.table(arrays, schema=SCHEMA), row_group_size=ROW_GROUP)


def write_frame(path: str | Path, frame: "pandas.DataFrame", schema: pa.Schema) -> None:
    """Write a data frame with the columns of `schema`; NaN becomes null, and the same values give the same bytes."""
    table = pa.Table.from_pandas(frame, schema=schema, preserve_index=False).replace_schema_metadata(None)
    with parquet_writer(path, schema) as writer:
        writer.write_table(table, row_group_size=ROW_GROUP)


def read_frame(path: str | Path, schema: pa.Schema) -> "pandas.DataFrame":
    """Read what `write_frame` wrote; TableError if the file is missing, damaged or has different columns."""
    with _open(path, schema) as source:
        return source.read().to_pandas()


def write_e_values(path: str | Path, log_e: Iterable[tuple[int, np.ndarray, np.ndarray]], alpha: float) -> None:
    """Write the two log E-values [s] of numbered chains, in their order; chains may differ in length."""
    schema = E_VALUE_SCHEMA.with_metadata({b"alpha": repr(alpha).encode()})
    with parquet_writer(path, schema) as writer:
        for chain, own, ensemble in log_e:
            columns = [np.full(len(own), chain), np.arange(1, len(own) + 1), own, ensemble]
            # Unlike a data frame, NumPy arrays keep NaN apart from missing values.
            arrays = [pa.array(c, f.type, from_pandas=False) for c, f in zip(columns, schema, strict=True)]
            writer.write_table(pa.table(arrays, schema=schema), row_group_size=ROW_GROUP)


def read_e_values(path: str | Path) -> EValues:
    """Read what `write_e_values` wrote; TableError if the file is missing or does not hold E-values."""
    with _open(path, E_VALUE_SCHEMA) as source:
        table = source.read()
    return EValues(table.to_pandas(), float(table.schema.metadata[b"alpha"]))


def _flush(writer: pq.ParquetWriter, waiting: list[pa.RecordBatch]) -> None:
    """Write the waiting batches as row groups of the usual size."""
    if waiting:
        table = pa.Table.from_batches(waiting, SCHEMA).combine_chunks()
        writer.write_table(table, row_group_size=ROW_GROUP)
        waiting.clear()


@contextmanager
def _open(path: str | Path, wanted: pa.Schema = SCHEMA) -> Iterator[pq.ParquetFile]:
    """An open table whose schema has been checked."""
    with parquet_file(path) as source:
        if not source.schema_arrow.equals(wanted):
            raise TableError(f"{path}: {_difference(source.schema_arrow, wanted)}; it was not made by this version")
        yield source


def _difference(found: pa.Schema, wanted: pa.Schema) -> str:
    """The first difference between a schema and the expected schema, in words."""
    missing = [name for name in wanted.names if name not in found.names]
    extra = [name for name in found.names if name not in wanted.names]
    if missing or extra:
        return f"columns missing: {', '.join(missing) or 'none'}, unknown: {', '.join(extra) or 'none'}"
    for name in wanted.names:
        if not found.field(name).equals(wanted.field(name)):
            return f"column '{name}' is {found.field(name).type}, expected {wanted.field(name).type}"
    return f"columns in the order {', '.join(found.names)}, expected {', '.join(wanted.names)}"
