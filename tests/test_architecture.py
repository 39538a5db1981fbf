"""docs/architecture.md names the rooms that there are, and imports between them point the way it says."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "bnn_atlas"
PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"
ROOMS = sorted(file.stem for file in PACKAGE.iterdir() if file.suffix == ".py" and file.stem != "__init__") + sorted(
    folder.parent.name for folder in PACKAGE.glob("*/__init__.py")
)


def floors() -> list[list[str]]:
    """The rooms of each line of the page's list, the highest first."""
    block = re.search(r"^## Rooms\n.*?```\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert block
    return [line.split() for line in block[1].splitlines()]


def described() -> set[str]:
    """Packages in the page's table of rooms."""
    section = PAGE.read_text(encoding="utf-8").split("## Rooms")[1].split("\n## ")[0]
    return set(re.findall(r"^\| `([\w/]+)` \|", section, re.MULTILINE))


def imported(tree: ast.AST) -> Iterator[str]:
    """Modules of this package that some code imports when it runs, also within functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        yield from imported(node)


@cache
def imports() -> dict[str, set[str]]:
    """Room -> other rooms that it imports."""
    edges: dict[str, set[str]] = {}
    for room in ROOMS:
        files = (PACKAGE / room).rglob("*.py") if (PACKAGE / room).is_dir() else [PACKAGE / f"{room}.py"]
        names = [name for file in files for name in imported(ast.parse(file.read_text(encoding="utf-8")))]
        inside = {name.split(".")[1] for name in names if name.startswith("bnn_atlas.")}
        edges[room] = inside & set(ROOMS) - {room}
    return edges


def test_the_page_is_short_and_lists_every_room_once() -> None:
    assert len(PAGE.read_text(encoding="utf-8").splitlines()) < 150
    assert sorted(room for floor in floors() for room in floor) == sorted(ROOMS)


def test_the_page_describes_every_package_and_no_other() -> None:
    packages = {folder.parent.name for folder in PACKAGE.glob("*/__init__.py")}
    assert packages <= described()
    assert all((PACKAGE / room / "__init__.py").is_file() for room in described())


def test_every_path_on_the_page_exists() -> None:
    files = re.findall(r"`((?:[\w.]+/)+[\w.]+\.(?:py|smk|md|yaml))`", PAGE.read_text(encoding="utf-8"))
    assert len(files) > 15
    missing = [file for file in files if not any((root / file).exists() for root in (PACKAGE, PACKAGE.parents[1]))]
    assert missing == []


def test_imports_between_modules_form_no_circle() -> None:
    """Within rooms, too, and counting imports within functions."""
    root = PACKAGE.parent
    modules = {
        ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): file
        for file in PACKAGE.rglob("*.py")
    }
    edges: dict[str, set[str]] = {}
    for module, file in modules.items():
        names = set(imported(ast.parse(file.read_text(encoding="utf-8"))))
        # A name that is no module is something in the module before its last dot.
        edges[module] = {name if name in modules else name.rpartition(".")[0] for name in names} & set(modules) - {
            module
        }
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        pytest.fail(f"these modules import each other: {' <- '.join(error.args[1])}")


def test_imports_between_rooms_form_no_circle() -> None:
    assert len(list(TopologicalSorter(imports()).static_order())) == len(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_imports_point_down_the_page(room: str) -> None:
    depth = {name: number for number, floor in enumerate(floors()) for name in floor}
    assert [other for other in sorted(imports()[room]) if depth[other] <= depth[room]] == []


def test_config_imports_nothing_but_modules_that_import_nothing() -> None:
    assert all(imports()[room] == set() and (PACKAGE / f"{room}.py").is_file() for room in imports()["config"])
