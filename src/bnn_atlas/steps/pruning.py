"""Accuracy of pruned networks, from the frames of alignments to tables."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bnn_atlas.config.pruning import PruningConfig
from bnn_atlas.data.dead_pixels import dead_inputs
from bnn_atlas.data.errors import DataError
from bnn_atlas.inference.predictor import Predictor
from bnn_atlas.inference.problem import Problem, load_without_rows
from bnn_atlas.metrics.formulas import pruning as formulas
from bnn_atlas.metrics.judgement.pruned import pruning_measurements
from bnn_atlas.metrics.judgement.rows import listed, marked
from bnn_atlas.metrics.tables.files import PRUNING_SCHEMA, write_frame, write_table
from bnn_atlas.metrics.tables.measurement import RunIdentity
from bnn_atlas.models.layout import Layout
from bnn_atlas.symmetry.frame import Frame, load_frame
from bnn_atlas.symmetry.freedoms import transform
from bnn_atlas.symmetry.groups import Symmetry, symmetry_of
from bnn_atlas.traces.pool import open_pool

log = logging.getLogger(__name__)


class Network(NamedTuple):
    """A network that is pruned: the run that it is of, and what it is."""

    name: str
    of: str
    """`mean` of the aligned draws, `mean as sampled`, or the last `draw`, aligned."""
    theta: np.ndarray
    """[P]."""


class Rank(NamedTuple):
    """An order of pruning; the parameter with the largest value goes first."""

    name: str
    repeat: int
    values: np.ndarray
    """[P]."""


class Source(NamedTuple):
    """A run in the common frame."""

    name: str
    mean: np.ndarray
    sd: np.ndarray
    draws: int
    sampled: tuple[np.ndarray, np.ndarray] | None
    """Mean and sd of the draws as they are; None of a fitted Gaussian, whose units have one order."""
    draw: np.ndarray


def pruning(
    dataset: str | Path,
    split: str | Path,
    frames: Sequence[str | Path],
    pools: Sequence[str | Path],
    *,
    table: str | Path,
    curves: str | Path,
    posterior: Mapping[str, Any],
    settings: Mapping[str, Any],
    seed: int,
    identity: Mapping[str, Any],
    chains: int,
    marks: Sequence[str] = (),
) -> None:
    """Prune networks as `settings` (a `PruningConfig` in plain values) say, and write metric rows and the curves.

    `frames` and `pools` are the files of the alignments that `networks` names and of their runs, in its order. Every
    pruned network is made of the whole one afresh. With dead inputs removed, the weights of inputs that never vary in
    the rows of the likelihood are 0 from the start, and shares are of the other parameters.
    `chains` is how many the run has, for the rows.

    Raises:
        DataError: frames of other networks, or a run without a finite draw.
    """
    problem, config = load_without_rows(dataset, split, posterior), PruningConfig.model_validate(settings)
    symmetry = symmetry_of(problem.config.model, problem.posterior.layout)
    files = zip(config.networks, frames, pools, strict=True)
    sources = [_source(name, frame, pool, symmetry) for name, frame, pool in files]
    score = _Accuracy(problem, config)
    live = _live(problem)
    rows = []
    for dead, kept in (("kept", np.ones(symmetry.layout.size, bool)), ("removed", live)):
        if kept is None:
            continue
        for network, rank in _jobs(sources, config, seed):
            networks = np.zeros((len(config.kept), kept.size), np.float32)
            networks[:, kept] = formulas.pruned(network.theta[kept], rank.values[kept], config.kept)
            for percent, theta, scores in zip(config.kept, networks, score(networks), strict=True):
                facts = (network.name, network.of, rank.name, rank.repeat, dead, float(percent))
                rows.append((*facts, int(np.count_nonzero(theta)), *scores))
    found = pd.DataFrame(rows, columns=PRUNING_SCHEMA.names)
    write_frame(curves, found, PRUNING_SCHEMA)
    measured = listed(RunIdentity(**identity), pruning_measurements(found), chains, 1)
    write_table(table, marked(measured, marks))


def _source(name: str, frame: str | Path, pool: str | Path, symmetry: Symmetry) -> Source:
    """What a frame and its draws give."""
    found, draws = load_frame(frame, symmetry), open_pool(pool)
    if len(found.mean) != symmetry.layout.size:
        raise DataError(f"{frame}: {len(found.mean):,} parameters, but the run has {symmetry.layout.size:,}")
    usable = np.argwhere(found.finite)
    if not len(usable):
        raise DataError(f"{pool}: none of its draws is finite")
    chain, number = (int(place) for place in usable[-1])
    places = [
        np.flatnonzero(ids == wanted)
        for ids, wanted in (
            (draws.chain_ids, found.chain_ids[chain]),
            (draws.draw_ids, found.draw_ids[number]),
        )
    ]
    if not all(len(place) for place in places):
        raise DataError(f"{frame}: its draws are not those of {pool}; align them again")
    raw = draws.read(*places)[0, 0]
    draw = transform(symmetry, raw, found.units[chain, number], found.signs[chain, number])
    count = int(found.finite.sum())
    fitted = _fitted(found)
    if fitted is not None:
        return Source(name, *fitted, count, None, draw)
    sampled = found.moment("sampled", "mean"), found.moment("sampled", "sd")
    return Source(name, found.mean, found.moment("aligned", "sd"), count, sampled, draw)


def _fitted(frame: Frame) -> tuple[np.ndarray, np.ndarray] | None:
    """Mean and sd that an approximation has fitted, those of its first chain."""
    if frame.fit_mean is None or frame.fit_sd is None:
        return None
    return frame.fit_mean[0], frame.fit_sd[0]


def _jobs(sources: Sequence[Source], config: PruningConfig, seed: int) -> Iterator[tuple[Network, Rank]]:
    """Every network with every order in which it is pruned."""
    sds = [Rank(f"sd of {source.name}", 0, formulas.by_sd(source.sd)) for source in sources]
    for number, source in enumerate(sources):
        mean = Network(source.name, "mean", source.mean)
        own = [*sds, Rank("signal to noise", 0, formulas.by_signal_to_noise(source.mean, source.sd))]
        for rank in (*own, Rank("magnitude", 0, formulas.by_magnitude(source.mean))):
            yield mean, rank
        for repeat in range(config.repeats):
            generator = np.random.default_rng([seed, number, repeat])
            yield mean, Rank("random", repeat, formulas.by_chance(generator, source.mean.size))
            draws = max(2, source.draws)
            yield mean, Rank("sd of prior draws", repeat, formulas.by_prior_sd(generator, source.mean.size, draws))
        if source.sampled is not None:
            unaligned, sd = source.sampled
            yield Network(source.name, "mean as sampled", unaligned), Rank("its own sd", 0, formulas.by_sd(sd))
        for rank in (*sds, Rank("magnitude", 0, formulas.by_magnitude(source.draw))):
            yield Network(source.name, "draw", source.draw), rank


class _Accuracy:
    """Accuracy, its standard error over rows, and mean loss of networks at the test rows."""

    def __init__(self, problem: Problem, config: PruningConfig) -> None:
        rows = problem.split
        self._x, self._y = rows.x_test[: config.test_rows], rows.y_test[: config.test_rows]
        self._predict = Predictor(problem.posterior, problem.data, 1e6 * problem.config.gradient_memory_mb)

    def __call__(self, networks: np.ndarray) -> list[tuple[float, float, float]]:
        log_probs = self._predict(networks, self._x).log_probs
        assert log_probs is not None, "pruning is for classification"
        correct = log_probs.argmax(axis=2) == self._y
        loss = -log_probs[:, np.arange(len(self._y)), self._y].astype(np.float64).mean(axis=1)
        share = correct.mean(axis=1)
        error = np.sqrt(share * (1 - share) / len(self._y))
        return [(float(a), float(b), float(c)) for a, b, c in zip(share, error, loss, strict=True)]


def _live(problem: Problem) -> np.ndarray | None:
    """Which parameters [P] are not weights of dead inputs; None where there are none, or no input has its own."""
    layout: Layout = problem.posterior.layout
    first = min((p for p in layout.parameters if p.role == "weight"), key=lambda p: p.layer or 0)
    dead = dead_inputs(problem.split).ravel()
    if len(first.shape) != 2 or first.shape[1] != dead.size or not dead.any():
        return None
    live = np.ones(layout.size, bool)
    start = layout.offset(first.name)
    live[start : start + first.size] = np.tile(~dead, first.shape[0])
    return live
