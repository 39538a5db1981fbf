"""Random keys by role, so that no key is used twice and a chain's stream depends on its own number alone."""

from enum import IntEnum

import jax
import numpy as np
from jax import Array

from bnn_atlas.threefry import THREEFRY


class Role(IntEnum):
    """What a key is for."""

    INITIALISE = 0
    SHUFFLE = 1
    START = 2
    SAMPLE = 3
    PERMUTE = 4


def root_key(seed: int | np.int32 | Array) -> Array:
    """Key of a run, for the unrolled Threefry: the same random bits on every kind of device."""
    return jax.random.key(seed, impl=THREEFRY)


def role_key(seed: int | np.int32 | Array, role: Role, chain: int | Array) -> Array:
    """Key of one chain (or ensemble member) for one role: fold_in(fold_in(root, role), chain)."""
    return jax.random.fold_in(jax.random.fold_in(root_key(seed), int(role)), chain)


def step_key(chain_key: Array, phase: int | np.int32 | Array, step: Array) -> Array:
    """Key of one step of one phase of a chain."""
    return jax.random.fold_in(jax.random.fold_in(chain_key, phase), step)
