"""What a raw file gives."""

from typing import NamedTuple

import numpy as np


class Rows(NamedTuple):
    """Images, labels, or both, in the file's order."""

    x: np.ndarray | None = None
    """[n, height, width, channels] uint8."""
    y: np.ndarray | None = None
    """[n] class numbers of any integer type."""
    counts: np.ndarray | None = None
    """[classes] where the images are sorted by class: how many each class has; labels of a file of their own say how
    the classes are interleaved."""
