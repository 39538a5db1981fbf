"""On what machine each run of a study was sampled, from the timing files that its blocks of chains left."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bnn_atlas.gallery.times import Times

NOT_RECORDED = "a machine that was not recorded"


class Made(NamedTuple):
    """Runs of one entry of the study's file that were sampled on the same machines."""

    entry: str
    runs: int
    machine: str
    jobs: int
    wall: float
    """Seconds of the runs' own jobs."""
    cpu: float


def machines_of_runs(folder: str | Path, sizes: Mapping[str, Sequence[int]]) -> dict[str, str]:
    """Run -> the machines that sampled it; runs whose blocks have no timing file are left out.

    `folder` has the files at `<run>/split<n>/block<n>/timing.json`, `sizes` each run's numbers of splits and blocks.
    """
    found = {}
    for run, (splits, blocks) in sizes.items():
        files = [
            Path(folder, run, f"split{split}", f"block{block}", "timing.json")
            for split in range(splits)
            for block in range(blocks)
        ]
        machines = dict.fromkeys(_machine(json.loads(file.read_text("utf-8"))) for file in files if file.is_file())
        if machines:
            found[run] = " and ".join(machines)
    return found


def made_on(machines: Mapping[str, str], entries: Mapping[str, str], times: Mapping[str, Times]) -> list[Made]:
    """Entry by entry, on what machines the runs were made and what their own jobs took, in the order of `machines`.

    Args:
        machines: run -> machines.
        entries: run -> its entry of the study's file.
        times: run -> times of its jobs.
    """
    groups: dict[tuple[str, str], list[str]] = {}
    for run, machine in machines.items():
        groups.setdefault((entries[run], machine), []).append(run)
    return [
        Made(
            entry,
            len(runs),
            machine,
            *(sum(getattr(times[run], field) for run in runs if run in times) for field in ("jobs", "wall", "cpu")),
        )
        for (entry, machine), runs in groups.items()
    ]


def by_machine(made: Iterable[Made]) -> list[dict[str, Any]]:
    """Each machine with the number and the entries of its runs and what their jobs took, the longest first."""
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


def _machine(timing: Mapping[str, Any]) -> str:
    """Processor and cores, and the accelerator if the chains were on one."""
    platform, _, kind = str(timing["device"]).partition(" ")
    processor = f"{timing['processor']}, {timing['cores']} cores" if "processor" in timing else ""
    if platform == "cpu":
        return processor or NOT_RECORDED
    return f"{kind} (host: {processor})" if processor else kind
