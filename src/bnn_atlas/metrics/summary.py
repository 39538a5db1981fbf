"""A study's metric table pooled over repetitions: the mean and spread of each setting over seeds and splits."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from bnn_atlas.files import atomic
from bnn_atlas.metrics.tables import TableError, read_table, write_frame

REPETITION = ("seed", "split.seed")
"""Fields of a grid that repeat a setting; splits do so too."""
BY_CHAINS, BY_DRAWS = ("lppd_cumulative_chains", "lppd_cumulative_chains_order_sd"), "lppd_cumulative_draws"
"""Metrics with a row per number of chains, which are kept, and per number of draws, which are left out."""
KEYS = ("study", "entry", "point", "dataset", "model", "method", "metric")
SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string(), nullable=False) for name in ("study", "entry", "point", "scale")),
        *(pa.field(name, pa.string(), nullable=False) for name in ("dataset", "model", "method")),
        pa.field("chains", pa.int64()),
        pa.field("draws", pa.int64()),
        pa.field("metric", pa.string(), nullable=False),
        pa.field("n", pa.int64(), nullable=False),
        pa.field("not_finite", pa.int64(), nullable=False),
        *(pa.field(name, pa.float64()) for name in ("mean", "sd", "standard_error", "min", "max")),
    ]
)
"""One row per setting and metric. `n` runs and splits were pooled, `not_finite` of which have a value that is not
finite; `chains` and `draws` are empty where the repetitions differ in them (a chain of one was excluded)."""


class GridPoint(NamedTuple):
    """Where a run stands in its entry's grid."""

    entry: str
    point: Mapping[str, Any]
    """Field of the grid -> value."""


def point_text(point: Mapping[str, Any]) -> str:
    """`prior.scale=0.5; model.hidden=[16,16]` for a point of a grid without the fields that repeat a setting."""
    return "; ".join(
        f"{field}={value if isinstance(value, str) else json.dumps(value, separators=(',', ':'))}"
        for field, value in point.items()
        if field not in REPETITION
    )


def summarise(table: pd.DataFrame, runs: Mapping[str, GridPoint]) -> pd.DataFrame:
    """Mean, standard deviation (n - 1), standard error sd / sqrt(n), least and largest value of each setting.

    Repetitions of a setting are the rows of one entry, point of the grid without its seeds, data set, model, method and
    metric. A metric enters with its row at all chains and draws, those of BY_CHAINS with each number of chains, and
    `lppd_cumulative_draws` not at all. A NaN makes the mean NaN and an infinite value makes it infinite: nothing is
    left out. Rows are in the order of the table. Raises TableError for a run that is not in `runs` and where
    a run and split has two values of a metric.
    """
    unknown = sorted(set(table["run"]) - runs.keys())
    if unknown:
        raise TableError(f"the table has runs that the study has not: {', '.join(unknown)}; make the table again")
    rows = table[table["metric"] != BY_DRAWS].assign(
        entry=table["run"].map({run: where.entry for run, where in runs.items()}),
        point=table["run"].map({run: point_text(where.point) for run, where in runs.items()}),
        at=table["chains"].where(table["metric"].isin(BY_CHAINS), 0),
    )
    one = ["run", "split", "dataset", "metric", "at"]
    rows = rows[_largest(rows, "chains", one)]
    rows = rows[_largest(rows, "draws", one)]
    if rows.duplicated(one).any():
        twice = rows[rows.duplicated(one)].iloc[0]
        raise TableError(f"run '{twice['run']}', split {twice['split']}: '{twice['metric']}' is given twice")
    return _pooled(rows.assign(finite=np.isfinite(rows["value"])))[SCHEMA.names]


def write_summary(table: str | Path, runs: Mapping[str, GridPoint], parquet: str | Path, csv: str | Path) -> None:
    """Write the summary of a metric table as Parquet and as CSV; the same table gives the same bytes."""
    summary = summarise(read_table(table), runs)
    with atomic(csv) as temporary:
        summary.astype({"chains": "Int64", "draws": "Int64"}).to_csv(temporary, index=False, lineterminator="\n")
    write_frame(parquet, summary, SCHEMA)


def write_runs(rows: Sequence[Mapping[str, Any]], csv: str | Path) -> None:
    """Write one row per run; columns are in the order in which the rows name them, and empty where a run has none."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    with atomic(csv) as temporary:
        pd.DataFrame([dict(row) for row in rows], columns=columns, dtype=object).to_csv(
            temporary, index=False, lineterminator="\n"
        )


def _largest(rows: pd.DataFrame, column: str, keys: Sequence[str]) -> pd.Series:
    """Rows with the largest value of a column among those of the same keys."""
    return rows[column] == rows.groupby(list(keys), sort=False)[column].transform("max")


def _pooled(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per setting."""
    groups = rows.groupby([*KEYS, "at"], sort=False)
    values, counts = groups["value"], groups[["chains", "draws"]]
    n, sd = groups.size(), values.std(skipna=False)
    with np.errstate(invalid="ignore"):  # infinite values of both signs have no mean
        mean = values.mean(skipna=False)
    found = pd.DataFrame(
        {
            "scale": groups["scale"].first(),
            **counts.first().where(counts.nunique() == 1),
            "n": n,
            "not_finite": n - groups["finite"].sum(),
            "mean": mean,
            "sd": sd,
            "standard_error": sd / np.sqrt(n),
            "min": values.min(skipna=False),
            "max": values.max(skipna=False),
        }
    )
    return found.reset_index()
