"""HMC and MCLMC against NumPyro's NUTS on small posteriors, in moments and in function space."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import MCMC, NUTS

from bnn_atlas.config.methods import HMCConfig, MCLMCConfig
from bnn_atlas.config.posterior import LearnedNoiseLikelihood, MLPConfig, StandardNormalPrior
from bnn_atlas.metrics.diagnostics import ess_bulk
from bnn_atlas.posterior.density import build_posterior, posterior_data
from bnn_atlas.samplers.hmc import build_hmc
from bnn_atlas.samplers.mile import build_mile

from .problems import Problem, learned_noise_line, regression
from .running import run


def nuts(model, warmup, samples, chains):
    sampler = MCMC(
        NUTS(model),
        num_warmup=warmup,
        num_samples=samples,
        num_chains=chains,
        chain_method="vectorized",
        progress_bar=False,
    )
    sampler.run(jax.random.key(11))
    return sampler.get_samples(group_by_chain=True)


def line_reference():
    """Weights, bias and log sigma of a line, as [chain, draw, scalar]."""
    _, _, x, y = learned_noise_line()

    def model():
        weight = numpyro.sample("weight", dist.Normal(0, 1).expand([2]))
        bias = numpyro.sample("bias", dist.Normal(0, 1))
        log_sigma = numpyro.sample("log_sigma", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(x @ weight + bias, jnp.exp(log_sigma)), obs=y)

    draws = nuts(model, 500, 2000, 4)
    return {name: np.asarray(value) for name, value in draws.items()}


def network_posterior():
    posterior, prior = build_posterior(
        MLPConfig(hidden=(3,), activation="tanh"),
        LearnedNoiseLikelihood(),
        StandardNormalPrior(),
        temperature=1.0,
        features=1,
    )
    x, y = regression(rows=20, features=2)
    return posterior, posterior_data(x[:, :1], y, prior), x[:, :1], y


def network_reference():
    """Function values of a 1-3-1 tanh network at five inputs, as [chain, draw, input]."""
    _, _, x, y = network_posterior()
    grid = jnp.linspace(-2, 2, 5)[:, None]

    def forward(x, w0, b0, w1, b1):
        return jnp.tanh(x @ w0.T + b0) @ w1 + b1

    def model():
        w0 = numpyro.sample("w0", dist.Normal(0, 1).expand([3, 1]))
        b0 = numpyro.sample("b0", dist.Normal(0, 1).expand([3]))
        w1 = numpyro.sample("w1", dist.Normal(0, 1).expand([3]))
        b1 = numpyro.sample("b1", dist.Normal(0, 1))
        log_sigma = numpyro.sample("log_sigma", dist.Normal(0, 1))
        numpyro.deterministic("f", forward(grid, w0, b0, w1, b1))
        numpyro.sample("y", dist.Normal(forward(x, w0, b0, w1, b1), jnp.exp(log_sigma)), obs=y)

    draws = nuts(model, 500, 1500, 6)
    return np.concatenate([draws["f"], draws["log_sigma"][..., None]], axis=-1)


METHODS = {
    "hmc": HMCConfig(burn_in=200, steps=3000, step_size=0.1, trajectory_length=1.5, adapt_step_size=True),
    "mclmc": MCLMCConfig(
        warmup=8000,
        steps=60000,
        thinning=10,
        step_size_init=0.05,
        energy_variance_start=0.01,
        energy_variance_end=0.002,
    ),
}


def build(name, posterior):
    config = METHODS[name]
    return build_hmc(config, 1.0) if name == "hmc" else build_mile(config, posterior.layout.size, 1.0)


def assert_same_moments(ours, theirs, bias=0.0):
    """Means and standard deviations of [chain, draw, scalar] agree within four Monte Carlo standard errors + bias."""
    for scalar in range(ours.shape[-1]):
        a, b = ours[..., scalar].astype(float), theirs[..., scalar].astype(float)
        error = np.hypot(a.std() / np.sqrt(ess_bulk(a)), b.std() / np.sqrt(ess_bulk(b)))
        assert abs(a.mean() - b.mean()) < 4 * error + bias * b.std(), f"mean of scalar {scalar}"
        squares = (a - a.mean()) ** 2, (b - b.mean()) ** 2
        spread = np.hypot(*(s.std() / np.sqrt(ess_bulk(s)) for s in squares))
        assert abs(a.var() - b.var()) < 4 * spread + 2 * bias * b.var(), f"variance of scalar {scalar}"


@pytest.fixture(scope="module")
def line():
    return line_reference()


@pytest.fixture(scope="module")
def functions():
    return network_reference()


@pytest.mark.parametrize("method", list(METHODS))
def test_line_with_learned_noise(method, line, tmp_path):
    posterior, data, _, _ = learned_noise_line()
    starts = 0.1 * np.random.default_rng(0).normal(size=(4, posterior.layout.size)).astype(np.float32)
    trace = run(build(method, posterior), Problem(posterior, data, starts), tmp_path / "t.zarr", checkpoint_every=5000)
    arrays = posterior.layout.unflatten(trace.read())
    ours = np.concatenate(
        [arrays["layer0.weight"][:, :, 0], arrays["layer0.bias"], arrays["log_sigma"][..., None]], axis=-1
    )
    theirs = np.concatenate([line["weight"], line["bias"][..., None], line["log_sigma"][..., None]], axis=-1)
    # Unadjusted MCLMC is biased by its step size; at this energy variance by a few percent of a standard deviation.
    assert_same_moments(ours, theirs, bias=0.0 if method == "hmc" else 0.04)


@pytest.mark.parametrize("method", list(METHODS))
def test_network_in_function_space(method, functions, tmp_path):
    posterior, data, _, _ = network_posterior()
    starts = 0.5 * np.random.default_rng(0).normal(size=(6, posterior.layout.size)).astype(np.float32)
    trace = run(build(method, posterior), Problem(posterior, data, starts), tmp_path / "t.zarr", checkpoint_every=5000)
    theta = trace.read()
    grid = jnp.linspace(-2, 2, 5)[:, None]
    mean = jax.jit(posterior.predict)(theta.reshape(-1, theta.shape[-1]), grid).mean
    ours = np.concatenate([np.asarray(mean).reshape(*theta.shape[:2], -1), theta[..., -1:]], axis=-1)
    assert_same_moments(ours, functions, bias=0.0 if method == "hmc" else 0.05)
