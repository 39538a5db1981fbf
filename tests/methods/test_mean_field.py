"""Mean-field VI: the objective in closed form and by autodiff, and its optimum on normal posteriors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from bnn_atlas.config.methods.gaussian import MeanFieldConfig
from bnn_atlas.config.methods.optimisation import AdamConfig
from bnn_atlas.config.parts.priors import EpsStandardNormalPrior, LaplacePrior, NormalFlatBiasPrior, NormalPrior
from bnn_atlas.methods.mean_field import MeanField, build_mean_field, expected_log_prior, objective

from .fitting import LIKELIHOODS, Fit, Line, drive, line, some_theta, tanh_network

PRIOR = EpsStandardNormalPrior(scale=0.8, var_eps=0.2)


def exact_elbo(regression: Line, q: MeanField):
    """E_q[log lik + log prior] / T + H(q), all expectations in closed form."""
    temperature = regression.case.posterior.temperature
    mean, curvature = jnp.asarray(regression.mean), jnp.diag(jnp.asarray(regression.precision))
    peak = sum(regression.case.target.evaluate(mean).density)
    spread = (q.mean - mean) @ jnp.asarray(regression.precision) @ (q.mean - mean) + jnp.sum(curvature * q.sigma**2)
    entropy = jnp.sum(jnp.log(q.sigma)) + 0.5 * len(mean) * jnp.log(2 * jnp.pi * jnp.e)
    return (peak - 0.5 * spread) / temperature + entropy


def some_q(size: int) -> MeanField:
    rng = np.random.default_rng(3)
    return MeanField(jnp.asarray(rng.normal(size=size)), jnp.asarray(rng.normal(size=size) - 1))


def test_objective_and_gradient_are_unbiased():
    """Estimates from one draw each, averaged, against the closed form and its derivatives."""
    with jax.enable_x64(True):
        regression = line(PRIOR, temperature=0.3)
        target, q = regression.case.target, some_q(4)
        estimates = jax.jit(jax.vmap(lambda key: objective(key, q, target.evaluate, target, 1)))(
            jax.random.split(jax.random.key(0), 20_000)
        )
        value, slope = jax.jit(jax.value_and_grad(lambda q: exact_elbo(regression, q)))(q)
    for found, expected in [(estimates.elbo, value), *zip(estimates.gradient, (-slope.mean, -slope.rho), strict=True)]:
        found, expected = np.asarray(found), np.asarray(expected)
        error = found.std(0) / np.sqrt(len(found))
        assert np.all(np.abs(found.mean(0) - expected) < 4.5 * error)
        assert np.linalg.norm(error) < 0.1 * np.linalg.norm(expected)


def test_several_draws_per_step_are_averaged():
    with jax.enable_x64(True):
        regression = line(PRIOR)
        target, q, key = regression.case.target, some_q(4), jax.random.key(1)
        noise = jax.random.normal(key, (3, 4))
        found = objective(key, q, target.evaluate, target, 3)
        densities = [target.evaluate(q.mean + q.sigma * xi).density.log_likelihood for xi in noise]
    np.testing.assert_allclose(found.elbo + found.kl, np.mean(densities), rtol=1e-12)


def test_kl_against_the_closed_form_and_monte_carlo():
    with jax.enable_x64(True):
        regression = line(PRIOR)
        target, q = regression.case.target, some_q(4)
        loc, scale = (np.asarray(leaf) for leaf in target.data.prior[:2])
        mean, sigma = np.asarray(q.mean), np.asarray(q.sigma)
        kl = np.sum(np.log(scale / sigma) + (sigma**2 + (mean - loc) ** 2) / (2 * scale**2) - 0.5)
        found = objective(jax.random.key(0), q, target.evaluate, target, 1)
        np.testing.assert_allclose(found.kl, kl, rtol=1e-12)
        draws = mean + sigma * np.random.default_rng(0).normal(size=(40_000, 4))
        log_prior = stats.norm.logpdf(draws, loc, scale).sum(1)
        log_q = stats.norm.logpdf(draws, mean, sigma).sum(1)
        np.testing.assert_allclose(expected_log_prior(target.data.prior, q), log_prior.mean(), rtol=0.01)
        np.testing.assert_allclose(q.entropy(), -log_q.mean(), rtol=0.01)
        np.testing.assert_allclose(found.kl, (log_q - log_prior).mean(), rtol=0.01)
        np.testing.assert_allclose(q.log_density((draws[0] - mean) / sigma), log_q[0], rtol=1e-10)


@pytest.mark.parametrize("prior", [LaplacePrior(scale=0.6), NormalPrior(scale=0.6)])
def test_gradient_against_autodiff_for_given_draws(prior):
    """Of the Monte Carlo objective, whose normal-prior form has the exact expectation of the prior."""
    temperature = 0.5
    with jax.enable_x64(True):
        case = tanh_network(LIKELIHOODS["softplus"], prior, temperature=temperature)
        q = MeanField(some_theta(case), some_theta(case) - 1)
        target, key = case.target, jax.random.key(5)

        def elbo(q):
            values = 0.0
            for xi in jax.random.normal(key, (2, case.size)):
                theta = q.mean + q.sigma * xi
                values += case.posterior.log_likelihood(
                    theta, case.posterior.network.arrange(case.data.x), case.data.y
                ) / (2 * temperature)
                if prior.kind == "laplace":
                    values += case.posterior.log_prior(theta, case.data.prior) / (2 * temperature)
            if prior.kind == "normal":
                values += (
                    case.posterior.log_prior(q.mean, case.data.prior) - 0.5 * jnp.sum((q.sigma / 0.6) ** 2)
                ) / temperature
            return values + jnp.sum(jnp.log(q.sigma)) + 0.5 * case.size * jnp.log(2 * jnp.pi * jnp.e)

        (value, slope), found = jax.jit(
            lambda q: (jax.value_and_grad(elbo)(q), objective(key, q, target.evaluate, target, 2))
        )(q)
        np.testing.assert_allclose(found.elbo, value, rtol=1e-12)
        np.testing.assert_allclose(found.gradient.mean, -slope.mean, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found.gradient.rho, -slope.rho, rtol=1e-9, atol=1e-9)


def test_flat_biases_leave_their_entropy_alone_in_the_divergence():
    """kl = KL(q || prior) over the weights - H(q) over the biases, exactly, and its gradient."""
    with jax.enable_x64(True):
        case = tanh_network(LIKELIHOODS["gaussian"], NormalFlatBiasPrior(scale=0.6))
        q, key = MeanField(some_theta(case), some_theta(case) - 1), jax.random.key(5)
        biases = case.posterior.layout.select(roles=["bias"])
        weights = np.setdiff1d(np.arange(case.size), biases)

        def divergence(q):
            sigma, mean = q.sigma, q.mean
            both = jnp.log(0.6 / sigma) + (sigma**2 + mean**2) / (2 * 0.6**2) - 0.5
            return jnp.sum(both[weights]) - jnp.sum(jnp.log(sigma[biases]) + 0.5 * jnp.log(2 * jnp.pi * jnp.e))

        def elbo(q):
            theta = q.mean + q.sigma * jax.random.normal(key, (1, case.size))[0]
            rows = case.posterior.network.arrange(case.data.x)
            return case.posterior.log_likelihood(theta, rows, case.data.y) - divergence(q)

        (value, slope), found = jax.jit(
            lambda q: (jax.value_and_grad(elbo)(q), objective(key, q, case.target.evaluate, case.target, 1))
        )(q)
        np.testing.assert_allclose(found.kl, divergence(q), rtol=1e-12)
        np.testing.assert_allclose(found.elbo, value, rtol=1e-12)
        np.testing.assert_allclose(found.gradient.mean, -slope.mean, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found.gradient.rho, -slope.rho, rtol=1e-9, atol=1e-9)


@pytest.fixture(scope="module")
def fits() -> dict[tuple[float, int | None], tuple[Line, Fit]]:
    """Fits of a linear model in single precision at two temperatures, and from mini-batches."""
    results = {}
    for temperature, batch in ((1.0, None), (0.5, None), (1.0, 7)):
        regression = line(NormalPrior(loc=0.2, scale=0.8), temperature, dtype=jnp.float32)
        config = MeanFieldConfig(
            epochs=3000,
            batch_size=batch,
            samples=1 if batch else 4,
            optimiser=AdamConfig(learning_rate=0.03),
            mean_init="prior",
            sigma_init=0.3,
            steps=2000,
        )
        sampler = build_mean_field(config, regression.case.posterior, regression.case.data)
        assert [phase.steps for phase in sampler.phases] == [3000 * (4 if batch else 1), 2000]
        results[temperature, batch] = regression, drive(sampler, regression.case)
    return results


@pytest.mark.slow
@pytest.mark.parametrize("setting", [(1.0, None), (0.5, None), (1.0, 7)])
def test_optimum_is_the_mean_and_the_inverse_diagonal_of_the_precision(fits, setting):
    """T once: the variance at T is T / diag(precision)."""
    regression, found = fits[setting]
    variance = setting[0] / np.diag(regression.precision)
    tolerance = 0.1 if setting[1] else 0.02
    np.testing.assert_allclose(found.state.q.sigma**2, variance, rtol=2 * tolerance)
    np.testing.assert_allclose(found.state.q.mean, regression.mean, atol=2 * tolerance * np.sqrt(variance.max()))
    assert found.state.q.mean.dtype == jnp.float32
    assert found.state.skipped == 0


def test_unscaled_mini_batches_count_as_the_rows_that_they_have():
    """The optimum knows of batch / rows of the likelihood: 6 of 30 rows, in the mean and in the variances."""
    regression = line(NormalPrior(loc=0.2, scale=0.8), dtype=jnp.float32)
    config = MeanFieldConfig(
        epochs=2000, batch_size=6, unscaled=True, optimiser=AdamConfig(learning_rate=0.02, schedule="cosine"),
        mean_init="prior", sigma_init=0.3, steps=10,
    )  # fmt: skip
    sampler = build_mean_field(config, regression.case.posterior, regression.case.data)
    q = drive(sampler, regression.case).state.q
    prior = np.eye(4) / 0.8**2
    precision = (regression.precision - prior) / 5 + prior
    mean = np.linalg.solve(precision, regression.precision @ regression.mean / 5 + 0.8 * (prior @ np.full(4, 0.2)))
    np.testing.assert_allclose(q.sigma**2, 1 / np.diag(precision), rtol=0.1)
    np.testing.assert_allclose(q.mean, mean, atol=0.05)
    ratio = np.diag(regression.precision) / np.diag(precision)
    assert ratio.max() > 1.5, "too near to the posterior of all rows to tell"


def test_unscaled_needs_mini_batches():
    with pytest.raises(ValueError, match="unscaled is about mini-batches: set batch_size"):
        MeanFieldConfig(unscaled=True, batch_size=None)


def test_draws_are_independent_draws_from_q(fits):
    _, found = fits[1.0, None]
    mean, sigma = (np.asarray(leaf) for leaf in (found.state.q.mean, found.state.q.sigma))
    z = (found.draws - mean) / sigma
    np.testing.assert_allclose(z.mean(0), 0, atol=0.1)
    np.testing.assert_allclose(np.cov(z.T), np.eye(4), atol=0.1)
    np.testing.assert_allclose(np.sum(z[1:] * z[:-1], axis=0) / len(z), 0, atol=0.1)
    assert not found.statistics["divergent"].any()


@pytest.mark.parametrize("setting", [(1.0, None), (0.5, None)])
def test_statistics_of_the_draws(fits, setting):
    regression, found = fits[setting]
    statistics, temperature = found.statistics, setting[0]
    joint = statistics["log_likelihood"] + statistics["log_prior"]
    log_q = stats.norm.logpdf(found.draws, *map(np.asarray, (found.state.q.mean, found.state.q.sigma))).sum(1)
    np.testing.assert_allclose(statistics["elbo"], joint / temperature - log_q, rtol=1e-5)
    with jax.enable_x64(True):
        wide = line(NormalPrior(loc=0.2, scale=0.8), temperature)
        q = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), found.state.q)
        expected = float(exact_elbo(wide, q))
    error = statistics["elbo"].std() / np.sqrt(len(joint))
    assert abs(statistics["elbo"].mean() - expected) < 4.5 * error
    assert np.ptp(statistics["kl"]) == 0
    estimates = log_q - statistics["log_prior"] / temperature
    assert abs(estimates.mean() - statistics["kl"][0]) < 4.5 * estimates.std() / np.sqrt(len(joint)) + 1e-4
    if temperature == 1.0:
        assert expected < regression.log_evidence


def test_starts_where_the_settings_say():
    regression = line(NormalPrior(loc=0.2), dtype=jnp.float32)
    start = jnp.arange(4, dtype=jnp.float32)
    for init, expected in (("warm_start", start), ("prior", np.full(4, 0.2))):
        for sigma in (1e-4, 0.01, 30.0):
            config = MeanFieldConfig(mean_init=init, sigma_init=sigma, batch_size=None)
            sampler = build_mean_field(config, regression.case.posterior, regression.case.data)
            state = sampler.init(jax.random.key(0), start, regression.case.target)
            np.testing.assert_allclose(state.q.mean, expected, rtol=1e-6)
            np.testing.assert_allclose(state.q.sigma, sigma, rtol=1e-4)
