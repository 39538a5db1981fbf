"""The runner: any sampler, in segments, with its trace written while the next segment computes.

A block of chains is sampled into `<trace>.partial`, which holds the growing trace and the last checkpoints; the
finished trace is renamed to its place, so what is there is complete. A run that was stopped at any moment, by a signal
or without one, goes on from the last segment that was written whole and gives the same bits.
"""

import fcntl
import json
import logging
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp

from bnn_atlas.files import atomic
from bnn_atlas.keys import Role, role_key, step_key
from bnn_atlas.placement import EVERYWHERE, Mapped, Placement
from bnn_atlas.posterior.density import Posterior, PosteriorData, binder, data_specs
from bnn_atlas.samplers.base import Phase, Sampler, Settle, State, Step
from bnn_atlas.samplers.checkpoint import CheckpointStore, Progress
from bnn_atlas.samplers.progress import ProgressReport
from bnn_atlas.samplers.stopping import StoppingRule
from bnn_atlas.traces.header import amend
from bnn_atlas.traces.shorten import shorten
from bnn_atlas.traces.store import TraceWriter, open_trace

log = logging.getLogger(__name__)


class Interrupted(SystemExit):
    """Sampling stopped on SIGTERM or SIGINT after its last checkpoint; the process ends with the signal's exit code."""


class StartError(ValueError):
    """A chain cannot start: its density is not finite there."""


class Block(NamedTuple):
    """Chains that one job runs: who they are, where they start and where their trace goes."""

    starts: np.ndarray
    """Positions [chain, P]."""
    chain_ids: np.ndarray
    """Number of each chain within its run."""
    seed: int
    destination: Path
    fingerprint: str
    """Hash of everything the draws depend on; a partial trace with another one is not continued."""
    attributes: Mapping[str, Any]
    """Goes into the attributes of the trace."""


def run_block(
    sampler: Sampler,
    posterior: Posterior,
    data: PosteriorData,
    block: Block,
    checkpoint_every: int,
    stopping: StoppingRule | None = None,
) -> None:
    """Sample a block of chains into `block.destination`, continuing what an earlier attempt has left.

    A second process for the same block waits until the first ends. On SIGTERM or SIGINT the segment that is being
    computed is finished and written first. Where a stopping rule ends the block, the trace has the draws up to there,
    whatever segments and attempts they were made in; its attribute `stopping` is the rule's report.

    Args:
        sampler: the method.
        posterior: the target.
        data: what the target is conditioned on.
        block: chains, starts and destination.
        checkpoint_every: steps per segment.
        stopping: a new rule that may end the last phase early; None takes all draws.

    Raises:
        StartError: a chain starts where the density is not finite.
        CheckpointError: no checkpoint of the earlier attempt can be read.
        OSError: the trace cannot be written; everything complete is kept.
        Interrupted: a signal asked to stop.
    """
    with _alone(block.destination):
        if block.destination.exists():
            if open_trace(block.destination).attributes.get("fingerprint") == block.fingerprint:
                log.info("%s is complete already", block.destination)
                shutil.rmtree(_work_path(block), ignore_errors=True)
                return
            log.info("%s was made with other settings, data or code: sampling it again", block.destination)
            shutil.rmtree(block.destination)
        work = _work_folder(block)
        with _stop_signal() as stop:
            trace = _Run(sampler, posterior, data, block, checkpoint_every, work, stopping).run(stop)
        (work / "timing.json").replace(block.destination.with_name("timing.json"))
        trace.replace(block.destination)
        shutil.rmtree(work)


class _Span(NamedTuple):
    """So many units of a phase from step `begin` on, each of `unit` steps."""

    seed: Array | np.int32
    phase: Array | np.int32
    begin: Array | np.int32
    units: Array | np.int32
    unit: Array | np.int32


class _Run:
    """One attempt at a block."""

    def __init__(
        self,
        sampler: Sampler,
        posterior: Posterior,
        data: PosteriorData,
        block: Block,
        checkpoint_every: int,
        work: Path,
        stopping: StoppingRule | None,
    ) -> None:
        self.sampler, self.posterior, self.block, self.work = sampler, posterior, block, work
        self.checkpoint_every, self.stopping = checkpoint_every, stopping
        self.checkpoints = CheckpointStore(work)
        self.place = Placement(len(block.chain_ids), shards=posterior.shards)
        self._specs = data_specs(data)
        self.data = self.place.share(data, self._specs)
        self.chain_ids = self.place.put(np.asarray(block.chain_ids, np.int32))
        self._bind = binder(posterior)
        self._compiled: dict[Any, Mapped] = {}
        self.seconds = [0.0] * len(sampler.phases)

    def run(self, stop: "Stop") -> Path:
        """Go from the last checkpoint (or the start) to the end of the last phase, and give the trace's path."""
        states, progress = self._begin()
        report = ProgressReport(
            sum(phase.draws * phase.thinning for phase in self.sampler.phases),
            self._steps_before(progress),
            self.place.chains,
            self.sampler.gradients_per_step,
        )
        try:
            for number in range(progress.phase, len(self.sampler.phases)):
                done = progress.done if number == progress.phase else 0
                states = self._phase(number, done, states, stop, report)
        finally:
            report.close()
        self._write_timing()
        return self._trace()

    def _begin(self) -> tuple[State, Progress]:
        """States on the devices and where they stand."""

        def start(shared: tuple[PosteriorData, np.int32], chained: tuple[Array, Array]) -> State:
            (data, seed), (chain, position) = shared, chained
            return self.sampler.init(role_key(seed, Role.START, chain), position, self._bind(data))

        initialise = self.place.map(start, (self._specs, EVERYWHERE))
        shared = self.data, np.int32(self.block.seed)
        starts = jnp.asarray(self.block.starts, self.data.prior.loc.dtype)
        chained = (self.chain_ids, self.place.put(starts))
        shapes = jax.eval_shape(initialise, shared, chained)
        like = jax.tree.map(lambda s: jax.ShapeDtypeStruct((self.place.chains, *s.shape[1:]), s.dtype), shapes)
        if found := self.checkpoints.load(like):
            progress, states = found
            self.seconds = list(progress.seconds)
            log.info("going on from %s of phase '%s'", f"{progress.done:,}", self.sampler.phases[progress.phase].name)
            return self.place.put(states), progress
        with ThreadPoolExecutor(1, thread_name_prefix="compiler") as compiler:
            compiling = compiler.submit(self._compile, 0, 0, self.place.shapes(shapes))
            states = initialise(shared, chained)
            compiling.result()
        density = self.place.get(self.sampler.density(states))
        for chain, likelihood, prior in zip(self.block.chain_ids, *density, strict=True):
            if not np.isfinite(likelihood + prior):
                raise StartError(
                    f"chain {chain} cannot start: its log-likelihood is {likelihood} and its log-prior {prior} at the "
                    "warm start; lower warmstart.learning_rate, or check the data for extreme values"
                )
        return states, Progress(0, 0)

    def _phase(self, number: int, done: int, states: State, stop: "Stop", report: ProgressReport) -> State:
        """Run one phase from `done` units on; a unit is `thinning` steps."""
        phase = self.sampler.phases[number]
        size = self._rows(phase)
        sink = self._sink(number, size) if phase.keep else None
        clock = _Clock(self.seconds[number])
        segment = self._segments(phase)
        rule = self.stopping if number == len(self.sampler.phases) - 1 else None
        if rule and self._replay(rule, done, size) is not None:
            done = phase.draws

        def write(begin: int, count: int, results: tuple[State, Array, dict[str, Array]]) -> None:
            after = self.place.get(results[0])
            self.seconds[number] = clock.read()
            if sink:
                kept = self.place.get(jax.tree.map(lambda leaf: leaf[:, :count], results[1:]))
                sink(begin // size, *kept)
                if rule:
                    with self._precision():
                        rule.update(kept[0])
            self._save(number, begin + count, after)
            # Both checkpoints are in this phase or at its start, so nothing needs the draws of the one before it.
            shutil.rmtree(self._scratch(number - 1), ignore_errors=True)
            report.advance(phase.name, count * phase.thinning)

        with ThreadPoolExecutor(1, thread_name_prefix="trace-writer") as writer:
            pending: Future[None] | None = None
            for begin in range(done, phase.draws, size):
                if begin == done:
                    self._compile(number, begin, states)
                    clock.start()
                count = min(size, phase.draws - begin)
                results = segment(*self._arguments(number, begin, states))
                states = results[0]
                if pending:
                    pending.result()
                if rule and rule.end is not None:
                    break  # before the segment that was computed meanwhile
                pending = writer.submit(write, begin, count, results)
                if stop.requested:
                    break
            if pending:
                pending.result()
        if stop.requested:
            log.info("stopped by %s; the next attempt goes on from here", signal.Signals(stop.requested).name)
            raise Interrupted(128 + stop.requested)
        return self._finish(number, states) if number < len(self.sampler.phases) - 1 else states

    def _arguments(self, number: int, begin: int, states: State) -> tuple[Any, Any]:
        """What the segment of a phase that begins after `begin` units takes."""
        phase = self.sampler.phases[number]
        count = min(self._rows(phase), phase.draws - begin)
        units, unit = (count, phase.thinning) if phase.keep or phase.settle else (1, count * phase.thinning)
        span = _Span(*map(np.int32, (self.block.seed, number, begin * phase.thinning, units, unit)))
        return (self.data, span, phase.settings), (self.chain_ids, states)

    def _compile(self, number: int, begin: int, states: State) -> None:
        """Compile the segment of a phase, where that is not done."""
        with self._precision():
            self._segments(self.sampler.phases[number]).compile(*self._arguments(number, begin, states))

    def _precision(self) -> AbstractContextManager[None]:
        """The precision of the run, which a thread does not inherit."""
        return jax.enable_x64(self.data.prior.loc.dtype == np.float64)

    def _replay(self, rule: StoppingRule, done: int, size: int) -> int | None:
        """Show a rule the draws of earlier attempts; where the block ends, if it does among them."""
        if done:
            trace = open_trace(self.work / "trace.zarr", incomplete=True)
            for begin in range(0, done, size):
                rule.update(trace.read(draws=slice(begin, min(begin + size, done))))
        return rule.end

    def _trace(self) -> Path:
        """The finished trace, up to the draw at which the stopping rule ended it."""
        trace, rule, planned = self.work / "trace.zarr", self.stopping, self.sampler.phases[-1].draws
        if rule is None:
            return trace
        attributes = {"stopping": rule.report(planned)}
        if rule.end is None or rule.end == planned:
            missing = list(rule.crossed.values()).count(None)
            log.info("%d chains did not reach an E-value of %g: all draws were taken", missing, 1 / rule.alpha)
            amend(trace, attributes)
            return trace
        log.info("stopped after %d of %d draws: every E-value has reached %g", rule.end, planned, 1 / rule.alpha)
        shorten(trace, self.work / "stopped.zarr", rule.end, attributes)
        return self.work / "stopped.zarr"

    def _write_timing(self) -> None:
        """What each phase took, for effective sample sizes per second.

        A phase that a rule ended has the steps of the trace, and the seconds until the segment with its last draw was
        written; `planned` are the steps that it would have had.
        """
        device = jax.devices()[0]
        phases: list[dict[str, Any]] = [
            {"name": phase.name, "steps": phase.steps, "seconds": round(seconds, 3)}
            for phase, seconds in zip(self.sampler.phases, self.seconds, strict=True)
        ]
        if self.stopping and self.stopping.end is not None:
            last = self.sampler.phases[-1]
            phases[-1] |= {"steps": self.stopping.end * last.thinning, "planned": last.steps}
        timing = {
            "phases": phases,
            "device": f"{device.platform} {device.device_kind}",
            "devices": self.place.devices,
            "chains": self.place.chains,
            "gradients_per_step": self.sampler.gradients_per_step,
        }
        with atomic(self.work / "timing.json") as temporary:
            temporary.write_text(json.dumps(timing, indent=2) + "\n", encoding="utf-8")

    def _segments(self, phase: Phase) -> Mapped:
        """Segment of a phase, one for all phases with the same functions, kind of settings and scalars to keep."""
        kind = str(jax.eval_shape(lambda settings: settings, phase.settings))
        key = (phase.step, phase.settle, kind, None if phase.select is None else phase.select.tobytes())
        if key not in self._compiled:
            self._compiled[key] = self.place.map(
                partial(self._segment, phase.step, phase.settle, phase.select), (self._specs, EVERYWHERE, EVERYWHERE)
            )
        return self._compiled[key]

    def _segment(
        self,
        step: Step,
        settle: Settle | None,
        select: np.ndarray | None,
        shared: tuple[PosteriorData, "_Span", Any],
        chained: tuple[Array, State],
    ) -> tuple[State, Array, dict[str, Array]]:
        """Some units of one chain: the state after them, their last states [rows, scalar] and statistics [rows]."""
        (data, span, settings), (chain, state) = shared, chained
        statistics = self.sampler.statistics
        target = self._bind(data)
        key = role_key(span.seed, Role.SAMPLE, chain)
        dtype = data.prior.loc.dtype
        kinds = self._statistics(dtype)

        def one_step(index: Array, carry: tuple[State, dict[str, Array]]) -> tuple[State, dict[str, Array]]:
            state, totals = carry
            state, values = step(step_key(key, span.phase, index), index, state, target, settings)
            for name, total in totals.items():
                value = values[name].astype(total.dtype)
                totals = {**totals, name: value if statistics[name].reduction == "last" else total + value}
            return state, totals

        def one_unit(row: Array, carry: tuple[State, Array, dict[str, Array]]) -> tuple[State, Array, dict[str, Array]]:
            state, draws, kept = carry
            first = span.begin + row * span.unit
            totals = {name: jnp.zeros((), kinds[name]) for name in statistics}
            state, totals = jax.lax.fori_loop(first, first + span.unit, one_step, (state, totals))
            if settle is not None:
                state, values = settle(state, target)
                totals |= {name: totals[name] + value.astype(totals[name].dtype) for name, value in values.items()}
            position, density = self.sampler.position(state), self.sampler.density(state)
            draws = draws.at[row].set(position if select is None else position[select])
            values = {n: t / span.unit if statistics[n].reduction == "mean" else t for n, t in totals.items()}
            kept = {n: kept[n].at[row].set(v) for n, v in (values | density._asdict()).items()}
            return state, draws, kept

        # A phase that keeps nothing may have more units than rows; what it writes is dropped or never read.
        rows = max(self._rows(phase) for phase in self.sampler.phases if phase.keep)
        width = len(self.block.starts[0]) if select is None else len(select)
        buffers = {name: jnp.zeros((rows,), kind) for name, kind in kinds.items()}
        return jax.lax.fori_loop(0, span.units, one_unit, (state, jnp.zeros((rows, width), dtype), buffers))

    def _sink(self, number: int, size: int) -> Callable[[int, np.ndarray, dict[str, np.ndarray]], None]:
        """Where the draws of a phase go: the trace for the last phase, scratch files for the others."""
        phase = self.sampler.phases[number]
        if number < len(self.sampler.phases) - 1:

            def keep(segment: int, draws: np.ndarray, statistics: dict[str, np.ndarray]) -> None:
                with atomic(self._scratch(number) / f"{segment:06d}.npy") as temporary, temporary.open("wb") as handle:
                    np.save(handle, draws)

            return keep
        path = self.work / "trace.zarr"
        if path.exists():
            return TraceWriter.open(path).write
        dtype = self.data.prior.loc.dtype
        return TraceWriter.create(
            path,
            chains=self.place.chains,
            draws=phase.draws,
            layout=self.posterior.layout,
            dtype=str(dtype),
            statistics=self._statistics(dtype),
            segment=size,
            chain_ids=self.block.chain_ids,
            attributes={**self.block.attributes, "fingerprint": self.block.fingerprint},
        ).write

    def _finish(self, number: int, states: State) -> State:
        """Apply the phase's host-side ending to every chain, from its kept draws where there are any."""
        phase = self.sampler.phases[number]
        if phase.finish is not None:
            segments = range(-(-phase.draws // self._rows(phase))) if phase.keep else ()
            parts = [np.load(self._scratch(number) / f"{segment:06d}.npy", mmap_mode="r") for segment in segments]
            finish = partial(self._finish_chain, phase.finish, self.place.get(states), parts)
            with ThreadPoolExecutor(self.place.devices) as pool:
                ended = list(pool.map(finish, range(self.place.chains)))
            states = self.place.put(jax.tree.map(lambda *leaves: np.stack(leaves), *ended))
        self._save(number + 1, 0, self.place.get(states))
        return states

    def _save(self, phase: int, done: int, states: State) -> None:
        self.checkpoints.save(Progress(phase, done, tuple(self.seconds)), states)

    def _rows(self, phase: Phase) -> int:
        """Units per segment of a phase."""
        return min(phase.draws, max(1, self.checkpoint_every // phase.thinning))

    def _scratch(self, number: int) -> Path:
        return self.work / f"scratch{number}"

    @staticmethod
    def _finish_chain(
        finish: Callable[[State, np.ndarray | None], State], states: State, parts: list[np.ndarray], chain: int
    ) -> State:
        draws = np.concatenate([part[chain] for part in parts]) if parts else None
        return finish(jax.tree.map(lambda leaf: leaf[chain], states), draws)

    def _statistics(self, dtype: Any) -> dict[str, str]:
        """Names and types of what is stored with every draw."""
        kinds = {name: s.dtype if s.dtype != "float32" else str(dtype) for name, s in self.sampler.statistics.items()}
        return {"log_likelihood": str(dtype), "log_prior": str(dtype), **kinds}

    def _steps_before(self, progress: Progress) -> int:
        phases = self.sampler.phases
        before = sum(phase.draws * phase.thinning for phase in phases[: progress.phase])
        return before + progress.done * phases[progress.phase].thinning


class _Clock:
    """Seconds since its start, added to those before it."""

    def __init__(self, before: float) -> None:
        self._before = before
        self._begun = 0.0

    def start(self) -> None:
        self._begun = time.monotonic()

    def read(self) -> float:
        return self._before + time.monotonic() - self._begun


class Stop:
    """Number of the signal that asked to stop, or 0."""

    requested = 0


@contextmanager
def _stop_signal() -> Iterator[Stop]:
    """Note SIGTERM and SIGINT instead of dying; a second SIGINT acts at once. Only the main thread can listen."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def note(number: int, frame: FrameType | None) -> None:
        stop.requested = number
        if number == signal.SIGINT:
            signal.signal(number, before[number])
        log.info("%s: finishing the segment that is being computed", signal.Signals(number).name)

    before = {int(number): signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _alone(destination: Path) -> Iterator[None]:
    """Hold the lock of a block; wait while another process (such as an orphaned cluster job) holds it."""
    destination.parent.mkdir(parents=True, exist_ok=True)
    with destination.with_name(f".{destination.name}.lock").open("w") as handle:
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log.info("another process is sampling %s; waiting for it to end", destination)
            fcntl.lockf(handle, fcntl.LOCK_EX)
        yield


def _work_path(block: Block) -> Path:
    return block.destination.with_name(f"{block.destination.name}.partial")


def _work_folder(block: Block) -> Path:
    """`<trace>.partial`; emptied if what is in it was made from something else."""
    folder = _work_path(block)
    label = folder / "fingerprint.json"
    if folder.exists():
        if label.exists() and json.loads(label.read_text(encoding="utf-8")) == block.fingerprint:
            return folder
        log.info("%s was begun with other settings or data: starting afresh", folder)
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    with atomic(label) as temporary:
        temporary.write_text(json.dumps(block.fingerprint), encoding="utf-8")
    return folder
