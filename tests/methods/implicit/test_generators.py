"""Generators: their sizes, their layers against written-out sums, and J'J against the Jacobian itself."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bnn_atlas.config.methods.implicit import CorrelatedGenerator, FactorisedGenerator, MatrixGenerator, MLPGenerator
from bnn_atlas.methods.implicit.layers import Matrix, nearly_square, parameters, started

from .making import GENERATORS, WEIGHTS, at, jacobian, layout, made

LENET = MatrixGenerator(noise=(65, 65), hidden=((250, 250), (250, 250)), output=(350, 127))
MNIST = MatrixGenerator(noise=(40, 40), hidden=((420, 420),) * 3, output=(957, 500))
REPAIRED = CorrelatedGenerator(architecture="cifar_gen_architecture", trunk=((250, 500), (983, 250)))


def numbers(layer: Matrix, dtype: Any = jnp.float32) -> jax.Array:
    return jax.random.uniform(jax.random.key(0), (parameters(layer),), dtype, -1, 1)


@pytest.mark.parametrize(
    ("config", "weights", "count"),
    [
        (MLPGenerator(noise=60, hidden=(105,)), 105, 17_535),
        (MLPGenerator(noise=85, hidden=(100,)), 105, 19_205),
        (MNIST, 478_410, 3_130_380),
        (LENET, 44_426, 612_450),
        (REPAIRED, 2_745_274, 11_835_200),
        (CorrelatedGenerator(architecture="cifar100_gen_arch"), 36_518_932, 66_413_125),
    ],
)
def test_parameters_of_the_published_generators(config, weights, count):
    generator = made(config, layout(weights))
    assert generator.parameters == count
    assert generator.size == weights <= generator.capacity
    out = jax.eval_shape(
        lambda centre, z: generator(generator.start(jax.random.key(0), centre), z),
        *(jax.ShapeDtypeStruct((size,), jnp.float32) for size in (weights, int(np.prod(generator.shape)))),
    )
    assert out.shape == (weights,)


def test_a_matrix_layer_against_einsum():
    with jax.enable_x64(True):
        layer = Matrix((3, 4), (5, 6))
        (values,) = started((layer,), numbers(layer, jnp.float64))
        x = jax.random.normal(jax.random.key(1), (3, 4))
        inner = np.einsum("ra,ab->rb", values["rows"], x) + values["inner"]
        expected = np.einsum("rb,bc->rc", inner, values["columns"]) + values["bias"]
        np.testing.assert_allclose(layer.apply(values, x), expected, rtol=1e-12)
    bounds = {name: bound for name, (_, bound) in layer.bounds.items()}
    assert bounds == pytest.approx({"rows": 3**-0.5, "inner": 3**-0.5, "columns": 6**-0.5, "bias": 6**-0.5})
    for name, value in values.items():
        assert 0.5 * bounds[name] < np.abs(value).max() <= bounds[name]


def test_a_bias_of_low_rank_has_the_spread_of_a_full_one():
    full, narrow = (Matrix((3, 4), (60, 50), rank) for rank in (None, 5))
    one = started((full,), numbers(full))[0]["bias"]
    other = started((narrow,), numbers(narrow))[0]
    product = np.asarray(other["left"] @ other["right"])
    assert np.linalg.matrix_rank(product) == 5
    assert product.std() == pytest.approx(float(one.std()), rel=0.2)


@pytest.mark.parametrize("name", GENERATORS)
def test_products_of_the_jacobian_without_it(name):
    """All weights and no more: outputs beyond them add nothing."""
    with jax.enable_x64(True):
        generator = made(GENERATORS[name])
        values, z = at(generator)
        j = jacobian(generator, values, z)
        gram = np.asarray(jax.jit(lambda values, z: generator.gram(values, generator.squares(values), z))(values, z))
    assert j.shape == (WEIGHTS, len(z))
    np.testing.assert_allclose(gram, j.T @ j, atol=1e-12 * np.abs(gram).max())


def test_j_of_a_factorised_generator_is_block_diagonal():
    with jax.enable_x64(True):
        generator = made(GENERATORS["factorised"])
        j = jacobian(generator, *at(generator))
    assert j.shape == (WEIGHTS, 5 + 6)
    assert not j[:40, 5:].any()
    assert not j[40:, :5].any()
    assert j[:40, :5].any(axis=0).all()
    assert j[40:, 5:].any(axis=0).all()


def test_one_part_serves_every_layer():
    generator = made(FactorisedGenerator(parts=(MLPGenerator(noise=4, hidden=(5,)),)), layout(20, 10, 6))
    assert [part.size for part in generator.parts] == [20, 10, 6]
    assert generator.shape == (12,)


@pytest.mark.parametrize("name", ["mlp", "correlated"])
def test_weights_start_about_the_warm_start(name):
    config = GENERATORS[name].model_copy(update={"last_bias": "warm_start", "spread": 1e-3})
    generator = made(config)
    centre = jnp.linspace(-1, 1, WEIGHTS)
    values = jax.jit(generator.start)(jax.random.key(0), centre)
    noises = jax.random.normal(jax.random.key(1), (20, int(np.prod(generator.shape))))
    weights = jax.jit(jax.vmap(generator, (None, 0)))(values, noises)
    np.testing.assert_allclose(weights.mean(0), centre, atol=5e-3)
    assert 0 < weights.std(0).min() < weights.std(0).max() < 0.01


def test_the_output_left_out_is_nearly_square():
    for entries in (1, 2, 12, 105, 478_410):
        rows, columns = nearly_square(entries)
        assert (rows - 1) * columns < entries <= rows * columns
        assert abs(rows - columns) <= 1
    assert made(MatrixGenerator(noise=(2, 3), hidden=((4, 4),))).capacity == 90


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (MatrixGenerator(noise=(2, 2), hidden=((3, 3),), output=(8, 10)), "80 outputs .* raise generator.output"),
        (MLPGenerator(noise=84, hidden=(3,)), "84 noise numbers for 83 weights.*lower generator.noise"),
        (CorrelatedGenerator(architecture="cifar100_gen_arch"), "9,025 noise .*choose a smaller architecture"),
        (MatrixGenerator(noise=(2, 2), hidden=((3, 3),), output=(9, 10), bias_rank=10), "bias_rank 10 .*at most 9"),
        (FactorisedGenerator(parts=(MLPGenerator(noise=2, hidden=(3,)),) * 3), "3 parts, but 2 layers are generated"),
        (FactorisedGenerator(parts=(MLPGenerator(noise=41, hidden=(3,)),)), "layer 0: .*41 noise numbers"),
    ],
)  # fmt: skip
def test_generators_that_do_not_fit_are_refused(config, message):
    with pytest.raises(ValueError, match=message):
        made(config)


def test_a_published_architecture_that_is_too_small_for_a_network():
    with pytest.raises(ValueError, match="36,520,000 outputs cannot make 36,600,000 weights"):
        made(CorrelatedGenerator(architecture="cifar100_gen_arch"), layout(36_600_000))
