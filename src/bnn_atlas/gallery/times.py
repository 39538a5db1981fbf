"""How long the jobs of a study took, from the benchmark files that Snakemake writes, and on what machine."""

import os
import platform
import re
from pathlib import Path
from typing import NamedTuple

import pandas as pd


class RuleTime(NamedTuple):
    """The jobs of one rule."""

    rule: str
    jobs: int
    wall: float
    """Seconds, summed over the jobs; two that ran side by side count twice."""
    cpu: float
    """Seconds of all cores."""


def rule_times(folder: str | Path, study: str) -> list[RuleTime]:
    """Times of a study's jobs by rule, the longest first; of a job that was resumed, those of its last attempt.

    `folder` has one file for each job at `<rule>/<study>/...tsv` or, for its tables, `table/<study>-...tsv`.
    """
    times = []
    for rule in sorted(path for path in Path(folder).iterdir() if path.is_dir()):
        files = [*rule.glob(f"{study}/**/*.tsv"), *rule.glob(f"{study}-*.tsv"), *rule.glob(f"{study}.tsv")]
        if files:
            jobs = pd.concat([pd.read_csv(file, sep="\t") for file in sorted(files)])
            wall, cpu = (float(pd.to_numeric(jobs[column], errors="coerce").sum()) for column in ("s", "cpu_time"))
            times.append(RuleTime(rule.name, len(jobs), wall, cpu))
    return sorted(times, key=lambda time: -time.wall)


def machine() -> str:
    """Processor and cores of this machine."""
    cpuinfo = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*:\s*(.+)", cpuinfo.read_text(encoding="utf-8")) if cpuinfo.exists() else None
    processor = found.group(1).strip() if found else platform.machine()
    return f"{processor}, {len(os.sched_getaffinity(0))} cores"
