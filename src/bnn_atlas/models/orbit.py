"""Networks with class probabilities averaged over flips and shifts of an image."""

import math
from itertools import product

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp
from jax.scipy.special import logsumexp

from bnn_atlas.config.methods.augmentation import AugmentationConfig
from bnn_atlas.models.build import Network, ShapeError


def over_orbit(network: Network, orbit: AugmentationConfig, shape: tuple[int, ...]) -> Network:
    """The network with outputs log (1 / K) sum_k softmax f(g_k x), over the K changes of `orbit_of`.

    Their softmax is the mean of the probabilities. Raises ShapeError for rows that are not images.
    """
    if len(shape) != 3:
        raise ShapeError(f"an orbit needs images (height, width, channels), but a row of the data has shape {shape}")

    def arrange(x: Array) -> Array:
        return jax.vmap(network.arrange)(orbit_of(x, orbit))

    def apply(vector: Array, x: Array) -> Array:
        log_probs = jax.vmap(lambda view: jax.nn.log_softmax(network.apply(vector, view), axis=0))(x)
        return logsumexp(log_probs, axis=0) - math.log(len(x))

    return network._replace(arrange=arrange, apply=apply)


def orbit_of(images: Array, orbit: AugmentationConfig) -> Array:
    """Images [n, height, width, channels] after each of the K changes that an augmentation draws from, [K, n, ...].

    (2 crop + 1)^2 shifts by whole pixels, with the outermost pixels repeated, each as it is and, with `flip`, mirrored
    left to right, as in `methods.minibatch.augmented`.
    """
    height, width = images.shape[1:3]
    moves = range(-orbit.crop, orbit.crop + 1)
    changes = np.array(list(product(moves, moves, (False, True) if orbit.flip else (False,))))
    down, right, flipped = (changes[:, [column]] for column in range(3))
    rows = np.clip(np.arange(height) + down, 0, height - 1)
    columns = np.clip(np.arange(width) + right, 0, width - 1)
    columns = np.where(flipped, width - 1 - columns, columns)
    return jnp.moveaxis(images[:, rows[:, :, None], columns[:, None, :]], 1, 0)
