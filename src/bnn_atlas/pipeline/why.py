"""How a file, a figure or a run was made, from the records of its jobs, and what Snakemake would run for it now."""

import csv
import json
import os
import re
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from shlex import join
from textwrap import TextWrapper
from typing import Any, get_args

from bnn_atlas.config.language.base import ConfigError, did_you_mean, plural
from bnn_atlas.config.runs.expansion import leaves
from bnn_atlas.config.runs.studies import Run, Scale, Study
from bnn_atlas.config.settings import read_settings
from bnn_atlas.figures.metadata import read_provenance
from bnn_atlas.figures.r_setup import available
from bnn_atlas.kept import FOLDER, machine_of
from bnn_atlas.pipeline.atlas import checked_atlas
from bnn_atlas.pipeline.changes import changed, in_file, listed, planned
from bnn_atlas.pipeline.estimate import duration, seconds_in
from bnn_atlas.pipeline.figures import Figure, Figures, rule_names
from bnn_atlas.pipeline.inputs import Inputs
from bnn_atlas.pipeline.made import Metadata
from bnn_atlas.pipeline.params import defaults
from bnn_atlas.pipeline.paths import Paths
from bnn_atlas.pipeline.steps import CODE
from bnn_atlas.pipeline.study_page import KEPT, page_plan, so_far
from bnn_atlas.pipeline.targets import Targets
from bnn_atlas.records import PUBLISHED, behind, is_damaged, made_by

LINES = TextWrapper(100, "  ", "    ", break_long_words=False, break_on_hyphens=False)
"""How the parts of a paragraph are written."""
MOST = 20
"""Largest number of these parts."""
OF_PROCESSOR = {"processor": "", "vector_bits": "bits of a vector: ", "cache_kib": "KiB of first-level cache: "}
"""Field of a record -> text printed before its value."""


def why(asked: str, root: Path) -> str:
    """Output of `python -m bnn_atlas why` for a file, a figure or a run; ConfigError for anything else."""
    settings = read_settings(root / "config" / "config.yaml")
    path = os.path.relpath(asked) if "/" in asked else asked
    page = _page(Path(path)) if "/" in path else None
    study, about = (page.name, _read(page, "kept")) if page else ("", {})
    scale = about.get("scale", Path(os.path.relpath(path, settings.get("results", "results"))).parts[0])
    atlas = checked_atlas(settings | ({"scale": scale} if scale in get_args(Scale) else {}), root / "config")
    paths = Paths(f"{atlas.settings.results}/{atlas.settings.scale}")
    figures, inputs = Figures(atlas, paths, available(), rules := rule_names(root)), Inputs(atlas, paths)
    targets = Targets(atlas, paths, figures, inputs.run_targets)
    runs: dict[tuple[str, ...], Run] = {(run.study, run.name): run for run in inputs.runs}
    named = next((paths.of(run, 0, "block0/trace.zarr") for run in inputs.runs if path in (run.name, run.entry)), path)
    figure = targets.figure(f"{study}_{Path(path).stem}" if study else path)
    kept = {} if figure or "/" in path else _kept_runs(path, atlas.studies)
    config = [f"scale={atlas.settings.scale}", *([f"studies=[{study}]"] if study else [])]
    if page and study in atlas.studies:
        own = {run.name for run in atlas.studies[study].runs.values() if run.config.problem == "own"}
        facts = _kept(page, about, figure, page_plan(atlas, paths, inputs, figures, study), own)
        path = figure.target if figure else "keep" if path.startswith(KEPT) else "so_far"
    elif path.startswith(so_far(paths)) and Path(path).exists():
        facts, path = {"Of": [path], "Made by": ["the target so_far, from what was run and what is kept"]}, "so_far"
    elif figure or named != path or (path.startswith(f"{paths.results}/") and Path(path).exists()):
        facts = _recorded(figure.outputs[0] if figure else named, paths.results, runs)
    elif kept:
        facts, config = {"Of": [path]}, [f"scale={scale}" for scale in kept]
    else:
        near = did_you_mean(Path(path).name, {file.name for file in Path(path).parent.glob("*")} - {Path(path).name})
        refused = targets.refusal(path, {*rules, *atlas.studies, *targets.sentences})
        raise ConfigError(refused or f"{path}: this is no result, figure or run{near}")
    if figure and not page and (picture := Path(KEPT, figure.study, f"{figure.name}.png")).is_file():
        scale = _read(picture.parent, "kept")["scale"]
        facts["Also kept"] = [f"{picture}, of scale {scale}: python -m bnn_atlas why {picture}"]
    facts |= {"Also kept": [text for texts in kept.values() for text in texts]} if kept else {}
    facts |= _now(facts["Of"][0] if "/" in path else path, config, "To make it again" if page else "Now")
    return "\n".join(_paragraph(title, parts) for title, parts in facts.items() if parts)


def _page(path: Path) -> Path | None:
    """The folder of a study's page with what it keeps, if a file that exists is in such a folder."""
    folders = (path, *path.parents) if path.exists() else ()
    return next((folder for folder in folders if (folder / FOLDER / "kept.json").is_file()), None)


def _paragraph(title: str, parts: Sequence[str]) -> str:
    """A title and its parts, each on lines of its own if they do not fit on one; a command is never broken."""
    more = [f"and {len(parts) - MOST} more"] if len(parts) > MOST else []
    line = f"{title}: {'; '.join(parts)}"
    if len(line) <= LINES.width or title == "Command":
        return line
    return "\n".join([f"{title}:", *(LINES.fill(part) for part in [*parts[:MOST], *more])])


def _recorded(path: str, results: str, runs: Mapping[tuple[str, ...], Run]) -> dict[str, list[str]]:
    """What the records say about a result, or about the folder of a job that it is in."""
    owner = next((str(p) for p in (Path(path), *Path(path).parents) if made_by(p, results)), path)
    record = made_by(owner, results)
    if not record:
        return {"Of": [path], "When": ["not recorded" if Path(path).exists() else "not made yet"]}
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
    facts = [f"{words}{record[key]}" for key, words in OF_PROCESSOR.items() if key in record]
    facts += sorted({f"kernel {job['kernel']}" for job in jobs if "kernel" in job})
    facts += {machine_of(Path(results, n)): 0 for job in jobs for n in job["outputs"] if n.endswith("timing.json")}
    code = [f"digest of its functions {v}" for name, v in settings if name == CODE] + [f"commit {record.get('commit')}"]
    return {
        "Of": [owner],
        "Damaged": ["it is not what its record says"] if is_damaged(owner, results) else [],
        "From a published archive": [f"SHA-256 {record[PUBLISHED]}"] if PUBLISHED in record else [],
        "Rule": [str(record.get("rule"))],
        "Runs that it shows": [value for name, value in settings if name == "shows"],
        "Settings other than defaults": own,
        "Other than the paper's": _other(run.config.problem == "own", run.reductions) if run else reduced,
        "Data": list(dict.fromkeys(read)),
        "Code": code + ["with edits that were not committed"] * bool(record.get("dirty")),
        "Packages": versions,
        "Machine": facts,
        "When": [made, _before(times[1:])],
        "Inputs": [_input(name, results) for name in record["inputs"]],
    }


def _before(times: Sequence[float | None]) -> str:
    """How long the jobs before took, as far as it is recorded; an archive has no times."""
    known = [seconds for seconds in times if seconds is not None]
    jobs = f"{plural(len(times), 'job')} before"
    if len(known) == len(times):
        return f"{jobs} took {duration(sum(known))}"
    recorded = f", the others {duration(sum(known))}" if known else ""
    return f"{jobs}: times of {len(times) - len(known)} not recorded{recorded}"


def _input(name: str, results: str) -> str:
    """An input, and the rule and the inputs that made it."""
    made = made_by(f"{results}/{name}", results)
    of = ", ".join("/".join(Path(each).parts[-2:]) for each in made.get("inputs", ()))
    return f"{name} (by {made.get('rule', 'no job')}{f' from {of}' if of else ''})"


def _other(own: bool, reductions: Iterable[str]) -> list[str]:
    """What a run has other than the paper: its reductions, after a word if it solves a problem of its `own`."""
    return ["another problem", *(f"reduced from scale paper: {text}" for text in reductions)] if own else [*reductions]


def _kept_runs(name: str, studies: Mapping[str, Study]) -> dict[str, list[str]]:
    """Scale -> what is kept next to pages of the runs of a name, which may be that of an entry."""
    found: dict[str, list[tuple[str, str]]] = {}
    for page in sorted(file.parent.parent for file in Path(KEPT).glob(f"*/{FOLDER}/kept.json")):
        scale = _read(page, "kept")["scale"]
        runs = studies[page.name].runs_at[scale] if page.name in studies else {}
        for row in _rows(page, "runs"):
            if row["run"] in runs and name in (row["run"], runs[row["run"]].entry):
                other = _other(runs[row["run"]].config.problem == "own", filter(None, [row["reductions"]]))
                text = "; ".join([f"{page}, of scale {scale}", *other, row["machine"]])
                found.setdefault(scale, []).append((text, row["run"]))
    return {scale: _grouped(texts) for scale, texts in found.items()}


def _rows(page: Path, name: str) -> list[dict[str, str]]:
    """The rows of a CSV file that is kept next to a page."""
    return list(csv.DictReader((page / FOLDER / f"{name}.csv").read_text(encoding="utf-8").splitlines()))


def _kept(page: Path, about: Any, figure: Figure | None, plan: Any, own: Collection[str]) -> dict[str, list[str]]:
    """What `kept` next to a page says about a figure, or about the page.

    `plan` says what it would be today, and `own` which runs have another problem than the paper.
    """
    name = figure.name if figure else "the page"
    runs = {run.name for run in figure.runs.values()} if figure else {*plan["runs"]}
    rows = [row for row in _rows(page, "runs") if row["run"] in runs]
    jobs = [job for job in _rows(page, "jobs") if {*job["job"].split("/")} & (runs | {name})]
    took = duration(sum(float(job["seconds"]) for job in jobs))
    then = [(f"run {row['run']}", row["settings"], plan["runs"][row["run"]]) for row in rows]
    then += [(f"figure {name}", about["figures"][name], plan["figures"][name])] if name in about["figures"] else []
    changes = _grouped((_change(page, before, of), what) for what, before, of in then)
    code = [(f"digest of its functions {row['code']}", row["run"]) for row in rows if row["code"]]
    code += [("other code than today's", row["run"]) for row in rows if row["code"] != plan["runs"][row["run"]]["code"]]
    return {
        "Of": [f"{name} in {page}, kept from scale {about['scale']}"],
        "Runs": [f"{row['run']}, split {row['split']}" for row in rows],
        "Other than the paper's": _grouped(
            ("; ".join(_other(row["run"] in own, filter(None, [row["reductions"]]))), row["run"]) for row in rows
        ),
        "Code": _grouped(code),
        "Packages": list(dict.fromkeys(row["packages"] for row in rows)),
        "Machine": list(dict.fromkeys(row["machine"] for row in rows)),
        "Took": [f"{took} in {plural(len(jobs), 'job')}"],
        "Changed since then": changes,
        "Now": ["pages leave out what has changed" if changes else "nothing has to run: it is of today's settings"],
    }


def _change(page: Path, before: str, today: Any) -> str:
    """How the settings behind a hash that is kept next to a page differ from today's; empty if they do not."""
    if before == today["settings"]:
        return ""
    known = _read(page, "settings").get(before) if (page / FOLDER / "settings.json").is_file() else None
    return changed(known, today["set"]) if known is not None else "other settings, which were not kept"


def _grouped(texts: Iterable[tuple[str, str]]) -> list[str]:
    """Each text once, after the names that it is about."""
    found: dict[str, dict[str, None]] = {}
    for text, name in texts:
        found.setdefault(text, {})[name] = None
    return [f"{listed(list(names))}: {text}" for text, names in found.items() if text]


def _read(page: Path, name: str) -> Any:
    """A JSON file of those that are kept next to a page."""
    return json.loads((page / FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def _now(target: str, config: list[str], title: str) -> dict[str, list[str]]:
    """What Snakemake would run for a target and why, by a dry run, and the command that does it."""
    call = ["--cores", "2", "--config", *config, "--", target]
    dry = [sys.executable, "-m", "snakemake", "--dry-run", "--verbose", "--nocolor", *call]
    run = subprocess.run(dry, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if "MissingRuleException" in run.stdout:
        return {title: ["no rule makes it"]}
    said = planned(run.stdout) if run.returncode == 0 else ["no plan: " + run.stdout.strip().split("\n\n")[-1]]
    return {title: said, "Command": [f"snakemake {join(call)}"]}
