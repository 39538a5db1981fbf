"""The machine on which each run of a study was sampled, and the time of its jobs there."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

NOT_RECORDED = "a machine that was not recorded"


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
        jobs: a table of jobs (`gallery.times`).
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


def by_machine(made: Iterable[Made]) -> list[dict[str, Any]]:
    """Each machine with the number and entries of its runs and the time of their jobs, the longest time first."""
    groups: dict[str, list[Made]] = {}
    for one in made:
        groups.setdefault(one.machine, []).append(one)
    found = [
        {
            "machine": machine,
            "runs": sum(one.runs for one in ones),
            "entries": list(dict.fromkeys(one.entry for one in ones)),
            "wall": sum(one.wall for one in ones),
        }
        for machine, ones in groups.items()
    ]
    return sorted(found, key=lambda one: -one["wall"])
