"""A normal prior in which the first layer has the covariance of the data.

Izmailov et al. 2021, Dangers of Bayesian Model Averaging under Covariate Shift (arXiv 2106.11905), as in the published
code, where the precision of a unit's weights is strength (C + floor I)^-1 + I / scale^2. The inverse published for
MNIST, in single precision, has negative eigenvalues. Here, the eigenvalues of C are computed in double precision and
are at least 0, so the prior is proper for every floor.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array
from threadpoolctl import threadpool_limits

from bnn_atlas.config.parts.priors import EmpiricalCovariancePrior
from bnn_atlas.models.layout import Layout, Parameter

ROWS_AT_ONCE = 256
"""Number of images whose patches are in memory at the same time."""


class FirstLayer(NamedTuple):
    """Position of the first layer's weights, and the additional precision of these weights."""

    offset: Array
    """Position (int) of the first weight in the parameter vector; weights of a unit, or of a filter, are adjacent."""
    directions: Array
    """[d, d], eigenvectors of the covariance of the d inputs of a unit, as columns."""
    roots: Array
    """[units, d], the square root of scale^2 strength / (eigenvalue + floor) along each direction, for every unit."""

    def of(self, z: Array) -> Array:
        """The first layer's part [units, d] of a vector [P]."""
        return jax.lax.dynamic_slice(z, (self.offset,), (self.roots.size,)).reshape(self.roots.shape)

    def whitened(self, z: Array) -> Array:
        """The array u [units, d] with |u|^2 = z_first' (precision scale^2) z_first, for z [P]."""
        return self.roots * (self.of(z) @ self.directions)

    def drawn(self, noise: Array) -> Array:
        """Turn independent standard normals [P] into noise with the first layer's covariance, in units of the scale."""
        first = (self.of(noise) / (1 + self.roots**2) ** 0.5) @ self.directions.T
        return jax.lax.dynamic_update_slice(noise, first.ravel(), (self.offset,))


def first_layer(config: EmpiricalCovariancePrior, layout: Layout, rows: np.ndarray | None) -> FirstLayer:
    """Build the first layer's part of the prior, in double precision.

    Args:
        config: strength, floor and scale.
        layout: layout of the model, whose first layer must be dense or a convolution.
        rows: the scaled rows [n, ...] that the posterior is conditioned on, at least two.

    Raises:
        ValueError: there are no rows, or the first layer has no weights that multiply inputs.
    """
    if rows is None or len(rows) < 2:
        raise ValueError(
            "a prior of kind empirical_covariance needs the rows that the posterior is conditioned on: give at least "
            "two as `rows`"
        )
    weight = next((p for p in layout.parameters if p.layer == 0 and p.role == "weight"), None)
    if weight is None or len(weight.shape) < 2 or weight.name.endswith("table"):
        raise ValueError(
            "a prior of kind empirical_covariance needs a network with a dense or convolutional first layer, not an "
            "embedding of words: use kind normal"
        )
    # The last bits of LAPACK's results depend on the number of threads.
    with threadpool_limits(1):
        eigenvalues, directions = np.linalg.eigh(covariance(rows, weight))
    roots = config.scale * np.sqrt(config.strength / (np.maximum(eigenvalues, 0) + config.floor))
    numbers: Any = np.int32(layout.offset(weight.name)), directions, np.tile(roots, (weight.shape[0], 1))
    return FirstLayer(*numbers)


def log_narrowing(first: FirstLayer) -> float:
    """Log of the factor by which the covariance shrinks the prior's volume: sum over units of log det / 2."""
    return float(-0.5 * np.sum(np.log1p(np.asarray(first.roots) ** 2)))


def covariance(rows: np.ndarray, weight: Parameter) -> np.ndarray:
    """Covariance [d, d] of a unit's inputs over rows [n, ...], or of a filter's over all patches of all images.

    Patches of k x k pixels are taken around every pixel of images [n, height, width, channels], with zeros beyond the
    edges, in the order of the filter's weights [channels, k, k].
    """
    size = weight.size // weight.shape[0]
    count, total = 0, np.zeros(size)
    for inputs in _inputs(rows, weight):
        count, total = count + len(inputs), total + inputs.sum(axis=0)
    mean, products = total / count, np.zeros((size, size))
    for inputs in _inputs(rows, weight):
        centred = inputs - mean
        products += centred.T @ centred
    return products / (count - 1)


def _inputs(rows: np.ndarray, weight: Parameter) -> Iterator[np.ndarray]:
    """Inputs [.., d] of the first layer's units, a few rows at a time, in double precision."""
    for start in range(0, len(rows), ROWS_AT_ONCE):
        part = np.asarray(rows[start : start + ROWS_AT_ONCE], np.float64)
        if len(weight.shape) == 2:
            yield part.reshape(len(part), -1)
            continue
        kernel = weight.shape[-1]
        before = (kernel - 1) // 2
        around = (before, kernel - 1 - before)
        padded = np.pad(part, ((0, 0), around, around, (0, 0)))
        patches = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), axis=(1, 2))
        yield patches.reshape(-1, weight.size // weight.shape[0])
