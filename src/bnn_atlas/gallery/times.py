"""How long the jobs of a study took, from the benchmark files that Snakemake writes, and on what machine."""

import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from bnn_atlas.runtime import processor

SECTION_RULES = ("subset", "density_grid", "functions")
"""Rules with jobs for a run and a section of figures."""


class RuleTime(NamedTuple):
    """The jobs of one rule."""

    rule: str
    jobs: int
    wall: float
    """Seconds, summed over the jobs; the times of jobs that ran at the same time are added up."""
    cpu: float
    """Seconds of all cores."""


def rule_times(
    folder: str | Path,
    study: str,
    sizes: Mapping[str, Sequence[int]],
    figures: Collection[str],
    sections: Collection[str],
    shared: Collection[str],
) -> list[RuleTime]:
    """Times of a study's jobs by rule, the longest first; of a job that was resumed, those of its last attempt.

    `folder` has one file for each job at `<rule>/<study>/...tsv` or, for its tables, `table/<study>-...tsv`; jobs that
    studies share, such as warm starts, are named in `shared` as `<rule>/...` and count for each study. Files of
    runs that are not in `sizes`, of splits and blocks beyond its numbers, and of other `figures` and `sections` are
    from settings that have changed since, and do not count.
    """
    times = []
    current = frozenset((*figures, *sections))
    for rule in sorted(path for path in Path(folder).iterdir() if path.is_dir()):
        jobs = [file for file in (rule / study).glob("**/*.tsv") if _current(file, rule / study, sizes, current)]
        common = [file for name in shared if (file := Path(folder, f"{name}.tsv")).is_file() and rule in file.parents]
        files = sorted([*jobs, *common, *rule.glob(f"{study}-*.tsv"), *rule.glob(f"{study}.tsv")])
        if files:
            rows = pd.concat([pd.read_csv(file, sep="\t") for file in files])
            wall, cpu = (float(pd.to_numeric(rows[column], errors="coerce").sum()) for column in ("s", "cpu_time"))
            times.append(RuleTime(rule.name, len(rows), wall, cpu))
    return sorted(times, key=lambda time: -time.wall)


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


def machine() -> str:
    """Processor and cores of this machine."""
    return f"{processor()}, {len(os.sched_getaffinity(0))} cores"
