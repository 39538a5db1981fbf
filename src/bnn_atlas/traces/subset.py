"""Chosen parameters, chains and draws of a trace or pool, as a smaller trace and as a tidy table."""

import shutil
from collections.abc import Collection, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bnn_atlas.files import atomic
from bnn_atlas.traces.draws import BATCH_BYTES, Draws, Index, positions
from bnn_atlas.traces.shard import GROUP_BYTES, TraceError
from bnn_atlas.traces.store import Trace, TraceWriter, open_trace

if TYPE_CHECKING:
    import pandas

TABLE_CELLS = 1 << 20


class Selection(Draws):
    """Some chains, draws and scalars of a trace or pool, given by their positions there; nothing is copied."""

    def __init__(self, source: Draws, which: np.ndarray, when: np.ndarray, columns: np.ndarray) -> None:
        self._source, self._which, self._when, self._columns = source, which, when, columns
        self.path = source.path
        self.layout = source.layout
        self.size = len(columns)
        self.chain_ids = source.chain_ids[which]
        self.draw_ids = source.draw_ids[when]
        self.dtype = source.dtype
        self.statistics = source.statistics
        self.attributes = source.attributes
        self.chains_per_chunk = source.chains_per_chunk
        thinning = int(when[1] - when[0]) if when.size > 1 else 1
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
        which, when = positions(chains, self.chains, "chain"), positions(draws, self.draws, "draw")
        return self._which[which], self._when[when]


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

    The scalars are those that meet every given condition (`Draws.select`). `draws` is a slice of positions that must
    lie inside the trace, of which every `thinning`-th is kept, the first included; `chains` are chain numbers, or a
    slice of positions. Chain and draw numbers, statistics and attributes are kept.
    Raises ValueError, with what there is, for a choice that meets nothing.
    """
    columns = pool.select(
        parameters=parameters, layers=layers, roles=roles, pattern=pattern, index=index, per_layer=per_layer
    )
    return Selection(pool, _chains(pool, chains), _draws(pool, draws, thinning), columns)


def subset(
    pool: Draws,
    destination: str | Path,
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
) -> Trace:
    """Write what `choose` chooses as a trace of its own, and open it; memory is bounded whatever the size.

    The new trace names the kept scalars in its attribute `parameters`. One that stands at `destination` is replaced
    once the new one is whole. Raises ValueError as `choose` does, TraceError if the disk refuses.
    """
    chosen = choose(
        pool,
        parameters=parameters,
        layers=layers,
        roles=roles,
        pattern=pattern,
        index=index,
        per_layer=per_layer,
        draws=draws,
        chains=chains,
        thinning=thinning,
    )
    target = Path(destination)
    if (target.exists() and not (target / "zarr.json").exists()) or target.resolve() == pool.path.resolve():
        raise TraceError(f"{target} is not a subset that could be replaced. Write elsewhere or remove it.")
    segment = _segment(chosen)
    with atomic(target) as temporary:
        writer = TraceWriter.create(
            temporary,
            chains=chosen.chains,
            draws=chosen.draws,
            layout=chosen.layout,
            statistics={name: kind.name for name, kind in chosen.statistics.items()},
            segment=segment,
            chain_ids=chosen.chain_ids,
            attributes=chosen.attributes,
            dtype=chosen.dtype.name,
            parameters=chosen.parameter_names,
            draw_ids=chosen.draw_ids,
        )
        for k in range(writer.segments):
            part = slice(k * segment, (k + 1) * segment)
            statistics = {name: chosen.statistic(name, draws=part) for name in chosen.statistics}
            writer.write_rows(k, _rows(chosen, part, writer.chains_per_chunk), statistics)
        if target.exists():
            shutil.rmtree(target)
    return open_trace(target)


def subset_to_frame(trace: Draws) -> "pandas.DataFrame":
    """Tidy frame with a row per value: chain, draw, parameter, layer (nullable), role, value; all in memory."""
    import pandas

    rows = _tidy(trace, slice(0, trace.chains), slice(0, trace.draws), trace.read())
    layers = np.array([-1 if p.layer is None else p.layer for p in trace.arrays])[rows.scalar]
    roles = list(dict.fromkeys(p.role for p in trace.arrays))
    codes = np.array([roles.index(p.role) for p in trace.arrays])[rows.scalar]
    return pandas.DataFrame(
        {
            "chain": rows.chain,
            "draw": rows.draw,
            "parameter": pandas.Categorical.from_codes(rows.scalar, pandas.Index(trace.parameter_names)),
            "layer": pandas.arrays.IntegerArray(layers.astype("int32"), layers < 0),
            "role": pandas.Categorical.from_codes(codes, pandas.Index(roles)),
            "value": rows.value,
        }
    )


def subset_to_parquet(trace: Draws, destination: str | Path) -> None:
    """Write the rows of `subset_to_frame` to a Parquet file (atomic), a bounded number at a time."""
    import pyarrow
    from pyarrow import parquet

    text = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    value = pyarrow.from_numpy_dtype(trace.dtype)
    number = pyarrow.int64()
    fields = {"chain": number, "draw": number, "parameter": text, "layer": pyarrow.int32(), "role": text}
    schema = pyarrow.schema({**fields, "value": value})
    # One code per stored scalar stands for all three descriptions of it.
    describe = {
        "parameter": pyarrow.array(trace.parameter_names, pyarrow.string()),
        "layer": pyarrow.array([p.layer for p in trace.arrays], pyarrow.int32()),
        "role": pyarrow.array([p.role for p in trace.arrays], pyarrow.string()),
    }
    with atomic(destination) as temporary, parquet.ParquetWriter(temporary, schema) as writer:
        for chains, draws, values in trace.batches(TABLE_CELLS * trace.dtype.itemsize):
            rows = _tidy(trace, chains, draws, values)
            columns = {"chain": rows.chain, "draw": rows.draw, "value": rows.value}
            for name, column in describe.items():
                taken = column.take(pyarrow.array(rows.scalar))
                columns[name] = taken.dictionary_encode() if schema.field(name).type == text else taken
            writer.write_table(pyarrow.table({name: columns[name] for name in schema.names}, schema))


class _Rows(NamedTuple):
    """Columns of a tidy table; `scalar` is the place of a row's parameter among the stored ones."""

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


def _segment(chosen: Selection) -> int:
    """Draws per segment: bounded in bytes for one chain and for the statistics of all, whole segments of the source."""
    statistics = sum(kind.itemsize for kind in chosen.statistics.values())
    room = GROUP_BYTES // max(chosen.size * chosen.dtype.itemsize, chosen.chains * statistics)
    return min(chosen.draws, max(1, room - room % chosen.draws_per_chunk, chosen.draws_per_chunk))


def _rows(chosen: Selection, draws: slice, group: int) -> Iterator[np.ndarray]:
    """Draws [group, s, p] for consecutive groups of chains, read many groups at a time."""
    per_chain = (draws.stop - draws.start) * chosen.size * chosen.dtype.itemsize
    many = max(group, BATCH_BYTES // per_chain // group * group)
    for start in range(0, chosen.chains, many):
        block = chosen.read(slice(start, start + many), draws)
        for i in range(0, len(block), group):
            yield block[i : i + group]


def _chains(pool: Draws, chains: slice | Collection[int] | None) -> np.ndarray:
    if chains is None or isinstance(chains, slice):
        which = np.arange(pool.chains)[chains or slice(None)]
    else:
        absent = sorted(set(chains) - set(pool.chain_ids.tolist()))
        if absent:
            raise ValueError(f"{pool.path} has no chain {absent[0]}; it has {_summary(pool.chain_ids)}")
        which = np.flatnonzero(np.isin(pool.chain_ids, list(chains)))
    if not which.size:
        raise ValueError(f"chains={chains} chooses none of the {pool.chains} chains of {pool.path}")
    return which


def _draws(pool: Draws, draws: slice | None, thinning: int) -> np.ndarray:
    if thinning < 1:
        raise ValueError(f"thinning keeps every k-th draw, k at least 1; got {thinning}")
    part = draws or slice(None)
    ends = [end for end in (part.start, part.stop) if end is not None]
    if any(not -pool.draws <= end <= pool.draws for end in ends) or (part.step or 1) < 1:
        raise ValueError(f"draws={draws} reaches outside {pool.path}, which has {pool.draws} draws per chain")
    when = np.arange(pool.draws)[part][::thinning]
    if not when.size:
        raise ValueError(f"draws={draws} chooses none of the {pool.draws} draws per chain of {pool.path}")
    return when


def _summary(ids: np.ndarray) -> str:
    if ids.size > 1 and np.array_equal(ids, np.arange(ids[0], ids[-1] + 1)):
        return f"chains {ids[0]} to {ids[-1]}"
    shown = ", ".join(map(str, ids[:20]))
    return f"chains {shown}" + (", ..." if ids.size > 20 else "")
