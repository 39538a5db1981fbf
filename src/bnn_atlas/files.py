"""Write files so that a reader never sees half of one, and read small arrays back."""

import mmap
import os
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
"""What reading a damaged zip or .npz raises: a changed byte can also ask for a password (RuntimeError), an unknown
compression (NotImplementedError, a RuntimeError) or a position before the start of the file (OSError)."""

_SEAL = b"crc32 of this file with zeros here: "


@contextmanager
def atomic(path: str | Path, *, flush: bool = True) -> Iterator[Path]:
    """Yield a temporary path next to `path`; on success flush it to disk and rename it to `path`.

    Without `flush`, a power cut can leave a partial file. On an exception the temporary file (or folder) is removed and
    `path` keeps its contents.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.stem}.{uuid.uuid4().hex[:8]}{target.suffix}")
    try:
        yield temporary
        if flush and not temporary.is_dir():
            with temporary.open("rb+") as handle:
                os.fsync(handle.fileno())
        temporary.replace(target)
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary)
        else:
            temporary.unlink(missing_ok=True)


@contextmanager
def replaced(path: str | Path) -> Iterator[Path]:
    """Yield an empty folder next to the folder `path`; on success it replaces `path` as a whole.

    On an exception the new folder is removed and `path` keeps its contents. If the process ends between the two
    renames, the old folder remains as `.<name>.before`, and `put_back` or the next call restores it.
    """
    target = Path(path)
    put_back(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    before = _before(target)
    shutil.rmtree(before, ignore_errors=True)
    made = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}")
    made.mkdir()
    try:
        yield made
        if target.exists():
            target.rename(before)
        made.rename(target)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    shutil.rmtree(before, ignore_errors=True)


def put_back(path: str | Path) -> None:
    """Restore the folder `path` if a process ended while `replaced` was renaming."""
    if not Path(path).exists() and _before(Path(path)).exists():
        _before(Path(path)).rename(path)


def _before(path: Path) -> Path:
    return path.with_name(f".{path.name}.before")


class DiskError(OSError):
    """The system refused to write a file; the message names it and says what to do. `errno` is the system's."""

    def __init__(self, path: Path, error: OSError, advice: str) -> None:
        super().__init__(f"cannot write {path}: {error.strerror or error}. {advice}")
        self.errno = error.errno


@contextmanager
def refusals(path: Path, advice: str) -> Iterator[None]:
    """Raise a DiskError for `path` with this advice if the system refuses to write (full disk, quota, read-only)."""
    try:
        yield
    except DiskError:
        raise
    except OSError as error:
        raise DiskError(path, error, advice) from error


def save_arrays(path: str | Path, arrays: Mapping[str, ArrayLike | None], *, compressed: bool = False) -> None:
    """Write named arrays as .npz (atomic); equal arrays give equal bytes. Names with None are left out."""
    present = {name: np.asarray(array) for name, array in arrays.items() if array is not None}
    with atomic(path) as temporary, temporary.open("wb") as handle:
        if compressed:
            np.savez_compressed(handle, allow_pickle=False, **present)
        else:
            np.savez(handle, allow_pickle=False, **present)


def load_chosen(path: str | Path, names: Collection[str], error: type[Exception], what: str) -> dict[str, np.ndarray]:
    """Some arrays that `save_arrays` wrote, without reading the others; raises like `load_arrays`."""
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
    """Read what `save_arrays` wrote; nothing in the file is executed.

    Args:
        path: the file.
        required: names of arrays that the file must have.
        error: class of the error for any other file.
        what: what the file should be, for the message, such as `a split`.
        optional: names of further arrays that it may have; None allows any.

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


class TableError(ValueError):
    """A table is missing, damaged or has the wrong columns; the message names the file and says what to do."""


@contextmanager
def parquet_writer(path: str | Path, schema: "pa.Schema") -> Iterator["pq.ParquetWriter"]:
    """Write a Parquet file (atomic) that notices damage; the same tables give the same bytes.

    Each page has a checksum that any reader can verify. As pages leave out the file's own description, that description
    holds a checksum of the whole file, too, which `parquet_file` verifies.
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
    """Open a Parquet file after verifying its checksum; pages of files without one are verified as they are read.

    Raises:
        TableError: the file is missing or damaged; also if that is noticed within the block.
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
        raise TableError(
            f"{path}: not a Parquet file, or damaged ({error}); delete it and run its rule again"
        ) from None


def _is_sealed(path: Path) -> bool:
    """Whether a file has the checksum that it states; true if it states none."""
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
            raise TableError(f"{path}: no column {', '.join(sorted(missing))}; delete it and run its rule again")
        return source.read(columns).to_pandas()
