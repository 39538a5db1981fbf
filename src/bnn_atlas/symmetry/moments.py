"""Moments of draws that come in batches, for all four variants of an alignment at once.

These are the mean, variance, variance within chains, a factor of the covariance, and the values of some parameters.
"""

from collections.abc import Callable, Iterator

import numpy as np

from bnn_atlas.symmetry.frame import VARIANTS
from bnn_atlas.symmetry.groups import InnerGroup, Symmetry
from bnn_atlas.symmetry.permutation import transform, view_of

BLOCK = 1 << 13
"""Parameters that are computed together, so that the values of a batch stay in the caches."""


def _blocks(size: int) -> Iterator[slice]:
    for start in range(0, size, BLOCK):
        yield slice(start, min(start + BLOCK, size))


class Moments:
    """Mean and sum of squared deviations [P] of rows, added in batches (Chan, Golub and LeVeque 1979), in float64."""

    def __init__(self, size: int) -> None:
        self.count = 0
        self.mean = np.zeros(size)
        self.squares = np.zeros(size)

    def add(self, rows: np.ndarray) -> None:
        """Add rows [m, P]."""
        if len(rows):
            mean, squares = np.empty_like(self.mean), np.empty_like(self.mean)
            for part in _blocks(rows.shape[1]):
                values = rows[:, part].astype(np.float64)
                mean[part] = values.mean(axis=0)
                values -= mean[part]
                squares[part] = (values * values).sum(axis=0)
            self.merge(len(rows), mean, squares)

    def merge(self, count: int, mean: np.ndarray, squares: np.ndarray) -> None:
        """Add `count` rows, given their mean and sum of squared deviations."""
        total = self.count + count
        for part in _blocks(len(mean)):
            shift = mean[part] - self.mean[part]
            self.mean[part] += shift * (count / total)
            self.squares[part] += squares[part] + shift**2 * (self.count * count / total)
        self.count = total

    @property
    def variance(self) -> np.ndarray:
        """Unbiased variance [P]; NaN for fewer than two rows."""
        return self.squares / (self.count - 1) if self.count > 1 else np.full_like(self.mean, np.nan)


class ChainMoments:
    """Moments of all draws and within chains, for chains that are added one at a time."""

    def __init__(self, size: int, whole: Callable[[int, Moments], None] | None = None) -> None:
        """`whole` is called with the number and the moments of each chain, when all its draws have been added."""
        self.pooled, self.chain = Moments(size), Moments(size)
        self.within = np.zeros(size)
        self.chains = 0
        self._current: int | None = None
        self._whole = whole

    def add(self, chain: int, rows: np.ndarray) -> None:
        """Add rows [m, P] of a chain."""
        if chain != self._current:
            self._finish()
            self._current = chain
        self.chain.add(rows)

    def add_whole(self, moments: Moments) -> None:
        """Add a chain by its moments."""
        self.pooled.merge(moments.count, moments.mean, moments.squares)
        if moments.count > 1:
            self.within += moments.variance
            self.chains += 1

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
            self.add_whole(self.chain)
            if self._whole is not None and self._current is not None:
                self._whole(self._current, self.chain)
            self.chain.count = 0
            self.chain.mean[:], self.chain.squares[:] = 0, 0


PARTS = ("mean", "squares")
PIECE = 256
"""Rows that enter a factor together."""


class Factor:
    """A factor F [r, P] of the scatter of rows around their mean, F'F = sum (x - mean)(x - mean)', of rank at most r.

    Rows are added in batches: the factor so far, the centred batch and the shift of the mean are reduced to their r
    largest singular values (Ross et al. 2008), which is exact as long as there are no more than r. The factor is held
    in the precision of the rows; products are taken in float64, over a few thousand parameters at a time.
    """

    def __init__(self, size: int, rank: int) -> None:
        self.rank, self.count = rank, 0
        self.mean = np.zeros(size)
        self.rows = np.zeros((0, size), np.float32)

    def add(self, rows: np.ndarray) -> None:
        """Add rows [m, P], in pieces so that the matrix of inner products stays small."""
        for start in range(0, len(rows), PIECE):
            self._add(rows[start : start + PIECE])

    def _add(self, rows: np.ndarray) -> None:
        count, there = len(rows), len(self.rows)
        total = self.count + count
        mean = np.empty_like(self.mean)
        for part in _blocks(len(mean)):
            mean[part] = rows[:, part].mean(axis=0, dtype=np.float64)
        share = np.sqrt(self.count * count / total)

        def stacked(part: slice) -> np.ndarray:
            old, new = self.rows[:, part], rows[:, part] - mean[part]
            return np.concatenate([old, new, share * (mean[part] - self.mean[part])[None]])

        products = np.zeros((there + count + 1,) * 2)
        for part in _blocks(len(mean)):
            block = stacked(part)
            products += block @ block.T
        values, vectors = np.linalg.eigh(products)
        order = np.argsort(values)[::-1][: self.rank]
        largest = max(float(values.max()), 0.0)
        order = order[values[order] > 1e-12 * largest] if largest else order[:0]
        kind = np.result_type(self.rows, rows.dtype)
        found = (
            self.rows if self.rows.dtype == kind and len(order) == there else np.empty((len(order), len(mean)), kind)
        )
        chosen = np.ascontiguousarray(vectors[:, order].T)
        for part in _blocks(len(mean)):
            found[:, part] = chosen @ stacked(part)
        self.rows = found
        self.mean += (mean - self.mean) * (count / total)
        self.count = total

    def covariance_factor(self) -> np.ndarray:
        """B [r, P] with B'B the unbiased covariance of the rows, or its part of rank r."""
        return self.rows / self.rows.dtype.type(np.sqrt(max(1, self.count - 1)))


MOST_COLUMNS, COLUMN_VALUES = 1000, 4_000_000
"""Largest number of parameters, and of values of each variant, that are kept for R-hat and marginals."""


ChainWise = tuple[np.ndarray, np.ndarray | None]
"""Permutation and signs [units] of a chain; no signs if they are not matched."""


class Variants:
    """Moments of each variant, a factor of the covariance of the aligned draws, and values of some parameters.

    A chain that is permuted as a whole has the moments of the chain as sampled, permuted, so that its draws are only
    permuted where their values are kept.
    """

    def __init__(
        self, symmetry: Symmetry, chains: int, draws: int, rank: int, chain_wise: Callable[[int], ChainWise]
    ) -> None:
        """`chain_wise` is the permutation of a chain, by its position."""
        size = symmetry.layout.size
        self.columns = _chosen(symmetry, max(1, COLUMN_VALUES // (chains * draws)))
        self.moments = {variant: ChainMoments(size) for variant in VARIANTS}
        self.moments["sampled"] = ChainMoments(size, self._chain_is_whole)
        self.factor = Factor(size, rank)
        self.values = {v: np.full((chains, draws, len(self.columns)), np.nan, np.float32) for v in VARIANTS}
        self._symmetry, self._chain_wise = symmetry, chain_wise
        self._taken: tuple[int, np.ndarray, np.ndarray] | None = None

    def add(self, chain: int, numbers: list[int], draws: dict[str, np.ndarray]) -> None:
        """Add these draws [m, P] of a chain: as sampled, aligned and scrambled."""
        for variant, theta in draws.items():
            self.moments[variant].add(chain, theta)
            self.values[variant][chain, numbers] = theta[:, self.columns]
        if self._taken is None or self._taken[0] != chain:
            self._taken = (chain, *self._source(self._chain_wise(chain)))
        _, places, signs = self._taken
        self.values["chain_wise"][chain, numbers] = draws["sampled"][:, places] * signs
        self.factor.add(draws["aligned"])

    def _source(self, chain_wise: ChainWise) -> tuple[np.ndarray, np.ndarray]:
        """Where the kept parameters [q] come from in a chain as sampled, and their signs [q]."""
        units, signs = chain_wise
        size = self._symmetry.layout.size
        places = transform(self._symmetry, np.arange(size), units)[self.columns]
        flips = transform(self._symmetry, np.ones(size, np.int8), self._symmetry.identity, signs)[self.columns]
        return places, flips.astype(np.float32)

    def _chain_is_whole(self, chain: int, moments: Moments) -> None:
        units, signs = self._chain_wise(chain)
        moved = Moments(0)
        moved.count = moments.count
        moved.mean = transform(self._symmetry, moments.mean, units, signs)
        moved.squares = transform(self._symmetry, moments.squares, units)
        self.moments["chain_wise"].add_whole(moved)

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
        for variant in VARIANTS:
            mean, variance, within = self.moments[variant].finish()
            found[f"{variant}_mean"] = mean
            found[f"{variant}_sd"] = np.sqrt(variance).astype(np.float32)
            found[f"{variant}_within_sd"] = np.sqrt(within).astype(np.float32)
            del self.moments[variant], mean, variance, within
        return found


def touched(symmetry: Symmetry, smallest: int = 2) -> np.ndarray:
    """Which parameters [P] belong to units of groups of at least this size; two units can be permuted."""
    moved = np.zeros((1, symmetry.layout.size), dtype=bool)
    for group in symmetry.groups:
        # The places of units inside other units are also those of the outer units.
        for place in group.places if group.size >= smallest and not isinstance(group, InnerGroup) else ():
            along = view_of(symmetry, place, moved)
            along[:, place.start : place.start + place.blocks * group.size * place.inner] = True
    return moved[0]


def _chosen(symmetry: Symmetry, most: int) -> np.ndarray:
    """Positions [q] of some parameters that permutations can move, evenly spread."""
    there = np.flatnonzero(touched(symmetry))
    count = min(MOST_COLUMNS, most, len(there))
    return there[np.unique(np.linspace(0, len(there) - 1, count).round().astype(np.intp))]
