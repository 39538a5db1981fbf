"""Known orders in which others number the rows of a published data set."""

import hashlib
from typing import Literal

import numpy as np

TFDS_ORDERED = ("cifar10", "mnist")
"""Data sets of which `tfds_order` is known to be the order."""


def tfds_order(part: Literal["train", "test"], n: int) -> np.ndarray:
    """[n] int64: position k of TensorFlow Datasets holds row `order[k]` of the publisher's file.

    TensorFlow Datasets writes examples sorted by the MD5 hash of their key with the part's name as salt; keys are row
    numbers: order = argsort_i md5(part + str(i)). Known to hold for TFDS_ORDERED.
    """
    hashes = [hashlib.md5(f"{part}{i}".encode(), usedforsecurity=False).digest() for i in range(n)]
    return np.array(sorted(range(n), key=hashes.__getitem__), dtype=np.int64)
