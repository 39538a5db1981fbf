"""What made a file, a figure or a run, by the records of its jobs, and what Snakemake would run for it now and why."""

import csv
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from shlex import join
from textwrap import shorten
from typing import Any, get_args

from bnn_atlas.config.language.base import ConfigError, did_you_mean, plural
from bnn_atlas.config.runs.expansion import leaves
from bnn_atlas.config.runs.studies import Run, Scale
from bnn_atlas.config.settings import read_settings
from bnn_atlas.figures.metadata import read_provenance
from bnn_atlas.figures.r_setup import available
from bnn_atlas.kept import machine_of
from bnn_atlas.pipeline.atlas import checked_atlas
from bnn_atlas.pipeline.changes import in_file, planned
from bnn_atlas.pipeline.estimate import duration, seconds_in
from bnn_atlas.pipeline.figures import Figure, Figures, rule_names
from bnn_atlas.pipeline.inputs import Inputs
from bnn_atlas.pipeline.made import Metadata
from bnn_atlas.pipeline.params import CODE, defaults
from bnn_atlas.pipeline.paths import Paths
from bnn_atlas.pipeline.study_page import KEPT, page_plan
from bnn_atlas.pipeline.targets import Targets
from bnn_atlas.records import behind, is_damaged, made_by

WIDTH = 900
"""Largest number of characters in a paragraph."""


def why(asked: str, root: Path) -> str:
    """What `python -m bnn_atlas why` says about a file, a figure or a run; ConfigError if it is none of these."""
    settings = read_settings(root / "config" / "config.yaml")
    path = os.path.relpath(asked) if "/" in asked else asked
    kept = Path(KEPT, *Path(path).parts[2:3], "kept", "kept.json")
    study = kept.parts[2] if path.startswith(f"{KEPT}/") and Path(path).exists() and kept.is_file() else ""
    about = json.loads(kept.read_text(encoding="utf-8")) if study else {}
    scale = about.get("scale", Path(os.path.relpath(path, settings.get("results", "results"))).parts[0])
    atlas = checked_atlas(settings | ({"scale": scale} if scale in get_args(Scale) else {}), root / "config")
    paths = Paths(f"{atlas.settings.results}/{atlas.settings.scale}")
    figures, inputs = Figures(atlas, paths, available(), rules := rule_names(root)), Inputs(atlas, paths)
    targets = Targets(atlas, paths, figures, inputs.run_targets)
    runs: dict[tuple[str, ...], Run] = {(run.study, run.name): run for run in inputs.runs}
    named = next((paths.of(run, 0, "block0/trace.zarr") for run in inputs.runs if path in (run.name, run.entry)), path)
    figure = targets.figure(f"{study}_{Path(path).stem}" if study else path)
    if study in atlas.studies:
        facts = _kept(kept.parent, about, figure, page_plan(atlas, paths, inputs, figures, study))
        path = figure.target if figure else "keep"
    elif figure or named != path or (path.startswith(f"{paths.results}/") and Path(path).exists()):
        facts = _recorded(figure.outputs[0] if figure else named, paths.results, runs)
    else:
        near = did_you_mean(Path(path).name, {file.name for file in Path(path).parent.glob("*")} - {Path(path).name})
        refused = targets.refusal(path, {*rules, *atlas.studies, *targets.sentences})
        raise ConfigError(refused or f"{path}: this is no result, figure or run{near}")
    texts = {title: shorten("; ".join(all_of), WIDTH, placeholder=" ...") for title, all_of in facts.items()}
    config = [f"scale={atlas.settings.scale}", *([f"studies=[{study}]"] if study else [])]
    texts |= _now(texts["Of"] if "/" in path else path, config)
    return "\n".join(f"{title}: {text}" for title, text in texts.items() if text)


def _recorded(path: str, results: str, runs: Mapping[tuple[str, ...], Run]) -> dict[str, Iterable[str]]:
    """What the records say about a result, or about the folder of a job that it is in."""
    owner = next((str(p) for p in (Path(path), *Path(path).parents) if made_by(p, results)), path)
    record = made_by(owner, results)
    if not record:
        return {"Of": [path], "Made": ["not recorded" if Path(path).exists() else "not yet"]}
    before = list(behind(record, results))
    jobs, place = [record, *before], Path(next(iter(record["outputs"]))).parts[:2]
    recorded = [one for one in record.get("settings", ()) if isinstance(one, dict)]
    settings = [(in_file(name), str(value)) for one in recorded for name, value in leaves(one)]
    run, reduced = runs.get(place), [f"{n[:-9]}: {v}" for n, v in settings if n.endswith(": reduces")]
    hidden = re.compile(rf"code|identity|shows|(?!{re.escape(Path(path).stem)}: ).*: ")
    usual = defaults(run) if run else set()
    own = [f"{name} {value}" for name, value in settings if (name, value) not in usual and not hidden.match(name)]
    versions = [f"{name} {version}" for name, version in record.get("versions", {}).items()]
    with suppress(ValueError, OSError):
        versions += [f"requirements.lock with SHA-256 {read_provenance(path).lock}"]
    read = [f"{n}, SHA-256 {v}" for job in jobs for n, v in job["inputs"].items() if n.startswith("data/")]
    known = Metadata(f"{results}/records")
    logs = [next(iter(known.of(f"{results}/{next(iter(job['outputs']))}").get("log") or [""]), "") for job in jobs]
    times = [seconds_in(Path(results, "benchmarks", log.partition("/logs/")[2]).with_suffix(".tsv")) for log in logs]
    when = known.of(owner).get("endtime")
    made = f"{datetime.fromtimestamp(when):%Y-%m-%d %H:%M}" if when else "at a time that was not recorded"
    made += f" in {times[0]:.1f} s" if times[0] is not None else ""
    facts = [f"{key} {record[key]}" for key in ("processor", "vector_bits", "cache_kib") if key in record]
    facts += sorted({f"kernel {job['kernel']}" for job in jobs if "kernel" in job})
    facts += {machine_of(Path(results, n)): 0 for job in jobs for n in job["outputs"] if n.endswith("timing.json")}
    code = [f"digest {value}" for name, value in settings if name == CODE] + [f"commit {record.get('commit')}"]
    return {
        "Of": [owner],
        "Damaged": ["it is not what its record says"] if is_damaged(owner, results) else [],
        "Made by": [f"rule {record.get('rule')}", *(f"run {value}" for name, value in settings if name == "shows")],
        "Settings other than defaults": own,
        "Other than the paper's": run.reductions if run else reduced,
        "Data": dict.fromkeys(read),
        "Code": code + ["with edits that were not committed"] * bool(record.get("dirty")),
        "Packages": versions,
        "Machine": facts,
        "Made": [made, f"{plural(len(before), 'job')} before took {duration(sum(filter(None, times[1:])))}"],
        "Inputs": [_input(name, results) for name in record["inputs"]],
    }


def _input(name: str, results: str) -> str:
    """An input, and the rule and the inputs that made it."""
    made = made_by(f"{results}/{name}", results)
    of = ", ".join("/".join(Path(each).parts[-2:]) for each in made.get("inputs", ()))
    return f"{name} (by {made.get('rule', 'no job')}{f' from {of}' if of else ''})"


def _kept(folder: Path, about: Any, figure: Figure | None, plan: Any) -> dict[str, Iterable[str]]:
    """What docs/results/<study>/kept says about a figure, or about the page; `plan` says what it would be today."""
    runs_csv, jobs_csv = ((folder / f"{name}.csv").read_text(encoding="utf-8") for name in ("runs", "jobs"))
    name = figure.name if figure else "the page"
    runs = {run.name for run in figure.runs.values()} if figure else {*plan["runs"]}
    rows = [row for row in csv.DictReader(runs_csv.splitlines()) if row["run"] in runs]
    jobs = [job for job in csv.DictReader(jobs_csv.splitlines()) if {*job["job"].split("/")} & (runs | {name})]
    took = duration(sum(float(job["seconds"]) for job in jobs))
    stale = [row["run"] for row in rows if row["settings"] != plan["runs"][row["run"]]["settings"]]
    stale += [name] if figure and about["figures"].get(name) != plan["figures"][name]["settings"] else []
    columns = {"Other than the paper's": "reductions", "Code": "code", "Packages": "packages", "Machine": "machine"}
    return {
        "Of": [f"{name} in {folder.parent}, kept from scale {about['scale']}"],
        "Made by": [f"run {row['run']}, split {row['split']}, settings {row['settings']}" for row in rows],
        "With other settings than today's": stale,
        **{title: list(dict.fromkeys(row[of] for row in rows if row[of])) for title, of in columns.items()},
        "Took": [f"{took} in {plural(len(jobs), 'job')}"],
    }


def _now(target: str, config: list[str]) -> dict[str, str]:
    """What Snakemake would run for a target and why, by a dry run, and the command that does it."""
    call = ["--cores", "2", "--config", *config, "--", target]
    dry = [sys.executable, "-m", "snakemake", "--dry-run", "--verbose", "--nocolor", *call]
    run = subprocess.run(dry, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    said = planned(run.stdout) if run.returncode == 0 else "cannot be made. " + run.stdout.strip().split("\n\n")[-1]
    return {"Now": shorten(said, WIDTH, placeholder=" ..."), "Command": f"snakemake {join(call)}"}
