"""Small generators for tests."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bnn_atlas.config.methods.implicit import (
    CorrelatedGenerator,
    FactorisedGenerator,
    GeneratorConfig,
    MatrixGenerator,
    MLPGenerator,
    Part,
)
from bnn_atlas.methods.implicit.generators import Generator, build_generator
from bnn_atlas.models.layout import Layout, Parameter

WEIGHTS = 83
"""Of the network of `layers`, a number that no product of small shapes meets."""

GENERATORS: dict[str, GeneratorConfig] = {
    "mlp": MLPGenerator(noise=7, hidden=(9, 8)),
    "linear": MLPGenerator(noise=7, hidden=()),
    "matrix": MatrixGenerator(noise=(2, 4), hidden=((5, 4), (4, 6)), output=(9, 10)),
    "matrix, low rank": MatrixGenerator(noise=(2, 4), hidden=((5, 4),), bias_rank=2),
    "correlated": CorrelatedGenerator(
        noise=(2, 3),
        trunk=((4, 5), (4, 7)),
        parts=(
            Part(input=(3, 4), hidden=((4, 3),), output=(6, 7)),
            Part(input=(4, 4), hidden=((3, 4), (4, 4)), output=(7, 7)),
        ),
    ),
    "factorised": FactorisedGenerator(
        parts=(MLPGenerator(noise=5, hidden=(6,)), MatrixGenerator(noise=(2, 3), hidden=((3, 4),)))
    ),
}


def layout(*sizes: int) -> Layout:
    """A network of layers with this many weights."""
    return Layout(tuple(Parameter(f"layer{n}.weight", (size,), "weight", n, 1, 1) for n, size in enumerate(sizes)))


LAYERS = layout(40, WEIGHTS - 40)


def made(config: GeneratorConfig, weights: Layout = LAYERS) -> Generator:
    return build_generator(config, weights, np.arange(weights.size))


def at(generator: Generator, seed: int = 0, dtype: Any = jnp.float64) -> tuple[Any, jax.Array]:
    """Parameters and noise at which a generator is tested; call it where float64 is enabled."""

    def both(key: jax.Array) -> tuple[Any, jax.Array]:
        first, second = jax.random.split(key)
        values = generator.start(first, jnp.zeros(generator.size, dtype))
        return values, jax.random.normal(second, (int(np.prod(generator.shape)),), dtype)

    return jax.jit(both)(jax.random.key(seed))


def jacobian(generator: Generator, values: Any, z: jax.Array) -> np.ndarray:
    return np.asarray(jax.jit(jax.jacfwd(generator, argnums=1))(values, z))
