"""The runner: samples with any method in segments, and writes the trace while the next segment is computed.

A block of chains is sampled into `<trace>.partial`, which holds the growing trace and the last checkpoints. The
finished trace is then moved to its destination, so a trace at the destination is always complete. A run that was
stopped at any moment, by a signal or otherwise, continues from the last complete segment and produces bitwise the same
draws.
"""

import logging
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from bnn_atlas.config.methods.base import MethodSettings
from bnn_atlas.config.methods.gaussian import IVONConfig
from bnn_atlas.config.methods.implicit import ImplicitConfig
from bnn_atlas.files import refusals, save_arrays
from bnn_atlas.methods.contract import Method, Phase, State
from bnn_atlas.posterior.density import Posterior, PosteriorData
from bnn_atlas.records import held
from bnn_atlas.runner.checkpoint import RERUN, CheckpointStore, Progress, Scratch, work_folder, work_path
from bnn_atlas.runner.program import Program, Segment
from bnn_atlas.runner.signals import Stop, stop_signal
from bnn_atlas.runner.stopping import StoppingRule
from bnn_atlas.runner.timing import Clock, ProgressReport, write_timing
from bnn_atlas.traces.draws import NOTES
from bnn_atlas.traces.store import TraceWriter, open_trace, shorten
from bnn_atlas.traces.zarr_metadata import amend

log = logging.getLogger(__name__)

Sink = Callable[[int, np.ndarray, dict[str, np.ndarray]], None]
"""Takes (index of a segment, draws [chain, draw, scalar], statistics [chain, draw])."""


COURSES = (("elbo", "kl"), ("objective",))
"""Statistics of a fit that are recorded in its course, in `timing.json`, by kind of method: the bound and its part of
prior and entropy, which depends on q alone; or, for implicit distributions, what the fit maximises."""
POINTS = 100
"""Points of a course, evenly spread over the steps of the fit."""


class FitProgram(Program):
    """A program that divides each fit into at least `POINTS` segments, so that its course is known; no draw changes."""

    def is_fit(self, phase: Phase) -> bool:
        """Whether the phase maximises a bound, which takes several steps."""
        return not phase.keep and phase.steps > 1 and bool(self.followed)

    @property
    def followed(self) -> tuple[str, ...]:
        """Those statistics of `COURSES` that the method reports; none if it makes no fit."""
        return next((names for names in COURSES if set(names) <= set(self.method.statistics)), ())

    @property
    def starts(self) -> int:
        """Number of fits of each chain, of which one is kept (`methods.restarts`); 0 if there is only one."""
        return sum(name.startswith("elbo_of_start_") for name in self.method.statistics)

    @property
    def courses(self) -> list[str]:
        """The statistics that are followed; with several starts, those of each start, one start after another."""
        return [f"{name}_of_start_{j}" for j in range(self.starts) for name in self.followed] or list(self.followed)

    def units_per_segment(self, phase: Phase) -> int:
        """Number of units (draws, or steps if no draws are kept) in a full segment of a phase."""
        units = super().units_per_segment(phase)
        return min(units, -(-phase.draws // POINTS)) if self.is_fit(phase) else units


COMPANIONS = ("timing.json", "fit.npz")
"""Files next to a finished trace; they are moved to the destination before the trace."""


class StartError(ValueError):
    """Raised if a chain cannot start because the density is not finite at its start."""


class Block(NamedTuple):
    """Chains of one job: the indices and starts of the chains, and the destination of the trace."""

    starts: np.ndarray
    """Positions [chain, P]."""
    chain_ids: np.ndarray
    """Index of each chain within its run."""
    seed: int
    destination: Path
    fingerprint: str
    """Hash of everything that the draws depend on; a partial trace with a different fingerprint is not continued."""
    attributes: Mapping[str, Any]
    """Attributes for the trace."""
    courses: Mapping[str, np.ndarray] = {}
    """Quantities [chain, point] in the training of the starts, if the starts are the result."""


def run_block(
    method: Method,
    posterior: Posterior,
    data: PosteriorData,
    block: Block,
    checkpoint_every: int,
    stopping: StoppingRule | None = None,
) -> None:
    """Sample a block of chains into `block.destination`, continuing an earlier attempt if there was one.

    Two files are written next to the trace: `timing.json`, with the time of each phase and the course of a fit
    (`COURSES`), and `fit.npz`, with what the chains have learned in addition to their draws (`Method.fit`; possibly
    empty). A second process for the same block waits until the first ends. On SIGTERM or SIGINT the current segment is
    finished and written first. If a stopping rule ends the block, the trace has the draws up to that point, regardless
    of segments and attempts, and the fit is taken at the end of the segment with the last draw; the trace's attribute
    `stopping` is the rule's report.

    Args:
        method: the method.
        posterior: the target.
        data: the data that the target is conditioned on.
        block: chains, starts and destination.
        checkpoint_every: steps per segment.
        stopping: a new rule that may end the last phase early; None to take all draws.

    Raises:
        StartError: the density at a chain's start is not finite.
        CheckpointError: no checkpoint of the earlier attempt can be read.
        OSError: the trace cannot be written; complete segments are kept.
        Interrupted: a signal requested a stop.
    """
    destination = block.destination
    companions = [destination.with_name(name) for name in COMPANIONS]
    with stop_signal() as stop, held(destination, stop.obey):
        if destination.exists():
            same = open_trace(destination).attributes.get("fingerprint") == block.fingerprint
            if same and all(path.exists() for path in companions):
                log.info("%s is complete already", destination)
                shutil.rmtree(work_path(destination), ignore_errors=True)
                return
            reason = f"{' or '.join(COMPANIONS)} is missing" if same else "its settings, data or code have changed"
            log.info("sampling %s again: %s", destination, reason)
            shutil.rmtree(destination)
        work = work_folder(destination, block.fingerprint)
        program = FitProgram(method, posterior, data, block.chain_ids, block.seed, checkpoint_every)
        trace = _Run(program, posterior, block, work, stopping).run(stop)
        for path in companions:
            (work / path.name).replace(path)
        trace.replace(destination)
        shutil.rmtree(work)


class _Run:
    """One attempt at a block: phases, checkpoints, and the destinations of draws."""

    def __init__(
        self, program: FitProgram, posterior: Posterior, block: Block, work: Path, stopping: StoppingRule | None
    ) -> None:
        self.program, self.layout, self.block, self.work = program, posterior.layout, block, work
        self.phases, self.place = program.method.phases, program.place
        self.stopping = stopping
        self.checkpoints = CheckpointStore(work)
        self.seconds = [0.0] * len(self.phases)
        self.gradients = [0] * len(self.phases) if "gradients" in program.method.statistics else []
        self.courses: list[tuple[tuple[float, ...], ...]] = []

    def run(self, stop: Stop) -> Path:
        """Run from the last checkpoint (or the start) to the end of the last phase; returns the trace's path."""
        states, progress = self._begin()
        report = ProgressReport(
            sum(phase.draws * phase.thinning for phase in self.phases),
            self._steps_before(progress),
            self.place.chains,
            self.program.method.gradients_per_step,
        )
        try:
            for number in range(progress.phase, len(self.phases)):
                done = progress.done if number == progress.phase else 0
                states = self._phase(number, done, states, stop, report)
        finally:
            report.close()
        end = self.stopping.end if self.stopping else None
        fit: dict[str, Any] = self.program.fit(states)
        with refusals(self.work / "timing.json", RERUN):
            timing, method = self.work / "timing.json", self.program.method
            write_timing(timing, method, self.seconds, self.gradients, self.place, end, self._courses(fit))
        with refusals(self.work / "fit.npz", RERUN):
            save_arrays(self.work / "fit.npz", fit)
        return self._trace()

    def _begin(self) -> tuple[State, Progress]:
        """States on the devices, and the progress of the block."""
        shapes = self.program.state_shapes(self.block.starts)
        if loaded := self.checkpoints.load(shapes):
            progress, states = loaded
            self.seconds, self.gradients = list(progress.seconds), list(progress.gradients)
            self.courses = list(progress.courses)
            log.info("continuing from %s of phase '%s'", f"{progress.done:,}", self.phases[progress.phase].name)
            return self.place.put(states), progress
        with ThreadPoolExecutor(1, thread_name_prefix="compiler") as compiler:
            compiling = compiler.submit(self.program.compile, 0, 0, self.program.placed_shapes(self.block.starts))
            states = self.program.start(self.block.starts)
            compiling.result()
        density = self.place.get(jax.vmap(self.program.method.density)(states))
        for chain, likelihood, prior in zip(self.block.chain_ids, *density, strict=True):
            if not np.isfinite(likelihood + prior):
                advice = (
                    "start where the prior, or the density that was given alone, is finite (`starts` of `sample`, "
                    "`start` of `posterior_of`), or choose a prior that is finite there"
                    if np.isfinite(likelihood)
                    else "train it with a lower learning_rate (`warmstart` of a run, `training` of `starting_points`), "
                    "or check the data for extreme values"
                )
                raise StartError(
                    f"chain {chain} cannot start: its log-likelihood is {likelihood} and its log-prior {prior} at its "
                    f"start; {advice}"
                )
        return states, Progress(0, 0)

    def _phase(self, number: int, done: int, states: State, stop: Stop, report: ProgressReport) -> State:
        """Run one phase after its first `done` units; a unit is `thinning` steps."""
        phase = self.phases[number]
        size, fit = self.program.units_per_segment(phase), self.program.is_fit(phase)
        every = Program.units_per_segment(self.program, phase)
        sink = self._sink(number, size) if phase.keep else None
        clock = Clock(self.seconds[number])
        rule = self.stopping if number == len(self.phases) - 1 else None
        if rule and self._replay(rule, done, size) is not None:
            done = phase.draws

        def write(begin: int, count: int, segment: Segment, points: list[list[jax.Array]]) -> None:
            if self.gradients:
                self.gradients[number] += int(self.place.get(segment.statistics["gradients"]).sum(dtype=np.int64))
            for point in self.place.get(points):
                self.courses.append(tuple(tuple(of_chains[:, 0].astype(float).tolist()) for of_chains in point))
            after = self.place.get(segment.states)
            self.seconds[number] = clock.read()
            if sink:
                kept = jax.tree.map(lambda leaf: leaf[:, :count], self.place.get(segment[1:]))
                sink(begin // size, *kept)
                if rule:
                    with self.program.precision():
                        rule.update(kept[0])
            self._save(number, begin + count, after)
            # Both checkpoints are in this phase or at its start, so the previous phase's draws are no longer needed.
            Scratch(self.work, number - 1).remove()
            report.advance(phase.name, count * phase.thinning)

        with ThreadPoolExecutor(1, thread_name_prefix="trace-writer") as writer:
            pending: Future[None] | None = None
            written, points = done, []
            for begin in range(done, phase.draws, size):
                if begin == done:
                    self.program.compile(number, begin, states)
                    clock.start()
                    stop.computing = True
                segment = self.program.segment(number, begin, states)
                end = min(begin + size, phase.draws)
                if fit:
                    points.append([segment.statistics[name] for name in self.program.courses])
                    if begin // every == end // every and end < phase.draws and not stop.requested:
                        states = segment.states
                        continue
                if pending:
                    pending.result()
                if rule and rule.end is not None:
                    break  # discards the segment that was computed in the meantime
                states = segment.states
                pending = writer.submit(write, written, end - written, segment, points)
                written, points = end, []
                if stop.requested:
                    break
            if pending:
                pending.result()
        stop.obey()
        return self._finish(number, states) if number < len(self.phases) - 1 else states

    def _replay(self, rule: StoppingRule, done: int, size: int) -> int | None:
        """Pass the draws of earlier attempts to a rule; return the draw at which the block ends, if any."""
        if done:
            trace = open_trace(self.work / "trace.zarr", incomplete=True)
            for begin in range(0, done, size):
                rule.update(trace.read(draws=slice(begin, min(begin + size, done))))
        return rule.end

    def _trace(self) -> Path:
        """The finished trace, up to the draw at which the stopping rule ended it."""
        trace, rule, planned = self.work / "trace.zarr", self.stopping, self.phases[-1].draws
        if rule is None:
            return trace
        attributes = {"stopping": rule.report(planned)}
        if rule.end is None or rule.end == planned:
            missing = list(rule.crossed.values()).count(None)
            log.info("the E-values of %d chains did not reach %g: all draws were taken", missing, 1 / rule.alpha)
            amend(trace, attributes)
            return trace
        log.info("stopped after %d of %d draws: every E-value has reached %g", rule.end, planned, 1 / rule.alpha)
        shorten(trace, self.work / "stopped.zarr", rule.end, attributes)
        return self.work / "stopped.zarr"

    def _sink(self, number: int, size: int) -> Sink:
        """Destination of the draws of a phase: the trace for the last phase, scratch files for other phases."""
        if number < len(self.phases) - 1:
            return Scratch(self.work, number).write
        path = self.work / "trace.zarr"
        if path.exists():
            return TraceWriter.open(path).write
        return TraceWriter.create(
            path,
            chains=self.place.chains,
            draws=self.phases[number].draws,
            layout=self.layout,
            dtype=str(self.program.dtype),
            statistics=self.program.statistics(),
            segment=size,
            chain_ids=self.block.chain_ids,
            attributes={**self.block.attributes, "fingerprint": self.block.fingerprint},
        ).write

    def _finish(self, number: int, states: State) -> State:
        """Apply the phase's `finish` and save the states as the start of the next phase."""
        phase = self.phases[number]
        segments = -(-phase.draws // self.program.units_per_segment(phase)) if phase.keep and phase.finish else 0
        states = self.program.finish(number, states, Scratch(self.work, number).read(segments))
        self._save(number + 1, 0, self.place.get(states))
        return states

    def _save(self, phase: int, done: int, states: State) -> None:
        progress = Progress(phase, done, tuple(self.seconds), tuple(self.gradients), tuple(self.courses))
        self.checkpoints.save(progress, states)

    def _courses(self, fit: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """The courses [chain, point] of the fits that are kept."""
        if not self.courses:
            return self.block.courses
        points, names = np.array(self.courses), self.program.followed
        kept = fit["start_kept"] if self.program.starts else np.zeros(self.place.chains, int)
        first, chains = len(names) * kept, np.arange(self.place.chains)
        return {name: points[:, first + place, chains].T for place, name in enumerate(names)}

    def _steps_before(self, progress: Progress) -> int:
        before = sum(phase.draws * phase.thinning for phase in self.phases[: progress.phase])
        return before + progress.done * self.phases[progress.phase].thinning


def noted(config: MethodSettings, posterior: Posterior, rows: int) -> dict[str, Any]:
    """The trace attribute with notes on statistics, for data of `rows` rows; empty for most methods."""
    if isinstance(config, IVONConfig) and (note := config.note(rows)):
        log.warning("%s: lower hessian_momentum, or leave it out", note)
        return {NOTES: {"elbo": note}}
    if not isinstance(config, ImplicitConfig):
        return {}
    # Imported here so that other methods need not wait for it.
    from bnn_atlas.methods.implicit.objective import notes_of

    return {NOTES: notes_of(config, posterior, rows)}
