"""Street View House Numbers, cropped digits (Netzer et al. 2011)."""

import zlib
from pathlib import Path

import numpy as np

from bnn_atlas.data.errors import DataError
from bnn_atlas.data.readers.rows import Rows


def read(path: Path) -> Rows:
    """Images [n, 32, 32, 3] from X [32, 32, 3, n] and labels from y [n, 1], where 10 is the digit 0."""
    # Imported here, since jobs that read no MATLAB file start faster without it.
    import scipy.io
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
            f"{path}: X is {x.dtype} {x.shape} with {len(y)} labels; uint8 [height, width, 3, n] with n labels is "
            "expected"
        )
    if not ((y >= 1) & (y <= 10)).all():
        row = int(np.flatnonzero((y < 1) | (y > 10))[0])
        raise DataError(f"{path}: row {row}: label {y[row]}; 1 to 10 are expected, 10 for the digit 0")
    return Rows(x=np.ascontiguousarray(x.transpose(3, 0, 1, 2)), y=y.astype(np.int64) % 10)
