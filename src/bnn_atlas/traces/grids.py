"""Histograms of single parameters and of pairs, counted while the draws stream by.

Bins are those of `numpy.histogram` and `numpy.histogram2d`: n of equal width between the limits, closed below and
open above, the last one closed. Draws outside the limits and draws that are not finite are counted apart.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np

from bnn_atlas.files import atomic
from bnn_atlas.traces.draws import Draws
from bnn_atlas.traces.limits import SCAN_BYTES, Limits, resolve_limits
from bnn_atlas.traces.pairs import Pair


@dataclass(frozen=True)
class UnivariateGrids:
    """Histograms of single parameters.

    `counts` [parameter, bin], or [chain, parameter, bin] with the chain numbers in `chain_ids`; `limits`
    [parameter, 2]; `below`, `above` and `nonfinite` [parameter] are the draws left out; `draws` the draws seen.
    """

    names: tuple[str, ...]
    limits: np.ndarray
    counts: np.ndarray
    below: np.ndarray
    above: np.ndarray
    nonfinite: np.ndarray
    draws: int
    chain_ids: np.ndarray

    @property
    def bins(self) -> int:
        """Number of bins."""
        return self.counts.shape[-1]

    def edges(self, name: str) -> np.ndarray:
        """Bin edges [bins + 1] of a parameter."""
        return _edges(self.limits[_index(self.names, name)], self.bins)

    def density(self, name: str) -> np.ndarray:
        """Density per bin [bins] or [chain, bins], of all draws seen: it integrates to the share inside the limits."""
        edges = self.edges(name)
        per_row = self.draws // max(1, len(self.chain_ids))
        return self.counts[..., _index(self.names, name), :] / (per_row * np.diff(edges))

    def save(self, path: str | Path) -> None:
        """Write an .npz file (atomic)."""
        _save(path, vars(self))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote."""
        return cls(**_load(path, cls))


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
        _save(path, vars(self))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote."""
        return cls(**_load(path, cls))


def univariate_grids(
    source: Draws,
    parameters: Sequence[str],
    *,
    limits: Limits = None,
    bins: int = 200,
    per_chain: bool = False,
    chains: slice | None = None,
    draws: slice | None = None,
    max_bytes: int = SCAN_BYTES,
) -> UnivariateGrids:
    """Histograms of single scalars in one pass, in memory that does not grow with the draws.

    `limits` are one (low, high) for all, one per name, or None for `automatic_limits` (a pass more).
    """
    names = tuple(parameters)
    columns = source.locate(names)
    chosen = resolve_limits(source, names, limits, bins, chains, draws, max_bytes)
    ids = source.chain_ids[chains or slice(None)]
    rows = {int(chain): i for i, chain in enumerate(ids)}
    counts = np.zeros((len(ids) if per_chain else 1, len(names), bins), dtype=np.int64)
    left = np.zeros((3, len(names)), dtype=np.int64)
    seen = 0
    for which, _, values in source.batches(max_bytes, chains=chains, draws=draws, parameters=columns):
        seen += values.shape[0] * values.shape[1]
        places = np.array([rows[int(chain)] for chain in source.chain_ids[which]]) if per_chain else np.zeros(1, int)
        for i in range(len(names)):
            column = values[:, :, i].astype(np.float64).reshape(len(places), -1)
            bin_of = _bin(column, chosen[i], bins)
            inside = bin_of >= 0
            cell = (bin_of + np.arange(len(places))[:, None] * bins)[inside]
            counts[places, i] += np.bincount(cell, minlength=len(places) * bins).reshape(len(places), bins)
            finite = np.isfinite(column)
            left[:, i] += [
                (column < chosen[i, 0])[finite].sum(),
                (column > chosen[i, 1])[finite].sum(),
                (~finite).sum(),
            ]
    below, above, nonfinite = left
    return UnivariateGrids(
        names=names,
        limits=chosen,
        counts=counts if per_chain else counts[0],
        below=below,
        above=above,
        nonfinite=nonfinite,
        draws=seen,
        chain_ids=ids if per_chain else ids[:0],
    )


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

    `pairs` are (x name, y name) or what `layer_pairs` gives; `limits` as in `univariate_grids`, per scalar.
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


def _index(names: tuple[str, ...], name: str) -> int:
    if name not in names:
        raise KeyError(f"no histogram of '{name}'; there are {', '.join(names)}")
    return names.index(name)


def _save(path: str | Path, values: Mapping[str, Any]) -> None:
    with atomic(path) as temporary, temporary.open("wb") as handle:
        np.savez_compressed(handle, **values)


def _load(path: str | Path, kind: type) -> dict[str, Any]:
    """The fields of `kind` from an .npz file: text as tuples of names, numbers as int; ValueError for another file."""
    with np.load(path, allow_pickle=False) as content:
        arrays = {name: content[name] for name in content.files}
    expected = sorted(field.name for field in fields(kind))
    if sorted(arrays) != expected:
        raise ValueError(f"{path} holds {sorted(arrays)}, not a {kind.__name__} with {expected}. Make it again.")
    return {name: _plain(array) for name, array in arrays.items()}


def _plain(array: np.ndarray) -> Any:
    if array.dtype.kind == "U":
        return tuple(str(name) for name in array)
    return array if array.ndim else int(array)
