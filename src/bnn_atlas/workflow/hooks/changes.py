"""Which settings of which runs changed, before the numbers of jobs of a plan and in the reason of each job."""

import ast
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from bnn_atlas.config.runs.expansion import leaves
from bnn_atlas.workflow.changes import SHARED

Changed = Mapping[tuple[str, str], set[str]]
ABSENT = "nothing"
"""Stands for a setting that was, or is, not there."""


def announce_changes(describe: Callable[[Changed], str]) -> None:
    """Let a plan begin with what `describe` says of the runs whose settings changed, and reasons name single settings.

    Snakemake gives a reason for each job, but no overview: an edit of settings that several runs share shows as a
    number of jobs only. And it prints the whole section that a changed setting is in, before and after.

    Args:
        describe: a text from (study, run) -> names of changed settings; empty where nothing is to be said.
    """
    from snakemake.dag import DAG
    from snakemake.persistence import ParamsChange

    usual_stats, usual_text = DAG.stats, ParamsChange.__str__

    def stats(dag: Any) -> tuple[str, dict[str, int]]:
        message, counts = usual_stats(dag)
        text = describe(changed_settings(dag))
        return (f"{text}\n\n{message}" if text else message), counts

    def text(change: Any) -> str:
        settings = _differences(change.only_old, change.only_new)
        return _listed(settings) if settings else usual_text(change)

    DAG.stats = stats
    ParamsChange.__str__ = text


def changed_settings(dag: Any) -> dict[tuple[str, str], set[str]]:
    """(study, run) -> names of the settings that are not those that its files were made with."""
    changed: dict[tuple[str, str], set[str]] = {}
    for job in dag.needrun_jobs():
        study, run = (getattr(job.wildcards, name, None) for name in ("study", "run"))
        if study is None or run is None:
            continue
        reason = dag.reason(job)
        change = reason.params_changed
        names = _names(_differences(change.only_old, change.only_new)) if change else set()
        if reason.input_changed and job.rule.name == "sample":
            names |= _names(_shared_settings(dag, job)) or {SHARED}
        if names:
            changed.setdefault((study, run), set()).update(names)
    return changed


def _shared_settings(dag: Any, job: Any) -> dict[str, tuple[Any, Any]]:
    """What differs between the splits and warm starts that a trace was made from and those that it is to be made from.

    Their paths contain a hash of their settings, so that a change shows as another input. Empty where the records of
    the earlier ones are gone.
    """
    from snakemake.io import IOFile

    persistence = dag.workflow.persistence
    recorded = persistence.input(job.output[0]) or []
    found: dict[str, tuple[Any, Any]] = {}
    for source, files in dag.dependencies[job].items():
        for new in (file for file in files if file not in recorded):
            before = [old for old in recorded if old not in job.input and _kind_of_file(old) == _kind_of_file(new)]
            for old in before:
                if made_with := persistence.params(IOFile(old, rule=source.rule)):
                    found |= _differences(made_with, persistence._params(source))
    return found


def _kind_of_file(path: str) -> tuple[str, str]:
    """Splits are in a folder for each of their settings, warm starts in files; both begin with the data set."""
    parts = Path(path).parts
    place = next((i for i, part in enumerate(parts) if part in ("splits", "warmstarts")), len(parts) - 2)
    return parts[place], parts[place + 1].rpartition("-")[0]


def _differences(old: Iterable[Any], new: Iterable[Any]) -> dict[str, tuple[Any, Any]]:
    """Setting -> value before and after, from recorded params; of a section of another kind, the kind alone.

    A param is a dictionary with the setting's name (`bnn_atlas.workflow.params`) or with a code file's; what cannot be
    read is left out.
    """
    before, after = (dict(leaves(_sections(params))) for params in (old, new))
    names = [name for name in {**before, **after} if before.get(name, ABSENT) != after.get(name, ABSENT)]
    kinds = {name.removesuffix("kind") for name in names if name.endswith(".kind")}
    kept = (n for n in names if n.endswith(".kind") or not any(n.startswith(kind) for kind in kinds))
    return {name: (before.get(name, ABSENT), after.get(name, ABSENT)) for name in kept}


def _sections(params: Iterable[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in params:
        try:
            value = ast.literal_eval(str(text))
        except (ValueError, SyntaxError):
            continue
        if isinstance(value, dict) and all(isinstance(key, str) for key in value):
            found |= value
    return found


def _names(settings: Iterable[str]) -> set[str]:
    """Names without code, identities, and files."""
    return {name for name in settings if "/" not in name and name.split(".")[0] not in ("identity", "code")}


def _listed(settings: Mapping[str, tuple[Any, Any]]) -> str:
    """In words; contents of code are said to have changed, and nothing else."""
    parts = []
    for name, (old, new) in settings.items():
        code = name == "code" or "/" in name
        parts.append(name if code else f"{name} from {old} to {new}")
    return "; ".join(parts)
