"""Runs and figures of a study at one scale: entries with the scale's changes, points of grids, referees, a table."""

import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from bnn_atlas.config.language.base import MOST_RUNS, ConfigError, ModelT, validated
from bnn_atlas.config.parts.evaluation import EvaluationConfig
from bnn_atlas.config.parts.starts import StartConfig
from bnn_atlas.config.runs.studies import REFEREE, Run, RunConfig, RunEntry, Scale, Study

Sections = Mapping[str, Mapping[str, list[Any]]]
"""`grid` and `zipped` -> dotted field -> values; values at the same position in `zipped` form a row of the file."""
Axis = tuple[tuple[str, ...], list[tuple[Any, ...]]]
"""Fields that vary together, and their values at each position."""


class Point(NamedTuple):
    """One run of a grid."""

    values: dict[str, Any]
    """Dotted field -> value."""
    label: tuple[str, ...]
    """Parts of the run's name."""


def points(sections: Sections, where: str, line_of: Callable[[str, str], int | None]) -> list[Point]:
    """All points in order; if there is no grid, a single point without values.

    Args:
        sections: `grid` and `zipped` of an entry at one scale.
        where: file, scale and entry, for messages.
        line_of: (section, field) -> line of the list in the file; None if unknown.

    Raises:
        ConfigError: a list is empty or has a value twice, both sections have a field, or there are too many runs.
    """
    grid, zipped = sections["grid"], sections["zipped"]
    for field, choices in grid.items():
        _check_choices(choices, f"{where}.grid.{field}")
    for field in zipped:
        if field in grid:
            raise ConfigError(
                f"{where}: '{field}' is in grid{_line(line_of('grid', field))} and in "
                f"zipped{_line(line_of('zipped', field))}; give its values in one of them"
            )
    axes: list[Axis] = []
    if zipped:
        first = next(iter(zipped))
        _check_choices(zipped[first], f"{where}.zipped: '{first}'")
        axes.append((tuple(zipped), list(zip(*zipped.values(), strict=True))))
    for field, choices in grid.items():
        axes.append(((field,), [(one,) for one in choices]))
    number = math.prod(len(values) for _, values in axes)
    if number > MOST_RUNS:
        raise ConfigError(f"{where}.grid: its product has {number:,} runs; at most {MOST_RUNS:,} are allowed")
    names = _short([fields[0] for fields, _ in axes])
    fields = [field for group, _ in axes for field in group]
    return [
        Point(
            dict(zip(fields, itertools.chain(*rows), strict=True)),
            tuple(_label(name, row[0]) for name, row in zip(names, rows, strict=True)),
        )
        for rows in itertools.product(*(values for _, values in axes))
    ]


def _line(number: int | None) -> str:
    return f" (line {number})" if number else ""


def _check_choices(choices: list[Any], where: str) -> None:
    """Reject a list of a grid that is empty or has a value twice."""
    if not choices:
        raise ConfigError(f"{where}: an empty list defines no run")
    seen = set()
    for value in choices:
        if (key := frozen(value)) in seen:
            raise ConfigError(f"{where}: {json.dumps(value, default=str)} is given twice; remove one")
        seen.add(key)


def frozen(value: Any) -> Any:
    """A hashable form of a value; equal values have equal forms."""
    if isinstance(value, dict):
        return frozenset((key, frozen(part)) for key, part in value.items())
    return tuple(map(frozen, value)) if isinstance(value, list) else value


def _short(fields: Iterable[str]) -> list[str]:
    """The last part of each dotted field, or the whole field if another field ends in the same part."""
    names = list(fields)
    last = [name.rpartition(".")[2] for name in names]
    return [end if last.count(end) == 1 else name for name, end in zip(names, last, strict=True)]


def _label(field: str, value: Any) -> str:
    """Part of a run's name: `airfoil` for a word, `scale0.1` for a number, `hidden16x16` for a list."""
    if isinstance(value, Mapping):
        return "-".join(str(v) if isinstance(v, str) else _label(k, v) for k, v in value.items())
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        value = "x".join(map(str, value))
    return field + str(value)


SECTION = "referee."
"""Prefix of reductions that apply to a run's referee."""


def with_referee(run: Run) -> list[Run]:
    """The run and, if it has a referee, the run `<run>-referee` of the entry `<entry>-referee`.

    The referee has the run's data, posterior and chains, and the run's `referee` as its method; no random key is used
    by both (`RunConfig.seed_of`). Reductions of `referee` belong only to the referee.
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
"""Largest number of characters in a run's name: file systems allow file names of up to 255 bytes, endings included."""
_SHORTER = f"at most {LONGEST_NAME} are allowed, since files are named after it: shorten it, or the values of its grid"
NAME = r"[A-Za-z][A-Za-z0-9_.-]*"
JOB_KEYS = ("chains_per_block", "keep_draws", "keep_draws.every", "method.checkpoint_every", "referee.checkpoint_every")
"""Fields that affect only how the work is divided into jobs, and what stays on disk."""


def entry_at(model: type[ModelT], data: dict[str, Any], scale: Scale, where: str) -> ModelT:
    """An alignment or a figure at a scale; each field that the scale gives is replaced as a whole."""
    written = {key: value for key, value in data.items() if key != "scales"}
    return validated(model, written | data.get("scales", {}).get(scale, {}), where)


def expand(
    study: str,
    entry: str,
    data: dict[str, Any],
    scale: Scale,
    source: str,
    lines: Callable[[Sequence[Any]], tuple[int, int]] | None = None,
) -> list[Run]:
    """All runs of one entry: the scale's changes are applied first, then the points of the grid.

    `lines` maps a path of keys in the study's file to its line and column, for messages.
    """
    if len(entry) > LONGEST_NAME:
        raise ConfigError(f"{source}: runs.{entry[:40]}...: the name has {len(entry)} characters; {_SHORTER}")
    if not re.fullmatch(NAME, entry):
        raise ConfigError(f"{source}: runs.{entry}: a name may contain only letters, digits, '_', '.', '-'")
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
            raise ConfigError(f"{where}: the run name '{name}' has characters that are unsuitable for file names")
        if len(name) > LONGEST_NAME:
            raise ConfigError(f"{where}: the run name '{name[:40]}...' has {len(name)} characters; {_SHORTER}")
        at = ", ".join(f"{field}: {value}" for field, value in values.items())
        config = validated(RunConfig, point, f"{where} (grid {at})" if at else where).resolved()
        runs += with_referee(Run(study, name, entry, scale, values, config, reductions))
    return runs


def _has_effect(paper: Mapping[str, Any], overlay: Mapping[str, Any], field: str, choices: list[Any]) -> bool:
    """Whether the value that a scale sets for a field of the grid still affects some choice of the grid."""
    scaled, without = merge(paper, overlay), merge(paper, _without(overlay, field))
    changes = [_nested(field, choice) for choice in choices]
    return any(merge(scaled, change) != merge(without, change) for change in changes)


def _reductions(paper: RunEntry, scaled: RunEntry, keys: list[str]) -> tuple[str, ...]:
    """Changes from `paper` to `scaled` at `keys`, with the models' defaults for values that the file leaves out.

    Fields that only divide the work into jobs, or say what stays on disk, change no result: they are no reductions.
    """
    before, after = paper.model_dump(mode="json"), scaled.model_dump(mode="json")
    pairs = [(key, _get(before, key), _get(after, key)) for key in keys if key not in JOB_KEYS]
    return tuple(f"{key}: {old} -> {new}" for key, old, new in pairs if old != new)


def merge(base: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with the values of `overlay`, section by section; a section whose `kind` changes is replaced whole."""
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
    """Value at a dotted name, None if there is none; keys may contain dots (grids)."""
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


SECTIONS = ("split", "likelihood", "prior", "method", "warmstart", "stopping", "referee")
"""Sections whose settings get a column each."""


def run_rows(study: Study) -> list[dict[str, Any]]:
    """Column -> value for each run of a study at its scale; a row leaves out settings that the run does not have.

    Columns are named as in the study's file (`prior.scale`, `method.step_size`); grid fields without such a column come
    after the name of the run.
    """
    fields = list(dict.fromkeys(field for run in study.runs.values() for field in run.point))
    return [_row(run, fields) for run in study.runs.values()]


def _row(run: Run, fields: list[str]) -> dict[str, Any]:
    config = run.config
    settings = {
        "dataset": config.dataset,
        "model": config.model.label,
        "temperature": config.temperature,
        "seed": config.seed,
        "chains": config.chains,
    }
    dump = config.model_dump(mode="json", include=set(SECTIONS))
    for section in SECTIONS:
        settings |= {f"{section}.{key}": _text(value) for key, value in leaves(dump[section] or {})}
    point = {field: _text(run.point.get(field)) for field in fields if field not in settings}
    return {
        "study": run.study,
        "run": run.name,
        "entry": run.entry,
        "scale": run.scale,
        **point,
        **settings,
        "reductions": "; ".join(run.reductions),
    }


def _text(value: Any) -> Any:
    """Lists as `16x16`, all other values unchanged."""
    return "x".join(map(str, value)) if isinstance(value, list) else value
