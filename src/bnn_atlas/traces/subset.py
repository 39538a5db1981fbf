"""Chosen parameters, chains and draws of a trace or pool: read without a copy, or written as a tidy table."""

from collections.abc import Collection
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bnn_atlas.files import parquet_writer
from bnn_atlas.traces.draws import Draws, Index, positions

TABLE_CELLS = 1 << 20


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


def choose(
    pool: Draws,
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
) -> Selection:
    """The chosen part of a trace or pool, to be read or tabulated without a copy.

    Scalars must meet every given condition (`Draws.select`). `draws` is a slice of positions inside the trace, and
    every `thinning`-th of them is kept, starting with the first; `chains` are chain numbers, or a slice of positions.
    Chain and draw numbers, statistics and attributes are kept. Raises ValueError, with the existing choices, if nothing
    is chosen.
    """
    columns = pool.select(
        parameters=parameters, layers=layers, roles=roles, pattern=pattern, index=index, per_layer=per_layer
    )
    return Selection(pool, _chains(pool, chains), _draws(pool, draws, thinning), columns)


def last_draws(pool: Draws) -> Selection:
    """The last draw of every chain."""
    return Selection(pool, np.arange(pool.chains), np.array([pool.draws - 1]), np.arange(pool.size))


def subset_to_parquet(trace: Draws, destination: str | Path) -> None:
    """Write a tidy Parquet file (atomic) with one row per value, in batches of rows.

    Columns: chain, draw, parameter, layer (empty for scalars outside the layers), role, value.
    """
    import pyarrow

    text = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    value = pyarrow.from_numpy_dtype(trace.dtype)
    number = pyarrow.int64()
    fields = {"chain": number, "draw": number, "parameter": text, "layer": pyarrow.int32(), "role": text}
    schema = pyarrow.schema({**fields, "value": value})
    # The code of a stored scalar is an index into all three descriptions.
    describe = {
        "parameter": pyarrow.array(trace.parameter_names, pyarrow.string()),
        "layer": pyarrow.array([p.layer for p in trace.arrays], pyarrow.int32()),
        "role": pyarrow.array([p.role for p in trace.arrays], pyarrow.string()),
    }
    with parquet_writer(destination, schema) as writer:
        for chains, draws, values in trace.batches(TABLE_CELLS * trace.dtype.itemsize):
            rows = _tidy(trace, chains, draws, values)
            columns = {"chain": rows.chain, "draw": rows.draw, "value": rows.value}
            for name, column in describe.items():
                taken = column.take(pyarrow.array(rows.scalar))
                columns[name] = taken.dictionary_encode() if schema.field(name).type == text else taken
            writer.write_table(pyarrow.table({name: columns[name] for name in schema.names}, schema))


class _Rows(NamedTuple):
    """Columns of a tidy table; `scalar` is the position of a row's parameter among the stored scalars."""

    chain: np.ndarray
    draw: np.ndarray
    scalar: np.ndarray
    value: np.ndarray


def _tidy(trace: Draws, chains: slice, draws: slice, values: np.ndarray) -> _Rows:
    """Rows of a batch [c, s, p], parameters fastest."""
    c, s, p = values.shape
    return _Rows(
        np.repeat(trace.chain_ids[chains], s * p),
        np.tile(np.repeat(trace.draw_ids[draws], p), c),
        np.tile(np.arange(p, dtype=np.int32), c * s),
        values.reshape(-1),
    )


def _chains(pool: Draws, chains: slice | Collection[int] | None) -> np.ndarray:
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
    if thinning < 1:
        raise ValueError(f"thinning keeps every k-th draw, k at least 1; got {thinning}")
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
