"""Synthetic data sets with one input, drawn from a seed.

Noise, inputs and functions come from NumPy's PCG64 (for the kind `bnn_hmc` from `bnn_atlas.data.orders`). All numbers
are rounded to `DECIMALS`, as in a text file, so every machine makes the same numbers.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from bnn_atlas.config.data.synthetic import (
    BNNHMCGenerator,
    ClustersGenerator,
    GeneratorConfig,
    Interval,
    LineGenerator,
    SinusoidsGenerator,
    WaveGenerator,
)
from bnn_atlas.data import orders

DECIMALS = 6


def generate(config: GeneratorConfig, rows: int, published_train: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Inputs x [rows, 1] and targets y [rows] of a kind of data set, described in `bnn_atlas.config.data.synthetic`.

    The first `published_train` rows are training rows, the others test rows. For clusters and sinusoids, training rows
    are in random order, so that the last of them can serve as validation rows; for `bnn_hmc`, they are in order of x.
    """
    if isinstance(config, BNNHMCGenerator):
        return _bnn_hmc(config, rows, published_train or 0)
    numbers = np.random.default_rng(config.seed)
    if isinstance(config, SinusoidsGenerator):
        return _sinusoids(numbers, config)
    match config:
        case LineGenerator():
            x = np.linspace(config.low, config.high, rows).round(DECIMALS)
            f = config.slope * x
        case WaveGenerator():
            x = np.sort(_uniform(numbers, config.intervals, rows))
            f = config.slope * x + np.sin(config.frequency * x)
        case ClustersGenerator():
            train = numbers.permutation(_uniform(numbers, config.intervals, published_train or 0))
            x = np.concatenate([train, np.linspace(*config.test, rows - len(train)).round(DECIMALS)])
            f = _random_network(numbers, config, x)
    y = f + config.noise * numbers.standard_normal(rows)
    return x[:, None], y.round(DECIMALS)


def _uniform(numbers: np.random.Generator, intervals: Sequence[Interval], count: int) -> np.ndarray:
    """`count` numbers in the intervals, with equal numbers in each interval up to a difference of one."""
    ends = np.array(intervals)[np.arange(count) % len(intervals)]
    return numbers.uniform(ends[:, 0], ends[:, 1]).round(DECIMALS)


def _random_network(numbers: np.random.Generator, config: ClustersGenerator, x: np.ndarray) -> np.ndarray:
    """Outputs [n] of the network at x [n]."""
    z = x / config.unit
    h = np.stack([z, z**2])
    widths = (2, *config.hidden, 1)
    for layer, (fan_in, fan_out) in enumerate(pairwise(widths)):
        weight = config.prior_sd * numbers.standard_normal((fan_out, fan_in))
        bias = config.prior_sd * numbers.standard_normal((fan_out, 1))
        h = weight @ h + bias
        if layer < len(config.hidden):
            h = np.maximum(h, 0)
    return h[0]


def _sinusoids(numbers: np.random.Generator, config: SinusoidsGenerator) -> tuple[np.ndarray, np.ndarray]:
    """Noisy training rows in random order, then test rows without noise."""

    def grids(counts: Sequence[int]) -> np.ndarray:
        return np.concatenate([np.linspace(*ends, n) for ends, n in zip(config.intervals, counts, strict=True)])

    train = numbers.permutation(grids(config.train))
    x = np.concatenate([train, grids(config.test)])
    y = _of_sinusoids(x)
    y[: len(train)] += config.noise * numbers.standard_normal(len(train))
    return (x / np.abs(config.intervals).max()).round(DECIMALS)[:, None], y.round(DECIMALS)


def _of_sinusoids(x: np.ndarray) -> np.ndarray:
    return x + 0.8 * np.sin(2 * np.pi * x) + 0.8 * np.sin(4 * np.pi * x)


def sinusoids_at(config: SinusoidsGenerator, x: np.ndarray) -> np.ndarray:
    """Targets without noise at inputs x of the data set, which were divided by the largest |x| of the intervals."""
    return _of_sinusoids(float(np.abs(config.intervals).max()) * x)


def _bnn_hmc(config: BNNHMCGenerator, rows: int, train: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows of the published notebook, with the same float32 grids and draws of the network and the noise."""
    each = train // len(config.intervals)
    grids = [np.linspace(*ends, each) for ends in config.intervals]
    x = np.concatenate([*grids, np.linspace(*config.test, rows - train)]).round(DECIMALS)
    widths = (2, *config.hidden, 1)
    keys = iter(orders.split(orders.key_of(config.seed), 2 * (len(widths) - 1)))
    h = np.stack([x, x**2], axis=1)
    for layer, (fan_in, fan_out) in enumerate(pairwise(widths)):
        bias = config.prior_sd * orders.normal(next(keys), fan_out).astype(np.float64)
        weight = config.prior_sd * orders.normal(next(keys), fan_in * fan_out).astype(np.float64)
        h = h @ weight.reshape(fan_in, fan_out) + bias
        if layer < len(config.hidden):
            h = np.maximum(h, 0)
    y = h[:, 0]
    y[:train] += config.noise * orders.normal(orders.key_of(config.noise_seed), train)
    return x[:, None], y.round(DECIMALS)
