"""The generator of given settings for the weights of a network."""

from collections.abc import Sequence
from itertools import pairwise
from math import prod

import numpy as np

from bnn_atlas.config.methods.generators import (
    CorrelatedGenerator,
    FactorisedGenerator,
    GeneratorConfig,
    MatrixGenerator,
    MLPGenerator,
)
from bnn_atlas.methods.implicit.generators.base import Branches, Factorised, Generator
from bnn_atlas.methods.implicit.generators.layers import Dense, Layer, Matrix, nearly_square
from bnn_atlas.models.layout import Layout


def build_generator(config: GeneratorConfig, layout: Layout, generated: np.ndarray) -> Generator:
    """Generator of the scalars with the indices `generated` [D] of a network.

    Raises:
        ValueError: it has fewer outputs than there are weights, more noise, or another number of parts than the network
            has layers.
    """
    if isinstance(config, FactorisedGenerator):
        return _factorised(config, layout, generated)
    return _one(config, len(generated), "")


def _one(config: MLPGenerator | MatrixGenerator | CorrelatedGenerator, size: int, where: str) -> Branches:
    """Generator of `size` weights; `where` begins messages about a part."""
    shared: tuple[Layer, ...] = ()
    branches: tuple[tuple[Layer, ...], ...]
    match config:
        case MLPGenerator():
            widths = (config.noise, *config.hidden, size)
            branches = (tuple(Dense(a, b) for a, b in pairwise(widths)),)
        case MatrixGenerator():
            output = config.output or nearly_square(size)
            branches = (_matrices((config.noise, *config.hidden, output), config.bias_rank),)
        case CorrelatedGenerator():
            whole = config.written_out()
            assert whole.noise is not None
            assert whole.trunk is not None
            shared = tuple(Matrix(a, b) for a, b in pairwise((whole.noise, *whole.trunk)))
            branches = tuple(_matrices((p.input, *p.hidden, p.output), config.bias_rank) for p in whole.parts)
    generator = Branches(size, shared, branches, config.last_bias == "warm_start", config.spread)
    if generator.capacity < size:
        raise ValueError(
            f"{where}a generator with {generator.capacity:,} outputs cannot make {size:,} weights: enlarge "
            f"{'the outputs of its parts' if shared else 'generator.output, or leave it out'}"
        )
    if (noise := prod(generator.shape)) > size:
        published = isinstance(config, CorrelatedGenerator) and config.architecture
        raise ValueError(
            f"{where}a generator with {noise:,} noise numbers for {size:,} weights: its entropy needs at most as many "
            f"as there are weights; {'choose a smaller architecture' if published else 'lower generator.noise'}"
        )
    return generator


def _matrices(shapes: Sequence[tuple[int, int]], rank: int | None) -> tuple[Layer, ...]:
    """Matrix layers from shape to shape, the last one with a bias of the given rank; ValueError if that is too high."""
    pairs = list(pairwise(shapes))
    if rank is not None and rank > min(shapes[-1]):
        rows, columns = shapes[-1]
        raise ValueError(
            f"bias_rank {rank} for a last matrix of {rows} x {columns}: no rank is above {min(rows, columns)}; lower "
            "it, or leave it out for a full bias"
        )
    return (*(Matrix(a, b) for a, b in pairs[:-1]), Matrix(*pairs[-1], rank))


def _factorised(config: FactorisedGenerator, layout: Layout, generated: np.ndarray) -> Factorised:
    """A part for each layer that has generated weights; those of no layer (a noise level) join the last part."""
    names = [p.layer for p in layout.parameters]
    owner = np.repeat([-1 if layer is None else layer for layer in names], [p.size for p in layout.parameters])
    owner = owner[generated]
    layers, counts = np.unique(owner[owner >= 0], return_counts=True)
    if not len(layers):
        raise ValueError("a factorised generator needs generated parameters of layers: add layers to generated")
    if np.any(np.diff(owner[owner >= 0]) < 0) or np.any(owner[: counts.sum()] < 0):
        raise ValueError(
            "a factorised generator needs a network whose layers follow one another in the flat vector, and this one's "
            "do not: choose another generator"
        )
    counts[-1] += len(owner) - counts.sum()
    parts = config.parts if len(config.parts) > 1 else config.parts * len(layers)
    if len(parts) != len(layers):
        raise ValueError(
            f"a factorised generator with {len(parts)} parts, but {len(layers)} layers are generated "
            f"({', '.join(map(str, layers))}): give one part for each, or one for all"
        )
    sized = zip(parts, counts, layers, strict=True)
    return Factorised(tuple(_one(part, int(count), f"layer {layer}: ") for part, count, layer in sized))
