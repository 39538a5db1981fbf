"""From a table to a study: the entry of the data set, and a study of three methods with defaults to trust."""

import json
import os
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from bnn_atlas.config.data.datasets import load_registry
from bnn_atlas.config.data.own_table import (
    MANY,
    OwnTable,
    Problem,
    Seen,
    Survey,
    keys_text,
    remarks,
    sentence,
    survey,
)
from bnn_atlas.config.language.base import ConfigError, plural
from bnn_atlas.config.language.reading import read_yaml
from bnn_atlas.config.settings import load_study
from bnn_atlas.files import atomic
from bnn_atlas.pipeline.figures import rule_names
from bnn_atlas.pipeline.targets import wrong_name

HIDDEN = 16
"""Units of the network's hidden layer: a Metropolis-corrected chain still converges, and better than with 8."""
STUDY = """\
title: {title}
paper: none
runs:
  exact: &exact
    description: microcanonical dynamics with a Metropolis test, which other methods are judged by
    dataset: {name}
    model: {{ kind: mlp, hidden: [{hidden}] }}
    likelihood: {{ kind: {likelihood} }}
    warmstart: {{ max_epochs: 5000, batch_size: null, patience: 50 }}
    method: {{ kind: adjusted_mclmc, warmup: 1000, steps: 4000, thinning: 2, step_size: 0.01, checkpoint_every: 50 }}
    chains: 4
  mile:
    <<: *exact
    description: MILE, microcanonical dynamics without a test, from the same warm starts
    method:
      kind: mclmc
      warmup: 20000
      steps: 200000
      thinning: 100
      energy_variance_start: 0.05
      energy_variance_end: 0.01
  ensemble:
    <<: *exact
    description: the warm starts themselves, a deep ensemble
    method: {{ kind: deep_ensemble }}
figures:
  scores_by_chains:
    draw: cumulative_lppd
    runs: [exact, mile, ensemble]
    labels: &labels {{ exact: with Metropolis test, mile: MILE, ensemble: deep ensemble }}
  calibrated: {{ draw: {calibration}, runs: [exact, mile, ensemble], labels: *labels }}
  convergence: {{ draw: rhat_histograms, runs: [exact, mile] }}
"""
IDS = re.compile(r"(.*[ _.-])?id|idx|index|nr|row|row[ _.-]?(nr|number|names?)|#|obs|unnamed: 0")
"""Names of columns that identify rows, in lower case."""
START, SWEEP = 45.0, 2.5e-3
"""Seconds of a run on 2 cores: a constant, and the time per training row and parameter."""


def new(data: Path, target: str, name: str | None, task: str | None, root: Path) -> str:
    """Check a table, write its entry and a study into `root`/config, and return a report of the guesses and next steps.

    Nothing is written, and nothing that exists is replaced, if anything is wrong. Raises ConfigError.
    """
    registry = root / "config" / "datasets.yaml"
    if not registry.is_file():
        raise ConfigError(f"{root}: there is no config/datasets.yaml here; call this in the folder of the repository")
    if not data.is_file():
        raise ConfigError(f"{data}: {'a folder; give the file in it' if data.is_dir() else 'no such file'}")
    name = name or re.sub(r"\W+", "_", data.name.split(".")[0].lower(), flags=re.ASCII).strip("_") or "my_table"
    name = name if name[0].isalpha() else f"data_{name}"
    study = root / "config" / "studies" / f"{name}.yaml"
    if name in load_registry(registry) or study.exists():
        raise ConfigError(f"the name '{name}' exists in config/datasets.yaml or config/studies; give another: --name")
    if why := wrong_name(name, _targets(root)):
        raise ConfigError(f"the name '{name}' cannot be that of a study: {why}; give another: --name")
    found = _guessed(data, target, task)
    if found.seen is None:
        raise ConfigError("\n".join(f"{data}: {sentence(problem, MANY)}" for problem in found.problems))
    entry = {"path": _place(data, root), **found.table.model_dump(mode="json", exclude={"path"}, exclude_unset=True)}
    text = registry.read_text(encoding="utf-8")
    try:
        with atomic(registry) as temporary:
            temporary.write_text(f"{text.rstrip()}\n\n{name}:\n{_lines(entry)}", encoding="utf-8")
        with atomic(study) as temporary:
            temporary.write_text(_study(name, entry["task"]), encoding="utf-8")
        load_study(study, "demo", load_registry(registry))
    except BaseException:
        registry.write_text(text, encoding="utf-8")
        study.unlink(missing_ok=True)
        raise
    return "\n".join(_said(name, entry, found, found.seen))


def _targets(root: Path) -> set[str]:
    """Names of rules, of pages of claims, and of steps."""
    names = {*rule_names(root), "claims"}
    for file in (root / "config" / "claims").glob("*.yaml"):
        names |= {f"{file.stem}_claims", *(read_yaml(file).get("steps") or ())}
    return names


def _guessed(data: Path, target: str, task: str | None) -> Survey:
    """The table with what can be guessed: how it is written, the task, and columns that only number the rows."""
    own = OwnTable(path=str(data), target=target, task="classification" if task == "classification" else "regression")
    found = survey(data, own)
    if found.seen is None or (task and found.table.task != task):
        return found._replace(seen=None)
    own, seen = found.table, found.seen
    changes: dict[str, Any] = {}
    values, problems = seen.parsed.numbers, []
    if task is None and own.task == "regression" and len(set(values[own.target])) == 2:
        changes["task"] = "classification"
    cells = seen.parsed.numbers | seen.parsed.words
    inputs = [column for column in seen.used if column != own.target and len(set(cells[column])) > 1]
    why = {
        column: _id(column, column == inputs[0], values[column], seen.parsed.left_out)
        for column in inputs
        if column in values
    }
    ids = [column for column, text in why.items() if text][: len(inputs) - 1]
    if ids:
        changes["drop"] = (*own.drop, *ids)
        problems = [
            Problem(f"column '{name}' {why[name]}, so it is no input", {"drop": changes["drop"]}) for name in ids
        ]
    if not changes:
        return found
    again = survey(data, own.model_copy(update=changes))
    return again._replace(problems=[*found.problems, *problems, *again.problems])


def _id(name: str, first: bool, values: Sequence[float], left_out: int) -> str:
    """Why a column only identifies rows; '' if it does not. Rows that are left out make gaps in a row count."""
    if not all(value.is_integer() for value in values) or len(set(values)) < len(values):
        return ""
    if IDS.fullmatch(name.casefold()):
        return "has a different number in each row and is named like an id"
    counts = all(a < b for a, b in pairwise(values)) and values[-1] - values[0] < len(values) + left_out
    return "numbers the rows" if first and counts and 0 <= values[0] <= 1 + left_out else ""


def _place(data: Path, root: Path) -> str:
    """The file's path in its entry: relative to the repository if it is inside."""
    inside = data.resolve().is_relative_to(root.resolve())
    return os.path.relpath(data.resolve(), root.resolve()) if inside else str(data.resolve())


def _lines(entry: dict[str, Any]) -> str:
    return "".join(f"  {key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in entry.items())


def _study(name: str, task: str) -> str:
    regression = task == "regression"
    return STUDY.format(
        name=name,
        title=json.dumps(name.replace("_", " ")),
        hidden=HIDDEN,
        likelihood="learned_noise" if regression else "categorical",
        calibration="calibration" if regression else "calibration_curves",
    )


def _said(name: str, entry: dict[str, Any], found: Survey, seen: Seen) -> list[str]:
    """What was found and guessed, what was written, what it costs, and what to do next."""
    values = seen.parsed.numbers | seen.parsed.words
    rows = len(values[entry["target"]])
    inputs = sum(len(set(seen.parsed.words.get(column, "1"))) for column in seen.used) - 1
    classes = len(set(values[entry["target"]])) if entry["task"] == "classification" else 0
    inputs -= max(classes - 1, 0)
    outputs = classes or 1
    parameters = HIDDEN * (inputs + 1) + outputs * (HIDDEN + 1) + (not classes)
    guessed = {key: value for key, value in entry.items() if key not in ("path", "target")}
    lines = [f"  {sentence(problem, MANY)}" for problem in found.problems if problem.changes.keys() != {"task"}]
    if lines:
        lines = [f"What was found in {entry['path']}, and the keys for it:", *lines]
    lines += [f"Guessed: {keys_text(guessed, MANY)}. Correct what is wrong in config/datasets.yaml."]
    if "" in seen.header:
        lines.append("Columns without a name are not used.")
    notes = remarks(seen.parsed.numbers, seen.parsed.words, entry["target"], rows, seen.parsed.left_out)
    lines += [f"Note: {note}." for note in (*filter(None, [seen.form]), *notes)]
    minutes = (START + SWEEP * rows * 0.8 * parameters) / 60
    time = f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.0f} h"
    shape = (
        f"{rows} rows, {plural(inputs, 'input')}{f', {classes} classes' if classes else ''}, {parameters} parameters"
    )
    lines += [
        f"Written: the data set '{name}' in config/datasets.yaml, and config/studies/{name}.yaml with three methods.",
        f"It has {shape}: about {time} on 2 cores.",
    ]
    if minutes > 30:
        lines.append("To try it on fewer rows first, put `split: { limit: 1000 }` into its run `exact`.")
    return [*lines, "Next:", f"  snakemake --cores 2 --config 'studies=[{name}]' -- {name}"]
