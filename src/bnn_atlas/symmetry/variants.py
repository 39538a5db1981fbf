"""The draws of a run in four frames at once: moments of all parameters, and the values of some."""

import numpy as np

from bnn_atlas.symmetry.frame import VARIANTS
from bnn_atlas.symmetry.freedoms import view_of
from bnn_atlas.symmetry.groups import Symmetry
from bnn_atlas.symmetry.moments import ChainMoments, Factor

MOST_COLUMNS, COLUMN_VALUES = 1000, 4_000_000
"""Parameters whose values are kept for R-hat and marginals, and values that are kept of each variant, at most."""


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
        """All that it holds, for a checkpoint."""
        found = {f"values:{variant}": array for variant, array in self.values.items()}
        for variant, moments in self.moments.items():
            found |= {f"{variant}:{name}": array for name, array in moments.arrays().items()}
        factor = self.factor
        return {**found, "factor:count": np.array(factor.count), "factor:mean": factor.mean, "factor:rows": factor.rows}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Go on from a checkpoint."""
        for variant, moments in self.moments.items():
            self.values[variant] = arrays[f"values:{variant}"]
            moments.restore({name: arrays[f"{variant}:{name}"] for name in moments.arrays()})
        self.factor.count = int(arrays["factor:count"])
        self.factor.mean, self.factor.rows = arrays["factor:mean"], arrays["factor:rows"]

    def results(self) -> dict[str, np.ndarray]:
        """`<variant>_<moment>` [P] of all draws that were added."""
        found = {}
        for variant, moments in self.moments.items():
            mean, variance, within = moments.finish()
            found[f"{variant}_mean"] = mean
            found[f"{variant}_sd"] = np.sqrt(variance).astype(np.float32)
            found[f"{variant}_within_sd"] = np.sqrt(within).astype(np.float32)
        return found


def touched(symmetry: Symmetry) -> np.ndarray:
    """Which parameters [P] some permutation moves."""
    moved = np.zeros((1, symmetry.layout.size), dtype=bool)
    for group in symmetry.groups:
        for place in group.places if group.size > 1 else ():
            along = view_of(symmetry, place, moved)
            along[:, place.start : place.start + place.blocks * group.size * place.inner] = True
    return moved[0]


def _chosen(symmetry: Symmetry, most: int) -> np.ndarray:
    """Positions [q] of some parameters that permutations move, evenly spread."""
    there = np.flatnonzero(touched(symmetry))
    count = min(MOST_COLUMNS, most, len(there))
    return there[np.unique(np.linspace(0, len(there) - 1, count).round().astype(np.intp))]
