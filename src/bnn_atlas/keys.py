"""Random keys by role, and their generator: no key is used twice, and a chain's stream depends only on its index.

The generator is the counter-based Threefry-2x32 with its twenty rounds written out (Salmon et al. 2011, Parallel Random
Numbers: As Easy as 1, 2, 3). JAX's own Threefry loops over the rounds on a CPU, and its Philox is not vectorised there.
Written out, the rounds fuse with the code that uses the numbers, which is several times as fast.
Keys are kept from fusing with the code that uses them: otherwise every use of a key would repeat the rounds of this key
and of its parent keys, and programs would take seconds to minutes to compile.
"""

from enum import IntEnum
from math import prod
from typing import Any

import jax
import numpy as np
from jax import Array, lax
from jax import numpy as jnp
from jax.extend.random import define_prng_impl

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


def threefry2x32(key: Array, first: Array, second: Array) -> tuple[Array, Array]:
    """Encrypt the counters (first, second), uint32 of one shape, under key [2]."""
    schedule = (key[0], key[1], key[0] ^ key[1] ^ jnp.uint32(_PARITY))
    first, second = first + schedule[0], second + schedule[1]
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            first = first + second
            second = ((second << rotation) | (second >> (32 - rotation))) ^ first
        first = first + schedule[(group + 1) % 3]
        second = second + schedule[(group + 2) % 3] + jnp.uint32(group + 1)
    return first, second


def _seed(number: Array) -> Array:
    return jnp.stack([jnp.uint32(0), jnp.asarray(number).astype(jnp.uint32)])


def _split(key: Array, shape: tuple[int, ...]) -> Array:
    counters = jnp.arange(prod(shape), dtype=jnp.uint32)
    words = jnp.stack(threefry2x32(key, jnp.zeros_like(counters), counters), axis=-1)
    return lax.optimization_barrier(words.reshape(*shape, 2))


def _fold_in(key: Array, number: int | Array) -> Array:
    return lax.optimization_barrier(jnp.stack(threefry2x32(key, *_seed(jnp.asarray(number)))))


def _random_bits(key: Array, width: int, shape: tuple[int, ...]) -> Array:
    """Unsigned integers of 32 or 64 bits, one counter each; 32 bits are the exclusive or of two halves."""
    counters = jnp.arange(prod(shape), dtype=jnp.uint32).reshape(shape)
    first, second = threefry2x32(key, jnp.ones_like(counters), counters)
    if width == 64:
        return (first.astype(jnp.uint64) << 32) | second
    if width != 32:
        raise ValueError(f"random numbers have 32 or 64 bits, not {width}")
    return first ^ second


THREEFRY: Any = define_prng_impl(
    key_shape=(2,),
    seed=_seed,
    split=_split,
    random_bits=_random_bits,
    fold_in=_fold_in,
    name="threefry_unrolled",
    tag="tfu",
)
"""Generator for `jax.random.key`; its keys work with all of `jax.random`."""


class Role(IntEnum):
    """The purpose of a key."""

    INITIALISE = 0
    SHUFFLE = 1
    START = 2
    SAMPLE = 3
    PERMUTE = 4


def root_key(seed: int | np.int32 | Array) -> Array:
    """Key of a run for the written-out Threefry, with the same random bits on every kind of device."""
    return jax.random.key(seed, impl=THREEFRY)


def role_key(seed: int | np.int32 | Array, role: Role, chain: int | Array) -> Array:
    """Key of one chain (or ensemble member) for one role: fold_in(fold_in(root, role), chain)."""
    return jax.random.fold_in(jax.random.fold_in(root_key(seed), int(role)), chain)


def step_key(chain_key: Array, phase: int | np.int32 | Array, step: Array) -> Array:
    """Key of one step of one phase of a chain."""
    return jax.random.fold_in(jax.random.fold_in(chain_key, phase), step)
