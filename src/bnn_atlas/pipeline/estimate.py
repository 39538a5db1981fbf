"""Estimate of the time that a plan takes, from recorded times of the same or similar jobs."""

import csv
import json
from collections import defaultdict
from collections.abc import Collection, Iterable
from graphlib import TopologicalSorter
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

DEMO_SECONDS = 0.8
"""Seconds per job at scale `demo` on one core: 336 core-seconds for 460 jobs, measured on an idle machine with two
cores."""
JUDGING = "judging"
"""Name of the job of a step for checking claims: it has no benchmark, since Snakemake would take one for an output."""
JUDGING_SECONDS = 95
"""Seconds of this job on one core, measured with the pages of four studies."""
SAMPLED = 20
"""Largest number of a rule's benchmarks that are read to estimate a job without one."""


class Estimate(NamedTuple):
    """Estimated times of the jobs of a plan."""

    work: dict[int, float]
    """Number of a job -> seconds on one core."""
    known: int
    """Number of jobs with a recorded time, either their own or one of another split, block or figure of the same
    run."""
    cores: int
    smaller: bool
    """Whether the times are of a smaller scale."""
    longest: float = 0.0
    """Seconds of the longest chain of jobs that wait for each other, each on its own number of cores."""

    @property
    def seconds(self) -> float:
        """Time of the jobs if all cores are always busy, or time of the longest chain, if that is longer."""
        return max(sum(self.work.values()) / self.cores, self.longest)

    def __str__(self) -> str:
        """A sentence such as `About 3 h on 2 cores, by the times of 410 of 460 jobs.`."""
        cores = f"{self.cores} core{'s' if self.cores > 1 else ''}"
        source = f"by the recorded times of {self.known} of {len(self.work)} jobs"
        if not self.known:
            return f"About {duration(self.seconds)} on {cores}, without recorded times of these jobs."
        if self.smaller:
            return f"More than {duration(self.seconds)} on {cores}, {source} at a smaller scale."
        return f"About {duration(self.seconds)} on {cores}, {source}."


class Times:
    """Recorded times of jobs, from the results of the scale and from docs/results."""

    def __init__(self, benchmarks: Path, kept: Path, scale: str) -> None:
        """Read what is kept.

        Args:
            benchmarks: folder of the files that Snakemake writes for the jobs of this scale.
            kept: folder with a page per study, `docs/results`.
            scale: the scale of the plan. For `paper`, times of `laptop` count; for `demo`, no others do.
        """
        self._benchmarks = benchmarks
        self.smaller = False
        self._jobs: dict[str, float] = {}
        similar: dict[str, list[float]] = defaultdict(list)
        for file in sorted(kept.glob("*/kept/jobs.csv")) if scale != "demo" else ():
            self.smaller |= json.loads(file.with_name("kept.json").read_text(encoding="utf-8"))["scale"] != scale
            with file.open(encoding="utf-8", newline="") as lines:
                for row in csv.DictReader(lines):
                    name, seconds = f"{row['rule']}/{row['job']}", _number(row["seconds"], row["cpu_seconds"])
                    self._jobs[name] = seconds
                    similar[_run(name)].append(seconds)
                    similar[_rule(name)].append(seconds)
        self._similar = {name: fmean(values) for name, values in similar.items()}
        self._typical = fmean(self._jobs.values()) if self._jobs else DEMO_SECONDS
        self._made: dict[str, float | None] = {}

    def __call__(self, name: str) -> tuple[float, bool]:
        """Seconds of a job on one core, and whether this time was recorded for this job or run.

        Args:
            name: path of its benchmark below the folder of benchmarks, without the ending, or JUDGING.
        """
        if name == JUDGING:
            return JUDGING_SECONDS, False
        file = self._benchmarks / f"{name}.tsv"
        if self._made_times(_rule(name)) is not None and (own := seconds_in(file)) is not None:
            return own, True
        for known in (self._jobs.get(name), self._similar.get(_run(name))):
            if known is not None:
                return known, True
        made = self._made_times(_rule(name))
        return (self._similar.get(_rule(name), self._typical) if made is None else made), False

    def _made_times(self, rule: str) -> float | None:
        """Mean over some of a rule's benchmarks in the results; None if there are none."""
        if rule not in self._made:
            files = islice((self._benchmarks / rule).rglob("*.tsv"), SAMPLED)
            times = [seconds for file in files if (seconds := seconds_in(file)) is not None]
            self._made[rule] = fmean(times) if times else None
        return self._made[rule]


def estimate(jobs: Iterable[tuple[int, str | None, int, Collection[int]]], times: Times, cores: int) -> Estimate | None:
    """Estimate a plan; None if none of its jobs are ever timed.

    Args:
        jobs: number of each job; the name of its benchmark, None if it has none; its cores; the jobs that it waits for.
        times: the recorded times.
        cores: number of cores in use at a time.
    """
    work: dict[int, float] = {}
    alone: dict[int, float] = {}
    before: dict[int, Collection[int]] = {}
    known = 0
    for number, name, threads, before[number] in jobs:
        if name is not None:
            work[number], recorded = times(name)
            alone[number] = work[number] / threads
            known += recorded
    ends: dict[int, float] = {}
    for number in TopologicalSorter(before).static_order():
        ends[number] = alone.get(number, 0.0) + max((ends[job] for job in before[number]), default=0.0)
    return Estimate(work, known, cores, times.smaller, max(ends.values())) if work else None


def duration(seconds: float) -> str:
    """Seconds, minutes, hours or days, rounded to what an estimate is good for."""
    for limit, size, unit in ((90, 1, "s"), (90 * 60, 60, "min"), (48 * 3600, 3600, "h")):
        if seconds < limit:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86400:.0f} days"


def _run(name: str) -> str:
    """Rule, study and run in the name of a benchmark."""
    return "/".join(name.split("/")[:3])


def _rule(name: str) -> str:
    return name.partition("/")[0]


def seconds_in(file: Path) -> float | None:
    """Seconds in a benchmark of Snakemake; None if there is no such file or it cannot be read."""
    try:
        names, values = file.read_text(encoding="utf-8").splitlines()[:2]
        row = dict(zip(names.split("\t"), values.split("\t"), strict=True))
        return _number(row["s"], row["cpu_time"])
    except (OSError, ValueError, KeyError):
        return None


def _number(*texts: str) -> float:
    """The largest of several numbers; texts that are not numbers count as 0."""
    return max(float(text) if text.replace(".", "", 1).isdigit() else 0.0 for text in texts)
