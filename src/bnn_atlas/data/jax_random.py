"""Random numbers of JAX as the published codes had them, computed in NumPy: rows and targets that follow from a key.

Keys are those of Threefry with `jax_threefry_partitionable` off, the default of JAX 0.4 and before (BNN Atlas itself
has it on).
"""

import math

import numpy as np
from scipy.special import erfinv

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
