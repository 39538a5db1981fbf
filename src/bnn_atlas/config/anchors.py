"""Settings that several runs of a study's file share through an anchor (`&name`) and its aliases (`*name`)."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

from bnn_atlas.config.reading import composed


class Anchor(NamedTuple):
    """A part of a study's file that is written in one run and repeated in others."""

    name: str
    key: str
    """The key whose value it is."""
    entries: tuple[str, ...]
    """Entries of `runs` that have it, also through other anchors; the first one is where it is written."""
    fields: frozenset[str]
    """That key, and the keys in it at any depth."""


def shared_anchors(path: Path) -> list[Anchor]:
    """The anchors of a study's file that more than one of its runs has, in order of the file."""
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
    """A node and all below it, each once, with the key of its value; what is merged (<<) has the outer key."""
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
