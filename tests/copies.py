"""Copies of the repository to run commands in, without what a user has added to it."""

import re
import shutil
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).parents[1]
PUBLISHED = ("sampling_perspective", "hmc_posteriors", "permutation_symmetry", "implicit_vi")
"""The studies of the project; others in config/ are a user's own."""


def copy_repository(destination: Path) -> Path:
    """Copy every file of the repository except what git ignores and a user's own studies and data."""
    ignored = (REPOSITORY / ".gitignore").read_text(encoding="utf-8").split()
    patterns = shutil.ignore_patterns(".git", *(pattern.strip("/") for pattern in ignored))
    shutil.copytree(REPOSITORY, destination, ignore=patterns, dirs_exist_ok=True)
    _remove_own(destination / "config")
    return destination


def copy_config(destination: Path) -> Path:
    """Copy config/ except a user's own studies and data."""
    shutil.copytree(REPOSITORY / "config", destination)
    _remove_own(destination)
    return destination


def published_datasets() -> dict[str, Any]:
    """The entries of config/datasets.yaml except a user's own, as they are written."""
    entries = yaml.safe_load((REPOSITORY / "config" / "datasets.yaml").read_text(encoding="utf-8"))
    return {name: entry for name, entry in entries.items() if not _is_own(entry)}


def _remove_own(config: Path) -> None:
    for folder in ("studies", "claims"):
        for file in (config / folder).glob("*.yaml"):
            if file.stem not in PUBLISHED:
                file.unlink()
    registry = config / "datasets.yaml"
    if yaml.safe_load(registry.read_text(encoding="utf-8")) != (published := published_datasets()):
        registry.write_text(yaml.safe_dump(published, sort_keys=False), encoding="utf-8")
    settings = config / "config.yaml"
    chosen = f"studies: [{', '.join(PUBLISHED)}]"
    text = re.sub(r"^studies:.*$", chosen, settings.read_text(encoding="utf-8"), flags=re.MULTILINE)
    settings.write_text(text, encoding="utf-8")


def _is_own(entry: dict[str, Any]) -> bool:
    """Whether a data set is on this machine instead of at a publisher's."""
    return "path" in entry or any("path" in file for file in entry.get("files", ()))
