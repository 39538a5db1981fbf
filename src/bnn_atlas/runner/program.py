"""The compiled part of a run: the start of the chains, and the segments of phases, each compiled once."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp

from bnn_atlas.keys import Role, role_key, step_key
from bnn_atlas.methods.contract import Method, Phase, Settle, State, Step
from bnn_atlas.placement import EVERYWHERE, Mapped, Placement
from bnn_atlas.posterior.density import Posterior, PosteriorData, binder, data_specs


class Span(NamedTuple):
    """Units of a phase, starting at step `begin`, with `unit` steps each."""

    seed: Array | np.int32
    phase: Array | np.int32
    begin: Array | np.int32
    units: Array | np.int32
    unit: Array | np.int32


class Segment(NamedTuple):
    """Result of a segment, as arrays [chain, ...] with room for `Program.capacity` units."""

    states: State
    draws: Array
    """Positions after each unit [chain, unit, scalar]."""
    statistics: dict[str, Array]
    """[chain, unit]."""


class Program:
    """A method applied to a posterior, for chains with given indices and starts."""

    def __init__(
        self,
        method: Method,
        posterior: Posterior,
        data: PosteriorData,
        chain_ids: np.ndarray,
        seed: int,
        checkpoint_every: int,
    ) -> None:
        self.method, self._seed, self._every = method, seed, checkpoint_every
        self.place = Placement(len(chain_ids), shards=posterior.shards)
        self._specs = data_specs(data)
        self._data = self.place.share(data, self._specs)
        self._chain_ids = self.place.put(np.asarray(chain_ids, np.int32))
        self._width = posterior.layout.size
        self._bind = binder(posterior)
        self._segments: dict[Any, Mapped] = {}
        self._start = self.place.map(self._start_chain, (self._specs, EVERYWHERE))
        self.capacity = max(self.units_per_segment(phase) for phase in method.phases if phase.keep)

    @property
    def dtype(self) -> np.dtype:
        """Precision of the run."""
        return np.dtype(self._data.prior.loc.dtype)

    def units_per_segment(self, phase: Phase) -> int:
        """Number of units (draws, or steps if no draws are kept) in a full segment of a phase."""
        return min(phase.draws, max(1, self._every // phase.thinning))

    def statistics(self) -> dict[str, str]:
        """Names and types of the statistics that are stored with every draw."""
        dtype, listed = str(self.dtype), self.method.statistics
        kinds = {name: dtype if s.dtype == "float32" else s.dtype for name, s in listed.items()}
        return {"log_likelihood": dtype, "log_prior": dtype, **kinds}

    def precision(self) -> AbstractContextManager[None]:
        """A context manager for the precision of the run; threads do not inherit the precision."""
        return jax.enable_x64(self.dtype == np.float64)

    def state_shapes(self, starts: np.ndarray) -> State:
        """Shapes [chain, ...] and types of the states on the host."""
        shapes = self._start_shapes(starts)
        return jax.tree.map(lambda s: jax.ShapeDtypeStruct((self.place.chains, *s.shape[1:]), s.dtype), shapes)

    def placed_shapes(self, starts: np.ndarray) -> State:
        """Shapes [chain, ...] and types of the states on the devices, for `compile`."""
        return self.place.shapes(self._start_shapes(starts))

    def start(self, starts: np.ndarray) -> State:
        """Initial states of the chains, at the starts [chain, P]."""
        return self._start(*self._start_arguments(starts))

    def segment(self, number: int, begin: int, states: State) -> Segment:
        """Compute the segment of a phase that begins after `begin` units."""
        return Segment(*self._segment_of(self.method.phases[number])(*self._arguments(number, begin, states)))

    def compile(self, number: int, begin: int, states: State) -> None:
        """Compile a segment, unless it is already compiled; the states may be shapes."""
        with self.precision():
            self._segment_of(self.method.phases[number]).compile(*self._arguments(number, begin, states))

    def finish(self, number: int, states: State, parts: list[np.ndarray]) -> State:
        """States after a phase's `finish` on the host; `parts` [chain, draw, scalar] are the draws of the phase."""
        finish = self.method.phases[number].finish
        if finish is None:
            return states
        host = self.place.get(states)

        def finish_chain(chain: int) -> State:
            draws = np.concatenate([part[chain] for part in parts]) if parts else None
            return finish(jax.tree.map(lambda leaf: leaf[chain], host), draws)

        with ThreadPoolExecutor(self.place.devices) as pool:
            ended = list(pool.map(finish_chain, range(self.place.chains)))
        return self.place.put(jax.tree.map(lambda *leaves: np.stack(leaves), *ended))

    def fit(self, states: State) -> dict[str, np.ndarray]:
        """What each chain has learned in addition to its draws, from the final states: name -> [chain, ...]."""
        host = self.place.get(states)

        def fit_chain(chain: int) -> dict[str, Array]:
            return self.method.fit(jax.tree.map(lambda leaf: leaf[chain], host))

        fits = [fit_chain(chain) for chain in range(self.place.chains)]
        return {name: np.stack([np.asarray(fit[name]) for fit in fits]) for name in fits[0]}

    def _start_shapes(self, starts: np.ndarray) -> State:
        return self._start.shapes(*self._start_arguments(starts))

    def _start_arguments(self, starts: np.ndarray) -> tuple[Any, Any]:
        positions = self.place.put(np.asarray(starts, self.dtype))
        return (self._data, np.int32(self._seed)), (self._chain_ids, positions)

    def _start_chain(self, shared: tuple[PosteriorData, np.int32], chained: tuple[Array, Array]) -> State:
        (data, seed), (chain, position) = shared, chained
        return self.method.init(role_key(seed, Role.START, chain), position, self._bind(data))

    def _arguments(self, number: int, begin: int, states: State) -> tuple[Any, Any]:
        """Arguments of the segment of a phase that begins after `begin` units."""
        phase = self.method.phases[number]
        count = min(self.units_per_segment(phase), phase.draws - begin)
        units, unit = (count, phase.thinning) if phase.keep or phase.settle else (1, count * phase.thinning)
        span = Span(*map(np.int32, (self._seed, number, begin * phase.thinning, units, unit)))
        return (self._data, span, phase.settings), (self._chain_ids, states)

    def _segment_of(self, phase: Phase) -> Mapped:
        """The compiled segment of a phase; phases with equal functions, types of settings and kept scalars share it."""
        kind = str(jax.eval_shape(lambda settings: settings, phase.settings))
        key = (phase.step, phase.settle, kind, None if phase.select is None else phase.select.tobytes())
        if key not in self._segments:
            self._segments[key] = self.place.map(
                partial(self._run_chain, phase.step, phase.settle, phase.select), (self._specs, EVERYWHERE, EVERYWHERE)
            )
        return self._segments[key]

    def _run_chain(
        self,
        step: Step,
        settle: Settle | None,
        select: np.ndarray | None,
        shared: tuple[PosteriorData, Span, Any],
        chained: tuple[Array, State],
    ) -> tuple[State, Array, dict[str, Array]]:
        """Run the units of one chain; return the final state, positions [unit, scalar] and statistics [unit]."""
        (data, span, settings), (chain, state) = shared, chained
        statistics = self.method.statistics
        target = self._bind(data)
        key = role_key(span.seed, Role.SAMPLE, chain)
        kinds = self.statistics()

        def one_step(index: Array, carry: tuple[State, dict[str, Array]]) -> tuple[State, dict[str, Array]]:
            state, totals = carry
            state, values = step(step_key(key, span.phase, index), index, state, target, settings)
            for name, total in totals.items():
                value = values[name].astype(total.dtype)
                totals = {**totals, name: value if statistics[name].reduction == "last" else total + value}
            return state, totals

        def one_unit(
            number: Array, carry: tuple[State, Array, dict[str, Array]]
        ) -> tuple[State, Array, dict[str, Array]]:
            state, draws, kept = carry
            first = span.begin + number * span.unit
            totals = {name: jnp.zeros((), kinds[name]) for name in statistics}
            state, totals = jax.lax.fori_loop(first, first + span.unit, one_step, (state, totals))
            if settle is not None:
                state, values = settle(state, target)
                totals |= {name: totals[name] + value.astype(totals[name].dtype) for name, value in values.items()}
            position, density = self.method.position(state), self.method.density(state)
            draws = draws.at[number].set(position if select is None else position[select])
            values = {n: t / span.unit if statistics[n].reduction == "mean" else t for n, t in totals.items()}
            kept = {n: kept[n].at[number].set(v) for n, v in (values | density._asdict()).items()}
            return state, draws, kept

        # A phase that keeps no draws may have more units than the arrays have room for; writes beyond the end are
        # dropped.
        width = self._width if select is None else len(select)
        draws = jnp.zeros((self.capacity, width), data.prior.loc.dtype)
        buffers = {name: jnp.zeros((self.capacity,), kind) for name, kind in kinds.items()}
        return jax.lax.fori_loop(0, span.units, one_unit, (state, draws, buffers))
