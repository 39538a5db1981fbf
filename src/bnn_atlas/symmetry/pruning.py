"""Pruning: orders in which parameters are set to 0, the pruned networks, and their accuracies as metrics."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from bnn_atlas.config.parts.evaluation import PruningConfig
from bnn_atlas.data import DataError
from bnn_atlas.metrics.tables.measurement import Measurement
from bnn_atlas.metrics.tables.parquet import PRUNING_SCHEMA
from bnn_atlas.symmetry.frame import Frame, load_frame
from bnn_atlas.symmetry.groups import Symmetry
from bnn_atlas.symmetry.permutation import transform
from bnn_atlas.traces.pool import open_pool


def pruned(theta: np.ndarray, rank: np.ndarray, kept: Sequence[float]) -> np.ndarray:
    """Networks [k, P] that keep the parameters of theta [P] with the smallest `rank` [P]; the others are 0.

    Of P parameters, int(P kept / 100) are kept, as in the published code; the position in theta breaks ties. Raises
    ValueError for ranks that are not finite.
    """
    if not np.isfinite(rank).all():
        raise ValueError(f"{(~np.isfinite(rank)).sum():,} of {rank.size:,} parameters have no rank")
    order = np.argsort(rank, kind="stable")
    networks = np.zeros((len(kept), theta.size), theta.dtype)
    for network, percent in zip(networks, kept, strict=True):
        stays = order[: int(theta.size * percent / 100)]
        network[stays] = theta[stays]
    return networks


def by_sd(sd: np.ndarray) -> np.ndarray:
    """Ranks by which the largest standard deviation is pruned first (Xiao et al. 2023)."""
    return sd


def by_signal_to_noise(theta: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """The smallest |theta| / sd is pruned first (Graves 2011; Blundell et al. 2015); parameters without spread last."""
    last = np.full(theta.shape, np.finfo(np.float64).max)
    return -np.divide(np.abs(theta), sd, out=last, where=sd > 0, dtype=np.float64)


def by_magnitude(theta: np.ndarray) -> np.ndarray:
    """Ranks by which the smallest |theta| is pruned first."""
    return -np.abs(theta)


def by_chance(generator: np.random.Generator, size: int) -> np.ndarray:
    """Ranks for a uniformly random order."""
    return generator.permutation(size).astype(np.float64)


def by_prior_sd(generator: np.random.Generator, size: int, draws: int) -> np.ndarray:
    """Ranks for an uninformative order: sds s of n draws from one normal prior, s^2 (n - 1) ~ chi^2_(n - 1)."""
    return np.sqrt(generator.chisquare(draws - 1, size))


HEADLINE = (50.0, 20.0, 10.0)
"""Percentages of kept parameters in the metric table; the table of the curves has all percentages."""


def pruning_measurements(curves: pd.DataFrame) -> list[Measurement]:
    """Accuracy at the headline percentages, mean over repeated orders, with its standard error.

    For n random orders with accuracies of sd s, and mean squared errors e^2 over the same rows, the error is
    sqrt(e^2 + s^2 / n). `curves` has the schema `parquet.PRUNING_SCHEMA`. `at` is `<network> <of> by <rank>, <kept> %
    kept`, possibly with `, dead inputs removed`.
    """
    found = []
    shown = curves[curves["kept"].isin(HEADLINE)]
    for (network, of, rank, dead, kept), part in shown.groupby(
        ["network", "of", "rank", "dead_inputs", "kept"], sort=False
    ):
        at = f"{network} {of} by {rank}, {kept:g} % kept" + (", dead inputs removed" if dead == "removed" else "")
        note = f"mean of {len(part)} orders" if len(part) > 1 else ""
        value, of_rows = float(part["accuracy"].mean()), float((part["standard_error"] ** 2).mean())
        of_orders = float(part["accuracy"].var(ddof=1)) / len(part) if len(part) > 1 else 0.0
        error = float(np.sqrt(of_rows + of_orders))
        found.append(Measurement("accuracy_pruned", value, error, note, at=at, over="rows"))
    return found


class Network(NamedTuple):
    """A network to prune, with its run and a description."""

    name: str
    of: str
    """`mean` of the aligned draws, `mean as sampled`, or the last `draw`, aligned."""
    theta: np.ndarray
    """[P]."""


class Rank(NamedTuple):
    """A pruning order; the parameter with the largest value is pruned first."""

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
    """Mean and sd of the draws as sampled; None for a fitted Gaussian, which has only one order of units."""
    draw: np.ndarray


Score = Callable[[np.ndarray], Sequence[tuple[float, float, float]]]
"""Networks [k, P] -> accuracy, its standard error over rows, and mean loss of each."""


def pruning_curves(
    sources: Sequence[Source], config: PruningConfig, live: np.ndarray | None, score: Score, seed: int
) -> pd.DataFrame:
    """Accuracies of the networks of all sources, pruned in every order (`parquet.PRUNING_SCHEMA`).

    With `live` [P], the parameters that are not weights of dead inputs, all curves are repeated with the weights of
    dead inputs set to 0 beforehand; percentages then refer to the live parameters.
    """
    rows = []
    for dead, kept in (("kept", np.ones(sources[0].mean.size, bool)), ("removed", live)):
        if kept is None:
            continue
        for network, rank in _jobs(sources, config, seed):
            networks = np.zeros((len(config.kept), kept.size), np.float32)
            networks[:, kept] = pruned(network.theta[kept], rank.values[kept], config.kept)
            for percent, theta, scores in zip(config.kept, networks, score(networks), strict=True):
                facts = (network.name, network.of, rank.name, rank.repeat, dead, float(percent))
                rows.append((*facts, int(np.count_nonzero(theta)), *scores))
    return pd.DataFrame(rows, columns=PRUNING_SCHEMA.names)


def accuracies(log_probs: np.ndarray, y: np.ndarray) -> list[tuple[float, float, float]]:
    """Accuracy, its standard error over rows, and mean loss of networks, from log probabilities [b, n, k] and y [n]."""
    correct = log_probs.argmax(axis=2) == y
    loss = -log_probs[:, np.arange(len(y)), y].astype(np.float64).mean(axis=1)
    share = correct.mean(axis=1)
    error = np.sqrt(share * (1 - share) / len(y))
    return [(float(a), float(b), float(c)) for a, b, c in zip(share, error, loss, strict=True)]


def read_source(name: str, frame: str | Path, pool: str | Path, symmetry: Symmetry) -> Source:
    """A source from an alignment's frame and the pool of its draws; DataError if they do not belong together."""
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
        raise DataError(f"{frame}: this frame does not belong to the draws of {pool}; align them again")
    raw = draws.read(*places)[0, 0]
    draw = transform(symmetry, raw, found.units[chain, number], found.signs[chain, number])
    count = int(found.finite.sum())
    fitted = _fitted(found)
    if fitted is not None:
        return Source(name, *fitted, count, None, draw)
    sampled = found.moment("sampled", "mean"), found.moment("sampled", "sd")
    return Source(name, found.mean, found.moment("aligned", "sd"), count, sampled, draw)


def _fitted(frame: Frame) -> tuple[np.ndarray, np.ndarray] | None:
    """Mean and sd fitted by the first chain of an approximation."""
    if frame.fit_mean is None or frame.fit_sd is None:
        return None
    return frame.fit_mean[0], frame.fit_sd[0]


def _jobs(sources: Sequence[Source], config: PruningConfig, seed: int) -> Iterator[tuple[Network, Rank]]:
    """Every network with every order in which it is pruned."""
    sds = [Rank(f"sd of {source.name}", 0, by_sd(source.sd)) for source in sources]
    for number, source in enumerate(sources):
        mean = Network(source.name, "mean", source.mean)
        own = [*sds, Rank("signal to noise", 0, by_signal_to_noise(source.mean, source.sd))]
        for rank in (*own, Rank("magnitude", 0, by_magnitude(source.mean))):
            yield mean, rank
        for repeat in range(config.repeats):
            generator = np.random.default_rng([seed, number, repeat])
            yield mean, Rank("random", repeat, by_chance(generator, source.mean.size))
            draws = max(2, source.draws)
            yield mean, Rank("sd of prior draws", repeat, by_prior_sd(generator, source.mean.size, draws))
        if source.sampled is not None:
            unaligned, sd = source.sampled
            yield Network(source.name, "mean as sampled", unaligned), Rank("its own sd", 0, by_sd(sd))
        for rank in (*sds, Rank("magnitude", 0, by_magnitude(source.draw))):
            yield Network(source.name, "draw", source.draw), rank
