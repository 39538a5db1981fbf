"""How long the jobs of a study took, from the benchmark files that Snakemake writes."""

import csv
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

SECTION_RULES = ("subset", "density_grid", "functions")
"""Rules with jobs for a run and a section of figures."""


class Job(NamedTuple):
    """A job that has run."""

    rule: str
    run: str
    """The run that it was for; empty where it was for none or for several."""
    wall: float
    """Seconds."""
    cpu: float
    """Seconds of all cores."""


class Times(NamedTuple):
    """Jobs that are counted together; the times of jobs that ran at the same time are added up."""

    name: str
    jobs: int
    wall: float
    cpu: float


def study_jobs(
    folder: str | Path,
    study: str,
    sizes: Mapping[str, Sequence[int]],
    figures: Collection[str],
    sections: Collection[str],
    shared: Collection[str],
) -> list[Job]:
    """The jobs of a study; of a job that was resumed, its last attempt.

    `folder` has one file for each job at `<rule>/<study>/...tsv` or, for its tables, `table/<study>-...tsv`; jobs that
    studies share, such as warm starts, are named in `shared` as `<rule>/...` and count for each study. Files of
    runs that are not in `sizes`, of splits and blocks beyond its numbers, and of other `figures` and `sections` are
    from settings that have changed since, and do not count.
    """
    jobs = []
    current = frozenset((*figures, *sections))
    for rule in sorted(path for path in Path(folder).iterdir() if path.is_dir()):
        own = [file for file in (rule / study).glob("**/*.tsv") if _current(file, rule / study, sizes, current)]
        common = [file for name in shared if (file := Path(folder, f"{name}.tsv")).is_file() and rule in file.parents]
        for file in sorted([*own, *common, *rule.glob(f"{study}-*.tsv"), *rule.glob(f"{study}.tsv")]):
            run = file.relative_to(rule / study).parts[0] if file in own and rule.name != "figures" else ""
            with file.open(encoding="utf-8", newline="") as lines:
                rows = csv.DictReader(lines, delimiter="\t")
                jobs += [Job(rule.name, run, _seconds(row["s"]), _seconds(row["cpu_time"])) for row in rows]
    return jobs


def by_rule(jobs: Iterable[Job]) -> list[Times]:
    """Times by rule, the longest first."""
    return _added_up((job.rule, job) for job in jobs)


def by_run(jobs: Iterable[Job]) -> dict[str, Times]:
    """Run -> what its own jobs took, without the splits and warm starts that it shares with others."""
    return {times.name: times for times in _added_up((job.run, job) for job in jobs if job.run)}


def _added_up(named: Iterable[tuple[str, Job]]) -> list[Times]:
    groups: dict[str, list[Job]] = {}
    for name, job in named:
        groups.setdefault(name, []).append(job)
    times = [
        Times(name, len(jobs), sum(job.wall for job in jobs), sum(job.cpu for job in jobs))
        for name, jobs in groups.items()
    ]
    return sorted(times, key=lambda one: -one.wall)


def _seconds(text: str) -> float:
    """A number of seconds; 0 where Snakemake could not measure it."""
    try:
        seconds = float(text)
    except ValueError:
        return 0.0
    return seconds if math.isfinite(seconds) else 0.0


def _current(file: Path, folder: Path, sizes: Mapping[str, Sequence[int]], names: Collection[str]) -> bool:
    """Whether a benchmark file belongs to the study as it is now."""
    rule, (run, *parts) = folder.parent.name, file.relative_to(folder).with_suffix("").parts
    if rule == "figures" and run == "diagnostics":
        run, _, split = parts[0].rpartition("-")
        parts = [split]
    elif rule == "figures":
        return run in names
    if run not in sizes:
        return False
    counts = dict(zip(("split", "block"), sizes[run], strict=True))
    for part in parts:
        if numbered := re.fullmatch(r"(split|block)(\d+)", part):
            if int(numbered[2]) >= counts[numbered[1]]:
                return False
        elif rule in SECTION_RULES and part not in names:
            return False
    return True
