"""Untrained networks, and copies of networks with reordered hidden units."""

from functools import partial

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.parts.posterior import ModelConfig
from bnn_atlas.config.parts.starts import InitialConfig
from bnn_atlas.keys import Role, role_key
from bnn_atlas.models.layout import Layout
from bnn_atlas.posterior.density import Posterior
from bnn_atlas.symmetry.groups import Symmetry, dense_symmetry, symmetry_of
from bnn_atlas.symmetry.permutation import apply, with_transpositions
from bnn_atlas.warmstart.ensemble import initialise


def initial_networks(
    posterior: Posterior,
    model: ModelConfig,
    config: InitialConfig,
    members: np.ndarray,
    seed: int,
    dtype: jnp.dtype = jnp.float32,
) -> np.ndarray:
    """Parameters [member, P] of untrained networks with the given indices; the likelihood's own parameters are 0.

    A network is bitwise determined by the seed, the network's index and the settings. With `distribution: normal` every
    parameter is an independent draw from N(0, scale^2), as in the synthetic regression of Izmailov et al. (2021). With
    `transpositions`, network 2i + 1 is the same function as network 2i.

    Raises:
        SymmetryError: more transpositions than a group of units allows, or a network without hidden units.
    """
    numbers = np.asarray(members)
    drawn = numbers if config.transpositions is None else numbers - numbers % 2
    theta = _drawn(posterior, config, drawn, seed, dtype)
    if config.transpositions is None:
        return theta
    symmetry = symmetry_of(model, posterior.layout)
    copies = [i for i, number in enumerate(numbers) if number % 2]
    for i in copies:
        theta[i] = apply(symmetry, theta[i], copy_permutation(symmetry, config, seed, int(numbers[i])))
    return theta


def _drawn(posterior: Posterior, config: InitialConfig, numbers: np.ndarray, seed: int, dtype: jnp.dtype) -> np.ndarray:
    if config.scale is not None:
        return np.stack([_normal(posterior, config.scale, seed, int(number), dtype) for number in numbers])
    theta = initialise(posterior, numbers, seed, dtype)
    if config.distribution == "kaiming_uniform":
        theta = np.stack([_kaiming_uniform(posterior.layout, theta[i], seed, int(n)) for i, n in enumerate(numbers)])
    return theta


def copy_permutation(symmetry: Symmetry, config: InitialConfig, seed: int, number: int) -> np.ndarray:
    """Permutations [units] of all groups that turn network `number` - 1 into network `number`, which is odd.

    `with_transpositions` draws each group's permutation; the permutations depend only on the seed and the number.
    """
    assert config.transpositions is not None
    assert number % 2
    words = np.asarray(jax.random.key_data(role_key(seed, Role.PERMUTE, number))).ravel()
    generator = np.random.Generator(np.random.Philox(np.random.SeedSequence(words.tolist())))
    count = config.transpositions[number // 2]
    return symmetry.join([with_transpositions(generator, group.size, count) for group in symmetry.groups])


def _normal(posterior: Posterior, scale: float, seed: int, number: int, dtype: jnp.dtype) -> np.ndarray:
    size = posterior.network.layout.size
    drawn = scale * jax.random.normal(role_key(seed, Role.INITIALISE, number), (size,), dtype)
    return np.concatenate([np.asarray(drawn), np.zeros(posterior.layout.size - size, drawn.dtype)])


def _kaiming_uniform(layout: Layout, theta: np.ndarray, seed: int, number: int) -> np.ndarray:
    """Theta [P] with new weights and biases of all layers, W_ij and b_i ~ U(-1 / sqrt(fan_in), 1 / sqrt(fan_in)).

    PyTorch's default (He et al. 2015, eq. 10, with the slope sqrt(5) of a leaky relu). A bias uses the fan-in of the
    weight in its layer; gains and thresholds keep their initial values.
    """
    keys = jax.random.split(jax.random.fold_in(role_key(seed, Role.INITIALISE, number), 1), len(layout.parameters))
    fans = {p.layer: p.fan_in for p in layout.parameters if p.role == "weight"}
    drawn = theta.copy()
    for key, p in zip(keys, layout.parameters, strict=True):
        if p.role in ("weight", "bias") and p.layer in fans:
            start = layout.offset(p.name)
            drawn[start : start + p.size] = _uniform(key, p.size, 1 / np.sqrt(fans[p.layer]))
    return drawn


def _uniform(key: Array, size: int, bound: float) -> Array:
    return jax.random.uniform(key, (size,), minval=-bound, maxval=bound)


def permuted_copies(layout: Layout, theta: np.ndarray, chains: np.ndarray, seed: int) -> np.ndarray:
    """Copies [chain, P] of parameters theta [P], each with uniformly random permutations of all hidden layers' units.

    All copies are the same function, so chains start at symmetric copies of one mode, as in Sommer et al. 2025
    (Approximate Posteriors in Neural Networks: A Sampling Perspective, permuted warm starts). A chain's permutations
    depend only on the seed and the index of the chain. Raises SymmetryError like `hidden_units`.
    """
    symmetry = dense_symmetry(layout)
    return np.stack([apply(symmetry, theta, hidden_units(layout, seed, int(chain))) for chain in chains])


def hidden_units(layout: Layout, seed: int, chain: int) -> np.ndarray:
    """Uniformly random permutations [units] of all hidden layers' units, concatenated by layer (`symmetry.groups`).

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
