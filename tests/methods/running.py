"""Running blocks of chains in tests, and interrupting them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bnn_atlas.methods.contract import Method
from bnn_atlas.runner import program, segments
from bnn_atlas.runner.checkpoint import CheckpointStore, Progress
from bnn_atlas.runner.segments import FitProgram
from bnn_atlas.traces.store import Trace, open_trace

from .problems import Problem


def run(
    sampler: Method,
    problem: Problem,
    destination: Path,
    *,
    chain_ids: np.ndarray | None = None,
    seed: int = 3,
    checkpoint_every: int = 100,
    fingerprint: str = "test",
) -> Trace:
    """Sample the chains with the given numbers (all of the problem's starts by default) and open their trace."""
    ids = np.arange(len(problem.starts)) if chain_ids is None else chain_ids
    block = segments.Block(problem.starts[ids], ids, seed, destination, fingerprint, {})
    segments.run_block(sampler, problem.posterior, problem.data, block, checkpoint_every)
    return open_trace(destination)


@contextmanager
def shared_programs() -> Iterator[None]:
    """Runs of one method on one problem with as many chains, in segments as long, share what they have compiled.

    Tracing and compiling a program takes seconds, and attempts at a block often less than a tenth.
    """
    made: dict[Any, Any] = {}

    def shared(method, posterior, data, chain_ids, seed, every):
        new = FitProgram(method, posterior, data, chain_ids, seed, every)
        objects = method, posterior, data, program.Placement
        _, first = made.setdefault((*map(id, objects), len(chain_ids), every), (objects, new))
        new._segments, new._start = first._segments, first._start
        return new

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "FitProgram", shared)
        yield


@contextmanager
def dying(
    monkeypatch: pytest.MonkeyPatch, dies: Callable[[Progress, int], bool], *, unsaved: bool = False
) -> Iterator[list[Progress]]:
    """Let the process die at the checkpoints for which `dies(progress, number from 1 on)` holds; lists all checkpoints.

    It dies after a checkpoint is saved or, with `unsaved`, before.
    """
    save, seen = CheckpointStore.save, []

    def save_or_die(self, progress, state):
        seen.append(progress)
        dead = dies(progress, len(seen))
        if not (dead and unsaved):
            save(self, progress, state)
        if dead:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(CheckpointStore, "save", save_or_die)
        yield seen


def run_to_the_end(sampler: Method, problem: Problem, destination: Path, **settings) -> Trace:
    """`run` again and again until nothing interrupts it."""
    while not destination.exists():
        with suppress(KeyboardInterrupt):
            run(sampler, problem, destination, **settings)
    return open_trace(destination)


def assert_same(left: Trace, right: Trace) -> None:
    """Draws and every statistic are equal bit for bit."""
    np.testing.assert_array_equal(left.read(), right.read())
    assert set(left.statistics) == set(right.statistics)
    for name in left.statistics:
        np.testing.assert_array_equal(left.statistic(name), right.statistic(name))
