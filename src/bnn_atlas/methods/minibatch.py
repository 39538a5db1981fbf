"""Mini-batches without replacement: every epoch goes through the rows once, in a fresh random order.

The order of the current epoch is part of a chain's state, so an interrupted run continues with the same batches. Usage,
in a step of a method:

    shuffle, evaluate = minibatch.next_evaluate(key, index, shuffle, target, batch_size)
    evaluation = evaluate(position)
"""

from typing import NamedTuple

import jax
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods.base import AugmentationConfig
from bnn_atlas.placement import DATA_AXIS
from bnn_atlas.posterior.density import Evaluate, Posterior, PosteriorData, Target

AUGMENTATION = 1 << 20
"""Index of the key for a step's augmentation, above the indices used for the devices' orders."""


class Shuffle(NamedTuple):
    """Order of the rows in the current epoch."""

    order: Array
    """int32 [shards, rows]: the order for each device that shares the rows of a chain; every device holds all orders,
    so that a chain's state is the same on every device."""


def batches_per_epoch(rows: int, batch: int, shards: int = 1) -> int:
    """Number of whole mini-batches of `batch` rows in `rows`, the total number of rows on all `shards` devices.

    Raises:
        ValueError: a batch is larger than the data, or cannot be divided evenly among the devices.
    """
    if batch % shards:
        raise ValueError(
            f"batch_size ({batch}) cannot be divided evenly among the {shards} devices that share the rows: "
            f"use a multiple of {shards}"
        )
    if not 0 < batch <= rows:
        raise ValueError(
            f"batch_size ({batch}) must be between 1 and the number of rows ({rows}): give a smaller size, or "
            "batch_size: null for all rows at once"
        )
    return rows // batch


def start(rows: int, shards: int = 1) -> Shuffle:
    """State before the first epoch; the first `next_rows` draws its order.

    Args:
        rows: rows on one device, `target.rows`.
        shards: devices that share the rows, `target.posterior.shards`.
    """
    return Shuffle(jnp.tile(jnp.arange(rows, dtype=jnp.int32), (shards, 1)))


def begin(target: Target, batch_size: int | None) -> Shuffle | None:
    """State before the first epoch in mini-batches of `batch_size` rows; None if every step takes all rows."""
    return start(target.rows, target.posterior.shards) if batch_size else None


def next_evaluate(
    key: Array,
    index: Array,
    shuffle: Shuffle | None,
    target: Target,
    batch_size: int | None,
    augmentation: AugmentationConfig | None = None,
) -> tuple[Shuffle | None, Evaluate]:
    """Density and gradient of the next mini-batch, or of all rows without `batch_size`, as a function of the position.

    Args:
        key: the step's key for drawing rows.
        index: index of the step within its phase.
        shuffle: order of the rows so far.
        target: the posterior.
        batch_size: rows of a mini-batch.
        augmentation: how the images of a mini-batch are augmented; None for no augmentation.
    """
    if batch_size is None or shuffle is None:
        return shuffle, target.evaluate
    shuffle, rows = next_rows(key, index, shuffle, batch_size)
    if augmentation is None:
        return shuffle, lambda theta: target.estimate(theta, rows)
    of_images = jax.random.fold_in(key, AUGMENTATION)
    if target.posterior.shards > 1:
        of_images = jax.random.fold_in(of_images, jax.lax.axis_index(DATA_AXIS))
    images = augmented(of_images, target.data.x[rows], augmentation)
    return shuffle, lambda theta: target.estimate(theta, rows, images)


def steps_in(epochs: int, batch_size: int | None, posterior: Posterior, data: PosteriorData) -> int:
    """Steps in `epochs` epochs; an epoch of the full data is one step. Raises ValueError like `batches_per_epoch`."""
    return epochs * (batches_per_epoch(len(data.y), batch_size, posterior.shards) if batch_size else 1)


def next_rows(key: Array, index: Array, shuffle: Shuffle, batch: int) -> tuple[Shuffle, Array]:
    """Rows of the mini-batch of a step, and the order from which these rows are taken.

    Step `index` takes batch number index mod B of its epoch, B = rows // batch; batch number 0 draws a new order. An
    epoch leaves out the rows after its last whole batch. These rows differ between epochs, so every row is equally
    likely and a batch is a simple random sample, which makes estimates from a batch unbiased.

    Args:
        key: a key used only for this step, and only if an epoch begins.
        index: number of the step within its phase, the same for all chains; phases begin with a new epoch.
        shuffle: state after the previous step.
        batch: rows of a mini-batch, over all devices that share the rows of a chain.

    Returns:
        the new state, and the row indices int32 [batch / shards] for this device.

    Raises:
        ValueError: as `batches_per_epoch`.
    """
    shards, rows = shuffle.order.shape
    batches, share = batches_per_epoch(shards * rows, batch, shards), batch // shards

    def redraw(_: Array) -> Array:
        return jax.vmap(lambda key: permutation(key, rows))(jax.random.split(key, shards))

    position = index % batches
    order = jax.lax.cond(position == 0, redraw, lambda order: order, shuffle.order)
    local = order[jax.lax.axis_index(DATA_AXIS)] if shards > 1 else order[0]
    return Shuffle(order), jax.lax.dynamic_slice(local, (position * share,), (share,))


def permutation(key: Array, rows: int) -> Array:
    """Random order of the rows, int32 [rows], several times as fast as `jax.random.permutation` on a CPU.

    A radix sort by random digits: every round sorts words made of a random digit (high bits) and the current position
    (low bits). Together, the digits of all rounds have at least 3 log2(rows) bits, so ties, which would keep the order
    of the rows, are as rare as in `jax.random.permutation`.
    """
    width = (rows - 1).bit_length()
    rounds = max(1, -(-3 * width // (32 - width)))
    digits = jax.random.bits(key, (rounds, rows), jnp.uint32) >> width << width
    positions = order = jnp.arange(rows, dtype=jnp.uint32)
    for digit in digits:
        order = order[jnp.sort(digit | positions) & jnp.uint32(2**width - 1)]
    return order.astype(jnp.int32)


def augmented(key: Array, images: Array, config: AugmentationConfig) -> Array:
    """Images [b, height, width, channels], each randomly flipped and shifted.

    Pixel (i, j) of the result is pixel (i + u, j + v) of the image, or (i + u, width - 1 - j - v) if it is flipped,
    with u and v uniform on -crop, ..., crop; positions beyond the edge take the outermost pixel.
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
