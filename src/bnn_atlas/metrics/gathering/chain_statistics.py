"""Statistics that a method reports with every draw: summaries by chain, and courses over the draws in a few points.

Statistics are read a few whole chains at a time, so memory does not grow with chains x draws. If a method does not
report a statistic, its columns stay empty.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from bnn_atlas.traces.draws import Draws

if TYPE_CHECKING:
    import pandas


LOG_DENSITIES = ("log_likelihood", "log_prior")
"""Untempered; their sum is the log posterior up to a constant."""
WORKING_COPIES = 6
"""Number of float64 copies of a statistic in memory while it is summarised."""


def by_chains(pool: Draws, names: tuple[str, ...], max_bytes: int) -> Iterator[tuple[slice, np.ndarray]]:
    """The sum of the named statistics as float64 [c, S], for a group of whole chains at a time."""
    size = max(1, max_bytes // (WORKING_COPIES * 8 * pool.draws))
    for start in range(0, pool.chains, size):
        chains = slice(start, min(start + size, pool.chains))
        total = np.zeros((chains.stop - chains.start, pool.draws))
        for name in names:
            total += pool.statistic(name, chains)
        yield chains, total


def stuck_chains(pool: Draws, max_bytes: int) -> np.ndarray:
    """Whether each chain [C] never moved: its log-likelihood never changed."""
    stuck = np.zeros(pool.chains, dtype=bool)
    if pool.draws < 2 or LOG_DENSITIES[0] not in pool.statistics:
        return stuck
    for chains, values in by_chains(pool, LOG_DENSITIES[:1], max_bytes):
        stuck[chains] = np.ptp(values, axis=1) == 0
    return stuck


ENERGY_CHANGE = "energy_change"
"""Energy change of the last step before a draw was kept."""
ENERGY_CHANGE_SQUARED = "energy_change_squared"
"""Squared energy change, averaged over all steps since the previous draw."""
ACCEPTANCE = "acceptance"
"""Acceptance probability, averaged over the steps since the previous draw."""
CUT_SHORT = "cut_short"
"""Fraction of the transitions since the previous draw whose trajectory was ended by the limit on its steps."""
DIVERGENT = "divergent"
"""Number of divergent steps since the previous draw."""
GUARDED = "guarded"
"""Number of steps since the previous draw that the energy guard undid."""
STEP_SIZE = "step_size"
"""Step size of the last step before a draw was kept."""
GRADIENTS = "gradients"
"""Gradient evaluations since the previous draw."""
LINES = 20
"""Largest number of chains that are drawn as lines."""
KNOWN = (ENERGY_CHANGE, ENERGY_CHANGE_SQUARED, ACCEPTANCE, CUT_SHORT, DIVERGENT, GUARDED, STEP_SIZE, GRADIENTS)
COURSES = ("log_posterior", ENERGY_CHANGE, ACCEPTANCE, DIVERGENT, STEP_SIZE)

_NUMBERS = (
    "log_posterior_mean", "log_posterior_sd", "acceptance_mean", "cut_short_share", "divergences", "guarded",
    "energy_change_mean", "energy_change_sd", "energy_change_max_abs", "energy_change_nonfinite",
    "energy_change_mean_square", "energy_change_mean_square_nonfinite", "step_size_min", "step_size_median",
    "step_size_max", "gradients",
)  # fmt: skip


class Course(NamedTuple):
    """A statistic of C chains over the draws, in B bins of neighbouring draws; NaN in a bin without a finite value."""

    edges: np.ndarray
    """[B + 1] index of the first draw of each bin, followed by the number of draws."""
    mean: np.ndarray
    """[C, B] over the finite values of a bin."""
    low: np.ndarray
    high: np.ndarray
    """[C, B], or no columns if chains will not be drawn individually."""

    @classmethod
    def empty(cls, chains: int, edges: np.ndarray) -> Self:
        """A course of `chains` chains, all NaN."""
        shape = (chains, len(edges) - 1)
        extremes = shape if chains <= LINES else (chains, 0)
        return cls(edges, np.full(shape, np.nan), np.full(extremes, np.nan), np.full(extremes, np.nan))

    def fill(self, chains: slice, values: np.ndarray) -> None:
        """Set some chains from their values [c, S]."""
        finite, starts = np.isfinite(values), self.edges[:-1]
        defined = np.where(finite, values, np.nan)
        count = np.add.reduceat(finite, starts, axis=1, dtype=np.int64)
        total = np.add.reduceat(np.where(finite, values, 0.0), starts, axis=1)
        self.mean[chains] = np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
        if self.low.shape[1]:
            self.low[chains] = np.fmin.reduceat(defined, starts, axis=1)
            self.high[chains] = np.fmax.reduceat(defined, starts, axis=1)

    @property
    def centres(self) -> np.ndarray:
        """[B] middle of each bin, with draws counted from 1."""
        return (self.edges[:-1] + self.edges[1:] + 1) / 2

    def totals(self) -> np.ndarray:
        """[C, B] sum over the draws of a bin, with values that are not finite replaced by the mean of the bin."""
        return self.mean * np.diff(self.edges)


class ChainStatistics(NamedTuple):
    """Summaries of C chains."""

    chains: "pandas.DataFrame"
    """SAMPLER_SCHEMA without `excluded`, in chain order."""
    courses: dict[str, Course]
    """Name in COURSES -> course over the draws; only statistics that the sampler reports."""


def summarise_statistics(pool: Draws, max_bytes: int, points: int) -> ChainStatistics:
    """Read every known statistic once; return a summary for each chain and a course in up to `points` bins."""
    import pandas  # slow to import, and predictions need this module too

    edges = bin_edges(pool.draws, points)
    columns = {name: np.full(pool.chains, np.nan) for name in _NUMBERS}
    courses: dict[str, Course] = {}
    for name in ("log_posterior", *KNOWN):
        sources = LOG_DENSITIES if name == "log_posterior" else (name,)
        if not set(sources) <= set(pool.statistics):
            continue
        if name in COURSES:
            courses[name] = Course.empty(pool.chains, edges)
        for chains, values in by_chains(pool, sources, max_bytes):
            for column, numbers in _summary(name, values).items():
                columns[column][chains] = numbers
            if name in COURSES:
                courses[name].fill(chains, values)
    frame = pandas.DataFrame({"chain": np.arange(pool.chains), **columns})
    return ChainStatistics(frame, courses)


def bin_edges(draws: int, points: int) -> np.ndarray:
    """Edges of at most `points` equally wide bins of neighbouring draws; the last bin may be shorter."""
    width = -(-draws // points)
    return np.append(np.arange(0, draws, width), draws)


def _summary(name: str, values: np.ndarray) -> dict[str, np.ndarray]:
    """Columns of a group of chains from a statistic's values [c, S]; values that are not finite are left out."""
    finite = np.isfinite(values)
    count = finite.sum(axis=1)
    mean, deviation = _moments(values, finite, count)
    if name == "log_posterior":
        return {"log_posterior_mean": mean, "log_posterior_sd": deviation}
    if name == ENERGY_CHANGE:
        largest = np.max(np.abs(values), axis=1, where=finite, initial=-np.inf)
        return {
            "energy_change_mean": mean,
            "energy_change_sd": deviation,
            "energy_change_max_abs": np.where(count > 0, largest, np.nan),
            "energy_change_nonfinite": values.shape[1] - count,
        }
    if name == ENERGY_CHANGE_SQUARED:
        missing = values.shape[1] - count
        return {"energy_change_mean_square": mean, "energy_change_mean_square_nonfinite": missing}
    if name == ACCEPTANCE:
        return {"acceptance_mean": mean}
    if name == CUT_SHORT:
        return {"cut_short_share": mean}
    if name == STEP_SIZE:
        low = np.min(values, axis=1, where=finite, initial=np.inf)
        high = np.max(values, axis=1, where=finite, initial=-np.inf)
        middle = np.array(
            [np.median(row[good]) if good.any() else np.nan for row, good in zip(values, finite, strict=True)]
        )
        defined = count > 0
        return {
            "step_size_min": np.where(defined, low, np.nan),
            "step_size_median": middle,
            "step_size_max": np.where(defined, high, np.nan),
        }
    return {"divergences" if name == DIVERGENT else name: values.sum(axis=1)}


def _moments(values: np.ndarray, finite: np.ndarray, count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation (ddof = 1) of the finite values of each row; NaN for too few finite values."""
    undefined = np.full(len(values), np.nan)
    mean = np.divide(np.sum(values, axis=1, where=finite), count, out=undefined.copy(), where=count > 0)
    squares = np.sum((np.where(finite, values, 0.0) - mean[:, None]) ** 2, axis=1, where=finite)
    variance = np.divide(squares, count - 1, out=undefined, where=count > 1)
    return mean, np.sqrt(variance)
