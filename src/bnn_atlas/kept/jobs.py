"""Time and machine of a study's jobs, from the benchmark files that Snakemake writes."""

import csv
import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

NOT_RECORDED = "a machine that was not recorded"
SAMPLING = "sample"
"""The rule with jobs that record their machine, next to the draws."""
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
    """Which jobs belong to the study as it is now, by the names of their benchmark files."""

    study: str
    sizes: Mapping[str, Sequence[int]]
    """Run -> its numbers of splits and blocks; files of other runs, splits and blocks are old."""
    figures: Collection[str]
    """Names of its figures."""
    sections: Collection[str]
    """Names of the files for sections of the figures, without endings."""
    shared: Collection[str]
    """Names of jobs that studies share, such as warm starts, as `<rule>/...`; they count for each study."""

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


def jobs(folder: str | Path, of: StudyJobs) -> pd.DataFrame:
    """The jobs of a study with their times, JOB_COLUMNS; a resumed job has the times of its last attempt.

    `folder` has one file per job, at `<rule>/<study>/...tsv` or, for tables, `table/<study>-...tsv`. Next to it are the
    folders of the blocks of chains, with the files that name their machines.
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

    Jobs for data, splits and warm starts are shared by runs and not counted. Runs without jobs are left out.

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
