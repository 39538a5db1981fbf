"""The bytes of a trace's chunk files: chunks with checksums, and shards of chunks, in the layout of Zarr v3.

A chunk is its values, little-endian in row-major order, followed by the CRC-32C of these bytes. A shard is a run of
chunks followed by an index [groups, 1, columns, 2] of (offset, length) as unsigned 64-bit integers and the index's
CRC-32C; see the `sharding_indexed` and `crc32c` codecs of the Zarr v3 specification. zarr-python reads and writes the
same files, but its writer reads a shard before replacing it, holds three copies of it and does not flush it to disk,
and its reader accepts an empty file as fill values; these functions stream chunk by chunk.
"""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BufferedReader
from itertools import product
from math import prod
from pathlib import Path
from typing import BinaryIO, NamedTuple

import google_crc32c
import numpy as np

from bnn_atlas.files import atomic

CHECKSUM_BYTES = 4
INDEX_ENTRY_BYTES = 16
CHUNK_BYTES = 1 << 18
GROUP_BYTES = 64 << 20
COLUMN = 32
COLUMNS = 128
READ_BYTES = 1 << 20
READERS = 4

Key = slice | np.ndarray
Places = tuple[np.ndarray, np.ndarray]


class TraceError(OSError):
    """A trace is missing, incomplete, damaged, inconsistent with another trace, or could not be written.

    `errno` is set if the operating system rejected an operation (28, ENOSPC: the disk is full).
    """


@dataclass(frozen=True)
class ShardForm:
    """One segment's file: `groups` x `columns` inner chunks of shape `chunk` = [chains, draws, parameters]."""

    chunk: tuple[int, int, int]
    groups: int
    columns: int
    dtype: np.dtype

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of the whole shard, padding included."""
        return self.groups * self.chunk[0], self.chunk[1], self.columns * self.chunk[2]

    @property
    def chunk_bytes(self) -> int:
        """Length of one stored chunk with its checksum."""
        return prod(self.chunk) * self.dtype.itemsize + CHECKSUM_BYTES

    @property
    def index_bytes(self) -> int:
        """Length of the index with its checksum."""
        return self.groups * self.columns * INDEX_ENTRY_BYTES + CHECKSUM_BYTES

    @property
    def file_bytes(self) -> int:
        """Length of the file."""
        return self.groups * self.columns * self.chunk_bytes + self.index_bytes


def choose_form(chains: int, draws: int, segment: int, size: int, dtype: np.dtype) -> ShardForm:
    """Inner chunks of at most about 256 KiB, so that reading a few chains or a few parameters reads little else.

    Parameters are stored in columns of 32 scalars (or a multiple of 32 for models with more than 4,096 parameters, so
    that there are at most 128 columns); chains in equal groups, so small that all draws of a group stay below 64 MiB.
    """
    column = min(size, COLUMN * -(-size // (COLUMN * COLUMNS)))
    by_chunk = CHUNK_BYTES // (segment * column * dtype.itemsize)
    by_group = GROUP_BYTES // (draws * size * dtype.itemsize)
    groups = -(-chains // max(1, min(by_chunk, by_group, chains)))
    group = -(-chains // groups)
    return ShardForm((group, segment, column), -(-chains // group), -(-size // column), dtype)


def write_shard(path: Path, form: ShardForm, rows: Iterable[np.ndarray]) -> None:
    """Write a segment's shard: atomic, and on disk when the call returns.

    `rows` yields the draws [chains of the group, draws, parameters] of each group; chunks that are not full (last
    group, last segment, last column) are padded with NaN. Apart from one group, only one chunk is in memory. Raises
    TraceError if the disk cannot be written (full, quota, read-only), and then keeps an existing file at `path`.
    """
    index = np.zeros((form.groups, form.columns, 2), dtype="<u8")
    chunk = np.empty(form.chunk, dtype=form.dtype)
    width = form.chunk[2]

    def fill(handle: BinaryIO) -> None:
        for group, row in enumerate(rows):
            for column in range(form.columns):
                part = row[:, :, column * width : (column + 1) * width]
                if part.shape != chunk.shape:
                    chunk.fill(np.nan)
                chunk[: part.shape[0], : part.shape[1], : part.shape[2]] = part
                index[group, column] = handle.tell(), form.chunk_bytes
                _put(handle, chunk)
        _put(handle, index)

    _write(path, fill)


def write_chunk(path: Path, values: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> None:
    """Write one chunk of `shape` with `values`, padded with zeros: atomic, and on disk on return."""
    chunk = np.zeros(shape, dtype=dtype)
    chunk[tuple(slice(n) for n in values.shape)] = values
    _write(path, lambda handle: _put(handle, chunk))


def read_chunk(path: Path, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Read one whole chunk; TraceError if the file is missing, has the wrong length or fails its checksum."""
    size = prod(shape) * dtype.itemsize + CHECKSUM_BYTES
    with _open(path, size) as handle:
        return _checked(path, 0, _read(path, handle, 0, np.empty(size, dtype="u1"))).view(dtype).reshape(shape)


class ShardPart(NamedTuple):
    """A part of one shard to read: along each axis, the positions to fill in `out` [c, s, p] and those in the shard."""

    path: Path
    form: ShardForm
    out: np.ndarray
    chains: Places
    draws: Places
    parameters: Places


def read_shards(parts: Iterable[ShardPart]) -> None:
    """Read `parts`, several files at a time: while some files are read, others are checked and copied.

    Only inner chunks with requested values are read and checked; this needs a few MiB in addition to the arrays. Raises
    TraceError in the same cases as `read_chunk`, for the first such file in the order of `parts`.
    """
    jobs = list(parts)
    if len(jobs) < 2:
        for job in jobs:
            _read_shard(job)
        return
    with ThreadPoolExecutor(min(READERS, len(jobs))) as threads:
        for _ in threads.map(_read_shard, jobs):
            pass


def damaged(path: Path, what: str) -> TraceError:
    """The error for a chunk file that cannot be trusted."""
    store = path.parent.parent
    return TraceError(
        f"{store}: array '{path.parent.name}' is damaged: chunk file {path}: {what}. "
        f"The bytes on disk are not those that were written. Delete the block's folder, which holds {store.name}, "
        "and rerun that block."
    )


def refused(error: OSError, message: str) -> TraceError:
    """The error for an operation that the operating system rejected, with the system's `errno`."""
    trace_error = TraceError(message)
    trace_error.errno = error.errno
    return trace_error


def _read_shard(part: ShardPart) -> None:
    path, form = part.path, part.form
    groups, columns = _split(part.chains, form.chunk[0]), _split(part.parameters, form.chunk[2])
    to_draw, from_draw = map(_key, part.draws)
    with _open(path, form.file_bytes) as handle:
        # The system's read-ahead would mostly fetch chunks that are not requested.
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(handle.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        start = form.file_bytes - form.index_bytes
        index = _checked(path, start, _read(path, handle, start, np.empty(form.index_bytes, dtype="u1")))
        entries = index.view("<u8").reshape(form.groups, form.columns, 2)
        wanted = entries[np.ix_(list(groups), list(columns))].reshape(-1, 2)
        if (wanted[:, 1] != form.chunk_bytes).any() or (wanted[:, 0] > start - form.chunk_bytes).any():
            raise damaged(path, "its index points outside the file")
        cells = list(product(groups.values(), columns.values()))
        runs = _runs(wanted[:, 0].astype(np.int64), form.chunk_bytes)
        buffer = np.empty((max(map(len, runs)), form.chunk_bytes), dtype="u1")
        for run in runs:
            first = int(wanted[run[0], 0])
            _read(path, handle, first, buffer[: len(run)].reshape(-1))
            for i, cell in enumerate(run):
                chunk = _checked(path, first + i * form.chunk_bytes, buffer[i]).view(form.dtype).reshape(form.chunk)
                (to_chain, from_chain), (to_parameter, from_parameter) = cells[cell]
                values = chunk[_outer(from_chain, from_draw, from_parameter)]
                part.out[_outer(to_chain, to_draw, to_parameter)] = values


def _runs(offsets: np.ndarray, length: int) -> list[np.ndarray]:
    """Chunks of `length` in the order of their `offsets`; adjacent chunks are grouped, to be read together."""
    order = np.argsort(offsets, kind="stable")
    most = max(1, READ_BYTES // length)
    runs = np.split(order, np.flatnonzero(np.diff(offsets[order]) != length) + 1)
    return [run[i : i + most] for run in runs for i in range(0, len(run), most)]


def _outer(*keys: Key) -> tuple[Key, ...]:
    """Index that selects the outer product of `keys`: slices if all keys are slices, else open index arrays."""
    if all(isinstance(key, slice) for key in keys):
        return keys
    return np.ix_(*(np.arange(key.start, key.stop, key.step) if isinstance(key, slice) else key for key in keys))


def _key(index: np.ndarray) -> Key:
    """The slice equivalent to the positions `index` if these ascend in equal steps, else `index`."""
    if index.size < 2:
        return slice(int(index[0]), int(index[0]) + 1) if index.size else slice(0, 0)
    step = int(index[1] - index[0])
    if step < 1 or (np.diff(index) != step).any():
        return index
    return slice(int(index[0]), int(index[-1]) + 1, step)


def _split(places: Places, width: int) -> dict[int, tuple[Key, Key]]:
    """`places` grouped by the index of their chunk (of `width`): the part to fill, and the part of the chunk to use."""
    to, index = places
    number = index // width
    order = np.argsort(number, kind="stable")
    chunks, starts = np.unique(number[order], return_index=True)
    parts = np.split(order, starts[1:])
    return {int(c): (_key(to[part]), _key(index[part] - c * width)) for c, part in zip(chunks, parts, strict=True)}


def _put(handle: BinaryIO, values: np.ndarray) -> None:
    raw = values.reshape(-1).view("u1")
    handle.write(raw.data)
    handle.write(google_crc32c.value(raw).to_bytes(CHECKSUM_BYTES, "little"))


def _read(path: Path, handle: BufferedReader, offset: int, raw: np.ndarray) -> np.ndarray:
    """Fill `raw` from `offset` on."""
    try:
        handle.seek(offset)
        count = handle.readinto(raw.data)
    except OSError as error:
        message = f"cannot read {path}: {error.strerror or error}. Check the disk, then try again."
        raise refused(error, message) from error
    if count != raw.size:
        raise damaged(path, f"it ends {raw.size - count} bytes early")
    return raw


def _checked(path: Path, offset: int, raw: np.ndarray) -> np.ndarray:
    """The values of a stored chunk, after verifying and removing its checksum."""
    values = raw[:-CHECKSUM_BYTES]
    if google_crc32c.value(values).to_bytes(CHECKSUM_BYTES, "little") != raw[-CHECKSUM_BYTES:].tobytes():
        raise damaged(path, f"the checksum of the {values.size} bytes at offset {offset} does not match")
    return values


def _open(path: Path, size: int) -> BufferedReader:
    try:
        handle = path.open("rb")
    except FileNotFoundError as error:
        raise TraceError(
            f"{path.parent.parent}: chunk file {path} of array '{path.parent.name}' is missing: "
            "that segment was never written or was deleted. Rerun that block; delete its folder first if it counts as "
            "finished."
        ) from error
    except OSError as error:
        raise TraceError(
            f"cannot open {path}: {error.strerror or error}. Check the disk and its permissions."
        ) from error
    found = os.fstat(handle.fileno()).st_size
    if found != size:
        handle.close()
        raise damaged(path, f"it has {found} bytes instead of {size}")
    return handle


def _write(path: Path, fill: Callable[[BinaryIO], None]) -> None:
    try:
        with atomic(path) as temporary, temporary.open("wb") as handle:
            fill(handle)
    except TraceError:
        raise
    except OSError as error:
        raise refused(
            error,
            f"cannot write {path}: {error.strerror or error}. Segments written before it are intact. "
            "Free or repair the disk and rerun that block; it continues where it stopped.",
        ) from error
