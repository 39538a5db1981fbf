"""Files whose change draws a figure again."""

import ast
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
FOLLOWED = ("bnn_atlas.figures.", "bnn_atlas.metrics.", "bnn_atlas.traces.grids")
"""Modules whose imports are followed."""


def figure_sources(module: str) -> tuple[Path, ...]:
    """Sorted files of a module and of all modules of figures and metrics that it imports, directly or not.

    Imports are read from the code, which is not run. `module` is below `bnn_atlas.figures`.
    """
    found: set[Path] = set()
    waiting = {_file(f"bnn_atlas.figures.{module}")}
    while waiting:
        file = waiting.pop()
        found.add(file)
        waiting |= {_file(name) for name in _imported(file) if name.startswith(FOLLOWED)} - found
    return tuple(sorted(found))


@cache
def _imported(file: Path) -> frozenset[str]:
    """Modules of this package that a file imports."""
    names = set()
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("bnn_atlas"):
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name for name in inner if _file(name).exists()} or {node.module}
    return frozenset(names)


def _file(name: str) -> Path:
    """Where a module of this package is."""
    path = PACKAGE.joinpath(*name.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
