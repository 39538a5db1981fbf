"""Copies of a fully connected network with its hidden units in another order.

All copies are the same function. Chains that start from them start at symmetric places of one mode, as in Sommer et al.
2025 (Approximate Posteriors in Neural Networks: A Sampling Perspective, permuted warm starts).
"""

from functools import partial

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp

from bnn_atlas.keys import Role, role_key
from bnn_atlas.models.layout import Layout


def permuted_copies(layout: Layout, theta: np.ndarray, chains: np.ndarray, seed: int) -> np.ndarray:
    """Copies [chain, P] of parameters theta [P], each with uniformly random permutations of all hidden layers' units.

    A chain's permutations depend on the seed and its number alone. Raises as `hidden_permutation`.
    """
    return np.stack([theta[hidden_permutation(layout, seed, int(chain))] for chain in chains])


def hidden_permutation(layout: Layout, seed: int, chain: int) -> np.ndarray:
    """Places i [P] such that theta[i] is theta with all hidden units permuted at random, each layer on its own.

    With P_l the permutation of the units of hidden layer l, and the identity at the inputs and the outputs,

        W_l <- W_l[P_l, P_{l-1}],    b_l <- b_l[P_l];

    parameters outside the layers (a learned log sigma) keep their place.

    Raises:
        ValueError: a layer is not dense.
    """
    layered = [(p, p.layer) for p in layout.parameters if p.layer is not None]
    others = [p.name for p, _ in layered if (p.role, len(p.shape)) not in {("weight", 2), ("bias", 1)}]
    if others:
        raise ValueError(f"hidden units are permuted in fully connected networks only; this one has {others[0]}")
    widths = {layer: p.fan_out for p, layer in layered if p.role == "weight"}
    del widths[max(widths)]  # the outputs
    numbers = (np.int32(seed), np.int32(chain))
    units = {layer: np.asarray(_order(*numbers, np.int32(layer), width)) for layer, width in widths.items()}
    places = {name: np.asarray(array) for name, array in layout.unflatten(jnp.arange(layout.size)).items()}
    for p, layer in layered:
        if layer in units:
            places[p.name] = places[p.name][units[layer]]
        if p.role == "weight" and layer - 1 in units:
            places[p.name] = places[p.name][:, units[layer - 1]]
    return np.concatenate([places[p.name].ravel() for p in layout.parameters])


@partial(jax.jit, static_argnums=3)
def _order(seed: Array, chain: Array, layer: Array, width: int) -> Array:
    """A uniformly random order of the units of a layer [width]."""
    return jax.random.permutation(jax.random.fold_in(role_key(seed, Role.PERMUTE, chain), layer), width)
