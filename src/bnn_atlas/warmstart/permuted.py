"""Copies of a fully connected network with its hidden units in another order.

All copies are the same function, so chains start at symmetric copies of one mode, as in Sommer et al.
2025 (Approximate Posteriors in Neural Networks: A Sampling Perspective, permuted warm starts).
"""

from functools import partial

import jax
import numpy as np
from jax import Array

from bnn_atlas.keys import Role, role_key
from bnn_atlas.models.layout import Layout
from bnn_atlas.symmetry.groups import dense_symmetry
from bnn_atlas.symmetry.permutation import apply


def permuted_copies(layout: Layout, theta: np.ndarray, chains: np.ndarray, seed: int) -> np.ndarray:
    """Copies [chain, P] of parameters theta [P], each with uniformly random permutations of all hidden layers' units.

    A chain's permutations depend only on the seed and its number. Raises as `hidden_units`.
    """
    symmetry = dense_symmetry(layout)
    return np.stack([apply(symmetry, theta, hidden_units(layout, seed, int(chain))) for chain in chains])


def hidden_units(layout: Layout, seed: int, chain: int) -> np.ndarray:
    """Uniformly random permutations [units] of all hidden layers' units, one layer after the other (`symmetry.groups`).

    Raises:
        SymmetryError: a layer is not dense.
    """
    symmetry = dense_symmetry(layout)
    numbers = (np.int32(seed), np.int32(chain))
    orders = [_order(*numbers, np.int32(layer), group.size) for layer, group in enumerate(symmetry.groups)]
    return symmetry.join([np.asarray(order) for order in orders])


@partial(jax.jit, static_argnums=3)
def _order(seed: Array, chain: Array, layer: Array, width: int) -> Array:
    return jax.random.permutation(jax.random.fold_in(role_key(seed, Role.PERMUTE, chain), layer), width)
