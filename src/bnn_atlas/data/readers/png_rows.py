"""Pictures packed as the rows of one PNG file (as in the demonstrations of ConvNetJS)."""

import math
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from bnn_atlas.data.errors import DataError
from bnn_atlas.data.readers.rows import Rows


def read(path: Path) -> Rows:
    """[n, side, side, 3] uint8 from an RGB image of n rows with side * side pixels each."""
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
        raise DataError(f"{path}: {mode} {pixels.shape}; an RGB image whose width is a square number is expected")
    return Rows(x=pixels.reshape(-1, side, side, 3))
