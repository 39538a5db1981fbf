"""The results that a study's page keeps, small enough to commit, so that a study can be run piece by piece.

The folder `kept` next to the page has the metric rows of finished runs, the values of single test rows for paired
differences, hashes of what the runs were made from, and the time of their jobs. The next page, and those of its figures
that show metric rows, are made from these files and from newer results.
"""

import csv
import json
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
import pyarrow as pa

from bnn_atlas.files import TableError, parquet_file, parquet_writer, put_back
from bnn_atlas.metrics.judgement.pooled import BY_CHAINS
from bnn_atlas.metrics.tables.parquet import SCHEMA, read_table, write_rows

NOT_RECORDED = "a machine that was not recorded"
SAMPLING = "sample"
"""The rule whose jobs record their machine, next to the draws."""
SECTION_RULES = ("subset", "density_grid", "functions", "surface")
"""Rules with one job per run and section of figures."""
JOB_COLUMNS = ("rule", "job", "seconds", "cpu_seconds", "machine")
"""Columns of a table of jobs. `job` is the path of the benchmark file in the folder of its rule, without its ending;
`seconds` is wall time, `cpu_seconds` the time of all cores, and `machine` where a block of chains was sampled (empty
for other jobs)."""


class RuleTime(NamedTuple):
    """The jobs of one rule."""

    rule: str
    jobs: int
    wall: float
    """Seconds, added up over the jobs even if they ran at the same time."""
    cpu: float
    """CPU seconds, over all cores."""


class StudyJobs(NamedTuple):
    """The jobs that belong to the present study, identified by the names of their benchmark files."""

    study: str
    sizes: Mapping[str, Sequence[int]]
    """Run -> number of splits and number of blocks; files of other runs, splits and blocks are outdated."""
    figures: Collection[str]
    """Names of the study's figures."""
    sections: Collection[str]
    """Names of the files for sections of the figures, without endings."""
    shared: Collection[str]
    """Names, as `<rule>/...`, of jobs that studies share, such as warm starts; such jobs count for each study."""

    def has(self, rule: str, job: str) -> bool:
        """Whether a job belongs to the study."""
        if f"{rule}/{job}" in self.shared:
            return True
        first, *parts = job.split("/")
        if rule == "table":
            return job == self.study or job.startswith(f"{self.study}-")
        if first != self.study or not parts:
            return False
        run, *parts = parts
        if rule == "figures" and run == "diagnostics":
            run, _, split = parts[0].rpartition("-")
            parts = [split]
        elif rule == "figures":
            return run in self.figures
        if run not in self.sizes:
            return False
        counts = dict(zip(("split", "block"), self.sizes[run], strict=True))
        for part in parts:
            if numbered := re.fullmatch(r"(split|block)(\d+)", part):
                if int(numbered[2]) >= counts[numbered[1]]:
                    return False
            elif rule in SECTION_RULES and part not in self.sections:
                return False
        return True


def read_jobs(folder: str | Path, of: StudyJobs) -> pd.DataFrame:
    """The jobs of a study with their times, JOB_COLUMNS; a resumed job has the times of its last attempt.

    `folder` has one file per job, at `<rule>/<study>/...tsv` or, for tables, `table/<study>-...tsv`. Next to `folder`
    are the folders of the blocks of chains, with the files that name their machines.
    """
    rows = []
    for file in sorted(Path(folder).glob("*/**/*.tsv")):
        rule, _, job = file.relative_to(folder).as_posix().removesuffix(".tsv").partition("/")
        if of.has(rule, job):
            with file.open(encoding="utf-8", newline="") as lines:
                took = list(csv.DictReader(lines, delimiter="\t"))
            wall, cpu = (sum(_seconds(one[column]) for one in took) for column in ("s", "cpu_time"))
            machine = machine_of(Path(folder).parent / job / "timing.json") if rule == SAMPLING else ""
            rows.append((rule, job, wall, cpu, machine))
    return pd.DataFrame(rows, columns=list(JOB_COLUMNS))


def rule_times(jobs: pd.DataFrame) -> list[RuleTime]:
    """Times by rule, the longest first."""
    times = [
        RuleTime(str(rule), len(rows), float(rows["seconds"].sum()), float(rows["cpu_seconds"].sum()))
        for rule, rows in jobs.groupby("rule")
    ]
    return sorted(times, key=lambda time: -time.wall)


def _seconds(text: str) -> float:
    """A number of seconds; 0 if Snakemake could not measure it."""
    try:
        seconds = float(text)
    except ValueError:
        return 0.0
    return seconds if math.isfinite(seconds) else 0.0


class Made(NamedTuple):
    """The runs of one entry of a study that were sampled on the same machines."""

    entry: str
    runs: int
    machine: str
    jobs: int
    wall: float
    """Seconds of the runs' own jobs, added up even if jobs ran at the same time."""
    cpu: float
    """CPU seconds, over all cores."""


def machine_of(timing: Path) -> str:
    """Processor, cores and any accelerator, from the timing file of a block of chains; empty without such a file."""
    if not timing.is_file():
        return ""
    about = json.loads(timing.read_text(encoding="utf-8"))
    platform, _, kind = str(about["device"]).partition(" ")
    processor = f"{about['processor']}, {about['cores']} cores" if "processor" in about else ""
    if platform == "cpu":
        return processor or NOT_RECORDED
    return f"{kind} (host: {processor})" if processor else kind


def made_on(jobs: pd.DataFrame, study: str, entries: Mapping[str, str]) -> list[Made]:
    """For each entry, the machines of its runs and the time of their own jobs, in the order of `entries`.

    Jobs that runs share (data, splits, warm starts) are not counted. Runs without jobs are left out.

    Args:
        jobs: a table of jobs (`jobs`).
        study: the name of the study.
        entries: run -> its entry in the study's file.
    """
    parts = jobs["job"].str.split("/")
    own = jobs.assign(run=parts.str[1])[
        (parts.str[0] == study) & (jobs["rule"] != "figures") & parts.str[1].isin(entries)
    ]
    of_run = dict(list(own.groupby("run", sort=False)))
    groups: dict[tuple[str, str], list[str]] = {}
    for run in (run for run in entries if run in of_run):
        machines = [machine for machine in dict.fromkeys(of_run[run]["machine"]) if machine]
        groups.setdefault((entries[run], " and ".join(machines) or NOT_RECORDED), []).append(run)
    made = []
    for (entry, machine), runs in groups.items():
        rows = pd.concat([of_run[run] for run in runs])
        made.append(Made(entry, len(runs), machine, len(rows), rows["seconds"].sum(), rows["cpu_seconds"].sum()))
    return made


FOLDER = "kept"
"""Name of the folder next to a page."""
ADDED = ("kernel", "vector_bits", "draws", "commit")
"""Columns of runs.csv that earlier pages do not have."""
TEXTS = ("settings", "code", "machine", "packages", "reductions", *ADDED)
"""Columns of runs.csv that are always text: a hash may consist of digits only."""
RUN_COLUMNS = ("run", "split", *TEXTS)
"""Columns of runs.csv. `settings` and `code` are hashes of what determines the draws. The draws were computed with
`packages` and the gradients of `kernel`, on a processor with vectors of `vector_bits`. `draws` is the beginning of the
draws' SHA-256, `commit` the beginning of the hash of the last commit that changed the code (with `+` if the code had
been changed since)."""
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


class Origin(StrEnum):
    """Where results come from, the nearest first; a claim has the farthest origin of the results that answered it."""

    HERE = "made here"
    ARCHIVE = "from a published archive"
    CLONE = "came with the clone"
    EARLIER = "of earlier code"


def farthest(origins: Iterable[Origin]) -> Origin:
    """The farthest of some origins; `HERE` if there are none."""
    return max(origins, key=list(Origin).index, default=Origin.HERE)


class Piece(NamedTuple):
    """Results of some runs and figures of a study at one scale."""

    scale: str
    table: pd.DataFrame
    """Metric rows (`metrics.tables.parquet.SCHEMA`)."""
    runs: pd.DataFrame
    """One row per run and split, RUN_COLUMNS."""
    jobs: pd.DataFrame
    """One row per job, JOB_COLUMNS."""
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


def blocks_of(kept: Path, run: str, settings: str) -> Path:
    """The archive of the finished blocks of a run in the folder `kept`; `settings` is the hash of its settings."""
    return kept / "blocks" / f"{run}-{settings}.zip"


def read_piece(page: str | Path, scale: str) -> Piece:
    """The results kept by the page in a folder; empty without such a folder, or if it has nothing at this scale.

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
        raise TableError(f"{folder}: not the kept results of a page ({error}); restore or delete the folder") from None
    densities = {
        (row["run"], row["split"], row["metric"], row["chains"]): np.array(row["values"], np.float32) for row in rows
    }
    table = read_table(folder / "metrics.parquet")
    return Piece(scale, table, runs, jobs, about["figures"], densities, Path(page))


def write_piece(page: Path, piece: Piece, settings: Mapping[str, Mapping[str, Any]]) -> None:
    """Write a piece next to its page; the same piece gives the same bytes.

    `settings` are the settings behind the hashes of runs and figures, written to settings.json for readers and `why`.
    """
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
    hashes = settings.keys() & {*piece.figures.values(), *piece.runs["settings"]}
    lines = ",\n".join(f'"{name}": {json.dumps(settings[name], sort_keys=True)}' for name in sorted(hashes))
    for file, text in (("kept.json", about), ("settings.json", f"{{\n{lines}\n}}")):
        (folder / file).write_text(text + "\n", encoding="utf-8", newline="\n")


def union(fresh: Piece, kept: Piece) -> Piece:
    """The union of both pieces; the fresh version wins for any run and split, job or figure that both have."""
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

    Metrics by number of chains are kept only for the numbers in CHAINS and `chains`, and for all chains of a run.
    """
    largest = table.groupby(["run", "split", "dataset", "metric", "at"], sort=False)["chains"].transform("max")
    chosen = ~table["metric"].isin(BY_CHAINS) | table["chains"].isin([*CHAINS, *chains]) | (table["chains"] == largest)
    return table[chosen].reset_index(drop=True)


def _joined(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """Rows of both; an empty frame is left out, since it has no types and would change the types of the other."""
    parts = [frame for frame in (first, second) if len(frame)]
    return pd.concat(parts, ignore_index=True) if parts else first
