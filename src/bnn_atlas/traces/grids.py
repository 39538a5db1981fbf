"""Joint histograms of pairs of parameters, counted in one pass over the draws.

Bins are as in `numpy.histogram2d`: n bins of equal width between the limits, closed below and open above, except that
the last bin is closed. Draws outside the limits and draws that are not finite are counted separately.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations, product
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from bnn_atlas.files import load_arrays, save_arrays
from bnn_atlas.models.layout import Layout, Parameter
from bnn_atlas.traces.draws import Draws
from bnn_atlas.traces.shard import TraceError


class Pair(NamedTuple):
    """Two scalars to plot against each other, and their positions in the network."""

    x: str
    y: str
    role: str
    layer_x: int
    layer_y: int


def layer_pairs(layout: Layout, roles: Sequence[str] = ("weight", "bias"), per_layer: int = 2) -> tuple[Pair, ...]:
    """The pairs of a fireball grid: for each role, every layer against every layer.

    Only the first `per_layer` scalars of an array are used: x is scalar a of layer i, and y is a later scalar b of
    layer j (a = b = 0 if `per_layer` is 1), so that pairs within a layer have two different scalars. By default, these
    are, in a dense layer, the weights [0,0] and [0,1] into the first unit and the biases [0] and [1]. If an array has
    too few scalars, its last scalar is used; a scalar is never paired with itself.
    """
    names = layout.names()
    places = list(combinations(range(per_layer), 2)) or [(0, 0)]
    pairs = []
    for role in roles:
        arrays: dict[int, Parameter] = {}
        for parameter in layout.parameters:
            if parameter.role == role and parameter.layer is not None and parameter.size:
                arrays.setdefault(parameter.layer, parameter)
        for (i, first), (j, second), (a, b) in product(sorted(arrays.items()), sorted(arrays.items()), places):
            x = names[layout.offset(first.name) + min(a, first.size - 1)]
            y = names[layout.offset(second.name) + min(b, second.size - 1)]
            if x != y:
                pairs.append(Pair(x, y, role, i, j))
    return tuple(dict.fromkeys(pairs))


SCAN_BYTES = 32 << 20
QUANTILE, QUANTILE_DRAWS = 0.001, 100_000

Limits = tuple[float, float] | Mapping[str, tuple[float, float]] | None


def automatic_limits(
    source: Draws,
    parameters: Sequence[str],
    *,
    chains: slice | None = None,
    draws: slice | None = None,
    max_bytes: int = SCAN_BYTES,
) -> dict[str, tuple[float, float]]:
    """Limits per scalar from one pass over the finite draws.

    The limits are the quantiles `QUANTILE` and 1 - `QUANTILE` of at most `QUANTILE_DRAWS` evenly spaced draws (but at
    least one per chain), so that a few stray draws do not matter. Limits that are equal up to rounding are moved by 0.5
    in each direction. Raises ValueError for a scalar without finite draws.
    """
    columns = source.locate(parameters)
    chain_idx, draw_idx = range(source.chains)[chains or slice(None)], range(source.draws)[draws or slice(None)]
    if draw_idx:
        per_chain = max(1, QUANTILE_DRAWS // max(1, len(chain_idx)))
        draw_idx = draw_idx[:: -(-len(draw_idx) // per_chain)]
    part = slice(draw_idx.start, draw_idx.stop, draw_idx.step)
    kept = np.empty((len(columns), len(chain_idx) * len(draw_idx)), dtype=source.dtype)
    seen = 0
    for _, _, values in source.batches(max_bytes, chains=chains, draws=part, parameters=columns):
        flat = values.reshape(-1, len(columns))
        kept[:, seen : seen + len(flat)] = flat.T
        seen += len(flat)
    limits = {}
    for i, name in enumerate(parameters):
        finite_draws = kept[i, np.isfinite(kept[i])].astype(np.float64)
        if not finite_draws.size:
            raise ValueError(f"{source.path} has no finite draw of {name}, so there are no automatic limits; give them")
        bounds = np.quantile(finite_draws, [QUANTILE, 1 - QUANTILE])
        spread = 0.5 * (bounds[1] - bounds[0] <= 1e-12 * np.abs(bounds).max())
        limits[name] = (float(bounds[0] - spread), float(bounds[1] + spread))
    return limits


def resolve_limits(
    source: Draws,
    names: tuple[str, ...],
    limits: Limits,
    bins: int,
    chains: slice | None,
    draws: slice | None,
    max_bytes: int,
) -> np.ndarray:
    """Checked limits [name, 2] from one (low, high) for all names, one per name, or None for automatic limits."""
    if limits is None:
        limits = automatic_limits(source, names, chains=chains, draws=draws, max_bytes=max_bytes)
    if isinstance(limits, Mapping):
        absent = [name for name in names if name not in limits]
        if absent:
            raise ValueError(f"no limits are given for {absent[0]}; they are given for {', '.join(limits)}")
        chosen = np.array([limits[name] for name in names], dtype=np.float64)
    else:
        chosen = np.array([limits] * len(names), dtype=np.float64)
    for name, (low, high) in zip(names, chosen.tolist(), strict=True):
        if not (np.isfinite([low, high, high - low]).all() and (np.diff(np.linspace(low, high, bins + 1)) > 0).all()):
            raise ValueError(
                f"the limits of {name} must be finite, in ascending order, and have room for {bins} bins; "
                f"got {low}, {high}"
            )
    return chosen


@dataclass(frozen=True)
class BivariateGrids:
    """Joint histograms of pairs of parameters.

    `counts` [pair, x bin, y bin]; `limits` [pair, axis, 2]; `outside` and `nonfinite` [pair] are the numbers of draws
    left out, `draws` the number of all draws.
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
        """Density [x bin, y bin] of all draws; it integrates to the share inside the limits."""
        x, y = self.edges(pair)
        return self.counts[pair] / (self.draws * np.diff(x)[:, None] * np.diff(y))

    def __add__(self, other: Self) -> Self:
        """The histograms of the draws of both; ValueError if their pairs, limits or bins differ."""
        same = self.pairs == other.pairs and np.array_equal(self.limits, other.limits) and self.bins == other.bins
        if not same:
            raise ValueError("histograms with other pairs, limits or bins cannot be added")
        sums = {
            name: getattr(self, name) + getattr(other, name) for name in ("counts", "outside", "nonfinite", "draws")
        }
        return replace(self, **sums)

    def save(self, path: str | Path) -> None:
        """Write an .npz file (atomic)."""
        save_arrays(path, vars(self), compressed=True)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file that `save` wrote; TraceError names a file that is damaged or of another kind."""
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
    """Joint histograms of pairs of scalars in one pass, with memory that does not grow with the draws.

    `pairs` are (x name, y name) or the result of `layer_pairs`; `limits` is one (low, high) for all scalars, one per
    name, or None for `automatic_limits` (which needs a second pass).
    """
    x, y = tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)
    names = tuple(dict.fromkeys((*x, *y)))
    columns = source.locate(names)
    chosen = resolve_limits(source, names, limits, bins, chains, draws, max_bytes)
    place = {name: i for i, name in enumerate(names)}
    counts = np.zeros((len(x), bins * bins), dtype=np.int64)
    outside, nonfinite = np.zeros(len(x), dtype=np.int64), np.zeros(len(x), dtype=np.int64)
    seen = 0
    # A batch also needs memory for the bins of its scalars: eight bytes each, whatever the type of the draws.
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
    """Bin of each value; -1 for a value that is outside the limits or not finite."""
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
