"""YAML files as values, with the lines of their keys for errors and the anchors that their entries share."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from bnn_atlas.config.language.base import ConfigError

DEEPEST = 50
"""Largest number of nested levels in a file, with aliases expanded."""
LARGEST = 200_000
"""Largest number of values and keys in a file, with aliases expanded."""
LEADING_ZERO = re.compile(r"[-+]?0[0-9_]+")
DIGITS = 40
"""Largest number of digits of a number; Python does not read numbers with thousands of digits."""
SEXAGESIMAL = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")
DATE = "tag:yaml.org,2002:timestamp"
NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Safe YAML loader that rejects ambiguous or endless content, and reads 1e-3 as a number, as YAML 1.2 does."""

    def construct_document(self, node: yaml.Node) -> Any:
        """The data of a document; the document is checked before merge keys (<<) are applied."""
        _check(node, {})
        return super().construct_document(node)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)


def read_yaml(path: Path) -> Any:
    """Parsed YAML of `path`.

    Raises ConfigError with the file's name and the line if the file is not UTF-8 or not YAML, contains a key twice or a
    tag, contains numbers that YAML 1.1 and 1.2 read differently (010, 1:30), or is nested or repeated by aliases
    without end.
    """
    text = _text(path)
    try:
        _scan(text)
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = ", ".join(filter(None, (error.context, error.problem)))
        place = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        hint = _without_space(text.splitlines()[: mark.line + 1]) if mark else ""
        raise ConfigError(f"{path}: not valid YAML: {' '.join(reason.split())}{hint}{place}") from None


def _without_space(lines: list[str]) -> str:
    """Advice on the last line without a space after the colon; the parser reports a later line."""
    for number in range(len(lines), 0, -1):
        if found := re.match(r"[\s-]*([\w.]+):[^\s/:]", lines[number - 1]):
            return f"; in line {number}, write a space after the colon of '{found[1]}'"
    return ""


def composed(path: Path) -> tuple[Any, dict[tuple[int, int], str]]:
    """Root node of a file that `read_yaml` accepts, and line and column (from 0) of each anchor -> its name."""
    text, names = _text(path), {}
    event: Any
    for event in yaml.parse(text, _Loader):
        if not isinstance(event, yaml.AliasEvent) and getattr(event, "anchor", None):
            names[event.start_mark.line, event.start_mark.column] = event.anchor
    return yaml.compose(text, _Loader), names


class Lines:
    """The lines of the keys of a YAML file, looked up when a message needs one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._root: yaml.Node | None = None

    def __call__(self, keys: Sequence[Any]) -> tuple[int, int]:
        """Line and column, from 1, of the value at a path of keys and indices, or of the section that lacks it."""
        node, place = self._composed(), (1, 1)
        for key in keys:
            found = _entry(node, key)
            if found is None:
                break
            mark, node = found
            place = mark.start_mark.line + 1, mark.start_mark.column + 1
        return place

    def of_name(self, name: str) -> tuple[int | None, bool]:
        """Line, from 1, of a dotted name such as `runs.one.files[0]`, and whether the file contains the whole name.

        If the file contains only the beginning of the name, this is the line of the last key found; None if it contains
        nothing of the name. Keys may contain dots.
        """
        node, line, keys = self._composed(), None, re.sub(r"\[(\d+)\]", r".\1", name).split(".")
        while keys:
            for count in range(len(keys), 0, -1):
                key = ".".join(keys[:count])
                if found := _entry(node, int(key) if isinstance(node, yaml.SequenceNode) and key.isdigit() else key):
                    break
            else:
                return line, False
            mark, node = found
            line, keys = mark.start_mark.line + 1, keys[count:]
        return line, True

    def _composed(self) -> yaml.Node | None:
        if self._root is None:
            self._root = yaml.compose(_text(self._path), _Loader)
        return self._root


def _entry(node: yaml.Node | None, key: Any) -> tuple[yaml.Node, yaml.Node] | None:
    """Node whose line is shown (the key of a mapping) and node of the value; merged mappings are searched too."""
    if isinstance(node, yaml.SequenceNode):
        return (node.value[key], node.value[key]) if isinstance(key, int) and key < len(node.value) else None
    if not isinstance(node, yaml.MappingNode):
        return None
    merged: list[yaml.Node] = []
    for name, value in node.value:
        if name.value == str(key):
            return name, value
        if name.value == "<<":
            merged += value.value if isinstance(value, yaml.SequenceNode) else [value]
    return next(filter(None, (_entry(part, key) for part in merged)), None)


def _text(path: Path) -> str:
    if not path.is_file():
        raise ConfigError(f"{path}: {'a folder, not a file' if path.is_dir() else 'no such file'}")
    content = path.read_bytes()
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ConfigError(
            f"{path}: not UTF-8: byte 0x{content[error.start]:02x} in line {line}; save the file as UTF-8"
        ) from None
    if found := yaml.reader.Reader.NON_PRINTABLE.search(text):
        line = text.count("\n", 0, found.start()) + 1
        what = f"the character U+{ord(found[0]):04X}, which is not allowed in text"
        raise ConfigError(f"{path}: not valid YAML: {what}; delete it (line {line})")
    return text


def _scan(text: str) -> None:
    """Before values are made, reject tags, and endless brackets or indentation, which would exhaust the parser."""
    levels = 0
    event: Any
    for event in yaml.parse(text, _Loader):
        levels += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if levels > DEEPEST:
            raise yaml.MarkedYAMLError(problem=f"nested more than {DEEPEST} levels deep", problem_mark=event.start_mark)
        if getattr(event, "tag", None) is not None:
            raise yaml.MarkedYAMLError(
                problem=f"the tag '{event.tag}' is not allowed; put text that looks like a number in quotes",
                problem_mark=event.start_mark,
            )


def _check(node: yaml.Node, measured: dict[int, tuple[int, int] | None]) -> tuple[int, int]:
    """Numbers of values and levels of a node with aliases expanded; `measured` holds the results for earlier nodes."""
    if id(node) in measured:
        known = measured[id(node)]
        if known is None:
            raise yaml.MarkedYAMLError(
                problem="an alias is part of the value it refers to", problem_mark=node.start_mark
            )
        return known
    measured[id(node)] = None
    parts: list[yaml.Node] = []
    if isinstance(node, yaml.ScalarNode):
        _refuse_ambiguous(node)
    elif isinstance(node, yaml.MappingNode):
        _refuse_twice(node)
        parts = [part for pair in node.value for part in pair]
    else:
        parts = node.value
    sizes = [_check(part, measured) for part in parts]
    size = 1 + sum(number for number, _ in sizes)
    levels = 1 + max((depth for _, depth in sizes), default=0)
    if size > LARGEST:
        problem = f"more than {LARGEST:,} values, with aliases (*) written out"
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
    if levels > DEEPEST:
        problem = f"nested more than {DEEPEST} levels deep, with aliases (*) written out"
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
    measured[id(node)] = size, levels
    return size, levels


def _refuse_twice(node: yaml.MappingNode) -> None:
    keys: set[str] = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode):
            if key.value in keys:
                raise yaml.MarkedYAMLError(problem=f"the key '{key.value}' is given twice", problem_mark=key.start_mark)
            keys.add(key.value)


def _refuse_ambiguous(node: yaml.ScalarNode) -> None:
    """Reject 010, 1:30 and dates, which YAML 1.1 reads as 8, 90 and a date, but YAML 1.2 as 10, text and text."""
    if node.style:
        return
    text = node.value
    if LEADING_ZERO.fullmatch(text):
        plain = int(text.replace("_", ""))
        octal = f"{int(text, 8)} or " if node.tag in NUMBERS else ""
        problem = f"{text} has a leading zero and can be read in two ways: write {octal}{plain}"
    elif node.tag in NUMBERS and SEXAGESIMAL.fullmatch(text):
        number = 0.0
        for part in text.replace("_", "").lstrip("+-").split(":"):
            number = 60 * number + float(part)
        problem = f"{text} can be read as a number in base 60: write {'-' * text.startswith('-')}{number:.15g}"
    elif node.tag in NUMBERS and len(text) > DIGITS:
        problem = f"{text[:DIGITS]}... is a number of {len(text)} digits: write a shorter one"
    elif node.tag == DATE:
        problem = f"{text} is read as a date: write a number"
    else:
        return
    raise yaml.MarkedYAMLError(problem=f"{problem}, or put it in quotes if it is text", problem_mark=node.start_mark)


HAS_LINE = re.compile(r"\(line \d+[^()]*\)$")


@contextmanager
def with_lines(*files: Path, lines: Callable[[Path], Lines] = Lines) -> Iterator[None]:
    """Append to errors about these files the line of the key that they name: `<file>: <key>.<key>: ... (line 3)`.

    A file is named by its path, or relative to config/. An error at a scale gets the line under `scales`, if the scale
    changes this key. Errors that already have a line, or name no key of a file, are not changed. `lines` finds the
    lines of a file.
    """
    try:
        yield
    except ConfigError as error:
        raise ConfigError("\n".join(_located(text, files, lines) for text in str(error).splitlines())) from None


def _located(text: str, files: tuple[Path, ...], lines: Callable[[Path], Lines]) -> str:
    """Text of one problem with its line, if the line is known."""
    if HAS_LINE.search(text):
        return text
    for file in files:
        names = "|".join(re.escape(name) for name in (str(file), f"config/{file.parent.name}/{file.name}"))
        found = re.match(rf"(?:{names})(?: at scale (?P<scale>\w+))?: (?P<keys>[^\s:=]+)", text)
        if found and file.is_file() and (line := _line(lines(file), found["keys"].split("."), found["scale"])):
            return f"{text} (line {line})"
    return text


def _line(lines: Lines, keys: list[str], scale: str | None) -> int | None:
    """Line of a key, or of the last key on its path that the file contains; None if it contains none."""
    at_scale = [[*keys[:i], "scales", scale, *keys[i:]] for i in range(2, len(keys))] if scale else []
    for place in at_scale:
        line, whole = lines.of_name(".".join(map(str, place)))
        if whole:
            return line
    return lines.of_name(".".join(keys))[0]


class Anchor(NamedTuple):
    """A part of a study's file that is written in one run and repeated in other runs."""

    name: str
    key: str
    """The key whose value has the anchor."""
    entries: tuple[str, ...]
    """Entries of `runs` that contain this part, directly or through other anchors; it is written in the first one."""
    fields: frozenset[str]
    """The key of the anchor, and all keys below it at any depth."""


def shared_anchors(path: Path) -> list[Anchor]:
    """The anchors of a study's file that several of its runs share, in file order."""
    root, names = composed(path)
    entries: dict[str, list[str]] = {}
    fields: dict[str, frozenset[str]] = {}
    keys: dict[str, str] = {}
    for section, runs in root.value:
        for key, value in runs.value if section.value == "runs" else ():
            for field, node in _below(key.value, value):
                name = names.get((node.start_mark.line, node.start_mark.column))
                if name is not None:
                    entries.setdefault(name, []).append(key.value)
                    keys.setdefault(name, field)
                    fields.setdefault(name, frozenset(inner for inner, _ in _below(field, node)))
    return [Anchor(name, keys[name], tuple(of), fields[name]) for name, of in entries.items() if len(of) > 1]


def _below(field: str, node: yaml.Node) -> Iterator[tuple[str, yaml.Node]]:
    """A node and all nodes below it, each once, with its key; merged (<<) nodes get the outer key."""
    waiting, seen = [(field, node)], set()
    while waiting:
        field, node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield field, node
        if isinstance(node, yaml.MappingNode):
            waiting += [(field if key.value == "<<" else key.value, value) for key, value in reversed(node.value)]
        elif isinstance(node, yaml.SequenceNode):
            waiting += [(field, part) for part in reversed(node.value)]
