"""Joint histograms of pairs of parameters, counted while the draws stream by.

Bins are those of `numpy.histogram2d`: n of equal width between the limits, closed below and
open above, the last one closed. Draws outside the limits and draws that are not finite are counted apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np

from bnn_atlas.files import load_arrays, save_arrays
from bnn_atlas.traces.draws import Draws
from bnn_atlas.traces.limits import SCAN_BYTES, Limits, resolve_limits
from bnn_atlas.traces.pairs import Pair
from bnn_atlas.traces.shard import TraceError


@dataclass(frozen=True)
class BivariateGrids:
    """Joint histograms of pairs of parameters.

    `counts` [pair, x bin, y bin]; `limits` [pair, axis, 2]; `outside` and `nonfinite` [pair] are the draws left out;
    `draws` the draws seen.
    """

    x: tuple[str, ...]
    y: tuple[str, ...]
    limits: np.ndarray
    counts: np.ndarray
    outside: np.ndarray
    nonfinite: np.ndarray
    draws: int

    @property
    def bins(self) -> int:
        """Number of bins along each axis."""
        return self.counts.shape[-1]

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The names of each pair."""
        return tuple(zip(self.x, self.y, strict=True))

    def edges(self, pair: int) -> tuple[np.ndarray, np.ndarray]:
        """Bin edges [bins + 1] along x and y of a pair."""
        return _edges(self.limits[pair, 0], self.bins), _edges(self.limits[pair, 1], self.bins)

    def density(self, pair: int) -> np.ndarray:
        """Density [x bin, y bin] of all draws seen: it integrates to the share inside the limits."""
        x, y = self.edges(pair)
        return self.counts[pair] / (self.draws * np.diff(x)[:, None] * np.diff(y))

    def save(self, path: str | Path) -> None:
        """Write an .npz file (atomic)."""
        save_arrays(path, vars(self), compressed=True)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote; TraceError names a file that is damaged or something else."""
        arrays = load_arrays(path, [field.name for field in fields(cls)], TraceError, f"a file of {cls.__name__}")
        values: dict[str, Any] = {**arrays, "draws": int(arrays["draws"])}
        return cls(**values | {axis: tuple(map(str, arrays[axis])) for axis in ("x", "y")})


def bivariate_grids(
    source: Draws,
    pairs: Sequence[Pair] | Sequence[tuple[str, str]],
    *,
    limits: Limits = None,
    bins: int = 200,
    chains: slice | None = None,
    draws: slice | None = None,
    max_bytes: int = SCAN_BYTES,
) -> BivariateGrids:
    """Joint histograms of pairs of scalars in one pass, in memory that does not grow with the draws.

    `pairs` are (x name, y name) or what `layer_pairs` gives; `limits` are one (low, high) for
    all scalars, one per name, or None for `automatic_limits` (a pass more).
    """
    x, y = tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)
    names = tuple(dict.fromkeys((*x, *y)))
    columns = source.locate(names)
    chosen = resolve_limits(source, names, limits, bins, chains, draws, max_bytes)
    place = {name: i for i, name in enumerate(names)}
    counts = np.zeros((len(x), bins * bins), dtype=np.int64)
    outside, nonfinite = np.zeros(len(x), dtype=np.int64), np.zeros(len(x), dtype=np.int64)
    seen = 0
    # Beside a batch stand the bins of its scalars, eight bytes each whatever the type of the draws.
    share = source.dtype.itemsize / (source.dtype.itemsize + 8)
    for _, _, values in source.batches(int(max_bytes * share), chains=chains, draws=draws, parameters=columns):
        flat = values.reshape(-1, len(names))
        seen += len(flat)
        bin_of = [_bin(flat[:, i].astype(np.float64), chosen[i], bins) for i in range(len(names))]
        finite = np.isfinite(flat)
        for k, (a, b) in enumerate(zip(x, y, strict=True)):
            i, j = place[a], place[b]
            inside = (bin_of[i] >= 0) & (bin_of[j] >= 0)
            cell = bin_of[i][inside] * bins + bin_of[j][inside]
            counts[k] += np.bincount(cell, minlength=bins * bins)
            both = int(np.count_nonzero(finite[:, i] & finite[:, j]))
            nonfinite[k] += len(flat) - both
            outside[k] += both - cell.size
    return BivariateGrids(
        x=x,
        y=y,
        limits=np.array([[chosen[place[a]], chosen[place[b]]] for a, b in zip(x, y, strict=True)]).reshape(-1, 2, 2),
        counts=counts.reshape(-1, bins, bins),
        outside=outside,
        nonfinite=nonfinite,
        draws=seen,
    )


def _bin(values: np.ndarray, limits: np.ndarray, bins: int) -> np.ndarray:
    """Bin of each value, -1 outside the limits or where it is not finite."""
    edges = _edges(limits, bins)
    inside = (values >= edges[0]) & (values <= edges[-1])
    safe = np.where(inside, values, edges[0])
    number = ((safe - edges[0]) * (bins / (edges[-1] - edges[0]))).astype(np.int64)
    np.minimum(number, bins - 1, out=number)
    # Rounding can put a value one bin off; the edges themselves decide, as in numpy.histogram.
    number -= safe < edges[number]
    number += (safe >= edges[number + 1]) & (number != bins - 1)
    return np.where(inside, number, -1)


def _edges(limits: np.ndarray, bins: int) -> np.ndarray:
    return np.linspace(limits[0], limits[1], bins + 1)
