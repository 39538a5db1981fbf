"""Zip files with a checksum for every file, written whole or not at all, and equal for equal contents."""

import hashlib
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np

from bnn_atlas.files import ZIP_DAMAGE, atomic

MANIFEST = "manifest.json"
"""Last file of an archive: its format, and the SHA-256 and length of every other file."""
_DATE = (1980, 1, 1, 0, 0, 0)
_READABLE = 0o644 << 16


class ArchiveError(ValueError):
    """A file is not such an archive, or is damaged; the message names it."""


def write_archive(path: str | Path, form: str, files: Iterable[tuple[str, Iterable[bytes]]]) -> None:
    """Write files, each with a name and parts, and then the manifest, as a zip (atomic), one part in memory at a time.

    Nothing is compressed and all files have the same date, so equal contents give equal bytes everywhere. `form` names
    the format, for readers.
    """
    with atomic(path) as temporary, ZipFile(temporary, "w", ZIP_STORED) as archive:
        listed: dict[str, dict[str, Any]] = {}
        for name, parts in files:
            listed[name] = _write(archive, name, parts)
        _write(archive, MANIFEST, [as_json({"format": form, "files": listed})])


def read_archive(path: str | Path, form: str, what: str) -> dict[str, bytes]:
    """Name -> contents of the files that `write_archive` wrote, checked against the manifest; nothing is executed.

    Args:
        path: the archive.
        form: the format that it must have.
        what: what it should be, for the message, such as `a reference posterior`.

    Raises:
        ArchiveError: this is not such an archive, or a file in it is damaged, missing or unknown.
        FileNotFoundError: the file does not exist.
    """
    with Path(path).open("rb") as handle:
        try:
            with ZipFile(handle) as archive:
                names = archive.namelist()
                contents = {name: archive.read(name) for name in names}
        except ZIP_DAMAGE as damage:
            raise ArchiveError(f"{path}: not {what}, or damaged ({damage}); get the file again") from None
    if len(names) != len(contents):
        raise ArchiveError(f"{path}: two of its files have the same name; get the file again")
    listed = _listed(path, form, what, contents)
    missing, unknown = listed.keys() - contents.keys(), contents.keys() - listed.keys()
    if missing or unknown:
        raise ArchiveError(
            f"{path}: its manifest does not match (missing: {', '.join(sorted(missing)) or 'none'}; unknown: "
            f"{', '.join(sorted(unknown)) or 'none'}); get the file again"
        )
    for name, content in contents.items():
        if listed[name] != _facts(content):
            raise ArchiveError(f"{path}: {name} is damaged: the manifest has another checksum; get the file again")
    return contents


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
    """The array of an .npy file; ValueError for arrays of objects and for other files."""
    array = np.load(io.BytesIO(content), allow_pickle=False)
    if not isinstance(array, np.ndarray):
        raise ValueError("not an .npy file")
    return array


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


def _facts(content: bytes) -> dict[str, Any]:
    return {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}


def _listed(path: str | Path, form: str, what: str, contents: dict[str, bytes]) -> Mapping[str, Any]:
    """Entries of the manifest, which is removed from `contents`."""
    try:
        manifest = json.loads(contents.pop(MANIFEST))
        stated, listed = manifest["format"], manifest["files"]
    except (KeyError, TypeError, ValueError):
        raise ArchiveError(f"{path}: not {what}: it has no {MANIFEST} of this package") from None
    if stated != form:
        raise ArchiveError(f"{path}: this version does not read the format {stated!r}, only {form!r}")
    if not isinstance(listed, dict):
        raise ArchiveError(f"{path}: its {MANIFEST} lists no files; get the file again")
    return listed
