"""Random changes of the images of a mini-batch that leave their class as it is."""

import jax
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods.augmentation import AugmentationConfig


def augmented(key: Array, images: Array, config: AugmentationConfig) -> Array:
    """Images [b, height, width, channels], each flipped and moved by random numbers of its own.

    Pixel (i, j) of the result is pixel (i + u, j + v) of the image, or (i + u, width - 1 - j - v) if it is flipped,
    with u and v uniform on -crop, ..., crop; places beyond the edge take the outermost pixel.
    """
    count, height, width = images.shape[:3]
    flip_key, crop_key = jax.random.split(key)
    down, right = jax.random.randint(crop_key, (2, count, 1), -config.crop, config.crop + 1)
    rows = jnp.clip(jnp.arange(height) + down, 0, height - 1)
    columns = jnp.clip(jnp.arange(width) + right, 0, width - 1)
    if config.flip:
        flipped = jax.random.bernoulli(flip_key, 0.5, (count, 1))
        columns = jnp.where(flipped, width - 1 - columns, columns)
    return images[jnp.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]]
