"""Raw files of images and labels: one function per format."""

import gzip
import hashlib
import io
import lzma
import math
import re
import struct
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, UnidentifiedImageError

from bnn_atlas.config.data.datasets import (
    CifarReader,
    IdxReader,
    ImageTarReader,
    LabelsReader,
    PngRowsReader,
    Reader,
    SvhnReader,
)
from bnn_atlas.data import DataError


class Rows(NamedTuple):
    """Images, labels, or both, in the file's order."""

    x: np.ndarray | None = None
    """[n, height, width, channels] uint8."""
    y: np.ndarray | None = None
    """[n] class numbers of any integer type."""
    counts: np.ndarray | None = None
    """[classes] number of images per class, if images are sorted by class and a separate file has the labels."""


def read_images(path: Path, reader: Reader, classes: Sequence[str]) -> dict[str, Rows]:
    """Rows of an image or label file: part -> rows, or "" -> rows if the file does not say which part it holds.

    Raises DataError that names the file and the place in the file.
    """
    match reader:
        case IdxReader():
            return {"": read_idx(path)}
        case CifarReader():
            return read_cifar(path, reader)
        case PngRowsReader():
            return {"": read_png_rows(path)}
        case ImageTarReader():
            return read_image_tar(path, classes)
        case LabelsReader():
            return {"": Rows(y=read_labels(path)[: reader.first])}
        case SvhnReader():
            return {"": read_svhn(path)}
        case _:
            raise DataError(f"{path}: '{reader.format}' is not a format of images or labels")


LARGEST = 4 * 2**30
"""Largest size in bytes of an archive member that is read."""


def tar_files(path: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of each regular file of a tar, in the tar's order; compression is recognised.

    Raises DataError for an archive that is truncated or not a tar, and for a member above LARGEST bytes.
    """
    try:
        with tarfile.open(path, "r:*") as archive:
            for member in archive:
                source = archive.extractfile(member) if member.isfile() else None
                if source is None:
                    continue
                if member.size > LARGEST:
                    raise DataError(f"{path}: member '{member.name}' has {member.size:,} bytes; download it again")
                yield member.name, source.read()
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        reason = " ".join(str(error).split())
        raise DataError(
            f"{path}: not an intact tar archive ({reason}): it is truncated or altered; download it again"
        ) from error


LABELS, IMAGES = 0x0801, 0x0803


def read_idx(path: Path) -> Rows:
    """uint8 images [n, height, width, 1] (magic number 0x803) or labels [n] (0x801).

    Layout: magic number and sizes of the axes as big-endian 32-bit integers, then the values, last axis fastest.
    Raises DataError for a truncated gzip file, another magic number, and more or fewer values than the header promises.
    """
    try:
        content = gzip.decompress(path.read_bytes())
    except (EOFError, gzip.BadGzipFile, zlib.error, struct.error) as error:
        raise DataError(
            f"{path}: not an intact gzip file ({error}): it is truncated or altered; download it again"
        ) from error
    magic = int.from_bytes(content[:4], "big")
    if len(content) < 4 or magic not in (LABELS, IMAGES):
        raise DataError(
            f"{path}: byte 0: magic number {magic:#010x}; expected {IMAGES:#010x} (uint8 images) or {LABELS:#010x} "
            "(uint8 labels). This is not the IDX file; download it again"
        )
    start = 4 + 4 * (magic & 0xFF)
    if len(content) < start:
        raise DataError(f"{path}: the header ends after {len(content)} of {start} bytes; download the file again")
    shape = struct.unpack_from(f">{magic & 0xFF}I", content, 4)
    promised, actual = math.prod(shape), len(content) - start
    if promised != actual:
        what = "more" if actual > promised else "fewer"
        raise DataError(
            f"{path}: the header promises {' x '.join(map(str, shape))} = {promised} values, the file holds {what}: "
            f"{actual}. Download it again"
        )
    values = np.frombuffer(content, np.uint8, offset=start).reshape(shape)
    return Rows(y=values) if magic == LABELS else Rows(x=values[..., None])


CIFAR_SIDE = 32


def read_cifar(path: Path, reader: CifarReader) -> dict[str, Rows]:
    """Training and test part: images [n, 32, 32, 3] and the last label byte of each record.

    A record consists of label bytes and 3072 bytes of pixels: red, then green, then blue, each row by row.
    Raises DataError for a missing member, and for a member that ends within a record.
    """
    wanted = {*reader.train, *reader.test}
    found = {name: content for name, content in tar_files(path) if name in wanted}
    missing = sorted(wanted - set(found))
    if missing:
        raise DataError(f"{path}: the archive has no {', '.join(missing)}; it is truncated or another file")
    parts = {"train": reader.train, "test": reader.test}
    return {
        part: _part([_records(path, name, found[name], reader.labels) for name in names], reader.labels)
        for part, names in parts.items()
    }


def _records(path: Path, name: str, content: bytes, labels: int) -> np.ndarray:
    size = labels + 3 * CIFAR_SIDE**2
    if not content or len(content) % size:
        raise DataError(
            f"{path}: member '{name}' has {len(content)} bytes, not a multiple of the {size} bytes of a record; "
            "download the archive again"
        )
    return np.frombuffer(content, np.uint8).reshape(-1, size)


def _part(records: list[np.ndarray], labels: int) -> Rows:
    joined = np.concatenate(records)
    planes = joined[:, labels:].reshape(-1, 3, CIFAR_SIDE, CIFAR_SIDE)
    return Rows(x=np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), y=joined[:, labels - 1])


def read_png_rows(path: Path) -> Rows:
    """[n, side, side, 3] uint8 from an RGB image with n rows of side * side pixels."""
    try:
        with Image.open(path, formats=["PNG"]) as image:
            mode, pixels = image.mode, np.asarray(image)
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise DataError(
            f"{path}: not an intact PNG ({error}): it is truncated or altered; download it again"
        ) from error
    side = math.isqrt(pixels.shape[1])
    if mode != "RGB" or side**2 != pixels.shape[1]:
        raise DataError(f"{path}: {mode} {pixels.shape}; expected an RGB image with a square number as its width")
    return Rows(x=pixels.reshape(-1, side, side, 3))


NAME = re.compile(r"(?:.*/)?(train|test)/([^/]+)/(\d+)\.jpe?g")


class _File(NamedTuple):
    part: str
    label: str
    rank: int
    content: bytes


def read_image_tar(path: Path, classes: Sequence[str]) -> dict[str, Rows]:
    """Training and test part: images [n, height, width, 3], sorted by class and rank in the class, and class sizes.

    Raises DataError for a folder that is not a class, ranks that are not 0, 1, ..., an image that cannot be decoded,
    and images of different sizes.
    """
    found: dict[str, dict[tuple[int, int], np.ndarray]] = {"train": {}, "test": {}}
    for file in _files(path):
        if file.label not in classes:
            raise DataError(f"{path}: folder '{file.part}/{file.label}': no such class in {', '.join(classes)}")
        found[file.part][classes.index(file.label), file.rank] = _decoded(path, file)
    return {part: _sorted_rows(path, part, images, len(classes)) for part, images in found.items()}


def images_hash(path: Path) -> str:
    """SHA-256 of one line `part/class/rank sha256` per image, in order of part, class and rank.

    The hash of an image is the hash of its JPEG file, so the same files packed differently have the same hash.
    """
    lines = sorted(f"{f.part}/{f.label}/{f.rank:08d} {hashlib.sha256(f.content).hexdigest()}\n" for f in _files(path))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _files(path: Path) -> Iterator[_File]:
    """The archive's images; other files, such as a licence, are ignored."""
    for name, content in tar_files(path):
        match = NAME.fullmatch(name)
        if match:
            yield _File(match[1], match[2], int(match[3]), content)


def _decoded(path: Path, file: _File) -> np.ndarray:
    try:
        with Image.open(io.BytesIO(file.content), formats=["JPEG"]) as image:
            mode, pixels = image.mode, np.asarray(image)
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
        raise DataError(
            f"{path}: {file.part}/{file.label}/{file.rank}: not an intact JPEG ({error}); download the archive again"
        ) from error
    if mode != "RGB":
        raise DataError(f"{path}: {file.part}/{file.label}/{file.rank}: expected an RGB image, found {mode}")
    return pixels


def _sorted_rows(path: Path, part: str, images: dict[tuple[int, int], np.ndarray], classes: int) -> Rows:
    counts = np.bincount([label for label, _ in images], minlength=classes)
    keys = sorted(images)
    if not keys or keys != [(label, rank) for label in range(classes) for rank in range(counts[label])]:
        raise DataError(f"{path}: the images of {part}/ are not numbered from 0 without gaps in each class")
    sizes = {image.shape for image in images.values()}
    if len(sizes) > 1:
        raise DataError(f"{path}: the images of {part}/ differ in size: {', '.join(map(str, sorted(sizes)))}")
    return Rows(x=np.stack([images[key] for key in keys]), counts=counts)


def read_svhn(path: Path) -> Rows:
    """Images [n, 32, 32, 3] from X [32, 32, 3, n], and labels from y [n, 1], where 10 stands for the digit 0."""
    import scipy.io  # takes long to import
    from scipy.io.matlab import MatReadError

    damage = (MatReadError, ValueError, TypeError, LookupError, OSError, EOFError, zlib.error, NotImplementedError)
    try:
        arrays = scipy.io.loadmat(str(path), variable_names=["X", "y"], appendmat=False)
    except damage as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise DataError(
            f"{path}: not an intact MATLAB file ({error}): it is truncated or altered; download it again"
        ) from error
    missing = [name for name in ("X", "y") if name not in arrays]
    if missing:
        raise DataError(f"{path}: no variable {', '.join(missing)}; download it again")
    x, y = arrays["X"], arrays["y"].reshape(-1)
    if x.dtype != np.uint8 or x.ndim != 4 or x.shape[3] != len(y):
        raise DataError(
            f"{path}: X is {x.dtype} {x.shape} with {len(y)} labels; expected uint8 [height, width, 3, n] and n labels"
        )
    if not ((y >= 1) & (y <= 10)).all():
        row = int(np.flatnonzero((y < 1) | (y > 10))[0])
        raise DataError(f"{path}: row {row}: label {y[row]}; expected 1 to 10, with 10 for the digit 0")
    return Rows(x=np.ascontiguousarray(x.transpose(3, 0, 1, 2)), y=y.astype(np.int64) % 10)


def read_labels(path: Path) -> np.ndarray:
    """Labels [n], of any integer type, from an .npy file; DataError for any other array or a truncated file."""
    try:
        with path.open("rb") as handle:
            values = np.lib.format.read_array(handle, allow_pickle=False)
            rest = handle.read(1)
    except (ValueError, EOFError) as error:
        raise DataError(f"{path}: not an intact .npy file of labels ({error}); download it again") from error
    if values.ndim != 1 or values.dtype.kind not in "iu" or rest:
        found = "bytes after the array" if rest else f"{values.dtype} {values.shape}"
        raise DataError(f"{path}: expected one axis of whole numbers, found {found}")
    return values


def labels_hash(path: Path) -> str:
    """SHA-256 of the labels as little-endian 64-bit integers."""
    return hashlib.sha256(np.ascontiguousarray(read_labels(path), "<i8").data).hexdigest()
