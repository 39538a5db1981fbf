"""Moments of draws that come in batches, for all four variants of an alignment at once.

These are the mean, variance, variance within chains, a factor of the covariance, and the values of some parameters.
"""

import numpy as np

from bnn_atlas.symmetry.frame import VARIANTS
from bnn_atlas.symmetry.groups import Symmetry
from bnn_atlas.symmetry.permutation import view_of


class Moments:
    """Mean and sum of squared deviations [P] of rows, added in batches (Chan, Golub and LeVeque 1979), in float64."""

    def __init__(self, size: int) -> None:
        self.count = 0
        self.mean = np.zeros(size)
        self.squares = np.zeros(size)

    def add(self, rows: np.ndarray) -> None:
        """Add rows [m, P]."""
        if len(rows):
            mean = rows.mean(axis=0, dtype=np.float64)
            self.merge(len(rows), mean, ((rows - mean) ** 2).sum(axis=0))

    def merge(self, count: int, mean: np.ndarray, squares: np.ndarray) -> None:
        """Add `count` rows, given their mean and sum of squared deviations."""
        total = self.count + count
        shift = mean - self.mean
        self.mean += shift * (count / total)
        self.squares += squares + shift**2 * (self.count * count / total)
        self.count = total

    @property
    def variance(self) -> np.ndarray:
        """Unbiased variance [P]; NaN for fewer than two rows."""
        return self.squares / (self.count - 1) if self.count > 1 else np.full_like(self.mean, np.nan)


class ChainMoments:
    """Moments of all draws and within chains, for chains that are added one at a time."""

    def __init__(self, size: int) -> None:
        self.pooled, self.chain = Moments(size), Moments(size)
        self.within = np.zeros(size)
        self.chains = 0
        self._current: int | None = None

    def add(self, chain: int, rows: np.ndarray) -> None:
        """Add rows [m, P] of a chain."""
        if chain != self._current:
            self._finish()
            self._current = chain
        self.chain.add(rows)

    def finish(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean, variance, and mean of the variances within chains [P]; NaN for too few draws."""
        self._finish()
        self._current = None
        within = self.within / self.chains if self.chains else np.full_like(self.within, np.nan)
        return self.pooled.mean, self.pooled.variance, within

    def arrays(self) -> dict[str, np.ndarray]:
        """The state, for a checkpoint."""
        counts = [self.pooled.count, self.chain.count, self.chains, -1 if self._current is None else self._current]
        kept = {f"{name}_{part}": getattr(getattr(self, name), part) for name in ("pooled", "chain") for part in PARTS}
        return {"counts": np.array(counts), "within": self.within, **kept}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Continue from a checkpoint."""
        self.pooled.count, self.chain.count, self.chains, current = (int(number) for number in arrays["counts"])
        self._current = None if current < 0 else current
        self.within = arrays["within"].copy()
        for name in ("pooled", "chain"):
            for part in PARTS:
                setattr(getattr(self, name), part, arrays[f"{name}_{part}"].copy())

    def _finish(self) -> None:
        if self.chain.count:
            self.pooled.merge(self.chain.count, self.chain.mean, self.chain.squares)
        if self.chain.count > 1:
            self.within += self.chain.variance
            self.chains += 1
        self.chain = Moments(len(self.within))


PARTS = ("mean", "squares")
PIECE = 256
"""Rows that enter a factor together."""


class Factor:
    """A factor F [r, P] of the scatter of rows around their mean, F'F = sum (x - mean)(x - mean)', of rank at most r.

    Rows are added in batches: the factor so far, the centred batch and the shift of the mean are reduced to their r
    largest singular values (Ross et al. 2008), which is exact as long as there are no more than r.
    """

    def __init__(self, size: int, rank: int) -> None:
        self.rank, self.count = rank, 0
        self.mean = np.zeros(size)
        self.rows = np.zeros((0, size))

    def add(self, rows: np.ndarray) -> None:
        """Add rows [m, P], in pieces so that the matrix of inner products stays small."""
        for start in range(0, len(rows), PIECE):
            self._add(rows[start : start + PIECE])

    def _add(self, rows: np.ndarray) -> None:
        count = len(rows)
        mean = rows.mean(axis=0, dtype=np.float64)
        shift = (mean - self.mean) * np.sqrt(self.count * count / (self.count + count))
        stacked = np.concatenate([self.rows, rows - mean, shift[None]])
        values, vectors = np.linalg.eigh(stacked @ stacked.T)
        order = np.argsort(values)[::-1][: self.rank]
        largest = max(float(values.max()), 0.0)
        order = order[values[order] > 1e-12 * largest] if largest else order[:0]
        self.rows = vectors[:, order].T @ stacked
        self.mean += (mean - self.mean) * (count / (self.count + count))
        self.count += count

    def covariance_factor(self) -> np.ndarray:
        """B [r, P] with B'B the unbiased covariance of the rows, or its part of rank r."""
        return self.rows / np.sqrt(max(1, self.count - 1))


MOST_COLUMNS, COLUMN_VALUES = 1000, 4_000_000
"""Largest number of parameters, and of values of each variant, that are kept for R-hat and marginals."""


class Variants:
    """Moments of each variant, a factor of the covariance of the aligned draws, and values of some parameters."""

    def __init__(self, symmetry: Symmetry, chains: int, draws: int, rank: int) -> None:
        size = symmetry.layout.size
        self.columns = _chosen(symmetry, max(1, COLUMN_VALUES // (chains * draws)))
        self.moments = {variant: ChainMoments(size) for variant in VARIANTS}
        self.factor = Factor(size, rank)
        self.values = {v: np.full((chains, draws, len(self.columns)), np.nan, np.float32) for v in VARIANTS}

    def add(self, chain: int, numbers: list[int], draws: dict[str, np.ndarray]) -> None:
        """Add these draws [m, P] of a chain, in all variants."""
        for variant, theta in draws.items():
            self.moments[variant].add(chain, theta)
            self.values[variant][chain, numbers] = theta[:, self.columns]
        self.factor.add(draws["aligned"])

    def arrays(self) -> dict[str, np.ndarray]:
        """The whole state, for a checkpoint."""
        found = {f"values:{variant}": array for variant, array in self.values.items()}
        for variant, moments in self.moments.items():
            found |= {f"{variant}:{name}": array for name, array in moments.arrays().items()}
        factor = self.factor
        return {**found, "factor:count": np.array(factor.count), "factor:mean": factor.mean, "factor:rows": factor.rows}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Continue from a checkpoint."""
        for variant, moments in self.moments.items():
            self.values[variant] = arrays[f"values:{variant}"]
            moments.restore({name: arrays[f"{variant}:{name}"] for name in moments.arrays()})
        self.factor.count = int(arrays["factor:count"])
        self.factor.mean, self.factor.rows = arrays["factor:mean"], arrays["factor:rows"]

    def results(self) -> dict[str, np.ndarray]:
        """`<variant>_<moment>` -> its values [P] over all draws that were added."""
        found = {}
        for variant, moments in self.moments.items():
            mean, variance, within = moments.finish()
            found[f"{variant}_mean"] = mean
            found[f"{variant}_sd"] = np.sqrt(variance).astype(np.float32)
            found[f"{variant}_within_sd"] = np.sqrt(within).astype(np.float32)
        return found


def touched(symmetry: Symmetry) -> np.ndarray:
    """Which parameters [P] permutations can move."""
    moved = np.zeros((1, symmetry.layout.size), dtype=bool)
    for group in symmetry.groups:
        for place in group.places if group.size > 1 else ():
            along = view_of(symmetry, place, moved)
            along[:, place.start : place.start + place.blocks * group.size * place.inner] = True
    return moved[0]


def _chosen(symmetry: Symmetry, most: int) -> np.ndarray:
    """Positions [q] of some parameters that permutations can move, evenly spread."""
    there = np.flatnonzero(touched(symmetry))
    count = min(MOST_COLUMNS, most, len(there))
    return there[np.unique(np.linspace(0, len(there) - 1, count).round().astype(np.intp))]
