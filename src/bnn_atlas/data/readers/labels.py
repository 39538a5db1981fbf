"""Class numbers in a file of their own."""

import hashlib
from pathlib import Path

import numpy as np

from bnn_atlas.data.errors import DataError


def read(path: Path) -> np.ndarray:
    """[n] of any integer type from .npy; DataError for any other array, and for a truncated file."""
    try:
        with path.open("rb") as handle:
            values = np.lib.format.read_array(handle, allow_pickle=False)
            rest = handle.read(1)
    except (ValueError, EOFError) as error:
        raise DataError(f"{path}: not an intact .npy file of labels ({error}); download it again") from error
    if values.ndim != 1 or values.dtype.kind not in "iu" or rest:
        found = "bytes after the array" if rest else f"{values.dtype} {values.shape}"
        raise DataError(f"{path}: one axis of whole numbers is expected, found {found}")
    return values


def content_hash(path: Path) -> str:
    """SHA-256 of the labels as little-endian 64-bit integers."""
    return hashlib.sha256(np.ascontiguousarray(read(path), "<i8").data).hexdigest()
