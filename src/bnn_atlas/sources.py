"""Find the code that determines a result: the files that a module imports, and the definitions that a function reaches.

`code_of` follows imports from file to file. `code_digest` is finer: it follows names from definition to definition, and
hashes the syntax trees of the definitions. Draws, warm starts and predictions carry such a digest, since making them
again is expensive.

A process reads the sources once, so that all its digests describe one state of the code. Digests are kept in the user's
cache folder for all processes that find the same sources, since each plan and each job needs some digests.
"""

import ast
import contextlib
import hashlib
import re
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from bnn_atlas.runtime import cache_folder

PACKAGE = Path(__file__).parent
IMPORT = re.compile(
    r"^\s*(?:from (bnn_atlas\b[\w.]*) import (\([^)]*\)|[^#\n]*)|import (bnn_atlas\b[\w.]*))", re.MULTILINE
)
"""Import from this package: (package, what, ...) or (..., ..., module). Takes a fifth of the time of a parser."""
NO_CACHE = (OSError, RuntimeError)
"""Errors raised if the cache folder cannot be written or read, or if there is no home folder."""
DIGEST_LINE = re.compile(r"[0-9a-f]{64} [0-9a-f]{64}")
PLUMBING = tuple(
    f"bnn_atlas.{name}" for name in ("compilation", "files", "locks", "logs", "provenance", "records", "sources")
)
"""Modules that handle bytes and messages but change no number or picture; after editing them, nothing is remade."""
SETTINGS = "bnn_atlas.config"
"""Package of the settings classes. Only code that computes counts there, since settings are in the fingerprint."""


def code_of(*modules: str, without: Iterable[str] = PLUMBING) -> tuple[Path, ...]:
    """Sorted files of the given modules and of all modules of this package that they import, directly or not.

    Imports are read from the source, which is not run; imports inside functions count as well. The `__init__` of a
    package, other than `bnn_atlas` itself, counts as imported by its modules.

    Args:
        modules: full names, such as `bnn_atlas.figures.style`.
        without: modules and packages to leave out, together with modules that only they import.

    Raises:
        ModuleNotFoundError: a module does not exist.
    """
    excluded = tuple(without)
    found: set[str] = set()
    waiting = set(modules)
    while waiting:
        name = waiting.pop()
        found.add(name)
        waiting |= {n for n in _imported(name) if not _within(n, excluded)} - found
    return tuple(sorted({_file(name) for name in found}))


def code_digest(*roots: str, classes: Collection[type] | None = None, without: Iterable[str] = PLUMBING) -> str:
    """SHA-256 of the syntax trees of all definitions that the roots reach.

    A definition is a function, a class or an assignment at the top of a module; it reaches the definitions that it
    names. Docstrings, comments, annotations, log messages and error messages do not count, nor do the names of modules:
    a definition may move. Statements that act on a definition (`f.defvjp(...)`, `@f.defjvp`) count with it.

    Branches for settings that a run does not have do not count either: cases of a `match` over settings classes, and
    `isinstance` tests of them, are left out unless the class is among `classes`, is a base of one of these, or is used
    by name in the code. In the settings classes themselves, only methods and constants that the code uses count.

    Args:
        roots: `module:function` or a whole module.
        classes: classes of all settings of the run, including nested ones; if None, all branches count.
        without: modules and packages whose definitions do not count.

    Raises:
        ModuleNotFoundError: a module does not exist.
        ValueError: a root is not defined in its module.
    """
    if classes is None:
        return _digest(tuple(sorted(roots)), None, tuple(without))
    bases = {base for cls in classes for base in cls.__mro__ if base.__module__.startswith(SETTINGS)}
    live = frozenset((base.__module__, base.__qualname__) for base in bases)
    return _digest(tuple(sorted(roots)), live, tuple(without))


Place = tuple[str, str]
"""Module and name of a definition."""


@cache
def _digest(roots: tuple[str, ...], live: frozenset[Place] | None, without: tuple[str, ...]) -> str:
    question = hashlib.sha256(repr((roots, live and sorted(live), without)).encode()).hexdigest()
    if (found := _kept().get(question)) is None:
        found = _follow(roots, live, without)
        with contextlib.suppress(*NO_CACHE):
            _file_of_digests().parent.mkdir(parents=True, exist_ok=True)
            with _file_of_digests().open("a", encoding="ascii") as file:
                file.write(f"{question} {found}\n")
    return found


@cache
def _kept() -> dict[str, str]:
    """Digests that earlier processes computed from the same sources; half-written lines are left out."""
    try:
        lines = _file_of_digests().read_text(encoding="ascii", errors="replace").splitlines()
    except NO_CACHE:
        return {}
    return dict(line.split() for line in lines if DIGEST_LINE.fullmatch(line))


def _file_of_digests() -> Path:
    return cache_folder() / "digests" / f"{state()[:32]}.txt"


@cache
def state() -> str:
    """Hash of all sources as read by this process, and of the Python version, since syntax trees depend on it."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    whole = hashlib.sha256(version.encode())
    for name, source in read_sources().items():
        whole.update(f"{name} {len(source)} ".encode() + source)
    return whole.hexdigest()


@cache
def read_sources() -> dict[str, bytes]:
    """Path below the package -> source, of all its modules, read once in a process.

    Hidden files are ignored: editors put lock files and copies next to a file.
    """
    files = (file for file in sorted(PACKAGE.rglob("*.py")) if file.name[0] != "." and file.is_file())
    return {file.relative_to(PACKAGE).as_posix(): file.read_bytes() for file in files}


def _follow(roots: tuple[str, ...], live: frozenset[Place] | None, without: tuple[str, ...]) -> str:
    read: dict[Place, _Reading] = {}
    attributes: set[str] = set()
    waiting = [place for root in roots for place in _places_of(root)]
    while waiting:
        place = waiting.pop()
        if place not in read and not _within(place[0], without):
            read[place] = found = _reading(place, live)
            # The code itself uses this class, so its branches count after all.
            if live is not None and found.classes - live:
                return _digest(roots, live | found.classes, without)
            attributes |= found.attributes
            waiting += found.reached
        if not waiting:
            computed = (one for cls in live or () for one in _computed(cls, frozenset(attributes)))
            waiting = [place for place in computed if place not in read]
    said = {place: found for place, found in read.items() if found.hash}
    trees = [(found.hash, sorted(said[to].hash for to in found.reached if to in said)) for found in said.values()]
    return hashlib.sha256(repr(sorted(trees)).encode()).hexdigest()


def _places_of(root: str) -> Iterator[Place]:
    """The definition that a root names, or all definitions of a module."""
    module, _, name = root.partition(":")
    known = _module(module)
    if name and name not in known.definitions:
        raise ValueError(f"{root}: {module} defines no '{name}'")
    yield from ((module, one) for one in ([name] if name else known.definitions))
    yield module, ""


@dataclass
class _Module:
    """The definitions and imports of a module, read from its source."""

    name: str
    definitions: dict[str, list[ast.stmt]] = field(default_factory=dict)
    """Name -> the statements that bind it or act on it; '' -> statements that act on no definition of this module."""
    imports: dict[str, Place] = field(default_factory=dict)
    """Local name -> its origin: module and name; the name is empty if the import is a module."""


@cache
def _module(name: str) -> _Module:
    tree = ast.parse(_source(name))
    module = _Module(name)
    acting: list[tuple[ast.stmt, ast.AST]] = []
    for statement in tree.body:
        if bound := set(_bound(statement)):
            for one in bound:
                module.definitions.setdefault(one, []).append(statement)
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            acting += [(statement, decorator) for decorator in statement.decorator_list]
        elif not bound and not isinstance(statement, ast.Import | ast.ImportFrom):
            acting.append((statement, statement))
    for statement, part in acting:
        names = {node.id for node in ast.walk(part) if isinstance(node, ast.Name)} & module.definitions.keys()
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            names -= {statement.name}
        for one in names if part is not statement or names else {""}:
            module.definitions.setdefault(one, []).append(statement)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                place = (whole, "") if _ours(whole) and _exists(whole) else (node.module, alias.name)
                module.imports[alias.asname or alias.name] = place
        elif isinstance(node, ast.Import):
            for alias in node.names:
                module.imports[alias.asname or alias.name.partition(".")[0]] = (alias.name, "")
    return module


def _bound(statement: ast.stmt) -> Iterator[str]:
    """Names that a statement at the top of a module defines."""
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield statement.name
        case ast.Import() | ast.ImportFrom() | ast.Expr():
            return
        case _:
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    yield node.id


class _Reading(NamedTuple):
    """The content of a definition, and the names and classes that it uses."""

    hash: str
    """SHA-256 of the definition's syntax tree; empty if nothing in the tree counts."""
    reached: tuple[Place, ...]
    attributes: frozenset[str]
    classes: frozenset[Place]
    """Settings classes that the definition uses for other purposes than to distinguish cases."""


_READINGS: dict[Place, tuple[frozenset[Place], dict[frozenset[Place] | None, _Reading]]] = {}
"""Definition -> the settings classes in its cases, and its reading for each choice of these classes."""


def _reading(place: Place, live: frozenset[Place] | None) -> _Reading:
    if place in _READINGS:
        cases, known = _READINGS[place]
        if (found := known.get(None if live is None else live & cases)) is not None:
            return found
    reader = _Reader(_module(place[0]), live)
    text = "\n".join(filter(None, map(reader.text, _statements(place))))
    imports = (f"{name}={origin}" for name, origin in sorted(reader.external.items()))
    text = "\n".join([text, *imports])
    text_hash = hashlib.sha256(text.encode()).hexdigest() if text else ""
    found = _Reading(text_hash, tuple(sorted(reader.reached)), frozenset(reader.attributes), frozenset(reader.classes))
    cases = frozenset(reader.cases)
    _READINGS.setdefault(place, (cases, {}))[1][None if live is None else live & cases] = found
    return found


def _statements(place: Place) -> list[ast.stmt]:
    """Statements of a definition, or of a method or constant `Class.name` of a settings class."""
    module, name = place
    cls, _, member = name.partition(".")
    statements = _module(module).definitions.get(cls, [])
    if not member:
        return statements
    return [one for statement in statements if isinstance(statement, ast.ClassDef) for one in statement.body
            if _member(one) == member]  # fmt: skip


def _computed(cls: Place, used: frozenset[str]) -> list[Place]:
    """Methods and constants of a settings class whose names the code uses; not fields, validators or docstrings."""
    module, name = cls
    bodies = [s.body for s in _module(module).definitions.get(name, ()) if isinstance(s, ast.ClassDef)]
    return [(module, f"{name}.{found}") for body in bodies for s in body if (found := _member(s)) in used]


def _member(statement: ast.stmt) -> str | None:
    """Name of a method or constant of a settings class; None for its fields, validators and docstrings."""
    match statement:
        case ast.FunctionDef() if not any("validator" in ast.unparse(one) for one in statement.decorator_list):
            return statement.name
        case ast.AnnAssign(target=ast.Name(id=name)) if ast.unparse(statement.annotation).startswith("ClassVar"):
            return name
        case _:
            return None


LEFT_OUT = frozenset({"ctx", "annotation", "returns", "type_comment", "type_params", "kind"})
"""Fields of syntax nodes that do not count."""


class _Reader:
    """Writes syntax trees as text, without parts that change no number, and records the names that they use."""

    def __init__(self, module: _Module, live: frozenset[Place] | None) -> None:
        self._module = module
        self._live = live
        self._functions: list[ast.FunctionDef] = []
        self.reached: set[Place] = set()
        self.external: dict[str, str] = {}
        self.attributes: set[str] = set()
        self.classes: set[Place] = set()
        self.cases: set[Place] = set()

    def text(self, node: Any) -> str:
        """The text of a node, a list of nodes or a plain value; empty if it does not count."""
        if isinstance(node, list):
            return f"[{','.join(filter(None, map(self.text, node)))}]"
        if not isinstance(node, ast.AST):
            return repr(node)
        return str(getattr(self, f"_{type(node).__name__}", self._any)(node))

    def _any(self, node: ast.AST) -> str:
        fields = [f"{name}={self.text(getattr(node, name, None))}" for name in node._fields if name not in LEFT_OUT]
        return f"{type(node).__name__}({','.join(fields)})"

    def _nothing(self, node: ast.AST) -> str:
        return ""

    _Import = _ImportFrom = _Pass = _nothing

    def _Expr(self, node: ast.Expr) -> str:
        match node.value:
            case ast.Constant(value=str()) | ast.Call(func=ast.Attribute(value=ast.Name(id="log" | "warnings"))):
                return ""
            case _:
                return self._any(node)

    def _Raise(self, node: ast.Raise) -> str:
        kind = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        return f"Raise({ast.unparse(kind) if kind else ''})"

    def _Assert(self, node: ast.Assert) -> str:
        return f"Assert({self.text(node.test)})"

    def _FunctionDef(self, node: ast.FunctionDef) -> str:
        self._functions.append(node)
        text = self._any(node)
        self._functions.pop()
        return text

    def _AnnAssign(self, node: ast.AnnAssign) -> str:
        if node.value is None:
            return "" if self._functions else f"Field({self.text(node.target)})"
        return f"Assign(targets=[{self.text(node.target)}],value={self.text(node.value)})"

    def _Assign(self, node: ast.Assign) -> str:
        """An assignment without texts that are used only in messages."""
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]) if self._is_message(name, node.value):
                return ""
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if len(names) == len(values):
                pairs = zip(names, values, strict=True)
                kept = [(n, v) for n, v in pairs if not (isinstance(n, ast.Name) and self._is_message(n.id, v))]
                if not kept:
                    return ""
                return f"Assign({self.text([n for n, _ in kept])},{self.text([v for _, v in kept])})"
            case _:
                return self._any(node)

    def _is_message(self, name: str, value: ast.expr) -> bool:
        return _is_text(value) and bool(self._functions) and name not in set(_loaded(self._functions[0].body))

    def _If(self, node: ast.If) -> str:
        if self._is_dead(node.test):
            return "".join(map(self.text, node.orelse))
        body, other = self.text(node.body), self.text(node.orelse)
        return f"If({self.text(node.test)},{body},{other})" if (body, other) != ("[]", "[]") else ""

    def _IfExp(self, node: ast.IfExp) -> str:
        return self.text(node.orelse) if self._is_dead(node.test) else self._any(node)

    def _Call(self, node: ast.Call) -> str:
        classes = self._tested(node)
        if classes is None:
            return self._any(node)
        self.cases |= {place for place in classes.values() if place}
        kept = sorted(name for name, place in classes.items() if place is None or self._is_live(place))
        return f"isinstance({self.text(node.args[0])},{kept})"

    def _Match(self, node: ast.Match) -> str:
        subject = self.text(node.subject)
        cases = [(self._pattern(case.pattern), case) for case in node.cases]
        texts = (f"case({p},{self.text(c.guard)},{self.text(c.body)})" for p, c in cases if p)
        return f"Match({subject},{','.join(texts)})"

    def _pattern(self, pattern: ast.pattern) -> str:
        """The text of a pattern, without alternatives that match no settings of the run; empty if none is left."""
        match pattern:
            case ast.MatchOr(patterns=patterns):
                return "|".join(filter(None, map(self._pattern, patterns)))
            case ast.MatchAs(pattern=ast.pattern() as inner, name=name):
                return f"{text} as {name}" if (text := self._pattern(inner)) else ""
            case ast.MatchClass(cls=ast.Name(id=name)) if place := self._settings_class(name):
                self.cases.add(place)
                rest = self.text(pattern.patterns) + self.text(pattern.kwd_attrs) + self.text(pattern.kwd_patterns)
                return f"{name}{rest}" if self._is_live(place) else ""
            case _:
                return self._any(pattern)

    def _tested(self, node: ast.expr) -> dict[str, Place | None] | None:
        """Settings classes in an `isinstance` test, by name; None for any other expression."""
        match node:
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, kinds]):
                names = {n.id for n in ast.walk(kinds) if isinstance(n, ast.Name)}
                places = {name: self._settings_class(name) for name in names}
                return places if any(places.values()) else None
            case _:
                return None

    def _is_dead(self, test: ast.expr) -> bool:
        """Whether a condition holds only for settings that the run does not have."""
        parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
        for part in parts:
            places = self._tested(part) or {"": None}
            self.cases |= {place for place in places.values() if place}
            if all(place and not self._is_live(place) for place in places.values()):
                return True
        return False

    def _is_live(self, place: Place) -> bool:
        return self._live is None or place in self._live

    def _settings_class(self, name: str) -> Place | None:
        place = _origin(self._module, name)
        return place if place and _is_settings_class(place) else None

    def _Name(self, node: ast.Name) -> str:
        place = _origin(self._module, node.id)
        if place is None:
            return node.id
        module, name = place
        if not _ours(module):
            self.external[node.id] = f"{module}.{name}"
        elif _is_settings_class(place):
            self.classes.add(place)
        elif name:
            self.reached.add(place)
            self.reached.add((module, ""))
        return node.id

    def _Attribute(self, node: ast.Attribute) -> str:
        self.attributes.add(node.attr)
        if isinstance(node.value, ast.Name):
            module, name = _origin(self._module, node.value.id) or ("", "")
            if module and _ours(module) and not name:  # module.definition
                self.reached.add((module, node.attr))
                return f"module.{node.attr}"
        return f"{self.text(node.value)}.{node.attr}"


def _loaded(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Names that are read, other than in messages."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Raise):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        waiting += [node.test] if isinstance(node, ast.Assert) else ast.iter_child_nodes(node)


def _is_text(value: ast.expr) -> bool:
    match value:
        case ast.Constant(value=str()) | ast.JoinedStr():
            return True
        case ast.IfExp(body=body, orelse=orelse):
            return _is_text(body) and _is_text(orelse)
        case _:
            return False


def _origin(module: _Module, name: str) -> Place | None:
    """Where a name used in a module is defined, through re-exports; None for local and built-in names."""
    if name in module.definitions:
        return module.name, name
    if (place := module.imports.get(name)) is None:
        return None
    source, inner = place
    if not inner or not _ours(source) or not _exists(source):
        return place
    return _origin(_module(source), inner) or place


def _is_settings_class(place: Place) -> bool:
    module, name = place
    if not module.startswith(SETTINGS):
        return False
    statements = _module(module).definitions.get(name, ())
    return any(isinstance(statement, ast.ClassDef) for statement in statements)


def _ours(module: str) -> bool:
    return module == "bnn_atlas" or module.startswith("bnn_atlas.")


def _within(name: str, packages: tuple[str, ...]) -> bool:
    return f"{name}.".startswith(_as_prefixes(packages))


@cache
def _as_prefixes(packages: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{package}." for package in packages)


@cache
def _imported(name: str) -> frozenset[str]:
    """Modules of this package that a module imports, and the packages that contain the module and its imports."""
    names = set()
    for package, what, module in IMPORT.findall(_source(name).decode()):
        inner = {f"{package}.{one.split()[0]}" for one in what.strip("()").split(",") if one.strip()}
        names |= ({one for one in inner if _exists(one)} or {package}) if package else {module}
    parents = {one.rpartition(".")[0] for one in {name, *names} if one.count(".") > 1}
    return frozenset((names | parents) - {"bnn_atlas"})


@cache
def _path(name: str) -> str | None:
    """Path below the package of a module's source; None if there is no such module."""
    place = "/".join(name.split(".")[1:])
    paths = (f"{place}/__init__.py".lstrip("/"), f"{place}.py")
    return next((path for path in paths if path in read_sources()), None)


def _exists(name: str) -> bool:
    return _path(name) is not None


def _file(name: str) -> Path:
    """File of a module of this package."""
    if (path := _path(name)) is None:
        raise ModuleNotFoundError(f"{name}: there is no such module in {PACKAGE}", name=name)
    return PACKAGE / path


def _source(name: str) -> bytes:
    return read_sources()[_file(name).relative_to(PACKAGE).as_posix()]


def forget() -> None:
    """Forget the sources that were read, after they or PACKAGE have changed."""
    for known in (_digest, _kept, state, read_sources, _module, _imported, _path):
        known.cache_clear()
    _READINGS.clear()
