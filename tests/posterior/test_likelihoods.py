"""Likelihoods against SciPy, at ordinary and at extreme outputs."""

import jax
import numpy as np
import pytest
import scipy.special
import scipy.stats
from jax import numpy as jnp

from bnn_atlas.config.parts.posterior import (
    CategoricalLikelihood,
    GaussianLikelihood,
    HeteroscedasticLikelihood,
    LearnedNoiseLikelihood,
    LikelihoodConfig,
)
from bnn_atlas.posterior.likelihoods import extra_parameters, log_density, log_likelihood, noise, outputs_needed

RNG = np.random.default_rng(4)
ROWS = 40
MEAN, RAW, Y = RNG.normal(size=(3, ROWS)) * 2
LOGITS = RNG.normal(size=(5, ROWS)) * 3
LABELS = RNG.integers(0, 5, ROWS)
NOTHING = jnp.zeros(0)
EXP = HeteroscedasticLikelihood(head="exp")
SOFTPLUS = HeteroscedasticLikelihood(head="softplus")


def rows(config: LikelihoodConfig, outputs: np.ndarray, y: np.ndarray, extra: float | None = None) -> np.ndarray:
    """Log densities of all rows; their sum is checked against `log_likelihood`."""
    own = NOTHING if extra is None else jnp.float32([extra])
    target = jnp.asarray(y, jnp.int32 if y.dtype.kind == "i" else jnp.float32)
    values = log_density(config, jnp.asarray(outputs, jnp.float32), own, target)
    total = log_likelihood(config, jnp.asarray(outputs, jnp.float32), own, target)
    np.testing.assert_allclose(total, np.sum(np.float64(values)), rtol=1e-5)
    assert values.shape == y.shape
    return np.asarray(values)


@pytest.mark.parametrize(
    ("config", "noise", "extra"),
    [
        *((GaussianLikelihood(sigma=sigma), sigma, None) for sigma in (0.1, 1.0, 3.0)),
        *((LearnedNoiseLikelihood(), np.exp(log_sigma), log_sigma) for log_sigma in (-2.0, 0.0, 1.0)),
        (EXP, np.exp(RAW), None),
        (SOFTPLUS, np.logaddexp(0, RAW) + 1e-6, None),
    ],
)
def test_normal_noise(config: LikelihoodConfig, noise: np.ndarray | float, extra: float | None) -> None:
    outputs = np.stack([MEAN, RAW][: outputs_needed(config, 0)])
    tolerance = 1e-5 if len(outputs) == 1 else 1e-4
    expected = scipy.stats.norm.logpdf(Y, MEAN, noise)
    np.testing.assert_allclose(rows(config, outputs, Y, extra), expected, rtol=tolerance, atol=tolerance)


def test_categorical() -> None:
    expected = (LOGITS - scipy.special.logsumexp(LOGITS, axis=0))[LABELS, np.arange(ROWS)]
    found = rows(CategoricalLikelihood(), LOGITS, LABELS)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    probabilities = scipy.special.softmax(LOGITS, axis=0)
    one = scipy.stats.multinomial.logpmf(np.eye(5, dtype=int)[LABELS[0]], 1, probabilities[:, 0])
    assert found[0] == pytest.approx(one, rel=1e-4)


@pytest.mark.parametrize(
    ("config", "raw", "sigma"),
    [*((EXP, raw, 10.0 ** (6 if raw > 0 else -6)) for raw in (-50.0, -13.9, 50.0, 13.9)), (SOFTPLUS, -300.0, 1e-6)],
)
def test_heads_are_clipped(config: LikelihoodConfig, raw: float, sigma: float) -> None:
    found = noise(config, jnp.float32([[0.0], [raw]]), NOTHING)
    assert float(jnp.exp(found.log_sigma[0])) == pytest.approx(sigma, rel=1e-5)
    assert float(found.precision_root[0]) == pytest.approx(1 / sigma, rel=1e-5)


@pytest.mark.parametrize("config", [EXP, SOFTPLUS], ids=["exp", "softplus"])
@pytest.mark.parametrize("raw", [-1e4, -90.0, 0.0, 90.0, 1e4])
@pytest.mark.parametrize("mean", [-1e6, 0.0, 1e6])
def test_extreme_outputs_give_finite_densities_and_gradients(
    config: HeteroscedasticLikelihood, raw: float, mean: float
) -> None:
    def total(outputs: jax.Array) -> jax.Array:
        return log_likelihood(config, outputs, NOTHING, jnp.float32([0.5]))

    value, slope = jax.value_and_grad(total)(jnp.float32([[mean], [raw]]))
    assert np.isfinite(value)
    assert np.all(np.isfinite(slope))


def test_extreme_logits_give_finite_densities_and_gradients() -> None:
    def total(outputs: jax.Array) -> jax.Array:
        return log_likelihood(CategoricalLikelihood(), outputs, NOTHING, jnp.int32([0, 1]))

    value, slope = jax.value_and_grad(total)(jnp.float32([[-1e6, 3e38], [1e6, -3e38], [0.0, 0.0]]))
    assert value < -1e6
    assert not np.isnan(value)
    assert np.all(np.isfinite(slope))


@pytest.mark.parametrize(
    "config",
    [GaussianLikelihood(), EXP, SOFTPLUS, LearnedNoiseLikelihood()],
    ids=["gaussian", "exp", "softplus", "own"],
)
@pytest.mark.parametrize("place", ["output", "target"])
def test_a_nan_row_makes_the_sum_nan(config: LikelihoodConfig, place: str) -> None:
    outputs = np.zeros((outputs_needed(config, 0), 3), np.float32)
    y = np.zeros(3, np.float32)
    (outputs if place == "output" else y)[..., 1] = np.nan
    extra = jnp.zeros(len(extra_parameters(config)))
    values = log_density(config, jnp.asarray(outputs), extra, jnp.asarray(y))
    assert np.isnan(values).tolist() == [False, True, False]
    assert np.isnan(log_likelihood(config, jnp.asarray(outputs), extra, jnp.asarray(y)))


def test_nan_logits_make_the_sum_nan() -> None:
    outputs = jnp.float32([[0.0, np.nan], [0.0, 0.0]])
    assert np.isnan(log_likelihood(CategoricalLikelihood(), outputs, NOTHING, jnp.int32([0, 1])))


def test_widths_and_own_parameters() -> None:
    assert [outputs_needed(c, 7) for c in (GaussianLikelihood(), LearnedNoiseLikelihood(), EXP)] == [1, 1, 2]
    assert outputs_needed(CategoricalLikelihood(), 7) == 7
    assert [p.name for p in extra_parameters(LearnedNoiseLikelihood())] == ["log_sigma"]
    assert extra_parameters(EXP) == ()


def test_classes_have_no_gaussian_noise() -> None:
    with pytest.raises(TypeError, match="categorical has no Gaussian noise"):
        noise(CategoricalLikelihood(), jnp.zeros((3, 2)), NOTHING)


@pytest.mark.parametrize(
    "config",
    [
        GaussianLikelihood(sigma=0.4),
        LearnedNoiseLikelihood(),
        HeteroscedasticLikelihood(head="exp"),
        HeteroscedasticLikelihood(head="softplus"),
    ],
    ids=lambda config: f"{config.kind}-{getattr(config, 'head', '')}",
)
def test_closed_form_derivatives_equal_derived_ones(config) -> None:
    """In reverse and in forward mode, by outputs, noise parameter and targets."""
    rng = np.random.default_rng(0)
    outputs = jnp.asarray(rng.normal(size=(outputs_needed(config, 0), 9)))
    extra, y = jnp.asarray(rng.normal(size=len(extra_parameters(config)))), jnp.asarray(rng.normal(size=9))

    def derived(outputs, extra, y):
        return jnp.sum(log_density(config, outputs, extra, y))

    def closed(outputs, extra, y):
        return log_likelihood(config, outputs, extra, y)

    point = (outputs, extra, y)
    for ours, theirs in zip(jax.grad(closed, (0, 1, 2))(*point), jax.grad(derived, (0, 1, 2))(*point), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=1e-5)
    tangent = tuple(jnp.asarray(rng.normal(size=leaf.shape), leaf.dtype) for leaf in point)
    np.testing.assert_allclose(jax.jvp(closed, point, tangent)[1], jax.jvp(derived, point, tangent)[1], rtol=1e-4)
