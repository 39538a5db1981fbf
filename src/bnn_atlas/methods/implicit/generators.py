"""Generators: a trunk turns noise into hidden arrays, with a last layer for each array; or several such networks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any, Protocol

import jax
import jax.scipy
import numpy as np
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods.implicit import (
    CorrelatedGenerator,
    FactorisedGenerator,
    GeneratorConfig,
    MatrixGenerator,
    MLPGenerator,
)
from bnn_atlas.methods.implicit.layers import Dense, Layer, Matrix, nearly_square, parameters, started, through
from bnn_atlas.models.layout import Layout

Tree = Any
"""Parameters of a generator, nested by layer."""


class Map(Protocol):
    """g: standard normal noise z [d] -> weights [size]."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the noise; z holds the entries of the noise row by row."""

    def __call__(self, values: Tree, z: Array) -> Array:
        """Weights [size] for noise z [d]."""

    def squares(self, values: Tree) -> Tree:
        """Products of each last layer with itself, which are inputs of `gram` and the same for every z."""

    def gram(self, values: Tree, squares: Tree, z: Array) -> Array:
        """J'J [d, d] with J = dg/dz [size, d], without forming J, given `squares`."""


class Generator(Map, Protocol):
    """A map with its sizes and its start."""

    @property
    def noise_rows(self) -> int:
        """Rows of the noise in the published code, where only matrix generators take a matrix and others a vector."""

    @property
    def size(self) -> int:
        """Number of generated weights."""

    @property
    def capacity(self) -> int:
        """Outputs of the last layers, including outputs beyond `size`."""

    @property
    def parameters(self) -> int:
        """Number of learned values, including parameters of outputs beyond `size`."""

    @property
    def hidden(self) -> int:
        """Number of entries of the last layers' inputs, which is the number of entries of one tangent."""

    def start(self, key: Array, centre: Array) -> Tree:
        """Initial parameters of a fit; a last bias may start at the weights `centre` [size]."""

    def divided(self, values: Tree, scale: Array) -> Tree:
        """Parameters with which `squares` and `gram` are those of weights divided by `scale`: [] or [size].

        Raises ValueError if J'J cannot be computed without J for scales of single weights.
        """


@dataclass(frozen=True)
class Scaled:
    """The map z -> g(z) / s; its parameters are those of g, and s: one number [], or one for each weight [size]."""

    generator: Generator

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the noise."""
        return self.generator.shape

    def __call__(self, values: Tree, z: Array) -> Array:
        """g(z) / s [size]."""
        own, scale = values
        return self.generator(own, z) / scale

    def squares(self, values: Tree) -> Tree:
        """Products of each last layer, divided by s, with itself."""
        return self.generator.squares(self.generator.divided(*values))

    def gram(self, values: Tree, squares: Tree, z: Array) -> Array:
        """J'S^-2 J [d, d] with S = diag(s)."""
        return self.generator.gram(self.generator.divided(*values), squares, z)


@dataclass(frozen=True)
class Branches:
    """Shared layers, and branches that each take a part of the shared output; the branches' outputs are the weights.

    Without shared layers, there is one branch, which takes the noise.
    """

    size: int
    shared: tuple[Layer, ...]
    branches: tuple[tuple[Layer, ...], ...]
    at_start: bool
    """Whether the last biases start at given weights."""
    spread: float

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the noise."""
        return (self.shared or self.branches[0])[0].input

    @property
    def noise_rows(self) -> int:
        """Rows of the noise of a matrix generator; with shared layers, the published code takes a vector."""
        return self.shape[0] if len(self.shape) > 1 and not self.shared else 1

    @property
    def capacity(self) -> int:
        """Number of outputs of all branches."""
        return sum(prod(branch[-1].output) for branch in self.branches)

    @property
    def parameters(self) -> int:
        """Numbers that are learned."""
        return sum(parameters(layer) for layers in (self.shared, *self.branches) for layer in layers)

    @property
    def hidden(self) -> int:
        """Number of entries of one tangent."""
        return sum(prod(branch[-1].input) for branch in self.branches)

    def start(self, key: Array, centre: Array) -> Tree:
        """Uniform starts; last weights are multiplied by `spread`, and with `at_start` last biases are `centre`."""
        groups = (self.shared, *self.branches)
        numbers = jax.random.uniform(key, (self.parameters,), centre.dtype, -1, 1)
        ends = np.cumsum([sum(map(parameters, group)) for group in groups])
        pieces = zip(groups, jnp.split(numbers, ends[:-1]), strict=True)
        shared, *branches = (started(group, piece) for group, piece in pieces)
        first = 0
        for number, layers in enumerate(self.branches):
            last = layers[-1].narrowed(branches[number][-1], self.spread)
            if self.at_start:
                last = layers[-1].centred(last, centre[first : first + prod(layers[-1].output)])
            branches[number] = (*branches[number][:-1], last)
            first += prod(layers[-1].output)
        return {"shared": shared, "branches": tuple(branches)}

    def __call__(self, values: Tree, z: Array) -> Array:
        """Weights [size] for noise z [d]."""
        ends = zip(self.branches, values["branches"], self.before_last(values, z), strict=True)
        outputs = [layers[-1].apply(own[-1], x).ravel() for layers, own, x in ends]
        return (jnp.concatenate(outputs) if len(outputs) > 1 else outputs[0])[: self.size]

    def before_last(self, values: Tree, z: Array) -> list[Array]:
        """Input of the last layer of each branch."""
        x = through(self.shared, values["shared"], z.reshape(self.shape)).ravel()
        arrays, first = [], 0
        for layers, own in zip(self.branches, values["branches"], strict=True):
            taken = prod(layers[0].input)
            own_part = x[first : first + taken].reshape(layers[0].input)
            arrays.append(through(layers[:-1], own[:-1], own_part))
            first += taken
        return arrays

    def squares(self, values: Tree) -> Tree:
        """Products of each branch's last layer with itself."""
        ends = zip(self.branches, values["branches"], self._used(), strict=True)
        return tuple(layers[-1].squares(own[-1], used) if used else () for layers, own, used in ends)

    def gram(self, values: Tree, squares: Tree, z: Array) -> Array:
        """J'J as a sum over branches, each from the tangents before its last layer."""
        tangents = tangents_of(lambda z: self.before_last(values, z), z)
        gram = jnp.zeros((len(z), len(z)), z.dtype)
        ends = zip(self.branches, values["branches"], squares, tangents, self._used(), strict=True)
        for layers, own, square, changes, used in ends:
            if used:
                gram = gram + layers[-1].gram(own[-1], square, changes, used)
        return gram

    def divided(self, values: Tree, scale: Array) -> Tree:
        """The parameters with each last layer divided by its part of `scale`."""
        branches, first = [], 0
        for layers, own, used in zip(self.branches, values["branches"], self._used(), strict=True):
            part = scale[first : first + used] if scale.ndim else scale
            branches.append((*own[:-1], layers[-1].divided(own[-1], part)))
            first += used
        return {"shared": values["shared"], "branches": tuple(branches)}

    def _used(self) -> list[int]:
        """Number of outputs of each branch that are used as weights."""
        ends = np.cumsum([prod(layers[-1].output) for layers in self.branches])
        return np.diff(np.minimum(ends, self.size), prepend=0).tolist()


def tangents_of(function: Callable[[Array], list[Array]], z: Array) -> list[Array]:
    """Changes [d, ...] of arrays along each entry of z."""
    _, along = jax.linearize(function, z)
    return jax.vmap(along)(jnp.eye(len(z), dtype=z.dtype))


@dataclass(frozen=True)
class Factorised:
    """Generators of consecutive weights, each with its own noise, so that J is block diagonal."""

    parts: tuple[Branches, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """[d], the concatenated noise of all parts."""
        return (sum(prod(part.shape) for part in self.parts),)

    @property
    def noise_rows(self) -> int:
        """One: the noise of all parts is a vector."""
        return 1

    @property
    def size(self) -> int:
        """Number of weights of all parts."""
        return sum(part.size for part in self.parts)

    @property
    def capacity(self) -> int:
        """Number of outputs of all parts."""
        return sum(part.capacity for part in self.parts)

    @property
    def parameters(self) -> int:
        """Numbers that are learned."""
        return sum(part.parameters for part in self.parts)

    @property
    def hidden(self) -> int:
        """Number of entries of one tangent of the largest part."""
        return max(part.hidden for part in self.parts)

    def start(self, key: Array, centre: Array) -> Tree:
        """Initial parameters of each part, with its own key and its own range of `centre`."""
        keys = jax.random.split(key, len(self.parts))
        starts, first = [], 0
        for own, part in zip(keys, self.parts, strict=True):
            starts.append(part.start(own, centre[first : first + part.size]))
            first += part.size
        return tuple(starts)

    def __call__(self, values: Tree, z: Array) -> Array:
        """Weights [size] for noise z [d]."""
        noises = zip(self.parts, values, self._cut(z), strict=True)
        return jnp.concatenate([part(own, noise) for part, own, noise in noises])

    def squares(self, values: Tree) -> Tree:
        """Result of `squares` for each part."""
        return tuple(part.squares(own) for part, own in zip(self.parts, values, strict=True))

    def gram(self, values: Tree, squares: Tree, z: Array) -> Array:
        """J'J with the blocks of the parts along the diagonal."""
        parts = zip(self.parts, values, squares, self._cut(z), strict=True)
        return jax.scipy.linalg.block_diag(*(part.gram(own, square, noise) for part, own, square, noise in parts))

    def divided(self, values: Tree, scale: Array) -> Tree:
        """The parameters of each part divided by its part of `scale`."""
        ends = np.cumsum([part.size for part in self.parts])[:-1].tolist()
        scales = jnp.split(scale, ends) if scale.ndim else [scale] * len(self.parts)
        return tuple(part.divided(own, one) for part, own, one in zip(self.parts, values, scales, strict=True))

    def _cut(self, z: Array) -> list[Array]:
        pieces, first = [], 0
        for part in self.parts:
            pieces.append(z[first : first + prod(part.shape)])
            first += prod(part.shape)
        return pieces


def build_generator(config: GeneratorConfig, layout: Layout, generated: np.ndarray) -> Generator:
    """Build a generator for the scalars of a network at the indices `generated` [D].

    Raises:
        ValueError: the generator has fewer outputs than there are weights, more noise numbers than weights, or a
            number of parts that differs from the number of layers.
    """
    if isinstance(config, FactorisedGenerator):
        return _factorised(config, layout, generated)
    return _one(config, len(generated), "")


def _one(config: MLPGenerator | MatrixGenerator | CorrelatedGenerator, size: int, where: str) -> Branches:
    """Generator of `size` weights; error messages begin with `where`, which names a part."""
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
            f"{where}a generator with {generator.capacity:,} outputs cannot make {size:,} weights: raise "
            f"{'the outputs of its parts' if shared else 'generator.output, or leave it out'}"
        )
    if (noise := prod(generator.shape)) > size:
        published = isinstance(config, CorrelatedGenerator) and config.architecture
        raise ValueError(
            f"{where}a generator has {noise:,} noise numbers for {size:,} weights, but its entropy allows no more "
            f"noise numbers than weights; {'choose a smaller architecture' if published else 'lower generator.noise'}"
        )
    return generator


def _matrices(shapes: Sequence[tuple[int, int]], rank: int | None) -> tuple[Layer, ...]:
    """Matrix layers between consecutive shapes; the last bias has the given rank. ValueError if that is too high."""
    pairs = list(pairwise(shapes))
    if rank is not None and rank > min(shapes[-1]):
        rows, columns = shapes[-1]
        raise ValueError(
            f"bias_rank {rank} is too high for a last matrix of {rows} x {columns}: choose at most "
            f"{min(rows, columns)}, or leave it out for a full bias"
        )
    return (*(Matrix(a, b) for a, b in pairs[:-1]), Matrix(*pairs[-1], rank))


def _factorised(config: FactorisedGenerator, layout: Layout, generated: np.ndarray) -> Factorised:
    """A part for each layer with generated weights; parameters outside layers (a noise level) join the last part."""
    names = [p.layer for p in layout.parameters]
    owner = np.repeat([-1 if layer is None else layer for layer in names], [p.size for p in layout.parameters])
    owner = owner[generated]
    layers, counts = np.unique(owner[owner >= 0], return_counts=True)
    if not len(layers):
        raise ValueError("a factorised generator needs generated parameters of layers: add layers to generated")
    if np.any(np.diff(owner[owner >= 0]) < 0) or np.any(owner[: counts.sum()] < 0):
        raise ValueError(
            "a factorised generator needs layers that are adjacent in the flat vector, and this network's layers are "
            "not: choose another generator"
        )
    counts[-1] += len(owner) - counts.sum()
    parts = config.parts if len(config.parts) > 1 else config.parts * len(layers)
    if len(parts) != len(layers):
        raise ValueError(
            f"a factorised generator has {len(parts)} parts, but {len(layers)} layers are generated "
            f"({', '.join(map(str, layers))}): give one part for each layer, or one for all"
        )
    sized = zip(parts, counts, layers, strict=True)
    return Factorised(tuple(_one(part, int(count), f"layer {layer}: ") for part, count, layer in sized))
