"""Every kind of sampler against NumPyro's NUTS on the posterior of a small network, in function space."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import MCMC, NUTS

from bnn_atlas.config.methods.hmc import AdjustedMCLMCConfig, HMCConfig, NUTSConfig
from bnn_atlas.config.methods.mclmc import MCLMCConfig
from bnn_atlas.config.methods.sgmcmc import SGHMCConfig
from bnn_atlas.config.parts.posterior import LearnedNoiseLikelihood, MLPConfig
from bnn_atlas.config.parts.priors import StandardNormalPrior
from bnn_atlas.metrics.formulas.rhat_ess import ess_bulk
from bnn_atlas.posterior.density import build_posterior, posterior_data

from .harness import Setting, build
from .problems import Problem, regression
from .running import run

CHAINS = 16
GRID = jnp.linspace(-2, 2, 5)[:, None]
METHODS = {
    "hmc": Setting(HMCConfig(burn_in=200, steps=1200, step_size=0.1, trajectory_length=1.5, adapt_step_size=True)),
    "nuts": Setting(NUTSConfig(warmup=300, steps=500, step_size=0.1)),
    "adjusted mclmc": Setting(AdjustedMCLMCConfig(warmup=300, steps=1500, step_size=0.1)),
    "mclmc": Setting(
        MCLMCConfig(
            warmup=6000,
            steps=24000,
            thinning=10,
            step_size_init=0.05,
            energy_variance_start=0.01,
            energy_variance_end=0.002,
        ),
        bias=0.05,
    ),
    "sghmc": Setting(
        SGHMCConfig(epochs=62_000, burn_in_epochs=2000, ensemble_every=20, batch_size=16, step_size=3e-4), bias=0.05
    ),
}


def network_problem() -> Problem:
    """A 1-3-1 tanh network with learned noise on 20 rows, chains starting at draws from the prior."""
    posterior, prior = build_posterior(
        MLPConfig(hidden=(3,), activation="tanh"),
        LearnedNoiseLikelihood(),
        StandardNormalPrior(),
        temperature=1.0,
        shape=(1,),
    )
    x, y = regression(rows=20, features=2)
    starts = np.random.default_rng(0).normal(size=(CHAINS, posterior.layout.size)).astype(np.float32)
    return Problem(posterior, posterior_data(x[:, :1], y, prior), starts)


@pytest.fixture(scope="module")
def reference() -> np.ndarray:
    """Function values at the grid and the log noise, as NumPyro has them, [chain, draw, quantity]."""
    data = network_problem().data

    def forward(x, w0, b0, w1, b1):
        return jnp.tanh(x @ w0.T + b0) @ w1 + b1

    def model():
        w0 = numpyro.sample("w0", dist.Normal(0, 1).expand([3, 1]))
        b0 = numpyro.sample("b0", dist.Normal(0, 1).expand([3]))
        w1 = numpyro.sample("w1", dist.Normal(0, 1).expand([3]))
        b1 = numpyro.sample("b1", dist.Normal(0, 1))
        log_sigma = numpyro.sample("log_sigma", dist.Normal(0, 1))
        numpyro.deterministic("f", forward(GRID, w0, b0, w1, b1))
        numpyro.sample("y", dist.Normal(forward(data.x, w0, b0, w1, b1), jnp.exp(log_sigma)), obs=data.y)

    sampler = MCMC(
        NUTS(model), num_warmup=200, num_samples=400, num_chains=CHAINS, chain_method="vectorized", progress_bar=False
    )
    sampler.run(jax.random.key(11))
    draws = sampler.get_samples(group_by_chain=True)
    return np.concatenate([draws["f"], draws["log_sigma"][..., None]], axis=-1)


def assert_same_moments(ours: np.ndarray, theirs: np.ndarray, bias: float) -> None:
    """Means and standard deviations of [chain, draw, quantity] agree within 4 Monte Carlo errors and the bias.

    The bias is in standard deviations; Monte Carlo errors too large to notice a fifth of one fail too.
    """
    ours, theirs = ours.astype(float), theirs.astype(float)
    centre, scale = theirs.mean((0, 1)), theirs.std((0, 1))
    for power, factor in ((1, 1), (2, 2)):
        a, b = (((draws - centre) / scale) ** power for draws in (ours, theirs))
        error = np.hypot(*(z.std((0, 1)) / np.sqrt(ess_bulk(z)) for z in (a, b)))
        difference = np.abs(a.mean((0, 1)) - b.mean((0, 1)))
        assert (4 * error).max() < 0.2 * factor, f"too few draws for moment {power}: {error}"
        assert (difference - 4 * error - factor * bias).max() < 0, f"moment {power} is off by {difference} +- {error}"


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_network_in_function_space(name, reference, tmp_path):
    method, problem = METHODS[name], network_problem()
    trace = run(build(method.config, problem), problem, tmp_path / "t.zarr", checkpoint_every=100_000)
    theta = trace.read()
    mean = jax.jit(problem.posterior.predict)(theta.reshape(-1, theta.shape[-1]), GRID).mean
    ours = np.concatenate([np.asarray(mean).reshape(*theta.shape[:2], -1), theta[..., -1:]], axis=-1)
    assert_same_moments(ours, reference, method.bias)
