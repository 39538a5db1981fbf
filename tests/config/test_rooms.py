"""The rooms of `bnn_atlas.config` stand on each other in one order."""

import ast
from pathlib import Path

import bnn_atlas.config

PACKAGE = Path(bnn_atlas.config.__file__).parent
ORDER = ("metrics", "language", "data", "methods", "parts", "runs", "checks", "claims", "settings", "pages")
"""Each imports only rooms before it."""


def test_rooms_import_only_rooms_before_them() -> None:
    up = []
    for file in PACKAGE.rglob("*.py"):
        room = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("bnn_atlas.config."):
                other = str(node.module).split(".")[2]
                if other != room and ORDER.index(other) >= ORDER.index(room):
                    up.append(f"{file.relative_to(PACKAGE)} imports {other}")
    assert up == []
