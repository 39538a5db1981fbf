"""A tar of JPEG images in a folder for each part and class."""

import hashlib
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, UnidentifiedImageError

from bnn_atlas.data.errors import DataError
from bnn_atlas.data.readers.rows import Rows
from bnn_atlas.data.readers.tar import tar_files

NAME = re.compile(r"(?:.*/)?(train|test)/([^/]+)/(\d+)\.jpe?g")


class _File(NamedTuple):
    part: str
    label: str
    rank: int
    content: bytes


def read(path: Path, classes: Sequence[str]) -> dict[str, Rows]:
    """Both parts: images [n, height, width, 3], sorted by class and by rank within it, and the classes' sizes.

    Raises DataError for a folder that is not a class, for ranks that do not run from 0, for an image that cannot be
    decoded, and for images of several sizes.
    """
    found: dict[str, dict[tuple[int, int], np.ndarray]] = {"train": {}, "test": {}}
    for file in _files(path):
        if file.label not in classes:
            raise DataError(f"{path}: folder '{file.part}/{file.label}': no such class; there are {', '.join(classes)}")
        found[file.part][classes.index(file.label), file.rank] = _decoded(path, file)
    return {part: _rows(path, part, images, len(classes)) for part, images in found.items()}


def content_hash(path: Path) -> str:
    """SHA-256 over all images in order of part, class and rank: `part/class/rank sha256` and a line feed each.

    The hash of an image is that of the JPEG file, so that another packing of the same files has the same hash.
    """
    lines = sorted(f"{f.part}/{f.label}/{f.rank:08d} {hashlib.sha256(f.content).hexdigest()}\n" for f in _files(path))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _files(path: Path) -> Iterator[_File]:
    """The archive's images; other files (a licence, a list) are not looked at."""
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
        raise DataError(f"{path}: {file.part}/{file.label}/{file.rank}: an RGB image is expected, this one is {mode}")
    return pixels


def _rows(path: Path, part: str, images: dict[tuple[int, int], np.ndarray], classes: int) -> Rows:
    counts = np.bincount([label for label, _ in images], minlength=classes)
    keys = sorted(images)
    if not keys or keys != [(label, rank) for label in range(classes) for rank in range(counts[label])]:
        raise DataError(f"{path}: the images of {part}/ are not numbered from 0 without gaps in each class")
    sizes = {image.shape for image in images.values()}
    if len(sizes) > 1:
        raise DataError(f"{path}: the images of {part}/ have several sizes: {', '.join(map(str, sorted(sizes)))}")
    return Rows(x=np.stack([images[key] for key in keys]), counts=counts)
