"""Orders in which published codes number the rows of a data set, and the random numbers behind them.

The random numbers are those of JAX as the published codes used it, computed in NumPy: Threefry with
`jax_threefry_partitionable` off, the default up to JAX 0.4 (BNN Atlas itself has it on).
"""

import hashlib
import math
from typing import Literal

import numpy as np
from scipy.special import erfinv


def tfds_order(part: Literal["train", "test"], n: int) -> np.ndarray:
    """[n] int64: position k in TensorFlow Datasets holds row `order[k]` of the publisher's file.

    TensorFlow Datasets writes examples sorted by the MD5 hash of their key, with the part's name as salt and the row
    number as key: order = argsort_i md5(part + str(i)). This order is confirmed for `config.data.splits.TFDS_ORDERED`:
    for MNIST and CIFAR-10 by their labels; CIFAR-100 has the same generator as CIFAR-10 (image_classification/cifar.py
    of tensorflow_datasets, class Cifar100), which writes the file of each part into one shard.
    """
    hashes = [hashlib.md5(f"{part}{i}".encode(), usedforsecurity=False).digest() for i in range(n)]
    return np.array(sorted(range(n), key=hashes.__getitem__), dtype=np.int64)


def mile_order(n: int, rng: int, loader: Literal["trainer", "script"] = "trainer") -> np.ndarray:
    """[n] int64: order into which the code of MILE (Sommer et al. 2025) puts n rows before it cuts them.

    A sequence of keys k, s <- split(k) starts at key(rng). In the trainer, the third s is the loader's key; the scripts
    of the Laplace and mean-field baselines pass key(rng) itself to the loader. The loader starts the same kind of
    sequence at the key that it receives and permutes the rows with the second s.

    Raises ValueError for a seed that does not fit into 32 bits.
    """
    key = key_of(rng)
    if loader == "trainer":
        key = _nth_key(key, 3)
    return permutation(_nth_key(key, 2), n)


def bnn_hmc_order(n: int, seed: int) -> np.ndarray:
    """[n] int64: order into which the loader of Izmailov et al. 2021 puts the rows of a UCI table before it cuts them.

    jax.random.permutation(PRNGKey(seed), n). Raises ValueError in the same case as `mile_order`.
    """
    return permutation(key_of(seed), n)


def _nth_key(key: np.ndarray, n: int) -> np.ndarray:
    """The n-th s (counted from 1) of the sequence k, s <- split(k)."""
    for _ in range(n):
        key, taken = split(key)
    return taken


_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_MOST = 2**32 - 1


def key_of(seed: int) -> np.ndarray:
    """Key [2] uint32 of a seed; ValueError for a seed that does not fit into 32 bits."""
    if not 0 <= seed <= _MOST:
        raise ValueError(f"seed {seed}: the seed of a published order must be between 0 and 2^32 - 1")
    return np.array([0, seed], np.uint32)


def split(key: np.ndarray, n: int = 2) -> np.ndarray:
    """Keys [n, 2] split from a key."""
    return words(key, 2 * n).reshape(n, 2)


def permutation(key: np.ndarray, n: int) -> np.ndarray:
    """Random order [n] int64 of n rows, by sorting on random words as often as needed to make ties unlikely."""
    order = np.arange(n, dtype=np.int64)
    for _ in range(math.ceil(3 * math.log(max(n, 1)) / math.log(_MOST))):
        key, sub = split(key)
        order = order[np.argsort(words(sub, n), kind="stable")]
    return order


def normal(key: np.ndarray, n: int) -> np.ndarray:
    """Draws [n] of N(0, 1) in float32, sqrt(2) erfinv(u) of uniform u in (-1, 1).

    JAX approximates erfinv, so JAX's own draws beyond 3.5 differ from these by up to 1e-5 of their size.
    """
    low = np.nextafter(np.float32(-1), np.float32(0))
    unit = ((words(key, n) >> np.uint32(9)) | np.uint32(0x3F800000)).view(np.float32) - np.float32(1)
    u = np.maximum(low, unit * (np.float32(1) - low) + low)
    return (np.sqrt(2.0) * erfinv(u.astype(np.float64))).astype(np.float32)


def words(key: np.ndarray, n: int) -> np.ndarray:
    """Encrypted counters 0..n-1 as uint32 [n], in pairs from the first and second half, padded with 0 if n is odd."""
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
