"""Known orders in which others number the rows of a published data set, and the random numbers that they follow from.

The random numbers are those of JAX as the published codes had them, computed in NumPy: Threefry with
`jax_threefry_partitionable` off, the default of JAX 0.4 and before (BNN Atlas itself has it on).
"""

import hashlib
import math
from typing import Literal

import numpy as np
from scipy.special import erfinv


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
    same chain permutes the rows.

    Raises ValueError for a seed that does not fit into 32 bits.
    """
    key = key_of(rng)
    if loader == "trainer":
        key = _nth_key(key, 3)
    return permutation(_nth_key(key, 2), n)


def bnn_hmc_order(n: int, seed: int) -> np.ndarray:
    """[n] int64: order in which the loader of Izmailov et al. 2021 puts the rows of a UCI table before it cuts them.

    jax.random.permutation(PRNGKey(seed), n). Raises ValueError as `mile_order`.
    """
    return permutation(key_of(seed), n)


def _nth_key(key: np.ndarray, n: int) -> np.ndarray:
    """Key s number n, from 1, of the chain k, s <- split(k)."""
    for _ in range(n):
        key, taken = split(key)
    return taken


_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_MOST = 2**32 - 1


def key_of(seed: int) -> np.ndarray:
    """Key [2] uint32 of a seed; ValueError for one that does not fit into 32 bits."""
    if not 0 <= seed <= _MOST:
        raise ValueError(f"seed {seed}: the seed of a published order is between 0 and 2^32 - 1")
    return np.array([0, seed], np.uint32)


def split(key: np.ndarray, n: int = 2) -> np.ndarray:
    """Keys [n, 2] made of a key."""
    return words(key, 2 * n).reshape(n, 2)


def permutation(key: np.ndarray, n: int) -> np.ndarray:
    """Random order [n] int64 of n rows: as many sorts by random words as leave hardly any ties."""
    order = np.arange(n, dtype=np.int64)
    for _ in range(math.ceil(3 * math.log(max(n, 1)) / math.log(_MOST))):
        key, sub = split(key)
        order = order[np.argsort(words(sub, n), kind="stable")]
    return order


def normal(key: np.ndarray, n: int) -> np.ndarray:
    """Draws [n] of N(0, 1) in float32, sqrt(2) erfinv(u) of uniform u in (-1, 1).

    JAX approximates erfinv, so that its own differ by up to 1e-5 of their size beyond 3.5.
    """
    low = np.nextafter(np.float32(-1), np.float32(0))
    unit = ((words(key, n) >> np.uint32(9)) | np.uint32(0x3F800000)).view(np.float32) - np.float32(1)
    u = np.maximum(low, unit * (np.float32(1) - low) + low)
    return (np.sqrt(2.0) * erfinv(u.astype(np.float64))).astype(np.float32)


def words(key: np.ndarray, n: int) -> np.ndarray:
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
