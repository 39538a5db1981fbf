"""The published CIFAR-10-C: corrupted CIFAR-10 test images, read straight out of their tar."""

import tarfile
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

import numpy as np

from bnn_atlas.config.data.shift import PUBLISHED_CORRUPTIONS, SEVERITIES
from bnn_atlas.data.errors import DataError
from bnn_atlas.data.readers.archives import refuse_foreign

FOLDER = "CIFAR-10-C"
LABELS = "labels"
CLASSES = 10


class CorruptedImages(NamedTuple):
    """The test images in CIFAR-10's own order, at one severity of one corruption."""

    images: np.ndarray
    """[n, 32, 32, 3] uint8."""
    labels: np.ndarray
    """[n] int64."""


def read_cifar10c(
    path: str | Path, corruption: str, severity: int, *, rows: int = 10_000, side: int = 32
) -> CorruptedImages:
    """Images and labels of one corruption at one severity, read from CIFAR-10-C.tar without unpacking it.

    A member holds [5 n, 32, 32, 3] uint8, with severity s in rows (s - 1) n to s n - 1; only these are read.
    The defaults of `rows` (n) and `side` fit the published set. Hendrycks and Dietterich 2019; Zenodo record 2535967.

    Raises DataError, with the tar and the member, for an unknown corruption or severity, a missing or truncated tar, a
    member that is missing or has another shape or type, labels that are out of range or differ between severities, and
    paths outside the folder CIFAR-10-C.
    """
    if corruption not in PUBLISHED_CORRUPTIONS or severity not in range(1, SEVERITIES + 1):
        raise DataError(
            f"CIFAR-10-C has no {corruption!r} of severity {severity}; it has {', '.join(PUBLISHED_CORRUPTIONS)}, "
            f"each with severities 1 to {SEVERITIES}"
        )
    if not Path(path).is_file():
        raise DataError(f"{path}: no such file; download the data set cifar10c")
    try:
        with tarfile.open(path, "r:") as tar:
            members = _members(path, tar)
            images = _block(path, tar, members, corruption, (SEVERITIES * rows, side, side, 3), severity, rows)
            labels = _labels(path, tar, members, rows)
    except (tarfile.TarError, OSError) as error:
        raise DataError(
            f"{path}: not an intact tar ({error}): the file is truncated or altered; delete it and download it again"
        ) from None
    return CorruptedImages(images, labels[(severity - 1) * rows : severity * rows])


def _members(path: str | Path, tar: tarfile.TarFile) -> dict[str, tarfile.TarInfo]:
    """Name without folder and .npy -> regular file in the tar."""
    members = {}
    for member in tar.getmembers():
        refuse_foreign(path, member)
        place = PurePosixPath(member.name)
        if place.parts[:1] != (FOLDER,):
            raise DataError(
                f"{path}: member '{member.name}' is outside the folder {FOLDER}; this is not the published tar. "
                "Download the data set cifar10c"
            )
        if member.isfile() and len(place.parts) == 2 and place.suffix == ".npy":
            members[place.stem] = member
    return members


def _array(
    path: str | Path, tar: tarfile.TarFile, members: dict[str, tarfile.TarInfo], name: str
) -> tuple[IO[bytes], tuple[int, ...], np.dtype]:
    """A member opened after its .npy header, with the shape and type that the header gives."""
    if name not in members:
        raise DataError(f"{path}: no member {FOLDER}/{name}.npy; the tar holds {', '.join(sorted(members)) or 'none'}")
    source = tar.extractfile(members[name])
    if source is None:
        raise DataError(f"{path}: member {FOLDER}/{name}.npy has no content")
    try:
        version = np.lib.format.read_magic(source)
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, kind = header(source)
    except ValueError as error:
        raise DataError(f"{path}: member {FOLDER}/{name}.npy is not an .npy array ({error})") from None
    size = members[name].size - source.tell()
    if fortran or size != int(np.prod(shape)) * kind.itemsize or kind.hasobject:
        raise DataError(
            f"{path}: member {FOLDER}/{name}.npy has {size} bytes for {kind} of shape {list(shape)}"
            f"{' in Fortran order' if fortran else ''}; it is truncated or altered, download the tar again"
        )
    return source, shape, kind


def _block(
    path: str | Path,
    tar: tarfile.TarFile,
    members: dict[str, tarfile.TarInfo],
    name: str,
    shape: tuple[int, ...],
    severity: int,
    rows: int,
) -> np.ndarray:
    """The images of one severity [rows, side, side, 3]."""
    source, found, kind = _array(path, tar, members, name)
    if found != shape or kind != np.uint8:
        raise DataError(
            f"{path}: member {FOLDER}/{name}.npy holds {kind} of shape {list(found)}; expected uint8 of {list(shape)}"
        )
    size = rows * int(np.prod(shape[1:]))
    source.seek((severity - 1) * size, 1)
    return np.frombuffer(source.read(size), dtype=np.uint8).reshape(rows, *shape[1:])


def _labels(path: str | Path, tar: tarfile.TarFile, members: dict[str, tarfile.TarInfo], rows: int) -> np.ndarray:
    """The labels of all severities [5 rows] int64."""
    source, found, kind = _array(path, tar, members, LABELS)
    if found != (SEVERITIES * rows,) or kind.kind not in "iu":
        raise DataError(
            f"{path}: member {FOLDER}/{LABELS}.npy holds {kind} of shape {list(found)}; expected whole numbers of "
            f"shape [{SEVERITIES * rows}]"
        )
    labels = np.frombuffer(source.read(found[0] * kind.itemsize), dtype=kind).astype(np.int64)
    if rows and (labels.min() < 0 or labels.max() >= CLASSES):
        raise DataError(
            f"{path}: member {FOLDER}/{LABELS}.npy has labels from {labels.min()} to {labels.max()}; "
            f"expected 0 to {CLASSES - 1}"
        )
    if (labels.reshape(SEVERITIES, rows) != labels[:rows]).any():
        raise DataError(f"{path}: labels in {FOLDER}/{LABELS}.npy differ between severities; download the tar again")
    return labels
