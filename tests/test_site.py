"""docs/ as a site, and its notebooks."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.copies import REPOSITORY

NOTEBOOKS = REPOSITORY / "docs" / "notebooks"


def execute(notebook: str, folder: Path, old: str = "", new: str = "") -> None:
    """Run a copy of a notebook in docs/notebooks of a folder, with one text in place of another."""
    copy = folder / "docs" / "notebooks" / notebook
    copy.parent.mkdir(parents=True, exist_ok=True)
    text = (NOTEBOOKS / notebook).read_text(encoding="utf-8")
    assert old in text
    copy.write_text(text.replace(old, new), encoding="utf-8")
    command = [Path(sys.executable).with_name("jupyter-execute"), copy]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


@pytest.mark.slow
def test_all_links_of_the_site_lead_somewhere_and_nothing_is_loaded_from_elsewhere(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-qW",
        "--keep-going",
        "-d",
        tmp_path / "trees",
        "docs",
        tmp_path / "site",
    ]
    run = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 50
    for page in pages:
        loaded = r'<(?:script|img)[^>]+src="(\w+:[^"]+)"|<link[^>]+href="(\w+:[^"]+)"'
        assert re.findall(loaded, page.read_text(encoding="utf-8")) == [], page


@pytest.mark.slow
@pytest.mark.parametrize("notebook", ["own_data.ipynb", "align_draws.ipynb"])
def test_notebooks_run(notebook: str, tmp_path: Path) -> None:
    """The third one needs results: tests/pipeline/test_tutorial.py."""
    execute(notebook, tmp_path)


def test_notebooks_are_without_outputs() -> None:
    notebooks = [json.loads(file.read_text(encoding="utf-8")) for file in NOTEBOOKS.glob("*.ipynb")]
    assert len(notebooks) == 3
    cells = [cell for notebook in notebooks for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)
