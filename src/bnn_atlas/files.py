"""Write files so that a reader never sees half a file, and read small arrays back."""

import errno
import glob
import mmap
import os
import re
import shutil
import uuid
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import BadZipFile

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    import pandas
    import pyarrow as pa
    import pyarrow.parquet as pq

ZIP_DAMAGE = (BadZipFile, zlib.error, EOFError, KeyError, ValueError, RuntimeError, OSError)
"""Errors raised by reading a damaged zip or .npz: a changed byte can also request a password (RuntimeError), an unknown
compression (NotImplementedError, a RuntimeError) or a position before the start of the file (OSError)."""

REFUSED = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EIO)
"""Error numbers of a system that cannot write."""
_SEAL = b"crc32 of this file with zeros here: "


@contextmanager
def atomic(path: str | Path, *, flush: bool = True) -> Iterator[Path]:
    """Yield a temporary path next to `path`; on success flush it to disk and rename it to `path`.

    Without `flush`, a power cut can leave a partial file. On an exception the temporary file (or folder) is removed and
    `path` keeps its contents.

    Raises:
        DiskError: the system refused to write (full disk, quota, read-only), also within the block.
    """
    target = Path(path)
    temporary = _beside(target)
    with _refusals_alone(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            if flush:
                sync(temporary)
            temporary.replace(target)
            if flush:
                sync(target.parent, inside=False)
        finally:
            remove(temporary)


@contextmanager
def replaced(path: str | Path) -> Iterator[Path]:
    """Yield an empty folder next to the folder `path`; on success flush it to disk, and it replaces `path` as a whole.

    On an exception the new folder is removed and `path` keeps its contents. If the process ends between the two
    renames, the old folder remains as `.<name>.before`, and `put_back` or the next call restores it.

    Raises:
        DiskError: the system refused to write (full disk, quota, read-only), also within the block.
    """
    target = Path(path)
    put_back(target)
    before, made = _before(target), _beside(target)
    with _refusals_alone(target):
        remove(before)
        made.mkdir(parents=True)
        try:
            yield made
            sync(made)
            if target.exists():
                target.rename(before)
            made.rename(target)
            sync(target.parent, inside=False)
        finally:
            remove(made)
        remove(before)


def is_temporary(path: Path) -> bool:
    """Whether a file or folder has a temporary name, which `atomic` and `replaced` use only while writing."""
    return re.fullmatch(r"\..+\.[0-9a-f]{8}(\.\w+)?", path.name) is not None and path.suffix != ".record"


def remove_leftovers(path: str | Path) -> None:
    """Remove temporary files that killed processes left while writing a file, or a folder and the files in it."""
    target = Path(path)
    pattern = re.compile(rf"\.{re.escape(target.stem)}\.[0-9a-f]{{8}}{re.escape(target.suffix)}")
    inside = target.iterdir() if target.is_dir() else ()
    beside = target.parent.glob(f".{glob.escape(target.stem)}.*")
    for file in [f for f in beside if pattern.fullmatch(f.name)] + [f for f in inside if is_temporary(f)]:
        remove(file)


def _beside(target: Path) -> Path:
    """A new name next to a file or folder."""
    return target.with_name(f".{target.stem}.{uuid.uuid4().hex[:8]}{target.suffix}")


def remove(path: Path) -> None:
    """Remove a file or a folder if it exists."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def sync(path: Path, *, inside: bool = True) -> None:
    """Flush a file to disk, or a folder with its entries (so that renamed files survive a power cut) and its contents.

    If `inside` is false, only the entries of a folder are flushed.
    """
    for file in [*(path.rglob("*") if inside and path.is_dir() else ()), path]:
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            # Some network file systems cannot flush a folder and order renames themselves.
            if error.errno != errno.EINVAL or not file.is_dir():
                raise
        finally:
            os.close(descriptor)


def put_back(path: str | Path) -> None:
    """Restore the folder `path` if a process ended while `replaced` was renaming."""
    if not Path(path).exists() and _before(Path(path)).exists():
        _before(Path(path)).rename(path)


def _before(path: Path) -> Path:
    return path.with_name(f".{path.name}.before")


class DiskError(OSError):
    """The system could not write a file; the message names the file and says what to do. `errno` is the system's."""

    def __init__(self, path: Path, error: OSError, advice: str) -> None:
        super().__init__(f"cannot write {path}: {error.strerror or error}. {advice}")
        self.errno = error.errno


@contextmanager
def refusals(path: Path, advice: str) -> Iterator[None]:
    """Turn a system error into a DiskError for `path` with this advice; nested blocks use the outermost advice."""
    try:
        yield
    except OSError as error:
        cause = error.__cause__ if isinstance(error, DiskError) and isinstance(error.__cause__, OSError) else error
        raise DiskError(path, cause, advice) from cause


@contextmanager
def _refusals_alone(path: Path) -> Iterator[None]:
    """Like `refusals`, with general advice, but only for errors of writing: the block may also read other files."""
    try:
        yield
    except OSError as error:
        if isinstance(error, DiskError) or error.errno not in REFUSED:
            raise
        raise DiskError(path, error, "Free or repair the disk and start again.") from error


def save_arrays(path: str | Path, arrays: Mapping[str, ArrayLike | None], *, compressed: bool = False) -> None:
    """Write named arrays as .npz (atomic); equal arrays give equal bytes. Names with None are left out."""
    present = {name: np.asarray(array) for name, array in arrays.items() if array is not None}
    with atomic(path) as temporary, temporary.open("wb") as handle:
        if compressed:
            np.savez_compressed(handle, allow_pickle=False, **present)
        else:
            np.savez(handle, allow_pickle=False, **present)


def load_chosen(path: str | Path, names: Collection[str], error: type[Exception], what: str) -> dict[str, np.ndarray]:
    """Some arrays that `save_arrays` wrote, without reading the others; raises the errors of `load_arrays`."""
    try:
        with Path(path).open("rb") as handle, np.load(handle, allow_pickle=False) as stored:
            if missing := set(names) - set(stored.files):
                raise error(f"{path}: not {what} (missing: {', '.join(sorted(missing))}); delete it and make it again")
            return {name: stored[name] for name in names}
    except ZIP_DAMAGE as damage:
        raise error(f"{path}: not {what} ({damage}); delete it and make it again") from None


def load_arrays(
    path: str | Path,
    required: Collection[str],
    error: type[Exception],
    what: str,
    optional: Collection[str] | None = (),
) -> dict[str, np.ndarray]:
    """Read arrays that `save_arrays` wrote; nothing in the file is executed.

    Args:
        path: the file.
        required: names of arrays that the file must have.
        error: class of the error to raise for any other file.
        what: description of the expected file for the message, such as `a split`.
        optional: names of further arrays that the file may have; None allows any.

    Raises:
        error: the file is damaged, or arrays are missing or unknown; the message names the file.
        FileNotFoundError: the file does not exist.
    """
    with Path(path).open("rb") as handle:
        try:
            with np.load(handle, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
        except ZIP_DAMAGE as damage:
            raise error(f"{path}: not {what} ({damage}); delete it and make it again") from None
    missing = set(required) - arrays.keys()
    unknown = set() if optional is None else arrays.keys() - set(required) - set(optional)
    if missing or unknown:
        raise error(
            f"{path}: not {what} (missing: {', '.join(sorted(missing)) or 'none'}; "
            f"unknown: {', '.join(sorted(unknown)) or 'none'}); delete it and make it again"
        )
    return arrays


MEND = "let `snakemake --cores 2 check --config mend=true` (and the same scale) remove it, and start again"
"""What to do with a damaged result."""


class TableError(ValueError):
    """A table is missing, damaged or has the wrong columns; the message names the file and says what to do."""


@contextmanager
def parquet_writer(path: str | Path, schema: "pa.Schema") -> Iterator["pq.ParquetWriter"]:
    """Write a Parquet file (atomic) that notices damage; the same tables give the same bytes.

    Each page has a checksum that any reader can verify. Pages do not cover the file's metadata, so the metadata also
    hold a checksum of the whole file, which `parquet_file` verifies.
    """
    import pyarrow.parquet as pq

    with atomic(path) as temporary:
        with pq.ParquetWriter(temporary, schema, compression="zstd", write_page_checksum=True) as writer:
            yield writer
            writer.add_key_value_metadata({"checksum": (_SEAL + b"0" * 8).decode()})
        with temporary.open("rb+") as handle, mmap.mmap(handle.fileno(), 0) as content:
            place = content.rfind(_SEAL) + len(_SEAL)
            content[place : place + 8] = b"%08x" % zlib.crc32(content)


@contextmanager
def parquet_file(path: str | Path) -> Iterator["pq.ParquetFile"]:
    """Open a Parquet file after verifying its checksum; in a file without a checksum, pages are verified when read.

    Raises:
        TableError: the file is missing or damaged, even if the damage is noticed only within the block.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not Path(path).is_file():
        raise TableError(f"{path}: no such table; run the rule that makes it")
    try:
        if not _is_sealed(Path(path)):
            raise pa.ArrowInvalid("its checksum differs")
        with pq.ParquetFile(path, page_checksum_verification=True) as source:
            yield source
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        if getattr(error, "errno", None):  # the system's, from writing elsewhere
            raise
        raise TableError(f"{path}: not a Parquet file, or damaged ({error}); {MEND}") from None


def _is_sealed(path: Path) -> bool:
    """Whether a file has the checksum stated in it; true if no checksum is stated."""
    if not path.stat().st_size:
        return False
    with path.open("rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as content:
        place = content.rfind(_SEAL) + len(_SEAL)
        if place < len(_SEAL):
            return True
        with memoryview(content) as view:
            zeros = zlib.crc32(b"0" * 8, zlib.crc32(view[:place]))
            return content[place : place + 8] == b"%08x" % zlib.crc32(view[place + 8 :], zeros)


def read_parquet(path: str | Path, columns: list[str] | None = None) -> "pandas.DataFrame":
    """A Parquet file as a data frame; TableError if it is missing, damaged, or lacks one of the columns."""
    with parquet_file(path) as source:
        if missing := set(columns or ()) - set(source.schema_arrow.names):
            raise TableError(f"{path}: no column {', '.join(sorted(missing))}; {MEND}")
        return source.read(columns).to_pandas()
