"""The interface of traces, pools of traces and selections: how draws are read."""

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bnn_atlas.config.language.base import plural
from bnn_atlas.models.layout import Layout, Parameter

if TYPE_CHECKING:
    import arviz
    import xarray

    from bnn_atlas.traces.convert import Group

BATCH_BYTES = 128 << 20
NOTES = "notes"
"""Attribute of a trace: name of a statistic -> a note to be shown with its mean."""

Index = slice | Sequence[int] | np.ndarray | None
Batch = tuple[slice, slice, np.ndarray]


class Draws(ABC):
    """Chains x draws x parameters on disk, and one number per draw for each statistic.

    `layout` describes the model's parameters; `parameter_names` are the `size` stored scalars, which are all parameters
    unless this is a selection. Chains are in the order of `chain_ids`, draws in the order of `draw_ids`.
    """

    path: Path
    layout: Layout
    size: int
    chain_ids: np.ndarray
    draw_ids: np.ndarray
    dtype: np.dtype
    statistics: Mapping[str, np.dtype]
    attributes: Mapping[str, Any]
    chains_per_chunk: int
    draws_per_chunk: int

    @property
    def chains(self) -> int:
        """Number of chains."""
        return len(self.chain_ids)

    @property
    def draws(self) -> int:
        """Number of draws per chain."""
        return len(self.draw_ids)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Chains, draws, parameters."""
        return self.chains, self.draws, self.size

    def __repr__(self) -> str:
        """Type, numbers of chains, draws and parameters, and path."""
        sizes = zip(self.shape, ("chain", "draw", "parameter"), strict=True)
        return f"{type(self).__name__}({' x '.join(plural(*size) for size in sizes)}, {self.path})"

    @property
    @abstractmethod
    def parameter_names(self) -> tuple[str, ...]:
        """The stored scalars, in order."""

    @abstractmethod
    def read(self, chains: Index = None, draws: Index = None, parameters: Index = None) -> np.ndarray:
        """Draws [c, s, p] at the outer product of the given positions along each axis (None: all).

        A slice is cut to the axis as in NumPy; a position outside the axis raises IndexError. Only chunks with
        requested values are read. Raises TraceError if one of these chunks is missing or damaged.
        """

    @abstractmethod
    def statistic(self, name: str, chains: Index = None, draws: Index = None) -> np.ndarray:
        """One statistic [c, s] at the given positions, all by default; KeyError lists the existing statistics."""

    def batches(
        self,
        max_bytes: int = BATCH_BYTES,
        *,
        chains: slice | None = None,
        draws: slice | None = None,
        parameters: Index = None,
    ) -> Iterator[Batch]:
        """All draws in batches (chain slice, draw slice, array [c, s, p]) of at most `max_bytes`, in order of chains.

        Batches hold whole chains if one chain fits, else pieces of one chain with at least one draw. Reading needs
        a few MiB in addition to the array. The slices are positions in the stored axes; they have a step if `chains` or
        `draws` has one.
        """
        chain_idx, draw_idx = range(self.chains)[_forward(chains)], range(self.draws)[_forward(draws)]
        columns = positions(parameters, self.size, "parameter")
        room = max(1, max_bytes // max(1, len(columns) * self.dtype.itemsize))
        per_chain = len(draw_idx)
        if per_chain <= room:
            step, length = _multiple(room // max(1, per_chain), self.chains_per_chunk), max(1, per_chain)
        else:
            step, length = 1, _multiple(room, self.draws_per_chunk)
        for i in range(0, len(chain_idx), step):
            for j in range(0, per_chain, length):
                chain, draw = _as_slice(chain_idx[i : i + step]), _as_slice(draw_idx[j : j + length])
                yield chain, draw, self.read(chain, draw, columns)

    def locate(self, names: Sequence[str]) -> np.ndarray:
        """Positions of single scalars, in the given order; ValueError suggests similar names for an unknown name."""
        unknown = [name for name in names if name not in self._positions]
        if unknown:
            raise ValueError(f"no parameter {unknown[0]!r} is stored in {self.path}; {self._there(unknown[0])}")
        return np.array([self._positions[name] for name in names], dtype=np.intp)

    def __getitem__(self, name: str) -> np.ndarray:
        """The draws [chain, draw, ...] of one array of the model, with its shape; nothing else is read.

        Raises ValueError, with similar names, if this array is not stored, or only in part.
        """
        array = next((p for p in self.layout.parameters if p.name == name), None)
        places = self._array_positions(name)
        if array is None or len(places) != array.size:
            if name in self._positions:
                raise ValueError(
                    f"{name!r} is one number of an array: read(parameters=locate([{name!r}])) of the draws reads it"
                )
            raise ValueError(f"no array {name!r} is stored whole in {self.path}; {self._there(name)}")
        return self.read(parameters=places).reshape(self.chains, self.draws, *array.shape)

    def keys(self) -> tuple[str, ...]:
        """Names of the arrays that are stored whole, as in `draws[name]`; iteration and `in` use them, too."""
        count = Counter(parameter.name for parameter in self.arrays)
        return tuple(p.name for p in self.layout.parameters if count[p.name] == p.size)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, name: object) -> bool:
        return name in self.keys()

    def as_pytree(self) -> dict[str, Any]:
        """All arrays [chain, draw, ...] in memory, by name; array `a/b` is entry `b` of the mapping `a`, as in Flax."""
        tree: dict[str, Any] = {}
        for parameter in self.layout.parameters:
            *folders, last = parameter.name.split("/")
            place = tree
            for folder in folders:
                place = place.setdefault(folder, {})
            place[last] = self[parameter.name]
        return tree

    def thin(self, every: int) -> "Selection":
        """The first draw and every `every`-th after it; nothing is copied."""
        return self.select(thinning=every)

    def select(
        self,
        *,
        parameters: Collection[str] | None = None,
        layers: Collection[int] | None = None,
        roles: Collection[str] | None = None,
        pattern: str | None = None,
        index: Index = None,
        per_layer: int | None = None,
        draws: slice | None = None,
        chains: slice | Collection[int] | None = None,
        thinning: int = 1,
    ) -> "Selection":
        """Some chains, draws and scalars, to be read or tabulated; nothing is copied.

        Scalars must meet every given condition. `parameters` takes whole arrays (`layer0.weight`) and scalars
        (`layer0.weight[3,2]`); `pattern` is matched against scalar names, with `*` for anything, `?` for one character
        and literal brackets (`layer*.weight[0,*]`); `index` takes positions. Of the scalars that meet these conditions,
        the first `per_layer` of each layer and role are kept. `draws` is a slice of positions, of which the first and
        every `thinning`-th after it are kept; `chains` are chain numbers, or a slice of positions. Chain and draw
        numbers, statistics and attributes are kept. Raises ValueError, with the existing choices, if a condition
        matches nothing.
        """
        parameters = [parameters] if isinstance(parameters, str) else parameters
        columns = self._matching(parameters, layers, roles, pattern, index, per_layer)
        return Selection(self, _chains(self, chains), _draws(self, draws, thinning), columns)

    def _matching(
        self,
        parameters: Collection[str] | None,
        layers: Collection[int] | None,
        roles: Collection[str] | None,
        pattern: str | None,
        index: Index,
        per_layer: int | None,
    ) -> np.ndarray:
        """Sorted positions of the stored scalars that meet every given condition."""
        chosen = np.ones(self.size, dtype=bool)
        for name in parameters or ():
            if name not in self._positions and not self._array_positions(name).size:
                raise ValueError(f"no parameter {name!r} is stored in {self.path}; {self._there(name)}")
        if parameters is not None:
            kept = np.zeros(self.size, dtype=bool)
            for name in parameters:
                kept[self._positions[name] if name in self._positions else self._array_positions(name)] = True
            chosen &= kept
        for what, wanted, values in (
            ("layer", layers, [p.layer for p in self.arrays]),
            ("role", roles, [p.role for p in self.arrays]),
        ):
            if wanted is not None:
                if isinstance(wanted, str) or not isinstance(wanted, Collection):
                    raise ValueError(f"{what}s is {wanted!r:.80}: pass a list of {what}s, such as [{values[0]!r}]")
                present = sorted({value for value in values if value is not None}, key=str)
                if absent := [value for value in wanted if value not in present]:
                    raise ValueError(f"no {what} {absent[0]!r} in {self.path}; there are {present}")
                chosen &= np.array([value in wanted for value in values], dtype=bool)
        if pattern is not None:
            expression = re.compile(re.escape(pattern).replace(r"\*", ".*").replace(r"\?", "."))
            kept = np.array([expression.fullmatch(name) is not None for name in self.parameter_names])
            if not kept.any():
                raise ValueError(f"no parameter of {self.path} matches {pattern!r}; {self._there(pattern)}")
            chosen &= kept
        if index is not None:
            kept = np.zeros(self.size, dtype=bool)
            kept[positions(index, self.size, "parameter")] = True
            chosen &= kept
        if per_layer is not None:
            chosen = self._first_per_layer(chosen, per_layer)
        if not chosen.any():
            raise ValueError(f"no parameter of {self.path} meets all conditions at once; {self._there('')}")
        return np.flatnonzero(chosen)

    @cached_property
    def arrays(self) -> tuple[Parameter, ...]:
        """The model array to which each stored scalar belongs [size]."""
        by_name = {p.name: p for p in self.layout.parameters}
        return tuple(by_name[name.split("[")[0]] for name in self.parameter_names)

    def to_xarray(self) -> "xarray.Dataset":
        """An xarray Dataset over the files, which loads only what a computation needs; see `convert.to_xarray`."""
        with _extra():
            from bnn_atlas.traces.convert import to_xarray

            return to_xarray(self)

    def to_arviz(self, groups: "Mapping[str, Group] | None" = None) -> "arviz.InferenceData | xarray.DataTree":
        """An ArviZ InferenceData over the files, a DataTree from ArviZ 1 on; see `convert.to_arviz`."""
        with _extra():
            from bnn_atlas.traces.convert import to_arviz

            return to_arviz(self, groups)

    def _places(self, chains: Index, draws: Index) -> tuple[np.ndarray, np.ndarray]:
        return positions(chains, self.chains, "chain"), positions(draws, self.draws, "draw")

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.parameter_names)}

    def _first_per_layer(self, chosen: np.ndarray, count: int) -> np.ndarray:
        kept = np.zeros_like(chosen)
        places: dict[tuple[int | None, str], list[int]] = {}
        for place in np.flatnonzero(chosen):
            places.setdefault((self.arrays[place].layer, self.arrays[place].role), []).append(int(place))
        for group in places.values():
            kept[group[:count]] = True
        return kept

    def _array_positions(self, name: str) -> np.ndarray:
        return np.flatnonzero([p.name == name for p in self.arrays])

    def _there(self, name: str) -> str:
        arrays = list(dict.fromkeys(p.name for p in self.arrays))
        close = get_close_matches(name, (*arrays, *self.parameter_names[:10_000]), n=3)
        hint = f"similar names are {', '.join(close)}; " if close else ""
        return f"{hint}it has {self.size} scalars, such as {self.parameter_names[0]}, in the arrays {', '.join(arrays)}"


def positions(index: Index, count: int, axis: str) -> np.ndarray:
    """Positions along an axis of length `count` as an array; IndexError for a position outside the axis."""
    if index is None:
        return np.arange(count)
    if isinstance(index, slice):
        return np.arange(count)[index]
    array = np.asarray(index)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise IndexError(f"{axis} positions must be a slice or a list of integers, not {index!r}")
    outside = array[(array < 0) | (array >= count)]
    if outside.size:
        raise IndexError(f"there is no {axis} at position {outside[0]}: positions run from 0 to {count - 1}")
    return array.astype(np.intp)


def evenly(total: int, most: int) -> np.ndarray:
    """At most `most` of the positions 0 to `total` - 1, evenly spaced from the first to the last."""
    return np.unique(np.linspace(0, total - 1, min(total, most)).round().astype(np.int64))


@contextmanager
def _extra() -> Iterator[None]:
    """Tell the user how to install packages that only conversions need, if an import in the block fails."""
    try:
        yield
    except ModuleNotFoundError as error:
        install = "`pip install 'bnn-atlas[arviz]'`, or `pip install '.[arviz]'` in a clone"
        advice = f"{error.name} is not installed: run {install}"
        raise ModuleNotFoundError(advice, name=error.name) from None


def _forward(part: slice | None) -> slice:
    part = slice(None) if part is None else part
    if part.step is not None and part.step < 1:
        raise ValueError(f"batches run forwards, so a slice needs a positive step; got {part.step}")
    return part


def _multiple(number: int, unit: int) -> int:
    """`number` rounded down to a multiple of `unit`, unless it is smaller than `unit`."""
    return number - number % unit if number >= unit else number


def _as_slice(part: range) -> slice:
    return slice(part.start, part[-1] + 1, part.step)


class ArrayDraws(Draws):
    """Draws [chain, draw, parameter] and statistics [chain, draw] in memory; `path` is their origin, for messages."""

    def __init__(
        self,
        path: Path,
        layout: Layout,
        draws: np.ndarray,
        statistics: Mapping[str, np.ndarray],
        chain_ids: np.ndarray,
        draw_ids: np.ndarray,
        attributes: Mapping[str, Any],
    ) -> None:
        """Raise ValueError for arrays with shapes that do not match."""
        shape = (len(chain_ids), len(draw_ids))
        if draws.shape != (*shape, layout.size):
            raise ValueError(
                f"draws of shape {draws.shape}, but there are {shape[0]} chains, {shape[1]} draws and {layout.size} "
                "parameters"
            )
        for name, values in statistics.items():
            if values.shape != shape:
                raise ValueError(f"statistic '{name}' has shape {values.shape}, but the draws have {shape}")
        self.path, self.layout, self.size = path, layout, layout.size
        self.chain_ids, self.draw_ids, self.dtype = chain_ids, draw_ids, draws.dtype
        self.statistics = {name: values.dtype for name, values in statistics.items()}
        self.attributes = dict(attributes)
        self.chains_per_chunk = self.draws_per_chunk = 1
        self._draws, self._statistics = draws, dict(statistics)

    @cached_property
    def parameter_names(self) -> tuple[str, ...]:
        """The stored scalars, in order."""
        return tuple(self.layout.names())

    def read(self, chains: Index = None, draws: Index = None, parameters: Index = None) -> np.ndarray:
        """Draws [c, s, p]; see `Draws.read`."""
        columns = positions(parameters, self.size, "parameter")
        return self._draws[np.ix_(*self._places(chains, draws), columns)]

    def statistic(self, name: str, chains: Index = None, draws: Index = None) -> np.ndarray:
        """One statistic [c, s]; see `Draws.statistic`."""
        if name not in self._statistics:
            raise KeyError(f"{self.path} has no statistic '{name}'; it has {', '.join(self._statistics) or 'none'}")
        return self._statistics[name][np.ix_(*self._places(chains, draws))]


class Selection(Draws):
    """Some chains, draws and scalars of a trace or pool, given by their positions; nothing is copied."""

    def __init__(self, source: Draws, chain_idx: np.ndarray, draw_idx: np.ndarray, columns: np.ndarray) -> None:
        self._source, self._chain_idx, self._draw_idx, self._columns = source, chain_idx, draw_idx, columns
        self.path = source.path
        self.layout = source.layout
        self.size = len(columns)
        self.chain_ids = source.chain_ids[chain_idx]
        self.draw_ids = source.draw_ids[draw_idx]
        self.dtype = source.dtype
        self.statistics = source.statistics
        self.attributes = source.attributes
        self.chains_per_chunk = source.chains_per_chunk
        thinning = int(draw_idx[1] - draw_idx[0]) if draw_idx.size > 1 else 1
        self.draws_per_chunk = max(1, source.draws_per_chunk // thinning)

    @cached_property
    def parameter_names(self) -> tuple[str, ...]:
        """The stored scalars, in order."""
        return tuple(self._source.parameter_names[i] for i in self._columns)

    def read(self, chains: Index = None, draws: Index = None, parameters: Index = None) -> np.ndarray:
        """Draws [c, s, p]; see `Draws.read`."""
        columns = self._columns[positions(parameters, self.size, "parameter")]
        return self._source.read(*self._places(chains, draws), columns)

    def statistic(self, name: str, chains: Index = None, draws: Index = None) -> np.ndarray:
        """One statistic [c, s]; see `Draws.statistic`."""
        return self._source.statistic(name, *self._places(chains, draws))

    def _places(self, chains: Index, draws: Index) -> tuple[np.ndarray, np.ndarray]:
        chain_idx, draw_idx = super()._places(chains, draws)
        return self._chain_idx[chain_idx], self._draw_idx[draw_idx]


def _chains(pool: Draws, chains: slice | Collection[int] | None) -> np.ndarray:
    if not (chains is None or isinstance(chains, slice | Collection)) or isinstance(chains, str):
        raise ValueError(
            f"chains is {chains!r:.80}: pass a list of chain numbers, such as [0, 2], or a slice of positions"
        )
    if chains is None or isinstance(chains, slice):
        chain_idx = np.arange(pool.chains)[chains or slice(None)]
    else:
        absent = sorted(set(chains) - set(pool.chain_ids.tolist()))
        if absent:
            raise ValueError(f"{pool.path} has no chain {absent[0]}; it has {_summary(pool.chain_ids)}")
        chain_idx = np.flatnonzero(np.isin(pool.chain_ids, list(chains)))
    if not chain_idx.size:
        raise ValueError(f"chains={chains} chooses none of the {pool.chains} chains of {pool.path}")
    return chain_idx


def _draws(pool: Draws, draws: slice | None, thinning: int) -> np.ndarray:
    if not hasattr(thinning, "__index__") or thinning < 1:
        raise ValueError(f"thinning keeps every k-th draw, k at least 1; got {thinning}")
    if not (draws is None or isinstance(draws, slice)):
        raise ValueError(f"draws is {draws!r:.80}: pass a slice of positions, such as slice(0, 100)")
    part = draws or slice(None)
    ends = [end for end in (part.start, part.stop) if end is not None]
    if any(not -pool.draws <= end <= pool.draws for end in ends) or (part.step or 1) < 1:
        raise ValueError(f"draws={draws} reaches outside {pool.path}, which has {pool.draws} draws per chain")
    draw_idx = np.arange(pool.draws)[part][::thinning]
    if not draw_idx.size:
        raise ValueError(f"draws={draws} chooses none of the {pool.draws} draws per chain of {pool.path}")
    return draw_idx


def _summary(ids: np.ndarray) -> str:
    if ids.size > 1 and np.array_equal(ids, np.arange(ids[0], ids[-1] + 1)):
        return f"chains {ids[0]} to {ids[-1]}"
    shown = ", ".join(map(str, ids[:20]))
    return f"chains {shown}" + (", ..." if ids.size > 20 else "")
