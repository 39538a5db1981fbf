"""What is printed, before anything runs, about runs whose settings have changed since their results were made."""

import ast
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from bnn_atlas.config.language.base import plural
from bnn_atlas.config.language.reading import Anchor, shared_anchors
from bnn_atlas.config.runs.expansion import leaves
from bnn_atlas.config.settings import Atlas
from bnn_atlas.export.results import Unpacked
from bnn_atlas.pipeline.hooks.run import Planned
from bnn_atlas.records import name_of, stated

LONGEST_LISTED = 6
"""At most this many names are listed; any others are only counted."""
SHARED = "split or warm start"
"""Name for the settings of files that runs share, if it is unknown which of these settings changed."""
ABSENT = "nothing"
"""Text in place of the value of a setting that did not exist before, or no longer exists."""
PARAMS = re.compile(
    r"Union of exclusive params before and now across all output: before: (.*?) now: (.*?) (?=; Software env|$)",
    re.DOTALL,
)
"""What Snakemake writes about changed params in the reason for a job: all the values before, and all the values now."""
CAUSE = re.compile(r"^Job \d+: (.*)\nReason: (?!.*Input files updated by another job)(.*)$", re.MULTILINE)
"""A job in a dry run, and the reason for it, unless the only reason is that another job runs."""
INPUTS = "Set of input files has changed"
MISSING = "Missing output files"
FETCHING = "Fetching "
"""Beginning of the message of a download."""
SECTIONS = {"posterior.": "", "training.": "warmstart."}
"""Prefix of a setting's name in params -> its prefix in a study's file."""


def changes_text(atlas: Atlas, studies: Path, changed: Mapping[tuple[str, str], Collection[str]]) -> str:
    """A line for each study with changed runs, and one for each anchor through which an edit reached several of them.

    Args:
        atlas: the configuration.
        studies: folder of the studies' files.
        changed: (study, run) -> names of the settings that changed, such as `posterior.prior.scale`.
    """
    lines: list[str] = []
    for study in atlas.studies.values():
        settings = {
            run: {in_file(name) for name in changed[study.name, run]}
            for run in study.runs
            if (study.name, run) in changed
        }
        if not settings:
            continue
        groups: dict[str, list[str]] = {}
        for run, names in settings.items():
            groups.setdefault(listed(sorted(names)), []).append(run)
        what = "; ".join(f"{names} of {listed(runs)}" for names, runs in groups.items())
        lines.append(f"Settings changed since the results of {study.name} were made: {what}")
        entries: dict[str, set[str]] = {}
        for run, names in settings.items():
            for name in names:
                entries.setdefault(name, set()).add(study.runs[run].entry)
        lines += _through_anchors(shared_anchors(studies / f"{study.name}.yaml"), entries)
    return "\n".join(lines)


def _through_anchors(anchors: Collection[Anchor], entries: Mapping[str, set[str]]) -> list[str]:
    """A line for each anchor that holds a changed setting, or for the innermost if several do."""
    lines = []
    for name, of in entries.items():
        having = [one for one in anchors if _has(one, name) and one.entries[0] in of and len(of & {*one.entries}) > 1]
        if having:
            anchor = min(having, key=lambda one: len(one.fields))
            owner, *others = (entry for entry in anchor.entries if entry in of)
            lines.append(f"  the anchor '{anchor.name}' of runs.{owner} is also used by {listed(others)}")
    return list(dict.fromkeys(lines))


def in_file(name: str) -> str:
    """The name of a setting in a study's file."""
    for section, there in SECTIONS.items():
        if name.startswith(section):
            return there + name.removeprefix(section)
    return name


def _has(anchor: Anchor, name: str) -> bool:
    """Whether a setting is part of what an anchor repeats."""
    *sections, last = name.split(".")
    return last in anchor.fields and (last == anchor.key or not sections or sections[-1] in anchor.fields)


def listed(names: list[str]) -> str:
    """The first names, and how many more there are."""
    more = len(names) - LONGEST_LISTED
    return ", ".join(names[:LONGEST_LISTED]) + (f" and {more} more" if more > 0 else "")


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """How settings changed, by their names in a study's file."""
    return _in_words({in_file(name): values for name, values in _differences([before], [after]).items()})


def shortened(reason: str) -> str:
    """The reason for a job, listing the changed settings instead of all params that contain one."""
    return PARAMS.sub(lambda found: _in_words(_differences(*map(_params, found.groups()))) or found[0], reason)


def planned(text: str) -> list[str]:
    """How many jobs a dry run plans and how long they take, then why; jobs that follow from others are left out."""
    messages = re.findall(r"^Job \d+: (.*)", text, re.MULTILINE)
    if not messages:
        return ["nothing has to run"]
    fetched = sum(message.startswith(FETCHING) for message in messages)
    downloads = f", {plural(fetched, 'download')} among them" if fetched else ""
    times = "".join(f" ({line.rstrip('.')})" for line in re.findall(r"^(?:About|More than) .*", text, re.MULTILINE))
    causes: dict[str, list[str]] = {}
    for message, reason in CAUSE.findall(text):
        causes.setdefault("not there yet" if reason.startswith(MISSING) else reason.rstrip(), []).append(message)
    found = [f"{reason}: {listed(of)}" for reason, of in causes.items()]
    return [f"{plural(len(messages), 'job')} would run{downloads}{times}", *found]


def changed_names(rule: str, reason: str) -> set[str]:
    """Settings of a run that are named in the reason for a job of `rule`; code, identities and files are left out.

    The path of a file that runs share contains a hash of its settings, so a changed setting appears as a different
    input file.
    """
    found = PARAMS.search(reason)
    settings = _differences(*map(_params, found.groups())) if found else {}
    names = {name for name in settings if "/" not in name and name.split(".")[0] not in ("identity", "code")}
    return names | ({SHARED} if rule == "sample" and INPUTS in reason else set())


def unlike(archives: Collection[Unpacked], plan: Iterable[Planned], results: str) -> str:
    """How results of archives differ from what today's settings, data and code would make; empty if they do not.

    Archives with such differences are removed again.
    """
    wrong: dict[str, list[str]] = {}
    for job in plan if archives else ():
        names = [name_of(file, results) for file in job.outputs]
        for archive, name in ((each, name) for each in archives for name in names if name in each.made_by):
            if why := _difference(archive.made_by[name], job, results):
                wrong.setdefault(archive.archive, []).append(f"{results}/{name}: {why}")
    for archive in archives:
        if archive.archive in wrong:
            archive.take_back()
    return "\n".join(
        f"{archive} has results that today's settings, data or code would not make:\n  "
        + "\n  ".join([*differences[:LONGEST_LISTED], *["..."] * (len(differences) > LONGEST_LISTED)])
        + "\nGive one that was made with these, or undo the change. Without `published`, everything is made here."
        for archive, differences in wrong.items()
    )


def _difference(record: Mapping[str, Any], job: Planned, results: str) -> str:
    """How a planned job differs from the one that has written a record; empty if it does not."""
    if (before := sorted(map(repr, record["settings"]))) != job.params:
        return _in_words(_differences(*(map(ast.literal_eval, texts) for texts in (before, job.params))))
    used, now = record["inputs"], {name_of(file, results): stated(file, results) for file in job.inputs}
    others = {
        *(used.keys() ^ now.keys()),
        *(name for name in used.keys() & now.keys() if now[name] not in (None, used[name])),
    }
    return f"made from other files ({listed(sorted(others))})" if others else ""


def _params(text: str) -> list[Any]:
    """The params in a list that Snakemake has printed; empty unless all are plain values."""
    try:
        return list(ast.literal_eval(f"[{text}]"))
    except (ValueError, SyntaxError):
        return []


def _differences(old: Iterable[Any], new: Iterable[Any]) -> dict[str, tuple[Any, Any]]:
    """Setting -> its value before and after; for a section whose kind has changed, only the kind.

    A param is a dictionary with the name of a setting (`bnn_atlas.pipeline.params`) or of a code file.
    """
    before, after = (dict(leaves(_sections(params))) for params in (old, new))
    names = [name for name in {**before, **after} if before.get(name, ABSENT) != after.get(name, ABSENT)]
    kinds = {name.removesuffix("kind") for name in names if name.endswith(".kind")}
    kept = (n for n in names if n.endswith(".kind") or not any(n.startswith(kind) for kind in kinds))
    return {name: (before.get(name, ABSENT), after.get(name, ABSENT)) for name in kept}


def _sections(params: Iterable[Any]) -> dict[str, Any]:
    named = (param for param in params if isinstance(param, dict) and all(isinstance(key, str) for key in param))
    return {key: value for param in named for key, value in param.items()}


def _in_words(settings: Mapping[str, tuple[Any, Any]]) -> str:
    """How each setting changed; for code, only that it did."""
    code = {name for name in settings if name == "code" or "/" in name}
    return "; ".join(n if n in code else f"{n} from {old} to {new}" for n, (old, new) in settings.items())
