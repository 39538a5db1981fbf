"""Settings of every test process: four XLA devices on the CPU, and the same examples in every run."""

from pathlib import Path

import pytest
from hypothesis import settings

from bnn_atlas.runtime import configure

configure(threads=4)
settings.register_profile("atlas", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("atlas")

LONGEST = ("slurm/", "workflow/", "runner/", "methods/", "steps/", "posterior/", "native/")
"""Beginnings of the paths of long files, relative to this folder."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put long files first, so that the last minutes are not one worker's."""
    here = Path(__file__).parent

    def place(item: pytest.Item) -> int:
        path = item.path.relative_to(here).as_posix()
        return next((number for number, start in enumerate(LONGEST) if path.startswith(start)), len(LONGEST))

    items.sort(key=place)
