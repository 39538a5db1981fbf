"""Copies of the repository to run commands in."""

import shutil
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]


def copy_repository(destination: Path) -> Path:
    """Copy every file of the repository except what git ignores, as in a fresh clone."""
    ignored = (REPOSITORY / ".gitignore").read_text(encoding="utf-8").split()
    patterns = shutil.ignore_patterns(".git", *(pattern.strip("/") for pattern in ignored))
    shutil.copytree(REPOSITORY, destination, ignore=patterns, dirs_exist_ok=True)
    return destination
