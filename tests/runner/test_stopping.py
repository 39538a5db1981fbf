"""Blocks that end early: where, and that nothing but the draws decides it."""

import json
import logging
import subprocess
import sys
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bnn_atlas.methods.hmc import build_hmc
from bnn_atlas.runner import segments as runner
from bnn_atlas.runner.checkpoint import CheckpointStore
from bnn_atlas.runner.stopping import StoppingRule, crossings, log_e_values
from bnn_atlas.traces.store import open_trace

from ..methods.problems import linear
from ..methods.running import assert_same, run, shared_programs
from .stopping import CHAINS, HMC, PLANNED, STEPS, THINNING, distant, log_density, stopped

pytestmark = pytest.mark.bits

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def problem():
    return distant()


@pytest.fixture(scope="module", autouse=True)
def programs():
    with shared_programs():
        yield


@pytest.fixture(scope="module")
def stop(problem):
    """`stopped` of the problem with one method, so that runs share programs."""
    return partial(stopped, problem, method=build_hmc(HMC, problem.posterior, problem.data))


@pytest.fixture(scope="module")
def whole(problem, tmp_path_factory):
    """All draws that there are without a rule."""
    return run(
        build_hmc(HMC, problem.posterior, problem.data), problem, tmp_path_factory.mktemp("whole") / "trace.zarr"
    )


@pytest.fixture(scope="module")
def log_e(problem, whole):
    """Log E-values [c, s] along all draws."""
    return log_e_values(np.zeros(4), log_density(whole.read()), log_density(problem.starts))


@pytest.fixture(scope="module")
def alpha(log_e):
    """A level that every chain reaches, the last one in the middle of the run."""
    level = float(np.exp(-0.5 * log_e.max(axis=1).min()))
    found = crossings(log_e, level)
    assert found.all()
    assert len(set(found)) > 1
    assert 8 < found.max() < 20
    assert found.max() % 7, "within a segment"
    return level


def assert_first(trace, whole, draws, chains=CHAINS):
    """The trace has these chains' first draws and statistics, and no more."""
    np.testing.assert_array_equal(trace.read(), whole.read(chains, slice(draws)), strict=True)
    for name in whole.statistics:
        np.testing.assert_array_equal(trace.statistic(name), whole.statistic(name, chains, slice(draws)))


def test_updates_by_hand():
    """Ratios of 2 (chain 4) and of 4, 1/4, 4, 4 (chain 9) against the bound 8, reached at draw 3 and at draw 4."""
    draws = np.log([[2.0, 2, 2, 2, 2], [4, 1 / 4, 4, 4, 4]])[..., None]
    for parts in ([5], [1, 1, 1, 1, 1], [3, 2], [4, 1]):
        rule = StoppingRule(1 / 7.9, lambda theta: theta[..., 0], np.zeros((2, 1)), np.array([4, 9]))
        found = [rule.update(part) for part in np.split(draws, np.cumsum(parts)[:-1], axis=1)]
        assert found[-1] == rule.end == 4
        assert {e for e in found if e is not None} == {4}
        assert rule.report(5) == {
            "alpha": 1 / 7.9, "planned_draws": 5, "stopped": True, "crossed": {"4": 3, "9": 4}
        }  # fmt: skip
        assert rule.report(4)["stopped"] is False, "a block that ends where it would have ended is not stopped"


@pytest.mark.parametrize("value", [-np.inf, np.nan])
def test_one_lost_chain_keeps_its_block_going(value):
    draws = np.full((2, 20, 1), 3.0)
    draws[1, 0] = value
    rule = StoppingRule(0.01, lambda theta: theta[..., 0], np.zeros((2, 1)), np.arange(2))
    assert rule.update(draws) is None
    assert rule.report(20)["crossed"] == {"0": 2, "1": None}


def test_a_warm_start_without_density_is_said_once(caplog):
    starts = np.array([[0.0], [-np.inf]])
    rule = StoppingRule(0.01, lambda theta: theta[..., 0], starts, np.array([3, 8]))
    for _ in range(3):
        assert rule.update(np.full((2, 5, 1), 3.0)) is None
    assert [record.args for record in caplog.records] == [(8,)]
    assert "the warm start of chain 8" in caplog.text


@pytest.mark.parametrize("every", [2, 14, 1000])
def test_the_block_ends_at_the_draw_whatever_the_segments(
    stop, whole, log_e, alpha, tmp_path, every, caplog, monkeypatch
):
    crossed = crossings(log_e, alpha)
    end = int(crossed.max())
    written, write = [], runner.TraceWriter.write
    monkeypatch.setattr(
        runner.TraceWriter, "write", lambda self, segment, *rest: (written.append(segment), write(self, segment, *rest))
    )
    with caplog.at_level(logging.INFO):
        trace = stop(tmp_path / "trace.zarr", alpha, every=every)
    assert f"stopped after {end} of {PLANNED} draws" in caplog.text
    assert_first(trace, whole, end)
    assert trace.attributes == {
        "study": "s",
        "fingerprint": "test",
        "stopping": {
            "alpha": alpha,
            "planned_draws": PLANNED,
            "stopped": True,
            "crossed": {str(chain): int(draw) for chain, draw in enumerate(crossed)},
        },
    }
    assert written == list(range(-(-end // min(PLANNED, every // THINNING)))), "nothing after the last draw's segment"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".trace.zarr.record",
        "fit.npz",
        "timing.json",
        "trace.zarr",
    ]
    phases = json.loads((tmp_path / "timing.json").read_text())["phases"]
    assert (phases[-1]["steps"], phases[-1]["planned"]) == (end * THINNING, STEPS)
    assert "planned" not in phases[0]
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    stop(tmp_path / "trace.zarr", alpha, every=every)
    after = {path: path.stat().st_mtime_ns for path in before}
    assert {p for p in before if before[p] != after[p]} <= {tmp_path / ".trace.zarr.record"}, "it is complete"


def test_the_end_is_that_of_the_last_chain_of_the_block(stop, whole, log_e, alpha, tmp_path):
    crossed = crossings(log_e, alpha)
    chains = np.argsort(crossed)[[1, 0]]
    assert crossed[chains].max() < crossed.max()
    trace = stop(tmp_path / "trace.zarr", alpha, chains)
    assert_first(trace, whole, crossed[chains].max(), chains)


def test_a_bound_that_is_never_reached_leaves_all_draws(stop, whole, tmp_path, caplog):
    with caplog.at_level(logging.INFO):
        trace = stop(tmp_path / "trace.zarr", 1e-300)
    assert "4 chains did not reach 1e+300: all draws were taken" in caplog.text
    assert_same(trace, whole)
    assert trace.attributes["stopping"] == {
        "alpha": 1e-300, "planned_draws": PLANNED, "stopped": False, "crossed": dict.fromkeys("0123"),
    }  # fmt: skip
    phases = json.loads((tmp_path / "timing.json").read_text())["phases"]
    assert phases[-1] == {"name": phases[-1]["name"], "steps": STEPS, "seconds": phases[-1]["seconds"]}


def test_interruptions_anywhere_change_nothing(stop, whole, log_e, alpha, tmp_path, monkeypatch):
    """The process dies after each checkpoint, before each third one, and while the trace is cut and moved."""
    destination, saves, ends = tmp_path / "trace.zarr", 0, 0
    save, shorten = CheckpointStore.save, runner.shorten

    def save_once(self, progress, state):
        nonlocal saves
        saves += 1
        if saves % 3:
            save(self, progress, state)
            raise KeyboardInterrupt
        if saves % 2:
            raise KeyboardInterrupt
        save(self, progress, state)

    def die_twice(*arguments):
        nonlocal ends
        ends += 1
        if ends == 1:
            raise KeyboardInterrupt
        shorten(*arguments)
        if ends == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(CheckpointStore, "save", save_once)
    monkeypatch.setattr(runner, "shorten", die_twice)
    for _attempt in range(40):
        try:
            stop(destination, alpha)
        except KeyboardInterrupt:
            assert not destination.exists()
        else:
            break
    assert (saves >= 4, ends) == (True, 3)
    assert_first(open_trace(destination), whole, crossings(log_e, alpha).max())
    assert not destination.with_name("trace.zarr.partial").exists()


def test_seconds_are_those_of_all_attempts(stop, alpha, tmp_path, monkeypatch):
    """An attempt that only finds that the block has ended adds nothing."""
    with monkeypatch.context() as patch:
        patch.setattr(runner, "shorten", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            stop(tmp_path / "trace.zarr", alpha)
    partial = tmp_path / "trace.zarr.partial"
    before = json.loads((partial / "timing.json").read_text())
    stop(tmp_path / "trace.zarr", alpha)
    assert json.loads((tmp_path / "timing.json").read_text()) == before
    assert all(phase["seconds"] > 0 for phase in before["phases"])


def test_the_rule_computes_in_the_precision_of_the_run(tmp_path):
    """Also in the thread that writes."""
    seen = []

    def density(theta):
        seen.append(jnp.asarray(theta).dtype)
        return np.full(theta.shape[:-1], -1.0)

    with jax.enable_x64(True):
        double = linear(chains=2).problem
        data = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), double.data)
        starts = double.starts.astype(np.float64)
        stopped(double._replace(data=data, starts=starts), tmp_path / "trace.zarr", 0.01, np.arange(2), 80, density)
    assert {str(kind) for kind in seen} == {"float64"}


@pytest.mark.slow
def test_a_kill_changes_nothing(whole, log_e, alpha, tmp_path):
    """While draws are looked at; the next process has to look at some of them again."""
    destination = tmp_path / "trace.zarr"
    command = [sys.executable, "-m", "tests.runner.stopping", str(destination), repr(alpha)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        for _ in range(5):
            assert process.stdout.readline().startswith("looked at")
            print(file=process.stdin, flush=True)
        assert process.stdout.readline().startswith("looked at")
        process.kill()
    assert not destination.exists()
    assert list(tmp_path.glob("trace.zarr.partial/trace.zarr/draws/c.*"))
    subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, check=True)
    assert_first(open_trace(destination), whole, int(crossings(log_e, alpha).max()))
