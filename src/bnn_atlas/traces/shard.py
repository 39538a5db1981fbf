"""The bytes of a trace's chunk files: checksummed chunks, and shards of them, as Zarr v3 lays them out.

A chunk is its values, little-endian in row-major order, followed by the CRC-32C of those bytes. A shard is a run of
chunks followed by an index [groups, 1, columns, 2] of (offset, length) as unsigned 64-bit integers and the index's
own CRC-32C; see the `sharding_indexed` and `crc32c` codecs of the Zarr v3 specification. zarr-python reads and writes
the same files, but its writer reads a shard before replacing it, holds three copies of it and does not flush it to
disk, and its reader takes an empty file for fill values; these functions stream chunk by chunk.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from errno import EINVAL
from io import BufferedReader
from math import prod
from pathlib import Path
from typing import BinaryIO

import google_crc32c
import numpy as np

from bnn_atlas.files import atomic

CHECKSUM_BYTES = 4
INDEX_ENTRY_BYTES = 16
CHUNK_BYTES = 1 << 20
GROUP_BYTES = 64 << 20
COLUMN = 128

Key = slice | np.ndarray


class TraceError(OSError):
    """A trace that is missing, incomplete, damaged, at odds with another one, or that could not be written.

    `errno` is set where the operating system refused (28, ENOSPC: the disk is full).
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
    """Inner chunks of at most about 1 MiB, so that reading a few chains or a few parameters reads little else.

    Parameters come in columns of 128 scalars (a multiple of it for models of more than 16,384, so that there are at
    most 128 columns); chains in even groups, small enough that all draws of one group stay under 64 MiB.
    """
    column = min(size, COLUMN * -(-size // COLUMN**2))
    by_chunk = CHUNK_BYTES // (segment * column * dtype.itemsize)
    by_group = GROUP_BYTES // (draws * size * dtype.itemsize)
    groups = -(-chains // max(1, min(by_chunk, by_group, chains)))
    group = -(-chains // groups)
    return ShardForm((group, segment, column), -(-chains // group), -(-size // column), dtype)


def write_shard(path: Path, form: ShardForm, rows: Iterable[np.ndarray]) -> None:
    """Write a segment's shard: atomic, and on disk when the call returns.

    `rows` gives, group by group, the draws [chains of the group, draws, parameters]; where they fall short of a whole
    chunk (last group, last segment, last column) the chunk is padded with NaN. Only one chunk is held beside a row.
    Raises TraceError if the disk refuses (full, quota, read-only); what stood at `path` then stays.
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
    """Write one chunk of `shape` that starts with `values` and is zero beyond: atomic, and on disk on return."""
    chunk = np.zeros(shape, dtype=dtype)
    chunk[tuple(slice(n) for n in values.shape)] = values
    _write(path, lambda handle: _put(handle, chunk))


def read_chunk(path: Path, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """One whole chunk; TraceError if the file is missing, has another length or fails its checksum."""
    raw = np.empty(prod(shape) * dtype.itemsize + CHECKSUM_BYTES, dtype="u1")
    with _open(path, raw.size) as handle:
        return _take(path, handle, 0, raw).view(dtype).reshape(shape)


def read_shard(path: Path, form: ShardForm, out: np.ndarray, axes: Sequence[np.ndarray]) -> None:
    """Fill `out` with the outer product of the index arrays `axes` (chains, draws, parameters) of one shard.

    Reads and checks only the inner chunks that hold something asked for. TraceError as in `read_chunk`.
    """
    chains, draws, parameters = axes
    groups = _split(chains, form.chunk[0])
    columns = _split(parameters, form.chunk[2])
    every = np.arange(len(draws))
    raw = np.empty(form.chunk_bytes, dtype="u1")
    with _open(path, form.file_bytes) as handle:
        start = form.file_bytes - form.index_bytes
        index = _take(path, handle, start, np.empty(form.index_bytes, dtype="u1"))
        entries = index.view("<u8").reshape(form.groups, form.columns, 2)
        for group, to_chain, from_chain in groups:
            for column, to_parameter, from_parameter in columns:
                offset, length = (int(number) for number in entries[group, column])
                if length != raw.size or offset + length > start:
                    raise damaged(path, "its index points outside the file")
                chunk = _take(path, handle, offset, raw).view(form.dtype).reshape(form.chunk)
                target = outer_key(to_chain, every, to_parameter)
                out[target] = chunk[outer_key(from_chain, draws, from_parameter)]


def outer_key(*axes: np.ndarray) -> tuple[Key, ...]:
    """Index that selects the outer product of `axes`: slices where all are evenly spaced, else open index arrays."""
    slices = [evenly_spaced(axis) for axis in axes]
    if all(part is not None for part in slices):
        return tuple(part for part in slices if part is not None)
    return np.ix_(*axes)


def evenly_spaced(index: np.ndarray) -> slice | None:
    """The slice that selects the same as the positions `index`, or None if they do not ascend in even steps."""
    if index.size < 2:
        return slice(int(index[0]), int(index[0]) + 1) if index.size else slice(0, 0)
    step = int(index[1] - index[0])
    if step < 1 or (np.diff(index) != step).any():
        return None
    return slice(int(index[0]), int(index[-1]) + 1, step)


def sync_folder(path: Path) -> None:
    """Flush a folder's entries to disk, so that a file renamed into it survives a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems cannot flush a folder and order the rename themselves.
        if error.errno != EINVAL:
            raise
    finally:
        os.close(descriptor)


def damaged(path: Path, what: str) -> TraceError:
    """The error for a chunk file that cannot be trusted."""
    store = path.parent.parent
    return TraceError(
        f"{store}: array '{path.parent.name}' is damaged: chunk file {path}: {what}. "
        f"The bytes on disk are not those that were written. Delete the block's folder, which holds {store.name}, "
        "and rerun that block."
    )


def refused(error: OSError, message: str) -> TraceError:
    """The error for what the operating system refused, with its `errno`."""
    trace_error = TraceError(message)
    trace_error.errno = error.errno
    return trace_error


def _split(index: np.ndarray, width: int) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """Per chunk of `width` that `index` touches: its number, the places in `index`, and the places in the chunk."""
    number = index // width
    order = np.argsort(number, kind="stable")
    chunks, starts = np.unique(number[order], return_index=True)
    places = np.split(order, starts[1:])
    return [(int(c), place, index[place] - c * width) for c, place in zip(chunks, places, strict=True)]


def _put(handle: BinaryIO, values: np.ndarray) -> None:
    raw = values.reshape(-1).view("u1")
    handle.write(raw.data)
    handle.write(google_crc32c.value(raw).to_bytes(CHECKSUM_BYTES, "little"))


def _take(path: Path, handle: BufferedReader, offset: int, raw: np.ndarray) -> np.ndarray:
    """Read `raw.size` bytes at `offset` into `raw` and return them without their checksum, once it is checked."""
    try:
        handle.seek(offset)
        count = handle.readinto(raw.data)
    except OSError as error:
        message = f"cannot read {path}: {error.strerror or error}. Check the disk, then try again."
        raise refused(error, message) from error
    if count != raw.size:
        raise damaged(path, f"it ends {raw.size - count} bytes early")
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
        sync_folder(path.parent)
    except TraceError:
        raise
    except OSError as error:
        raise refused(
            error,
            f"cannot write {path}: {error.strerror or error}. Segments written before it are intact. "
            "Free or repair the disk and rerun that block; it goes on where it stopped.",
        ) from error
