"""The feature-major network against plain NumPy."""

from collections.abc import Callable

import jax
import numpy as np
import pytest
import scipy.special

from bnn_atlas.config.parts.posterior import MLPConfig
from bnn_atlas.keys import Role, role_key
from bnn_atlas.models.networks import build_network

ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "relu": lambda a: np.maximum(a, 0),
    "tanh": np.tanh,
    "sigmoid": scipy.special.expit,
    "silu": lambda a: a * scipy.special.expit(a),
    "elu": lambda a: np.where(a > 0, a, np.expm1(a)),
    "identity": lambda a: a,
}


@pytest.mark.parametrize(
    ("inputs", "hidden", "outputs", "count"),
    [(5, (16,) * 4, 2, 946), *((12, (n,) * 3, 2, count) for n, count in {8: 266, 16: 786, 32: 2594, 48: 5426}.items()),
     (7, (), 3, 24)],
)  # fmt: skip
def test_parameter_counts(inputs: int, hidden: tuple[int, ...], outputs: int, count: int) -> None:
    network = build_network(MLPConfig(hidden=hidden), (inputs,), outputs)
    assert network.layout.size == count
    without = build_network(MLPConfig(hidden=hidden, bias=False), (inputs,), outputs)
    assert without.layout.size == count - sum(hidden) - outputs
    widths = zip((inputs, *hidden), (*hidden, outputs), strict=True)
    weights = [(p.shape, p.fan_in, p.fan_out) for p in network.layout.parameters if p.role == "weight"]
    assert weights == [((after, before), before, after) for before, after in widths]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_forward_pass_is_the_formula(activation: str, bias: bool) -> None:
    network = build_network(MLPConfig(hidden=(5, 4), activation=activation, bias=bias), (3,), 2)
    assert {p.role for p in network.layout.parameters} == ({"weight", "bias"} if bias else {"weight"})
    rng = np.random.default_rng(3)
    theta = rng.normal(size=network.layout.size)
    x = rng.normal(size=(3, 6))
    arrays = network.layout.unflatten(theta)
    h = x
    for layer in range(3):
        h = arrays[f"layer{layer}.weight"] @ h
        if bias:
            h = h + arrays[f"layer{layer}.bias"][:, None]
        if layer < 2:
            h = ACTIVATIONS[activation](h)
    found = network.apply(theta.astype(np.float32), x.astype(np.float32))
    assert found.shape == (2, 6)
    np.testing.assert_allclose(found, h, rtol=2e-5, atol=2e-5)


def test_linear_model_has_no_activation() -> None:
    network = build_network(MLPConfig(hidden=(), activation="relu"), (2,), 1)
    theta = np.float32([0.5, -2.0, 1.0])  # bias, then the weights
    assert network.layout.names() == ["layer0.bias[0]", "layer0.weight[0,0]", "layer0.weight[0,1]"]
    np.testing.assert_allclose(network.apply(theta, np.float32([[3.0], [1.0]])), [[-4.5]])


def test_initialisation_is_lecun_normal_with_zero_biases() -> None:
    network = build_network(MLPConfig(hidden=(40, 20)), (10,), 3)
    keys = jax.vmap(lambda member: role_key(0, Role.INITIALISE, member))(np.arange(200))
    thetas = np.asarray(jax.jit(jax.vmap(network.initialise))(keys), np.float64)
    for p in network.layout.parameters:
        values = network.layout.unflatten(thetas)[p.name]
        if p.role == "bias":
            assert np.all(values == 0)
        else:
            # A normal cut at two of its own standard deviations, stretched to variance 1 / fan_in.
            n = values.size
            assert abs(values.mean()) < 4 / np.sqrt(n * p.fan_in)
            assert values.var() * p.fan_in == pytest.approx(1, abs=4 * np.sqrt(2 / n))
            assert np.abs(values).max() <= 2 / 0.8796 / np.sqrt(p.fan_in)
    assert len(np.unique(thetas[:, network.layout.offset("layer0.weight")])) == 200


def test_initialisation_depends_on_seed_and_member() -> None:
    network = build_network(MLPConfig(hidden=(4,)), (3,), 1)
    member = jax.jit(lambda seed, number: network.initialise(role_key(seed, Role.INITIALISE, number)))
    np.testing.assert_array_equal(member(5, 2), member(5, 2))
    assert not np.array_equal(member(5, 2), member(5, 3))
    assert not np.array_equal(member(5, 2), member(6, 2))
