"""A user's own network, prior or density as a posterior."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from flax import linen as nn
from flax import nnx
from jax import numpy as jnp
from scipy.stats import laplace, norm

import bnn_atlas as atlas
from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.data import DataError
from bnn_atlas.library.networks import user_network
from bnn_atlas.models.networks import ShapeError

NUMBERS = np.random.default_rng(3)
X = NUMBERS.standard_normal((30, 2)).astype(np.float32)
Y = np.sin(X[:, 0]) + 0.1 * NUMBERS.standard_normal(30)
IMAGES = NUMBERS.standard_normal((12, 6, 6, 1)).astype(np.float32)
LABELS = np.arange(12) % 3


class Dense(nn.Module):
    """Two layers, whose names are not in the order of their use."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        return nn.Dense(1, name="a")(nn.tanh(nn.Dense(5, name="b")(x)))


class Convolution(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        hidden = nn.relu(nn.GroupNorm(2)(nn.Conv(4, (3, 3))(x)))
        return nn.Dense(3)(hidden.mean((1, 2)))


class Attention(nnx.Module):
    """A dense network with attention over its four hidden tokens."""

    def __init__(self, rngs: nnx.Rngs, **more: Any) -> None:
        self.inputs = nnx.Linear(2, 8, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(2, 2, rngs=rngs, decode=False)
        self.norm = more["norm"](8, rngs=rngs) if more else nnx.LayerNorm(8, rngs=rngs)
        self.outputs = nnx.Linear(8, 2, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        tokens = self.inputs(x).reshape(len(x), 4, 2)
        return self.outputs(self.norm(self.attention(tokens).reshape(len(x), 8)))


def function(params: Any, x: Any) -> Any:
    """As haiku or plain JAX have it; returns [n]."""
    return jnp.tanh(x @ params["first"]["w"] + params["first"]["b"]) @ params["last"]["w"]


def pytree() -> dict[str, Any]:
    shapes = {"first": {"w": (2, 5), "b": (5,)}, "last": {"w": (5,)}}
    rng = np.random.default_rng(0)
    return jax.tree.map(rng.standard_normal, shapes, is_leaf=lambda shape: isinstance(shape, tuple))


def test_a_flax_network_has_the_density_of_the_same_network_in_settings() -> None:
    mine = atlas.posterior_of(Dense(), X, Y)
    settings = {
        "model": {"hidden": [5], "activation": "tanh"},
        "likelihood": {"kind": "learned_noise"},
        "kernel": "xla",
    }
    theirs = atlas.build_posterior(X, Y, settings)
    tree = mine.as_pytree(theta := NUMBERS.standard_normal(mine.density.layout.size).astype(np.float32))
    arrays = {
        "layer0.weight": tree["b"]["kernel"].T,
        "layer0.bias": tree["b"]["bias"],
        "layer1.weight": tree["a"]["kernel"].T,
        "layer1.bias": tree["a"]["bias"],
        "log_sigma": theta[-1],
    }
    values = [
        posterior.density.evaluate(vector, posterior.density.arrange(posterior.data)).density
        for posterior, vector in ((mine, theta), (theirs, theirs.density.layout.flatten(arrays)))
    ]
    np.testing.assert_allclose(values[0].log_likelihood, values[1].log_likelihood, rtol=1e-5)
    np.testing.assert_allclose(values[0].log_prior, values[1].log_prior, rtol=1e-6)
    layers = {p.name: (p.layer, p.fan_in, p.fan_out) for p in mine.density.layout.parameters}
    assert layers["b/kernel"] == (0, 2, 5)
    assert layers["a/kernel"] == (1, 5, 1)


def test_an_nnx_module_starts_at_its_parameters_and_computes_what_it_computes() -> None:
    module = Attention(nnx.Rngs(0))
    posterior = atlas.posterior_of(module, X, Y, likelihood="heteroscedastic")
    (start,) = atlas.starting_points(posterior, 1)
    np.testing.assert_allclose(posterior.density.network.apply(start, X), module(X).T, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(posterior.as_pytree(start)["inputs"]["kernel"], module.inputs.kernel[...])


def test_a_part_of_a_network_is_stochastic_and_the_rest_stays() -> None:
    start = pytree()
    posterior = atlas.posterior_of(function, X, Y, start=start, stochastic=["last*"], likelihood="gaussian")
    assert [p.name for p in posterior.density.layout.parameters] == ["last/w"]
    draws = atlas.sample(posterior, {"kind": "hmc", "steps": 4, "step_size": 0.05, "trajectory_length": 0.1}, chains=2)
    trees = posterior.as_pytree(draws.read())
    assert np.ptp(trees["last"]["w"], axis=1).min() > 0
    np.testing.assert_array_equal(trees["first"]["w"], np.broadcast_to(start["first"]["w"].astype("f"), (2, 4, 2, 5)))
    assert set(atlas.score(posterior, draws, X, Y)["metric"]) >= {"lppd", "rmse"}


def test_a_density_alone_is_sampled() -> None:
    """A Gaussian with these moments, from a pytree of a number and a vector."""

    def log_density(params: Any) -> Any:
        return -0.5 * ((params["a"] - 3) / 0.5) ** 2 - 0.5 * jnp.sum((params["b"] + params["a"]) ** 2)

    posterior = atlas.posterior_of(log_density, start={"a": 0.0, "b": np.zeros(2)})
    settings = {"kind": "nuts", "step_size": 0.5, "warmup": 200, "steps": 1500}
    draws = posterior.as_pytree(atlas.sample(posterior, settings, chains=2, seed=1).read())
    np.testing.assert_allclose([draws["a"].mean(), draws["a"].std()], [3, 0.5], atol=0.06)
    np.testing.assert_allclose(draws["b"].mean((0, 1)), -3, atol=0.15)
    np.testing.assert_allclose(draws["b"].std((0, 1)), 1.25**0.5, rtol=0.08)


def test_priors_by_name_and_by_function() -> None:
    start = pytree()
    kinds = {"first/*": {"kind": "normal", "scale": 2.0}, "*": {"kind": "laplace", "scale": 0.3}}

    def prior(params: Any) -> Any:
        return (
            jnp.sum(jax.scipy.stats.norm.logpdf(params["first"]["w"], scale=2.0))
            + jnp.sum(jax.scipy.stats.norm.logpdf(params["first"]["b"], scale=2.0))
            + jnp.sum(jax.scipy.stats.laplace.logpdf(params["last"]["w"], scale=0.3))
        )

    first = [start["first"][name].ravel() for name in "wb"]
    expected = norm(scale=2).logpdf(np.concatenate(first)).sum() + laplace(scale=0.3).logpdf(start["last"]["w"]).sum()
    for given in (kinds, prior):
        posterior = atlas.posterior_of(
            function, X, Y, start=start, prior=given, likelihood={"kind": "gaussian", "sigma": 0.1}
        )
        (theta,) = atlas.starting_points(posterior, 1)
        density = posterior.density
        np.testing.assert_allclose(density.log_prior(theta, posterior.data.prior), expected, rtol=1e-5)


def test_normal_priors_by_name_stay_normal() -> None:
    posterior = atlas.posterior_of(
        Dense(), X, Y, prior={"a*": "standard_normal", "*": {"kind": "normal", "scale": 0.1}}
    )
    assert posterior.density.family.name == "normal"
    scales = posterior.density.layout.unflatten(np.asarray(posterior.data.prior.scale))
    assert {name: set(np.ravel(scale).astype(float).round(3)) for name, scale in scales.items()} == {
        "b/kernel": {0.1},
        "b/bias": {0.1},
        "a/kernel": {1.0},
        "a/bias": {1.0},
        "log_sigma": {0.1},
    }


METHODS: dict[str, dict[str, Any]] = {
    "hmc": {"steps": 3, "step_size": 0.01, "trajectory_length": 0.02},
    "nuts": {"step_size": 0.1, "warmup": 20, "steps": 3},
    "mclmc": {"warmup": 100, "steps": 20},
    "adjusted_mclmc": {"step_size": 0.1, "warmup": 20, "steps": 5},
    "sgld": {"epochs": 4, "burn_in_epochs": 2, "ensemble_every": 1, "step_size": 1e-5, "batch_size": 6},
    "sghmc": {"epochs": 4, "burn_in_epochs": 2, "ensemble_every": 1, "step_size": 1e-5, "batch_size": 6},
    "mean_field": {"epochs": 3, "batch_size": 6, "steps": 4},
    "low_rank": {"epochs": 3, "batch_size": 6, "steps": 4, "rank": 2},
    "ivon": {"epochs": 3, "batch_size": 6, "steps": 4},
    "laplace": {"structure": "diagonal", "steps": 4},
    "deep_ensemble": {},
}


@pytest.mark.parametrize("kind", METHODS)
def test_every_method_runs_on_a_flax_network_for_images(kind: str) -> None:
    posterior = atlas.posterior_of(Convolution(), IMAGES, LABELS, likelihood="categorical")
    draws = atlas.sample(posterior, {"kind": kind, **METHODS[kind]}, chains=2)
    scores = atlas.score(posterior, draws, IMAGES, LABELS).set_index("metric")["value"]
    assert np.isfinite(scores["lppd"])


def test_the_same_network_has_the_same_record_and_another_one_has_another() -> None:
    start = pytree()

    def digest(network: Callable[[Any, Any], Any], **changed: Any) -> str:
        return user_network(network, X, start, **changed).digest

    assert digest(function) == digest(lambda params, x: function(params, x))
    assert digest(function) != digest(lambda params, x: 2 * function(params, x))
    assert digest(function, stochastic=["last*"]) != digest(function)


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        (
            lambda: atlas.posterior_of(nn.Sequential([nn.Dense(2), nn.BatchNorm(False), nn.Dense(1)]), X, Y),
            DataError,
            "batch_stats",
        ),
        (
            lambda: atlas.posterior_of(
                nn.Sequential([nn.Dense(2), nn.Dropout(0.5, deterministic=False), nn.Dense(1)]), X, Y
            ),
            DataError,
            "deterministic",
        ),
        (lambda: atlas.posterior_of(Attention(nnx.Rngs(0), norm=nnx.BatchNorm), X, Y), DataError, "BatchStat"),
        (
            lambda: atlas.posterior_of(
                nnx.Sequential(nnx.Linear(2, 1, rngs=nnx.Rngs(0)), nnx.Dropout(0.5, rngs=nnx.Rngs(0))), X, Y
            ),
            DataError,
            "deterministic",
        ),
        (
            lambda: atlas.posterior_of(Dense(), X, np.arange(30) % 3, likelihood="categorical"),
            ShapeError,
            "one for each",
        ),
        (lambda: atlas.posterior_of(Dense(), X, Y, likelihood="heteroscedastic"), ShapeError, "needs 2"),
        (lambda: atlas.posterior_of(function, X, Y), DataError, "start is missing"),
        (lambda: atlas.posterior_of(function, X, Y, start={**pytree(), "n": np.arange(3)}), DataError, r"start\['n'\]"),
        (lambda: atlas.posterior_of(function, X[:, :1], Y, start=pytree()), ShapeError, "shape"),
        (lambda: atlas.posterior_of(function, X, Y, start=pytree(), stochastic=["head*"]), DataError, "head"),
        (
            lambda: atlas.posterior_of(function, X, Y, start=pytree(), prior={"first*": "standard_normal"}),
            DataError,
            "last/w",
        ),
        (lambda: atlas.posterior_of(function, X, Y, start=pytree(), prior={"*": "normale"}), ConfigError, "normale"),
        (
            lambda: atlas.posterior_of(function, X, Y, start=pytree(), prior=lambda params: params["last"]["w"]),
            DataError,
            "one number",
        ),
        (lambda: atlas.posterior_of(function, X, start=pytree()), DataError, "both"),
        (lambda: atlas.posterior_of(3, X, Y), DataError, "int"),
        (lambda: atlas.posterior_of(lambda p, x: p["w"], X, Y, start={"w": np.ones(3)}), ShapeError, r"\[3\]"),
        (lambda: atlas.posterior_of(Dense(), X, Y, stochastic=["a*"]), DataError, "start"),
        (lambda: atlas.posterior_of(Dense(), X, Y, start={"a": {"kernel": np.ones((5, 1))}}), DataError, "b/kernel"),
        (lambda: atlas.posterior_of(function, X, Y, start={}), DataError, "no parameters"),
        (lambda: atlas.posterior_of(function, X, Y, start={"w": np.array([np.nan])}), DataError, "finite"),
    ],
)
def test_what_cannot_be_a_posterior_is_refused(given: Callable[[], Any], error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        given()


def test_draws_are_read_by_the_names_of_the_users_network() -> None:
    posterior = atlas.posterior_of(function, X, Y, start=pytree(), likelihood="gaussian")
    settings = {"kind": "hmc", "steps": 6, "step_size": 0.05, "trajectory_length": 0.1}
    draws = atlas.sample(posterior, settings, chains=2)
    assert draws["first/w"].shape == (2, 6, 2, 5)
    jax.tree.map(np.testing.assert_array_equal, draws.as_pytree(), posterior.as_pytree(draws.read()))
    np.testing.assert_array_equal(draws.thin(2)["last/w"], draws["last/w"][:, ::2])
    with pytest.raises(ValueError, match="first/w"):
        draws["first/v"]
    with pytest.raises(ValueError, match="whole"):
        draws.select(parameters=["first/w[0,0]"])["first/w"]
