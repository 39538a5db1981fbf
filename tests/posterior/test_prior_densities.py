"""The priors against SciPy and against their own samples."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
import pytest
import scipy.stats
from jax import numpy as jnp
from pydantic import TypeAdapter, ValidationError

from bnn_atlas.config.parts.posterior import MLPConfig
from bnn_atlas.config.parts.priors import (
    EpsStandardNormalPrior,
    GlorotLaplacePrior,
    GlorotPrior,
    GlorotUniformPrior,
    HePrior,
    LaplacePrior,
    LogisticPrior,
    MixturePrior,
    NormalFlatBiasPrior,
    NormalGammaNoisePrior,
    NormalPrior,
    PriorConfig,
    StandardNormalPrior,
    StudentTPrior,
)
from bnn_atlas.models.layout import Layout, Parameter
from bnn_atlas.models.networks import build_network
from bnn_atlas.posterior.likelihoods import LOG_SIGMA
from bnn_atlas.posterior.prior_densities import Family, PriorValues, build_prior, log_prior, log_prior_gain

LAYOUT = Layout((*build_network(MLPConfig(hidden=(6, 3)), (4,), 2).layout.parameters, LOG_SIGMA))
# Widths (fan_in, fan_out) of the layer a weight belongs to; None for biases and the noise level.
FANS = [(p.fan_in, p.fan_out) if p.role == "weight" else None for p in LAYOUT.parameters for _ in range(p.size)]


def by_role(weight: Any, other: float) -> np.ndarray:
    return np.array([other if fans is None else weight(*fans) for fans in FANS])


# The formulas of the paper, written out a second time.
NORMAL, LAPLACE = scipy.stats.norm.logpdf, scipy.stats.laplace.logpdf
LOCATED: list[tuple[PriorConfig, Callable[..., np.ndarray]]] = [
    (StandardNormalPrior(), NORMAL),
    (NormalPrior(loc=0.3, scale=0.2), partial(NORMAL, loc=0.3, scale=0.2)),
    (GlorotPrior(factor=1.5), partial(NORMAL, scale=by_role(lambda i, o: 1.5 / math.sqrt((i + o) / 2), 1.0))),
    (HePrior(), partial(NORMAL, scale=by_role(lambda i, o: math.sqrt(2 / i), 1.0))),
    (LaplacePrior(loc=-1.0, scale=0.7), partial(LAPLACE, loc=-1.0, scale=0.7)),
    (GlorotLaplacePrior(), partial(LAPLACE, scale=by_role(lambda i, o: 1 / math.sqrt(i + o), 1 / math.sqrt(2)))),
]
HALF_WIDTHS = by_role(lambda i, o: math.sqrt(6 / (i + o)), math.sqrt(3))
LOGISTIC = LogisticPrior(loc=0.4, scale=0.3)
STUDENTS = [StudentTPrior(degrees_of_freedom=nu, loc=-0.2, scale=0.6) for nu in (0.7, 1.0, 5.0)]
MIXTURES = [
    MixturePrior(weights=(0.3, 0.7), scales=(1.5, 0.02)),
    MixturePrior(weights=(0.5, 0.2, 0.3), scales=(0.1, 1.0, 0.4), locs=(-1.0, 0.5, 2.0)),
]
CONFIGS: list[PriorConfig] = [
    *(config for config, _ in LOCATED),
    GlorotUniformPrior(),
    EpsStandardNormalPrior(scale=0.5, seed=3),
    LOGISTIC,
    *STUDENTS,
    *MIXTURES,
]


def name(config: PriorConfig) -> str:
    return f"{config.kind}{getattr(config, 'degrees_of_freedom', '')}{len(getattr(config, 'weights', ())) or ''}"


def mixture(function: Any, config: MixturePrior, stretch: float = 1.0) -> Any:
    """x -> sum_k w_k function(x; loc_k, scale_k)."""
    parts = list(zip(config.weights, config.locs or (0.0,) * len(config.weights), config.scales, strict=True))
    return lambda x: sum(w * function(x, stretch * loc, stretch * scale) for w, loc, scale in parts)


def density(config: PriorConfig, theta: np.ndarray) -> float:
    prior = build_prior(config, LAYOUT)
    value = log_prior(prior.family, prior.values, jnp.asarray(theta, jnp.float32))
    assert value.shape == ()
    return float(value)


@pytest.fixture
def thetas() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(4, LAYOUT.size)) * np.array([[0.1], [1.0], [3.0], [10.0]])


def log_mixture(config: MixturePrior) -> Callable[[np.ndarray], np.ndarray]:
    parts = mixture(lambda x, loc, scale: np.exp(NORMAL(x, loc, scale).astype(np.longdouble)), config)
    return lambda theta: np.log(parts(theta))


LOG_DENSITIES: list[tuple[PriorConfig, Callable[..., np.ndarray]]] = [
    *LOCATED,
    (LOGISTIC, partial(scipy.stats.logistic.logpdf, loc=0.4, scale=0.3)),
    *((c, partial(scipy.stats.t.logpdf, df=c.degrees_of_freedom, loc=c.loc, scale=c.scale)) for c in STUDENTS),
    *((config, log_mixture(config)) for config in MIXTURES),
]


@pytest.mark.parametrize(("config", "log_density"), LOG_DENSITIES, ids=[name(config) for config, _ in LOG_DENSITIES])
def test_densities_are_those_of_scipy(config: PriorConfig, log_density: Any, thetas: np.ndarray) -> None:
    for theta in (*thetas, 1e6 * thetas[0]) if config.kind == "student_t" else thetas:
        assert density(config, theta) == pytest.approx(float(log_density(theta).sum()), rel=3e-6, abs=3e-4)


def test_uniform_prior_is_flat_inside_its_walls() -> None:
    theta = np.random.default_rng(1).uniform(-0.999, 0.999, LAYOUT.size) * HALF_WIDTHS
    expected = scipy.stats.uniform.logpdf(theta, -HALF_WIDTHS, 2 * HALF_WIDTHS).sum()
    assert density(GlorotUniformPrior(), theta) == pytest.approx(expected, rel=2e-6)
    prior = build_prior(GlorotUniformPrior(), LAYOUT)
    slope = jax.jit(jax.grad(lambda t: log_prior(prior.family, prior.values, t)))(jnp.asarray(theta, jnp.float32))
    assert np.all(slope == 0)


def test_uniform_prior_falls_by_log_1000_per_unit_outside() -> None:
    rng = np.random.default_rng(2)
    beyond = rng.exponential(size=LAYOUT.size) * rng.integers(0, 2, LAYOUT.size)
    theta = rng.choice([-1, 1], LAYOUT.size) * (HALF_WIDTHS + beyond)
    expected = -np.log(2 * HALF_WIDTHS).sum() - math.log(1000) * beyond.sum()
    assert density(GlorotUniformPrior(), theta) == pytest.approx(expected, rel=1e-5)
    prior = build_prior(GlorotUniformPrior(), LAYOUT)
    far = jnp.asarray(3 * HALF_WIDTHS, jnp.float32)
    slope = jax.jit(jax.grad(lambda t: log_prior(prior.family, prior.values, t)))(far)
    np.testing.assert_allclose(slope, -math.log(1000), rtol=1e-5)


FLAT = NormalFlatBiasPrior(scale=0.3)
BIASES = LAYOUT.select(roles=["bias"])


def test_biases_are_flat_and_all_else_is_normal(thetas: np.ndarray) -> None:
    others = np.setdiff1d(np.arange(LAYOUT.size), BIASES)
    assert 0 < len(BIASES) < len(others)
    for theta in thetas:
        expected = scipy.stats.norm.logpdf(theta[others], 0, 0.3).sum()
        assert density(FLAT, theta) == pytest.approx(expected, rel=2e-6, abs=2e-4)
        theta[BIASES] *= 1e12
        assert density(FLAT, theta) == pytest.approx(expected, rel=2e-6, abs=2e-4)


def test_flat_biases_have_no_slope_and_are_drawn_at_0(thetas: np.ndarray) -> None:
    prior = build_prior(FLAT, LAYOUT)
    slope = jax.jit(jax.grad(lambda t: log_prior(prior.family, prior.values, t)))(jnp.asarray(thetas[1], jnp.float32))
    expected = -thetas[1] / 0.3**2
    expected[BIASES] = 0
    np.testing.assert_allclose(slope, expected, rtol=1e-5)
    draws = np.asarray(jax.vmap(prior.sample)(jax.random.split(jax.random.key(7), 400)), np.float64)
    assert np.all(draws[:, BIASES] == 0)
    weights = np.delete(draws, BIASES, axis=1)
    assert scipy.stats.kstest(weights.ravel() / 0.3, "norm").pvalue > 1e-3


def test_each_parameter_of_the_epsilon_prior_has_its_own_gaussian(thetas: np.ndarray) -> None:
    config = EpsStandardNormalPrior(scale=2.0, var_eps=0.25, seed=11)
    values = build_prior(config, LAYOUT).values
    for theta in thetas:
        expected = scipy.stats.norm.logpdf(theta, np.float64(values.loc), np.float64(values.scale)).sum()
        assert density(config, theta) == pytest.approx(expected, rel=2e-6, abs=2e-4)
    wide = build_network(MLPConfig(hidden=(60, 60)), (10,), 1).layout
    loc, scale, _ = (np.asarray(v, np.float64) for v in build_prior(config, wide).values[:3])
    assert scipy.stats.kstest(loc / 0.5, "norm").pvalue > 1e-3
    raw = np.log(np.expm1(scale / 2.0))  # the inverse of scale = 2 softplus(raw)
    assert scipy.stats.kstest((raw - 1) / 0.5, "norm").pvalue > 1e-3
    assert abs(np.corrcoef(loc, raw)[0, 1]) < 0.06


def test_the_epsilon_prior_is_fixed_by_its_seed() -> None:
    first, again, other = (build_prior(EpsStandardNormalPrior(seed=s), LAYOUT).values.loc for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("config", CONFIGS, ids=name)
def test_samples_follow_the_density(config: PriorConfig) -> None:
    prior = build_prior(config, LAYOUT)
    draws = np.asarray(jax.vmap(prior.sample)(jax.random.split(jax.random.key(7), 400)), np.float64)
    loc, scale, _ = (np.asarray(value, np.float64) for value in prior.values[:3])
    uniforms = {
        "logistic": scipy.stats.logistic.cdf,
        "student_t": lambda z: scipy.stats.t.cdf(z, config.degrees_of_freedom),
        "mixture": lambda z: mixture(scipy.stats.norm.cdf, config)(z),
        "normal": scipy.stats.norm.cdf,
        "laplace": scipy.stats.laplace.cdf,
        "walled_uniform": lambda z: (z + 1) / 2,
    }[prior.family.name]((draws - loc) / scale)
    assert scipy.stats.kstest(uniforms.ravel(), "uniform").pvalue > 1e-3
    each = [scipy.stats.kstest(uniforms[:, i], "uniform").pvalue for i in range(LAYOUT.size)]
    assert min(each) > 1e-3 / LAYOUT.size


@pytest.mark.parametrize("config", [*CONFIGS, FLAT], ids=name)
def test_gradients_stay_finite_and_nan_stays_nan(config: PriorConfig) -> None:
    prior = build_prior(config, LAYOUT)
    slope = jax.jit(jax.grad(lambda t: log_prior(prior.family, prior.values, t)))
    for size in (0.0, 1e-30, 1.0, 1e4, -1e15):
        assert np.all(np.isfinite(slope(jnp.full(LAYOUT.size, size))))
    theta = np.zeros(LAYOUT.size)
    theta[3] = np.nan
    assert np.isnan(density(config, theta))


def test_gamma_noise_is_a_gamma_on_the_precision_and_normal_elsewhere(thetas: np.ndarray) -> None:
    config = NormalGammaNoisePrior(scale=1.5, shape=9, rate=0.7)
    for theta, log_sigma in zip(thetas, (-1.3, -0.2, 0.4, -2.0), strict=True):
        theta[-1] = log_sigma
        precision = np.exp(-2 * log_sigma)
        of_noise = scipy.stats.gamma.logpdf(precision, 9, scale=1 / 0.7) + np.log(2 * precision)
        expected = scipy.stats.norm.logpdf(theta[:-1], 0, 1.5).sum() + of_noise
        assert density(config, theta) == pytest.approx(expected, rel=3e-6, abs=2e-4)


def test_draws_of_gamma_noise_have_its_precision() -> None:
    prior = build_prior(NormalGammaNoisePrior(scale=1.5, shape=9, rate=0.7), LAYOUT)
    draws = np.asarray(jax.vmap(prior.sample)(jax.random.split(jax.random.key(0), 4000)), float)
    precision = np.exp(-2 * draws[:, -1])
    assert scipy.stats.kstest(precision, scipy.stats.gamma(9, scale=1 / 0.7).cdf).pvalue > 1e-3
    assert scipy.stats.kstest(draws[:, 5] / 1.5, scipy.stats.norm.cdf).pvalue > 1e-3
    assert draws[:, -1].mean() == pytest.approx(float(prior.values.loc[-1]), abs=4 * draws[:, -1].std() / 60)
    assert draws[:, -1].std() == pytest.approx(float(prior.values.scale[-1]), rel=0.06)
    gain = log_prior_gain(prior.family, prior.values, jnp.asarray(draws[0]), jnp.asarray(draws[1]))
    apart = [log_prior(prior.family, prior.values, jnp.asarray(theta)) for theta in draws[:2]]
    assert float(gain) == pytest.approx(float(apart[0] - apart[1]), abs=1e-4)


def test_gamma_noise_without_noise_is_refused() -> None:
    with pytest.raises(ValueError, match="the noise of likelihood"):
        build_prior(NormalGammaNoisePrior(shape=9, rate=0.7), Layout(LAYOUT.parameters[:-1]))


SLOPES = {
    name(LOGISTIC): (LOGISTIC, lambda x: -np.tanh((x - 0.4) / 0.6) / 0.3),
    name(STUDENTS[2]): (STUDENTS[2], lambda x: -6 * (x + 0.2) / (5 * 0.36 + (x + 0.2) ** 2)),
    name(MIXTURES[0]): (
        MIXTURES[0],
        lambda x: (
            mixture(lambda x, m, s: -x / s**2 * scipy.stats.norm.pdf(x, m, s), MIXTURES[0])(x)
            / mixture(scipy.stats.norm.pdf, MIXTURES[0])(x)
        ),
    ),
}


@pytest.mark.parametrize("which", SLOPES)
def test_slopes_are_exact_in_single_precision(which: str) -> None:
    """At the centre, where the narrow component of the mixture gives way to the wide one, and in the tails."""
    config, expected = SLOPES[which]
    prior = build_prior(config, LAYOUT)
    points = np.resize([0.0, 1e-4, -0.01, 0.05, 0.08, -0.3, 1.0, -4.0, 30.0], LAYOUT.size).astype(np.float32)
    slope = jax.jit(jax.grad(lambda t: log_prior(prior.family, prior.values, t)))(jnp.asarray(points))
    np.testing.assert_allclose(slope, expected(points.astype(float)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "config",
    [
        LogisticPrior(standard_deviation=math.sqrt(1 / 40)),
        StudentTPrior(degrees_of_freedom=4.5, standard_deviation=math.sqrt(1 / 40)),
        MixturePrior(weights=(0.25, 0.75), scales=(5.0, 1.0), standard_deviation=math.sqrt(1 / 40)),
        MixturePrior(weights=(0.5, 0.5), scales=(0.2, 0.4), locs=(-1.0, 2.0), standard_deviation=math.sqrt(1 / 40)),
        NormalPrior(variance=1 / 40),
        LaplacePrior(weight_decay=40),
        LogisticPrior(variance=1 / 40),
        StudentTPrior(degrees_of_freedom=4.5, weight_decay=40),
        MixturePrior(weights=(0.25, 0.75), scales=(5.0, 1.0), weight_decay=40),
    ],
    ids=name,
)
def test_priors_scaled_to_one_variance(config: Any) -> None:
    """Var = integral of (x - mean)^2 p(x) = 1/40, and p integrates to 1, by quadrature of our own density."""
    prior = build_prior(config, LAYOUT, jnp.float32)
    values = prior.values
    one = values._replace(
        loc=values.loc[:1], scale=values.scale[:1], log_normaliser=values.log_normaliser / LAYOUT.size
    )
    x = np.sinh(np.linspace(-9, 9, 40001)) * 0.1
    log_p = jax.jit(jax.vmap(lambda t: log_prior(prior.family, one, t[None])))(jnp.asarray(x, jnp.float32))
    p = np.exp(np.asarray(log_p, np.float64))
    assert np.trapezoid(p, x) == pytest.approx(1, abs=1e-4)
    mean = np.trapezoid(x * p, x)
    assert np.trapezoid((x - mean) ** 2 * p, x) == pytest.approx(1 / 40, rel=2e-3)


@pytest.mark.parametrize(
    "pair", [(STUDENTS[0], STUDENTS[2]), (MIXTURES[0], MixturePrior(weights=(0.9, 0.1), scales=(2, 3)))]
)
def test_one_program_serves_a_grid_of_shapes(pair: tuple[PriorConfig, PriorConfig]) -> None:
    traces = []

    def value(values: PriorValues, theta: jax.Array, family: Family) -> jax.Array:
        traces.append(family)
        return log_prior(family, values, theta)

    compiled = jax.jit(value, static_argnames="family")
    results = [compiled((p := build_prior(config, LAYOUT)).values, p.values.loc, family=p.family) for config in pair]
    assert len(traces) == 1
    assert results[0] != results[1]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "student_t", "degrees_of_freedom": 2.0, "standard_deviation": 1.0}, "variance is infinite"),
        ({"kind": "mixture", "weights": (0.5, 0.4), "scales": (1.0, 2.0)}, "add up to 1"),
        ({"kind": "mixture", "weights": (0.5, 0.5), "scales": (1.0,)}, "2 weights, 1 scales"),
        ({"kind": "mixture", "weights": (), "scales": ()}, "0 weights"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        TypeAdapter(PriorConfig).validate_python(settings)


@pytest.mark.parametrize("config", [*CONFIGS, FLAT], ids=name)
def test_settings_survive_as_plain_values(config: PriorConfig) -> None:
    assert TypeAdapter(PriorConfig).validate_json(config.model_dump_json()) == config


@pytest.mark.parametrize("config", [*CONFIGS, FLAT], ids=name)
def test_double_precision_reaches_every_number(config: PriorConfig) -> None:
    with jax.enable_x64(True):
        prior = build_prior(config, LAYOUT, jnp.float64)
        assert {leaf.dtype for leaf in jax.tree.leaves(prior.values)} == {np.dtype(np.float64)}
        assert prior.sample(jax.random.key(0)).dtype == np.float64
    single = build_prior(config, LAYOUT)
    assert {leaf.dtype for leaf in jax.tree.leaves(single.values)} == {np.dtype(np.float32)}
    assert single.sample(jax.random.key(0)).dtype == np.float32


@pytest.mark.parametrize("config", [*CONFIGS, FLAT], ids=name)
@pytest.mark.parametrize("move", [1e-3, 1.0])
def test_the_gain_is_the_difference_of_the_log_priors(config: PriorConfig, move: float, thetas: np.ndarray) -> None:
    """Against the densities in double precision, at steps of any size, and 0 where nothing moves."""
    prior = build_prior(config, LAYOUT)
    gain = jax.jit(lambda new, old: log_prior_gain(prior.family, prior.values, new, old))
    rng = np.random.default_rng(2)
    for old in thetas[:3].astype(np.float32):
        new = (old + move * rng.normal(size=LAYOUT.size)).astype(np.float32)
        with jax.enable_x64(True):
            exact = build_prior(config, LAYOUT, jnp.float64)
            one, other = (float(log_prior(exact.family, exact.values, jnp.asarray(t, float))) for t in (new, old))
        assert float(gain(new, old)) == pytest.approx(one - other, rel=1e-5, abs=1e-4)
        assert abs(float(gain(old, old))) < 1e-5


@pytest.mark.parametrize(
    ("config", "worst"), [(StandardNormalPrior(), 1e-5), (LaplacePrior(), 1e-3), (STUDENTS[2], 1e-3)], ids=str
)
def test_the_gain_of_millions_of_parameters_is_exact_in_single_precision(config: PriorConfig, worst: float) -> None:
    """Where the difference of two sums is off by their rounding, some 0.1 at this size."""
    layout = Layout((Parameter("w", (2_700_000,), "weight", 0, 1, 1),))
    prior = build_prior(config, layout)
    rng = np.random.default_rng(0)
    old = rng.normal(size=layout.size).astype(np.float32)
    new = (old + 1e-3 * rng.normal(size=layout.size)).astype(np.float32)
    found = float(jax.jit(lambda a, b: log_prior_gain(prior.family, prior.values, a, b))(new, old))
    scale = float(prior.values.scale[0])
    density = {
        "normal": lambda z: -0.5 * z**2,
        "laplace": lambda z: -np.abs(z),
        "student_t": lambda z: -3 * np.log1p(z**2 / 5),
    }[prior.family.name]
    loc = np.float64(prior.values.loc[0])
    exact = np.sum(density((np.float64(new) - loc) / scale) - density((np.float64(old) - loc) / scale))
    assert abs(found - exact) < worst
