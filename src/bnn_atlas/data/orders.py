"""Known orders in which others number the rows of a published data set."""

import hashlib
from typing import Literal

import numpy as np

from bnn_atlas.data.jax_random import key_of, permutation, split


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
    same chain permutes the rows. Keys and permutations are those of `bnn_atlas.data.jax_random`.

    Raises ValueError for a seed that does not fit into 32 bits.
    """
    key = key_of(rng)
    if loader == "trainer":
        key = _nth_key(key, 3)
    return permutation(_nth_key(key, 2), n)


def bnn_hmc_order(n: int, seed: int) -> np.ndarray:
    """[n] int64: order in which the loader of Izmailov et al. 2021 puts the rows of a UCI table before it cuts them.

    jax.random.permutation(PRNGKey(seed), n) as in `bnn_atlas.data.jax_random`. Raises ValueError as `mile_order`.
    """
    return permutation(key_of(seed), n)


def _nth_key(key: np.ndarray, n: int) -> np.ndarray:
    """Key s number n, from 1, of the chain k, s <- split(k)."""
    for _ in range(n):
        key, taken = split(key)
    return taken
