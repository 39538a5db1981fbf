"""Runs and figures of a study at one scale: the scale laid over each entry, the product of its grid, referees."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bnn_atlas.config.language.base import ConfigError, validated
from bnn_atlas.config.parts.alignments import AlignmentConfig
from bnn_atlas.config.parts.evaluation import EvaluationConfig
from bnn_atlas.config.parts.figures import FigureConfig
from bnn_atlas.config.parts.starts import StartConfig
from bnn_atlas.config.runs.grids import points
from bnn_atlas.config.runs.studies import REFEREE, Run, RunConfig, RunEntry, Scale

SECTION = "referee."
"""How reductions of a run begin that are those of its referee."""


def with_referee(run: Run) -> list[Run]:
    """The run, and its referee if it has one: `<run>-referee`, of the entry `<entry>-referee`.

    The referee has the run's data, posterior and chains, and the run's `referee` as its method; no random key is used
    by both (`RunConfig.seed_of`). Reductions of `referee` are those of the referee alone.
    """
    if run.referee is None:
        return [run]
    fields = {name: getattr(run.config, name) for name in RunConfig.model_fields}
    own = {
        "description": f"the same chains continued with a Metropolis test ({run.config.method.title}: {run.name})",
        "evaluate": EvaluationConfig(),
        "warmstart": None,
        "initial": None,
        "start": StartConfig(run=run.name),
        "method": run.config.referee,
        "stopping": None,
        "referee": None,
    }
    theirs = tuple(text.removeprefix(SECTION) for text in run.reductions if text.startswith(SECTION))
    referee = run._replace(
        name=run.referee,
        entry=run.entry + REFEREE,
        config=RunConfig(**fields | own),
        reductions=tuple(f"method.{text}" for text in theirs),
    )
    ours = tuple(text for text in run.reductions if not text.startswith(SECTION))
    return [run._replace(reductions=ours), referee]


LONGEST_NAME = 200
"""Characters of a run's name: file systems have file names of up to 255 bytes, and endings are added to it."""
_SHORTER = f"at most {LONGEST_NAME} are allowed, since files are named after it: shorten it, or the values of its grid"
NAME = r"[A-Za-z][A-Za-z0-9_.-]*"
JOB_KEYS = ("chains_per_block", "method.checkpoint_every", "referee.checkpoint_every")
"""Fields that only decide how the work is divided into jobs."""


def takes_part(scales: Mapping[Any, Any] | None, scale: Scale, usual: Sequence[Scale]) -> bool:
    """Whether an entry with these `scales` takes part at a scale, in a study whose entries usually do at `usual`."""
    return scales[scale] is not None if scales and scale in scales else scale in usual


def figure_at(name: str, data: dict[str, Any], scale: Scale, source: str) -> FigureConfig:
    """A figure at one scale."""
    return validated(FigureConfig, {"draw": name} | _whole_fields_at(data, scale), f"{source}: figures.{name}")


def alignment_at(name: str, data: dict[str, Any], scale: Scale, source: str) -> AlignmentConfig:
    """An alignment at one scale."""
    return validated(AlignmentConfig, _whole_fields_at(data, scale), f"{source}: alignments.{name}")


def _whole_fields_at(data: dict[str, Any], scale: Scale) -> dict[str, Any]:
    """An entry with the fields that a scale replaces, each as a whole."""
    return {key: value for key, value in data.items() if key != "scales"} | data.get("scales", {}).get(scale, {})


def expand(
    study: str,
    entry: str,
    data: dict[str, Any],
    scale: Scale,
    source: str,
    lines: Callable[[Sequence[Any]], tuple[int, int]] | None = None,
) -> list[Run]:
    """All runs of one entry: overlay the scale, then take the points of its grid.

    `lines` gives line and column of a path of keys in the study's file, for messages.
    """
    if len(entry) > LONGEST_NAME:
        raise ConfigError(f"{source}: runs.{entry[:40]}...: the name has {len(entry)} characters; {_SHORTER}")
    if not re.fullmatch(NAME, entry):
        raise ConfigError(f"{source}: runs.{entry}: a name is made of letters, digits, '_', '.', '-'")
    paper = {key: value for key, value in data.items() if key != "scales"}
    overlay = data.get("scales", {}).get(scale, {})
    scaled = merge(paper, overlay)
    where = f"{source}: runs.{entry}"
    full = validated(RunEntry, scaled, where)
    keys = [key for key, _ in leaves(scaled | {"zipped": full.zipped})]
    reductions = _reductions(validated(RunEntry, paper, where), full, keys)
    sections = {"grid": full.grid, "zipped": full.zipped}
    for section, lists in sections.items():
        for field, choices in lists.items():
            if _get(overlay, field) is not None and choices and not _has_effect(paper, overlay, field, choices):
                raise ConfigError(
                    f"{where}.scales.{scale}: '{field}' has no effect, since the grid gives its values; set "
                    f"scales.{scale}.{section}.{field}"
                )

    def line_of(section: str, field: str) -> int | None:
        changed = section in overlay if section == "zipped" else field in overlay.get(section, {})
        place = [*(["scales", scale] if changed else []), section, *([0] if section == "zipped" else []), field]
        return lines(["runs", entry, *place])[0] if lines else None

    runs = []
    for values, label in points(sections, where, line_of):
        point = {key: value for key, value in scaled.items() if key not in sections}
        for field, value in values.items():
            point = merge(point, _nested(field, value))
        name = "-".join([entry, *label])
        if not re.fullmatch(NAME, name):
            raise ConfigError(f"{where}: the run name '{name}' has characters that file names should not have")
        if len(name) > LONGEST_NAME:
            raise ConfigError(f"{where}: the run name '{name[:40]}...' has {len(name)} characters; {_SHORTER}")
        at = ", ".join(f"{field}: {value}" for field, value in values.items())
        config = validated(RunConfig, point, f"{where} (grid {at})" if at else where).resolved()
        runs += with_referee(Run(study, name, entry, scale, values, config, reductions))
    return runs


def _has_effect(paper: Mapping[str, Any], overlay: Mapping[str, Any], field: str, choices: list[Any]) -> bool:
    """Whether what an overlay sets at a field of the grid is still there beside some choice of the grid."""
    scaled, without = merge(paper, overlay), merge(paper, _without(overlay, field))
    changes = [_nested(field, choice) for choice in choices]
    return any(merge(scaled, change) != merge(without, change) for change in changes)


def _reductions(paper: RunEntry, scaled: RunEntry, keys: list[str]) -> tuple[str, ...]:
    """What `scaled` changes at `keys`, with the models' defaults where the file leaves a value out.

    Fields that only divide the work into jobs change no result and are no reductions.
    """
    before, after = paper.model_dump(mode="json"), scaled.model_dump(mode="json")
    pairs = [(key, _get(before, key), _get(after, key)) for key in keys if key not in JOB_KEYS]
    return tuple(f"{key}: {old} -> {new}" for key, old, new in pairs if old != new)


def merge(base: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with the values of `overlay`, section by section; a section of another `kind` is replaced as a whole."""
    result = dict(base)
    for key, value in overlay.items():
        old = result.get(key)
        same_kind = isinstance(value, Mapping) and _kind(old) in (None, value.get("kind", _kind(old)))
        result[key] = merge(old, value) if isinstance(old, dict) and same_kind else value
    return result


def leaves(tree: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Dotted names and values of everything that is not a section."""
    pairs: list[tuple[str, Any]] = []
    for key, value in tree.items():
        if isinstance(value, Mapping):
            pairs += leaves(value, f"{prefix}{key}.")
        else:
            pairs.append((prefix + key, value))
    return pairs


def _kind(section: Any) -> Any:
    return section.get("kind") if isinstance(section, Mapping) else None


def _get(tree: Any, dotted: str) -> Any:
    """Value at a dotted name, None where there is none; keys may hold dots (grids)."""
    if dotted in tree:
        return tree[dotted]
    head, _, rest = dotted.partition(".")
    section = tree.get(head)
    return _get(section, rest) if rest and isinstance(section, Mapping) else None


def _without(tree: Mapping[str, Any], dotted: str) -> dict[str, Any]:
    """`tree` without the value at a dotted name."""
    head, _, rest = dotted.partition(".")
    kept = {key: value for key, value in tree.items() if key != head}
    section = tree.get(head)
    return kept | {head: _without(section, rest)} if rest and isinstance(section, Mapping) else kept


def _nested(dotted: str, value: Any) -> dict[str, Any]:
    head, _, rest = dotted.partition(".")
    return {head: _nested(rest, value) if rest else value}
