"""Lines, permutations and distances between networks of two chains of a run, from files to tables."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bnn_atlas.config.barriers import BarrierConfig
from bnn_atlas.config.initial import InitialConfig
from bnn_atlas.inference.matching import features_of
from bnn_atlas.inference.predictor import Predictor
from bnn_atlas.inference.problem import Problem, load_problem
from bnn_atlas.metrics.formulas.barriers import line
from bnn_atlas.metrics.judgement.pairs import pair_measurements
from bnn_atlas.metrics.judgement.rows import listed, marked
from bnn_atlas.metrics.tables.files import LINE_SCHEMA, MATCH_SCHEMA, NORM_SCHEMA, write_frame, write_table
from bnn_atlas.metrics.tables.measurement import RunIdentity
from bnn_atlas.posterior.predictive import Predictive
from bnn_atlas.symmetry.groups import Symmetry, symmetry_of
from bnn_atlas.symmetry.matching import match
from bnn_atlas.symmetry.permutation import apply, ceiling, invert_units, transpositions
from bnn_atlas.traces.draws import Draws, evenly
from bnn_atlas.traces.pool import open_pool
from bnn_atlas.warmstart.initial import copy_permutation

log = logging.getLogger(__name__)


class PairError(ValueError):
    """Networks that cannot be compared."""


class _Rows(NamedTuple):
    """Rows on which loss and error are computed."""

    name: str
    x: np.ndarray
    y: np.ndarray


def barriers(
    dataset: str | Path,
    split: str | Path,
    pool: str | Path,
    *,
    table: str | Path,
    lines: str | Path,
    matches: str | Path,
    norms: str | Path,
    posterior: Mapping[str, Any],
    settings: Mapping[str, Any],
    initial: Mapping[str, Any] | None,
    seed: int,
    identity: Mapping[str, Any],
    marks: Sequence[str] = (),
) -> None:
    """Compare pairs of chains as `settings` (a `BarrierConfig` in plain values) say, and write rows and three tables.

    `initial` (an `InitialConfig` in plain values, or None) and `seed` tell which permutation a copy started with. Two
    networks of each pair are in memory at a time.

    Raises:
        PairError: draws of another network than the run's, or a network that is not finite.
    """
    problem, config = load_problem(dataset, split, posterior), BarrierConfig.model_validate(settings)
    draws = open_pool(pool)
    if draws.layout != problem.posterior.layout:
        raise PairError(f"{pool}: its draws have {draws.layout.size:,} parameters of another network than the run's")
    pairs = _Pairs(problem, draws, config, InitialConfig.model_validate(initial) if initial else None, seed)
    found = list(pairs.compared())
    frames = {
        name: pd.DataFrame([row for one in found for row in one[name]], columns=schema.names)
        for name, schema in (("lines", LINE_SCHEMA), ("matches", MATCH_SCHEMA))
    }
    write_frame(lines, frames["lines"], LINE_SCHEMA)
    write_frame(matches, frames["matches"].astype({"planted": "Int64"}), MATCH_SCHEMA)
    write_frame(norms, _norms(draws), NORM_SCHEMA)
    measured = pair_measurements(frames["lines"], frames["matches"])
    rows = listed(RunIdentity(**identity), measured, draws.chains, 1)
    write_table(table, marked(rows, marks))


class _Pairs:
    """The pairs of chains of a run, compared one after another."""

    def __init__(
        self, problem: Problem, draws: Draws, config: BarrierConfig, initial: InitialConfig | None, seed: int
    ) -> None:
        self._draws, self._config, self._initial, self._seed = draws, config, initial, seed
        self._symmetry = symmetry_of(problem.config.model, problem.posterior.layout)
        self._features = features_of(self._symmetry, problem, config.criterion, rows=config.matching_rows)
        self._predict = Predictor(problem.posterior, problem.data, 1e6 * problem.config.gradient_memory_mb)
        rows, count = problem.split, config.training_rows
        self._rows = [_Rows("train", rows.x_fit[:count], rows.y_fit[:count])]
        if len(rows.split.test):
            self._rows.append(_Rows("test", rows.x_test, rows.y_test))

    def compared(self) -> Iterator[dict[str, list[tuple[Any, ...]]]]:
        """Rows of the tables `lines` and `matches` for each pair and draw."""
        positions = evenly(self._draws.draws, self._config.draws or self._draws.draws)
        if self._config.draws == 1:
            positions = np.array([self._draws.draws - 1])
        for pair in self._config.pairs_of(self._draws.chains):
            one, other = (int(self._draws.chain_ids[chain]) for chain in pair)
            log.info("chains %d and %d at %d draws", one, other, len(positions))
            for position in positions:
                both = self._draws.read(list(pair), [int(position)])[:, 0].astype(np.float32)
                if not np.isfinite(both).all():
                    raise PairError(f"{self._draws.path}: draw {position} of chain {one} or {other} is not finite")
                yield self._pair((one, other, int(self._draws.draw_ids[position])), *both)

    def _pair(
        self, key: tuple[int, int, int], first: np.ndarray, second: np.ndarray
    ) -> dict[str, list[tuple[Any, ...]]]:
        """The same for one pair at one draw."""
        wanted = self._features.of(first[None])[0]
        units = self._match(wanted, second)
        states = {"as_trained": second, "aligned": apply(self._symmetry, second, units)}
        planted, count = self._planted(key)
        if planted is not None:
            states["planted"] = apply(self._symmetry, second, invert_units(self._symmetry, planted))
        found: dict[str, list[tuple[Any, ...]]] = {"lines": [], "matches": []}
        points = line(self._config.points)
        for state, theta in states.items():
            between = (first + points[:, None] * (theta - first)).astype(np.float32)
            between[-1] = theta
            for rows in self._rows:
                scores = _scores(self._predict(between, rows.x), rows.y)
                found["lines"] += [
                    (*key, state, rows.name, *map(float, values)) for values in zip(points, *scores, strict=True)
                ]
            matched = units if state == "as_trained" else self._match(wanted, theta)
            found["matches"].append(self._matched(key, state, 1.0, count, matched, first, theta))
            if self._config.surface and state != "planted":
                found["matches"] += [
                    self._matched(key, state, float(x), count, self._match(wanted, w), first, w)
                    for x, w in zip(points[1:-1], between[1:-1], strict=True)
                ]
        return found

    def _match(self, wanted: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """Permutations [units] that bring a network near the one with the features `wanted`."""
        return match(self._features.symmetry, wanted, self._features.of(theta[None])).units[0]

    def _planted(self, key: tuple[int, int, int]) -> tuple[np.ndarray | None, int | None]:
        """The permutation with which the second chain started as a copy of the first, and its transpositions."""
        first, second, _ = key
        if self._initial is None or self._initial.transpositions is None or first % 2 or second != first + 1:
            return None, None
        planted = copy_permutation(self._symmetry, self._initial, self._seed, second)
        return planted, transpositions_of(self._symmetry, planted)

    def _matched(
        self,
        key: tuple[int, int, int],
        state: str,
        point: float,
        planted: int | None,
        units: np.ndarray,
        first: np.ndarray,
        theta: np.ndarray,
    ) -> tuple[Any, ...]:
        groups = self._symmetry.groups
        distance = float(((theta.astype(np.float64) - first) ** 2).sum())
        most, count = sum(ceiling(group.size) for group in groups), transpositions_of(self._symmetry, units)
        return (*key, state, point, planted, count, most, self._symmetry.units, distance)


def transpositions_of(symmetry: Symmetry, units: np.ndarray) -> int:
    """Transpositions of permutations [units], summed over the groups."""
    return int(sum(transpositions(part) for part in symmetry.split(units)))


def _scores(prediction: Predictive, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean negative log-likelihood [b] of rows y [n], and share of wrong classes or root mean square error [b]."""
    if prediction.log_probs is not None:
        log_probs = np.asarray(prediction.log_probs)
        of_label = log_probs[:, np.arange(len(y)), y].astype(np.float64)
        return -of_label.mean(axis=1), (log_probs.argmax(axis=2) != y).mean(axis=1)
    mean, scale = (np.asarray(leaf, np.float64) for leaf in (prediction.mean, prediction.scale))
    residual = y - mean
    density = -0.5 * (residual / scale) ** 2 - np.log(scale) - 0.5 * np.log(2 * np.pi)
    return -density.mean(axis=1), np.sqrt((residual**2).mean(axis=1))


def _norms(draws: Draws) -> pd.DataFrame:
    """Euclidean norm of each array of each draw (`files.NORM_SCHEMA`)."""
    arrays = draws.layout.parameters
    rows = []
    for chains, positions, batch in draws.batches():
        for chain, of_chain in zip(draws.chain_ids[chains], batch, strict=True):
            for draw, theta in zip(draws.draw_ids[positions], of_chain, strict=True):
                for p in arrays:
                    start = draws.layout.offset(p.name)
                    norm = float(np.linalg.norm(theta[start : start + p.size].astype(np.float64)))
                    rows.append((int(chain), int(draw), p.name, norm))
    return pd.DataFrame(rows, columns=NORM_SCHEMA.names)
