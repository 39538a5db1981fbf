"""Pool a study's metric table over repetitions: the mean, spread and trust of each setting over seeds and splits."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from bnn_atlas.config.runs.studies import REPETITION
from bnn_atlas.files import TableError, atomic
from bnn_atlas.metrics.formulas.repetitions import Repetitions, over_repetitions, overlaps
from bnn_atlas.metrics.judgement.checks import Status
from bnn_atlas.metrics.judgement.trust import Trust, reference_word, trusts, worst
from bnn_atlas.metrics.tables.measurement import joined
from bnn_atlas.metrics.tables.parquet import read_table, write_frame

BY_CHAINS = (
    "lppd_cumulative_chains", "lppd_cumulative_chains_order_sd", "accuracy_cumulative_chains", "ece_cumulative_chains",
)  # fmt: skip
CURVES = (
    "lppd_cumulative_draws", "accuracy_cumulative_draws", "ece_cumulative_draws", "lppd_chain_mean_cumulative_draws",
    "accuracy_chain_mean_cumulative_draws", "ece_chain_mean_cumulative_draws", "calibration_confidence",
    "calibration_accuracy", "calibration_share", "entropy_histogram",
)  # fmt: skip
"""BY_CHAINS: metrics with a row per number of chains. CURVES: points of other curves, not scores of a run."""
KEYS = ("study", "entry", "point", "dataset", "model", "method", "metric", "at")
SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string(), nullable=False) for name in ("study", "entry", "point", "scale")),
        *(pa.field(name, pa.string(), nullable=False) for name in ("dataset", "model", "method")),
        pa.field("chains", pa.int64()),
        pa.field("draws", pa.int64()),
        pa.field("metric", pa.string(), nullable=False),
        pa.field("at", pa.string(), nullable=False),
        pa.field("n", pa.int64(), nullable=False),
        pa.field("not_finite", pa.int64(), nullable=False),
        *(pa.field(name, pa.float64()) for name in ("mean", "sd", "standard_error", "monte_carlo_error", "min", "max")),
        pa.field("rounding_sd", pa.float64()),
        *(pa.field(name, pa.string(), nullable=False) for name in ("over", "trust", "note")),
    ]
)
"""One row per setting and metric. `n` runs and splits were pooled; `not_finite` of them do not have a finite value.
`chains` and `draws` are empty if they differ between repetitions (for example after excluding a chain). `over` names
what `standard_error` is computed over: seeds, splits, or, for one run on one split, whatever the run's own error is
computed over. `monte_carlo_error` is the error of the mean. `rounding_sd` is the standard deviation due to rounding:
sqrt(mean(d^2) / 2), where d are the differences between runs with the same settings but different kernels
(`GridPoint.rounded`); empty without such runs. `trust` is the worst status of the runs (`judgement.trust`); `note` has
the marks of the runs, and says if a reference has not converged."""


UNMEASURED = Trust(Status.UNKNOWN, "the table has no diagnostics")


class GridPoint(NamedTuple):
    """A run's place in its entry's grid."""

    entry: str
    point: Mapping[str, Any]
    """Field of the grid -> value."""
    marks: Sequence[str] = ()
    """Remarks on the run that every table must show (`config.checks.runs.marks`)."""
    rounded: str = ""
    """The run that differs from this run only in its kernel, and so in its rounding; empty if there is none."""


def point_text(point: Mapping[str, Any]) -> str:
    """A point of a grid as text, such as `prior.scale=0.5; model.hidden=[16,16]`, without fields of repetitions."""
    return "; ".join(
        f"{field}={value if isinstance(value, str) else json.dumps(value, separators=(',', ':'))}"
        for field, value in point.items()
        if field not in REPETITION
    )


def summarise(table: pd.DataFrame, runs: Mapping[str, GridPoint]) -> pd.DataFrame:
    """Pool each metric of each setting over its repetitions (`over_repetitions`), as rows of SCHEMA.

    Repetitions of a setting agree in entry, point of the grid (without seeds), data set, model, method and metric. A
    metric is pooled at all chains and draws. Metrics in BY_CHAINS are also pooled at each number of chains; metrics in
    CURVES are not pooled. Rows keep the order of the table. Raises TableError if a run is not in `runs`, or if a run
    has two values of a metric on one split.
    """
    unknown = sorted(set(table["run"]) - runs.keys())
    if unknown:
        raise TableError(f"the table has runs that the study does not have: {', '.join(unknown)}; make the table again")
    rows = table[~table["metric"].isin(CURVES)].assign(
        entry=table["run"].map({run: where.entry for run, where in runs.items()}),
        point=table["run"].map({run: point_text(where.point) for run, where in runs.items()}),
        marks=table["run"].map({run: "; ".join(where.marks) for run, where in runs.items()}),
        of_chains=table["chains"].where(table["metric"].isin(BY_CHAINS), 0),
    )
    one = ["run", "split", "dataset", "metric", "at", "of_chains"]
    rows = rows[_largest(rows, "chains", one)]
    rows = rows[_largest(rows, "draws", one)]
    if rows.duplicated(one).any():
        twice = rows[rows.duplicated(one)].iloc[0]
        raise TableError(f"run '{twice['run']}', split {twice['split']}: '{twice['metric']}' is given twice")
    otherwise = rows[one].assign(run=rows["run"].map({run: where.rounded for run, where in runs.items()}))
    found, shared = trusts(table), overlaps(table)
    where = list(zip(rows["run"], rows["split"], strict=True))
    rows = rows.assign(
        finite=np.isfinite(rows["value"]),
        place=[f"{runs[run].point.get('split.seed', '')}/{split}" for run, split in where],
        trust=pd.Series([found.get(key, UNMEASURED) for key in where], index=rows.index, dtype=object),
        overlap=[shared.get(key, np.nan) for key in where],
        rounded=otherwise.merge(rows[[*one, "value"]], how="left")["value"].to_numpy(),
    )
    return _pooled(rows)[SCHEMA.names]


def write_summary(table: str | Path, runs: Mapping[str, GridPoint], parquet: str | Path, csv: str | Path) -> None:
    """Write the summary of a metric table as Parquet and as CSV; the same table gives the same bytes."""
    summary = summarise(read_table(table), runs)
    with atomic(csv) as temporary:
        summary.astype({"chains": "Int64", "draws": "Int64"}).to_csv(temporary, index=False, lineterminator="\n")
    write_frame(parquet, summary, SCHEMA)


def write_runs(rows: Sequence[Mapping[str, Any]], csv: str | Path) -> None:
    """Write one row per run; columns are in order of first use, and empty for runs without a value."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    with atomic(csv) as temporary:
        pd.DataFrame([dict(row) for row in rows], columns=columns, dtype=object).to_csv(
            temporary, index=False, lineterminator="\n"
        )


def _largest(rows: pd.DataFrame, column: str, keys: Sequence[str]) -> pd.Series:
    """Mask of the rows with the largest value of a column among rows with the same keys."""
    return rows[column] == rows.groupby(list(keys), sort=False)[column].transform("max")


def _pooled(rows: pd.DataFrame) -> pd.DataFrame:
    groups = rows.groupby([*KEYS, "of_chains"], sort=False)
    counts = groups[["chains", "draws"]]
    n = groups.size()
    if rows.empty:
        return pd.DataFrame(columns=SCHEMA.names)
    found = pd.DataFrame([_one(group) for _, group in groups], index=n.index)
    found = found.assign(
        scale=groups["scale"].first(),
        not_finite=n - groups["finite"].sum(),
        **counts.first().where(counts.nunique() == 1),
    )
    return found.reset_index()


def _one(group: pd.DataFrame) -> dict[str, Any]:
    """Pooled columns of one metric over the repetitions of one setting."""
    pooled = over_repetitions(group["value"], Repetitions(group["place"], float(group["overlap"].mean())))._asdict()
    only, mc = group.iloc[0], group["monte_carlo_error"].to_numpy(dtype=np.float64)
    if pooled["n"] == 1:
        pooled |= {"standard_error": only["standard_error"], "over": only["over"]}
    words = [only["marks"], *dict.fromkeys(reference_word(note) for note in group["note"])]
    return {
        **{name: pooled[name] for name in ("n", "mean", "sd", "standard_error", "over")},
        "min": pooled["low"],
        "max": pooled["high"],
        "monte_carlo_error": float(np.sqrt(np.square(mc).sum()) / len(mc)),
        "rounding_sd": float(np.sqrt(np.square((group["value"] - group["rounded"]).to_numpy()).mean() / 2)),
        "trust": worst(list(group["trust"])).words,
        "note": joined(*words),
    }
