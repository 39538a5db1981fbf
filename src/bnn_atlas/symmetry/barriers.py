"""Barriers between two networks: lines, permutations and distances of pairs of chains, and their metrics.

A barrier is the rise of a score along the straight line; `Barriers` has three definitions from the literature.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from bnn_atlas.config.parts.evaluation import BarrierConfig
from bnn_atlas.config.parts.posterior import ModelConfig
from bnn_atlas.metrics.tables.measurement import Measurement
from bnn_atlas.metrics.tables.parquet import LINE_SCHEMA, MATCH_SCHEMA
from bnn_atlas.posterior import Predictive
from bnn_atlas.symmetry.features import Features, activations_of
from bnn_atlas.symmetry.groups import Symmetry, SymmetryError, Value
from bnn_atlas.symmetry.matching import match_networks
from bnn_atlas.symmetry.permutation import apply, ceiling, invert_units, transpositions, view_of
from bnn_atlas.traces.draws import Draws, evenly


class Barriers(NamedTuple):
    """Barriers of one curve, in the units of the score."""

    sup: float
    """max over the line of L(x) - [(1 - x) L(0) + x L(1)], at least 0 (Entezari et al. 2022, definition 1)."""
    midpoint: float
    """L(1/2) - [L(0) + L(1)] / 2, which can be negative (the code of Xiao et al. 2023 and of Entezari et al.)."""
    max: float
    """max over the line of L(x) - [L(0) + L(1)] / 2 (Frankle et al. 2020; the text of Xiao et al. 2023)."""


def barriers(points: np.ndarray, values: np.ndarray) -> Barriers:
    """Barriers of a score with values L [m] at increasing points x [m] of the line, from 0 to 1 and including 1/2.

    NaN if a value is not finite. Raises ValueError if 0, 1/2 or 1 is not among the points.
    """
    x, score = np.asarray(points, np.float64), np.asarray(values, np.float64)
    middle = np.flatnonzero(np.isclose(x, 0.5))
    if x.shape != score.shape or len(x) < 3 or not middle.size or abs(x[0]) > 1e-9 or abs(x[-1] - 1) > 1e-9:
        raise ValueError(f"a barrier needs one value per point, and points from 0 to 1 with 1/2; got {x.tolist()}")
    if not np.isfinite(score).all():
        return Barriers(np.nan, np.nan, np.nan)
    mean = (score[0] + score[-1]) / 2
    chord = (1 - x) * score[0] + x * score[-1]
    return Barriers(float((score - chord).max()), float(score[middle[0]] - mean), float(score.max() - mean))


def line(points: int) -> np.ndarray:
    """Evenly spaced points from 0 to 1."""
    return np.linspace(0.0, 1.0, points)


def jackknife_error(statistic: np.ndarray) -> float:
    """Standard error from the values [n] of a statistic with each of n observations left out.

    sqrt((n - 1) / n sum_i (s_i - mean)^2), Efron and Tibshirani 1993, eq. 11.5.
    """
    left_out = np.asarray(statistic, np.float64)
    n = len(left_out)
    return float(np.sqrt((n - 1) / n * ((left_out - left_out.mean()) ** 2).sum()))


FAR = 400 / 512
"""Ratio of transpositions to units beyond which the barrier of Xiao et al. 2023, figure 2, no longer rises."""
OVER = "pairs"
REPAIRED = {"as_trained": "as_trained_repaired", "aligned": "aligned_repaired"}
"""State of the second network of a pair -> the same with the networks on the line repaired (`Repair`)."""
STATES = {
    "as_trained": "as trained",
    "planted": "planted permutation undone",
    "aligned": "aligned",
    "as_trained_repaired": "as trained, repaired",
    "aligned_repaired": "aligned, repaired",
}
"""State of the second network of a pair -> name of this state in `at`."""
PAIR = ["first", "second", "draw"]


def barrier_frame(lines: pd.DataFrame) -> pd.DataFrame:
    """Barriers of every line: columns first, second, draw, state, rows, score, and the fields of `Barriers`."""
    found = []
    for key, line in lines.groupby([*PAIR, "state", "rows"], sort=False):
        ordered = line.sort_values("point")
        for score in ("loss", "error"):
            values = barriers(ordered["point"].to_numpy(), ordered[score].to_numpy())
            found.append((*key, score, *values))
    return pd.DataFrame(found, columns=[*PAIR, "state", "rows", "score", *Barriers._fields])


def with_transpositions(barrier: pd.DataFrame, matches: pd.DataFrame) -> pd.DataFrame:
    """The barriers with the number of units and the pairs' transpositions, as planted and as trained."""
    trained = matches[(matches["state"] == "as_trained") & (matches["point"] == 1.0)]
    return barrier.merge(
        trained[[*PAIR, "planted", "transpositions", "units"]], on=PAIR, how="left", validate="many_to_one"
    )


def pair_measurements(lines: pd.DataFrame, matches: pd.DataFrame) -> list[Measurement]:
    """Measurements at the last draws compared, as means over pairs with standard errors.

    Args:
        lines: `parquet.LINE_SCHEMA`.
        matches: `parquet.MATCH_SCHEMA`.
    """
    last = int(lines["draw"].max())
    found = with_transpositions(barrier_frame(lines[lines["draw"] == last]), matches)
    ends = matches[(matches["draw"] == last) & (matches["point"] == 1.0)]
    return [
        *_barriers(found, last),
        *_distances(ends),
        Measurement("pair_transpositions_ceiling", float(ends["ceiling"].iloc[0])),
        *_changes(matches),
        *_correlations(found, ends),
    ]


def _barriers(found: pd.DataFrame, draw: int) -> Iterator[Measurement]:
    for (score, rows, state), part in found.groupby(["score", "rows", "state"], sort=False):
        at = f"{rows}, {STATES[str(state)]}"
        for definition in Barriers._fields:
            yield _over_pairs(f"barrier_{score}_{definition}", part[definition], at, f"draws {draw}")
        far = part["transpositions"] >= FAR * part["units"]
        if score == "loss" and far.any():
            yield _over_pairs("barrier_loss_far", part.loc[far, "midpoint"], at, f"draws {draw}")


def _distances(ends: pd.DataFrame) -> Iterator[Measurement]:
    for state, part in ends.groupby("state", sort=False):
        yield _over_pairs("pair_transpositions", part["transpositions"], STATES[str(state)])
        yield _over_pairs("pair_squared_distance", part["squared_distance"], STATES[str(state)])


def _changes(matches: pd.DataFrame) -> Iterator[Measurement]:
    """Largest change of a pair's transpositions since the start, for pairs that started as permuted copies."""
    trained = matches[(matches["state"] == "as_trained") & (matches["point"] == 1.0)]
    last = trained[trained["draw"] == trained["draw"].max()].dropna(subset="planted")
    if len(last):
        change = (last["transpositions"] - last["planted"]).abs()
        yield Measurement("pair_transpositions_change_max", float(change.max()), note=f"of {len(last)} pairs")


def _correlations(found: pd.DataFrame, ends: pd.DataFrame) -> Iterator[Measurement]:
    """Correlations over pairs; empty for fewer than four pairs, or if one of the two quantities does not vary."""
    of_barrier = found[(found["score"] == "loss") & (found["rows"] == "train") & (found["state"] == "as_trained")]
    of_distance = ends[ends["state"] == "as_trained"]
    for what, part, y in (("barrier", of_barrier, "midpoint"), ("distance", of_distance, "squared_distance")):
        yield from _correlation(f"correlation_transpositions_{what}", part["transpositions"], part[y])


def _correlation(metric: str, transpositions: pd.Series, values: pd.Series) -> Iterator[Measurement]:
    x, y = transpositions.to_numpy(float), values.to_numpy(float)
    kept = np.isfinite(y)
    x, y = x[kept], y[kept]
    note = "" if kept.all() else f"{(~kept).sum()} pairs whose value is not finite are left out"
    if len(x) < 4 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return
    for name, correlation in (("pearson", stats.pearsonr), ("spearman", stats.spearmanr)):
        left_out = [correlation(np.delete(x, i), np.delete(y, i)).statistic for i in range(len(x))]
        value = float(correlation(x, y).statistic)
        error = jackknife_error(np.array(left_out))
        yield Measurement(metric, value, error, note, at=name, over=OVER)


def _over_pairs(metric: str, values: pd.Series, at: str, note: str = "") -> Measurement:
    """Mean over pairs; not finite if the value of any pair is not finite; the note counts such pairs."""
    numbers = values.to_numpy(float)
    lost = int((~np.isfinite(numbers)).sum())
    told = "; ".join(filter(None, (note, f"{lost} of {len(numbers)} pairs are not finite" if lost else "")))
    error = float(numbers.std(ddof=1) / np.sqrt(len(numbers))) if len(numbers) > 1 and not lost else None
    return Measurement(metric, float(numbers.mean()), error, told, at=at, over=OVER if error is not None else "")


log = logging.getLogger(__name__)
Predict = Callable[[np.ndarray, np.ndarray], Predictive]
"""(theta [b, P], x [n, ...]) -> Predictive of b networks at n rows."""


class PairError(ValueError):
    """Raised for networks that cannot be compared."""


class ScoredRows(NamedTuple):
    """Rows on which loss and error are computed."""

    name: str
    x: np.ndarray
    y: np.ndarray


class Repair:
    """Networks on a line whose units have the means and standard deviations that they should have.

    On the line between two networks, the inputs of a unit's activation vary less over the rows than in either network,
    and more so in each layer. REPAIR (Jordan et al. 2023) rescales and shifts the units of the network at x, layer by
    layer, so that the mean and the standard deviation of each input z over the rows are

        mean(z) = (1 - x) mean(z_0) + x mean(z_1),   sd(z) = (1 - x) sd(z_0) + x sd(z_1),

    by changes of the weights and biases that compute z. A unit that does not vary is only shifted.
    """

    def __init__(
        self, config: ModelConfig, symmetry: Symmetry, shape: tuple[int, ...], x: np.ndarray, **sizes: int
    ) -> None:
        """Rows x [n, ...], in the form that the network takes, give the means; `sizes` are as in `features`.

        Raises SymmetryError for a network in which a hidden layer is not one weight and one bias, such as residual
        networks and dense layers without biases.
        """
        for group in symmetry.groups:
            layers = {value.layer for value in group.values}
            arrays = {place.array for place in group.places if place.incoming}
            if len(layers) != 1 or arrays != {f"{layer}.{name}" for layer in layers for name in ("weight", "bias")}:
                raise SymmetryError(
                    f"units of {group.name} cannot be repaired: REPAIR is for networks in which each hidden layer has "
                    "one weight and one bias; leave out repair"
                )
        inputs = [replace(group, values=tuple(Value(v.layer) for v in group.values)) for group in symmetry.groups]
        self._symmetry = replace(symmetry, groups=tuple(inputs))
        self._inputs = activations_of(config, self._symmetry, shape, x, **sizes)

    def line(self, first: np.ndarray, second: np.ndarray, points: np.ndarray, between: np.ndarray) -> np.ndarray:
        """The networks [m, P] at `points` [m] between two networks [P], repaired."""
        (mean_0, sd_0), (mean_1, sd_1) = (self._moments(theta) for theta in (first, second))
        return np.stack([
            self._repaired(theta, (1 - x) * mean_0 + x * mean_1, (1 - x) * sd_0 + x * sd_1)
            for x, theta in zip(points, between, strict=True)
        ])  # fmt: skip

    def _repaired(self, theta: np.ndarray, mean: np.ndarray, sd: np.ndarray) -> np.ndarray:
        result = theta.astype(np.float64)[None]
        wanted = zip(self._symmetry.split(mean), self._symmetry.split(sd), strict=True)
        for number, (group, (goal, spread)) in enumerate(zip(self._symmetry.groups, wanted, strict=True)):
            present, width = (self._symmetry.split(each)[number] for each in self._moments(result[0]))
            scale = np.divide(spread, width, out=np.ones_like(width), where=width > 0)
            for place in group.places:
                if place.incoming:
                    view = view_of(self._symmetry, place, result)[0]
                    if place.array.endswith(".bias"):
                        view[:] = (view - present) * scale + goal
                    else:
                        view *= scale.reshape(-1, *(1,) * (view.ndim - 1))
        return result[0].astype(theta.dtype)

    def _moments(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation [units] of all inputs over the rows and positions."""
        values = self._inputs.whole(theta.astype(np.float32))
        mean, sd = ([moment(part, axis=1, dtype=np.float64) for part in values] for moment in (np.mean, np.std))
        return np.concatenate(mean), np.concatenate(sd)


class PairsOfChains:
    """The pairs of chains of a run, compared one at a time."""

    def __init__(
        self,
        draws: Draws,
        config: BarrierConfig,
        features: Features,
        predict: Predict,
        rows: Sequence[ScoredRows],
        symmetry: Symmetry,
        planted: Callable[[int], np.ndarray] | None,
        repair: Repair | None = None,
    ) -> None:
        """Only one pair of networks is in memory at a time.

        Args:
            draws: the draws of the run.
            config: which pairs, points and draws to compare.
            features: features for matching networks.
            predict: predictions of networks [b, P] at rows [n, ...].
            rows: rows for loss and error.
            symmetry: symmetry of the network.
            planted: chain index -> the permutation by which the chain started as a copy of the previous chain; None if
                no chain started as a copy.
            repair: compares the lines as trained and aligned once more, with every network on them repaired.
        """
        self._draws, self._config, self._features, self._predict = draws, config, features, predict
        self._rows, self._symmetry, self._copied = rows, symmetry, planted
        self._repair = repair

    def frames(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Lines (`parquet.LINE_SCHEMA`) and matches (`parquet.MATCH_SCHEMA`) of all pairs.

        Raises PairError for a network that is not finite.
        """
        found = list(self._compared())
        lines, matches = (
            pd.DataFrame([row for one in found for row in one[name]], columns=schema.names)
            for name, schema in (("lines", LINE_SCHEMA), ("matches", MATCH_SCHEMA))
        )
        return lines, matches

    def _compared(self) -> Iterator[dict[str, list[tuple[Any, ...]]]]:
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
        """Rows of both tables for one pair at one draw."""
        (units,) = self._match(first, second[None])
        states = {"as_trained": second, "aligned": apply(self._symmetry, second, units)}
        planted, count = self._planted(key)
        if planted is not None:
            states["planted"] = apply(self._symmetry, second, invert_units(self._symmetry, planted))
        found: dict[str, list[tuple[Any, ...]]] = {"lines": [], "matches": []}
        points = line(self._config.points)
        for state, theta in states.items():
            between = (first + points[:, None] * (theta - first)).astype(np.float32)
            between[-1] = theta
            networks = {state: between}
            if self._repair is not None and state in REPAIRED:
                networks[REPAIRED[state]] = self._repair.line(first, theta, points, between)
            for version, rows in product(networks, self._rows):
                scores = _scores(self._predict(networks[version], rows.x), rows.y)
                found["lines"] += [
                    (*key, version, rows.name, *map(float, values)) for values in zip(points, *scores, strict=True)
                ]
            matched = units if state == "as_trained" else self._match(first, theta[None])[0]
            found["matches"].append(self._matched(key, state, 1.0, count, matched, first, theta))
            if self._config.surface and state != "planted":
                inside = zip(points[1:-1], between[1:-1], self._match(first, between[1:-1]), strict=True)
                found["matches"] += [
                    self._matched(key, state, float(x), count, permuted, first, w) for x, w, permuted in inside
                ]
        return found

    def _match(self, first: np.ndarray, networks: np.ndarray) -> np.ndarray:
        """Permutations [m, units] that bring networks [m, P] near the first [P]."""
        return match_networks(self._features, first, networks).units

    def _planted(self, key: tuple[int, int, int]) -> tuple[np.ndarray | None, int | None]:
        """The permutation by which the second chain started as a copy of the first, and its NoT."""
        first, second, _ = key
        if self._copied is None or first % 2 or second != first + 1:
            return None, None
        planted = self._copied(second)
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
    """Number of transpositions of permutations [units], summed over the groups."""
    return int(sum(transpositions(part) for part in symmetry.split(units)))


def _scores(prediction: Predictive, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean negative log-likelihood [b] of targets y [n], and error rate or root mean square error [b]."""
    if prediction.log_probs is not None:
        log_probs = np.asarray(prediction.log_probs)
        of_label = log_probs[:, np.arange(len(y)), y].astype(np.float64)
        return -of_label.mean(axis=1), (log_probs.argmax(axis=2) != y).mean(axis=1)
    mean, scale = (np.asarray(leaf, np.float64) for leaf in (prediction.mean, prediction.scale))
    residual = y - mean
    density = -0.5 * (residual / scale) ** 2 - np.log(scale) - 0.5 * np.log(2 * np.pi)
    return -density.mean(axis=1), np.sqrt((residual**2).mean(axis=1))
