"""Files whose change draws a figure again."""

import ast
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
FOLLOWED = "bnn_atlas.figures"
USED = "bnn_atlas.metrics"


def figure_sources(module: str) -> tuple[Path, ...]:
    """Sorted files of a module, of all modules of figures that it imports, and of the metrics that these use.

    Imports are read from the code, which is not run. `module` is below `bnn_atlas.figures`.
    """
    found: set[Path] = set()
    waiting = {_file(f"{FOLLOWED}.{module}")}
    while waiting:
        file = waiting.pop()
        found.add(file)
        names = _imported(file)
        waiting |= {_file(name) for name in names if name.startswith(f"{FOLLOWED}.")} - found
        found |= {_file(name) for name in names if name.startswith(f"{USED}.")}
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
