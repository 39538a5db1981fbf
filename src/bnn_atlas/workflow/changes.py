"""What a plan says of runs whose settings are no longer those that their results were made with."""

from collections.abc import Collection, Mapping
from pathlib import Path

from bnn_atlas.config.language.reading import Anchor, shared_anchors
from bnn_atlas.config.settings import Atlas

LONGEST_LISTED = 6
"""Names that are listed; of more, the rest is counted."""
SHARED = "split or warm start"
"""Stands for settings that the files shared by runs depend on, where it is not known which of them changed."""
SECTIONS = {"posterior.": "", "training.": "warmstart."}
"""What the names of settings begin with in params -> in a study's file."""


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
            run: {_in_file(name) for name in changed[study.name, run]}
            for run in study.runs
            if (study.name, run) in changed
        }
        if not settings:
            continue
        groups: dict[str, list[str]] = {}
        for run, names in settings.items():
            groups.setdefault(_listed(sorted(names)), []).append(run)
        what = "; ".join(f"{names} of {_listed(runs)}" for names, runs in groups.items())
        lines.append(f"Settings changed since the results of {study.name} were made: {what}")
        entries: dict[str, set[str]] = {}
        for run, names in settings.items():
            for name in names:
                entries.setdefault(name, set()).add(study.runs[run].entry)
        lines += _through_anchors(shared_anchors(studies / f"{study.name}.yaml"), entries)
    return "\n".join(lines)


def _through_anchors(anchors: Collection[Anchor], entries: Mapping[str, set[str]]) -> list[str]:
    """A line for each anchor that has a changed setting, the innermost of several; `entries` are those of a setting."""
    lines = []
    for name, of in entries.items():
        having = [one for one in anchors if _has(one, name) and one.entries[0] in of and len(of & {*one.entries}) > 1]
        if having:
            anchor = min(having, key=lambda one: len(one.fields))
            owner, *others = (entry for entry in anchor.entries if entry in of)
            lines.append(f"  the anchor '{anchor.name}' of runs.{owner} is also used by {_listed(others)}")
    return list(dict.fromkeys(lines))


def _in_file(name: str) -> str:
    """Name of a setting in a study's file."""
    for section, there in SECTIONS.items():
        if name.startswith(section):
            return there + name.removeprefix(section)
    return name


def _has(anchor: Anchor, name: str) -> bool:
    """Whether a setting is part of what an anchor repeats."""
    *sections, last = name.split(".")
    return last in anchor.fields and (last == anchor.key or not sections or sections[-1] in anchor.fields)


def _listed(names: list[str]) -> str:
    more = len(names) - LONGEST_LISTED
    return ", ".join(names[:LONGEST_LISTED]) + (f" and {more} more" if more > 0 else "")
