"""Zip files with a checksum for every member, written whole or not at all; equal contents give equal zips."""

import hashlib
import io
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from math import prod
from pathlib import Path
from tokenize import TokenError
from typing import Any
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np

from bnn_atlas.files import ZIP_DAMAGE, atomic

MANIFEST = "manifest.json"
"""Last file of an archive: its format, and the SHA-256 and length of every other file."""
_DATE = (1980, 1, 1, 0, 0, 0)
_READABLE = 0o644 << 16
ENCRYPTED = 1
"""Flag of a file in a zip."""
PIECE = 2**20
"""Number of bytes read at a time."""


class ArchiveError(ValueError):
    """A file is not an archive of the expected kind, or is damaged; the message names the file."""


def write_archive(path: str | Path, form: str, files: Iterable[tuple[str, Iterable[bytes]]]) -> None:
    """Write files, given as (name, parts), and then the manifest, as a zip (atomic), with one part in memory at a time.

    Nothing is compressed and all files have the same date, so equal contents give equal bytes everywhere. `form` names
    the format of the archive.
    """
    with atomic(path) as temporary, ZipFile(temporary, "w", ZIP_STORED) as archive:
        listed: dict[str, dict[str, Any]] = {}
        for name, parts in files:
            listed[name] = _write(archive, name, parts)
        _write(archive, MANIFEST, [as_json({"format": form, "files": listed})])


class Archive:
    """An open archive whose names and sizes match its manifest; contents are checked while they are read."""

    def __init__(self, path: str | Path, what: str, file: ZipFile, listed: Mapping[str, Any]) -> None:
        self.listed = listed
        """Name of each file except the manifest, in order -> the file's `sha256` and `bytes`."""
        self._path, self._what, self._file = path, what, file

    def parts(self, name: str) -> Iterator[bytes]:
        """A file in parts; raises ArchiveError, at the latest after the last part, if the file is damaged."""
        digest = hashlib.sha256()
        try:
            with self._file.open(name) as content:
                while part := content.read(PIECE):
                    digest.update(part)
                    yield part
        except ZIP_DAMAGE as damage:
            raise _damaged(self._path, self._what, damage) from None
        if digest.hexdigest() != self.listed[name]["sha256"]:
            raise ArchiveError(
                f"{self._path}: {name} is damaged: the manifest has another checksum; get the file again"
            )


@contextmanager
def opened(
    path: str | Path, form: str, what: str, required: Collection[str] = (), allowed: str = ".*"
) -> Iterator[Archive]:
    """Open an archive that `write_archive` wrote, after checking names and sizes against its manifest.

    Nothing is executed. Since nothing is compressed, the contents are never larger than the archive.

    Args:
        path: the archive.
        form: the required format.
        what: description of the expected archive for messages, such as `a reference posterior`.
        required: names of files that the archive must have.
        allowed: regular expression for the names of all other files.

    Raises:
        ArchiveError: this is not an archive of this format, or a file in it is damaged, missing or unknown.
        FileNotFoundError: the file does not exist.
    """
    if not isinstance(path, str | Path) or Path(path).is_dir():
        kind = "folder" if isinstance(path, str | Path) else type(path).__name__
        raise ArchiveError(f"{path} is a {kind}: give the path of {what}, a zip")
    with Path(path).open("rb") as handle, ExitStack() as stack:
        try:
            archive = stack.enter_context(ZipFile(handle))
            files = archive.infolist()
            if problem := _unfit(files, Path(path).stat().st_size):
                raise ArchiveError(f"{path}: {problem}; get the file again")
            listed = _listed(path, form, what, archive)
            sizes = {file.filename: file.file_size for file in files if file.filename != MANIFEST}
            _check_names(path, what, listed, sizes, required, allowed)
        except ArchiveError:
            raise
        except (*ZIP_DAMAGE, MemoryError) as damage:
            raise _damaged(path, what, damage) from None
        yield Archive(path, what, archive, {name: listed[name] for name in sizes})


def read_archive(
    path: str | Path, form: str, what: str, required: Collection[str] = (), allowed: str = ".*"
) -> dict[str, bytes]:
    """Name -> contents of all files; takes the arguments and raises the errors of `opened`."""
    with opened(path, form, what, required, allowed) as archive:
        return {name: b"".join(archive.parts(name)) for name in archive.listed}


def _damaged(path: str | Path, what: str, damage: BaseException) -> ArchiveError:
    return ArchiveError(f"{path}: not {what}, or damaged ({first_line(damage)}); get the file again")


def first_line(error: BaseException) -> str:
    """The message of an error, shortened to one line."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


def as_json(content: Any) -> bytes:
    """Readable JSON with sorted keys."""
    return (json.dumps(content, indent=1, sort_keys=True, ensure_ascii=True, allow_nan=False) + "\n").encode("ascii")


def array_parts(array: np.ndarray) -> Iterator[bytes]:
    """An array as the parts of an .npy file, little-endian."""
    yield from arrays_parts(array.shape, array.dtype, [array])


def arrays_parts(shape: tuple[int, ...], dtype: np.dtype, pieces: Iterable[np.ndarray]) -> Iterator[bytes]:
    """An array of this shape, passed in consecutive pieces, as the parts of an .npy file."""
    little = dtype.newbyteorder("<")
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": np.lib.format.dtype_to_descr(little), "fortran_order": False, "shape": shape}
    )
    yield header.getvalue()
    for piece in pieces:
        yield np.ascontiguousarray(piece, little).tobytes()


def read_array(content: bytes) -> np.ndarray:
    """The array of an .npy file that `array_parts` wrote; ValueError for other files and arrays of objects."""
    file = io.BytesIO(content)
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError("not an .npy file of format 1.0")
    try:
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    except (SyntaxError, TokenError, RecursionError, MemoryError) as error:
        raise ValueError(f"an .npy file with a damaged header ({first_line(error)})") from None
    # Otherwise NumPy would first allocate as much memory as the header claims.
    if dtype.hasobject or min(shape, default=0) < 0 or prod(shape) * dtype.itemsize != len(content) - file.tell():
        raise ValueError(f"an .npy file whose header says {dtype} {list(shape)} and that holds something else")
    return np.asarray(np.load(io.BytesIO(content), allow_pickle=False))


def _write(archive: ZipFile, name: str, parts: Iterable[bytes]) -> dict[str, Any]:
    """Write one file and return its entry in the manifest."""
    info = ZipInfo(name, _DATE)
    info.create_system, info.external_attr = 3, _READABLE
    digest, length = hashlib.sha256(), 0
    # The length is not known in advance and may exceed 2 GiB.
    with archive.open(info, "w", force_zip64=True) as file:
        for part in parts:
            file.write(part)
            digest.update(part)
            length += len(part)
    return {"sha256": digest.hexdigest(), "bytes": length}


def _unfit(files: Sequence[ZipInfo], size: int) -> str:
    """The first way in which the list of files differs from what `write_archive` writes; empty if there is none."""
    names = Counter(file.filename for file in files)
    if twice := [name for name, number in names.items() if number > 1]:
        return f"two of its files have the same name ({twice[0]})"
    for file in files:
        if file.compress_type != ZIP_STORED or file.compress_size != file.file_size or file.flag_bits & ENCRYPTED:
            return f"{file.filename} is compressed or encrypted, unlike in any archive of this kind"
    if sum(file.file_size for file in files) > size:
        return "its list of files claims more bytes than the archive has"
    return ""


def _check_names(
    path: str | Path,
    what: str,
    listed: Mapping[str, Any],
    sizes: Mapping[str, int],
    required: Collection[str],
    allowed: str,
) -> None:
    """Raise ArchiveError if files are missing or unknown, or if their sizes differ from the manifest."""
    missing, unknown = listed.keys() - sizes.keys(), sizes.keys() - listed.keys()
    if missing or unknown:
        raise ArchiveError(
            f"{path}: its manifest does not match (missing: {_names(missing)}; unknown: {_names(unknown)}); get the "
            "file again"
        )
    missing = set(required) - sizes.keys()
    unknown = {name for name in sizes.keys() - set(required) if not re.fullmatch(allowed, name)}
    if missing or unknown:
        raise ArchiveError(
            f"{path}: not {what} (missing: {_names(missing)}; unknown: {_names(unknown)}); export the run again"
        )
    for name, size in sizes.items():
        if listed[name]["bytes"] != size:
            raise ArchiveError(
                f"{path}: {name} is damaged: it has {size} bytes, and {listed[name]['bytes']} in the manifest; get the "
                "file again"
            )


def _names(names: Collection[str]) -> str:
    shown = [f"{name:.80}" for name in sorted(names)[:5]]
    return ", ".join(shown + ["..."] * (len(names) > len(shown))) or "none"


def _listed(path: str | Path, form: str, what: str, archive: ZipFile) -> Mapping[str, Any]:
    """Entries of the manifest."""
    try:
        manifest = json.loads(archive.read(MANIFEST))
        stated, listed = manifest["format"], manifest["files"]
    except (KeyError, TypeError, ValueError, RecursionError):
        raise ArchiveError(f"{path}: not {what}: it has no {MANIFEST} of this package") from None
    if stated != form:
        raise ArchiveError(f"{path}: this version does not read the format {stated!r:.80}, only {form!r}")
    entries = listed.values() if isinstance(listed, dict) else [None]
    if not all(isinstance(entry, dict) and entry.keys() == {"sha256", "bytes"} for entry in entries):
        raise ArchiveError(f"{path}: its {MANIFEST} lists no files with checksums; get the file again")
    return dict(listed)
