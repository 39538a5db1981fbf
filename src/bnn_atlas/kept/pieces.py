"""The results that a study's page keeps, small enough to commit, so that a study can be run in several sessions.

The folder `kept` next to the page has the metric rows of finished runs, the values of single test rows for paired
differences, what the runs were made from, and the time of their jobs. The next page, and its figures that
show metric rows, are made from these and from newer results.
"""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import pandas as pd
import pyarrow as pa

from bnn_atlas.files import TableError, parquet_file, parquet_writer, put_back
from bnn_atlas.kept.jobs import JOB_COLUMNS
from bnn_atlas.metrics.judgement.pooled import BY_CHAINS
from bnn_atlas.metrics.tables.parquet import SCHEMA, read_table, write_rows

FOLDER = "kept"
"""Name of the folder next to a page."""
ADDED = ("kernel", "vector_bits", "draws")
"""Columns of runs.csv that earlier pages do not have."""
TEXTS = ("settings", "code", "machine", "packages", "reductions", *ADDED)
"""Columns of runs.csv that are always text: a hash may consist of digits only."""
RUN_COLUMNS = ("run", "split", *TEXTS)
"""Columns of runs.csv. `settings` and `code` are hashes of what determines the draws; `packages` computed them, with
the gradients of `kernel`, on a processor with vectors of `vector_bits`; `draws` begins their SHA-256."""
CHAINS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
"""Numbers of chains at which metrics by number of chains are kept, in addition to those in claims and all chains."""
DECIMALS = 3
"""Decimals of kept values of single rows; errors follow from the variation between rows, which is far larger."""
DENSITIES = pa.schema(
    [
        pa.field("run", pa.string()),
        pa.field("split", pa.int64()),
        pa.field("metric", pa.string()),
        pa.field("chains", pa.int64()),
        pa.field("values", pa.list_(pa.float32())),
    ]
)

Densities = Mapping[tuple[str, int, str, int], np.ndarray]
"""Run, split, metric and number of chains -> the values [n] at single test rows that the metric averages."""
Place = tuple[str, int]
"""A run and a split."""


class Piece(NamedTuple):
    """Results of some runs and figures of a study at one scale."""

    scale: str
    table: pd.DataFrame
    """Metric rows (`metrics.tables.parquet.SCHEMA`)."""
    runs: pd.DataFrame
    """One row per run and split, RUN_COLUMNS."""
    jobs: pd.DataFrame
    """One row per job, `kept.jobs.JOB_COLUMNS`."""
    figures: dict[str, str]
    """Figure -> hash of its settings and its runs' settings."""
    densities: Densities
    folder: Path | None = None
    """Folder with the pictures and tables of the figures."""

    @classmethod
    def empty(cls, scale: str) -> Self:
        """A piece without results."""
        columns = (SCHEMA.names, RUN_COLUMNS, JOB_COLUMNS)
        table, runs, jobs = (pd.DataFrame(columns=list(names)) for names in columns)
        return cls(scale, table, runs, jobs, {}, {})

    @property
    def places(self) -> set[Place]:
        """Runs and splits that have rows."""
        return set(zip(self.runs["run"], self.runs["split"].astype(int), strict=True))

    def of_runs(self, places: Collection[Place]) -> Self:
        """The piece with only these runs and splits, but all figures and jobs."""
        chosen = set(places)

        def rows(frame: pd.DataFrame) -> pd.DataFrame:
            places = zip(frame["run"], frame["split"], strict=True)
            return frame[np.array([(run, int(split)) in chosen for run, split in places], dtype=bool)]

        densities = {key: values for key, values in self.densities.items() if key[:2] in chosen}
        return self._replace(table=rows(self.table), runs=rows(self.runs), densities=densities)


def kept_scale(page: str | Path) -> str | None:
    """The scale of the results that a page keeps; None if it keeps none."""
    put_back(page)
    about = Path(page) / FOLDER / "kept.json"
    return str(json.loads(about.read_text(encoding="utf-8"))["scale"]) if about.is_file() else None


def read_piece(page: str | Path, scale: str) -> Piece:
    """What the page in a folder keeps; empty if there is no such folder, or nothing at this scale.

    Raises TableError for a file that is damaged or missing.
    """
    put_back(page)
    folder = Path(page) / FOLDER
    if not folder.is_dir():
        return Piece.empty(scale)
    try:
        about = json.loads((folder / "kept.json").read_text(encoding="utf-8"))
        if about["scale"] != scale:
            return Piece.empty(scale)
        runs = pd.read_csv(folder / "runs.csv", keep_default_na=False, dtype=dict.fromkeys(TEXTS, str))
        runs = runs.assign(**{name: "" for name in ADDED if name not in runs})
        jobs = pd.read_csv(folder / "jobs.csv", keep_default_na=False)
        with parquet_file(folder / "densities.parquet") as source:
            rows = source.read().cast(DENSITIES).to_pylist()
    except (OSError, ValueError, KeyError) as error:
        raise TableError(f"{folder}: not what a page keeps ({error}); restore it, or delete the folder") from None
    densities = {
        (row["run"], row["split"], row["metric"], row["chains"]): np.array(row["values"], np.float32) for row in rows
    }
    table = read_table(folder / "metrics.parquet")
    return Piece(scale, table, runs, jobs, about["figures"], densities, Path(page))


def write_piece(page: Path, piece: Piece) -> None:
    """Write a piece next to its page; the same piece gives the same bytes."""
    folder = page / FOLDER
    folder.mkdir()
    table = piece.table.sort_values(["run", "split"], kind="stable")
    write_rows(folder / "metrics.parquet", table)
    columns = list(zip(*sorted(piece.densities), strict=True)) or [()] * (len(DENSITIES) - 1)
    values = [np.round(piece.densities[key], DECIMALS).astype(np.float32) for key in sorted(piece.densities)]
    arrays = [pa.array(column, field.type) for column, field in zip([*columns, values], DENSITIES, strict=True)]
    with parquet_writer(folder / "densities.parquet", DENSITIES) as writer:
        writer.write_table(pa.table(arrays, schema=DENSITIES))
    for name, frame, keys in (("runs", piece.runs, ["run", "split"]), ("jobs", piece.jobs, ["rule", "job"])):
        frame.sort_values(keys).to_csv(folder / f"{name}.csv", index=False, lineterminator="\n")
    about = json.dumps({"scale": piece.scale, "figures": piece.figures}, indent=1, sort_keys=True)
    (folder / "kept.json").write_text(about + "\n", encoding="utf-8", newline="\n")


def union(fresh: Piece, kept: Piece) -> Piece:
    """The union of both, with the fresh version of any run and split, job or figure that both have."""
    older = kept.of_runs(kept.places - fresh.places)
    jobs = pd.concat([fresh.jobs, kept.jobs]).drop_duplicates(["rule", "job"])
    return Piece(
        scale=fresh.scale,
        table=_joined(fresh.table, older.table),
        runs=_joined(fresh.runs, older.runs),
        jobs=jobs.reset_index(drop=True),
        figures=kept.figures | fresh.figures,
        densities={**older.densities, **fresh.densities},
    )


def compact(table: pd.DataFrame, chains: Collection[int]) -> pd.DataFrame:
    """The rows that pages, their figures and claims read.

    Metrics by number of chains are kept only at CHAINS, `chains`, and all chains of a run.
    """
    largest = table.groupby(["run", "split", "dataset", "metric", "at"], sort=False)["chains"].transform("max")
    chosen = ~table["metric"].isin(BY_CHAINS) | table["chains"].isin([*CHAINS, *chains]) | (table["chains"] == largest)
    return table[chosen].reset_index(drop=True)


def _joined(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """Rows of both; an empty frame is left out, since it has no types and would change the other's."""
    parts = [frame for frame in (first, second) if len(frame)]
    return pd.concat(parts, ignore_index=True) if parts else first
