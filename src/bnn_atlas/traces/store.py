"""Write and read the trace of one block: a Zarr v3 group in a folder.

`draws` [chain, draw, parameter] is cut along the draw axis into segments, one shard file each, uncompressed; each
statistic [chain, draw] has one chunk file per segment; `chain` and `draw` are coordinates. Every chunk carries its
CRC-32C and the group's attributes carry checksums of the metadata, so a changed bit is found when it is read.
"""

import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import numpy as np

from bnn_atlas.files import atomic
from bnn_atlas.models.layout import Layout
from bnn_atlas.traces.draws import Draws, Index, positions
from bnn_atlas.traces.shard import ShardPart, TraceError, damaged, read_chunk, read_shards, write_chunk, write_shard
from bnn_atlas.traces.zarr_metadata import Header, create_store, read_header

STALE_SECONDS = 3600.0
LONGEST_SEGMENT, WRITTEN_BYTES = 2048, 64 << 20

__all__ = ["Trace", "TraceError", "TraceWriter", "open_trace"]


class TraceWriter:
    """Writes a trace segment by segment; a segment is on disk when `write` returns, and can be written again."""

    def __init__(self, header: Header) -> None:
        self._header = header

    @classmethod
    def create(
        cls,
        path: str | Path,
        *,
        chains: int,
        draws: int,
        layout: Layout,
        statistics: Mapping[str, str],
        segment: int,
        chain_ids: Sequence[int] | np.ndarray,
        attributes: Mapping[str, Any],
        dtype: str = "float32",
    ) -> Self:
        """A writer for a new store, or for the store at `path` if that store was created with the same arguments.

        `statistics` maps names to float32, float64, int32, int64 or bool; `segment` is the number of draws per chain in
        a segment; `attributes` are JSON values, of which only `fingerprint` must be the same in an existing store.
        Raises ValueError for invalid arguments, TraceError if there is a different trace at `path`.
        """
        return cls(
            create_store(
                Path(path),
                chains=chains,
                draws=draws,
                layout=layout,
                statistics=statistics,
                segment=segment,
                chain_ids=chain_ids,
                attributes=attributes,
                dtype=dtype,
            )
        )

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """A writer that continues an existing store; removes temporary files that are over an hour old."""
        header = read_header(Path(path))
        for file in header.path.glob("*/.c.*"):
            with suppress(FileNotFoundError):
                if time.time() - file.stat().st_mtime > STALE_SECONDS:
                    file.unlink()
        return cls(header)

    @property
    def path(self) -> Path:
        """The store's folder."""
        return self._header.path

    @property
    def segment(self) -> int:
        """Draws per chain in a segment."""
        return self._header.segment

    @property
    def segments(self) -> int:
        """Number of segments."""
        return self._header.segments

    @property
    def attributes(self) -> Mapping[str, Any]:
        """The attributes that the caller passed when the store was created."""
        return self._header.attributes

    def missing(self) -> tuple[int, ...]:
        """Segments that are not written yet."""
        return self._header.missing()

    def write(self, segment: int, draws: np.ndarray, statistics: Mapping[str, np.ndarray]) -> None:
        """Write one whole segment: draws [chains, n, parameters] and each statistic [chains, n].

        n is the segment length, or less in the last segment. Each file is replaced atomically, the draws last, so that
        writers of the same bytes do not disturb each other. Raises ValueError if shapes or number types differ from
        those of the store, TraceError if the disk cannot be written; earlier segments then stay readable.
        """
        header = self._header
        if not 0 <= segment < header.segments:
            raise ValueError(f"{self.path} has segments 0 to {header.segments - 1}; got segment {segment}")
        expected = (header.chains, header.length(segment))
        values = np.asarray(draws)
        if values.shape != (*expected, header.size) or values.dtype != header.dtype.newbyteorder("="):
            raise ValueError(
                f"segment {segment} of {self.path} takes draws {(*expected, header.size)} {header.dtype.name}; "
                f"got {values.shape} {values.dtype.name}"
            )
        group = header.form.chunk[0]
        self.write_rows(segment, (values[i : i + group] for i in range(0, header.chains, group)), statistics)

    def write_rows(self, segment: int, rows: Iterable[np.ndarray], statistics: Mapping[str, np.ndarray]) -> None:
        """Like `write`, for segments too large for memory: draws come in groups of `chains_per_chunk` chains."""
        header = self._header
        expected = (header.chains, header.length(segment))
        if set(statistics) != set(header.statistics):
            raise ValueError(f"{self.path} keeps the statistics {sorted(header.statistics)}; got {sorted(statistics)}")
        for name, kind in header.statistics.items():
            values = np.asarray(statistics[name])
            if values.shape != expected or not np.can_cast(values.dtype, kind, "same_kind"):
                raise ValueError(
                    f"statistic '{name}' of segment {segment} of {self.path} takes {expected} {kind.name}; "
                    f"got {values.shape} {values.dtype.name}"
                )
            shape = (header.chains, header.segment)
            write_chunk(header.statistic_file(name, segment), values.astype(kind, copy=False), shape, kind)
        write_shard(header.shard_file(segment), header.form, self._checked(segment, rows))

    def _checked(self, segment: int, rows: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        header = self._header
        for start, row in zip(range(0, header.chains, self.chains_per_chunk), rows, strict=True):
            chains = min(self.chains_per_chunk, header.chains - start)
            if row.shape != (chains, header.length(segment), header.size):
                raise ValueError(
                    f"chains {start} to {start + chains - 1} of segment {segment} of {self.path} take draws "
                    f"{(chains, header.length(segment), header.size)}; got {row.shape}"
                )
            yield row

    @property
    def chains_per_chunk(self) -> int:
        """Chains in one inner chunk."""
        return self._header.form.chunk[0]


class Trace(Draws):
    """The trace of one block, read from its store."""

    def __init__(self, header: Header) -> None:
        self._header = header
        self.path = header.path
        self.layout = header.layout
        self.size = header.size
        self.dtype = header.dtype.newbyteorder("=")
        self.statistics = {name: kind.newbyteorder("=") for name, kind in header.statistics.items()}
        self.attributes = header.attributes
        self.chain_ids = header.chain_ids
        self.draw_ids = header.draw_ids
        self.chains_per_chunk, self.draws_per_chunk, _ = header.form.chunk

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """The stored scalars, in order."""
        return self._header.names

    @property
    def segment(self) -> int:
        """Draws per chain in a segment."""
        return self._header.segment

    @property
    def segments(self) -> int:
        """Number of segments."""
        return self._header.segments

    def missing(self) -> tuple[int, ...]:
        """Segments with missing files."""
        return self._header.missing()

    def read(self, chains: Index = None, draws: Index = None, parameters: Index = None) -> np.ndarray:
        """Draws [c, s, p]; see `Draws.read`."""
        chain_idx, draw_idx = self._places(chains, draws)
        columns = positions(parameters, self.size, "parameter")
        out = np.empty((chain_idx.size, draw_idx.size, columns.size), dtype=self.dtype)
        read_shards(self.parts(out, np.arange(chain_idx.size), chain_idx, draw_idx, columns))
        return out

    def parts(
        self, out: np.ndarray, places: np.ndarray, chain_idx: np.ndarray, draw_idx: np.ndarray, columns: np.ndarray
    ) -> Iterator[ShardPart]:
        """Parts that fill out[places] [c, s, p] with the chains `chain_idx`, for valid positions."""
        header = self._header
        number = draw_idx // header.segment
        for segment in np.unique(number) if out.size else ():
            to_draw = np.flatnonzero(number == segment)
            yield ShardPart(
                header.shard_file(segment),
                header.form,
                out,
                (places, chain_idx),
                (to_draw, draw_idx[to_draw] - segment * header.segment),
                (np.arange(columns.size), columns),
            )

    def statistic(self, name: str, chains: Index = None, draws: Index = None) -> np.ndarray:
        """One statistic [c, s]; see `Draws.statistic`."""
        header = self._header
        if name not in header.statistics:
            raise KeyError(f"{self.path} has no statistic '{name}'; it has {', '.join(header.statistics) or 'none'}")
        chain_idx, draw_idx = self._places(chains, draws)
        out = np.empty((chain_idx.size, draw_idx.size), dtype=self.statistics[name])
        number = draw_idx // header.segment
        shape, kind = (header.chains, header.segment), header.statistics[name]
        for segment in np.unique(number):
            places = np.flatnonzero(number == segment)
            chunk = read_chunk(header.statistic_file(name, segment), shape, kind)
            out[:, places] = chunk[np.ix_(chain_idx, draw_idx[places] - segment * header.segment)]
        return out


def open_trace(path: str | Path, *, incomplete: bool = False) -> Trace:
    """Open the trace of one block.

    Checks the metadata, and that the files of every segment exist and have their full length; a chunk's checksum is
    checked when the chunk is read. With `incomplete`, a trace may lack segments, and an error is raised only when a
    missing segment is read. Raises TraceError for a store that is missing, incomplete, truncated or of another format.
    """
    header = read_header(Path(path))
    missing: dict[int, Path] = {}
    for segment in range(header.segments):
        for file, size in header.files(segment).items():
            try:
                actual = file.stat().st_size
            except FileNotFoundError:
                missing.setdefault(segment, file)
            else:
                if actual != size:
                    raise damaged(file, f"it has {actual} bytes instead of {size}")
    if missing and not incomplete:
        raise TraceError(
            f"the trace {path} is incomplete: {len(missing)} of {header.segments} segments are missing; the first "
            f"lacks {next(iter(missing.values()))}. "
            "Rerun that block; delete its folder first if it counts as finished."
        )
    return Trace(header)


def shorten(source: Path, destination: Path, draws: int, attributes: Mapping[str, Any]) -> None:
    """Write the first `draws` draws of every chain of `source` as a separate trace, with further attributes.

    Draws and statistics are copied bit for bit, and the segment length stays the same. Only one segment of one group of
    chains is in memory at a time. `source` may lack later segments and is not changed; `destination` is either complete
    or absent, so an interrupted call can be repeated. Raises TraceError if a trace cannot be read or written.
    """
    trace = open_trace(source, incomplete=True)
    if destination.exists():
        shutil.rmtree(destination)
    with atomic(destination) as temporary:
        first = trace.select(draws=slice(0, draws))
        write_trace(temporary, first, {**trace.attributes, **attributes}, trace.segment)


def write_trace(path: Path, source: Draws, attributes: Mapping[str, Any], segment: int | None = None) -> None:
    """Write draws of all parameters and their statistics as one trace with these attributes, numbered from 0.

    A segment has `segment` draws or, if this is not given, up to `WRITTEN_BYTES` of one chain; a group of chains of one
    segment is in memory at a time. Raises TraceError if there is a trace at `path`, or one cannot be read or written.
    """
    room = WRITTEN_BYTES // (source.size * source.dtype.itemsize)
    writer = TraceWriter.create(
        path,
        chains=source.chains,
        draws=source.draws,
        layout=source.layout,
        statistics={name: kind.name for name, kind in source.statistics.items()},
        segment=segment or max(1, min(source.draws, LONGEST_SEGMENT, room)),
        chain_ids=source.chain_ids,
        attributes=attributes,
        dtype=source.dtype.name,
    )
    group = writer.chains_per_chunk
    for number in range(writer.segments):
        draw_idx = slice(number * writer.segment, min((number + 1) * writer.segment, source.draws))
        rows = (source.read(slice(i, i + group), draw_idx) for i in range(0, source.chains, group))
        writer.write_rows(number, rows, {name: source.statistic(name, None, draw_idx) for name in source.statistics})
