"""Settings of every test process: four XLA devices on the CPU, quick compilation, the same examples in every run."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from jax import clear_caches
from jax._src import compiler

import bnn_atlas.compilation  # noqa: F401  whole entries in JAX's cache, which all processes read
from bnn_atlas.pipeline import forks
from bnn_atlas.runtime import configure

LONGEST = (
    "slurm/",
    "pipeline/test_workflow",
    "pipeline/test_reruns",
    "test_user_networks",
    "test_gpu",
    "test_benchmarks",
    "pipeline/",
    "runner/",
    "methods/",
    "posterior/",
    "native/",
)
"""Beginnings of the paths of long files, relative to this folder."""
QUICKLY = {name: json.loads(value) for flag in forks.QUICKLY for name, value in [flag.strip("-").split("=")]}
"""The demo's flags as options of one program, since those of a process cannot be changed."""

configure(threads=4)
settings.register_profile("atlas", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("atlas")
_options = compiler.get_compile_options


def _quick_options(*arguments: Any, env_options_overrides: dict[str, Any] | None = None, **named: Any) -> Any:
    return _options(*arguments, env_options_overrides={**QUICKLY, **(env_options_overrides or {})}, **named)


compiler.get_compile_options = _quick_options


@pytest.fixture(scope="module", autouse=True)
def _programs_of_long_runs(request: pytest.FixtureRequest) -> Iterator[None]:
    """Compile modules with the mark `bits` as long runs are compiled."""
    if not request.node.get_closest_marker("bits"):
        yield
        return
    clear_caches()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "get_compile_options", _options)
        yield
    clear_caches()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put long files first, so that the last minutes are not one worker's."""
    here = Path(__file__).parent

    def place(item: pytest.Item) -> int:
        path = item.path.relative_to(here).as_posix()
        return next((number for number, start in enumerate(LONGEST) if path.startswith(start)), len(LONGEST))

    items.sort(key=place)
