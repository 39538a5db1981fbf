"""Known orders in which others number the rows of a published data set."""

import hashlib
import math
from typing import Literal

import numpy as np

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_MOST = 2**32 - 1


def tfds_order(part: Literal["train", "test"], n: int) -> np.ndarray:
    """[n] int64: position k of TensorFlow Datasets holds row `order[k]` of the publisher's file.

    TensorFlow Datasets writes examples sorted by the MD5 hash of their key with the part's name as salt; keys are row
    numbers: order = argsort_i md5(part + str(i)). Known to hold for `config.splits.TFDS_ORDERED`: for MNIST and
    CIFAR-10 by their labels; CIFAR-100 is written by the generator of CIFAR-10 (image_classification/cifar.py of
    tensorflow_datasets, class Cifar100), with the row number as key, from one file for each part and into one shard.
    """
    hashes = [hashlib.md5(f"{part}{i}".encode(), usedforsecurity=False).digest() for i in range(n)]
    return np.array(sorted(range(n), key=hashes.__getitem__), dtype=np.int64)


def mile_order(n: int, rng: int, loader: Literal["trainer", "script"] = "trainer") -> np.ndarray:
    """[n] int64: order in which the code of MILE (Sommer et al. 2025) puts n rows before it cuts them.

    A chain of keys k, s <- split(k) starts at the seed `rng`. Its third s is the loader's own key in the trainer, while
    the scripts of the Laplace and mean-field baselines give key(rng) to their loader. In the loader the second s of the
    same chain permutes the rows. Keys and permutations are those of JAX's Threefry with `jax_threefry_partitionable`
    off, the default of JAX 0.4 (BNN Atlas itself has it on), computed here in NumPy.

    Raises ValueError for a seed that does not fit into 32 bits.
    """
    if not 0 <= rng <= _MOST:
        raise ValueError(f"rng = {rng}: the seed of a published order is between 0 and 2^32 - 1")
    key = np.array([0, rng], np.uint32)
    if loader == "trainer":
        key = _nth_key(key, 3)
    key, order = _nth_key(key, 2), np.arange(n, dtype=np.int64)
    for _ in range(math.ceil(3 * math.log(max(n, 1)) / math.log(_MOST))):
        key, words = _split(key)
        order = order[np.argsort(_words(words, n), kind="stable")]
    return order


def _nth_key(key: np.ndarray, n: int) -> np.ndarray:
    """Key s number n, from 1, of the chain k, s <- split(k)."""
    for _ in range(n):
        key, taken = _split(key)
    return taken


def _split(key: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    first, second = _words(key, 4).reshape(2, 2)
    return first, second


def _words(key: np.ndarray, n: int) -> np.ndarray:
    """Encrypted counters 0..n-1 as uint32 [n]: their first half together with the second, and with 0 after an odd n."""
    counters = np.zeros(n + n % 2, np.uint32)
    counters[:n] = np.arange(n)
    schedule = (key[:1], key[1:], key[:1] ^ key[1:] ^ np.uint32(_PARITY))
    first, second = np.split(counters, 2)
    first, second = first + schedule[0], second + schedule[1]
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            first = first + second
            second = ((second << np.uint32(rotation)) | (second >> np.uint32(32 - rotation))) ^ first
        first = first + schedule[(group + 1) % 3]
        second = second + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return np.concatenate([first, second])[:n]
