"""Low-rank normals: densities and gradients against dense formulas, and the optimum where it is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats

from bnn_atlas.config.methods.gaussian import LowRankConfig, MeanFieldConfig
from bnn_atlas.config.methods.optimisation import AdamConfig
from bnn_atlas.config.parts.posterior import LearnedNoiseLikelihood, MLPConfig
from bnn_atlas.config.parts.priors import LaplacePrior, NormalPrior
from bnn_atlas.methods.contract import Method
from bnn_atlas.methods.low_rank import Counted, LowRank, Noise, build_low_rank, draw_noise, objective
from bnn_atlas.methods.mean_field import build_mean_field, expected_log_prior
from bnn_atlas.methods.variational import noise_index, weights_only, without_noise
from bnn_atlas.posterior.density import build_posterior, posterior_data

from .fitting import Case, drive, line, rows, some_theta, tanh_network

ADAM = AdamConfig(learning_rate=0.02)


def some_q(size: int, rank: int) -> LowRank:
    rng = np.random.default_rng(5)
    return LowRank(*(jnp.asarray(rng.normal(size=shape)) for shape in ((size,), (size,), (size, rank))))


def all_of(size: int) -> Counted:
    return Counted(jnp.ones(size), size)


def covariance(q: LowRank) -> np.ndarray:
    return np.diag(np.asarray(q.diagonal) ** 2) + np.asarray(q.factor) @ np.asarray(q.factor).T


def test_density_entropy_and_spread_are_those_of_the_dense_normal():
    with jax.enable_x64(True):
        q, noise = some_q(6, 2), Noise(*(jnp.asarray(np.random.default_rng(1).normal(size=n)) for n in (6, 2)))
        dense = stats.multivariate_normal(np.asarray(q.mean), covariance(q))
        np.testing.assert_allclose(all_of(6).log_density(q, noise), dense.logpdf(q.at(noise)), rtol=1e-10)
        np.testing.assert_allclose(all_of(6).entropy(q), dense.entropy(), rtol=1e-10)
        np.testing.assert_allclose(q.sigma**2, np.diag(covariance(q)), rtol=1e-10)


def test_a_noise_that_is_a_number_is_left_out_of_the_density():
    with jax.enable_x64(True):
        q = some_q(6, 2)
        counted = Counted(weights_only(6, 5), 5)
        inner = LowRank(q.mean[:5], q.rho[:5], q.factor[:5])
        q = q._replace(factor=q.factor.at[5].set(0))
        xi, zeta = (jnp.asarray(np.random.default_rng(1).normal(size=n)) for n in (5, 2))
        noise = Noise(jnp.append(xi, 0.0), zeta)
        np.testing.assert_allclose(counted.entropy(q), all_of(5).entropy(inner), rtol=1e-10)
        expected = all_of(5).log_density(inner, Noise(xi, zeta))
        np.testing.assert_allclose(counted.log_density(q, noise), expected, rtol=1e-10)
        assert q.at(noise)[5] == q.mean[5]


@pytest.mark.parametrize("prior", [LaplacePrior(scale=0.6), NormalPrior(scale=0.6)], ids=lambda prior: prior.kind)
def test_gradient_against_autodiff_for_given_draws(prior):
    with jax.enable_x64(True):
        case = tanh_network(LearnedNoiseLikelihood(), prior, temperature=0.5)
        q = some_q(case.size, 3)._replace(mean=some_theta(case))
        key, counted = jax.random.key(5), all_of(case.size)

        def elbo(q):
            noise, values = draw_noise(key, (2,), q, counted), 0.0
            for number in range(2):
                likelihood, log_prior = case.target.log_density(q.at(jax.tree.map(lambda a, i=number: a[i], noise)))
                values += (likelihood + (log_prior if prior.kind == "laplace" else 0)) / (2 * 0.5)
            if prior.kind == "normal":
                values += expected_log_prior(case.data.prior, q) / 0.5
            dense = jnp.diag(q.diagonal**2) + q.factor @ q.factor.T
            return values + 0.5 * jnp.linalg.slogdet(2 * jnp.pi * jnp.e * dense)[1]

        value, slope = jax.jit(jax.value_and_grad(elbo))(q)
        found = jax.jit(lambda q: objective(key, q, case.target.evaluate, case.target, 2, counted, case.data.prior))(q)
        np.testing.assert_allclose(found.elbo, value, rtol=1e-9)
        for one, other in zip(found.gradient, slope, strict=True):
            np.testing.assert_allclose(one, -other, rtol=1e-7, atol=1e-7)


def test_with_full_rank_the_optimum_is_the_posterior():
    regression = line(NormalPrior(loc=0.2, scale=0.8), 0.5, dtype=jnp.float32)
    config = LowRankConfig(
        rank=4, epochs=4000, batch_size=None, samples=16, optimiser=ADAM, mean_init="prior", sigma_init=0.3, steps=500
    )
    found = drive(build_low_rank(config, *regression.case), regression.case)
    exact = 0.5 * np.linalg.inv(regression.precision)
    scale = np.sqrt(np.diag(exact))
    np.testing.assert_allclose(found.state.q.mean / scale, regression.mean / scale, atol=0.08)
    white, unit = (matrix / np.outer(scale, scale) for matrix in (covariance(found.state.q), exact))
    np.testing.assert_allclose(white, unit, atol=0.08)
    assert np.abs(unit - np.eye(4)).max() > 0.12, "a diagonal covariance would do"
    # Where q is the posterior, the estimate is the tempered evidence at every draw.
    assert found.statistics["elbo"].std() < 0.2
    assert np.ptp(found.statistics["kl"]) == 0


def noisy_line() -> tuple[Case, float]:
    """A linear regression with learned noise, and the noise that maximises the evidence of its weights."""
    x, y = rows()
    posterior, prior = build_posterior(
        MLPConfig(hidden=()), LearnedNoiseLikelihood(), NormalPrior(scale=0.8), temperature=1.0, shape=(3,)
    )
    design = np.column_stack([np.ones(len(x)), x])

    def minus_evidence(log_sigma: float) -> float:
        spread = np.exp(2 * log_sigma) * np.eye(len(x)) + 0.64 * design @ design.T
        return -stats.multivariate_normal(np.zeros(len(x)), spread).logpdf(y)

    best = optimize.minimize_scalar(minus_evidence, bounds=(-4, 2), method="bounded").x
    return Case(posterior, posterior_data(x, y, prior)), float(np.exp(best))


def build(kind: str, case: Case) -> Method:
    lengths = {"epochs": 3000, "batch_size": None, "samples": 4, "optimiser": ADAM, "steps": 50, "sigma_init": 0.1}
    if kind == "low_rank":
        return build_low_rank(LowRankConfig(rank=4, noise="point", **lengths), *case)
    return build_mean_field(MeanFieldConfig(noise="point", **lengths), *case)


def test_a_noise_that_is_a_number_maximises_the_evidence():
    """Of the exact posterior of the weights (low rank), and about that of its diagonal (mean field)."""
    case, best = noisy_line()
    exact, diagonal = (drive(build(kind, case), case) for kind in ("low_rank", "mean_field"))
    for found in (exact, diagonal):
        assert np.ptp(found.draws[:, -1]) == 0, "one number in all draws"
        assert np.ptp(found.draws[:, 0]) > 0
    np.testing.assert_allclose(np.exp(exact.draws[0, -1]), best, rtol=0.02)
    np.testing.assert_allclose(np.exp(diagonal.draws[0, -1]), best, rtol=0.1)
    x, y = (np.asarray(leaf, float) for leaf in case.data[:2])
    design = np.column_stack([np.ones(len(x)), x])
    spread = np.exp(2 * exact.draws[0, -1]) * np.eye(len(x)) + 0.64 * design @ design.T
    evidence = stats.multivariate_normal(np.zeros(len(x)), spread).logpdf(y)
    assert exact.statistics["elbo"].mean() == pytest.approx(evidence, abs=0.15)
    assert diagonal.statistics["elbo"].mean() < evidence + 0.1


def test_the_prior_without_noise_is_that_of_the_weights():
    case, _ = noisy_line()
    theta = jnp.asarray([0.3, -0.2, 0.1, 0.7, 5.0])
    index = noise_index(case.posterior)
    assert (index, case.posterior.layout.names()[index]) == (4, "log_sigma")
    found = case.posterior.log_prior(theta, without_noise(case.data.prior, index))
    np.testing.assert_allclose(found, stats.norm.logpdf(np.asarray(theta[:4]), 0, 0.8).sum(), rtol=1e-5)


def test_what_does_not_fit_the_posterior_is_refused():
    regression, (noisy, _) = line(NormalPrior(), dtype=jnp.float32), noisy_line()
    with pytest.raises(ValueError, match=r"method\.rank = 5: the posterior has 4 parameters"):
        build_low_rank(LowRankConfig(rank=5, batch_size=None), *regression.case)
    settings = (LowRankConfig(rank=2, noise="point"), MeanFieldConfig(noise="point"))
    for build_it, config in zip((build_low_rank, build_mean_field), settings, strict=True):
        with pytest.raises(ValueError, match=r"'point' .*likelihood\.kind 'learned_noise', not 'gaussian'"):
            build_it(config.model_copy(update={"batch_size": None}), *regression.case)
    posterior = noisy.posterior._replace(family=noisy.posterior.family._replace(name="laplace"))
    with pytest.raises(ValueError, match=r"'point' .*'laplace'"):
        build_low_rank(LowRankConfig(rank=2, noise="point", batch_size=None), posterior, noisy.data)
