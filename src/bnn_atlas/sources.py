"""Which code made a result: the files that a module is made of, found by following its imports."""

import hashlib
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent
IMPORT = re.compile(
    r"^\s*(?:from (bnn_atlas\b[\w.]*) import (\([^)]*\)|[^#\n]*)|import (bnn_atlas\b[\w.]*))", re.MULTILINE
)
"""Import of something of this package: (package, what, ...) or (..., ..., module). A fifth of the time of a parser."""
PLUMBING = ("bnn_atlas.files", "bnn_atlas.logs", "bnn_atlas.provenance", "bnn_atlas.sources")
"""Modules that move bytes and messages and change no number and no picture; their edits remake nothing."""


def code_of(*modules: str, without: Iterable[str] = PLUMBING) -> tuple[Path, ...]:
    """Sorted files of the given modules and of all modules of this package that they import, directly or not.

    Imports are read from the source, which is not run; those inside functions count as well. The `__init__` of a
    package counts as imported by its modules, except that of `bnn_atlas` itself.

    Args:
        modules: full names, such as `bnn_atlas.figures.style`.
        without: modules and packages that are left out, together with what only they import.

    Raises:
        ModuleNotFoundError: a module is not there.
    """
    excluded = tuple(without)
    found: set[str] = set()
    waiting = set(modules)
    while waiting:
        name = waiting.pop()
        found.add(name)
        waiting |= {n for n in _imported(name) if not _within(n, excluded)} - found
    return tuple(sorted({_file(name) for name in found}))


def code_digest(*modules: str, without: Iterable[str] = PLUMBING) -> str:
    """SHA-256 of the names and contents of `code_of(...)`: the same on every machine for the same code."""
    digest = hashlib.sha256()
    for file in code_of(*modules, without=without):
        digest.update(f"{file.relative_to(PACKAGE).as_posix()}\0".encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def _within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


@cache
def _imported(name: str) -> frozenset[str]:
    """Modules of this package that a module imports, with the packages that hold it and them."""
    names = set()
    for package, what, module in IMPORT.findall(_file(name).read_text(encoding="utf-8")):
        inner = {f"{package}.{one.split()[0]}" for one in what.strip("()").split(",") if one.strip()}
        names |= ({one for one in inner if _exists(one)} or {package}) if package else {module}
    parents = {one.rpartition(".")[0] for one in {name, *names} if one.count(".") > 1}
    return frozenset((names | parents) - {"bnn_atlas"})


def _exists(name: str) -> bool:
    path = _path(name)
    return path.is_dir() or path.with_suffix(".py").is_file()


def _file(name: str) -> Path:
    """Source of a module of this package."""
    path = _path(name)
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if not file.is_file():
        raise ModuleNotFoundError(f"{name}: there is no {file}", name=name)
    return file


def _path(name: str) -> Path:
    return PACKAGE.joinpath(*name.split(".")[1:])
