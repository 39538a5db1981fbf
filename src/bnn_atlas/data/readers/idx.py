"""IDX files as MNIST's (LeCun and Cortes), gzipped."""

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np

from bnn_atlas.data.errors import DataError
from bnn_atlas.data.readers.rows import Rows

LABELS, IMAGES = 0x0801, 0x0803


def read(path: Path) -> Rows:
    """uint8 images [n, height, width, 1] (magic number 0x803) or labels [n] (0x801).

    Layout: magic number and sizes of the axes as big-endian 32-bit integers, then the values, last axis fastest.
    Raises DataError for a truncated gzip, another magic number, and for more or fewer values than the header says.
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
            f"{path}: byte 0: magic number {magic:#010x}; {IMAGES:#010x} (images) or {LABELS:#010x} (labels) of uint8 "
            "is expected in an IDX file"
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
