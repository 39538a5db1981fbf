"""CIFAR-10 and CIFAR-100, binary version (Krizhevsky 2009)."""

from pathlib import Path

import numpy as np

from bnn_atlas.config.datasets import CifarReader
from bnn_atlas.data.errors import DataError
from bnn_atlas.data.readers.rows import Rows
from bnn_atlas.data.readers.tar import tar_files

SIDE = 32


def read(path: Path, reader: CifarReader) -> dict[str, Rows]:
    """Both parts: images [n, 32, 32, 3] and the last label byte of each record.

    A record is its label bytes and 3072 bytes of pixels: all of red, then green, then blue, each row by row.
    Raises DataError for a missing member, and for one that ends within a record.
    """
    wanted = {*reader.train, *reader.test}
    found = {name: content for name, content in tar_files(path) if name in wanted}
    missing = sorted(wanted - set(found))
    if missing:
        raise DataError(f"{path}: the archive has no {', '.join(missing)}; it is truncated or another file")
    parts = {"train": reader.train, "test": reader.test}
    return {
        part: _rows([_records(path, name, found[name], reader.labels) for name in names], reader.labels)
        for part, names in parts.items()
    }


def _records(path: Path, name: str, content: bytes, labels: int) -> np.ndarray:
    size = labels + 3 * SIDE**2
    if not content or len(content) % size:
        raise DataError(
            f"{path}: member '{name}' has {len(content)} bytes, which is not a multiple of the {size} bytes of a record"
        )
    return np.frombuffer(content, np.uint8).reshape(-1, size)


def _rows(records: list[np.ndarray], labels: int) -> Rows:
    joined = np.concatenate(records)
    planes = joined[:, labels:].reshape(-1, 3, SIDE, SIDE)
    return Rows(x=np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), y=joined[:, labels - 1])
