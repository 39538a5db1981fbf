"""The compiled gradient against XLA, in the ways in which methods call it."""

import warnings
from functools import partial
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from jax import numpy as jnp

from bnn_atlas.config.parts.posterior import (
    CategoricalLikelihood,
    GaussianLikelihood,
    HeteroscedasticLikelihood,
    LearnedNoiseLikelihood,
    LeNettiConfig,
    MLPConfig,
)
from bnn_atlas.config.parts.priors import StandardNormalPrior
from bnn_atlas.models import mlp
from bnn_atlas.native import build as native
from bnn_atlas.placement import Placement
from bnn_atlas.posterior import compiled
from bnn_atlas.posterior.compiled import kernel_for, kernel_name
from bnn_atlas.posterior.density import Posterior, PosteriorData, binder, build_posterior, data_specs, posterior_data
from bnn_atlas.posterior.likelihoods import log_likelihood

pytestmark = pytest.mark.bits

LIKELIHOODS = (
    GaussianLikelihood(sigma=0.3),
    LearnedNoiseLikelihood(),
    HeteroscedasticLikelihood(head="exp"),
    HeteroscedasticLikelihood(head="softplus"),
    CategoricalLikelihood(),
)
ACTIVATIONS = ("relu", "tanh", "sigmoid", "silu", "gelu", "identity")


@pytest.fixture(autouse=True)
def built() -> None:
    try:
        native.build()
    except native.BuildError as error:
        pytest.skip(f"no compiled gradient here: {error}")
    compiled.available.cache_clear()
    assert compiled.available()


def problem(
    likelihood: Any,
    hidden: tuple[int, ...] = (16, 16),
    activation: str = "relu",
    rows: int = 100,
    features: int = 5,
    bias: bool = True,
    dtype: Any = jnp.float32,
    kernel: str = "auto",
    shards: int = 1,
) -> tuple[Posterior, PosteriorData, np.ndarray]:
    """A posterior, its data, and parameters of the size of an initialised network's."""
    rng = np.random.default_rng(rows)
    model = MLPConfig(hidden=hidden, activation=activation, bias=bias)
    posterior, prior = build_posterior(
        model,
        likelihood,
        StandardNormalPrior(),
        temperature=1.0,
        shape=(features,),
        classes=4,
        dtype=dtype,
        kernel=kernel,
        shards=shards,
    )
    classes = isinstance(likelihood, CategoricalLikelihood)
    x = rng.normal(size=(rows, features)).astype(np.float32)
    y = rng.integers(0, 4, rows) if classes else rng.normal(size=rows).astype(np.float32)
    fans = posterior.layout.per_scalar({p.name: max(p.fan_in, 1) for p in posterior.layout.parameters})
    theta = rng.normal(size=posterior.layout.size) / np.sqrt(1 + fans)
    return posterior, posterior_data(x, y, prior, shards), theta.astype(np.float32)


def both(likelihood: Any, **settings: Any) -> list[tuple[Posterior, PosteriorData, np.ndarray]]:
    """The same problem with the kernel and without."""
    return [problem(likelihood, kernel=kernel, **settings) for kernel in ("auto", "xla")]


def distance(found: Any, exact: Any) -> float:
    """Relative error of a vector."""
    exact = np.asarray(exact, float)
    return float(np.linalg.norm(np.asarray(found, float) - exact) / np.linalg.norm(exact))


def error_of_storage(
    posterior: Posterior, activation: str, depth: int, theta: np.ndarray, data: PosteriorData, weights: Any
) -> float:
    """Relative error of a gradient computed exactly, but for layers whose outputs are kept in single precision.

    Rows with little noise magnify it without limit. Summing n products one by one, here at most 64, rounds n times
    instead of once and makes it about sqrt(n) times as large.
    """

    def total(theta: Any, keep: Any) -> Any:
        parameters, outputs = posterior.layout.unflatten(theta), data.x.T
        for layer in range(depth):
            inputs = mlp.ACTIVATIONS[activation](outputs) if layer else outputs
            outputs = parameters[f"layer{layer}.weight"] @ inputs
            outputs = keep(outputs + parameters.get(f"layer{layer}.bias", jnp.zeros(len(outputs)))[:, None])
        extra = theta[posterior.network.layout.size :]
        return log_likelihood(posterior.likelihood, outputs, extra, data.y, weights)

    def in_single(values: Any) -> Any:
        return values + jax.lax.stop_gradient(values.astype(jnp.float32) - values)

    gradient = jax.jit(jax.grad(total), static_argnums=1)
    exact = gradient(theta, lambda values: values)
    return distance(gradient(theta, in_single), np.asarray(exact))


@pytest.mark.slow
@settings(max_examples=12, phases=(Phase.explicit, Phase.generate))
@given(
    likelihood=st.sampled_from(LIKELIHOODS),
    activation=st.sampled_from(ACTIVATIONS),
    hidden=st.lists(st.integers(1, 64), max_size=4).map(tuple),
    rows=st.integers(1, 5000),
    features=st.integers(1, 64),
    bias=st.booleans(),
    weighted=st.booleans(),
)
@example(LIKELIHOODS[3], "relu", (64,) * 4, 5000, 64, True, False)
@example(LIKELIHOODS[4], "gelu", (1,), 1, 1, False, False)
@example(LIKELIHOODS[2], "silu", (50,), 1202, 5, True, True)
@example(LIKELIHOODS[1], "tanh", (8, 8, 8), 17, 13, True, True)
@example(LIKELIHOODS[0], "sigmoid", (16,) * 4, 4097, 5, False, False)
@example(LIKELIHOODS[3], "identity", (62, 54, 64, 22), 1228, 53, True, True)
def test_gradient_is_that_of_xla_in_double_precision(
    likelihood: Any, activation: str, hidden: tuple[int, ...], rows: int, features: int, bias: bool, weighted: bool
) -> None:
    shape = {"activation": activation, "hidden": hidden, "rows": rows, "features": features, "bias": bias}
    posterior, data, theta = problem(likelihood, **shape)
    assert posterior.kernel
    weights = (np.arange(rows) % 3 != 1).astype(np.float32) if weighted else None
    data = data._replace(weights=None if weights is None else jnp.asarray(weights))
    value, slopes = posterior.log_likelihood_and_gradient(jnp.asarray(theta), data.x, data.y, data.weights)
    full = jax.jit(posterior.evaluate)(jnp.asarray(theta), posterior.arrange(data))
    alone = jax.jit(posterior.log_density)(jnp.asarray(theta), posterior.arrange(data)).log_likelihood
    if not weighted:
        assert float(alone) == float(posterior.log_likelihood_of(jnp.asarray(theta), data.x, data.y))
    with jax.enable_x64(True):
        double, same, _ = problem(likelihood, **shape, dtype=jnp.float64)
        assert double.kernel is None
        counts = None if weights is None else jnp.asarray(weights, jnp.float64)
        point = jnp.asarray(theta, jnp.float64)
        exact = jax.jit(double.log_likelihood_and_gradient)(point, same.x, same.y, counts)
        error, bound = distance(slopes, np.asarray(exact[1])), 2e-6
        if error > bound:
            bound = min(8 * error_of_storage(double, activation, len(hidden) + 1, point, same, counts), 1e-5)
    assert error <= bound
    assert abs(float(value) - float(exact[0])) < 2e-6 * max(rows, abs(float(exact[0])))
    assert float(alone) == float(value) == float(full.density.log_likelihood)
    np.testing.assert_allclose(full.gradient, slopes - theta, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda one: f"{one.kind} {getattr(one, 'head', '')}")
@pytest.mark.parametrize("activation", ["relu", "tanh", "silu"])
def test_what_is_not_finite_travels_as_in_xla(likelihood: Any, activation: str) -> None:
    found = []
    for posterior, data, theta in both(likelihood, activation=activation, rows=48, hidden=(3,)):
        evaluate = binder(posterior)(data).evaluate
        values = [(place, bad) for place in (0, 3, 10, theta.size - 1) for bad in (np.nan, np.inf, -np.inf)]
        points = np.repeat(theta[None], len(values), axis=0)
        points[np.arange(len(values)), [place for place, _ in values]] = [bad for _, bad in values]
        found.append([evaluate(jnp.asarray(point)) for point in points])
    for changed, ours, theirs in zip(values, *found, strict=True):
        for a, b in zip(ours.density, theirs.density, strict=True):
            assert (np.isnan(a), np.isinf(a)) == (np.isnan(b), np.isinf(b)), changed
        # A product of three factors is NaN or infinite by the order in which they are multiplied.
        np.testing.assert_array_equal(np.isfinite(ours.gradient), np.isfinite(theirs.gradient), str(changed))


def test_bits_do_not_depend_on_devices_or_neighbours() -> None:
    posterior, data, theta = problem(LIKELIHOODS[3], rows=203)
    thetas = theta * np.linspace(0.5, 1.5, 5, dtype=np.float32)[:, None]
    bind, specs = binder(posterior), data_specs(data)
    found = []
    for devices, chosen in [(1, slice(None)), (2, slice(None)), (4, slice(None)), (1, slice(3, 4))]:
        place = Placement(len(thetas[chosen]), jax.local_devices()[:devices])
        mapped = place.map(lambda data, theta: bind(data).evaluate(theta), specs)
        found.append(place.get(mapped(place.share(data, specs), place.put(thetas[chosen]))).gradient)
    for other in found[1:3]:
        np.testing.assert_array_equal(found[0], other)
    np.testing.assert_array_equal(found[0][3:4], found[3])


def test_devices_that_share_the_rows_give_the_whole_gradient() -> None:
    one, data, theta = problem(LIKELIHOODS[3], rows=203)
    several, shared, _ = problem(LIKELIHOODS[3], rows=203, shards=2)
    assert shared.weights is not None
    assert several.kernel
    place = Placement(1, jax.local_devices()[:2], shards=2)
    bind, specs = binder(several), data_specs(shared)
    mapped = place.map(lambda data, theta: bind(data).evaluate(theta), specs)
    found = place.get(mapped(place.share(shared, specs), place.put(theta[None])))
    expected = binder(one)(data).evaluate(jnp.asarray(theta))
    assert distance(found.gradient[0], expected.gradient) < 1e-6


def test_estimates_are_those_of_xla_also_under_vmap() -> None:
    (ours, data, theta), (theirs, _, _) = both(LIKELIHOODS[1], rows=60)
    rows = jnp.asarray(np.random.default_rng(0).permutation(60).reshape(3, 20))
    found = jax.jit(jax.vmap(lambda chosen: ours.estimate(theta, data, chosen)))(rows)
    expected = jax.jit(jax.vmap(lambda chosen: theirs.estimate(theta, data, chosen)))(rows)
    assert distance(found.gradient, expected.gradient) < 2e-6
    one_by_one = [binder(ours)(data).estimate(theta, chosen).gradient for chosen in rows]
    np.testing.assert_array_equal(found.gradient, one_by_one)


@pytest.mark.parametrize("likelihood", [LIKELIHOODS[3], LIKELIHOODS[4]], ids=["softplus", "categorical"])
def test_a_second_derivative_goes_through_xla(likelihood: Any) -> None:
    products = []
    for posterior, data, theta in both(likelihood, activation="tanh", hidden=(4,)):
        batch, direction = posterior.arrange(data), jnp.ones(theta.size) / theta.size

        def slopes(vector: Any, posterior: Posterior = posterior, batch: Any = batch) -> Any:
            return posterior.evaluate(vector, batch).gradient

        products.append(jax.jit(lambda t, d=direction, s=slopes: jax.jvp(s, (t,), (d,))[1])(jnp.asarray(theta)))
        value = partial(posterior.log_density, batch=batch)
        first = jax.jit(jax.grad(lambda t, v=value: v(t).log_likelihood))(jnp.asarray(theta))
        products.append(first)
    assert distance(products[0], products[2]) < 1e-4
    assert distance(products[1], products[3]) < 1e-5


def test_which_posteriors_take_the_kernel() -> None:
    def taken(**changes: Any) -> bool:
        settings = {
            "model": MLPConfig(hidden=(16,)),
            "likelihood": LearnedNoiseLikelihood(),
            "shape": (5,),
            "classes": 0,
            "dtype": np.dtype("float32"),
            "choice": "auto",
        }
        return kernel_for(**(settings | changes)) is not None

    assert taken()
    assert taken(model=MLPConfig(hidden=()))
    assert taken(shape=(8, 8, 1))
    assert taken(model=MLPConfig(hidden=(64,) * 4))
    assert not taken(choice="xla")
    assert not taken(dtype=np.dtype("float64"))
    assert not taken(shape=(28, 28, 1))
    assert not taken(model=MLPConfig(hidden=(16, 65)))
    assert not taken(model=MLPConfig(hidden=(2,) * 100))
    assert not taken(model=LeNettiConfig(), shape=(28, 28, 1))
    assert not taken(model=MLPConfig(hidden=(7, 10), activation="elu"))
    assert not taken(likelihood=CategoricalLikelihood(), classes=100)


def test_without_the_library_one_line_says_what_is_lost(monkeypatch, tmp_path, caplog) -> None:
    monkeypatch.setattr(compiled, "library", lambda: tmp_path / "gradient.so")
    compiled.available.cache_clear()
    with warnings.catch_warnings():
        assert [problem(LIKELIHOODS[1])[0].kernel for _ in range(3)] == [None] * 3
    (record,) = [record for record in caplog.records if "no compiled gradient" in record.message]
    assert "make setup" in record.message
    compiled.available.cache_clear()


def test_processors_without_the_instructions_are_left_to_xla(monkeypatch, caplog) -> None:
    monkeypatch.setattr(compiled.ctypes, "CDLL", lambda file: SimpleNamespace(bnn_atlas_best=lambda: 0))
    compiled.available.cache_clear()
    assert problem(LIKELIHOODS[1])[0].kernel is None
    (record,) = [record for record in caplog.records if "no compiled gradient" in record.message]
    assert "neither AVX-512 nor AVX2" in record.message
    compiled.available.cache_clear()


def test_the_name_says_which_sources(monkeypatch, tmp_path) -> None:
    kernel = problem(LIKELIHOODS[1])[0].kernel
    before = native.source_digest()
    assert kernel_name(None) == "xla"
    assert kernel_name(kernel) == f"compiled {before[:16]}"
    for file in [*native.FOLDER.glob("*.cpp"), *native.FOLDER.glob("*.h")]:
        (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.setattr(native, "FOLDER", tmp_path)
    assert native.source_digest() == before
    stale = native.library()
    with (tmp_path / "lanes.h").open("a") as handle:
        handle.write("// edited\n")
    assert native.source_digest() != before
    assert native.library() != stale
